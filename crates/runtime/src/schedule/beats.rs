//! Beats: how far results go from one consistent state to the next, and when a beat ends.
//!
//! A query whose results change runs in *beats*. A beat ends at one place of every split, by a cut (`durable::cuts`): a prefix of the
//! input, the same for all operators and sinks. What an operator puts out at its end is the net change of the beat, so what has
//! been written by then is the answer for that prefix.
//!
//! A beat ends when its first row has waited for some time, after some number of rows, or when somebody takes a checkpoint, but not
//! while the end of the one before is on its way: under load beats grow, and merge more. While no rows come none ends. For tests a beat
//! may end after an exact number of rows of a split: then the splits' sequencers hold back what comes behind them.
//!
//! Beats of event time hold rows back, too ([`BeatEnd`]): a split stands still where its watermark reaches the end of the beat, and when
//! all do that are neither idle nor at their end, the beat ends there. So which rows are in a beat follows from the splits alone, and so
//! do its changes, whatever the workers, the buffers, or crashes: checkpoints are taken between two beats. The next beat is that of the
//! lowest of these watermarks; empty ones are passed over.

use crate::config::BeatConfig;
use crate::ids::Generation;
use millstream_plan::beat::BeatClock;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

/// The beat under way of a query.
#[derive(Debug)]
pub(crate) struct Beats {
    config: BeatConfig,
    open: Mutex<Open>,
    /// Of event time: whether the first has begun, which every split has come to.
    has_begun: AtomicBool,
    /// The generation of the last cut that ends no beat. One cut at a time is on its way.
    not_ending: AtomicU32,
}

/// How far a split has come in a beat of event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BeatEnd {
    /// Rows of it may come.
    Awaited,
    /// It stands at the end, with its watermark.
    Reached(i64),
    /// It has none: what comes of the split is of no beat, or its input has ended.
    None,
}

/// A watermark that every row brings: a beat that ends there holds all splits back until each has one.
pub(crate) const FIRST_WATERMARK: i64 = i64::MIN + 1;

/// What has come in a beat.
#[derive(Debug, Default)]
struct Open {
    /// The beat's rows are of this generation.
    generation: Generation,
    /// When its end is due, once there is something that waits for it.
    due: Option<Instant>,
    rows: u64,
}

impl Beats {
    /// The first beat.
    pub(crate) fn new(config: BeatConfig) -> Beats {
        Beats { config, open: Mutex::default(), has_begun: AtomicBool::new(false), not_ending: AtomicU32::new(0) }
    }

    /// Milliseconds of a beat of event time.
    fn length_ms(&self) -> Option<i64> {
        match self.config.clock {
            BeatClock::EventTime(ms) => Some(i64::try_from(ms.max(1)).unwrap_or(i64::MAX)),
            BeatClock::Arrival | BeatClock::End => None,
        }
    }

    /// Whether the splits' watermarks say where beats end.
    pub(crate) fn is_event_time(&self) -> bool {
        self.config.clock.is_event_time()
    }

    /// Whether every split has come to a beat of event time.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// The beat of event time begins that the lowest watermark falls into; where it ends.
    pub(crate) fn take(&self, lowest: i64) -> i64 {
        self.has_begun.store(true, Ordering::Release);
        let length = self.length_ms().unwrap_or(i64::MAX);
        lowest.div_euclid(length).saturating_add(1).saturating_mul(length)
    }

    /// The cut to a generation ends no beat. Noted before anybody hears of the cut.
    pub(crate) fn leave_open(&self, generation: Generation) {
        self.not_ending.store(generation.0, Ordering::Release);
    }

    /// Whether a beat ends where a generation begins.
    pub(crate) fn ends_before(&self, generation: Generation) -> bool {
        self.not_ending.load(Ordering::Acquire) != generation.0
    }

    /// Rows of a generation have come to an operator whose results change; when the end of the beat is due, if that is news. Those of a
    /// beat that has been ended already are on their way with its cut.
    pub(crate) fn came(&self, generation: Generation, rows: usize) -> Option<Instant> {
        let mut open = self.open.lock();
        if generation < open.generation || self.is_event_time() {
            return None;
        }
        open.rows += rows as u64;
        let is_full = self.config.rows > 0 && open.rows >= self.config.rows;
        let now = Instant::now();
        let latency = self.config.latency.filter(|_| self.config.waits && !is_full).unwrap_or_default();
        let due = now + latency;
        let is_news = open.due.is_none_or(|known| is_full && known > now);
        is_news.then(|| *open.due.insert(due))
    }

    /// The end of the beat is due at once.
    pub(crate) fn end_at_once(&self) -> Instant {
        *self.open.lock().due.insert(Instant::now())
    }

    /// Takes note that the end of the beat has been looked at; whether it was due.
    pub(crate) fn look(&self) -> bool {
        self.open.lock().due.take().is_some()
    }

    /// When the end of the beat is due, if anything waits for it.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.open.lock().due
    }

    /// A beat begins with a generation.
    pub(crate) fn begin(&self, generation: Generation) {
        *self.open.lock() = Open { generation, ..Open::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn beats_of_event_time_are_counted_from_the_epoch() {
        let of = |clock| Beats::new(BeatConfig { clock, ..BeatConfig::default() });
        let beats = of(BeatClock::EventTime(1000));
        assert!(!beats.has_begun());
        let ends = [0, 999, 1000, -1, -1000].map(|lowest| beats.take(lowest));
        assert_eq!(ends, [1000, 1000, 2000, 0, 0]);
        assert_eq!(beats.take(i64::MAX - 1), i64::MAX, "nothing comes behind it");
        assert!(beats.is_event_time() && !of(BeatClock::Arrival).is_event_time());
        assert_eq!(beats.came(Generation(0), 5), None, "rows do not wait for the clock");
        assert!(beats.ends_before(Generation(3)));
        beats.leave_open(Generation(3));
        assert!(!beats.ends_before(Generation(3)) && beats.ends_before(Generation(4)));
        assert!(!beats.look());
        beats.end_at_once();
        assert!(beats.look() && !beats.look());
    }

    #[test]
    fn a_beat_ends_when_its_first_row_has_waited_or_when_it_is_full() {
        let latency = Duration::from_millis(50);
        let beats = Beats::new(BeatConfig { latency: Some(latency), rows: 10, ..BeatConfig::default() });
        assert_eq!(beats.due(), None, "nothing has come");
        let before = Instant::now();
        let due = beats.came(Generation(0), 4).unwrap();
        assert!(due >= before + latency);
        assert_eq!((beats.came(Generation(0), 5), beats.due()), (None, Some(due)), "the first row decides");
        let full = beats.came(Generation(0), 1).unwrap();
        assert!(full < due && beats.due() == Some(full));
        beats.begin(Generation(1));
        assert_eq!((beats.due(), beats.came(Generation(0), 100)), (None, None), "rows of the beat before");
        assert!(beats.came(Generation(1), 1).is_some());
    }
}
