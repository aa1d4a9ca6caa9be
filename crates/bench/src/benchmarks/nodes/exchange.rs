//! What nodes send each other for a windowed count, beside what exchanging its rows would cost.

use super::workload::{BY_ROWS, NodeQuery, SCATTERED, StreamShape, VIEWS, YSB};
use super::{RunOfNodes, run};
use crate::benchmarks::state::Emptied;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite};
use serde_json::json;
use std::path::Path;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "exchange",
    title: "what nodes send each other: entries of windows, or rows",
    data: "6 M rows of ysb in six Arrow files (10,000 campaigns at random, a third of the rows are views), 40 s of event time; campaigns are
           numbers below 10,000, and scattered over 64 bits",
    query: "views by campaign and 10 s, which sends an entry for each campaign, window and node; beside it sessions of views by
            campaign, which send rows. On 2 and 3 nodes of one process with one and with all threads each",
    measured: "bytes that stations have sent, as the statistics say them: in all, by window, over the number of entries that
               belong to other nodes times the bytes of one (EXPLAIN's), at most 1.5, and over the bytes of rows",
    runs: Runs::Always,
    run: measure,
};

const ROWS: u64 = 6_000_000;
const CAMPAIGNS: u64 = 10_000;
const WINDOWS: u64 = 4;
const FILES: u64 = 6;
const NODES: [u64; 2] = [2, 3];
/// Bytes of an entry of a count by one integer: its hash, key, and count (EXPLAIN says it).
pub(super) const ENTRY_BYTES: f64 = 32.0;
/// What may be sent for each byte of an entry.
const BOUND: f64 = 1.5;

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let shape = StreamShape { rows: suite.rows(ROWS), keys: CAMPAIGNS, windows: WINDOWS };
    let mut missed = Vec::new();
    for workload in [&YSB, &SCATTERED] {
        let data = Emptied::new(suite.options.directory.join("exchange"))?;
        suite.generate("files", || workload.write(data.path(), shape, FILES))?;
        let alone = run(workload, data.path(), 1, suite.threads())?;
        for nodes in NODES {
            let by_rows = of(suite, (&BY_ROWS, workload.name), data.path(), shape, (nodes, 1))?;
            for threads in suite.thread_counts() {
                let ran = of(suite, (workload, workload.name), data.path(), shape, (nodes, threads))?;
                if ran.checksum != alone.checksum {
                    return Err(format!("{nodes} nodes: {} instead of {}", ran.checksum, alone.checksum).into());
                }
                // What each node has of each window, but for what it owns.
                let entries = shape.keys_of_node(nodes, VIEWS) * (nodes - 1) as f64 * WINDOWS as f64;
                let ratio = ran.entries().bytes as f64 / (entries * ENTRY_BYTES);
                let of_rows = by_rows.rows().bytes as f64 / ran.entries().bytes.max(1) as f64;
                let case = format!("{}, {nodes} nodes of {threads} threads", workload.name);
                suite.say(&format!(
                    "  {case}: {:>8.1} KB a window in {} frames: {ratio:.2} of entries × {ENTRY_BYTES} bytes; rows are {:.1} KB a window (×{of_rows:.0})",
                    ran.entries().bytes as f64 / 1e3 / WINDOWS as f64,
                    ran.entries().frames / WINDOWS,
                    by_rows.rows().bytes as f64 / 1e3 / WINDOWS as f64,
                ));
                if ratio > BOUND {
                    missed.push(format!("{case}: {ratio:.2} of entries × bytes, {BOUND} at most"));
                }
            }
        }
    }
    suite.say_missed(&missed);
    Ok(())
}

/// Runs and records a workload.
fn of(
    suite: &mut Suite,
    (workload, keys): (&NodeQuery, &str),
    directory: &Path,
    shape: StreamShape,
    (nodes, threads): (u64, usize),
) -> Result<RunOfNodes, Failure> {
    let ran = run(workload, directory, nodes, threads)?;
    let rows = workload.rows(shape);
    let is_rows = workload.name == BY_ROWS.name;
    let sent = if is_rows { ran.rows() } else { ran.entries() };
    let more = json!({ "sent_bytes": sent.bytes, "sent_frames": sent.frames });
    suite.record(Record {
        benchmark: BENCHMARK.name.into(),
        case: format!("{keys} by {}, {threads} threads/nodes={nodes}", if is_rows { "rows" } else { "entries" }),
        system: "millstream".into(),
        threads,
        rows,
        seconds: ran.seconds,
        rows_per_s: rows as f64 / ran.seconds,
        bytes_per_s: 0.0,
        checksum: Some(ran.checksum.to_string()),
        more: more.as_object().cloned().unwrap_or_default(),
    })?;
    Ok(ran)
}
