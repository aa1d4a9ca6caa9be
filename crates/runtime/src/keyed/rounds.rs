//! Rounds: how an operator whose state is in files makes progress.
//!
//! An advance of the watermark makes jobs for its partitions, and each of them has to read the partition's state. So
//! while there is state in files, the watermark of the inputs is acted on only when that pays: the jobs of the last
//! round are done, and enough rows wait that reading all of it costs a bounded number of bytes for each of theirs
//! ([`WORTH_READING`]), or some time has passed. That time is [`LONGEST`], or [`PATIENCE`] times what the last round
//! has taken, so that rounds are a small part of all time. What is output is the same: a watermark says what has come,
//! not when it has to be known. Cuts and ends are acted on at once.

use super::inbox::WORTH_READING;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// For how long rows wait for others at most before a round begins, unless rounds take long.
const LONGEST: Duration = Duration::from_millis(500);
/// For how many times as long as the last round has taken rows wait, if that is longer.
const PATIENCE: u32 = 4;

/// See the module. The numbers guide decisions and guard no memory; only `jobs` and `is_deferred` are
/// sequentially consistent, so that a round that waits for the last job of the one before is not missed.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Bytes of the states that are in files.
    spilled: AtomicU64,
    /// Bytes of the rows that wait for all partitions.
    waiting: AtomicU64,
    /// Jobs that are not done.
    jobs: AtomicUsize,
    /// Whether the inputs have come further than what was acted on.
    is_deferred: AtomicBool,
    last: Mutex<Last>,
}

/// The last round.
#[derive(Debug)]
struct Last {
    begun: Instant,
    /// When its last job was done; or when it began, if it had none.
    ended: Instant,
}

impl Last {
    /// When the next one begins at the latest.
    fn next(&self) -> Instant {
        self.ended + LONGEST.max(self.ended.saturating_duration_since(self.begun) * PATIENCE)
    }
}

impl Rounds {
    /// Of an operator without rows.
    pub(super) fn new() -> Rounds {
        let now = Instant::now();
        Rounds {
            spilled: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            jobs: AtomicUsize::new(0),
            is_deferred: AtomicBool::new(false),
            last: Mutex::new(Last { begun: now, ended: now }),
        }
    }

    /// Rows of `bytes` bytes wait.
    pub(super) fn came(&self, bytes: u64) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Rows of `bytes` bytes do not wait any more.
    pub(super) fn consumed(&self, bytes: u64) {
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The state of a partition, of `bytes` bytes, is in files.
    pub(super) fn spilled(&self, bytes: u64) {
        self.spilled.fetch_add(bytes, Ordering::Relaxed);
    }

    /// It has been read again.
    pub(super) fn read(&self, bytes: u64) {
        self.spilled.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A job was made.
    pub(super) fn job_made(&self) {
        self.jobs.fetch_add(1, Ordering::SeqCst);
    }

    /// A job is done; whether that was the last one, and a round waits for it.
    pub(super) fn job_done(&self) -> bool {
        let is_last = self.jobs.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last && self.spilled.load(Ordering::Relaxed) > 0 {
            self.last.lock().ended = Instant::now();
        }
        is_last && self.is_deferred.load(Ordering::SeqCst)
    }

    /// Whether the inputs have come further than what was acted on.
    pub(super) fn is_deferred(&self) -> bool {
        self.is_deferred.load(Ordering::SeqCst)
    }

    /// Whether a round begins at a moment, if the inputs have come further; if not, when to ask again at the latest. Notes
    /// that it has begun. What `can_wait` is neither a cut nor an end.
    pub(super) fn begin(&self, now: Instant, can_wait: bool) -> Result<(), Instant> {
        let mut last = self.last.lock();
        if can_wait && self.spilled.load(Ordering::Relaxed) > 0 {
            self.is_deferred.store(true, Ordering::SeqCst);
            let latest = last.next();
            if self.jobs.load(Ordering::SeqCst) > 0 {
                // Whoever does the last one asks before.
                return Err(now + LONGEST);
            }
            let waiting = self.waiting.load(Ordering::Relaxed).saturating_mul(WORTH_READING);
            if waiting < self.spilled.load(Ordering::Relaxed) && now < latest {
                return Err(latest);
            }
        }
        self.is_deferred.store(false, Ordering::SeqCst);
        *last = Last { begun: now, ended: now };
        Ok(())
    }

    /// Rows of a regular join are consumed, whatever else comes.
    pub(super) fn begin_anyway(&self) {
        let now = Instant::now();
        *self.last.lock() = Last { begun: now, ended: now };
        self.is_deferred.store(false, Ordering::SeqCst);
    }

    /// Rows of a regular join wait for others; when to look at them at the latest.
    pub(super) fn defer(&self, now: Instant) -> Instant {
        let mut last = self.last.lock();
        if !self.is_deferred.swap(true, Ordering::SeqCst) {
            // From the first row that waits on.
            let took = last.ended.saturating_duration_since(last.begun);
            *last = Last { begun: now.checked_sub(took).unwrap_or(now), ended: now };
        }
        last.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_begins_when_it_pays_or_after_some_time() {
        let (rounds, start) = (Rounds::new(), Instant::now());
        assert_eq!(rounds.begin(start, true), Ok(()), "nothing is in files");
        rounds.spilled(1000);
        rounds.came(400);
        let latest = start + LONGEST;
        assert_eq!(rounds.begin(start, true), Err(latest));
        assert!(rounds.is_deferred());
        rounds.came(100);
        assert_eq!(rounds.begin(start, true), Ok(()));
        assert!(!rounds.is_deferred());
        rounds.consumed(500);
        assert_eq!((rounds.begin(start, true), rounds.begin(latest, true)), (Err(latest), Ok(())));
        rounds.read(1000);
        assert_eq!(rounds.begin(start, true), Ok(()));
    }

    #[test]
    fn rounds_are_a_small_part_of_all_time() {
        let start = Instant::now();
        let took = |ms| Last { begun: start, ended: start + Duration::from_millis(ms) };
        assert_eq!(took(10).next(), start + Duration::from_millis(510));
        assert_eq!(took(1000).next(), start + Duration::from_millis(5000));
    }

    #[test]
    fn the_last_job_of_a_round_says_so_to_the_next() {
        let (rounds, start) = (Rounds::new(), Instant::now());
        rounds.spilled(1);
        rounds.came(1);
        rounds.job_made();
        rounds.job_made();
        assert!(rounds.begin(start, true).is_err() && rounds.begin(start, false).is_ok());
        assert!(rounds.begin(start, true).is_err());
        assert!(!rounds.job_done() && rounds.job_done());
        assert_eq!(rounds.begin(start, true), Ok(()), "one byte waits for one");
        rounds.job_made();
        assert!(!rounds.job_done(), "nobody waits");
        assert_eq!(rounds.defer(start), start + LONGEST);
        assert_eq!(rounds.defer(start + LONGEST), start + LONGEST, "the first has waited longest");
    }
}
