//! How many compilations run in the background of a process at once: they take the cores that the workers need, so a quarter
//! of them may compile, and one at least.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

/// A number of turns, to be taken and given back.
#[derive(Debug)]
pub(super) struct Turns {
    left: Mutex<usize>,
    /// A turn has been given back, or somebody no longer waits.
    changed: Condvar,
}

/// Gives itself back when dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn of_process() -> &'static Turns {
        static SHARED: OnceLock<Turns> = OnceLock::new();
        SHARED.get_or_init(|| Turns::new((thread::available_parallelism().map_or(1, NonZero::get) / 4).max(1)))
    }

    fn new(number: usize) -> Turns {
        Turns { left: Mutex::new(number), changed: Condvar::new() }
    }

    /// Waits for a turn; `None` when whoever asked has ended before there was one.
    pub(super) fn take(&self, ended: &AtomicBool) -> Option<Turn<'_>> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |left: &mut usize| *left == 0 && !ended.load(Relaxed);
        let mut left = self.changed.wait_while(left, waits).unwrap_or_else(PoisonError::into_inner);
        if ended.load(Relaxed) {
            // The call that woke this thread may have been meant for a turn.
            self.changed.notify_all();
            return None;
        }
        *left -= 1;
        Some(Turn(self))
    }

    /// Lets those who wait see that they have ended.
    pub(super) fn wake(&self) {
        // The lock orders this after their look at the flag.
        let _left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn no_more_run_at_once_than_there_are_turns() {
        let (turns, running, ended) = (Turns::new(2), AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let turn = turns.take(&ended).unwrap();
                        assert!(running.fetch_add(1, Relaxed) < 2);
                        thread::yield_now();
                        running.fetch_sub(1, Relaxed);
                        drop(turn);
                    }
                });
            }
        });
        assert_eq!(*turns.left.lock().unwrap(), 2);
    }

    #[test]
    fn who_has_ended_waits_no_longer_and_others_still_do() {
        let (turns, ended, goes_on) = (Turns::new(1), AtomicBool::new(false), AtomicBool::new(false));
        let turn = turns.take(&goes_on).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.take(&ended).is_none());
            let patient = scope.spawn(|| turns.take(&goes_on).is_some());
            ended.store(true, Relaxed);
            turns.wake();
            assert!(waiting.join().unwrap());
            drop(turn);
            assert!(patient.join().unwrap());
        });
    }
}
