//! A rate that grows a hundred-fold and falls again: what counts is how long results take, and the processor's time.
//!
//! The rows of a millisecond are handed over at its end, and that is their event time. The latency of a window is the time
//! from its end, by which its last rows have been handed over, until the last of its results has reached the sink. The
//! processor's time is that of the whole process: workers that look for work and threads that compile are in it.

use super::judge;
use super::phased::{Lengths, Phase, Phased};
use super::scenario::Plan;
use super::scenarios::{KEY_VALUE, KEY_VALUE_DEFINITION, numbers};
use crate::suite::{Failure, Record, Suite, Written, process_time};
use millstream::{Outcome, RunMonitor};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Rows of a millisecond, in each phase.
const ROWS: [usize; 3] = [100, 10_000, 100];
/// How long each phase lasts, in milliseconds.
const PHASE_MS: u64 = 4000;
const WINDOW_MS: u64 = 20;
/// How far the watermark stays behind event time.
const DELAY_MS: u64 = 1;
/// Windows within this time after a change are not measured: the first code is compiled meanwhile.
const WARM_UP_MS: u64 = 1000;
/// Differences that do not count, in milliseconds of latency and in seconds of the processor's time.
const SLACK_MS: f64 = 0.2;
const SLACK_S: f64 = 0.05;

const SQL: &str = "SELECT k, window_end, SUM(v), COUNT(*)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.02' SECOND))
    GROUP BY k, window_start, window_end";

/// A plan in a phase.
struct Part {
    /// Milliseconds.
    latencies: Vec<f64>,
    /// Seconds.
    cpu: f64,
}

impl Part {
    fn latency(&self, percent: usize) -> f64 {
        let at = (self.latencies.len() * percent).div_ceil(100).max(1) - 1;
        self.latencies.get(at).copied().unwrap_or(0.0)
    }
}

/// Measures all plans; returns the targets that were missed.
pub(super) fn run(suite: &mut Suite) -> Result<Vec<String>, Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let phase_ms = ((PHASE_MS as f64 * scale) as u64).max(2 * WINDOW_MS);
    let phase = |rate: &usize| {
        Phase::new(format!("{rate} rows a millisecond"), scale, |random, rows| {
            vec![numbers(random, rows, |random| random.below(1000)), numbers(random, rows, |random| random.below(1000))]
        })
    };
    let phases: Arc<Vec<Phase>> = Arc::new(ROWS.iter().map(phase).collect());
    let plans = [Plan::adaptive(), Plan::generic(), Plan::fixed("one worker", &[("parallelism.default", "1")])];
    let mut parts = Vec::new();
    let mut wanted = None;
    for plan in &plans {
        let (rows, of_plan) = measure(&phases, phase_ms, plan, suite.threads())?;
        if *wanted.get_or_insert(rows) != rows {
            return Err(format!("rate: {} has {rows} rows in its result", plan.name).into());
        }
        parts.push(of_plan);
    }
    suite.say("  rate");
    let mut missed = Vec::new();
    for (number, phase) in phases.iter().enumerate() {
        suite.say(&format!("    {}", phase.name));
        for (plan, parts) in plans.iter().zip(&parts) {
            let part = &parts[number];
            suite.say(&format!(
                "      {:<22} latency {:>7.3} ms, 99 % {:>7.3} ms, processor {:>5.0} %",
                plan.system(),
                part.latency(50),
                part.latency(99),
                part.cpu * 1e5 / phase_ms as f64
            ));
            record(suite, plan, number, &phase.name, phase_ms, part)?;
        }
        let least =
            |of: fn(&Part) -> f64| parts[1..].iter().map(|parts| of(&parts[number])).fold(f64::INFINITY, f64::min);
        let own = &parts[0][number];
        for (own, best, slack, what) in [
            (own.latency(50), least(|part| part.latency(50)), SLACK_MS, "ms of latency"),
            (own.cpu, least(|part| part.cpu), SLACK_S, "s of the processor"),
        ] {
            if own * judge::OF_BEST > best + slack {
                missed.push(format!("rate, {}: {own:.3} {what}, {best:.3} with the best fixed plan", phase.name));
            }
        }
    }
    Ok(missed)
}

/// Rows of the result, and what the plan came to in each phase.
fn measure(phases: &Arc<Vec<Phase>>, phase_ms: u64, plan: &Plan, threads: usize) -> Result<(u64, Vec<Part>), Failure> {
    let clock = Arc::new(OnceLock::new());
    let lengths = Lengths::Paced(phase_ms, ROWS.to_vec(), Arc::clone(&clock));
    let mut session = plan.session(threads)?;
    session.register_source("events", KEY_VALUE_DEFINITION, Arc::new(Phased::new(KEY_VALUE, phases, lengths)))?;
    let statements = session.parse(SQL)?;
    let written = Written::new(1, Instant::now);
    let mut target = written.clone();
    let monitor = RunMonitor::new();
    let (rows, cpu) = std::thread::scope(|scope| -> Result<(u64, Vec<f64>), Failure> {
        let query = scope.spawn(|| session.execute(&statements[0], &mut target, &monitor));
        let cpu = processor_times(&clock, phases.len(), phase_ms, || query.is_finished())?;
        match query.join().map_err(|_| "the query panicked")?? {
            Outcome::Ran(stats) => Ok((stats.rows_out, cpu)),
            _ => Err("the query did not run".into()),
        }
    })?;
    let start = *clock.get().ok_or("no row was read")?;
    let times = written.times();
    let part = |number: usize| {
        let begin = number as u64 * phase_ms;
        let ends = (begin + WARM_UP_MS.min(phase_ms / 2)) as i64..=(begin + phase_ms - WINDOW_MS) as i64;
        let latency = |(end, at): (&i64, &Instant)| {
            let due = start + Duration::from_millis(*end as u64 + DELAY_MS);
            at.saturating_duration_since(due).as_secs_f64() * 1e3
        };
        let mut latencies: Vec<f64> = times.iter().filter(|(end, _)| ends.contains(end)).map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        Part { latencies, cpu: cpu[number] }
    };
    Ok((rows, (0..phases.len()).map(part).collect()))
}

/// Seconds that the processor worked in each phase.
fn processor_times(
    clock: &OnceLock<Instant>,
    phases: usize,
    phase_ms: u64,
    has_ended: impl Fn() -> bool,
) -> Result<Vec<f64>, Failure> {
    const LOOK: Duration = Duration::from_millis(1);
    while clock.get().is_none() && !has_ended() {
        std::thread::sleep(LOOK);
    }
    let start = clock.get().copied().unwrap_or_else(Instant::now);
    let mut before = process_time();
    let mut times = Vec::with_capacity(phases);
    for phase in 1..=phases as u64 {
        std::thread::sleep(Duration::from_millis(phase * phase_ms).saturating_sub(start.elapsed()));
        let now = process_time();
        times.push((now - before).as_secs_f64());
        before = now;
    }
    Ok(times)
}

fn record(
    suite: &mut Suite,
    plan: &Plan,
    number: usize,
    phase: &str,
    phase_ms: u64,
    part: &Part,
) -> Result<(), Failure> {
    let rows = ROWS[number] as u64 * phase_ms;
    let seconds = phase_ms as f64 / 1e3;
    let more = json!({
        "phase": number,
        "median_ms": part.latency(50),
        "p99_ms": part.latency(99),
        "max_ms": part.latency(100),
        "processor_s": part.cpu,
    });
    suite.record(Record {
        benchmark: super::BENCHMARK.name.into(),
        case: format!("rate/{phase}, phase {}", number + 1),
        system: plan.system(),
        threads: suite.threads(),
        rows,
        seconds,
        rows_per_s: rows as f64 / seconds,
        bytes_per_s: 0.0,
        checksum: None,
        more: more.as_object().cloned().unwrap_or_default(),
    })
}
