//! Nodes that die at any message, and another process takes their place while the others go on: what is committed in the end are the rows of an
//! undisturbed run.

use crate::simulation::{Post, Sender};
use crate::support::stored::*;
use crate::support::*;
use millstream_plan::pipeline::QueryPlan;
use millstream_runtime::*;
use millstream_storage::{Checkpoints, LocalStore};
use millstream_types::{Diagnostic, code};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NODES: usize = 3;

/// A job whose nodes send each other nothing.
struct Job {
    plan: QueryPlan,
    data: Vec<Vec<Row>>,
    folder: PathBuf,
    committed: Committed,
    post: Arc<Post>,
    members: Mutex<Vec<Member>>,
    /// Where those that have been replaced have begun again.
    replaced: Mutex<Vec<u64>>,
    /// Whether nobody takes the place of a node.
    is_alone: bool,
}

/// The process that is a node now.
struct Member {
    inbox: NodeInbox,
    failure: Failure,
    cancel: CancelToken,
    is_gone: Arc<AtomicBool>,
    end: Receiver<Result<(), Diagnostic>>,
}

struct Replacer(Arc<Job>);

impl Replacements for Replacer {
    fn replace(&self, lost: &LostNode, is_over: &dyn Fn() -> bool) -> Result<(), Diagnostic> {
        assert!(!is_over());
        if self.0.is_alone {
            return Err(lost.why.clone());
        }
        // What was sent to the lost one since is lost with its lane.
        self.0.post.waiting.lock().unwrap().remove(&(0, lost.node));
        let member = Job::begin(&self.0, lost.node, Some(lost));
        self.0.members.lock().unwrap()[lost.node] = member;
        self.0.replaced.lock().unwrap().push(lost.checkpoint);
        Ok(())
    }
}

impl Job {
    /// Has a process begin as a node, in the place of a lost one.
    fn begin(job: &Arc<Job>, me: usize, lost: Option<&LostNode>) -> Member {
        let is_gone = Arc::new(AtomicBool::new(false));
        let sender = Sender { from: me, post: Arc::clone(&job.post), is_gone: Arc::clone(&is_gone) };
        let (nodes, inbox) = Nodes::new(me, NODES, Arc::new(sender));
        let nodes = match me {
            0 => nodes.replaced_by(Arc::new(Replacer(Arc::clone(job)))),
            _ => nodes.behind(lost.map_or(0, |lost| lost.cuts)),
        };
        let restored = lost.map(|lost| {
            let manifest = manifests(&job.folder).into_iter().find(|manifest| manifest.checkpoint == lost.checkpoint);
            Recovered::new(&job.plan, manifest.unwrap()).unwrap()
        });
        let (failure, cancel) = (Failure::never(), CancelToken::new());
        let inner = if me == 0 { LocalStore::open(&job.folder).unwrap() } else { LocalStore::existing(&job.folder) };
        let checkpoints =
            Checkpoints::new(Arc::new(FailingStore { inner, failure: failure.clone(), reads: Reads::default() }));
        // Each process writes files of its own.
        let attempt = job.replaced.lock().unwrap().len() as u64;
        let checkpoints = CheckpointConfig {
            checkpoints: if me == 0 { checkpoints } else { checkpoints.of_node(me, attempt) },
            job: "j".into(),
            name: None,
            interval: Some(Duration::from_micros(200)),
            retained: 2,
            base: lost.map_or(0, |lost| u64::from(lost.table_cuts)),
            restored,
        };
        let mut input = input(job.plan.clone(), vec![connector(MemorySource::of(&job.data, 7))], vec![]);
        let (rows, committed) = (MemorySink::default(), Arc::clone(&job.committed));
        input.sinks = vec![Box::new(SpanSink { rows, node: me, committed, stops: None })];
        (input.nodes, input.checkpoints) = (Some(nodes), Some(checkpoints));
        let (sender, end) = channel();
        let (stats, of_node) = (Arc::new(QueryStats::new(&job.plan)), cancel.clone());
        std::thread::spawn(move || sender.send(run(input, &config(1, 3), &stats, &of_node)));
        Member { inbox, failure, cancel, is_gone, end }
    }

    /// The process that is a node dies, and the first one hears of it, unless it is dead.
    fn kill(&self, victim: usize) {
        let members = self.members.lock().unwrap();
        let Member { failure, cancel, is_gone, .. } = &members[victim];
        let mut waiting = self.post.waiting.lock().unwrap();
        if is_gone.swap(true, Relaxed) {
            return;
        }
        waiting.retain(|&(from, to), _| from != victim && to != victim);
        drop(waiting);
        failure.begin();
        cancel.abort();
        members[0].inbox.lost(victim, Diagnostic::new(code::NODE_LOST, "a node is gone"));
    }
}

/// When nodes die: so many messages behind the first checkpoint, or the beginning.
enum Deaths<'a> {
    BehindCheckpoint(&'a [u64]),
    FromTheStart(&'a [u64]),
}

/// What has become of a job.
struct Ran {
    /// How the first node has ended.
    ended: Result<(), Diagnostic>,
    rows: Vec<String>,
    /// Where others have begun in the place of those that have died.
    replaced: Vec<u64>,
    have_died: bool,
    /// By node: spans with rows.
    spans: [usize; NODES],
}

/// Runs a job whose nodes die.
fn run_job(plan: &QueryPlan, data: &[Vec<Row>], deaths: Deaths<'_>, is_alone: bool) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let job = Arc::new(Job {
        plan: plan.clone(),
        data: data.to_vec(),
        folder: folder.path().to_path_buf(),
        committed: Committed::default(),
        post: Arc::default(),
        members: Mutex::default(),
        replaced: Mutex::default(),
        is_alone,
    });
    let members = (0..NODES).map(|me| Job::begin(&job, me, None)).collect();
    *job.members.lock().unwrap() = members;
    let (deaths, mut has_begun) = match deaths {
        Deaths::BehindCheckpoint(deaths) => (deaths, false),
        Deaths::FromTheStart(deaths) => (deaths, true),
    };
    let mut random = Random(deaths.iter().sum::<u64>() + 1);
    let (mut delivered, mut left, mut idle) = (0, deaths, 0);
    let ended = loop {
        if !has_begun && !manifests(&job.folder).is_empty() {
            (has_begun, delivered) = (true, 0);
        }
        if has_begun
            && let [death, rest @ ..] = left
            && delivered >= *death
        {
            job.kill(1 + random.below(NODES as u64 - 1) as usize);
            left = rest;
        }
        if let Some(((from, to), (message, credit))) = job.post.take(&mut random) {
            job.members.lock().unwrap()[to].inbox.deliver(from, message, credit);
            (delivered, idle) = (delivered + 1, 0);
        } else {
            idle += 1;
            assert!(idle < 15_000, "nothing happens any more after {delivered} messages");
        }
        if let Ok(ended) = job.members.lock().unwrap()[0].end.try_recv() {
            break ended;
        }
    };
    let replaced = job.replaced.lock().unwrap().clone();
    let mut spans = [0; NODES];
    let committed = job.committed.lock().unwrap();
    committed.iter().filter(|(_, rows)| !rows.is_empty()).for_each(|((_, node), _)| spans[*node] += 1);
    drop(committed);
    Ran { ended, rows: all_committed(&job.committed), replaced, have_died: left.is_empty(), spans }
}

fn independent_plan() -> QueryPlan {
    let mut plan = copy_plan(None);
    plan.sinks[0].is_on_every_node = true;
    plan
}

#[test]
fn nodes_are_replaced_while_the_others_go_on() {
    let (plan, data) = (independent_plan(), random_splits(21, 4, 200, 60));
    let (mut expected, _) = run_to_end(plan.clone(), MemorySource::of(&data, 7), config(2, 3));
    expected.sort();
    let (mut is_through, mut from) = (false, Vec::new());
    for step in (0..).map(|n: u64| n * n / 8 + n).take_while(|&step| step < 3000) {
        // One, and then another one or that which has taken its place.
        let deaths = [step, step + step / 3 + 1, step + step / 3 + 2];
        let Ran { ended, rows, replaced, have_died, .. } =
            run_job(&plan, &data, Deaths::BehindCheckpoint(&deaths), false);
        assert!(ended.is_ok(), "dead after {step} messages: {ended:?}");
        assert!(rows == expected, "dead after {step} messages: {} rows of {}", rows.len(), expected.len());
        from.extend(replaced);
        is_through = !have_died;
        if is_through {
            break;
        }
    }
    assert!(is_through, "the query ends before any node dies");
    assert!(from.len() > 5, "{from:?}");
}

/// The first node is done at once, and makes checkpoints as long as another one is not.
#[test]
fn checkpoints_are_made_while_any_node_has_rows() {
    // So many that it takes some checkpoints to read them.
    let (few, many) = (random_splits(23, 1, 5, 60).remove(0), random_splits(24, 1, 400_000, 60).remove(0));
    let (plan, data) = (independent_plan(), [few, many]);
    let Ran { ended, rows, spans, .. } = run_job(&plan, &data, Deaths::BehindCheckpoint(&[]), true);
    assert!(ended.is_ok(), "{ended:?}");
    assert!(rows.len() == 400_005 && spans[0] == 1 && spans[1] > 4, "{} rows, spans {spans:?}", rows.len());
}

/// With more checkpoints, and up to five deaths at random places. `MILLSTREAM_SEEDS=1000` for long.
#[test]
fn nodes_are_replaced_again_and_again() {
    let seeds = std::env::var("MILLSTREAM_SEEDS").map_or(15, |seeds| seeds.parse().unwrap());
    let plan = independent_plan();
    for seed in 0..seeds {
        let (mut random, data) = (Random(seed + 1), random_splits(seed + 30, 5, 1500, 60));
        let (mut expected, _) = run_to_end(plan.clone(), MemorySource::of(&data, 7), config(2, 3));
        expected.sort();
        let mut deaths: Vec<u64> = (0..=random.below(5)).map(|_| random.below(120)).collect();
        deaths.sort_unstable();
        let Ran { ended, rows, replaced, .. } = run_job(&plan, &data, Deaths::BehindCheckpoint(&deaths), false);
        assert!(ended.is_ok(), "seed {seed}: {ended:?}");
        let (count, of) = (rows.len(), expected.len());
        assert!(
            rows == expected,
            "seed {seed}, dead after {deaths:?} messages, begun again at {replaced:?}: {count} rows of {of}"
        );
    }
}

#[test]
fn a_node_without_replacement_ends_the_query() {
    let (plan, data) = (independent_plan(), random_splits(22, 4, 200, 60));
    let Ran { ended, .. } = run_job(&plan, &data, Deaths::BehindCheckpoint(&[2]), true);
    assert_eq!(ended.unwrap_err().code, code::NODE_LOST);
    // Before the first checkpoint nobody is replaced: all begin again.
    let Ran { ended, replaced, .. } = run_job(&plan, &data, Deaths::FromTheStart(&[2]), false);
    assert_eq!((ended.unwrap_err().code, replaced), (code::NODE_LOST, vec![]));
}
