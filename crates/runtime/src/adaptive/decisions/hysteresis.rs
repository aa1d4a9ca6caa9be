//! What keeps choices from swinging, and assumptions from being made again and again.
//!
//! [`Hysteresis`] guards a choice between alternatives: another one has to be better by a margin, the last change has to be
//! some time ago, and that time doubles with every change that did not pay. [`Trust`] guards an assumption on the data: each
//! time that it breaks it takes more rows without exception until it is made again, and at last it is given up for a while.

use std::time::Duration;

/// How hard it is to change a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Inertia {
    /// What the other alternative may cost at most, relative to the one in use, to replace it.
    pub(crate) margin: f64,
    /// Least time between two changes.
    pub(crate) hold: Duration,
}

/// Of code that has to be compiled: some tens of milliseconds must come back.
pub(crate) const COMPILED: Inertia = Inertia { margin: 0.95, hold: Duration::from_millis(200) };
/// Of tables whose layout changes: slices that are open have tables of both kinds once.
pub(crate) const TABLES: Inertia = Inertia { margin: 0.85, hold: Duration::from_millis(500) };

/// Most doublings of the time between changes.
const MOST_DOUBLINGS: u32 = 8;

/// The state of a choice. Times are since the start of the query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hysteresis {
    inertia: Inertia,
    changed_at: Option<Duration>,
    /// Changes in a row that did not pay.
    futile: u32,
}

impl Hysteresis {
    /// Of a choice that has not been changed.
    pub(crate) fn new(inertia: Inertia) -> Hysteresis {
        Hysteresis { inertia, changed_at: None, futile: 0 }
    }

    /// Whether the alternative in use, which costs `used`, is to be replaced by one that costs `other`. Same units.
    pub(crate) fn allows(&self, now: Duration, used: f64, other: f64) -> bool {
        other < self.inertia.margin * used && self.is_open(now)
    }

    /// Whether the last change is long enough ago.
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        self.changed_at.is_none_or(|changed| now.saturating_sub(changed) >= self.wait())
    }

    /// The time between two changes.
    pub(crate) fn wait(&self) -> Duration {
        self.inertia.hold * (1 << self.futile.min(MOST_DOUBLINGS))
    }

    /// What a change has come to that was tried until now: nanoseconds per row before and after.
    pub(crate) fn judged(&mut self, now: Duration, before: f64, after: f64) {
        self.changed_at = Some(now);
        match after < before {
            true => self.futile = 0,
            false => self.futile = (self.futile + 1).min(MOST_DOUBLINGS),
        }
    }
}

/// Breaks after which an assumption is given up.
const MOST_BREAKS: u32 = 5;
/// Each break multiplies the rows needed before the assumption is made again by this.
const PER_BREAK: u64 = 8;
/// Time without the assumption after which its breaks are forgiven, one by one.
const FORGIVEN_AFTER: Duration = Duration::from_secs(30);

/// How often an assumption has been broken. Times are since the start of the query.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trust {
    breaks: u32,
    broken_at: Duration,
}

impl Trust {
    /// The assumption was broken. What breaks within `Trust`'s memory of the last time counts on top of it.
    pub(crate) fn broke(&mut self, now: Duration) {
        self.breaks = (self.breaks_at(now) + 1).min(MOST_BREAKS);
        self.broken_at = now;
    }

    /// How many rows without exception it takes to make the assumption, when `first` are enough the first time. `None` while
    /// it is given up.
    pub(crate) fn rows_needed(&self, now: Duration, first: u64) -> Option<u64> {
        let breaks = self.breaks_at(now);
        (breaks < MOST_BREAKS).then(|| first.saturating_mul(PER_BREAK.saturating_pow(breaks)))
    }

    /// Breaks that are not forgiven.
    pub(crate) fn breaks_at(&self, now: Duration) -> u32 {
        let forgiven = now.saturating_sub(self.broken_at).as_secs() / FORGIVEN_AFTER.as_secs();
        self.breaks.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_change_has_to_be_worth_it_and_not_too_soon() {
        let mut of = Hysteresis::new(Inertia { margin: 0.9, hold: at(100) });
        assert_eq!([91.0, 90.0, 89.0].map(|other| of.allows(at(0), 100.0, other)), [false, false, true]);
        of.judged(at(1000), 10.0, 5.0);
        assert_eq!([1050, 1099, 1100].map(|now| of.allows(at(now), 100.0, 10.0)), [false, false, true]);
    }

    #[test]
    fn changes_that_do_not_pay_become_rare() {
        let mut of = Hysteresis::new(Inertia { margin: 0.9, hold: at(100) });
        let waits: Vec<Duration> = (0..10)
            .map(|_| {
                of.judged(at(0), 10.0, 10.5);
                of.wait()
            })
            .collect();
        assert_eq!((waits[0], waits[1], waits[9]), (at(200), at(400), at(25_600)));
        of.judged(at(0), 10.0, 5.0);
        assert_eq!(of.wait(), at(100));
    }

    #[test]
    fn broken_assumptions_need_ever_more_rows_and_are_given_up() {
        let mut trust = Trust::default();
        let mut needed = Vec::new();
        for time in 0..6 {
            needed.push(trust.rows_needed(at(time), 1000));
            trust.broke(at(time));
        }
        assert_eq!(needed, [Some(1000), Some(8000), Some(64_000), Some(512_000), Some(4_096_000), None]);
        assert_eq!(trust.rows_needed(at(5 + 29_999), 1000), None);
        assert_eq!(trust.rows_needed(at(5 + 30_000), 1000), Some(4_096_000), "one is forgiven");
        assert_eq!(trust.rows_needed(at(10_000_000), 1000), Some(1000), "all are");
    }
}
