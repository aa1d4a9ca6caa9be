//! What several nodes lose when their exchange fills much of the link.

use super::curve::{InputFiles, few_windows};
use super::processes::Cluster;
use super::workload::{StreamShape, YSB};
use crate::benchmarks::state::Emptied;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite, median};
use serde_json::json;
use std::path::Path;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "scale-link",
    title: "4 processes with 0.2 of a core each, over links of which the exchange fills 60 %",
    data: "Arrow files in memory (/dev/shm): 240 M rows of ysb with 10,000 campaigns, a third are views; 32 windows of 10 s",
    query: "views by campaign and 10 s, into nothing",
    measured: "processes in network namespaces, each with a link to a bridge: over all windows and over the first quarter of them, of which
               the difference counts. In pairs: links without a limit, and with one (tbf, both ways of each) of the bytes a second that the busiest
               way has carried, divided by 0.6. The median of the pairs' ratios loses 5 % at most",
    runs: Runs::Named,
    run: measure,
};

const CORES: f64 = 0.2;
const NODES: usize = 4;
const FILES: u64 = 8;
const SHAPE: StreamShape = StreamShape { rows: 240_000_000, keys: 10_000, windows: 32 };
/// What the exchange fills of the link.
const FILLED: f64 = 0.6;
/// What the throughput may lose.
const BOUND: f64 = 0.05;
/// Pairs of runs, if there are no more repetitions.
const PAIRS: usize = 15;

/// A run over the windows behind the first ones.
struct Measured {
    seconds: f64,
    /// Of the busiest way.
    bytes: f64,
}

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let directory = Path::new("/dev/shm").join(format!("millstream-bench-{}", std::process::id()));
    let directory = Emptied::new(directory)?;
    let shape = StreamShape { rows: suite.rows(SHAPE.rows), ..SHAPE };
    let input = suite.generate("rows", || InputFiles::write(directory.path(), &YSB, shape, FILES))?;
    let cluster = Cluster::with_links(NODES, CORES)?;
    let links = cluster.links().ok_or("the nodes have no links")?;
    let [large, small] = &input.scripts;
    let run = || -> Result<Measured, Failure> {
        let (few, all) = (cluster.run(small, NODES)?, cluster.run(large, NODES)?);
        Ok(Measured { seconds: all.seconds - few.seconds, bytes: all.wire_bytes - few.wire_bytes })
    };
    // What is compiled is kept.
    run()?;
    let rows = shape.rows - few_windows(shape).rows;
    let (mut ratios, mut filled) = (Vec::new(), Vec::new());
    for _ in 0..suite.options.repetitions.max(PAIRS) {
        let free = run()?;
        let rate = free.bytes / free.seconds / FILLED;
        links.limit(Some(rate))?;
        let limited = run();
        links.limit(None)?;
        let limited = limited?;
        ratios.push(free.seconds / limited.seconds);
        filled.push(limited.bytes / limited.seconds / rate);
        for (name, measured) in [("free", &free), ("limited", &limited)] {
            suite.record(Record {
                benchmark: BENCHMARK.name.into(),
                case: format!("ysb/link={name}"),
                system: "millstream".into(),
                threads: 1,
                rows,
                seconds: measured.seconds,
                rows_per_s: rows as f64 / measured.seconds,
                bytes_per_s: measured.bytes / measured.seconds,
                checksum: None,
                more: json!({ "link_bytes_per_s": rate }).as_object().cloned().unwrap_or_default(),
            })?;
        }
    }
    ratios.sort_by(f64::total_cmp);
    let (middle, quarter) = (median(&ratios), ratios.len() / 4);
    suite.say(&format!(
        "  limited links: {middle:.3} of the throughput without a limit ({:.3} to {:.3}, the middle half of {} pairs); they were {:.0} % full",
        ratios[quarter],
        ratios[ratios.len() - 1 - quarter],
        ratios.len(),
        median(&filled) * 100.0
    ));
    let missed = if middle < 1.0 - BOUND {
        vec![format!("{middle:.3} of the throughput, {} wanted", 1.0 - BOUND)]
    } else {
        vec![]
    };
    suite.say_missed(&missed);
    Ok(())
}
