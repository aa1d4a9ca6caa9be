//! Sustainable throughput of several processes (HPI, sections 4 and 5.2.3): the highest rate at which the latency of results does not grow.
//!
//! Each node reads a stream of advertisements and one of purchases from generators in processes of their own, which send by a schedule that does
//! not wait. The first node prints the results; the latency of a window is the time from its end until its last row has been read from there.

use super::processes::Cluster;
use crate::benchmarks::state::Emptied;
use crate::benchmarks::sustainable::{QUERY, STREAMS, Shape, Trial, finished, generators, highest, now_ms, seconds};
use crate::generator::free_ports;
use crate::suite::{Benchmark, Failure, Record, Runs, Suite, median, timed};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "scale-sustainable",
    title: "sustainable throughput of 1, 2 and 4 processes with 0.4 of a core each",
    data: "ads and purchases as of the benchmark sustainable, of 1,000 advertisements; for each node a generator of either, over TCP as Arrow streams",
    query: "that of sustainable over all streams (UNION ALL), printed as CSV by the first node",
    measured: "rows per second of all streams at the highest rate that was sustainable, by bisection over runs of some seconds; latency of a
               window: from its end until its last row has been read from the pipe. Generators and the reader are outside of the control groups",
    runs: Runs::Named,
    run: measure,
};

const CORES: f64 = 0.4;
const NODES: [usize; 3] = [1, 2, 4];
const KEYS: u64 = 1000;
/// How long processes with a part of a core get to plan, to compile, and to connect.
const PREPARATION: Duration = Duration::from_secs(5);
/// Rows a second of a node that are tried first.
const GUESS: f64 = 20e6;

fn measure(suite: &mut Suite) -> Result<(), Failure> {
    let most = NODES.into_iter().max().unwrap_or(1);
    let cluster = Cluster::start(most, CORES)?;
    let seconds = seconds(suite);
    let (mut per_node, mut alone) = (GUESS, None);
    for nodes in NODES {
        let at = |rate| trial(&cluster, nodes, &Shape { keys: KEYS, rate, seconds, rows: None });
        let (low, best) = highest(suite, &format!("{nodes} nodes"), per_node * nodes as f64, at)?;
        per_node = low / nodes as f64;
        let times = low / *alone.get_or_insert(low);
        suite.say(&format!("  {nodes} nodes: {:.2} M rows/s are sustainable, {times:.2} times one node", low / 1e6));
        let more = json!({ "median_ms": median(&best.latencies()), "times_one_node": times });
        suite.record(Record {
            benchmark: BENCHMARK.name.into(),
            case: format!("keys={KEYS}/nodes={nodes}"),
            system: "millstream".into(),
            threads: 1,
            rows: (low * seconds) as u64,
            seconds,
            rows_per_s: low,
            bytes_per_s: low * best.bytes as f64 / best.rows as f64,
            checksum: None,
            more: more.as_object().cloned().unwrap_or_default(),
        })?;
    }
    Ok(())
}

/// Runs the query on some nodes while the generators send.
fn trial(cluster: &Cluster, nodes: usize, shape: &Shape) -> Result<Trial, Failure> {
    let ports = (0..nodes).map(|_| free_ports()).collect::<Result<Vec<[u16; 2]>, _>>()?;
    let directory = Emptied::new(std::env::temp_dir().join(format!("millstream-sustained-{}", std::process::id())))?;
    let script = write_script(directory.path(), &ports)?;
    let start_ms = now_ms() + PREPARATION.as_millis() as i64;
    let of_node = Shape { rate: shape.rate / nodes as f64, ..*shape };
    let started = ports.iter().map(|ports| generators(&of_node, start_ms, *ports)).collect::<Result<Vec<_>, _>>()?;
    let (seconds, times) = timed(|| -> Result<BTreeMap<i64, i64>, Failure> {
        let mut command = cluster.command(&script, nodes);
        let mut child = command.args(["--output", "csv"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("a process without output")?);
        let mut times = BTreeMap::new();
        for line in output.lines() {
            // The header has no number there.
            if let Some(end) = line?.rsplit(',').next().and_then(|end| end.parse::<i64>().ok()) {
                times.insert(end * 1000, now_ms());
            }
        }
        let mut said = String::new();
        child.stderr.take().ok_or("a process without errors")?.read_to_string(&mut said)?;
        if child.wait()?.success() { Ok(times) } else { Err(format!("on {nodes} nodes: {said}").into()) }
    });
    let sent = finished(started.into_iter().flatten().collect())?;
    Trial::new(shape, start_ms, seconds, times?, &sent)
}

/// The script over all streams.
fn write_script(directory: &Path, ports: &[[u16; 2]]) -> Result<std::path::PathBuf, Failure> {
    let mut text = "SET 'parallelism.default' = '1';\nSET 'table.local-time-zone' = 'UTC';\n".to_string();
    for (stream, (workload, name)) in STREAMS.into_iter().enumerate() {
        let columns = workload.columns();
        for (node, ports) in ports.iter().enumerate() {
            text += &format!(
                "CREATE TABLE {name}_{node} (
                     {columns}, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
                 ) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{}', 'format' = 'arrow');\n",
                ports[stream]
            );
        }
        let all = (0..ports.len()).map(|node| format!("SELECT * FROM {name}_{node}")).collect::<Vec<_>>();
        text += &format!("CREATE VIEW {name} AS {};\n", all.join(" UNION ALL "));
    }
    text += &QUERY.replacen("a.window_end", "UNIX_TIMESTAMP(CAST(a.window_end AS STRING)) AS ended", 1);
    let script = directory.join("script.sql");
    std::fs::write(&script, text + ";\n")?;
    Ok(script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::session;

    #[test]
    fn every_node_has_a_stream_of_either_kind() {
        let folder = tempfile::tempdir().unwrap();
        let script = write_script(folder.path(), &[[1, 2], [3, 4], [5, 6]]).unwrap();
        let text = std::fs::read_to_string(script).unwrap();
        let (definitions, query) = text.split_at(text.find("SELECT a.ad_id").unwrap());
        assert!((1..=6).all(|port| definitions.contains(&format!("'port' = '{port}'"))), "{definitions}");
        let mut session = session(1).unwrap();
        session.run(definitions).unwrap();
        session.run(&format!("CREATE VIEW profits AS {query}")).unwrap();
    }
}
