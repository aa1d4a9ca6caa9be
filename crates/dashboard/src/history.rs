//! What the charts show: a few numbers of every second of the last quarter of an hour, of each job.
//!
//! One thread takes them, whether somebody looks or not: who opens the page because of a fault wants to see what was before it. It reads
//! counters, and neither programs nor events; with a thousand splits that takes less than a millisecond of a second.

use crate::jobs::{JobView, Jobs};
use millstream::StatsSnapshot;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Between two points.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// Points that are kept: a quarter of an hour.
const KEPT: usize = 900;
/// Rates are those of about so long.
const RATE_OF: usize = 5;

/// The numbers of a moment. Counts go on through restarts of the job.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) at_ms: u64,
    pub(crate) rows_in: u64,
    pub(crate) rows_out: u64,
    pub(crate) bytes_in: u64,
    pub(crate) queued: u64,
    pub(crate) memory_used: u64,
    pub(crate) state: u64,
    pub(crate) watermark_ms: Option<i64>,
    pub(crate) late: u64,
    /// Time that all workers have spent on tasks.
    busy_s: f64,
    workers: usize,
}

/// Points of state by part that growth is judged by: five minutes.
const GROWTH_OF: usize = 300;
/// Fewer say nothing of growth.
const LEAST_GROWTH_OF: usize = 30;

/// The statistics of a moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    at: Instant,
    pub(crate) stats: StatsSnapshot,
}

/// How much the state of a part has grown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Growth {
    pub(crate) from: u64,
    pub(crate) bytes: f64,
    pub(crate) over: Duration,
}

/// What problems are judged by: the last seconds of a run.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    moments: VecDeque<Moment>,
    /// By part: aggregations, then operators.
    states: VecDeque<Vec<u64>>,
}

impl Recent {
    /// The statistics of some seconds ago.
    pub(crate) fn before(&self) -> Option<&Moment> {
        self.moments.front().filter(|moment| moment.at.elapsed() >= EVERY)
    }

    /// Since a moment.
    pub(crate) fn seconds(&self, before: &Moment) -> f64 {
        before.at.elapsed().as_secs_f64()
    }

    /// The share of their time in which workers were busy since a moment.
    pub(crate) fn busy_share(&self, before: &Moment, now: &StatsSnapshot) -> f64 {
        let busy = |stats: &StatsSnapshot| stats.workers.iter().map(|worker| worker.busy).sum::<Duration>();
        let time = self.seconds(before) * now.workers.len().max(1) as f64;
        busy(now).saturating_sub(busy(&before.stats)).as_secs_f64() / time
    }

    /// How much the state of a part has grown, if it has all the time: what windows hold comes and goes.
    pub(crate) fn growth(&self, part: usize) -> Option<Growth> {
        let states: Option<Vec<u64>> = self.states.iter().map(|state| state.get(part).copied()).collect();
        let states = states.filter(|states| states.len() >= LEAST_GROWTH_OF)?;
        // Means of six spans, of which each is higher than the one before.
        let means: Vec<f64> = states
            .chunks(states.len().div_ceil(6))
            .map(|span| span.iter().sum::<u64>() as f64 / span.len() as f64)
            .collect();
        let (from, to) = (*states.first()?, *states.last()?);
        let grows = to > from && means.windows(2).all(|pair| pair[1] > pair[0]);
        let over = EVERY * (states.len() - 1) as u32;
        grows.then(|| Growth { from, bytes: (to - from) as f64, over })
    }

    fn note(&mut self, at: Instant, stats: &StatsSnapshot) {
        self.states.push_back(stats.aggregations.iter().chain(&stats.operators).map(|part| part.state_bytes).collect());
        if self.states.len() > GROWTH_OF {
            self.states.pop_front();
        }
        self.moments.push_back(Moment { at, stats: stats.clone() });
        if self.moments.len() > 2 * RATE_OF {
            self.moments.pop_front();
        }
    }
}

/// The points of a job, as columns.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Columns {
    every_s: f64,
    at_ms: Vec<u64>,
    rows_in: Vec<u64>,
    rows_out: Vec<u64>,
    bytes_in: Vec<u64>,
    queued: Vec<u64>,
    memory_used_bytes: Vec<u64>,
    state_bytes: Vec<u64>,
    watermark_ms: Vec<Option<i64>>,
    late: Vec<u64>,
    busy: Vec<f64>,
}

/// How fast rows come and go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    pub(crate) rows_in_per_s: f64,
    pub(crate) rows_out_per_s: f64,
    pub(crate) bytes_in_per_s: f64,
}

/// The points of a job.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: VecDeque<Point>,
    /// The run that the last point is of.
    run: Option<usize>,
    /// What the runs before it have counted.
    before: Point,
    recent: Recent,
}

impl History {
    /// Adds a point; `run` tells runs of a job apart.
    pub(crate) fn note(&mut self, run: usize, at_ms: u64, stats: &StatsSnapshot) {
        self.note_at(Instant::now(), run, at_ms, stats);
    }

    /// The same, as of another moment.
    pub(crate) fn note_at(&mut self, at: Instant, run: usize, at_ms: u64, stats: &StatsSnapshot) {
        if self.run.is_some_and(|last| last != run) {
            self.before = self.points.back().copied().unwrap_or_default();
            self.recent = Recent::default();
        }
        self.recent.note(at, stats);
        self.run = Some(run);
        let before = self.before;
        let busy: Duration = stats.workers.iter().map(|worker| worker.busy).sum();
        let point = Point {
            at_ms,
            rows_in: before.rows_in + stats.rows_in,
            rows_out: before.rows_out + stats.rows_out,
            bytes_in: before.bytes_in + stats.bytes_in,
            queued: stats.queued,
            memory_used: stats.memory.used,
            state: stats.memory.state(),
            watermark_ms: stats.watermark_ms,
            late: before.late + stats.late_rows,
            busy_s: before.busy_s + busy.as_secs_f64(),
            workers: stats.workers.len(),
        };
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// What problems are judged by.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The rates of the last seconds.
    pub(crate) fn rates(&self) -> Rates {
        let from = self.points.len().saturating_sub(RATE_OF + 1);
        let (Some(first), Some(last)) = (self.points.get(from), self.points.back()) else { return Rates::default() };
        let seconds = last.at_ms.saturating_sub(first.at_ms) as f64 / 1e3;
        let rate = |of: fn(&Point) -> u64| {
            if seconds > 0.0 { (of(last).saturating_sub(of(first))) as f64 / seconds } else { 0.0 }
        };
        Rates {
            rows_in_per_s: rate(|p| p.rows_in),
            rows_out_per_s: rate(|p| p.rows_out),
            bytes_in_per_s: rate(|p| p.bytes_in),
        }
    }

    /// All points.
    pub(crate) fn columns(&self) -> Columns {
        let mut columns = Columns { every_s: EVERY.as_secs_f64(), ..Columns::default() };
        let mut last: Option<&Point> = None;
        for point in &self.points {
            columns.at_ms.push(point.at_ms);
            columns.rows_in.push(point.rows_in);
            columns.rows_out.push(point.rows_out);
            columns.bytes_in.push(point.bytes_in);
            columns.queued.push(point.queued);
            columns.memory_used_bytes.push(point.memory_used);
            columns.state_bytes.push(point.state);
            columns.watermark_ms.push(point.watermark_ms);
            columns.late.push(point.late);
            let share = last.map_or(0.0, |last| {
                let seconds = point.at_ms.saturating_sub(last.at_ms) as f64 / 1e3 * point.workers as f64;
                if seconds > 0.0 { ((point.busy_s - last.busy_s) / seconds).clamp(0.0, 1.0) } else { 0.0 }
            });
            columns.busy.push(share);
            last = Some(point);
        }
        columns
    }
}

/// The histories of all jobs, by name.
#[derive(Debug, Default)]
pub(crate) struct Histories(Mutex<BTreeMap<String, History>>);

impl Histories {
    /// What is asked of the history of a job, or of an empty one.
    pub(crate) fn of<T>(&self, job: &str, ask: impl FnOnce(&History) -> T) -> T {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ask(all.get(job).unwrap_or(&History::default()))
    }

    /// Adds a point of each job that runs, and forgets jobs that are not there any more.
    fn note(&self, views: &[JobView]) {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let points: Vec<_> = views
            .iter()
            .filter_map(|view| {
                let monitor = view.monitor.as_ref()?;
                Some((view, Arc::as_ptr(monitor) as usize, monitor.stats()?.counters()))
            })
            .collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, _| views.iter().any(|view| view.name == *name));
        for (view, run, stats) in points {
            all.entry(view.name.clone()).or_default().note(run, at_ms, &stats);
        }
    }
}

/// The thread that takes points, until it is dropped.
pub(crate) struct Recorder {
    /// Dropped, it ends the thread.
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    pub(crate) fn start(jobs: Arc<dyn Jobs>, histories: Arc<Histories>) -> Recorder {
        let (end, ended) = mpsc::channel();
        let record = move || {
            let mut next = Instant::now();
            while let Err(mpsc::RecvTimeoutError::Timeout) =
                ended.recv_timeout(next.saturating_duration_since(Instant::now()))
            {
                next = (next + EVERY).max(Instant::now());
                histories.note(&jobs.views());
            }
        };
        // Without it the charts are empty, and all else works.
        let thread = std::thread::Builder::new().name("history".into()).spawn(record).ok();
        Recorder { end: Some(end), thread }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end = None;
        self.thread.take().into_iter().for_each(|thread| {
            // It has panicked, or ended: either way it is gone.
            let _ = thread.join();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(rows: u64, busy_ms: u64) -> StatsSnapshot {
        let worker =
            millstream::WorkerSnapshot { tasks: 1, busy: Duration::from_millis(busy_ms), idle: Duration::ZERO };
        StatsSnapshot { rows_in: rows, rows_out: rows / 2, workers: vec![worker; 2], ..StatsSnapshot::default() }
    }

    fn with_state(bytes: u64) -> StatsSnapshot {
        let part = millstream::TriggerSnapshot {
            name: "operator 0".into(),
            begun: millstream::Begun::Jobs(0),
            in_flight: 0,
            rows_out: 0,
            busy: Duration::ZERO,
            delay: millstream::Times::default(),
            state_bytes: bytes,
            sent: millstream::SentSnapshot::default(),
        };
        StatsSnapshot { operators: vec![part], ..StatsSnapshot::default() }
    }

    #[test]
    fn growth_is_what_never_goes_back() {
        let growth = |state: fn(u64) -> u64, points: u64| {
            let mut history = History::default();
            (0..points).for_each(|second| history.note(1, second * 1000, &with_state(state(second))));
            history.recent().growth(0).map(|growth| (growth.from, growth.bytes, growth.over.as_secs()))
        };
        assert_eq!(growth(|second| 100 + second * 10, 61), Some((100, 600.0, 60)));
        assert_eq!(growth(|second| 100 + second * 10, 20), None, "too few points");
        assert_eq!(growth(|second| 100 + second % 20, 61), None, "windows come and go");
        assert_eq!(growth(|_| 100, 61), None);
        assert_eq!(growth(|second| 100 + second, 1000).map(|g| g.1), Some(299.0), "of the last five minutes");
    }

    #[test]
    fn rates_and_shares_are_those_between_points() {
        let mut history = History::default();
        for second in 0..10 {
            history.note(1, second * 1000, &stats(second * 100, second * 500));
        }
        let Rates { rows_in_per_s, rows_out_per_s, .. } = history.rates();
        assert_eq!((rows_in_per_s, rows_out_per_s), (100.0, 50.0));
        let columns = history.columns();
        assert_eq!((columns.at_ms.len(), columns.busy[0], columns.busy[9]), (10, 0.0, 0.5));
    }

    #[test]
    fn counts_go_on_when_a_job_is_started_again() {
        let mut history = History::default();
        history.note(1, 0, &stats(100, 0));
        history.note(1, 1000, &stats(200, 0));
        history.note(2, 2000, &stats(10, 0));
        history.note(2, 3000, &stats(30, 0));
        assert_eq!(history.columns().rows_in, [100, 200, 210, 230]);
    }

    #[test]
    fn the_last_quarter_of_an_hour_is_kept() {
        let mut history = History::default();
        (0..2000).for_each(|second| history.note(1, second * 1000, &stats(second, 0)));
        let columns = history.columns();
        assert_eq!((columns.at_ms.len(), columns.at_ms[0], columns.rows_in[899]), (900, 1_100_000, 1999));
    }
}
