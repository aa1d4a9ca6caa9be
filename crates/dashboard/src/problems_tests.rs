use super::*;
use crate::history::History;
use crate::jobs::JobView;
use millstream::{Begun, NodeSnapshot, RunMonitor, SentSnapshot, Times, WaitCause, WaitSnapshot, WorkerSnapshot};
use std::sync::Arc;
use std::time::Instant;

fn view(state: JobState) -> JobView {
    JobView { state, ..JobView::running("bids") }
}

fn split(name: &str, silent: u64) -> SplitSnapshot {
    SplitSnapshot { name: name.into(), silent: Duration::from_secs(silent), ..SplitSnapshot::default() }
}

fn operator(state_bytes: u64) -> TriggerSnapshot {
    TriggerSnapshot {
        name: "operator 0".into(),
        begun: Begun::Jobs(0),
        in_flight: 0,
        rows_out: 0,
        busy: Duration::ZERO,
        delay: Times::default(),
        state_bytes,
        sent: SentSnapshot::default(),
    }
}

fn sink(busy_ms: u64) -> SinkSnapshot {
    SinkSnapshot {
        name: "sink 0: out".into(),
        rows: 0,
        busy: Duration::from_millis(busy_ms),
        writing: Duration::ZERO,
        committing: Duration::ZERO,
        sent: SentSnapshot::default(),
    }
}

fn stats(splits: Vec<SplitSnapshot>) -> StatsSnapshot {
    let source = SourceSnapshot {
        name: "source 0: table t".into(),
        split_count: splits.len() as u64,
        splits,
        ..SourceSnapshot::default()
    };
    let mut stats = StatsSnapshot {
        sources: vec![source],
        operators: vec![operator(0)],
        sinks: vec![sink(0)],
        ..Default::default()
    };
    stats.memory.limit = 1 << 30;
    stats
}

/// What is found of these statistics, when ten seconds ago they were those: kinds, with severity and text.
fn found(before: &StatsSnapshot, now: StatsSnapshot) -> Vec<(&'static str, Severity, String)> {
    let mut history = History::default();
    history.note_at(Instant::now() - Duration::from_secs(10), 1, 0, before);
    let job = JobSnapshot { view: view(JobState::Running), stats: Some(now) };
    of(&job, history.recent()).into_iter().map(|p| (p.kind, p.severity, p.text)).collect()
}

fn kinds(before: &StatsSnapshot, now: StatsSnapshot) -> Vec<&'static str> {
    found(before, now).into_iter().map(|(kind, ..)| kind).collect()
}

#[test]
fn nothing_is_wrong_with_a_job_that_runs() {
    let calm = stats(vec![split("a", 0), split("b", 1)]);
    assert_eq!(found(&calm, calm.clone()), []);
}

#[test]
fn a_sink_that_stands_still_is_named() {
    let mut stuck = stats(vec![split("a", 0)]);
    stuck.sinks[0].writing = Duration::from_secs(75);
    let all = found(&stats(vec![split("a", 0)]), stuck);
    assert_eq!((all[0].0, all[0].1), ("sink-stuck", Severity::Error));
    assert!(all[0].2.contains("sink 0: out has been busy with one write for 75 s"), "{all:?}");
}

#[test]
fn the_split_that_holds_windows_back_is_named() {
    let calm = stats(vec![split("a", 0), split("b", 0)]);
    let mut idle = split("b", 40);
    idle.watermark_ms = Some(5);
    let ahead = SplitSnapshot { watermark_ms: Some(1000), ..split("a", 0) };
    let all = found(&calm, stats(vec![ahead.clone(), idle.clone()]));
    assert_eq!((all.len(), all[0].0), (1, "split-holds-watermark"));
    assert!(all[0].2.contains("windows wait for 'b'") && all[0].2.contains("40 s"), "{all:?}");
    // One that is idle by its timeout holds nothing back, and nobody waits for it where there are no windows.
    assert_eq!(kinds(&calm, stats(vec![ahead.clone(), SplitSnapshot { is_idle: true, ..idle.clone() }])), [""; 0]);
    let mut without = stats(vec![ahead, idle]);
    without.operators.clear();
    assert_eq!(kinds(&calm, without), [""; 0]);
    // All are silent: there is nothing to read.
    assert_eq!(kinds(&calm, stats(vec![split("a", 20), split("b", 40)])), ["source-silent"]);
    let away = SplitSnapshot { trouble: Some("the brokers do not answer".into()), ..split("a", 20) };
    assert_eq!(kinds(&calm, stats(vec![away, split("b", 0)])), ["split-unreachable"]);
}

/// Three causes of backpressure.
#[test]
fn who_makes_a_source_wait_is_named() {
    let calm = stats(vec![split("a", 0), split("b", 0)]);
    let waiting = |waits: WaitSnapshot| {
        let mut now = calm.clone();
        now.sources[0].waits = waits;
        now
    };
    let waits = |in_flight: u64, memory: u64, behind: u64| {
        let seconds = Duration::from_secs;
        WaitSnapshot { in_flight: seconds(in_flight), memory: seconds(memory), behind: seconds(behind), now: None }
    };
    // A sink that is busy all the time.
    let mut slow = waiting(waits(18, 0, 0));
    slow.sinks = vec![sink(9_900)];
    let all = found(&calm, slow);
    assert_eq!((all.len(), all[0].0), (1, "sink-slow"));
    assert!(
        all[0].2.contains("source 0: table t waits 9") && all[0].2.contains("because sink 0: out is busy"),
        "{all:?}"
    );
    // Workers that are.
    let mut busy = waiting(waits(10, 0, 0));
    busy.workers = vec![WorkerSnapshot { tasks: 1, busy: Duration::from_millis(9_900), idle: Duration::ZERO }];
    assert_eq!(kinds(&calm, busy), ["cpu"]);
    // Memory, by either rule; of splits that are ahead the one behind is named.
    assert_eq!(kinds(&calm, waiting(waits(0, 10, 0))), ["memory"]);
    let mut ahead = waiting(waits(0, 0, 9));
    ahead.sources[0].splits[0].waits.now = Some(WaitCause::Behind);
    (ahead.sources[0].splits[0].watermark_ms, ahead.sources[0].splits[1].watermark_ms) = (Some(9), Some(2));
    let all = found(&calm, ahead);
    assert!(all[0].0 == "memory" && all[0].2.contains("'b' has the lowest watermark"), "{all:?}");
    // Who waits now and then is not told of.
    assert_eq!(kinds(&calm, waiting(waits(1, 0, 0))), [""; 0]);
}

#[test]
fn state_that_grows_is_told_of() {
    let mut history = History::default();
    let of_size = |bytes: u64| StatsSnapshot { operators: vec![operator(bytes)], ..stats(vec![split("a", 0)]) };
    for second in 0..61 {
        history.note(1, second * 1000, &of_size((16 << 20) + second * (1 << 20)));
    }
    let job = JobSnapshot { view: view(JobState::Running), stats: Some(of_size(76 << 20)) };
    let all = of(&job, history.recent());
    assert_eq!((all.len(), all[0].kind, all[0].subject.as_str()), (1, "state-grows", "operator 0"));
    assert!(all[0].text.contains("60.0 MiB more than 60 s ago; at this pace memory is full in 17 min"), "{all:?}");
}

#[test]
fn code_that_changes_too_often_is_told_of() {
    let event = |at: u64| Event {
        at: Duration::from_secs(at),
        kind: if at.is_multiple_of(2) { EventKind::Adopted } else { EventKind::Deoptimised },
        subject: "pipeline 0".into(),
        observed: String::new(),
        decided: String::new(),
        gain: None,
    };
    let with = |count: u64| StatsSnapshot {
        elapsed: Duration::from_secs(1000),
        events: (0..count).map(|i| event(900 + i)).collect(),
        ..stats(vec![split("a", 0)])
    };
    let calm = stats(vec![split("a", 0)]);
    assert_eq!(kinds(&calm, with(12)), ["recompiles"]);
    assert_eq!(kinds(&calm, with(11)), [""; 0]);
    assert_eq!(kinds(&calm, StatsSnapshot { elapsed: Duration::from_secs(2000), ..with(50) }), [""; 0], "long ago");
}

#[test]
fn nodes_checkpoints_and_rows_are_looked_at() {
    let calm = stats(vec![split("a", 0)]);
    let told = |node: usize, age: u64, replaced: u64| NodeSnapshot {
        node,
        age: Some(Duration::from_secs(age)),
        replaced,
        ..NodeSnapshot::default()
    };
    let gone = NodeSnapshot { lost: Some("the connection broke".into()), ..told(3, 1, 0) };
    let nodes = vec![told(0, 0, 0), told(1, 30, 0), told(2, 0, 1), gone];
    let of_nodes = found(&calm, StatsSnapshot { nodes, ..calm.clone() });
    let kinds_of = |all: &[(&'static str, Severity, String)]| all.iter().map(|problem| problem.0).collect::<Vec<_>>();
    assert_eq!(kinds_of(&of_nodes), ["node-silent", "node-lost", "node-replaced"]);
    assert!(of_nodes[1].2.starts_with("node 3 is lost (the connection broke): the job waits"), "{of_nodes:?}");
    let mut late = calm.clone();
    (late.rows_in, late.late_rows, late.skipped_rows) = (100, 50, 1);
    let all = found(&calm, late);
    assert_eq!(
        all.iter().map(|p| (p.0, p.1)).collect::<Vec<_>>(),
        [("late-rows", Severity::Warning), ("bad-rows", Severity::Info)]
    );
    let mut old = calm.clone();
    (old.checkpoints.begun, old.checkpoints.complete, old.checkpoints.age) = (4, 3, Some(Duration::from_secs(90)));
    assert_eq!(kinds(&calm, old), ["checkpoint-old"]);
}

#[test]
fn the_life_of_a_job_is_looked_at() {
    let in_state = |state: JobState| {
        let view = JobView { error: Some("error[MS5001]: gone\nmore".into()), restarts: 2, ..view(state) };
        of(&JobSnapshot { view, stats: None }, &Recent::default())
    };
    assert_eq!(in_state(JobState::Failed)[0].text, "error[MS5001]: gone");
    assert_eq!(in_state(JobState::Restarting)[0].kind, "restarts");
    assert_eq!(in_state(JobState::Starting), [], "it has just begun");
    assert_eq!(in_state(JobState::Running)[0].severity, Severity::Info);
    let of_file =
        JobView { file: Some("jobs/a.sql".into()), error: Some("no such column".into()), ..view(JobState::Running) };
    let refused = of(&JobSnapshot { view: of_file, stats: None }, &Recent::default());
    assert_eq!((refused[0].kind, refused[0].text.as_str()), ("edit-refused", "no such column"));
    let since = SystemTime::now() - Duration::from_secs(20);
    let job = JobSnapshot { view: JobView { since, ..view(JobState::Starting) }, stats: None };
    assert!(
        of(&job, &Recent::default())[0]
            .text
            .contains("it has not begun for 20 s: bids: a source or a sink does not answer")
    );
    // Nodes that are gone are told of at once, with the failure that the job is started again after.
    let monitor = Arc::new(RunMonitor::new());
    monitor.awaits(Some(Awaited::Nodes(vec!["127.0.0.1:7421".into()])));
    let error = Some("error[MS5014]: node 1 is gone\nmore".into());
    let view = JobView { monitor: Some(monitor), error, ..view(JobState::Starting) };
    let problems = of(&JobSnapshot { view, stats: None }, &Recent::default());
    let text = "the job has not begun, after error[MS5014]: node 1 is gone: the run waits for 127.0.0.1:7421";
    assert_eq!((problems[0].kind, problems[0].text.as_str()), ("nodes-awaited", text));
}
