//! What checkpoints cost: the Yahoo streaming benchmark's count with a million keys, in pairs of runs with a checkpoint every
//! second and without; and how many bytes a checkpoint writes of a state in which little changes, of a window and of groups without one.
//!
//! Which run of a pair comes first changes from pair to pair, so that a change of the machine's speed meets both; the median
//! of the ratios of pairs counts.

use super::stream::{BLOCK, Keys, Stream};
use super::watched::{Emptied, Ran, run};
use super::{Missed, record};
use crate::suite::{Failure, Prepared, Suite, median, session};
use millstream::{CheckpointSnapshot, Collected, Session};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

const KEYS: u64 = 1_000_000;
/// How long a run takes, and event time in it.
const RUN_S: f64 = 12.0;
const PAIRS: usize = 5;
/// Rows of the first run, from which the rate is taken if it is not too short.
const FIRST_ROWS: u64 = 60_000_000;
/// What throughput with checkpoints is to be of that without, and how long a worker may be held.
const RATIO: f64 = 0.95;
const HELD: Duration = Duration::from_millis(1);
/// Where little changes, one key in this many does.
const CHANGING: u64 = 100;
/// What checkpoints may write of a state in which little changes, as a part of it.
const WRITTEN: f64 = 0.1;

/// Groups of a query without windows, and one in how many of them changes at each checkpoint where few do.
const GROUPS: u64 = 20_000_000;
const FEW: u64 = 1000;
/// Milliseconds from one checkpoint to the next, how many there are to be, and how often a byte that changes may be written.
const STANDING_MS: u64 = 100;
const STANDING_CHECKPOINTS: u64 = 200;
const TIMES_WRITTEN: f64 = 5.0;

/// Event time of the rows of [`counted`]: two windows and a half.
const COUNTED_MS: u64 = 25_000;

const QUERY: &str = "INSERT INTO counts SELECT k, window_start, COUNT(*)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '10' SECOND))
    WHERE event_type = 0 GROUP BY k, window_start, window_end";
const STANDING: &str = "INSERT INTO counts SELECT k, CAST(NULL AS TIMESTAMP(3)), COUNT(*) FROM events GROUP BY k";
const LONG: &str = "INSERT INTO counts SELECT k, window_start, COUNT(*)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(event_time), INTERVAL '1' DAY))
    GROUP BY k, window_start, window_end";

/// Measures the pairs for keys that lie close together, and what is written of a window in which little changes.
pub(super) fn measure(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let keys = suite.rows(KEYS);
    pairs(suite, missed, ("checkpoints", "dense keys"), Keys::Random(keys))?;
    changing(suite, missed, keys)
}

/// Measures the pairs for scattered keys.
pub(super) fn measure_scattered(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let keys = suite.rows(KEYS);
    pairs(suite, missed, ("scattered", "scattered keys"), Keys::Scattered(keys))
}

/// Measures what is written of groups without windows, of which few and any change.
pub(super) fn measure_standing(suite: &mut Suite, missed: &mut Missed) -> Result<(), Failure> {
    let groups = suite.rows(GROUPS);
    standing(suite, missed, "few groups change", groups, (groups / FEW).max(1))?;
    standing(suite, missed, "any groups change", groups, groups)
}

/// The count of views with `keys` keys over `blocks` blocks, for a session that is given a directory for checkpoints.
pub(crate) fn counted(keys: u64, blocks: u64, threads: usize) -> Result<Prepared, Failure> {
    let stream = Stream::new(Keys::Random(keys), blocks, blocks * BLOCK / COUNTED_MS).kept();
    Ok((over(&stream, threads, None)?, QUERY.into(), stream.rows()))
}

/// A session over the stream, with a checkpoint every second if there is a directory for it.
fn over(stream: &Stream, threads: usize, state: Option<&Path>) -> Result<Session, Failure> {
    let mut session = session(threads)?;
    stream.register(&mut session)?;
    session.run("CREATE TABLE counts (k BIGINT, w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole')")?;
    if let Some(state) = state {
        session.set("execution.checkpointing.dir", &state.to_string_lossy())?;
        session.set("execution.checkpointing.interval", "1 s")?;
    }
    Ok(session)
}

/// A run with checkpoints or without; of the checkpoints, the largest state is the one that is told.
fn one(suite: &Suite, stream: &Stream, sql: &str, has_checkpoints: bool) -> Result<Ran, Failure> {
    let state = Emptied::new(suite.options.directory.join("state-checkpoints"))?;
    let mut session = over(stream, suite.threads(), has_checkpoints.then(|| state.path()))?;
    let mut largest = 0;
    let mut ran = run(&mut session, sql, &mut Collected::new(), |stats, _| {
        largest = stats.checkpoints.state_bytes.max(largest);
    })?;
    ran.stats.checkpoints.state_bytes = largest;
    Ok(ran)
}

/// Rows per second of a run that is long enough for its beginning not to matter.
fn rate(suite: &Suite, keys: Keys, sql: &str) -> Result<f64, Failure> {
    let mut blocks = suite.rows(FIRST_ROWS).div_ceil(BLOCK);
    loop {
        let stream = Stream::new(keys, blocks, u64::MAX).kept();
        let seconds = one(suite, &stream, sql, false)?.seconds;
        if seconds >= RUN_S / 4.0 * suite.options.rows_scale.min(1.0) {
            return Ok(stream.rows() as f64 / seconds);
        }
        blocks *= 4;
    }
}

fn pairs(suite: &mut Suite, missed: &mut Missed, (part, name): (&str, &str), keys: Keys) -> Result<(), Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let rate = rate(suite, keys, QUERY)?;
    let blocks = (rate * RUN_S * scale) as u64 / BLOCK;
    let stream = Stream::new(keys, blocks.max(1), (rate / 1000.0) as u64).kept();
    let pairs = ((PAIRS as f64 * scale) as usize).max(1);
    let (mut ratios, mut of_processor, mut seconds) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    let (mut held, mut busy, mut checkpoints) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut out = None;
    for pair in 0..pairs {
        let (mut of_pair, mut processor_s) = ([0.0; 2], [0.0; 2]);
        for turn in 0..2 {
            let with = (pair + turn) % 2;
            let ran = one(suite, &stream, QUERY, with == 1)?;
            (of_pair[with], processor_s[with]) = (ran.seconds, ran.processor_s);
            seconds[with].push(ran.seconds);
            if *out.get_or_insert(ran.stats.rows_out) != ran.stats.rows_out {
                return Err(format!("{name}: {} rows were written, and {out:?} before", ran.stats.rows_out).into());
            }
            if with == 1 {
                held = held.max(ran.stats.checkpoints.handing_over.max);
                busy = busy.max(ran.stats.checkpoints.handing_over_processor.max);
                checkpoints.push(ran.stats.checkpoints);
            }
        }
        ratios.push(of_pair[0] / of_pair[1]);
        of_processor.push(processor_s[0] / processor_s[1].max(0.01));
    }
    let (ratio, last) = (median(&ratios), checkpoints.last().cloned().unwrap_or_default());
    suite.say(&format!(
        "  {name}: {:.1} M rows/s without checkpoints, {:.1} M rows/s with; ratio {ratio:.3} (median of {pairs} pairs, {})",
        stream.rows() as f64 / median(&seconds[0]) / 1e6,
        stream.rows() as f64 / median(&seconds[1]) / 1e6,
        ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" "),
    ));
    suite.say(&format!(
        "    by the processor's time, which does not see what other processes do: ratio {:.3} ({})",
        median(&of_processor),
        of_processor.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(" "),
    ));
    suite.say(&format!("    in the last run: {}", text(&last)));
    suite.say(&format!(
        "    the longest time that a worker was held in any run: {:.3} ms; that it had the processor for it: {:.3} ms",
        held.as_secs_f64() * 1e3,
        busy.as_secs_f64() * 1e3
    ));
    missed.unless(ratio >= RATIO, || format!("{name}: throughput with checkpoints {ratio:.3} of that without"));
    missed.unless(held < HELD, || format!("{name}: a worker was held for {:.3} ms", held.as_secs_f64() * 1e3));
    let of_last = fields(
        &last,
        &[
            ("ratio", ratio.into()),
            ("processor_ratio", median(&of_processor).into()),
            ("held_max_ms", (held.as_secs_f64() * 1e3).into()),
            ("held_processor_max_ms", (busy.as_secs_f64() * 1e3).into()),
        ],
    );
    for (system, seconds, more) in
        [("millstream/without", &seconds[0], Map::new()), ("millstream", &seconds[1], of_last)]
    {
        suite.record(record(suite, format!("{part}/{name}"), system, stream.rows(), median(seconds), more))?;
    }
    Ok(())
}

/// What is known of the checkpoints of a run.
fn text(of: &CheckpointSnapshot) -> String {
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    format!(
        "{} checkpoints of {:.0} MB at most, {:.1} MB written for each; {:.0} ms from cut to commit (at most {:.0}); workers held for \
         {:.3} ms (median), {:.3} ms (at most)",
        of.last,
        of.state_bytes as f64 / 1e6,
        of.bytes_written as f64 / of.last.max(1) as f64 / 1e6,
        ms(of.duration.p50),
        ms(of.duration.max),
        ms(of.handing_over.p50),
        ms(of.handing_over.max),
    )
}

fn fields(of: &CheckpointSnapshot, more: &[(&str, Value)]) -> Map<String, Value> {
    let mut fields = json!({
        "checkpoints": of.last,
        "state_bytes": of.state_bytes,
        "written_bytes_per_checkpoint": of.bytes_written / of.last.max(1),
        "checkpoint_p50_ms": of.duration.p50.as_secs_f64() * 1e3,
    });
    if let Value::Object(fields) = &mut fields {
        fields.extend(more.iter().map(|(name, value)| ((*name).to_string(), value.clone())));
    }
    fields.as_object().cloned().unwrap_or_default()
}

/// A long window whose keys come once each, and of which few change from then on.
fn changing(suite: &mut Suite, missed: &mut Missed, keys: u64) -> Result<(), Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let changing = (keys / CHANGING).max(1);
    let rows = |keys| Keys::Once(keys, changing);
    let rate = rate(suite, rows(0), LONG)?;
    let blocks = keys.div_ceil(BLOCK) + (rate * RUN_S * scale) as u64 / BLOCK;
    let stream = Stream::new(rows(keys), blocks, u64::MAX);
    let state = Emptied::new(suite.options.directory.join("state-checkpoints"))?;
    let mut session = over(&stream, suite.threads(), Some(state.path()))?;
    let mut seen: Vec<CheckpointSnapshot> = Vec::new();
    let ran = run(&mut session, LONG, &mut Collected::new(), |stats, _| {
        if seen.last().map_or(0, |last| last.last) != stats.checkpoints.last {
            seen.push(stats.checkpoints.clone());
        }
    })?;
    let [first, .., last] = seen.as_slice() else {
        suite.say("  few keys change: the run was too short for two checkpoints");
        return Ok(());
    };
    let written = (last.bytes_written - first.bytes_written) as f64 / (last.last - first.last) as f64;
    let part = written / last.state_bytes as f64;
    suite.say(&format!(
        "  {changing} of {keys} keys change: the first checkpoint wrote {:.1} MB; the {} after it, of a state of {:.1} MB, {:.2} MB \
         each: {:.1} %",
        first.bytes_written as f64 / 1e6,
        last.last - first.last,
        last.state_bytes as f64 / 1e6,
        written / 1e6,
        part * 100.0
    ));
    missed.unless(part <= WRITTEN, || format!("few keys change: {:.1} % of the state written each time", part * 100.0));
    let more = fields(last, &[("written_of_state", part.into())]);
    suite.record(record(
        suite,
        "checkpoints/few keys change".into(),
        "millstream",
        stream.rows(),
        ran.seconds,
        more,
    ))?;
    Ok(())
}

/// Groups that are all there are checkpointed while `changing` of them change, at random: how often what changes is written, with what it
/// takes to put runs together. Bytes that change are those of the groups that do, once for each checkpoint.
fn standing(suite: &mut Suite, missed: &mut Missed, name: &str, groups: u64, changing: u64) -> Result<(), Failure> {
    let scale = suite.options.rows_scale.min(1.0);
    let wanted = ((STANDING_CHECKPOINTS as f64 * scale) as u64).max(3);
    let stream = Stream::new(Keys::Once(groups, changing), u64::MAX / BLOCK / 2, u64::MAX);
    let state = Emptied::new(suite.options.directory.join("state-checkpoints"))?;
    let mut session = over(&stream, suite.threads(), Some(state.path()))?;
    session.set("execution.checkpointing.interval", &format!("{STANDING_MS} ms"))?;
    session.set("execution.runtime-mode", "streaming")?;
    // Rows so far and checkpoints: from the first that has all groups on.
    let mut seen: Vec<(u64, CheckpointSnapshot)> = Vec::new();
    let ran = run(&mut session, STANDING, &mut Collected::new(), |stats, cancel| {
        let (rows, checkpoints) = (stats.rows_in, &stats.checkpoints);
        if rows > groups + changing && seen.last().is_none_or(|(_, last)| last.last != checkpoints.last) {
            seen.push((rows, checkpoints.clone()));
        }
        if seen.first().is_some_and(|(_, first)| checkpoints.last >= first.last + wanted) {
            cancel.abort();
        }
    })?;
    let ([(rows_before, first), ..], Some((rows, last))) = (seen.as_slice(), seen.last()) else {
        return Err(format!("{name}: there were no checkpoints").into());
    };
    let (rows, checkpoints) = (rows - rows_before, (last.last - first.last).max(1));
    let of_group = first.state_bytes as f64 / groups as f64;
    // As many as rows come in between, of all that may change.
    let each = rows as f64 / checkpoints as f64;
    let changed = changing as f64 * (1.0 - (-each / changing as f64).exp());
    let written = (last.bytes_written - first.bytes_written) as f64 / checkpoints as f64;
    let times = written / (changed * of_group);
    suite.say(&format!(
        "  {name}: {groups} groups of {of_group:.0} bytes; over {checkpoints} checkpoints {:.2} MB changed for each, and {:.2} MB were written: \
         {times:.2} times; {:.1} M rows/s",
        changed * of_group / 1e6,
        written / 1e6,
        rows as f64 / (ran.seconds * 1e6),
    ));
    suite.say(&format!("    {}", text(last)));
    missed.unless(times <= TIMES_WRITTEN, || format!("{name}: what changes was written {times:.2} times"));
    let more =
        fields(last, &[("times_written", times.into()), ("groups", groups.into()), ("changed_groups", changed.into())]);
    suite.record(record(suite, format!("standing/{name}"), "millstream", rows, ran.seconds, more))
}
