//! Beats: how far results go from one consistent state to the next, and when a beat ends.
//!
//! A query whose results change runs in *beats*. A beat ends at one place of every split, by a cut (`durable::cuts`): a prefix of the
//! input, the same for all operators and sinks. What an operator puts out at its end is the net change of the beat, so what has
//! been written by then is the answer for that prefix.
//!
//! A beat ends when its first row has waited for some time, after some number of rows, or when somebody takes a checkpoint, but not
//! while the end of the one before is on its way: under load beats grow, and merge more. While no rows come none ends. For tests a beat
//! may end after an exact number of rows of a split: then the splits' sequencers hold back what comes behind them.

use crate::buffer::Generation;
use crate::config::BeatConfig;
use parking_lot::Mutex;
use std::time::Instant;

/// The beat under way of a query.
#[derive(Debug)]
pub(crate) struct Beats {
    config: BeatConfig,
    open: Mutex<Open>,
}

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
        Beats { config, open: Mutex::default() }
    }

    /// Rows of a generation have come to an operator whose results change; when the end of the beat is due, if that is news. Those of a
    /// beat that has been ended already are on their way with its cut.
    pub(crate) fn came(&self, generation: Generation, rows: usize) -> Option<Instant> {
        let mut open = self.open.lock();
        if generation < open.generation {
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
