//! Latency against throughput by the size of buffers (Grizzly, figure 6d): the Yahoo benchmark's query at half of the
//! maximum rate.
//!
//! Rows come from memory at a given rate: row *i* arrives at *(i + 1) / rate*, its event time is that moment in whole
//! milliseconds, and a buffer is handed over when its last row has arrived. The latency of a window is the time from the
//! arrival of its last row until the last of its results has reached the sink. So it includes the wait for the buffer to
//! fill and for a worker to wake up. The maximum is what the query consumes when the source does not wait.
//!
//! `MILLSTREAM_BENCH_BUFFERS=100,1000` measures only these sizes.
//!
//! The same for a result that changes, with the default clock of beats: every row changes the result, and is visible when the sink is
//! told that the beat has ended. So the latency is that of each row, by the millisecond in which it arrives.

use crate::suite::{Benchmark, Failure, Random, Record, Runs, Suite, Written};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef, Int64Array, TimestampMillisecondArray};
use millstream::connectors::{
    Chunk, ColumnEncoder, Decoded, Decoder, Encoded, Encoder, Sink, Source, SourceRequest, SplitReader,
};
use millstream::{
    Diagnostic, Outcome, ResultTarget, RunMonitor, Schema, Session, SessionConfig, StatsSnapshot, TableProvider,
};
use serde_json::json;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "latency",
    title: "latency by the size of buffers (Grizzly, figure 6d)",
    data: "the Yahoo benchmark's rows from memory at half of the maximum rate, with 100 campaigns and 10 ms, and with 10,000
           campaigns and 100 ms",
    query: "views per campaign and window; and views per campaign so far",
    measured: "from the arrival of a window's last row until the last of its results has reached the sink; of what changes, from the
               arrival of each row until the end of its beat has; the maximum rate is what the query consumes when the source does not
               wait; the gap is the longest time for which a thread that only looks at the clock did not have a processor, before or after",
    runs: Runs::WithAll,
    run,
};

const BUFFERS: [usize; 6] = [1, 10, 100, 1000, 10_000, 80_000];
/// Rows in memory; a multiple of every buffer.
const POOL: usize = 2_400_000;
/// Campaigns, length of a window, and how long rows come.
const CASES: [(u64, u64, Duration); 2] = [(100, 10, Duration::from_secs(4)), (10_000, 100, Duration::from_secs(12))];
/// Rows of a buffer where results change.
const CHANGING_BUFFER: usize = 1000;
/// A query that does not keep up gets this many times as long as rows come.
const PATIENCE: u32 = 2;
/// How long the maximum is measured.
const MAXIMUM: Duration = Duration::from_secs(2);
/// Windows that end before are not measured: compiled code, caches and threads are not warm.
const WARM_UP: Duration = Duration::from_millis(500);

/// Prints the curve of each case.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    let buffers = match std::env::var("MILLSTREAM_BENCH_BUFFERS") {
        Ok(sizes) => sizes.split(',').map(str::parse).collect::<Result<Vec<usize>, _>>()?,
        Err(_) => BUFFERS.to_vec(),
    };
    if buffers.iter().any(|&buffer| buffer == 0 || !POOL.is_multiple_of(buffer)) {
        return Err(format!("a buffer must divide {POOL} rows").into());
    }
    for (campaigns, window_ms, duration) in CASES {
        suite.say(&format!(
            "  views per campaign and {window_ms} ms at half of the maximum rate, {campaigns} campaigns, {threads} \
             threads\n  {:>8} {:>16} {:>16} {:>10} {:>10} {:>10} {:>10} {:>10} {:>18}",
            "buffer", "maximum", "rate", "median", "99 %", "most", "gap", "windows", "trigger 50/99 %"
        ));
        let pool = Arc::new(Pool::new(campaigns));
        for &buffer in &buffers {
            let what = format!("{campaigns} campaigns, {window_ms} ms/buffer={buffer}");
            let measure = |rate, duration| windows(&pool, buffer, window_ms, rate, duration, threads);
            half_of_maximum(suite, &what, buffer, duration, measure)?;
        }
        suite.say(&format!("  views per campaign so far, {campaigns} campaigns"));
        let measure = |rate, duration| changes(&pool, rate, duration, threads);
        half_of_maximum(suite, &format!("{campaigns} campaigns, changes"), CHANGING_BUFFER, duration, measure)?;
    }
    Ok(())
}

/// Prints and records the latencies of a query at half of the rate at which it consumes rows when the source does not wait.
fn half_of_maximum(
    suite: &mut Suite,
    case: &str,
    buffer: usize,
    duration: Duration,
    measure: impl Fn(Option<f64>, Duration) -> Result<Measured, Failure>,
) -> Result<(), Failure> {
    let maximum = measure(None, MAXIMUM)?;
    let rate = maximum.rows as f64 / maximum.seconds / 2.0;
    let before = longest_gap(suite.threads(), duration / 4);
    let half = measure(Some(rate), duration)?;
    let gap = before.max(longest_gap(suite.threads(), duration / 4));
    let keeps_up = half.seconds < duration.as_secs_f64() * 1.02 + 0.05;
    let at = |percent: usize| half.latencies.get((half.latencies.len() * percent).div_ceil(100) - 1);
    let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |t| t.as_secs_f64() * 1e3);
    let trigger = half.stats.trigger_delay;
    suite.say(&format!(
        "  {buffer:>8} {:>9.2} M rows/s {:>7.2} M rows/s {:>7.3} ms {:>7.3} ms {:>7.3} ms {:>7.3} ms {:>10} {:>7.3}/{:.3} ms{}",
        maximum.rows as f64 / maximum.seconds / 1e6,
        rate / 1e6,
        ms(at(50)),
        ms(at(99)),
        ms(half.latencies.last()),
        ms(Some(&gap)),
        half.latencies.len(),
        trigger.p50.as_secs_f64() * 1e3,
        trigger.p99.as_secs_f64() * 1e3,
        if keeps_up { "" } else { " (did not keep up)" }
    ));
    let more = json!({ "median_ms": ms(at(50)), "p99_ms": ms(at(99)), "max_ms": ms(half.latencies.last()), "gap_ms": ms(Some(&gap)) });
    suite.record(Record {
        benchmark: BENCHMARK.name.into(),
        case: case.into(),
        system: "millstream".into(),
        threads: suite.threads(),
        rows: half.rows,
        seconds: half.seconds,
        rows_per_s: half.rows as f64 / half.seconds,
        bytes_per_s: 0.0,
        checksum: None,
        more: more.as_object().cloned().unwrap_or_default(),
    })
}

/// The longest time for which one of some threads that do nothing but look at the clock did not have a processor: what the machine adds to any
/// latency, whoever is measured.
fn longest_gap(threads: usize, duration: Duration) -> Duration {
    let spin = || {
        let began = Instant::now();
        let (mut last, mut longest) = (began, Duration::ZERO);
        while last - began < duration {
            let now = Instant::now();
            longest = longest.max(now - last);
            last = now;
        }
        longest
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(spin)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).max().unwrap_or_default()
    })
}

/// A run.
struct Measured {
    rows: u64,
    seconds: f64,
    /// Of each window, or of each millisecond in which rows have come, in order of length.
    latencies: Vec<Duration>,
    stats: StatsSnapshot,
}

/// Measures windows.
fn windows(
    pool: &Arc<Pool>,
    buffer: usize,
    window_ms: u64,
    rate: Option<f64>,
    duration: Duration,
    threads: usize,
) -> Result<Measured, Failure> {
    let sql = format!(
        "SELECT campaign, window_end, COUNT(*) AS views
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.{window_ms:03}' SECOND))
         WHERE event_type = 'view'
         GROUP BY campaign, window_start, window_end"
    );
    let mut written = Written::new(1, Instant::now);
    let feed = Feed { pool: Arc::clone(pool), clock: Arc::default(), buffer, rate, duration };
    let mut measured = run_query(&feed, threads, &sql, &mut written)?;
    if let Some(rate) = rate {
        let last = duration.saturating_sub(Duration::from_millis(window_ms));
        for (end_ms, at) in written.times() {
            let end = Duration::from_millis(end_ms as u64);
            if end <= WARM_UP || end >= last {
                continue;
            }
            // Row i has an event time before the end when (i + 1) / rate is.
            let rows = (end.as_secs_f64() * rate).ceil() - 1.0;
            measured.latencies.push(feed.since(at, Duration::from_secs_f64(rows / rate))?);
        }
    }
    measured.sorted(rate)
}

/// Measures what changes.
fn changes(pool: &Arc<Pool>, rate: Option<f64>, duration: Duration, threads: usize) -> Result<Measured, Failure> {
    let sql = "SET 'execution.runtime-mode' = 'streaming'; SET 'sql-client.execution.result-mode' = 'changelog';
               SELECT campaign, COUNT(*) AS views, MAX(event_time) AS latest FROM events GROUP BY campaign";
    let mut beats = Beats::default();
    let feed = Feed { pool: Arc::clone(pool), clock: Arc::default(), buffer: CHANGING_BUFFER, rate, duration };
    let mut measured = run_query(&feed, threads, sql, &mut beats)?;
    if rate.is_some() {
        let mut next = 0;
        for (latest, at) in beats.ended() {
            for arrived in (next..=latest).map(|ms: i64| Duration::from_millis(ms as u64)).filter(|at| *at > WARM_UP) {
                measured.latencies.push(feed.since(at, arrived)?);
            }
            next = next.max(latest + 1);
        }
    }
    measured.sorted(rate)
}

/// Runs a query over a feed, without latencies.
fn run_query(feed: &Feed, threads: usize, sql: &str, target: &mut dyn ResultTarget) -> Result<Measured, Failure> {
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.set("pipeline.tier", "compiled")?;
    // The source brings buffers of the size; the results of a window shall not be cut into as small ones.
    session.set("pipeline.buffer-rows", &feed.buffer.max(10_000).to_string())?;
    session.register_source(
        "events",
        "event_type STRING NOT NULL, campaign BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
         WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        Arc::new(feed.clone()),
    )?;
    let mut stats = None;
    for statement in &session.parse(sql)? {
        if let Outcome::Ran(s) = session.execute(statement, target, &RunMonitor::new())? {
            stats = Some(*s);
        }
    }
    let (ended, stats) = (Instant::now(), stats.ok_or("the query did not run")?);
    Ok(Measured { rows: stats.rows_in, seconds: (ended - feed.start()?).as_secs_f64(), latencies: Vec::new(), stats })
}

impl Measured {
    /// With latencies in their order, of which a run at a rate has some.
    fn sorted(mut self, rate: Option<f64>) -> Result<Measured, Failure> {
        if rate.is_some() && self.latencies.is_empty() {
            return Err("no result was written".into());
        }
        self.latencies.sort_unstable();
        Ok(self)
    }
}

/// Notes the latest row of each beat, in milliseconds, and when the beat ended. The column behind what a row does, the campaign and its
/// views has the time of the last one. Clones share it.
#[derive(Debug, Clone, Default)]
struct Beats {
    latest: Arc<Mutex<i64>>,
    ended: Arc<Mutex<Vec<(i64, Instant)>>>,
}

impl Beats {
    const LATEST: usize = 3;

    fn ended(&self) -> Vec<(i64, Instant)> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&self) {
        let latest = *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push((latest, Instant::now()));
    }
}

impl ResultTarget for Beats {
    fn open(&mut self, _: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        Ok(Box::new(self.clone()))
    }
}

impl Sink for Beats {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let Encoded::Columns { columns, .. } = piece else {
            return Err(Diagnostic::bug("bytes reached a sink of columns"));
        };
        let times = columns[Beats::LATEST].as_primitive::<TimestampMillisecondType>().values();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = times.iter().copied().max().unwrap_or(0).max(*latest);
        Ok(())
    }

    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        self.end();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        self.end();
        Ok(())
    }
}

/// The rows, of which buffers are slices.
#[derive(Debug)]
struct Pool {
    types: ArrayRef,
    campaigns: ArrayRef,
}

impl Pool {
    fn new(campaigns: u64) -> Pool {
        let mut random = Random::new(17);
        let mut types = StringViewBuilder::with_capacity(POOL);
        (0..POOL).for_each(|_| types.append_value(["view", "click", "purchase"][random.below(3) as usize]));
        let campaigns = Int64Array::from_iter_values((0..POOL).map(|_| random.below(campaigns)));
        Pool { types: Arc::new(types.finish()), campaigns: Arc::new(campaigns) }
    }
}

/// The table.
#[derive(Debug, Clone)]
struct Feed {
    pool: Arc<Pool>,
    /// When reading began.
    clock: Arc<OnceLock<Instant>>,
    buffer: usize,
    /// Rows per second; as fast as possible without.
    rate: Option<f64>,
    duration: Duration,
}

/// A buffer: its first row, and its event time where rows come as fast as possible.
struct Piece {
    first: u64,
    time_ms: i64,
}

impl Feed {
    /// When reading began.
    fn start(&self) -> Result<Instant, Failure> {
        self.clock.get().copied().ok_or_else(|| "no row was read".into())
    }

    /// How long before `at` something came that was to come so long after the start.
    fn since(&self, at: Instant, after: Duration) -> Result<Duration, Failure> {
        Ok(at.saturating_duration_since(self.start()? + after))
    }
}

impl TableProvider for Feed {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let columns = request.columns.iter().map(|c| c.name.clone()).collect();
        Ok(Box::new(Reading { feed: self.clone(), columns }))
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// The table, read by a query.
#[derive(Clone)]
struct Reading {
    feed: Feed,
    /// The columns that the query reads, in its order.
    columns: Vec<String>,
}

impl Source for Reading {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        Ok(vec![Box::new(Paced { feed: self.feed.clone(), next: 0 })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(self.clone())
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

struct Paced {
    feed: Feed,
    next: u64,
}

impl SplitReader for Paced {
    fn name(&self) -> &str {
        "feed"
    }

    fn never_waits(&self) -> bool {
        true
    }

    fn due(&mut self) -> Option<Instant> {
        let began = *self.feed.clock.get_or_init(Instant::now);
        let arrives = (self.next + self.feed.buffer as u64) as f64;
        self.feed.rate.map(|rate| began + Duration::from_secs_f64(arrives / rate).min(self.feed.duration))
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let elapsed = self.feed.clock.get_or_init(Instant::now).elapsed();
        let first = self.next;
        self.next += self.feed.buffer as u64;
        let arrives = self.feed.rate.map_or(elapsed, |rate| Duration::from_secs_f64(self.next as f64 / rate));
        // The workers ask when it is due.
        if arrives >= self.feed.duration || elapsed >= self.feed.duration * PATIENCE {
            return Ok(None);
        }
        Ok(Some(Chunk {
            payload: Box::new(Piece { first, time_ms: elapsed.as_millis() as i64 }),
            bytes: 0,
            after: None,
        }))
    }
}

impl Decoder for Reading {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(piece) = chunk.payload.downcast::<Piece>() else {
            let error = Some(Diagnostic::bug("a chunk of another source reached the feed"));
            return Decoded { error, ..Decoded::default() };
        };
        let rows = self.feed.buffer;
        let from = piece.first as usize % POOL;
        let times = || -> Vec<i64> {
            let Some(rate) = self.feed.rate else { return vec![piece.time_ms; rows] };
            let ms_per_row = 1e3 / rate;
            (0..rows).map(|row| ((piece.first + row as u64 + 1) as f64 * ms_per_row) as i64).collect()
        };
        let column = |name: &String| -> ArrayRef {
            match name.as_str() {
                "event_type" => self.feed.pool.types.slice(from, rows),
                "campaign" => self.feed.pool.campaigns.slice(from, rows),
                _ => Arc::new(TimestampMillisecondArray::from(times())),
            }
        };
        Decoded { columns: self.columns.iter().map(column).collect(), rows, ..Decoded::default() }
    }
}
