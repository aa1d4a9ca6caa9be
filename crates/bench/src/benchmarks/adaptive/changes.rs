//! A hundred changes in one run: memory must not grow, and no worker may stop for long.
//!
//! Keys and the rows that pass a filter jump between two shapes of the data. Memory is what is resident at the end of each
//! phase: its maximum in the last half of the phases is compared with that in the second quarter, as the first windows
//! and variants come in the first; and so is the number of mappings that hold code. A stop is the longest task of a worker,
//! and the longest time without progress of the query; both are printed for the generic plan, too, as other processes stop
//! workers as well. Buffers have a fixed size, so that a task takes less than a millisecond by itself.

use super::phased::{Lengths, Phase, Phased};
use super::scenario::Plan;
use super::scenarios::{KEY_VALUE, KEY_VALUE_DEFINITION, numbers};
use super::timeline::{Sample, Watched, watch};
use crate::suite::{Failure, Record, Suite, code_mappings, resident_bytes};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const CHANGES: usize = 100;
/// How long the generic plan takes for a phase.
const PHASE_S: f64 = 0.3;
/// How often progress is read.
const SAMPLE: Duration = Duration::from_millis(1);
/// What no worker may stop for longer than, in milliseconds.
const STOP_MS: f64 = 5.0;
/// What memory may grow by: allocators and the machine's pages are not exact.
const GROWTH: f64 = 1.02;
const SLACK_BYTES: f64 = 4e6;
/// Code that may be there more than before: variants come and go.
const SLACK_MAPPINGS: f64 = 32.0;
/// Samples for each count of the mappings, which takes longer.
const COUNT_EVERY: usize = 64;
const BUFFER_ROWS: (&str, &str) = ("pipeline.buffer-rows", "16384");

const SQL: &str = "SELECT k, window_start, SUM(v), COUNT(*)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.03' SECOND))
    WHERE MOD(v, 7) < 6 AND v < 500 GROUP BY k, window_start, window_end";

/// Measures the generic plan and the adaptive one; returns the targets that were missed.
pub(super) fn run(suite: &mut Suite) -> Result<Vec<String>, Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let shape = |keys: u64, values: u64| {
        Phase::new("", scale, |random, rows| {
            vec![
                numbers(random, rows, |random| random.below(keys)),
                numbers(random, rows, |random| random.below(values)),
            ]
        })
    };
    let shapes = [shape(1000, 505), shape(50_000, 20_000)];
    let phases = Arc::new((0..=CHANGES).map(|number| shapes[number % 2].clone()).collect::<Vec<_>>());
    let mut missed = Vec::new();
    let mut lengths = Lengths::Clock(Duration::from_secs_f64(PHASE_S * scale), Arc::default());
    let mut wanted = None;
    for plan in [Plan::generic(), Plan::adaptive()].map(|plan| plan.with(BUFFER_ROWS)) {
        let table = Phased::new(KEY_VALUE, &phases, lengths);
        let mut session = plan.session(suite.threads())?;
        session.register_source("events", KEY_VALUE_DEFINITION, Arc::new(table.clone()))?;
        let memory = Mutex::new(Vec::new());
        let seen = watch(&mut session, SQL, suite.threads(), SAMPLE, |at_s| {
            let bytes = resident_bytes().unwrap_or(0);
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let mappings = match (memory.len() % COUNT_EVERY, memory.last()) {
                (1.., Some(Reading { mappings, .. })) => *mappings,
                _ => code_mappings().unwrap_or(0) as f64,
            };
            memory.push(Reading { at_s, bytes: bytes as f64, mappings });
        })?;
        if *wanted.get_or_insert(seen.checksum) != seen.checksum {
            return Err("changes: rows differ".into());
        }
        let memory = memory.into_inner().unwrap_or_else(PoisonError::into_inner);
        let outcome = Outcome::of(&seen, &memory);
        suite.say(&format!("  a hundred changes, {}: {}", plan.name, outcome.text()));
        if plan.is_adaptive() {
            missed = outcome.missed();
        }
        record(suite, &plan, &seen, &outcome)?;
        lengths = table.lengths.as_read();
    }
    Ok(missed)
}

/// What is held at a moment.
struct Reading {
    at_s: f64,
    bytes: f64,
    mappings: f64,
}

/// What a run came to.
struct Outcome {
    rows: u64,
    seconds: f64,
    /// Milliseconds.
    longest_task: f64,
    longest_gap: f64,
    /// Most resident bytes in the second quarter, and in the second half.
    memory: [f64; 2],
    /// The same of mappings of code.
    mappings: [f64; 2],
    changes: usize,
}

impl Outcome {
    fn of(seen: &Watched, memory: &[Reading]) -> Outcome {
        let last = seen.samples.last().copied().unwrap_or_default();
        let most = |from: f64, to: f64, of: fn(&Reading) -> f64| {
            let range = last.at_s * from..=last.at_s * to;
            memory.iter().filter(|reading| range.contains(&reading.at_s)).map(of).fold(0.0, f64::max)
        };
        let quarter_and_half = |of| [most(0.25, 0.5, of), most(0.5, 1.0, of)];
        let tasks = seen.stats.pipelines.iter().map(|pipeline| pipeline.task_time.max.as_secs_f64());
        let progress = seen.samples.chunk_by(|a, b| a.rows == b.rows).filter_map(|same| same.first());
        let progress: Vec<&Sample> = progress.filter(|sample| sample.rows > 0.0).collect();
        let gaps = progress.windows(2).map(|pair| pair[1].at_s - pair[0].at_s);
        Outcome {
            rows: last.rows as u64,
            seconds: last.at_s,
            longest_task: tasks.fold(0.0, f64::max) * 1e3,
            longest_gap: gaps.fold(0.0, f64::max) * 1e3,
            memory: quarter_and_half(|reading| reading.bytes),
            mappings: quarter_and_half(|reading| reading.mappings),
            changes: seen.stats.events.len(),
        }
    }

    fn text(&self) -> String {
        format!(
            "{:.1} M rows/s, {} decisions, longest task {:.1} ms, longest time without progress {:.1} ms, memory {:.1} MB \
             and {} mappings of code in the second quarter, {:.1} MB and {} in the second half",
            self.rows as f64 / self.seconds.max(1e-9) / 1e6,
            self.changes,
            self.longest_task,
            self.longest_gap,
            self.memory[0] / 1e6,
            self.mappings[0],
            self.memory[1] / 1e6,
            self.mappings[1]
        )
    }

    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        if self.longest_task > STOP_MS {
            missed.push(format!("a hundred changes: a task took {:.1} ms", self.longest_task));
        }
        if self.memory[1] > self.memory[0] * GROWTH + SLACK_BYTES {
            missed.push(format!("a hundred changes: memory grew by {:.1} MB", (self.memory[1] - self.memory[0]) / 1e6));
        }
        if self.mappings[1] > self.mappings[0] + SLACK_MAPPINGS {
            missed.push(format!("a hundred changes: {} mappings of code after {}", self.mappings[1], self.mappings[0]));
        }
        missed
    }
}

fn record(suite: &mut Suite, plan: &Plan, seen: &Watched, outcome: &Outcome) -> Result<(), Failure> {
    let more = json!({
        "longest_task_ms": outcome.longest_task,
        "longest_gap_ms": outcome.longest_gap,
        "memory_second_quarter": outcome.memory[0],
        "memory_second_half": outcome.memory[1],
        "code_mappings_second_quarter": outcome.mappings[0],
        "code_mappings_second_half": outcome.mappings[1],
        "decisions": outcome.changes,
    });
    let seconds = outcome.seconds.max(1e-9);
    suite.record(Record {
        benchmark: super::BENCHMARK.name.into(),
        case: "changes/a hundred".into(),
        system: plan.system(),
        threads: suite.threads(),
        rows: outcome.rows,
        seconds,
        rows_per_s: outcome.rows as f64 / seconds,
        bytes_per_s: 0.0,
        checksum: Some(seen.checksum.to_string()),
        more: more.as_object().cloned().unwrap_or_default(),
    })
}
