//! Timers: when the supervisor of a query has to wake up although nobody calls it.
//!
//! Some things happen by time: a sink is flushed some time after rows were written to it, a silent split is left out of
//! the watermark, rows of regular joins expire, windows of processing time end while no row comes, a checkpoint is due. Each of them knows when
//! it is due next; the supervisor sleeps until the first of these moments, or forever when there is none.
//!
//! Whoever makes something due first writes it down where the supervisor looks for it and then calls [`Timers::is_news`]
//! with the moment. The supervisor calls [`Timers::begin`] *before* it looks, and [`Timers::arm`] with what it has found.
//! So either it finds what was written down, or the caller sees that it sleeps for longer, or is still looking, and wakes
//! it. Both atomics are sequentially consistent for that.
//!
//! Windows of processing time end at watermarks of the clock. Their operators note the watermarks that they wait for
//! ([`Timers::note`]); reaching one makes all streams that follow the clock read it. A watermark noted twice, or in vain,
//! costs a look at the clock and nothing else.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Never, as nanoseconds.
const NEVER: u64 = u64::MAX;

/// See the module.
pub(crate) struct Timers {
    started: Instant,
    /// When the supervisor wakes, in nanoseconds since `started`.
    armed: AtomicU64,
    /// Something is due before that.
    is_rearmed: AtomicBool,
    /// Watermarks that operators wait for, if there is a clock to reach them.
    noted: Option<Mutex<BTreeSet<i64>>>,
    /// By how much watermarks of operators stay behind those of their sources at most.
    lag_ms: i64,
}

/// What the clock has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockDue {
    /// Whether a watermark was reached that someone waits for.
    pub(crate) reached: bool,
    /// Milliseconds until the next one.
    pub(crate) next_ms: Option<u64>,
}

impl Timers {
    /// Nothing is due; `follows_clock` says whether time is that of processing for some source, and `lag_ms` by how much
    /// watermarks behind operators can be behind it.
    pub(crate) fn new(follows_clock: bool, lag_ms: i64) -> Timers {
        Timers {
            started: Instant::now(),
            armed: AtomicU64::new(NEVER),
            is_rearmed: AtomicBool::new(false),
            noted: follows_clock.then(|| Mutex::new(BTreeSet::new())),
            lag_ms,
        }
    }

    /// The supervisor is going to look for what is due.
    pub(crate) fn begin(&self) {
        self.is_rearmed.store(false, Ordering::SeqCst);
        self.armed.store(NEVER, Ordering::SeqCst);
    }

    /// The supervisor sleeps until then.
    pub(crate) fn arm(&self, at: Option<Instant>) {
        self.armed.store(at.map_or(NEVER, |at| self.nanos(at)), Ordering::SeqCst);
    }

    /// Whether the supervisor has to look again before it sleeps on.
    pub(crate) fn is_rearmed(&self) -> bool {
        self.is_rearmed.load(Ordering::SeqCst)
    }

    /// Something is due at a moment; whether the caller has to wake the supervisor for that.
    #[must_use]
    pub(crate) fn is_news(&self, at: Instant) -> bool {
        let is_earlier = self.nanos(at) < self.armed.load(Ordering::SeqCst);
        is_earlier && !self.is_rearmed.swap(true, Ordering::SeqCst)
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.started).as_nanos()).unwrap_or(NEVER - 1).min(NEVER - 1)
    }

    /// Notes a watermark that an operator waits for; whether it has to be told to the supervisor.
    pub(crate) fn note(&self, watermark: i64) -> bool {
        let Some(noted) = &self.noted else { return false };
        if watermark == i64::MAX {
            return false;
        }
        let mut noted = noted.lock();
        let later = watermark.saturating_add(self.lag_ms);
        noted.insert(watermark) | (later > watermark && later < i64::MAX && noted.insert(later))
    }

    /// Forgets the watermarks that have been reached when the clock shows `now_ms`: rows of this millisecond may come.
    pub(crate) fn clock_due(&self, now_ms: i64) -> ClockDue {
        let Some(noted) = &self.noted else { return ClockDue { reached: false, next_ms: None } };
        let mut noted = noted.lock();
        let later = noted.split_off(&now_ms);
        let reached = !std::mem::replace(&mut *noted, later).is_empty();
        let next_ms = noted.first().map(|&next| (next - now_ms + 1).unsigned_abs());
        ClockDue { reached, next_ms }
    }
}

/// The earlier of two moments, where there are any.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}

/// The moment `ms` milliseconds after `now`; `None` when that is too far away to be waited for.
pub(crate) fn after(now: Instant, ms: u64) -> Option<Instant> {
    now.checked_add(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supervisor_is_woken_for_what_is_due_before_it_wakes() {
        let timers = Timers::new(false, 0);
        let at = |ms| timers.started + Duration::from_millis(ms);
        timers.begin();
        timers.arm(Some(at(100)));
        assert!(!timers.is_news(at(100)) && !timers.is_rearmed());
        assert!(timers.is_news(at(99)) && timers.is_rearmed());
        assert!(!timers.is_news(at(98)), "it has been woken");
        timers.begin();
        assert!(timers.is_news(at(500)), "while it looks, everything is news");
        timers.begin();
        timers.arm(None);
        assert!(timers.is_news(at(1 << 40)), "whatever is due comes before never");
    }

    #[test]
    fn the_clock_is_read_when_a_watermark_is_reached() {
        let timers = Timers::new(true, 0);
        assert_eq!(timers.clock_due(50), ClockDue { reached: false, next_ms: None });
        assert!(timers.note(99) && timers.note(199));
        assert!(!timers.note(99), "it has been noted");
        assert!(!timers.note(i64::MAX), "the end of input needs no clock");
        assert_eq!(timers.clock_due(99), ClockDue { reached: false, next_ms: Some(1) }, "rows of 99 may come");
        assert_eq!(timers.clock_due(100), ClockDue { reached: true, next_ms: Some(100) });
        assert_eq!(timers.clock_due(100), ClockDue { reached: false, next_ms: Some(100) });
        assert_eq!(timers.clock_due(1000), ClockDue { reached: true, next_ms: None });
        let event_time = Timers::new(false, 0);
        assert!(!event_time.note(5));
        assert_eq!(event_time.clock_due(100), ClockDue { reached: false, next_ms: None });
    }

    #[test]
    fn what_lags_behind_is_waited_for() {
        let timers = Timers::new(true, 10);
        assert!(timers.note(99));
        assert_eq!(timers.clock_due(100), ClockDue { reached: true, next_ms: Some(10) });
        assert_eq!(timers.clock_due(110), ClockDue { reached: true, next_ms: None });
    }

    #[test]
    fn moments_are_compared_where_there_are_any() {
        let now = Instant::now();
        let later = after(now, 5);
        assert_eq!((earlier(None, later), earlier(Some(now), later), earlier(None, None)), (later, Some(now), None));
    }
}
