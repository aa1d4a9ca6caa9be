//! Latency against throughput by the size of buffers (Grizzly, figure 6d): the Yahoo benchmark's query at half of the
//! maximum rate.
//!
//! Rows come from memory at a given rate: row *i* arrives at *(i + 1) / rate*, its event time is that moment in whole
//! milliseconds, and a buffer is handed over when its last row has arrived. The latency of a window is the time from the
//! arrival of its last row until the last of its results has reached the sink. So it includes the wait for the buffer to
//! fill and for the reader to wake up. The maximum is what the query consumes when the source does not wait.
//!
//! `MILLSTREAM_BENCH_BUFFERS=100,1000` measures only these sizes.

use crate::suite::{Benchmark, Failure, Random, Record, Runs, Suite, Written};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{Array, ArrayRef, Int64Array, TimestampMillisecondArray};
use millstream::connectors::{Chunk, Decoded, Decoder, Source, SourceRequest, SplitReader};
use millstream::{Diagnostic, Outcome, RunMonitor, Session, SessionConfig, StatsSnapshot, TableProvider};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "latency",
    title: "latency by the size of buffers (Grizzly, figure 6d)",
    data: "the Yahoo benchmark's rows from memory at half of the maximum rate, with 100 campaigns and 10 ms, and with 10,000
           campaigns and 100 ms",
    query: "views per campaign and window",
    measured: "from the arrival of a window's last row until the last of its results has reached the sink; the maximum rate is
               what the query consumes when the source does not wait",
    runs: Runs::WithAll,
    run,
};

const BUFFERS: [usize; 6] = [1, 10, 100, 1000, 10_000, 80_000];
/// Rows in memory; a multiple of every buffer.
const POOL: usize = 2_400_000;
/// Campaigns, length of a window, and how long rows come.
const CASES: [(u64, u64, Duration); 2] = [(100, 10, Duration::from_secs(4)), (10_000, 100, Duration::from_secs(12))];
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
             threads\n  {:>8} {:>16} {:>16} {:>10} {:>10} {:>10} {:>10} {:>18}",
            "buffer", "maximum", "rate", "median", "99 %", "most", "windows", "trigger 50/99 %"
        ));
        let pool = Arc::new(Pool::new(campaigns));
        for &buffer in &buffers {
            let maximum = measure(&pool, buffer, window_ms, None, MAXIMUM, threads)?;
            let rate = maximum.rows as f64 / maximum.seconds / 2.0;
            let half = measure(&pool, buffer, window_ms, Some(rate), duration, threads)?;
            let keeps_up = half.seconds < duration.as_secs_f64() * 1.02 + 0.05;
            let at = |percent: usize| half.latencies.get((half.latencies.len() * percent).div_ceil(100) - 1);
            let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |t| t.as_secs_f64() * 1e3);
            let trigger = half.stats.trigger_delay;
            suite.say(&format!(
                "  {buffer:>8} {:>9.2} M rows/s {:>7.2} M rows/s {:>7.3} ms {:>7.3} ms {:>7.3} ms {:>10} {:>7.3}/{:.3} ms{}",
                maximum.rows as f64 / maximum.seconds / 1e6,
                rate / 1e6,
                ms(at(50)),
                ms(at(99)),
                ms(half.latencies.last()),
                half.latencies.len(),
                trigger.p50.as_secs_f64() * 1e3,
                trigger.p99.as_secs_f64() * 1e3,
                if keeps_up { "" } else { " (did not keep up)" }
            ));
            let more = json!({ "median_ms": ms(at(50)), "p99_ms": ms(at(99)), "max_ms": ms(half.latencies.last()) });
            suite.record(Record {
                benchmark: BENCHMARK.name.into(),
                case: format!("{campaigns} campaigns, {window_ms} ms/buffer={buffer}"),
                system: "millstream".into(),
                threads,
                rows: half.rows,
                seconds: half.seconds,
                rows_per_s: half.rows as f64 / half.seconds,
                bytes_per_s: 0.0,
                checksum: None,
                more: more.as_object().cloned().unwrap_or_default(),
            })?;
        }
    }
    Ok(())
}

/// A run.
struct Measured {
    rows: u64,
    seconds: f64,
    /// Of each window, in order of length.
    latencies: Vec<Duration>,
    stats: StatsSnapshot,
}

fn measure(
    pool: &Arc<Pool>,
    buffer: usize,
    window_ms: u64,
    rate: Option<f64>,
    duration: Duration,
    threads: usize,
) -> Result<Measured, Failure> {
    let clock = Arc::new(OnceLock::new());
    let feed = Feed { pool: Arc::clone(pool), clock: Arc::clone(&clock), buffer, rate, duration };
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.set("pipeline.tier", "compiled")?;
    // The source brings buffers of the size; the results of a window shall not be cut into as small ones.
    session.set("pipeline.buffer-rows", &buffer.max(10_000).to_string())?;
    session.register_source(
        "events",
        "event_type STRING NOT NULL, campaign BIGINT NOT NULL, event_time TIMESTAMP(3) NOT NULL,
         WATERMARK FOR event_time AS event_time - INTERVAL '0.001' SECOND",
        Arc::new(feed),
    )?;
    let sql = format!(
        "SELECT campaign, window_end, COUNT(*) AS views
         FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '0.{window_ms:03}' SECOND))
         WHERE event_type = 'view'
         GROUP BY campaign, window_start, window_end"
    );
    let mut written = Written::new(1, Instant::now);
    let mut stats = None;
    for statement in &session.parse(&sql)? {
        if let Outcome::Ran(s) = session.execute(statement, &mut written, &RunMonitor::new())? {
            stats = Some(*s);
        }
    }
    let ended = Instant::now();
    let start = *clock.get().ok_or("no row was read")?;
    let stats = stats.ok_or("the query did not run")?;
    let mut latencies = Vec::new();
    if let Some(rate) = rate {
        let last = duration.saturating_sub(Duration::from_millis(window_ms));
        for (end_ms, at) in written.times() {
            let end = Duration::from_millis(end_ms as u64);
            if end <= WARM_UP || end >= last {
                continue;
            }
            // Row i has an event time before the end when (i + 1) / rate is.
            let rows = (end.as_secs_f64() * rate).ceil() - 1.0;
            latencies.push(at.saturating_duration_since(start + Duration::from_secs_f64(rows / rate)));
        }
    }
    if rate.is_some() && latencies.is_empty() {
        return Err("no window was written".into());
    }
    latencies.sort_unstable();
    Ok(Measured { rows: stats.rows_in, seconds: (ended - start).as_secs_f64(), latencies, stats })
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

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let elapsed = self.feed.clock.get_or_init(Instant::now).elapsed();
        let first = self.next;
        self.next += self.feed.buffer as u64;
        let arrives = self.feed.rate.map_or(elapsed, |rate| Duration::from_secs_f64(self.next as f64 / rate));
        if arrives >= self.feed.duration || elapsed >= self.feed.duration * PATIENCE {
            return Ok(None);
        }
        if arrives > elapsed {
            // Sleeping takes some 50 µs more than asked for, after which all buffers that have arrived go out at once.
            // Waiting busily would take a core from the workers.
            std::thread::sleep(arrives - elapsed);
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
