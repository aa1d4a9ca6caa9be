//! `make bench-state`: what state costs that is larger than memory, checkpointed, and recovered.
//!
//! `MILLSTREAM_BENCH_PARTS=checkpoints,budget` measures only these parts. Targets that were missed are listed at the end.

mod budget;
mod checkpoints;
mod recovery;
#[cfg(feature = "rocksdb")]
mod rocks;
mod stream;
mod watched;
mod windows;

use crate::suite::{Benchmark, Failure, Record, Runs, Suite, median};
pub(super) use checkpoints::counted;
use serde_json::{Map, Value};
pub(super) use stream::{BLOCK, Keys, Stream};
pub(super) use watched::Emptied;
pub(crate) use windows::Window;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "state",
    title: "checkpoints, state larger than memory, recovery (Darwin, figures 1 to 3 and 5)",
    data: "rows that are computed from their numbers: event_type (a third are views), k (1 M keys for checkpoints, 20 M for state
           larger than memory, one for each row for recovery), v, event_time",
    query: "views by key and 10 s; count and sum by key of one window; 14 aggregates by key of one window, and of one session;
            counts by key without a window",
    measured: "the whole statement, in turn: with a checkpoint every second and without; with a tenth of the memory that the
               state takes and with enough; beside RocksDB with a read and a write of every record, or of every key of a batch
               (with the feature `rocksdb`). How long it takes from the beginning of a session until a job with 5 GB of
               state, or 2 GB of sessions, has processed its first row",
    runs: Runs::Named,
    run,
};

/// Measures a part, and notes which targets it has missed.
type Part = fn(&mut Suite, &mut Missed) -> Result<(), Failure>;

const PARTS: &[(&str, Part)] = &[
    ("checkpoints", checkpoints::measure),
    ("scattered", checkpoints::measure_scattered),
    ("budget", budget::measure),
    ("standing", standing),
    #[cfg(feature = "rocksdb")]
    ("rocksdb", rocks::measure),
    ("recovery", recovery::measure),
];

/// Groups without windows, which stand as long as the job runs.
fn standing(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    checkpoints::measure_standing(suite, missed)?;
    budget::measure_standing(suite, missed)
}

/// Targets that were missed.
#[derive(Debug, Default)]
struct Missed(Vec<String>);

impl Missed {
    fn unless(&mut self, is_met: bool, what: impl FnOnce() -> String) {
        if !is_met {
            self.0.push(what());
        }
    }
}

/// Measures the parts that are wanted.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let wanted = std::env::var("MILLSTREAM_BENCH_PARTS").ok();
    let wanted: Option<Vec<&str>> = wanted.as_deref().map(|names| names.split(',').collect());
    let is_known = |name: &&str| PARTS.iter().any(|(part, _)| part == name);
    if let Some(unknown) = wanted.iter().flatten().find(|name| !is_known(name)) {
        let known = PARTS.iter().map(|(part, _)| *part).collect::<Vec<_>>().join(", ");
        return Err(format!("there is no part `{unknown}`; there are {known}").into());
    }
    let mut missed = Missed::default();
    for (name, measure) in PARTS {
        if wanted.as_ref().is_none_or(|wanted| wanted.contains(name)) {
            measure(suite, &mut missed).map_err(|error| format!("{name}: {error}"))?;
        }
    }
    if missed.0.is_empty() {
        suite.say("  all targets were met");
    }
    suite.say_missed(&missed.0);
    Ok(())
}

/// A record of this benchmark.
fn record(suite: &Suite, case: String, system: &str, rows: u64, seconds: f64, more: Map<String, Value>) -> Record {
    Record {
        benchmark: BENCHMARK.name.into(),
        case,
        system: system.into(),
        threads: suite.threads(),
        rows,
        seconds,
        rows_per_s: rows as f64 / seconds,
        bytes_per_s: 0.0,
        checksum: None,
        more,
    }
}

/// The median of a field of the records of a case and system.
fn median_of(suite: &Suite, case: &str, system: &str, field: &str) -> f64 {
    let of = suite.records().iter().filter(|r| r.case == case && r.system == system);
    let value = |record: &Record| match field {
        "rows_per_s" => record.rows_per_s,
        _ => record.more.get(field).and_then(Value::as_f64).unwrap_or(f64::NAN),
    };
    let values: Vec<f64> = of.map(value).collect();
    if values.is_empty() { f64::NAN } else { median(&values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results are compared within each part, and the state is recovered.
    #[test]
    fn every_part_runs_over_little_data() {
        let folder = tempfile::tempdir().unwrap();
        let mut suite = crate::suite::tests::small(folder.path());
        suite.run(&BENCHMARK).unwrap();
        let cases: Vec<&str> = suite.records().iter().map(Record::figure).collect();
        for (part, _) in PARTS {
            assert!(cases.contains(part), "{part}: {cases:?}");
        }
    }
}
