//! Recovery: how long a job with gigabytes of state takes until it has processed its first new row.
//!
//! A long window, or a long session of each key, gets rows until the state has its size, and the job is stopped, which
//! takes a checkpoint. Then new sessions start with that directory, one after the other. Each is ended right after its
//! first rows, as by a crash, so that the checkpoint stays the same. The files of the checkpoint are evicted from the
//! page cache before.

use super::stream::{BLOCK, Keys, Stream};
use super::watched::{Emptied, run};
use super::{Missed, record};
use crate::suite::{Failure, Suite, median, session};
use millstream::{Collected, Session};
use rustix::fs::{Advice, fadvise};
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long it may take until the first row.
const LIMIT: Duration = Duration::from_secs(5);

/// A job that is recovered.
struct Job {
    name: &'static str,
    query: &'static str,
    /// Bytes of state, and of a key as it is stored: with the aggregates, and what else the operator keeps.
    state: u64,
    entry: u64,
    /// So that what is there is not spilled before the job is stopped.
    memory: &'static str,
    /// Of event time. Sessions consume rows when the watermark advances.
    rows_per_ms: u64,
}

const JOBS: [Job; 2] = [
    Job {
        name: "window",
        query: "INSERT INTO sums SELECT k, window_start, COUNT(*), SUM(v), MIN(v), MAX(v), SUM(v + 1), MIN(v + 2), MAX(v + 3),
                       SUM(v + 4), MIN(v + 5), MAX(v + 6), SUM(v + 7), MIN(v + 8), MAX(v + 9), SUM(v + 10)
                FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' DAY))
                GROUP BY k, window_start, window_end",
        state: 5_000_000_000,
        entry: 104,
        memory: "3 GiB",
        rows_per_ms: u64::MAX,
    },
    Job {
        name: "sessions",
        query: "INSERT INTO sums SELECT k, window_start, COUNT(*), SUM(v), MIN(v), MAX(v), SUM(v + 1), MIN(v + 2), MAX(v + 3),
                       SUM(v + 4), MIN(v + 5), MAX(v + 6), SUM(v + 7), MIN(v + 8), MAX(v + 9), SUM(v + 10)
                FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(event_time), INTERVAL '1' DAY))
                GROUP BY k, window_start, window_end",
        state: 2_000_000_000,
        entry: 180,
        memory: "8 GiB",
        rows_per_ms: 10_000,
    },
];
const SINK: &str =
    "CREATE TABLE sums (k BIGINT, w TIMESTAMP(3), n BIGINT, s0 BIGINT, a0 BIGINT, b0 BIGINT, s1 BIGINT, a1 BIGINT,
           b1 BIGINT, s2 BIGINT, a2 BIGINT, b2 BIGINT, s3 BIGINT, a3 BIGINT, b3 BIGINT, s4 BIGINT)
    WITH ('connector' = 'blackhole')";

/// Makes the state of each job and recovers it.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    JOBS.iter().try_for_each(|job| measure_job(suite, missed, job))
}

fn measure_job(suite: &mut Suite, missed: &mut Missed, job: &Job) -> Result<(), Failure> {
    let keys = suite.rows(job.state / job.entry);
    let stream = Stream::new(Keys::Once(u64::MAX, 1), u64::MAX / BLOCK, job.rows_per_ms);
    let state = Emptied::new(suite.options.directory.join("state-recovery"))?;
    let mut asked = None;
    let made =
        run(&mut over(&stream, suite, job, state.path())?, job.query, &mut Collected::new(), |stats, cancel| {
            if stats.rows_in >= keys && asked.is_none() {
                asked = Some(Instant::now());
                cancel.stop();
            }
        })?;
    let (stored, stopped_s) = (made.stats.checkpoints.state_bytes, asked.map_or(0.0, |at| at.elapsed().as_secs_f64()));
    suite.say(&format!(
        "  {}: {:.2} GB of state, {} keys, made in {:.1} s; stopping took {stopped_s:.1} s of that ({:.2} GB/s)",
        job.name,
        stored as f64 / 1e9,
        made.stats.rows_in,
        made.seconds,
        stored as f64 / 1e9 / stopped_s.max(1e-9)
    ));
    let mut seconds = Vec::new();
    for _ in 0..suite.options.repetitions {
        forget(state.path())?;
        let began = Instant::now();
        let mut first = None;
        let mut session = over(&stream, suite, job, state.path())?;
        let ran = run(&mut session, job.query, &mut Collected::new(), |stats, cancel| {
            if first.is_none() && stats.pipelines.first().is_some_and(|pipeline| pipeline.rows_in > 0) {
                first = Some(began.elapsed());
                cancel.abort();
            }
        })?;
        let first = first.ok_or("the job ended before its first row")?.as_secs_f64();
        seconds.push(first);
        let more = json!({ "state_bytes": stored }).as_object().cloned().unwrap_or_default();
        let case = format!("recovery/first row, {}", job.name);
        suite.record(record(suite, case, "millstream", ran.stats.rows_in, first, more))?;
    }
    let (longest, middle) = (seconds.iter().copied().fold(0.0, f64::max), median(&seconds));
    suite.say(&format!(
        "    the first new row after {middle:.3} s (median of {}, at most {longest:.3} s)",
        seconds.len()
    ));
    missed.unless(longest < LIMIT.as_secs_f64(), || {
        format!("recovery, {}: {longest:.1} s until the first row", job.name)
    });
    Ok(())
}

fn over(stream: &Stream, suite: &Suite, job: &Job, state: &Path) -> Result<Session, Failure> {
    let mut session = session(suite.threads())?;
    stream.register(&mut session)?;
    session.run(SINK)?;
    session.set("pipeline.memory", job.memory)?;
    session.set("execution.checkpointing.dir", &state.to_string_lossy())?;
    session.set("execution.checkpointing.interval", "0 s")?;
    Ok(session)
}

/// Writes the files of a directory to disk and takes them out of memory.
fn forget(directory: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            forget(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
