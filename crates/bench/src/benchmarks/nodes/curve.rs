//! How much faster several processes are than one, each with a part of a core, over the same rows.

use super::processes::{Apart, Cluster, ClusterRun};
use super::workload::{ADS, NodeQuery, Q8, StreamShape, YSB};
use crate::benchmarks::state::Emptied;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite, median};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "scale-curve",
    title: "1 to 4 processes with 0.4 of a core each over the same rows",
    data: "Arrow files in memory (/dev/shm) with rows that follow from their numbers: ysb with 10 to 1 M campaigns, a third of the rows
           are views; persons and auctions as Nexmark's (1 to 3, three of four auctions of hot sellers); ads and purchases of 1,000 and 10,000 ads.
           Every file spans all event times; eight files of each stream, and the same rows in six for three nodes",
    query: "views by campaign and 10 s; Nexmark's q8; profit of ads in windows of 5 s every second; into nothing",
    measured: "processes from start to end, one thread each, in control groups: once over all windows and once over the first quarter of
               them. Rates are of the difference, so that start and compilation are not in it. limit: four processes that do not know of each
               other, over a quarter of the files each",
    runs: Runs::Named,
    run: measure,
};

const CORES: f64 = 0.4;
const NODES: usize = 4;
const WINDOWS: u64 = 8;
/// What a node must have had of its part of a core.
const GIVEN: f64 = 0.85;
/// The smaller input.
pub(super) fn few_windows(shape: StreamShape) -> StreamShape {
    shape.first(shape.windows / 4)
}

/// What is measured, with rows of the largest table, keys, and the speed-up that four nodes should have.
const CASES: [(&str, &NodeQuery, u64, u64, f64); 8] = [
    ("ysb/keys=10000", &YSB, 240_000_000, 10_000, 3.6),
    ("q8", &Q8, 24_000_000, 1, 3.0),
    ("ads/keys=10000", &ADS, 48_000_000, 10_000, 3.0),
    ("ads/keys=1000", &ADS, 48_000_000, 1000, 3.0),
    ("ysb/keys=10", &YSB, 240_000_000, 10, f64::NAN),
    ("ysb/keys=1000", &YSB, 240_000_000, 1000, f64::NAN),
    ("ysb/keys=100000", &YSB, 120_000_000, 100_000, f64::NAN),
    ("ysb/keys=1000000", &YSB, 120_000_000, 1_000_000, f64::NAN),
];

/// Files of each stream: as many for each node.
fn files(nodes: usize) -> u64 {
    if nodes == 3 { 6 } else { 8 }
}

/// The larger and the smaller input as scripts, for some number of files.
pub(super) struct InputFiles {
    files: u64,
    pub(super) scripts: [PathBuf; 2],
    /// For each of the most nodes one over the files that it reads.
    parts: [Vec<PathBuf>; 2],
    _data: [Emptied; 2],
}

impl InputFiles {
    pub(super) fn write(
        directory: &Path,
        workload: &NodeQuery,
        shape: StreamShape,
        files: u64,
    ) -> Result<InputFiles, Failure> {
        let script = |data: &Path| -> Result<PathBuf, Failure> {
            let script = data.join("script.sql");
            let text = format!(
                "SET 'parallelism.default' = '1';\nSET 'pipeline.tier' = 'compiled';\n{}
                 CREATE TABLE result ({}) WITH ('connector' = 'blackhole');\nINSERT INTO result {};\n",
                workload.tables(data),
                workload.result,
                workload.query
            );
            std::fs::write(&script, text)?;
            Ok(script)
        };
        let one = |shape: StreamShape| -> Result<(PathBuf, Vec<PathBuf>, Emptied), Failure> {
            let data = Emptied::new(directory.join(format!("{}-{files}-{}", workload.name, shape.windows)))?;
            workload.write(data.path(), shape, files)?;
            let part = |node| {
                let part = data.path().join(format!("part-{node}"));
                workload.link(data.path(), files, (node, NODES as u64), &part)?;
                script(&part)
            };
            let parts = (0..NODES as u64).map(part).collect::<Result<_, _>>()?;
            Ok((script(data.path())?, parts, data))
        };
        let ((all, all_parts, all_data), (few, few_parts, few_data)) = (one(shape)?, one(few_windows(shape))?);
        Ok(InputFiles { files, scripts: [all, few], parts: [all_parts, few_parts], _data: [all_data, few_data] })
    }
}

/// One repetition: over all windows, and over the first ones.
struct Repetition {
    all: ClusterRun,
    few: ClusterRun,
}

impl Repetition {
    fn seconds(&self) -> f64 {
        self.all.seconds - self.few.seconds
    }

    fn processor_s(&self) -> f64 {
        self.all.processor_s - self.few.processor_s
    }

    fn wire_bytes(&self) -> f64 {
        self.all.wire_bytes - self.few.wire_bytes
    }
}

/// Medians of the most nodes.
struct Last {
    speed_up: f64,
    /// That each node had.
    cores: f64,
}

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let directory = Path::new("/dev/shm").join(format!("millstream-bench-{}", std::process::id()));
    let directory = Emptied::new(directory)?;
    let cluster = Cluster::start(NODES, CORES)?;
    let mut missed = Vec::new();
    let wanted = suite.options.case.clone();
    for (name, workload, rows, keys, target) in CASES {
        if wanted.as_ref().is_some_and(|wanted| name != wanted && !name.starts_with(&format!("{wanted}/"))) {
            continue;
        }
        let shape = StreamShape { rows: suite.rows(rows), keys, windows: WINDOWS };
        let inputs = suite.generate(name, || {
            [8, 6]
                .into_iter()
                .map(|files| InputFiles::write(directory.path(), workload, shape, files))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let Last { speed_up, cores } = case(suite, &cluster, (name, workload, shape), &inputs)?;
        if speed_up < target {
            let void = match cores < CORES * GIVEN {
                true => format!("; void, as the machine was busy: each node had {cores:.2} of a core"),
                false => String::new(),
            };
            missed.push(format!("{name}: {speed_up:.2} on {NODES} nodes, {target} wanted{void}"));
        }
    }
    suite.say_missed(&missed);
    Ok(())
}

/// Runs a case on one to four nodes in turn.
fn case(
    suite: &mut Suite,
    cluster: &Cluster,
    (name, workload, shape): (&str, &NodeQuery, StreamShape),
    inputs: &[InputFiles],
) -> Result<Last, Failure> {
    let (all, few) = (workload.rows(shape), workload.rows(few_windows(shape)));
    suite.say(&format!("  {name}: {all} rows"));
    let mut runs: Vec<Vec<Repetition>> = (0..NODES).map(|_| Vec::new()).collect();
    let (mut expected, mut apart) = (None, Vec::new());
    for repetition in 0..=suite.options.repetitions {
        for nodes in 1..=NODES {
            let input = inputs.iter().find(|input| input.files == files(nodes)).ok_or("no such files")?;
            let [large, small] = &input.scripts;
            let few = cluster.run(small, nodes)?;
            if repetition == 0 {
                // What is compiled is kept, for the runs that are measured.
                continue;
            }
            let all = cluster.run(large, nodes)?;
            let rows_out = all.stats["rows_out"].as_u64();
            if *expected.get_or_insert(rows_out) != rows_out {
                return Err(format!("{name}: {rows_out:?} rows on {nodes} nodes, {expected:?} before").into());
            }
            runs[nodes - 1].push(Repetition { all, few });
        }
        let input = inputs.iter().find(|input| input.files == files(NODES)).ok_or("no such files")?;
        let [large, small] = &input.parts;
        let few = cluster.apart(small)?;
        if repetition > 0 {
            let all = cluster.apart(large)?;
            apart.push(Apart { seconds: all.seconds - few.seconds, processor_s: all.processor_s - few.processor_s });
        }
    }
    let rows = (all - few) as f64;
    let mut last = Last { speed_up: 1.0, cores: CORES };
    for (nodes, repetitions) in (1..).zip(&runs) {
        // Runs of one repetition are close to each other in time, so a change of the machine's speed meets all.
        let of = |value: &dyn Fn(&Repetition, &Repetition) -> f64| {
            let values = runs[0].iter().zip(repetitions).map(|(one, many)| value(one, many));
            median(&values.collect::<Vec<_>>())
        };
        let speed_up = of(&|one, many| one.seconds() / many.seconds());
        let cores = of(&|_, many| many.processor_s() / many.seconds()) / nodes as f64;
        suite.say(&format!(
            "    {nodes} nodes: {:>7.2} M rows/s, speed-up {speed_up:.2} ({:.2} with start, {:.2} by processor time); {:>7.2} M rows per processor \
             second, {cores:.2} of a core each; {:>8.2} MB exchanged",
            rows / of(&|_, many| many.seconds()) / 1e6,
            of(&|one, many| one.all.seconds / many.all.seconds),
            of(&|one, many| one.processor_s() / many.processor_s()) * nodes as f64,
            rows / of(&|_, many| many.processor_s()) / 1e6,
            of(&|_, many| many.wire_bytes()) / 1e6
        ));
        last = Last { speed_up, cores };
        for repetition in repetitions {
            suite.record(record(name, nodes, all - few, repetition))?;
        }
    }
    let ratios = |of: &dyn Fn(&Repetition, &Apart) -> f64| {
        median(&runs[0].iter().zip(&apart).map(|(one, apart)| of(one, apart)).collect::<Vec<_>>())
    };
    let limit = ratios(&|one, apart| one.seconds() / apart.seconds);
    suite.say(&format!(
        "    limit: {NODES} processes apart: speed-up {limit:.2} ({:.2} by processor time); {NODES} nodes have {:.2} of it",
        ratios(&|one, apart| one.processor_s() / apart.processor_s) * NODES as f64,
        last.speed_up / limit
    ));
    Ok(last)
}

fn record(name: &str, nodes: usize, rows: u64, run: &Repetition) -> Record {
    let seconds = run.seconds();
    // Of the first node.
    let stations = |part: &str| run.all.stats[part].as_array().cloned().unwrap_or_default();
    let sent = |station: Value| station["sent_bytes"].as_u64().unwrap_or_default();
    let sent: u64 = ["aggregations", "operators"].iter().flat_map(|part| stations(part)).map(sent).sum();
    let more = json!({
        "whole_seconds": run.all.seconds,
        "processor_s": run.processor_s(),
        "wire_bytes": run.wire_bytes(),
        "first_node_sent_bytes": sent,
    });
    Record {
        benchmark: BENCHMARK.name.into(),
        case: format!("{}/nodes={nodes}", name.replace('/', ", ")),
        system: "millstream".into(),
        threads: 1,
        rows,
        seconds,
        rows_per_s: rows as f64 / seconds,
        bytes_per_s: 0.0,
        checksum: None,
        more: more.as_object().cloned().unwrap_or_default(),
    }
}
