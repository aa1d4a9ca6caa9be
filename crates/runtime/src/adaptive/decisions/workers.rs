//! How many workers a query has at work (Darwin section 4.1: pipelines of low utilisation are merged, those that create
//! backpressure are split). Any worker runs tasks of any pipeline, the most urgent first; so pipelines share the workers that
//! they need together, and one that falls behind gets those that the others leave.
//!
//! Rows that wait are a loss at once; a worker too many costs a private table to be merged, some wake-ups, and cache. So
//! workers are added as soon as tasks wait for longer than it takes to hand them over, as many as there are tasks. One
//! is sent to rest when the others would have had time for its work too, over some time. The time doubles when that
//! turns out to be wrong. Between two looks, many tasks that wait call all workers at once ([`is_rush`]).

use super::costs::TASK;
use std::time::Duration;

/// The share of the time that workers may be busy with one fewer of them.
const BUSY_AFTER: f64 = 0.6;
/// Shortest time over which workers have not been needed.
const QUIET: Duration = Duration::from_millis(200);
/// Most doublings of it.
const MOST_DOUBLINGS: u32 = 7;

/// Whether the backlog of tasks per active worker is so large that the next look would be too late.
pub(crate) fn is_rush(active: usize, waiting: usize) -> bool {
    waiting > 2 * active
}

/// What was seen since the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    /// The time since then.
    pub(crate) elapsed: Duration,
    /// Time that workers have spent on tasks, all together.
    pub(crate) busy: Duration,
    /// Tasks that wait now.
    pub(crate) waiting: usize,
    /// Workers at work now: more than was decided after a rush.
    pub(crate) active: usize,
    /// Nanoseconds of a task, on average.
    pub(crate) task_nanos: f64,
}

/// How many workers are at work, and for how long they have been too many. Decides at every look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ActiveWorkers {
    most: usize,
    active: usize,
    quiet: Duration,
    /// How often a worker that was sent to rest was needed again soon.
    regrets: u32,
    /// Since the last one was sent to rest.
    rested: Duration,
}

impl ActiveWorkers {
    /// All of them, at first.
    pub(crate) fn new(most: usize) -> ActiveWorkers {
        ActiveWorkers { most, active: most, quiet: Duration::ZERO, regrets: 0, rested: Duration::MAX }
    }

    /// Takes a look and says how many are at work from now on.
    pub(crate) fn observe(&mut self, load: Load) -> usize {
        self.rested = self.rested.saturating_add(load.elapsed);
        if load.active > self.active {
            self.split(load.active - self.active);
        } else if load.waiting > 0 && self.is_behind(load) {
            self.split(load.waiting);
        } else if self.could_be_fewer(load) {
            self.quiet += load.elapsed;
            if self.quiet >= self.patience() {
                self.merge();
            }
        } else {
            self.quiet = Duration::ZERO;
        }
        self.active
    }

    /// Whether a task waits for longer than it takes to wake another worker for it.
    fn is_behind(&self, load: Load) -> bool {
        load.waiting as f64 * load.task_nanos / self.active as f64 > TASK
    }

    fn could_be_fewer(&self, load: Load) -> bool {
        let rest = self.active.saturating_sub(1) as f64;
        rest > 0.0 && load.waiting == 0 && load.busy.as_secs_f64() < BUSY_AFTER * rest * load.elapsed.as_secs_f64()
    }

    fn split(&mut self, waiting: usize) {
        self.quiet = Duration::ZERO;
        if self.active == self.most {
            return;
        }
        if self.rested < 4 * self.patience() {
            self.regrets = (self.regrets + 1).min(MOST_DOUBLINGS);
        } else {
            self.regrets = 0;
        }
        self.rested = Duration::MAX;
        self.active = self.most.min(self.active + waiting);
    }

    fn merge(&mut self) {
        self.active -= 1;
        (self.quiet, self.rested) = (Duration::ZERO, Duration::ZERO);
    }

    /// How long workers have to have been too many.
    fn patience(&self) -> Duration {
        QUIET * (1 << self.regrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(50);

    fn load(busy: f64, waiting: usize) -> Load {
        Load { elapsed: LOOK, busy: LOOK.mul_f64(busy), waiting, active: 0, task_nanos: 1e5 }
    }

    #[test]
    fn idle_workers_rest_one_by_one() {
        let mut workers = ActiveWorkers::new(8);
        let seen: Vec<usize> = (0..60).map(|_| workers.observe(load(0.1, 0))).collect();
        assert!(seen.is_sorted_by(|a, b| a >= b) && seen.windows(2).all(|w| w[0] - w[1] <= 1), "{seen:?}");
        assert_eq!((seen[2], seen[59]), (8, 1));
    }

    #[test]
    fn as_many_work_as_the_load_needs() {
        for (busy, at_rest) in [(0.0, 1), (0.5, 1), (0.7, 2), (2.0, 4), (7.5, 8)] {
            let mut workers = ActiveWorkers::new(8);
            let left = (0..500).map(|_| workers.observe(load(busy, 0))).last();
            assert_eq!(left, Some(at_rest), "{busy} workers are busy");
        }
    }

    #[test]
    fn tasks_that_wait_are_met_at_once() {
        let mut workers = ActiveWorkers::new(8);
        (0..100).for_each(|_| {
            workers.observe(load(0.1, 0));
        });
        assert_eq!(workers.active, 1);
        assert_eq!(workers.observe(load(1.0, 3)), 4);
        assert_eq!(workers.observe(load(4.0, 100)), 8);
        let tiny = Load { task_nanos: 100.0, ..load(1.0, 2) };
        let mut workers = ActiveWorkers { active: 1, ..workers };
        assert_eq!(workers.observe(tiny), 1, "done before another worker is awake");
        let rushed = Load { active: 3, ..load(0.5, 0) };
        assert_eq!(workers.observe(rushed), 3, "what a rush has called stays for a while");
        assert_eq!(workers.observe(Load { active: 3, ..load(0.1, 0) }), 3);
    }

    #[test]
    fn the_choice_does_not_swing() {
        let mut workers = ActiveWorkers::new(4);
        let mut changes = Vec::new();
        let mut last = 4;
        // A burst every second that one worker less cannot take.
        for look in 0..2400 {
            let now = workers.observe(if look % 20 == 19 { load(4.0, 4) } else { load(0.2, 0) });
            if now != last {
                changes.push(look);
            }
            last = now;
        }
        let late = changes.iter().filter(|&&look| look > 1200).count();
        assert!(late <= 16, "{late} changes in the second minute of {}", changes.len());
    }
}
