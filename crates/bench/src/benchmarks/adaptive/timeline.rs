//! A run of a plan, watched: how many rows it had taken when, and when it decided what.

use super::phased::{BLOCK, Lengths, Phased};
use super::scenario::{Plan, Scenario};
use crate::suite::{Adder, Checksum, Failure, process_time};
use millstream::{RunMonitor, Session, StatsSnapshot};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often progress is read.
pub(super) const SAMPLE: Duration = Duration::from_millis(20);

/// What time is.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// Of the wall.
    Wall,
    /// The processor's, of this process since then, divided by the number of threads: what to look at where other processes
    /// use the machine as well. A thread that waits is not seen.
    Processor(Duration, u32),
}

impl Clock {
    /// As `MILLSTREAM_BENCH_CLOCK` says.
    fn chosen(threads: usize) -> Result<Clock, Failure> {
        match std::env::var("MILLSTREAM_BENCH_CLOCK").as_deref() {
            Err(_) | Ok("wall") => Ok(Clock::Wall),
            Ok("processor") => Ok(Clock::Processor(process_time(), threads.try_into()?)),
            Ok(other) => Err(format!("MILLSTREAM_BENCH_CLOCK={other}: `wall` or `processor` is wanted").into()),
        }
    }

    /// The time since the start, of which the wall has seen `elapsed`.
    fn at_s(self, elapsed: Duration) -> f64 {
        match self {
            Clock::Wall => elapsed.as_secs_f64(),
            Clock::Processor(start, threads) => (process_time().saturating_sub(start) / threads).as_secs_f64(),
        }
    }
}

/// Progress at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// Seconds since the start.
    pub(super) at_s: f64,
    /// The same by the wall's clock.
    pub(super) wall_s: f64,
    /// Rows taken by the first pipeline.
    pub(super) rows: f64,
}

/// What was seen of a run.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    pub(super) samples: Vec<Sample>,
    /// Rows up to the end of each phase.
    pub(super) ends: Vec<f64>,
    pub(super) checksum: Checksum,
    /// What was decided, and when.
    pub(super) events: Vec<(f64, String)>,
}

impl Timeline {
    /// Runs a plan over phases of these lengths.
    pub(super) fn of(scenario: &Scenario, plan: &Plan, threads: usize, lengths: Lengths) -> Result<Timeline, Failure> {
        let table = Phased::new(scenario.columns, &scenario.phases, lengths);
        let mut session = plan.session(threads)?;
        session.register_source("events", scenario.definition, Arc::new(table.clone()))?;
        let sql = plan.sql.as_deref().unwrap_or(&scenario.sql);
        let Watched { samples, checksum, stats } = watch(&mut session, sql, threads, SAMPLE, |_| ())?;
        let Lengths::Blocks(blocks) = table.lengths.as_read() else {
            return Err("a timeline is of a stream that does not wait".into());
        };
        let ends = blocks.iter().scan(0, |rows, blocks| {
            *rows += blocks * BLOCK as u64;
            Some(*rows as f64)
        });
        let events = stats.events.iter().map(|event| {
            let gain =
                event.gain.map_or(String::new(), |(before, after)| format!(": {before:.2} to {after:.2} ns a row"));
            let text = format!("{}: {} → {}{gain}", event.subject, event.observed, event.decided);
            (on_clock(&samples, event.at.as_secs_f64()), text)
        });
        let events = events.collect();
        Ok(Timeline { samples, ends: ends.collect(), checksum, events })
    }

    /// All rows.
    pub(super) fn rows(&self) -> u64 {
        self.ends.last().map_or(0, |rows| *rows as u64)
    }

    /// The blocks of each phase.
    pub(super) fn blocks(&self) -> Vec<u64> {
        let begins = [0.0].into_iter().chain(self.ends.iter().copied());
        self.ends.iter().zip(begins).map(|(end, begin)| (end - begin) as u64 / BLOCK as u64).collect()
    }

    /// When a phase begins and ends, in seconds since the start.
    pub(super) fn span_s(&self, phase: usize) -> (f64, f64) {
        let begin = if phase == 0 { 0.0 } else { self.at_s(self.ends[phase - 1]) };
        (begin, self.at_s(self.ends[phase]))
    }

    /// What was decided in a phase, and how many seconds after its beginning.
    pub(super) fn events_of(&self, phase: usize) -> Vec<(f64, &str)> {
        let (begin, end) = self.span_s(phase);
        let events = self.events.iter().filter(|(at, _)| begin <= *at && *at < end);
        events.map(|(at, text)| (at - begin, text.as_str())).collect()
    }

    /// When `rows` rows had been taken.
    pub(super) fn at_s(&self, rows: f64) -> f64 {
        let after = self.samples.partition_point(|sample| sample.rows < rows);
        let Some(after_it) = self.samples.get(after) else { return self.samples.last().map_or(0.0, |s| s.at_s) };
        let before = after.checked_sub(1).map_or(Sample::default(), |at| self.samples[at]);
        before.at_s + (after_it.at_s - before.at_s) * (rows - before.rows) / (after_it.rows - before.rows).max(1.0)
    }

    /// Rows that had been taken at a moment.
    pub(super) fn rows_at(&self, at_s: f64) -> f64 {
        let after = self.samples.partition_point(|sample| sample.at_s < at_s);
        let Some(after_it) = self.samples.get(after) else { return self.samples.last().map_or(0.0, |s| s.rows) };
        let before = after.checked_sub(1).map_or(Sample::default(), |at| self.samples[at]);
        let part = (at_s - before.at_s) / (after_it.at_s - before.at_s).max(f64::MIN_POSITIVE);
        before.rows + (after_it.rows - before.rows) * part
    }
}

/// The time of the samples at a moment of the wall's clock.
fn on_clock(samples: &[Sample], wall_s: f64) -> f64 {
    let after = samples.partition_point(|sample| sample.wall_s < wall_s);
    samples.get(after).or(samples.last()).map_or(0.0, |sample| sample.at_s)
}

/// What was seen of a query.
pub(super) struct Watched {
    pub(super) samples: Vec<Sample>,
    pub(super) checksum: Checksum,
    /// In the end.
    pub(super) stats: StatsSnapshot,
}

/// Executes a query in its own thread and polls its progress; `also` is called with the seconds since the start each
/// time.
pub(super) fn watch(
    session: &mut Session,
    sql: &str,
    threads: usize,
    every: Duration,
    also: impl Fn(f64),
) -> Result<Watched, Failure> {
    let statements = session.parse(sql)?;
    let [statement] = statements.as_slice() else { return Err("one statement is wanted".into()) };
    let clock = Clock::chosen(threads)?;
    let adder = Adder::default();
    let monitor = RunMonitor::new();
    let samples = Mutex::new(Vec::new());
    let sample = || {
        let stats = monitor.stats()?.snapshot();
        let at_s = clock.at_s(stats.elapsed);
        also(at_s);
        let rows = stats.pipelines.first().map_or(0, |pipeline| pipeline.rows_in) as f64;
        samples.lock().unwrap_or_else(PoisonError::into_inner).push(Sample {
            at_s,
            wall_s: stats.elapsed.as_secs_f64(),
            rows,
        });
        Some(stats)
    };
    std::thread::scope(|scope| -> Result<(), Failure> {
        let query = scope.spawn(|| session.execute(statement, &mut adder.clone(), &monitor));
        while !query.is_finished() {
            std::thread::sleep(every);
            sample();
        }
        query.join().map_err(|_| "the query panicked")??;
        Ok(())
    })?;
    let stats = sample().ok_or("the query did not run")?;
    let samples = samples.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Watched { samples, checksum: adder.checksum(), stats })
}
