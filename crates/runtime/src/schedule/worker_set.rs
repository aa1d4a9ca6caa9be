//! One set of workers for queries that run beside each other: as many tasks at a time as one query would have.
//!
//! Each query has its own threads, because its tasks may wait for something outside (a sink that takes no more), and
//! because what a worker keeps belongs to its query. A thread takes a place of the set before it performs a task and
//! gives it back behind it. So queries that run together use as many cores as one, an idle query leaves its part to the
//! others, and a task of each gets its turn.
//!
//! A place whose task waits for the outside must not stop the others. Whoever has waited [`PATIENCE`] for a place takes
//! one more, and the task that has held one for as long is not counted until it ends.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a task waits for a place that another holds. Most tasks take less than a millisecond.
const PATIENCE: Duration = Duration::from_millis(20);

/// See the module.
#[derive(Debug)]
pub struct WorkerSet {
    places: usize,
    patience: Duration,
    taken: Mutex<TakenPlaces>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct TakenPlaces {
    /// Tasks that are being performed.
    running: usize,
    /// Those of them that are taken for waiting.
    waiting: usize,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct WorkPlace<'a> {
    set: &'a WorkerSet,
    since: Instant,
}

impl WorkerSet {
    /// With `places` places; at least 1.
    pub fn new(places: usize) -> Arc<WorkerSet> {
        Arc::new(WorkerSet::with_patience(places, PATIENCE))
    }

    fn with_patience(places: usize, patience: Duration) -> WorkerSet {
        WorkerSet { places: places.max(1), patience, taken: Mutex::default(), freed: Condvar::new() }
    }

    /// Takes a place, as soon as there is one.
    pub(crate) fn take(&self) -> WorkPlace<'_> {
        let mut taken = self.taken.lock();
        let until = Instant::now() + self.patience;
        while taken.running - taken.waiting >= self.places {
            if self.freed.wait_until(&mut taken, until).timed_out() {
                // Nothing was given back for so long: one of those that hold a place does no work.
                if taken.running - taken.waiting >= self.places {
                    taken.waiting += 1;
                }
                break;
            }
        }
        taken.running += 1;
        WorkPlace { set: self, since: Instant::now() }
    }
}

impl Drop for WorkPlace<'_> {
    fn drop(&mut self) {
        let mut taken = self.set.taken.lock();
        taken.running -= 1;
        if self.since.elapsed() >= self.set.patience || taken.waiting > taken.running {
            taken.waiting = taken.waiting.saturating_sub(1);
        }
        drop(taken);
        self.set.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::thread::{scope, yield_now};

    #[test]
    fn no_more_tasks_run_than_there_are_places() {
        let set = WorkerSet::with_patience(2, Duration::from_secs(60));
        let (running, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let place = set.take();
                        most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                        yield_now();
                        running.fetch_sub(1, SeqCst);
                        done.fetch_add(1, SeqCst);
                        drop(place);
                    }
                });
            }
        });
        assert_eq!((done.load(SeqCst), most.load(SeqCst)), (1200, 2));
        let taken = set.taken.lock();
        assert_eq!((taken.running, taken.waiting), (0, 0));
    }

    #[test]
    fn a_task_that_waits_does_not_hold_up_the_others() {
        let set = WorkerSet::with_patience(1, Duration::from_millis(100));
        let stuck = set.take();
        let since = Instant::now();
        for _ in 0..100 {
            drop(set.take());
        }
        assert!(since.elapsed() < Duration::from_secs(5), "only the first of them waits: {:?}", since.elapsed());
        drop(stuck);
        let taken = set.taken.lock();
        assert_eq!((taken.running, taken.waiting), (0, 0), "it counts again");
    }
}
