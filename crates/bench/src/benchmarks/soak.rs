//! `make soak`: hours of event time in minutes, over generated events, while thousands of windows open and close. Fails
//! when the memory of the process does not stay flat.
//!
//! One statement set reads the Nexmark generator as fast as it can: hopping windows of an hour every second (3,600 are
//! open at a time), counts by auction and ten seconds (ever new keys), sessions of bidders, and the bids joined with the
//! auctions of the last minute. Resident memory is read every second. After the warm-up, which is the first quarter, it
//! may not grow: its maximum in the second half is compared with that in the second quarter.

use crate::suite::{Benchmark, Failure, Runs, Suite, resident_bytes};
use millstream::{Collected, DataType, Diagnostic, RunMonitor, Session, SessionConfig, StatsSnapshot, code, text};
use std::time::{Duration, Instant};

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "soak",
    title: "hours of event time, and flat memory",
    data: "the Nexmark generator, 1,000 events a second of event time, as fast as it can, without an end",
    query: "hopping windows of an hour every second (3,600 open), counts by auction and 10 s, sessions of bidders, bids joined
            with the auctions of the last minute",
    measured: "resident memory every second, for --soak-minutes",
    runs: Runs::Named,
    run,
};

/// How much more memory the second half may take than the second quarter.
const GROWTH: f64 = 1.1;
/// What it may take more in any case: allocators and the machine's pages are not exact.
const SLACK_BYTES: u64 = 32 << 20;
/// Event time that must have passed in ten minutes; less in a shorter run.
const EVENT_TIME: Duration = Duration::from_secs(8 * 3600);
const WHOLE: Duration = Duration::from_secs(600);
const SAMPLE: Duration = Duration::from_secs(1);

const TABLES: &str = "
    CREATE TABLE events (
        event_type INT,
        auction ROW<id BIGINT, seller BIGINT, category BIGINT, `dateTime` TIMESTAMP(3)>,
        bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, `dateTime` TIMESTAMP(3)>,
        person ROW<id BIGINT, `dateTime` TIMESTAMP(3)>,
        ts AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime` ELSE bid.`dateTime` END,
        WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
    ) WITH ('connector' = 'nexmark', 'first-event.rate' = '1000');
    CREATE VIEW bids AS SELECT bid.auction AS auction, bid.bidder AS bidder, bid.price AS price, ts FROM events
        WHERE event_type = 2;
    CREATE VIEW auctions AS SELECT auction.id AS id, auction.category AS category, ts FROM events WHERE event_type = 1;
    CREATE TABLE hops (w TIMESTAMP(3), channel BIGINT, n BIGINT, highest BIGINT) WITH ('connector' = 'blackhole');
    CREATE TABLE counts (w TIMESTAMP(3), auction BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
    CREATE TABLE visits (w TIMESTAMP(3), bidder BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
    CREATE TABLE offers (auction BIGINT, category BIGINT, price BIGINT) WITH ('connector' = 'blackhole');";

const QUERIES: &str = "
    EXECUTE STATEMENT SET BEGIN
    INSERT INTO hops SELECT window_start, MOD(bidder, 10), COUNT(*), MAX(price)
        FROM TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' HOUR))
        GROUP BY MOD(bidder, 10), window_start, window_end;
    INSERT INTO counts SELECT window_start, auction, COUNT(*)
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end;
    INSERT INTO visits SELECT window_start, bidder, COUNT(*)
        FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '5' SECOND))
        GROUP BY bidder, window_start, window_end;
    INSERT INTO offers SELECT a.id, a.category, b.price FROM bids b JOIN auctions a
        ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' MINUTE;
    END;";

/// Resident memory and what the query had done by then.
struct Sample {
    at: Duration,
    bytes: u64,
    stats: Option<StatsSnapshot>,
}

/// Runs for the given time and prints the curve.
fn run(suite: &mut Suite) -> Result<(), Failure> {
    let threads = suite.threads();
    suite.say(&format!(
        "  {:>8} {:>12} {:>14} {:>12} {:>20} {:>10}",
        "time", "memory", "rows", "windows", "watermark", "late"
    ));
    let monitor = RunMonitor::new();
    let mut session = Session::new(SessionConfig::default());
    session.set("parallelism.default", &threads.to_string())?;
    session.run(TABLES)?;
    let samples = std::thread::scope(|scope| {
        let query = scope.spawn(|| execute(&mut session, &monitor));
        let samples = watch(suite, &monitor, || query.is_finished());
        monitor.cancel().stop();
        match query.join().map_err(|_| "the query panicked")? {
            Err(stopped) if stopped.code == code::CANCELLED => samples,
            Err(failed) => Err(failed.into()),
            Ok(()) => Err("the query ended by itself".into()),
        }
    })?;
    judge(suite, &samples)
}

fn execute(session: &mut Session, monitor: &RunMonitor) -> Result<(), Diagnostic> {
    for statement in &session.parse(QUERIES)? {
        session.execute(statement, &mut Collected::new(), monitor)?;
    }
    Ok(())
}

fn watch(suite: &Suite, monitor: &RunMonitor, has_ended: impl Fn() -> bool) -> Result<Vec<Sample>, Failure> {
    let duration = suite.options.soak;
    let started = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    while started.elapsed() < duration && !has_ended() {
        std::thread::sleep(SAMPLE);
        let stats = monitor.stats().map(|stats| stats.snapshot());
        let sample = Sample { at: started.elapsed(), bytes: resident_bytes()?, stats };
        // Some 30 lines, however long it takes.
        let line = |at: Duration| (at.as_secs_f64() / duration.as_secs_f64() * 30.0) as u64;
        if samples.last().is_none_or(|last| line(last.at) < line(sample.at)) {
            suite.say(&line_of(&sample));
        }
        samples.push(sample);
    }
    Ok(samples)
}

fn line_of(sample: &Sample) -> String {
    let seconds = sample.at.as_secs_f64();
    let (rows, windows, late) = sample.stats.as_ref().map_or((0, 0, 0), |s| (s.rows_in, s.windows_fired, s.late_rows));
    let watermark = sample.stats.as_ref().and_then(|s| s.watermark_ms).map_or(String::new(), |ms| {
        let mut out = Vec::new();
        text::write_timestamp(&mut out, ms, DataType::Timestamp(3).time_unit(), 0);
        String::from_utf8_lossy(&out).into_owned()
    });
    format!("  {seconds:>6.0} s {:>9} MB {rows:>14} {windows:>12} {watermark:>20} {late:>10}", sample.bytes >> 20)
}

fn judge(suite: &Suite, samples: &[Sample]) -> Result<(), Failure> {
    let duration = suite.options.soak;
    let most = |from: f64, to: f64| {
        let (from, to) = (duration.mul_f64(from), duration.mul_f64(to));
        samples.iter().filter(|s| from <= s.at && s.at < to + SAMPLE).map(|s| s.bytes).max().unwrap_or(0)
    };
    let (quarter, half) = (most(0.25, 0.5), most(0.5, 1.0));
    let bound = (quarter as f64 * GROWTH) as u64 + SLACK_BYTES;
    let watermark = |s: &Sample| s.stats.as_ref().and_then(|s| s.watermark_ms);
    let first = samples.iter().find_map(watermark).unwrap_or(0);
    let passed = samples.iter().rev().find_map(watermark).map_or(0, |last| last - first);
    let wanted = EVENT_TIME.mul_f64((duration.as_secs_f64() / WHOLE.as_secs_f64()).min(1.0)).as_millis() as i64;
    suite.say(&format!(
        "soak: at most {} MB in the second quarter and {} MB in the second half (allowed: {} MB); {:.1} h of event time \
         (wanted: {:.1} h)",
        quarter >> 20,
        half >> 20,
        bound >> 20,
        passed as f64 / 3.6e6,
        wanted as f64 / 3.6e6
    ));
    if half > bound {
        return Err("memory has grown".into());
    }
    if passed < wanted {
        return Err("too little event time has passed".into());
    }
    Ok(())
}
