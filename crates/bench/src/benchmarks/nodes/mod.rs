//! Queries on several nodes: what these send each other (`exchange`), what that comes to on many (`scale-model`), how much faster
//! several processes are than one (`scale-curve`), what that takes of the network (`scale-link`), and how many rows a second they sustain (`scale-sustainable`).

mod curve;
mod exchange;
mod limited;
mod links;
mod model;
mod processes;
mod quota;
mod sustained;
mod workload;

use crate::suite::{Adder, Checksum, Failure, session, timed};
pub(super) use curve::BENCHMARK as CURVE;
pub(super) use exchange::BENCHMARK as EXCHANGE;
pub(super) use limited::BENCHMARK as LIMITED;
use millstream::{RunMonitor, SentSnapshot, StatsSnapshot, TriggerSnapshot};
pub(super) use model::BENCHMARK as MODEL;
use std::path::Path;
pub(super) use sustained::BENCHMARK as SUSTAINED;
use workload::NodeQuery;

/// How many of `keys` keys there are among `rows` rows with random ones.
fn distinct(keys: f64, rows: f64) -> f64 {
    -keys * (rows * (-1.0 / keys).ln_1p()).exp_m1()
}

/// What a run on several nodes of this process gave.
struct RunOfNodes {
    seconds: f64,
    checksum: Checksum,
    /// The sum over all nodes.
    stats: StatsSnapshot,
}

impl RunOfNodes {
    /// Entries that windowed aggregations have sent.
    fn entries(&self) -> SentSnapshot {
        RunOfNodes::sum(&self.stats.aggregations)
    }

    /// Rows that keyed operators have sent.
    fn rows(&self) -> SentSnapshot {
        RunOfNodes::sum(&self.stats.operators)
    }

    fn sum(stations: &[TriggerSnapshot]) -> SentSnapshot {
        stations.iter().map(|station| station.sent).fold(SentSnapshot::default(), |sum, sent| SentSnapshot {
            frames: sum.frames + sent.frames,
            bytes: sum.bytes + sent.bytes,
        })
    }

    /// Time that workers have spent on windowed aggregations: sealing, encoding, merging.
    fn busy_s(&self) -> f64 {
        self.stats.aggregations.iter().map(|station| station.busy.as_secs_f64()).sum()
    }
}

/// Runs a workload on several nodes of this process, each with so many threads.
fn run(workload: &NodeQuery, directory: &Path, nodes: u64, threads: usize) -> Result<RunOfNodes, Failure> {
    run_statement(workload.query, &workload.tables(directory), nodes, threads)
}

/// The same into nothing, on every node; tables are given by their definitions.
fn run_into_nothing(workload: &NodeQuery, tables: &str, nodes: u64, threads: usize) -> Result<RunOfNodes, Failure> {
    let result = workload.result;
    let tables = format!("{tables} CREATE TABLE result ({result}) WITH ('connector' = 'blackhole');");
    run_statement(&format!("INSERT INTO result {}", workload.query), &tables, nodes, threads)
}

fn run_statement(statement: &str, tables: &str, nodes: u64, threads: usize) -> Result<RunOfNodes, Failure> {
    let mut session = session(threads)?;
    session.set("pipeline.nodes", &nodes.to_string())?;
    session.run(tables)?;
    let statements = session.parse(statement)?;
    let (mut adder, monitor) = (Adder::default(), RunMonitor::new());
    let (seconds, ended) = timed(|| session.execute(&statements[0], &mut adder, &monitor));
    ended?;
    let stats = monitor.stats().ok_or("the query did not run")?.snapshot();
    Ok(RunOfNodes { seconds, checksum: adder.checksum(), stats })
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::{ADS, BY_ROWS, Q8, SCATTERED, StreamShape, YSB};

    #[test]
    fn results_are_the_same_of_any_number_of_files_and_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let shape = StreamShape { rows: 12_000, keys: 50, windows: 4 };
        for workload in [YSB, SCATTERED, BY_ROWS, Q8, ADS] {
            let mut expected = None;
            for (files, nodes) in [(1, 1), (4, 2), (6, 3)] {
                let directory = folder.path().join(format!("{}-{files}", workload.name));
                workload.write(&directory, shape, files).unwrap();
                let ran = run(&workload, &directory, nodes, 2).unwrap();
                assert!(ran.checksum.rows >= shape.keys, "{}: {}", workload.name, ran.checksum);
                assert_eq!(*expected.get_or_insert(ran.checksum), ran.checksum, "{}, {nodes} nodes", workload.name);
                assert_eq!(ran.entries().bytes + ran.rows().bytes > 0, nodes > 1, "{}, {nodes} nodes", workload.name);
            }
        }
    }

    #[test]
    fn few_rows_have_as_many_keys_and_many_have_all() {
        assert!((distinct(1e9, 10.0) - 10.0).abs() < 1e-3);
        assert!((distinct(10.0, 1e6) - 10.0).abs() < 1e-9);
        assert!((distinct(1e8, 1e8) - 6.32e7).abs() < 1e5);
    }
}
