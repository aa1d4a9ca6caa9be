//! What nodes send each other and merge, for any number of nodes, by formulas. Their constants are measured in the same run; what they
//! say of two to four nodes is compared with what these do. More nodes than that are a model, not a measurement.
//!
//! Of a windowed aggregation with random keys, for each slice, where a node keeps `r` rows of `K` keys:
//!
//! ```text
//! D = K (1 − (1 − 1/K)^r)                      entries of a node
//! sent by all = (N − 1) · (D · e + 16 b)       e: bytes of an entry, b: of the head of a block (16 partitions)
//! frames      = N (N − 1) · ⌈D e / N / 2 MiB⌉
//! all owners merge N · D entries, in N · D · m + P · p   m: time to seal, encode, decode and merge an entry, and its part of the output
//!                                              p: time of a partition besides, of which there are P = 16, or one for each owner
//! rows instead = N · r · (N − 1)/N · w         w: bytes of a row on its way
//! ```
//!
//! Where keys fill a range of integers an entry is its place in an array, of other bytes and another time than one with its key.

use super::workload::{BY_ROWS, StreamShape, VIEWS, YSB};
use super::{RunOfNodes, distinct, run};
use crate::benchmarks::state::Emptied;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite};
use serde_json::json;
use std::path::Path;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "scale-model",
    title: "what a windowed count sends and merges on 1 to 1,000 nodes, by formulas",
    data: "rows of ysb in twelve Arrow files: 10,000 and 1 M campaigns, four windows of 10 s; 1,000 campaigns and 100 windows",
    query: "views by campaign and 10 s on 2 to 4 nodes of one process with a thread each; sessions of views, which send rows",
    measured: "bytes of an entry and of a row, time of an entry and of a partition (the least of the repetitions), on two nodes; by the formulas
               with these what 2 to 4 nodes send and merge, beside what they do (20 % at most apart), and what up to 1,000 would",
    runs: Runs::WithAll,
    run: measure,
};

const ROWS: u64 = 12_000_000;
const FILES: u64 = 12;
const FRAME_BYTES: f64 = (2 << 20) as f64;
/// How far the formulas may be off.
const BOUND: f64 = 0.2;
/// Of what is printed: rows that a node keeps, a second, and the length of a slice.
const NODE_ROWS_PER_S: f64 = 10e6;
const SLICE_S: f64 = 10.0;
const PRINTED_KEYS: [f64; 4] = [1e4, 1e6, 1e8, 1e9];
const PRINTED_NODES: [f64; 7] = [1.0, 2.0, 4.0, 16.0, 64.0, 256.0, 1000.0];
/// Of a table, each with a block at least.
const PARTITIONS: f64 = 16.0;

/// What is measured on two nodes.
#[derive(Debug, Clone, Copy)]
struct Constants {
    /// Of keys that fill a range.
    dense: Entry,
    /// Of other keys.
    scattered: Entry,
    /// Of the head of a block.
    block_bytes: f64,
    /// Of a row, with its share of what frames have besides.
    row_bytes: f64,
    /// Time of a partition of a slice beside that of its entries.
    partition_s: f64,
}

/// What an entry costs.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// As it is sent.
    bytes: f64,
    /// Of workers: to seal, encode, decode and merge it.
    seconds: f64,
}

/// What is said of a slice, over all nodes.
#[derive(Debug, Clone, Copy)]
struct Slice {
    entries: f64,
    sent_bytes: f64,
    frames: f64,
    merge_s: f64,
}

impl Constants {
    /// Of a slice in which each node keeps so many rows.
    fn slice(&self, entry: Entry, keys: f64, nodes: f64, rows_of_node: f64) -> Slice {
        let of_node = distinct(keys, rows_of_node);
        let per_owner = (of_node * entry.bytes / nodes / FRAME_BYTES).ceil().max(1.0);
        let frames = nodes * (nodes - 1.0) * per_owner;
        Slice {
            entries: nodes * of_node,
            sent_bytes: (nodes - 1.0) * (of_node * entry.bytes + PARTITIONS * self.block_bytes),
            frames,
            merge_s: nodes * of_node * entry.seconds + PARTITIONS.max(nodes) * self.partition_s,
        }
    }

    /// What all nodes send of so many rows, if they send rows.
    fn rows(&self, rows: f64, nodes: f64) -> f64 {
        rows * self.row_bytes * (nodes - 1.0) / nodes
    }
}

/// A shape that is measured, with its files.
struct ModelSample {
    name: &'static str,
    shape: StreamShape,
    data: Emptied,
}

impl ModelSample {
    fn new(suite: &Suite, name: &'static str, keys: u64, windows: u64) -> Result<ModelSample, Failure> {
        let shape = StreamShape { rows: suite.rows(ROWS), keys, windows };
        let data = Emptied::new(suite.options.directory.join(format!("scale-model-{name}")))?;
        YSB.write(data.path(), shape, FILES)?;
        Ok(ModelSample { name, shape, data })
    }

    fn path(&self) -> &Path {
        self.data.path()
    }

    /// A run, and the least time that its aggregation took: other processes only add to that.
    fn run(&self, suite: &Suite, nodes: u64) -> Result<(RunOfNodes, f64), Failure> {
        let mut ran = run(&YSB, self.path(), nodes, 1)?;
        let mut busy = f64::INFINITY;
        for _ in 0..suite.options.repetitions {
            ran = run(&YSB, self.path(), nodes, 1)?;
            busy = busy.min(ran.busy_s());
        }
        Ok((ran, busy))
    }

    fn rows_of_node(&self, nodes: u64) -> f64 {
        self.shape.rows as f64 / (self.shape.windows * VIEWS * nodes) as f64
    }

    /// What all nodes have of all windows.
    fn entries(&self, nodes: u64) -> f64 {
        self.shape.keys_of_node(nodes, VIEWS) * (nodes * self.shape.windows) as f64
    }
}

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let dense = ModelSample::new(suite, "10,000 keys", 10_000, 4)?;
    let scattered = ModelSample::new(suite, "1 M keys", 1_000_000, 4)?;
    let windows = ModelSample::new(suite, "many windows", 1000, 100)?;
    let constants = calibrate(suite, &dense, &scattered, &windows)?;
    let mut missed = Vec::new();
    for (sample, entry) in [(&dense, constants.dense), (&scattered, constants.scattered), (&windows, constants.dense)] {
        for nodes in 2..=4 {
            compare(suite, &constants, (sample, entry), nodes, &mut missed)?;
        }
    }
    print(suite, &constants);
    match missed.is_empty() {
        true => suite.say("  all formulas are within 20 % of what was measured"),
        false => suite.say(&format!("  formulas that are further off than 20 %:\n    {}", missed.join("\n    "))),
    }
    Ok(())
}

/// Measures the constants on two nodes.
fn calibrate(
    suite: &mut Suite,
    dense: &ModelSample,
    scattered: &ModelSample,
    windows: &ModelSample,
) -> Result<Constants, Failure> {
    let (of_dense, dense_s) = dense.run(suite, 2)?;
    let (of_scattered, scattered_s) = scattered.run(suite, 2)?;
    let (of_windows, windows_s) = windows.run(suite, 2)?;
    let by_rows = run(&BY_ROWS, dense.path(), 2, 1)?;
    // Bytes of a window that one of two nodes has, if all of it were sent: from few keys and many the head follows.
    let bytes = |sample: &ModelSample, ran: &RunOfNodes| ran.entries().bytes as f64 / sample.shape.windows as f64;
    let keys = |sample: &ModelSample| sample.entries(2) / (2 * sample.shape.windows) as f64;
    let dense_bytes = (bytes(dense, &of_dense) - bytes(windows, &of_windows)) / (keys(dense) - keys(windows));
    let block_bytes = (bytes(windows, &of_windows) - keys(windows) * dense_bytes).max(0.0) / PARTITIONS;
    let scattered_bytes = (bytes(scattered, &of_scattered) - PARTITIONS * block_bytes) / keys(scattered);
    let dense_entry = Entry { bytes: dense_bytes, seconds: dense_s / dense.entries(2) };
    let partitions_s = windows_s - windows.entries(2) * dense_entry.seconds;
    let constants = Constants {
        dense: dense_entry,
        scattered: Entry { bytes: scattered_bytes, seconds: scattered_s / scattered.entries(2) },
        block_bytes,
        row_bytes: by_rows.rows().bytes as f64 / (dense.shape.rows as f64 / VIEWS as f64 / 2.0),
        partition_s: partitions_s.max(0.0) / (windows.shape.windows as f64 * PARTITIONS),
    };
    let Constants { dense, scattered, block_bytes, row_bytes, partition_s } = constants;
    suite.say(&format!(
        "  measured on two nodes: {:.1} bytes and {:.1} ns an entry ({:.1} and {:.1} where keys fill a range), {block_bytes:.0} bytes the head of a \
         block, {row_bytes:.1} bytes a row, {:.2} µs a partition",
        scattered.bytes,
        scattered.seconds * 1e9,
        dense.bytes,
        dense.seconds * 1e9,
        partition_s * 1e6
    ));
    Ok(constants)
}

/// What the formulas say of some nodes, beside what these do.
fn compare(
    suite: &mut Suite,
    constants: &Constants,
    (sample, entry): (&ModelSample, Entry),
    nodes: u64,
    missed: &mut Vec<String>,
) -> Result<(), Failure> {
    let (ran, busy_s) = sample.run(suite, nodes)?;
    let by_rows = run(&BY_ROWS, sample.path(), nodes, 1)?;
    let (sent, windows) = (ran.entries(), sample.shape.windows as f64);
    let said = constants.slice(entry, sample.shape.keys as f64, nodes as f64, sample.rows_of_node(nodes));
    let said_of_rows = constants.rows(sample.shape.rows as f64 / VIEWS as f64, nodes as f64);
    let parts = [
        ("bytes", said.sent_bytes * windows, sent.bytes as f64),
        ("frames", said.frames * windows, sent.frames as f64),
        ("merge µs", said.merge_s * windows * 1e6, busy_s * 1e6),
        ("bytes of rows", said_of_rows, by_rows.rows().bytes as f64),
    ];
    let mut text = format!("  {}, {nodes} nodes:", sample.name);
    for (what, said, measured) in parts {
        let off = said / measured - 1.0;
        text += &format!(" {what} {said:.0} by formula, {measured:.0} measured ({:+.1} %);", off * 100.0);
        if off.abs() > BOUND {
            missed.push(format!("{}, {nodes} nodes: {what} {:+.1} %", sample.name, off * 100.0));
        }
    }
    suite.say(text.trim_end_matches(';'));
    let more = json!({
        "sent_bytes": sent.bytes, "sent_frames": sent.frames, "merge_s": busy_s,
        "formula_bytes": said.sent_bytes * windows, "formula_frames": said.frames * windows,
        "formula_merge_s": said.merge_s * windows, "rows_bytes": by_rows.rows().bytes, "formula_rows_bytes": said_of_rows,
    });
    suite.record(Record {
        benchmark: BENCHMARK.name.into(),
        case: format!("{}/nodes={nodes}", sample.name),
        system: "millstream".into(),
        threads: 1,
        rows: sample.shape.rows,
        seconds: ran.seconds,
        rows_per_s: sample.shape.rows as f64 / ran.seconds,
        bytes_per_s: 0.0,
        checksum: Some(ran.checksum.to_string()),
        more: more.as_object().cloned().unwrap_or_default(),
    })
}

/// What up to 1,000 nodes would send and merge.
fn print(suite: &Suite, constants: &Constants) {
    suite.say(&format!(
        "  by formula, {:.0} M rows a second kept by each node, slices of {SLICE_S} s (each node sends; rows instead; an owner merges, a slice; \
         frames of all nodes, a slice):",
        NODE_ROWS_PER_S / 1e6
    ));
    for keys in PRINTED_KEYS {
        for nodes in PRINTED_NODES {
            let slice = constants.slice(constants.scattered, keys, nodes, NODE_ROWS_PER_S * SLICE_S);
            let rows = constants.rows(NODE_ROWS_PER_S, nodes);
            suite.say(&format!(
                "    {keys:>7.0e} keys, {nodes:>4} nodes: {:>9.3} MB/s, {:>7.1} MB/s, {:>11.0} entries in {:>8.4} s, {:>10.0} frames",
                slice.sent_bytes / nodes / SLICE_S / 1e6,
                rows / 1e6,
                slice.entries / nodes,
                slice.merge_s / nodes,
                slice.frames
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry = Entry { bytes: 32.0, seconds: 1e-8 };
    const CONSTANTS: Constants =
        Constants { dense: ENTRY, scattered: ENTRY, block_bytes: 0.0, row_bytes: 24.0, partition_s: 1e-6 };

    #[test]
    fn one_node_sends_nothing_and_many_send_what_the_design_says() {
        let alone = CONSTANTS.slice(ENTRY, 1e6, 1.0, 1e8);
        assert_eq!((alone.sent_bytes, alone.frames), (0.0, 0.0));
        let many = CONSTANTS.slice(ENTRY, 1e8, 1000.0, 1e8);
        assert!((many.sent_bytes / 1000.0 / SLICE_S / 1e6 - 202.0).abs() < 2.0, "{many:?}");
        assert!((many.entries / 1000.0 - 6.3e7).abs() < 1e6, "{many:?}");
        assert_eq!(CONSTANTS.slice(ENTRY, 1e4, 1000.0, 1e8).frames, 999_000.0);
    }

    #[test]
    fn the_model_runs_over_little_data() {
        let folder = tempfile::tempdir().unwrap();
        let mut suite = crate::suite::tests::small(folder.path());
        suite.run(&BENCHMARK).unwrap();
        assert_eq!(suite.records().len(), 9);
    }
}
