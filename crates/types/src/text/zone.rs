//! Between UTC and the local time of a zone.

use crate::TimeUnit;
use chrono::{DateTime, FixedOffset, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

/// A time zone: a region of the IANA database, or a fixed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// A region.
    Region(Tz),
    /// Seconds east of UTC.
    Fixed(i32),
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

    /// Offset from UTC at a moment, in seconds east.
    pub fn offset_at(self, utc_seconds: i64) -> i64 {
        match self {
            Zone::Fixed(seconds) => i64::from(seconds),
            Zone::Region(Tz::UTC) => 0,
            Zone::Region(tz) => match naive(utc_seconds) {
                Some(utc) => i64::from(tz.offset_from_utc_datetime(&utc).fix().local_minus_utc()),
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
        let east = |offset: FixedOffset| i64::from(offset.local_minus_utc());
        let offset = match tz.offset_from_local_datetime(&local).map(|o| o.fix()) {
            chrono::LocalResult::Single(offset) | chrono::LocalResult::Ambiguous(offset, _) => east(offset),
            // The offset before the gap: gaps are shorter than a day and further apart than that.
            chrono::LocalResult::None => self.offset_at(local_seconds - 86_400),
        };
        local_seconds - offset
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
}
