//! Jobs that one worker at a time runs in order, although any worker may prepare and run them.
//!
//! A lane has a state and jobs with numbers from 0. Jobs arrive in any order; whoever adds the one that is next
//! schedules a turn of the lane, in which a worker performs all jobs that are ready, step by step. So jobs of a lane happen one after
//! the other in the order of their numbers, no worker waits for another, and lanes run in parallel.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub(crate) struct Ordered<S, J> {
    queue: Mutex<Queue<J>>,
    /// Locked by the step that is running, of which there is one at most.
    state: Mutex<S>,
}

#[derive(Debug)]
struct Queue<J> {
    next: u64,
    /// Jobs that have not begun.
    waiting: BTreeMap<u64, J>,
    /// A turn has been promised by [`Ordered::add`] or is running.
    scheduled: bool,
}

impl<S, J> Ordered<S, J> {
    /// A lane without jobs.
    pub(crate) fn new(state: S) -> Ordered<S, J> {
        let queue = Queue { next: 0, waiting: BTreeMap::new(), scheduled: false };
        Ordered { queue: Mutex::new(queue), state: Mutex::new(state) }
    }

    /// Adds job `number`. Returns whether the caller has to see to it that [`Ordered::step`] is called, until it says that the turn has ended.
    #[must_use]
    pub(crate) fn add(&self, number: u64, job: J) -> bool {
        let mut queue = self.queue.lock();
        debug_assert!(number >= queue.next, "every job arrives once");
        queue.waiting.insert(number, job);
        let starts = !queue.scheduled && queue.waiting.contains_key(&queue.next);
        queue.scheduled |= starts;
        starts
    }

    /// Looks at the next job, if it is there.
    pub(crate) fn next<R>(&self, look: impl FnOnce(&J) -> R) -> Option<R> {
        let queue = self.queue.lock();
        queue.waiting.get(&queue.next).map(look)
    }

    /// A step of a turn: performs the next job; `perform` says whether it is done. Returns whether another step is promised: the
    /// caller has to see to it that it is called again. Else no job is ready, and whoever adds the next one begins another turn. An error ends the lane for good, with the jobs
    /// that are left dropped with it.
    pub(crate) fn step<E>(&self, perform: impl FnOnce(&mut S, &J) -> Result<bool, E>) -> Result<bool, E> {
        let mut state = self.state.lock();
        let mut queue = self.queue.lock();
        let next = queue.next;
        let Some(job) = queue.waiting.remove(&next) else {
            // The turn ends before the lock on the queue does: the next turn finds the state free.
            drop(state);
            queue.scheduled = false;
            return Ok(false);
        };
        drop(queue);
        let is_done = perform(&mut state, &job)?;
        drop(state);
        let mut queue = self.queue.lock();
        if is_done {
            queue.next += 1;
        } else {
            queue.waiting.insert(next, job);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn jobs_wait_for_those_before_them() {
        let lane = Ordered::new(Vec::new());
        assert!(!lane.add(1, 'b'));
        assert!(lane.add(0, 'a'));
        assert!(!lane.add(2, 'c'), "a turn is promised");
        let keep = |done: &mut Vec<char>, job: &char| {
            done.push(*job);
            Ok::<bool, ()>(true)
        };
        while lane.step(keep).unwrap() {}
        assert!(!lane.add(4, 'e'));
        assert!(lane.add(3, 'd'));
        while lane.step(keep).unwrap() {}
        assert_eq!(*lane.state.lock(), ['a', 'b', 'c', 'd', 'e']);
    }

    #[test]
    fn any_number_of_threads_perform_each_job_once_in_order() {
        let lane = Ordered::new(0);
        let (next, jobs) = (AtomicUsize::new(0), 2000);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= jobs {
                            return;
                        }
                        if lane.add(number as u64, number) {
                            let mut is_again = false;
                            let mut check = |expected: &mut usize, job: &usize| {
                                assert_eq!(*job, *expected);
                                // Every other job takes two turns.
                                is_again = !is_again && job % 2 == 1;
                                *expected += usize::from(!is_again);
                                Ok::<bool, ()>(!is_again)
                            };
                            while lane.step(&mut check).unwrap() {}
                        }
                    }
                });
            }
        });
        assert_eq!(*lane.state.lock(), jobs);
    }
}
