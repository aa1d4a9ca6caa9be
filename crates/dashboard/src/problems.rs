//! What is wrong with a job, or soon will be: what an operator would find by comparing numbers, in a sentence with the place and what to do.
//!
//! Each rule looks at the statistics of now and those of some seconds ago ([`Recent`]), and says nothing while it is not sure. The most severe
//! comes first.

use crate::history::Recent;
use crate::jobs::{JobSnapshot, JobState};
use millstream::memory_text;
use millstream::{
    Awaited, Event, EventKind, SinkSnapshot, SourceSnapshot, SplitSnapshot, StatsSnapshot, TriggerSnapshot,
};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// How long something stands still before it is a problem.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a checkpoint is under way before it is a problem.
const CHECKPOINT_PATIENCE: Duration = Duration::from_secs(60);
/// The share of its time in which a sink is busy when it is the one that others wait for.
const BUSY: f64 = 0.8;
/// The share of its time that a source waits before it is worth telling.
const WAITING: f64 = 0.1;
/// Bytes of state, and the share of the budget, from which growth is worth telling.
const MUCH_STATE: (u64, f64) = (16 << 20, 0.05);
/// Changes of the code of a part within five minutes that are too many.
const MANY_CHANGES: usize = 12;
/// What that is counted over.
const CHANGES_OVER: Duration = Duration::from_secs(300);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// Nothing comes out, or will soon.
    Error,
    /// It is slower than it could be, or will fail by and by.
    Warning,
    /// Worth knowing.
    Info,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Problem {
    pub(crate) kind: &'static str,
    pub(crate) severity: Severity,
    /// The part of the plan, as statistics call it, or the job.
    pub(crate) subject: String,
    pub(crate) split: Option<String>,
    pub(crate) text: String,
    pub(crate) advice: Option<String>,
}

impl Problem {
    fn new(kind: &'static str, severity: Severity, subject: &str, text: String) -> Problem {
        Problem { kind, severity, subject: subject.into(), split: None, text, advice: None }
    }

    fn advise(self, advice: &str) -> Problem {
        Problem { advice: Some(advice.into()), ..self }
    }

    fn split(self, split: &SplitSnapshot) -> Problem {
        Problem { split: Some(split.name.clone()), ..self }
    }
}

/// All that is wrong with a job, the most severe first.
pub(crate) fn of(job: &JobSnapshot, recent: &Recent) -> Vec<Problem> {
    let mut found: Vec<Problem> = of_state(job);
    let is_over = matches!(job.view.state, JobState::Finished | JobState::Stopped | JobState::Failed);
    if let Some(stats) = job.stats.as_ref().filter(|_| !is_over) {
        let rules = [of_sinks, of_splits, of_backpressure, of_state_size, of_code, of_checkpoints, of_nodes, of_rows];
        found.extend(rules.iter().flat_map(|rule| rule(stats, recent)));
    }
    found.sort_by_key(|problem| problem.severity);
    found
}

fn of_state(job: &JobSnapshot) -> Vec<Problem> {
    let view = &job.view;
    let for_long = SystemTime::now().duration_since(view.since).unwrap_or_default();
    let error = view.error.as_deref().unwrap_or("it has failed").lines().next().unwrap_or_default();
    let problem = |kind, severity, text: String| Problem::new(kind, severity, &view.name, text);
    match view.state {
        JobState::Failed => {
            vec![
                problem("job-failed", Severity::Error, error.to_string())
                    .advise("correct what it says, and run the job again"),
            ]
        }
        JobState::Restarting => {
            vec![problem("restarts", Severity::Error, format!("it is started again after {error}"))]
        }
        JobState::Starting if let Some(nodes @ Awaited::Nodes(_)) = job.awaited() => {
            let before = view.error.as_deref().map_or(String::new(), |_| format!(", after {error}"));
            vec![
                problem("nodes-awaited", Severity::Error, format!("the job has not begun{before}: {nodes}"))
                    .advise("start them again; after --cluster-replacement-timeout the job begins without them, if others are there"),
            ]
        }
        JobState::Starting if for_long >= PATIENCE => {
            let waits = job.waits_for().unwrap_or_default();
            let text = format!("it has not begun for {}: {waits}", shown(for_long));
            vec![
                problem("opening", Severity::Error, text)
                    .advise("see whether that server can be reached from this machine"),
            ]
        }
        // What the file of a job says now is not what runs.
        JobState::Running if view.file.is_some() && view.error.is_some() => {
            let problem = problem("edit-refused", Severity::Warning, error.to_string());
            vec![problem.advise("correct the file: until then the job runs the text from before")]
        }
        JobState::Running if view.restarts > 0 => {
            let text = format!("it was started again {} times", view.restarts);
            vec![problem("restarts", Severity::Info, text)]
        }
        _ => Vec::new(),
    }
}

fn of_sinks(stats: &StatsSnapshot, _: &Recent) -> Vec<Problem> {
    let stuck = |sink: &SinkSnapshot| {
        let (time, what) = match () {
            () if sink.writing >= PATIENCE => (sink.writing, "one write"),
            () if sink.committing >= PATIENCE => (sink.committing, "the commit of a checkpoint's rows"),
            () => return None,
        };
        let text = format!("{} has been busy with {what} for {}", sink.name, shown(time));
        let problem = Problem::new("sink-stuck", Severity::Error, &sink.name, text);
        Some(problem.advise("see whether its reader or server still takes rows; the job continues when it does"))
    };
    stats.sinks.iter().filter_map(stuck).collect()
}

fn of_splits(stats: &StatsSnapshot, _: &Recent) -> Vec<Problem> {
    let mut found = Vec::new();
    let has_windows = !stats.aggregations.is_empty() || !stats.operators.is_empty();
    for source in &stats.sources {
        for split in source.splits.iter().filter(|split| !split.has_ended && split.silent >= PATIENCE) {
            if let Some(trouble) = &split.trouble {
                let text = format!("'{}' of {} cannot be read: {trouble}", split.name, source.name);
                let problem = Problem::new("split-unreachable", Severity::Error, &source.name, text).split(split);
                found.push(problem.advise("reading resumes when the server answers"));
            }
        }
        found.extend(held_back(source).filter(|_| has_windows));
        let open = || source.splits.iter().filter(|split| !split.has_ended);
        if open().next().is_some() && open().all(|split| split.silent >= PATIENCE && split.trouble.is_none()) {
            let least = open().map(|split| split.silent).min().unwrap_or_default();
            // What is kept waiting is not silent.
            if open().all(|split| split.waits.now.is_none()) {
                let text = format!("{} has sent no rows for {}", source.name, shown(least));
                found.push(Problem::new("source-silent", Severity::Info, &source.name, text));
            }
        }
    }
    found
}

/// The silent split whose watermark windows wait for, while others send rows.
fn held_back(source: &SourceSnapshot) -> Option<Problem> {
    let awaited = || source.splits.iter().filter(|split| !split.has_ended && !split.is_idle);
    let split = awaited().min_by_key(|split| (split.watermark_ms, std::cmp::Reverse(split.silent)))?;
    let is_alone = !awaited().any(|other| other.silent < PATIENCE);
    if split.silent < PATIENCE || is_alone || split.waits.now.is_some() || split.trouble.is_some() {
        return None;
    }
    let others = awaited().filter(|other| other.silent < PATIENCE).count();
    let text = format!(
        "windows wait for '{}' of {}, which has sent no rows for {}, while {} do",
        split.name,
        source.name,
        shown(split.silent),
        millstream::counted(others, "other split")
    );
    let problem = Problem::new("split-holds-watermark", Severity::Error, &source.name, text).split(split);
    Some(
        problem
            .advise("'scan.watermark.idle-timeout' = '10 s' in the WITH of the table has windows continue without it"),
    )
}

/// Who makes sources wait.
fn of_backpressure(stats: &StatsSnapshot, recent: &Recent) -> Vec<Problem> {
    let Some(before) = recent.before() else { return Vec::new() };
    let seconds = recent.seconds(before);
    let share = |now: Duration, then: Duration| (now.saturating_sub(then).as_secs_f64() / seconds).min(1.0);
    let busy = |(now, then): (&SinkSnapshot, &SinkSnapshot)| {
        (now.name.clone(), share(now.busy + now.writing, then.busy + then.writing))
    };
    // One that stands still has been told of, and is the cause.
    let is_stuck = stats.sinks.iter().any(|sink| sink.writing >= PATIENCE || sink.committing >= PATIENCE);
    let slow = stats.sinks.iter().zip(&before.stats.sinks).map(busy).filter(|(_, share)| *share >= BUSY);
    let slow = slow.max_by(|a, b| a.1.total_cmp(&b.1));
    let workers = recent.busy_share(before, stats);
    let mut found = Vec::new();
    for (source, then) in stats.sources.iter().zip(&before.stats.sources) {
        let splits = (source.split_count - source.splits.iter().filter(|s| s.has_ended).count() as u64).max(1) as f64;
        let part = |now: Duration, then: Duration| now.saturating_sub(then).as_secs_f64() / seconds / splits;
        let in_flight = part(source.waits.in_flight, then.waits.in_flight);
        let memory = part(source.waits.memory, then.waits.memory);
        let behind = part(source.waits.behind, then.waits.behind);
        let name = &source.name;
        if in_flight.max(memory) >= WAITING && !is_stuck {
            let waits = format!("{name} waits {} of the time", percent(in_flight + memory));
            found.push(match &slow {
                Some((sink, share)) => {
                    let text = format!("{waits}, because {sink} is busy with writing {} of it", percent(*share));
                    Problem::new("sink-slow", Severity::Warning, sink, text)
                        .advise("a faster sink, larger writes or fewer rows would make the job faster")
                }
                None if memory >= WAITING => {
                    let text = format!("{waits}, because what is in flight takes as much memory as it may");
                    Problem::new("memory", Severity::Warning, name, text)
                        .advise("raise --memory, or put out less: windows put out more than is consumed")
                }
                None if workers >= BUSY => {
                    let text = format!("{waits}, because all workers are busy");
                    Problem::new("cpu", Severity::Info, name, text)
                        .advise("more cores (--workers) would make the job faster")
                }
                None => continue,
            });
        }
        if behind >= WAITING {
            let slowest = source.splits.iter().filter(|s| !s.has_ended && !s.is_idle).min_by_key(|s| s.watermark_ms);
            let slowest = slowest.map_or(String::new(), |split| format!("; '{}' has the lowest watermark", split.name));
            let text = format!(
                "splits of {name} that are ahead wait {} of the time, because state takes over 80 % of the memory budget{slowest}",
                percent(behind)
            );
            found.push(
                Problem::new("memory", Severity::Warning, name, text)
                    .advise("raise --memory, or have splits advance together"),
            );
        }
    }
    found
}

fn of_state_size(stats: &StatsSnapshot, recent: &Recent) -> Vec<Problem> {
    let limit = stats.memory.limit.max(1);
    let parts = stats.aggregations.iter().chain(&stats.operators).enumerate();
    let grows = |(at, part): (usize, &TriggerSnapshot)| {
        let growth = recent.growth(at)?;
        let is_much = part.state_bytes >= MUCH_STATE.0 || part.state_bytes as f64 >= MUCH_STATE.1 * limit as f64;
        if !is_much || growth.bytes <= 0.3 * growth.from as f64 {
            return None;
        }
        let per_second = growth.bytes / growth.over.as_secs_f64();
        let left = limit.saturating_sub(stats.memory.used) as f64 / per_second;
        let text = format!(
            "the state of {} grows: {}, {} more than {} ago; at this pace memory is full in {}",
            part.name,
            memory_text(part.state_bytes),
            memory_text(growth.bytes as u64),
            shown(growth.over),
            shown(Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX))
        );
        let severity = if left < 600.0 { Severity::Error } else { Severity::Warning };
        Some(Problem::new("state-grows", severity, &part.name, text).advise(
            "bound it: a window, a time to live ('table.exec.state.ttl'), or fewer keys; state beyond --memory is spilled where it can be",
        ))
    };
    parts.filter_map(grows).collect()
}

fn of_code(stats: &StatsSnapshot, _: &Recent) -> Vec<Problem> {
    let since = stats.elapsed.saturating_sub(CHANGES_OVER);
    let mut subjects: Vec<&str> = stats.events.iter().map(|event| event.subject.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    // A trial that changes nothing costs next to nothing.
    let is_change = |event: &Event| matches!(event.kind, EventKind::Adopted | EventKind::Deoptimised);
    let recent = || stats.events.iter().filter(|event| event.at >= since && is_change(event));
    let changes = |subject: &&str| recent().filter(|event| event.subject == **subject).count();
    let often =
        subjects.into_iter().map(|subject| (subject, changes(&subject))).filter(|(_, count)| *count >= MANY_CHANGES);
    let problem = |(subject, count): (&str, usize)| {
        let over = shown(stats.elapsed.min(CHANGES_OVER));
        let text = format!(
            "{subject} has been given other code {count} times in {over}: its data changes faster than code pays back"
        );
        Problem::new("recompiles", Severity::Warning, subject, text)
            .advise("see its variants; SET 'pipeline.adaptive' = 'never' keeps one variant")
    };
    often.map(problem).collect()
}

fn of_checkpoints(stats: &StatsSnapshot, _: &Recent) -> Vec<Problem> {
    let checkpoints = &stats.checkpoints;
    let age = checkpoints.age.unwrap_or(stats.elapsed);
    if checkpoints.begun <= checkpoints.complete || age < CHECKPOINT_PATIENCE {
        return Vec::new();
    }
    let text = format!("a checkpoint is under way, and the last one was complete {} ago", shown(age));
    vec![
        Problem::new("checkpoint-old", Severity::Warning, "checkpoints", text)
            .advise("after a failure the job resumes from there; see whether a sink or the state directory is slow"),
    ]
}

fn of_nodes(stats: &StatsSnapshot, _: &Recent) -> Vec<Problem> {
    let mut found = Vec::new();
    for node in &stats.nodes {
        let subject = format!("node {}", node.node);
        if let Some(why) = &node.lost {
            let text = format!("{subject} is lost ({why}): the job waits for it, or for another process in its place");
            found.push(Problem::new("node-lost", Severity::Error, &subject, text).advise(
                "start it again; after --cluster-replacement-timeout the job resumes on the nodes that are there",
            ));
        } else if node.age.is_none_or(|age| age >= PATIENCE) {
            let since = node.age.map_or_else(|| "so far".into(), |age| format!("for {}", shown(age)));
            let text = format!("{subject} has told nothing {since}");
            found.push(
                Problem::new("node-silent", Severity::Error, &subject, text)
                    .advise("see whether its process runs and its machine can be reached"),
            );
        }
        if node.replaced > 0 {
            let text = format!("{subject} was lost, and another process has taken its place ({} times)", node.replaced);
            found.push(Problem::new("node-replaced", Severity::Info, &subject, text));
        }
    }
    let rates = || stats.nodes.iter().map(|node| node.rows_per_second);
    let (least, most) = (rates().fold(f64::MAX, f64::min), rates().fold(0.0, f64::max));
    // A node that has no split to read has nothing to do with how rows are spread.
    let splits: u64 = stats.sources.iter().map(|source| source.split_count).sum();
    if stats.nodes.len() > 1 && splits >= stats.nodes.len() as u64 && most >= 1000.0 && most > 3.0 * least {
        let text = format!("nodes read between {} and {} rows/s", least.round(), most.round());
        found.push(
            Problem::new("skew", Severity::Info, "nodes", text).advise("more splits would spread the rows better"),
        );
    }
    found
}

fn of_rows(stats: &StatsSnapshot, recent: &Recent) -> Vec<Problem> {
    let Some(before) = recent.before() else { return Vec::new() };
    let then = &before.stats;
    let rows = stats.rows_in.saturating_sub(then.rows_in);
    let mut found = Vec::new();
    let late = stats.late_rows.saturating_sub(then.late_rows);
    if late > 0 {
        let severity = if late * 100 > rows { Severity::Warning } else { Severity::Info };
        let text =
            format!("{late} of the last {} came too late and were left out", millstream::counted(rows as usize, "row"));
        let problem = Problem::new("late-rows", severity, "rows", text);
        found.push(
            problem.advise(
                "a larger delay of the watermark waits for them: WATERMARK FOR ts AS ts - INTERVAL '30' SECOND",
            ),
        );
    }
    let bad = (stats.skipped_rows + stats.error_rows).saturating_sub(then.skipped_rows + then.error_rows);
    if bad > 0 {
        let severity = if bad * 100 > rows { Severity::Warning } else { Severity::Info };
        let text = format!(
            "{} were left out in the last seconds: malformed, or an expression failed",
            millstream::counted(bad as usize, "row")
        );
        found.push(Problem::new("bad-rows", severity, "rows", text).advise("samples of them say why"));
    }
    found
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share.min(1.0))
}

fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
#[path = "problems_tests.rs"]
mod tests;
