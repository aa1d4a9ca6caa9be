//! Recovery: how long a job with gigabytes of state takes until it has processed its first new row.
//!
//! A long window gets a row of each key until the state is as large as it is to be, and the job is stopped, which takes a
//! checkpoint. Then a session begins anew with that directory, again and again: each time it is ended at once after its
//! first rows, as by a crash, so that the checkpoint stays the same. The files of the checkpoint are put out of the page cache before.

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

/// Bytes of state, and of an entry of the query's as it is stored: hash, key, and the aggregates.
const STATE: u64 = 5_000_000_000;
const ENTRY: u64 = 104;
/// What is not spilled before the job is stopped.
const MEMORY: &str = "3 GiB";
/// How long it may take until the first row.
const LIMIT: Duration = Duration::from_secs(5);

const QUERY: &str =
    "INSERT INTO sums SELECT k, window_start, COUNT(*), SUM(v), MIN(v), MAX(v), SUM(v + 1), MIN(v + 2), MAX(v + 3),
           SUM(v + 4), MIN(v + 5), MAX(v + 6), SUM(v + 7), MIN(v + 8), MAX(v + 9), SUM(v + 10)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' DAY))
    GROUP BY k, window_start, window_end";
const SINK: &str =
    "CREATE TABLE sums (k BIGINT, w TIMESTAMP(3), n BIGINT, s0 BIGINT, a0 BIGINT, b0 BIGINT, s1 BIGINT, a1 BIGINT,
           b1 BIGINT, s2 BIGINT, a2 BIGINT, b2 BIGINT, s3 BIGINT, a3 BIGINT, b3 BIGINT, s4 BIGINT)
    WITH ('connector' = 'blackhole')";

/// Makes the state and recovers it.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let keys = suite.rows(STATE / ENTRY);
    let stream = Stream::new(Keys::Once(u64::MAX, 1), u64::MAX / BLOCK, u64::MAX);
    let state = Emptied::new(suite.options.directory.join("state-recovery"))?;
    let mut asked = None;
    let made = run(&mut over(&stream, suite, state.path())?, QUERY, &mut Collected::new(), |stats, cancel| {
        if stats.rows_in >= keys && asked.is_none() {
            asked = Some(Instant::now());
            cancel.stop();
        }
    })?;
    let (stored, stopped_s) = (made.stats.checkpoints.state_bytes, asked.map_or(0.0, |at| at.elapsed().as_secs_f64()));
    suite.say(&format!(
        "  {:.2} GB of state, {} keys, made in {:.1} s; stopping took {stopped_s:.1} s of that ({:.2} GB/s)",
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
        let ran = run(&mut over(&stream, suite, state.path())?, QUERY, &mut Collected::new(), |stats, cancel| {
            if first.is_none() && stats.pipelines.first().is_some_and(|pipeline| pipeline.rows_in > 0) {
                first = Some(began.elapsed());
                cancel.abort();
            }
        })?;
        let first = first.ok_or("the job ended before its first row")?;
        seconds.push(first.as_secs_f64());
        let more = json!({ "state_bytes": stored }).as_object().cloned().unwrap_or_default();
        let seconds = first.as_secs_f64();
        suite.record(record(suite, "recovery/first row".into(), "millstream", ran.stats.rows_in, seconds, more))?;
    }
    let (longest, middle) = (seconds.iter().copied().fold(0.0, f64::max), median(&seconds));
    suite.say(&format!(
        "    the first new row after {middle:.3} s (median of {}, at most {longest:.3} s)",
        seconds.len()
    ));
    missed.unless(longest < LIMIT.as_secs_f64(), || format!("recovery: {longest:.1} s until the first row"));
    Ok(())
}

fn over(stream: &Stream, suite: &Suite, state: &Path) -> Result<Session, Failure> {
    let mut session = session(suite.threads())?;
    stream.register(&mut session)?;
    session.run(SINK)?;
    session.set("pipeline.memory", MEMORY)?;
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
