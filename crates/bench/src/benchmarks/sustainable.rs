//! Sustainable throughput (HPI, section 5.2.3): the highest rate of rows at which the latency of results does not grow.
//!
//! Two generators in processes of their own send advertisements and purchases over TCP, by a schedule that does not wait
//! for the engine. The latency of a window is the time from its end, which is when its last rows are due, until the last
//! of its results has reached the sink. When the engine is too slow, rows are sent later than they are due, and every
//! window is later than the one before it. Bisection finds the rate between those that are sustainable and those that
//! are not.

use crate::generator::{Process, Sent, Workload, free_ports};
use crate::suite::{Benchmark, Failure, Record, Runs, Suite, Written, median, session, timed};
use millstream::{Diagnostic, RunMonitor};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "sustainable",
    title: "sustainable throughput of advertisements and purchases over TCP",
    data: "ads(ad_id, user_id, cost, event_time) and purchases(purchase_id, user_id, ad_id, price, event_time), as many of \
           both, from a process each as Arrow streams; 10, 1,000 and a million advertisements.",
    query: "revenue minus costs of each advertisement in windows of 5 s that slide by 1 s: a sum over each stream (purchases \
            with an id other than 0), and their join on ad_id and window",
    measured: "rows per second of both streams together at the highest rate that was sustainable, by bisection over runs of \
               some seconds; latency of a window: from its end until its last result. limit: two threads that read the \
               same streams and discard them, as fast as the generators can send.",
    runs: Runs::WithAll,
    run,
};

const KEYS: [u64; 3] = [10, 1_000, 1_000_000];
/// How long a run lasts.
const SECONDS: f64 = 14.0;
/// Runs between the first guess and the result.
const STEPS: usize = 6;
/// How long the processes get to make their rows.
const PREPARATION: Duration = Duration::from_secs(3);
/// Windows of the first seconds are not full, and caches are cold.
const WARM_UP: f64 = 5.0;
/// How much latency may grow in a second: a rate that is too high by that cannot be told from a sustainable one.
const GROWTH: f64 = 0.02;
/// Rows of each stream that the highest rate is measured with.
const UNPACED_ROWS: u64 = 20_000_000;

pub(super) const STREAMS: [(Workload, &str); 2] = [(Workload::Ads, "ads"), (Workload::Purchases, "purchases")];
pub(super) const QUERY: &str = "
    SELECT a.ad_id, p.revenue - a.costs AS profit, a.window_end
    FROM (SELECT ad_id, SUM(price) AS revenue, window_start, window_end
          FROM TABLE(HOP(TABLE purchases, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
          WHERE purchase_id <> 0 GROUP BY ad_id, window_start, window_end) p
    JOIN (SELECT ad_id, SUM(cost) AS costs, window_start, window_end
          FROM TABLE(HOP(TABLE ads, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND))
          GROUP BY ad_id, window_start, window_end) a
    ON a.ad_id = p.ad_id AND a.window_start = p.window_start AND a.window_end = p.window_end";

fn run(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let seconds = seconds(suite);
    let rows = suite.rows(UNPACED_ROWS);
    for keys in KEYS {
        let case = format!("keys={keys}");
        let limit = discarded(keys, rows)?;
        let unpaced = trial(&Shape { keys, rate: 0.0, seconds, rows: Some(rows) }, threads)?;
        // Part of the time went by before the generators had made their rows; the bisection corrects the guess.
        let guess = unpaced.rows as f64 / unpaced.seconds;
        suite.say(&format!("  {case}: {:.2} M rows/s without a schedule", guess / 1e6));
        let at = |rate| trial(&Shape { keys, rate, seconds, rows: None }, threads);
        let (low, best) = highest(suite, &case, guess * 0.8, at)?;
        suite.say(&format!("  {case}: {:.2} M rows/s are sustainable; limit {:.2} M rows/s", low / 1e6, limit.0 / 1e6));
        let record = |system: &str, threads: usize, rate: f64, bytes_per_row: f64| Record {
            benchmark: BENCHMARK.name.into(),
            case: case.clone(),
            system: system.into(),
            threads,
            rows: (rate * seconds) as u64,
            seconds,
            rows_per_s: rate,
            bytes_per_s: rate * bytes_per_row,
            checksum: None,
            more: serde_json::Map::new(),
        };
        let mut ours = record("millstream", threads, low, best.bytes as f64 / best.rows as f64);
        ours.more.insert("median_ms".into(), json!(median(&best.latencies())));
        suite.record(ours)?;
        suite.record(record("limit", 2, limit.0, limit.1 / limit.0))?;
    }
    Ok(())
}

/// The highest rate that was sustainable, by bisection from a first guess, and the run with it.
pub(super) fn highest(
    suite: &Suite,
    case: &str,
    guess: f64,
    run: impl Fn(f64) -> Result<Trial, Failure>,
) -> Result<(f64, Trial), Failure> {
    let (mut rate, mut high, mut best) = (guess, f64::INFINITY, None);
    for _ in 0..STEPS {
        let trial = run(rate)?;
        suite.say(&format!("  {case}:{}", trial.text(rate)));
        if trial.is_sustainable() {
            best = Some((rate, trial));
        } else {
            high = rate;
        }
        let low = best.as_ref().map_or(0.0, |(low, _)| *low);
        rate = if high.is_finite() { (low + high) / 2.0 } else { low * 1.5 };
    }
    best.ok_or_else(|| format!("{case}: no rate was sustainable").into())
}

/// How long a run lasts.
pub(super) fn seconds(suite: &Suite) -> f64 {
    (SECONDS * suite.options.rows_scale).clamp(WARM_UP + 4.0, SECONDS)
}

/// What a run is to do.
pub(super) struct Shape {
    pub(super) keys: u64,
    /// Rows per second of both streams; 0 for as many as are read.
    pub(super) rate: f64,
    pub(super) seconds: f64,
    /// Rows of each stream.
    pub(super) rows: Option<u64>,
}

/// What came of a run.
pub(super) struct Trial {
    /// From the start of the query to its end.
    seconds: f64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
    behind_s: f64,
    /// Latency in milliseconds of each full window after the warm-up, by its end.
    windows: Vec<(i64, f64)>,
}

impl Trial {
    /// Of a run that was to begin at a moment: when the last row of each window came, in milliseconds, and what was sent.
    pub(super) fn new(
        shape: &Shape,
        start_ms: i64,
        seconds: f64,
        times: BTreeMap<i64, i64>,
        sent: &Sent,
    ) -> Result<Trial, Failure> {
        let full = start_ms + (WARM_UP * 1000.0) as i64..start_ms + (shape.seconds * 1000.0) as i64;
        let windows = times.into_iter().filter(|(end, _)| full.contains(end));
        let windows: Vec<(i64, f64)> = windows.map(|(end, at)| (end, (at - end) as f64)).collect();
        if windows.len() < 3 && shape.rate > 0.0 {
            return Err("a run had too few windows".into());
        }
        Ok(Trial { seconds, rows: sent.rows, bytes: sent.bytes, behind_s: sent.behind_s, windows })
    }

    pub(super) fn latencies(&self) -> Vec<f64> {
        self.windows.iter().map(|(_, latency)| *latency).collect()
    }

    /// By how much latency grows: its median in the last third of the windows less that in the first, by the time between.
    fn growth(&self) -> f64 {
        let third = self.windows.len().div_ceil(3);
        let latencies = self.latencies();
        let (first, last) = (&latencies[..third], &latencies[latencies.len() - third..]);
        let between = (self.windows[self.windows.len() - third].0 - self.windows[0].0) as f64;
        (median(last) - median(first)) / between.max(1.0)
    }

    /// Whether latency did not grow, and no window came so late that it would only show in a longer run.
    fn is_sustainable(&self) -> bool {
        self.growth() < GROWTH && self.windows.iter().all(|(_, latency)| *latency < 2_000.0)
    }

    fn text(&self, rate: f64) -> String {
        format!(
            "    {:>7.2} M rows/s: latency {:.1} ms, growth {:+.3} s/s, generators behind by {:.2} s: {}",
            rate / 1e6,
            median(&self.latencies()),
            self.growth(),
            self.behind_s,
            if self.is_sustainable() { "sustainable" } else { "too much" }
        )
    }
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Starts the generator of each stream; each waits for a reader at its port.
pub(super) fn generators(shape: &Shape, start_ms: i64, ports: [u16; 2]) -> Result<Vec<Process>, Failure> {
    let start = |((workload, _), port): ((Workload, &str), u16)| {
        let mut arguments: Vec<String> = vec!["generate".into()];
        let mut option = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        option("workload", workload.name());
        option("format", "arrow".into());
        option("keys", shape.keys.to_string());
        option("rate", (shape.rate / 2.0).to_string());
        option("start", start_ms.to_string());
        option("listen", format!("127.0.0.1:{port}"));
        option("seconds", shape.seconds.to_string());
        if let Some(rows) = shape.rows {
            option("rows", rows.to_string());
        }
        Process::start(&arguments)
    };
    let mut generators: Vec<Process> = STREAMS.into_iter().zip(ports).map(start).collect::<Result<_, _>>()?;
    generators.iter_mut().try_for_each(Process::ready)?;
    Ok(generators)
}

pub(super) fn finished(generators: Vec<Process>) -> Result<Sent, Failure> {
    let mut all = Sent::default();
    for mut generator in generators {
        let sent = generator.finish()?;
        all.rows += sent.rows;
        all.bytes += sent.bytes;
        all.behind_s = all.behind_s.max(sent.behind_s);
    }
    Ok(all)
}

/// Runs the query while the generators send.
fn trial(shape: &Shape, threads: usize) -> Result<Trial, Failure> {
    let ports = free_ports()?;
    let mut session = session(threads)?;
    session.set("table.local-time-zone", "UTC")?;
    for ((workload, name), port) in STREAMS.into_iter().zip(ports) {
        let columns = workload.columns();
        session.run(&format!(
            "CREATE TABLE {name} (
                 {columns}, ts AS TO_TIMESTAMP_LTZ(event_time, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
             ) WITH ('connector' = 'socket', 'hostname' = '127.0.0.1', 'port' = '{port}', 'format' = 'arrow')"
        ))?;
    }
    let start_ms = now_ms() + PREPARATION.as_millis() as i64;
    let generators = generators(shape, start_ms, ports)?;
    let mut written = Written::new(2, now_ms);
    let (seconds, ran) = timed(|| -> Result<(), Diagnostic> {
        for statement in &session.parse(QUERY)? {
            session.execute(statement, &mut written, &RunMonitor::new())?;
        }
        Ok(())
    });
    ran?;
    let sent = finished(generators)?;
    Trial::new(shape, start_ms, seconds, written.times(), &sent)
}

/// Rows and bytes per second that the generators send to readers that discard them.
fn discarded(keys: u64, rows: u64) -> Result<(f64, f64), Failure> {
    let ports = free_ports()?;
    let shape = Shape { keys, rate: 0.0, seconds: 0.0, rows: Some(rows) };
    let generators = generators(&shape, now_ms(), ports)?;
    let read = |port: u16| -> std::io::Result<(Instant, Instant)> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let mut block = vec![0; 1 << 20];
        let mut first = None;
        while stream.read(&mut block)? > 0 {
            first.get_or_insert_with(Instant::now);
        }
        let last = Instant::now();
        Ok((first.unwrap_or(last), last))
    };
    let times = std::thread::scope(|scope| {
        let threads: Vec<_> = ports.iter().map(|&port| scope.spawn(move || read(port))).collect();
        threads.into_iter().map(|t| t.join().expect("a reader does not panic")).collect::<Result<Vec<_>, _>>()
    })?;
    let sent = finished(generators)?;
    let first = times.iter().map(|(first, _)| *first).min().ok_or("no reader")?;
    let last = times.iter().map(|(_, last)| *last).max().ok_or("no reader")?;
    let seconds = (last - first).as_secs_f64().max(1e-6);
    Ok((sent.rows as f64 / seconds, sent.bytes as f64 / seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_that_grows_is_not_sustainable() {
        let trial = |growth: f64| Trial {
            seconds: 9.0,
            rows: 1,
            bytes: 1,
            behind_s: 0.0,
            windows: (0..9).map(|i| (i * 1000, 50.0 + growth * i as f64 * 1000.0)).collect(),
        };
        assert!(trial(0.0).is_sustainable() && trial(0.01).is_sustainable());
        assert!(!trial(0.1).is_sustainable());
        assert!((trial(0.1).growth() - 0.1).abs() < 1e-9);
    }

    /// Every window of every advertisement is there once; without a schedule, so that nothing depends on time.
    #[test]
    fn windows_of_both_streams_meet() {
        let shape = Shape { keys: 10, rate: 0.0, seconds: 0.0, rows: Some(50_000) };
        let trial = trial(&shape, 2).unwrap();
        assert_eq!(trial.rows, 100_000);
        let (rate, bytes) = discarded(10, 50_000).unwrap();
        assert!(rate > 0.0 && bytes > rate);
    }
}
