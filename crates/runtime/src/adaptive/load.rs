//! What is adapted for a query as a whole: how many workers are at work. The size of buffers adapts by itself with every chunk
//! (`buffer_size`); here it is only told, when it has settled.

use super::decisions::workers::{ActiveWorkers, Load};
use super::policy::Decision;
use crate::query::Query;
use std::time::Duration;

/// Between two events about the size of buffers, at least.
const TELL_SIZE_EVERY: Duration = Duration::from_secs(1);
/// Least time between two looks: tasks take about a tenth of it.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// See the module.
pub(crate) struct LoadWatch {
    /// `None` if all workers are to be at work all the time.
    workers: Option<ActiveWorkers>,
    looked_at: Duration,
    tasks: u64,
    busy: Duration,
    task_nanos: f64,
    size: SettledSize,
}

impl LoadWatch {
    /// At the start of a query.
    pub(crate) fn new(query: &Query) -> LoadWatch {
        let config = &query.host().config;
        let adapts = config.adaptivity.active_workers && config.workers > 1;
        LoadWatch {
            workers: adapts.then(|| ActiveWorkers::new(config.workers)),
            looked_at: Duration::ZERO,
            tasks: 0,
            busy: Duration::ZERO,
            task_nanos: 0.0,
            size: SettledSize::new(query.host().buffer_size.rows()),
        }
    }

    /// Looks at what has been done since the last time, and sends workers to rest or back to work.
    pub(crate) fn look(&mut self, query: &Query, now: Duration) {
        let elapsed = now.saturating_sub(self.looked_at);
        if elapsed < LOOK_EVERY {
            return;
        }
        self.looked_at = now;
        let (host, tasks) = (query.host(), &query.scheduler().queues);
        let (active, waiting) = (tasks.active(), tasks.queued());
        if let Some((from, to)) = self.size.settled(host.buffer_size.rows(), now) {
            let observed = format!("{waiting} tasks wait for {active} workers");
            let decided = format!("{to} rows a buffer instead of {from}");
            host.stats.note_event("buffers", Decision { observed, decided });
        }
        let (all_done, busy) = host.stats.work_done();
        let (done, spent) = (all_done - self.tasks, busy.saturating_sub(self.busy));
        (self.tasks, self.busy) = (all_done, busy);
        if done > 0 {
            self.task_nanos = spent.as_nanos() as f64 / done as f64;
        }
        let Some(workers) = &mut self.workers else { return };
        let load = Load { elapsed, busy: spent, waiting, active, task_nanos: self.task_nanos };
        let decided = workers.observe(load);
        if decided != active {
            tasks.set_active(decided);
            let share = spent.as_secs_f64() / elapsed.as_secs_f64();
            let observed = format!("{active} workers at work, {share:.2} of them busy, {waiting} tasks wait");
            let decided = format!("{decided} of {} workers at work", host.config.workers);
            host.stats.note_event("workers", Decision { observed, decided });
        }
    }
}

/// Tells changes of the size of buffers that have lasted from one look to the next.
struct SettledSize {
    told: usize,
    last: usize,
    told_at: Option<Duration>,
}

impl SettledSize {
    fn new(rows: usize) -> SettledSize {
        SettledSize { told: rows, last: rows, told_at: None }
    }

    /// The size told before and that of now, if now is the time to tell.
    fn settled(&mut self, rows: usize, now: Duration) -> Option<(usize, usize)> {
        let is_settled = std::mem::replace(&mut self.last, rows) == rows;
        let is_time = self.told_at.is_none_or(|told| now.saturating_sub(told) >= TELL_SIZE_EVERY);
        if !is_settled || !is_time || rows == self.told {
            return None;
        }
        self.told_at = Some(now);
        Some((std::mem::replace(&mut self.told, rows), rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_when_they_last() {
        let at = Duration::from_millis;
        let mut size = SettledSize::new(100);
        assert_eq!(size.settled(100, at(0)), None);
        assert_eq!(size.settled(200, at(5)), None);
        assert_eq!(size.settled(100, at(10)), None, "it went back");
        assert_eq!(size.settled(400, at(15)), None);
        assert_eq!(size.settled(400, at(20)), Some((100, 400)));
        assert_eq!([25, 30].map(|ms| size.settled(200, at(ms))), [None, None], "too soon after the last one");
        assert_eq!(size.settled(200, at(1020)), Some((400, 200)));
    }
}
