//! What nodes send each other and merge, for any number of nodes, by formulas. Their constants are measured in the same run; what they
//! say of two to four nodes is compared with what these do. More nodes than that are a model, not a measurement.
//!
//! Of a windowed aggregation with random keys, for each slice, where a node keeps `r` rows of `K` keys:
//!
//! ```text
//! D = K (1 − (1 − 1/K)^r)                      entries of a node
//! sent by all = (N − 1) · (D · e + 16 b)       e: bytes of an entry, b: of the head of a block (16 partitions)
//! frames      = (N − 1) · Σ ⌈D e · owned / P / 2 MiB⌉   over the owners, of which some have one partition more than others
//! all owners merge N · D entries, in N · D · m + N · P · p   m: time to seal, encode, decode and merge an entry, and its part of the output
//!                                              p: time of a block besides: one of each node and partition, P = 16, or one for each owner
//! rows instead = N · r · (N − 1)/N · w         w: bytes of a row on its way
//! ```
//!
//! Where keys fill a range of integers an entry is its place in an array, of other bytes and another time than one with its key.

use super::workload::{BY_ROWS, StreamShape, VIEWS, YSB};
use super::{RunOfNodes, distinct, run, run_into_nothing};
use crate::benchmarks::state::Emptied;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "scale-model",
    title: "what a windowed count sends and merges on 1 to 1,000 nodes, by formulas",
    data: "rows of ysb in twelve Arrow files: 10,000 campaigns and 40 windows of 10 s, 1 M and four, 1,000 and 100",
    query: "views by campaign and 10 s on 2 to 4 nodes of one process with a thread each; sessions of views, which send rows",
    measured: "bytes of an entry and of a row, time of an entry and of a block (the least of the repetitions), on two nodes; by the formulas
               with these what 2 to 4 nodes send and merge, beside what they do (20 % at most apart), and what up to 1,000 would. For times
               sources are slow and threads have precedence over others (root), so that they are those of the work",
    runs: Runs::WithAll,
    run: measure,
};

const ROWS: u64 = 12_000_000;
const FILES: u64 = 12;
/// A frame ends behind the block with which it has 2 MiB.
const FRAME_BYTES: f64 = ((2 << 20) + (32 << 10)) as f64;
/// What is measured.
const NODES: RangeInclusive<u64> = 2..=4;
/// Of all nodes, while times are measured.
const PACED_ROWS_PER_S: f64 = 12e6;
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
    /// Time of a block of a partition of a slice beside that of its entries.
    block_s: f64,
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
        let partitions = PARTITIONS.max(nodes);
        let of_partition = of_node * entry.bytes / partitions;
        let frames_of = |owned: f64| (owned * of_partition / FRAME_BYTES).ceil().max(1.0);
        // Some own a partition more than others.
        let (least, more) = ((partitions / nodes).floor(), partitions % nodes);
        let frames = (nodes - 1.0) * (more * frames_of(least + 1.0) + (nodes - more) * frames_of(least));
        Slice {
            entries: nodes * of_node,
            sent_bytes: (nodes - 1.0) * (of_node * entry.bytes + PARTITIONS * self.block_bytes),
            frames,
            merge_s: nodes * (of_node * entry.seconds + partitions * self.block_s),
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

    /// How long the aggregation took on some nodes. Sources are slow enough that the threads of all have a core whenever they want one.
    fn busy_s(&self, nodes: u64) -> Result<f64, Failure> {
        let rate = PACED_ROWS_PER_S / nodes as f64;
        let tables = YSB.tables_with(self.path(), &format!(", 'scan.rate-limit.rows-per-second' = '{rate:.0}'"));
        Ok(run_into_nothing(&YSB, &tables, nodes, 1)?.busy_s())
    }

    fn rows_of_node(&self, nodes: u64) -> f64 {
        self.shape.rows as f64 / (self.shape.windows * VIEWS * nodes) as f64
    }

    /// What all nodes have of all windows.
    fn entries(&self, nodes: u64) -> f64 {
        self.shape.keys_of_node(nodes, VIEWS) * (nodes * self.shape.windows) as f64
    }
}

/// While it is there no thread of this process waits for one of another or for its turn: what is measured is work. Needs root.
struct Precedence;

impl Precedence {
    fn take(suite: &Suite) -> Option<Precedence> {
        let taken = Precedence::set("-f", "1");
        if !taken {
            suite.say("  the threads have no precedence (root, chrt): times have what other threads took in between");
        }
        taken.then_some(Precedence)
    }

    fn set(policy: &str, priority: &str) -> bool {
        let process = std::process::id().to_string();
        let set = Command::new("chrt").args(["-a", policy, "-p", priority, &process]).output();
        set.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        Precedence::set("-o", "0");
    }
}

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let dense = ModelSample::new(suite, "10,000 keys", 10_000, 40)?;
    let scattered = ModelSample::new(suite, "1 M keys", 1_000_000, 4)?;
    let windows = ModelSample::new(suite, "many windows", 1000, 100)?;
    let samples = [&dense, &scattered, &windows];
    let precedence = Precedence::take(suite);
    let busy = least_busy(suite, samples)?;
    drop(precedence);
    let constants = calibrate(suite, samples, busy.map(|of_nodes| of_nodes[0]))?;
    let mut missed = Vec::new();
    let entries = [constants.dense, constants.scattered, constants.dense];
    for ((sample, entry), busy) in samples.into_iter().zip(entries).zip(busy) {
        for (nodes, busy_s) in NODES.zip(busy) {
            compare(suite, &constants, (sample, entry), (nodes, busy_s), &mut missed)?;
        }
    }
    print(suite, &constants);
    match missed.is_empty() {
        true => suite.say("  all formulas are within 20 % of what was measured"),
        false => suite.say(&format!("  formulas that are further off than 20 %:\n    {}", missed.join("\n    "))),
    }
    Ok(())
}

/// The least times of samples on some numbers of nodes: other processes only add to them. All are measured in turn, so that what changes the
/// machine's speed for a while meets all.
fn least_busy(suite: &Suite, samples: [&ModelSample; 3]) -> Result<[[f64; 3]; 3], Failure> {
    let mut least = [[f64::INFINITY; 3]; 3];
    for _ in 0..suite.options.repetitions {
        for (least, sample) in least.iter_mut().zip(samples) {
            for (least, nodes) in least.iter_mut().zip(NODES) {
                *least = least.min(sample.busy_s(nodes)?);
            }
        }
    }
    Ok(least)
}

/// Measures the constants on two nodes, on which the samples took so long.
fn calibrate(
    suite: &mut Suite,
    [dense, scattered, windows]: [&ModelSample; 3],
    [dense_s, scattered_s, windows_s]: [f64; 3],
) -> Result<Constants, Failure> {
    let on_two = |sample: &ModelSample| run(&YSB, sample.path(), 2, 1);
    let (of_dense, of_scattered, of_windows) = (on_two(dense)?, on_two(scattered)?, on_two(windows)?);
    let by_rows = run(&BY_ROWS, dense.path(), 2, 1)?;
    // Bytes of a window that one of two nodes has, if all of it were sent: from few keys and many the head follows.
    let bytes = |sample: &ModelSample, ran: &RunOfNodes| ran.entries().bytes as f64 / sample.shape.windows as f64;
    let keys = |sample: &ModelSample| sample.entries(2) / (2 * sample.shape.windows) as f64;
    let dense_bytes = (bytes(dense, &of_dense) - bytes(windows, &of_windows)) / (keys(dense) - keys(windows));
    let block_bytes = (bytes(windows, &of_windows) - keys(windows) * dense_bytes).max(0.0) / PARTITIONS;
    let scattered_bytes = (bytes(scattered, &of_scattered) - PARTITIONS * block_bytes) / keys(scattered);
    // Two equations, of many entries a block and of few.
    let (many, few) = (dense.entries(2), windows.entries(2));
    let blocks = |sample: &ModelSample| 2.0 * PARTITIONS * sample.shape.windows as f64;
    let block_s = (windows_s - dense_s * few / many) / (blocks(windows) - blocks(dense) * few / many);
    let block_s = block_s.max(0.0);
    let seconds = |sample: &ModelSample, busy: f64| (busy - blocks(sample) * block_s) / sample.entries(2);
    let constants = Constants {
        dense: Entry { bytes: dense_bytes, seconds: seconds(dense, dense_s) },
        scattered: Entry { bytes: scattered_bytes, seconds: seconds(scattered, scattered_s) },
        block_bytes,
        row_bytes: by_rows.rows().bytes as f64 / (dense.shape.rows as f64 / VIEWS as f64 / 2.0),
        block_s,
    };
    let Constants { dense, scattered, block_bytes, row_bytes, block_s } = constants;
    suite.say(&format!(
        "  measured on two nodes: {:.1} bytes and {:.1} ns an entry ({:.1} and {:.1} where keys fill a range), {block_bytes:.0} bytes the head of a \
         block, {row_bytes:.1} bytes a row, {:.2} µs a block",
        scattered.bytes,
        scattered.seconds * 1e9,
        dense.bytes,
        dense.seconds * 1e9,
        block_s * 1e6
    ));
    Ok(constants)
}

/// What the formulas say of some nodes, beside what these do.
fn compare(
    suite: &mut Suite,
    constants: &Constants,
    (sample, entry): (&ModelSample, Entry),
    (nodes, busy_s): (u64, f64),
    missed: &mut Vec<String>,
) -> Result<(), Failure> {
    let ran = run(&YSB, sample.path(), nodes, 1)?;
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
        Constants { dense: ENTRY, scattered: ENTRY, block_bytes: 0.0, row_bytes: 24.0, block_s: 1e-6 };

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
