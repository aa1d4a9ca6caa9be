//! Between UTC and the local time of a zone.

use crate::TimeUnit;
use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;
use std::fmt;

/// Seconds of a day. Changes of a zone's offset are further apart, and change it by no more.
const DAY: i64 = 86_400;

/// A time zone: a region of the IANA database, or a fixed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// A region.
    Region(Tz),
    /// Seconds east of UTC.
    Fixed(i32),
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::UTC
    }
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// Reads `Europe/Berlin`, `UTC`, `Z`, `+08:00`, `-0130`, `GMT+8` or `UTC-03:30`.
    pub fn parse(name: &str) -> Option<Zone> {
        let name = name.trim();
        if matches!(name, "UTC" | "Z" | "GMT" | "UT") {
            return Some(Zone::UTC);
        }
        let offset = ["UTC", "GMT", "UT"].iter().find_map(|p| name.strip_prefix(p)).unwrap_or(name);
        if let Some(seconds) = parse_offset(offset) {
            return Some(Zone::Fixed(seconds));
        }
        name.parse().ok().map(Zone::Region)
    }

    /// Offset from UTC in seconds east, if it is the same at every moment.
    pub fn fixed_offset_seconds(self) -> Option<i64> {
        match self {
            Zone::Fixed(seconds) => Some(seconds.into()),
            Zone::Region(Tz::UTC) => Some(0),
            Zone::Region(_) => None,
        }
    }

    /// Offset from UTC at a moment, in seconds east.
    pub fn offset_at(self, utc_seconds: i64) -> i64 {
        match self {
            Zone::Fixed(seconds) => i64::from(seconds),
            Zone::Region(Tz::UTC) => 0,
            Zone::Region(tz) => match naive(utc_seconds) {
                Some(utc) => east(&tz.offset_from_utc_datetime(&utc)),
                // Chrono ends some 260,000 years from now; no rule is known there.
                None => 0,
            },
        }
    }

    /// Local time of a moment, both in seconds since 1970-01-01 00:00:00.
    pub fn utc_to_local_seconds(self, utc_seconds: i64) -> i64 {
        utc_seconds.saturating_add(self.offset_at(utc_seconds))
    }

    /// The moment of a local time. As in `java.time`: of a time that occurs twice the earlier moment; a time that is
    /// skipped is moved on by the length of the gap.
    pub fn local_to_utc_seconds(self, local_seconds: i64) -> i64 {
        let Zone::Region(tz) = self else { return local_seconds.saturating_sub(self.offset_at(0)) };
        if tz == Tz::UTC {
            return local_seconds;
        }
        let Some(local) = naive(local_seconds) else { return local_seconds };
        let offset = match tz.offset_from_local_datetime(&local).map(|o| east(&o)) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset,
            // The offset before the gap.
            LocalResult::None => self.offset_at(local_seconds - DAY),
        };
        local_seconds - offset
    }

    /// Whether local time is UTC at every moment.
    pub fn is_utc(self) -> bool {
        matches!(self, Zone::Fixed(0) | Zone::Region(Tz::UTC))
    }

    /// The local time that a moment has reached for good, both in milliseconds: no later moment has an earlier one. That is
    /// the moment's own local time, but when clocks are about to be put back, what they will show is not reached before
    /// they show it for the last time. Grows with the moment; the first and the last `i64` stay what they are.
    pub fn reached_local(self, utc_ms: i64) -> i64 {
        let tz = match self {
            Zone::Fixed(seconds) => return shifted(utc_ms, i64::from(seconds)),
            Zone::Region(tz) => tz,
        };
        let utc = utc_ms.div_euclid(1_000);
        let offset = self.offset_at(utc);
        if let Some(local) = naive(utc.saturating_add(offset))
            && let LocalResult::Ambiguous(first, second) = tz.offset_from_local_datetime(&local).map(|o| east(&o))
            && first == offset
        {
            // The first of two times: they are what clocks show again from the change on.
            let change = self.change_between(utc, utc + first - second);
            return (change + second) * 1_000 - 1;
        }
        shifted(utc_ms, offset)
    }

    /// The first moment that has reached a local time for good, both in milliseconds: of a time that occurs twice that of
    /// the second; of one that is skipped that of the change.
    pub fn reaches_local_at(self, local_ms: i64) -> i64 {
        let tz = match self {
            Zone::Fixed(seconds) => return shifted(local_ms, -i64::from(seconds)),
            Zone::Region(tz) => tz,
        };
        let local = local_ms.div_euclid(1_000);
        let Some(shown) = naive(local) else { return local_ms };
        match tz.offset_from_local_datetime(&shown).map(|o| east(&o)) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(_, offset) => shifted(local_ms, -offset),
            LocalResult::None => self.change_between(local - DAY, local + DAY) * 1_000,
        }
    }

    /// The second in which the offset changes: the only one after `before` and not after `after`.
    fn change_between(self, before: i64, after: i64) -> i64 {
        let old = self.offset_at(before);
        let (mut before, mut after) = (before, after);
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match self.offset_at(middle) == old {
                true => before = middle,
                false => after = middle,
            }
        }
        after
    }

    /// [`Zone::utc_to_local_seconds`] of a timestamp in `unit`.
    pub fn utc_to_local(self, value: i64, unit: TimeUnit) -> i64 {
        let per_second = unit.per_second();
        value.saturating_add(self.offset_at(value.div_euclid(per_second)) * per_second)
    }

    /// [`Zone::local_to_utc_seconds`] of a timestamp in `unit`.
    pub fn local_to_utc(self, value: i64, unit: TimeUnit) -> i64 {
        let per_second = unit.per_second();
        let local = value.div_euclid(per_second);
        let shift = local - self.local_to_utc_seconds(local);
        value.saturating_sub(shift * per_second)
    }
}

impl From<Tz> for Zone {
    fn from(tz: Tz) -> Zone {
        Zone::Region(tz)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Region(tz) => f.write_str(tz.name()),
            Zone::Fixed(0) => f.write_str("UTC"),
            Zone::Fixed(east) => {
                let (sign, seconds) = (if *east < 0 { '-' } else { '+' }, east.abs());
                write!(f, "{sign}{:02}:{:02}", seconds / 3_600, seconds / 60 % 60)?;
                if seconds % 60 == 0 { Ok(()) } else { write!(f, ":{:02}", seconds % 60) }
            }
        }
    }
}

/// Local time in the zone of the moments that are asked for, one day after the other: the offset of a day on which nothing
/// changes is looked up once.
#[derive(Debug, Clone, Copy)]
pub struct LocalClock {
    zone: Zone,
    /// First second of the day; the offset is the same until the end of the next one.
    even: Option<(i64, i64)>,
}

impl LocalClock {
    /// A clock of a zone.
    pub fn new(zone: Zone) -> LocalClock {
        LocalClock { zone, even: None }
    }

    /// The offset of the day of a moment and of the next day, if it does not change on them.
    #[inline]
    fn even_offset(&mut self, utc_seconds: i64) -> Option<i64> {
        match self.even {
            Some((day, offset)) if (0..DAY).contains(&utc_seconds.wrapping_sub(day)) => Some(offset),
            _ => self.look_up(utc_seconds),
        }
    }

    #[cold]
    fn look_up(&mut self, utc_seconds: i64) -> Option<i64> {
        let day = utc_seconds.checked_sub(utc_seconds.rem_euclid(DAY))?;
        let (offset, end) = (self.zone.offset_at(day), day.checked_add(2 * DAY)?);
        let is_even = offset == self.zone.offset_at(day + DAY) && offset == self.zone.offset_at(end);
        self.even = is_even.then_some((day, offset));
        is_even.then_some(offset)
    }

    /// [`Zone::utc_to_local`].
    #[inline]
    pub fn utc_to_local(&mut self, value: i64, unit: TimeUnit) -> i64 {
        let per_second = unit.per_second();
        match self.even_offset(value.div_euclid(per_second)) {
            Some(offset) => value.saturating_add(offset * per_second),
            None => self.zone.utc_to_local(value, unit),
        }
    }

    /// [`Zone::reached_local`].
    #[inline]
    pub fn reached_local(&mut self, utc_ms: i64) -> i64 {
        match self.even_offset(utc_ms.div_euclid(1_000)) {
            Some(offset) => shifted(utc_ms, offset),
            None => self.zone.reached_local(utc_ms),
        }
    }
}

fn east(offset: &impl Offset) -> i64 {
    i64::from(offset.fix().local_minus_utc())
}

/// Milliseconds moved by seconds. No time and the end of all times stay what they are.
fn shifted(ms: i64, seconds: i64) -> i64 {
    match ms {
        i64::MIN | i64::MAX => ms,
        _ => ms.saturating_add(seconds * 1_000).clamp(i64::MIN + 1, i64::MAX - 1),
    }
}

fn naive(seconds: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp(seconds, 0).map(|t| t.naive_utc())
}

/// Reads `+8`, `-08`, `+0830` or `+08:30[:15]`, in seconds; at most 18 hours.
pub fn parse_offset(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    let sign = match bytes.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits = &text[1..];
    let number = |s: &str| -> Option<i32> {
        (matches!(s.len(), 1 | 2) && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())?
    };
    let (hours, minutes, seconds) = if digits.contains(':') {
        let mut parts = digits.split(':');
        let fields = (number(parts.next()?)?, number(parts.next()?)?, parts.next().map_or(Some(0), number)?);
        if parts.next().is_some() {
            return None;
        }
        fields
    } else if digits.len() == 4 && digits.is_ascii() {
        (number(&digits[..2])?, number(&digits[2..])?, 0)
    } else {
        (number(digits)?, 0, 0)
    };
    let total = hours * 3_600 + minutes * 60 + seconds;
    (minutes < 60 && seconds < 60 && total <= 18 * 3_600).then_some(sign * total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_offsets_are_read() {
        assert_eq!(Zone::parse("GMT+8"), Some(Zone::Fixed(28_800)));
        assert_eq!(Zone::parse("-03:30"), Some(Zone::Fixed(-12_600)));
        assert_eq!(Zone::parse("+0530"), Some(Zone::Fixed(19_800)));
        assert_eq!(Zone::parse("Europe/Berlin"), Some(Zone::Region(Tz::Europe__Berlin)));
        for bad in ["", "+", "+25:00", "+08:61", "Mars/Olympus", "+1:2:3:4", "+ä"] {
            assert_eq!(Zone::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn gaps_and_overlaps_follow_java() {
        let berlin = Zone::Region(Tz::Europe__Berlin);
        let utc = |s: &str| NaiveDateTime::parse_from_str(s, "%Y-%m-%d %H:%M:%S").unwrap().and_utc().timestamp();
        // 02:30 does not exist on 2024-03-31: it means 03:30 summer time.
        assert_eq!(berlin.local_to_utc_seconds(utc("2024-03-31 02:30:00")), utc("2024-03-31 01:30:00"));
        // 02:30 occurs twice on 2024-10-27: the first is in summer time.
        assert_eq!(berlin.local_to_utc_seconds(utc("2024-10-27 02:30:00")), utc("2024-10-27 00:30:00"));
        for t in (utc("2023-01-01 00:00:00")..utc("2025-01-01 00:00:00")).step_by(10_007) {
            let local = berlin.utc_to_local_seconds(t);
            let back = berlin.local_to_utc_seconds(local);
            assert!(back == t || back == t - 3_600, "{t}");
            assert_eq!(berlin.utc_to_local(t * 1_000 + 7, TimeUnit::Milli), local * 1_000 + 7);
        }
    }

    /// The hours about the changes of a zone since 2005, in seconds.
    fn about_changes(zone: Zone) -> impl Iterator<Item = i64> {
        let changes = (1_100_000_000..1_800_000_000).step_by(1_800);
        let changes = changes.filter(move |&s| zone.offset_at(s) != zone.offset_at(s - 1_800));
        changes.flat_map(|s| (s - 30 * 3_600..s + 30 * 3_600).step_by(599))
    }

    #[test]
    fn local_time_is_reached_when_no_clock_will_show_less() {
        let zones =
            ["Europe/Berlin", "America/Sao_Paulo", "Europe/Moscow", "Australia/Lord_Howe", "Pacific/Apia", "+05:45"];
        for zone in zones.map(|name| Zone::parse(name).unwrap()) {
            let mut clock = LocalClock::new(zone);
            for second in about_changes(zone).chain([0, -1, 86_399]) {
                for ms in [second * 1_000 - 1, second * 1_000] {
                    let reached = zone.reached_local(ms);
                    let local = zone.utc_to_local(ms, TimeUnit::Milli);
                    assert!(reached <= local && zone.reached_local(ms - 1) <= reached, "{zone} {ms}");
                    // From here on no local time is less: a day is more than any clock is put back.
                    let later = (1..=48).map(|half| zone.utc_to_local(ms + half * 1_800_000, TimeUnit::Milli));
                    assert!(later.min() > Some(reached), "{zone} {ms}");
                    assert_eq!(clock.reached_local(ms), reached, "{zone} {ms}");
                    assert_eq!(clock.utc_to_local(ms, TimeUnit::Milli), local, "{zone} {ms}");
                    for time in [local, reached, local + 1_800_000, local + 3_600_000] {
                        let at = zone.reaches_local_at(time);
                        assert!(zone.reached_local(at) >= time && zone.reached_local(at - 1) < time, "{zone} {time}");
                    }
                }
            }
            assert_eq!([i64::MIN, i64::MAX].map(|end| zone.reached_local(end)), [i64::MIN, i64::MAX]);
        }
    }

    #[test]
    fn zones_are_shown_as_they_are_read() {
        for name in ["Europe/Berlin", "UTC", "-03:30", "+05:45"] {
            assert_eq!(Zone::parse(name).unwrap().to_string(), name);
        }
    }
}
