//! Queries on several nodes whose messages are delivered one at a time, in an order that a seed decides, and that die at any of them: what
//! is committed in the end are the rows of an undisturbed run.
//!
//! A node that dies can store nothing from then on, and the others lose it. Then all begin from the newest checkpoint, as more or fewer nodes.

use crate::support::keyed::{aggregates, windowed_operators};
use crate::support::stored::*;
use crate::support::*;
use millstream_plan::pipeline::{KeyedKind, QueryPlan, Sessions};
use millstream_runtime::*;
use millstream_storage::{Checkpoints, LocalStore};
use millstream_types::{Diagnostic, code};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A message, and what its sender gets back.
pub type Message = (Vec<u8>, Option<Credit>);

/// From which node to which.
pub type Way = (usize, usize);

/// Messages on their way, by who has sent them and to whom.
#[derive(Default)]
pub struct Post {
    pub waiting: Mutex<BTreeMap<Way, VecDeque<Message>>>,
    changed: Condvar,
}

/// What a node sends.
pub struct Sender {
    pub from: usize,
    pub post: Arc<Post>,
    /// Whether nothing more comes from it.
    pub is_gone: Arc<AtomicBool>,
}

impl Peers for Sender {
    fn send(&self, to: usize, message: Vec<u8>, credit: Option<Credit>) {
        let mut waiting = self.post.waiting.lock().unwrap();
        if self.is_gone.load(Relaxed) {
            return;
        }
        waiting.entry((self.from, to)).or_default().push_back((message, credit));
        drop(waiting);
        self.post.changed.notify_all();
    }
}

impl Post {
    /// Takes out one of the messages that are next in their lane; `None` when there is none for a while.
    pub fn take(&self, random: &mut Random) -> Option<(Way, Message)> {
        let mut waiting = self.waiting.lock().unwrap();
        loop {
            waiting.retain(|_, lane| !lane.is_empty());
            if !waiting.is_empty() {
                let lane = *waiting.keys().nth(random.below(waiting.len() as u64) as usize).unwrap();
                return Some((lane, waiting.get_mut(&lane)?.pop_front()?));
            }
            let (again, timeout) = self.changed.wait_timeout(waiting, Duration::from_millis(2)).unwrap();
            if timeout.timed_out() {
                return None;
            }
            waiting = again;
        }
    }
}

/// A job, run by nodes of which one dies.
struct Simulated<'a> {
    plan: &'a QueryPlan,
    data: &'a [Vec<Row>],
    folder: &'a Path,
    committed: Committed,
    random: Random,
    /// Buffers of a node from one cut to the next, beside those of checkpoints; 0: there are no others.
    cut_every: u64,
}

type Ends = Vec<Receiver<Result<(), Diagnostic>>>;

impl Simulated<'_> {
    /// Runs the job from its newest checkpoint on so many nodes, of which one dies after so many messages; whether it has come to its end.
    fn run(&mut self, count: usize, dies_after: u64) -> bool {
        let newest = manifests(self.folder).into_iter().next();
        commit_again(&self.committed, newest.as_ref());
        if newest.as_ref().is_some_and(|manifest| manifest.is_finished) {
            return true;
        }
        let base = newest.as_ref().map_or(0, |manifest| manifest.checkpoint);
        let restored = newest.map(|manifest| Recovered::new(self.plan, manifest).unwrap());
        let (post, mut ends) = (Arc::new(Post::default()), Ends::new());
        let (mut inboxes, mut failures, mut cancels) = (Vec::new(), Vec::new(), Vec::new());
        for me in 0..count {
            let sender = Sender { from: me, post: Arc::clone(&post), is_gone: Arc::default() };
            let (nodes, inbox) = Nodes::new(me, count, Arc::new(sender));
            let (failure, cancel) = (Failure::never(), CancelToken::new());
            let store = FailingStore {
                // The first one removes what is unfinished, before others begin.
                inner: if me == 0 { LocalStore::open(self.folder).unwrap() } else { LocalStore::existing(self.folder) },
                failure: failure.clone(),
                reads: Reads::default(),
            };
            let checkpoints = Checkpoints::new(Arc::new(store));
            let checkpoints = CheckpointConfig {
                checkpoints: if me == 0 { checkpoints } else { checkpoints.of_node(me, base) },
                job: "j".into(),
                name: None,
                interval: Some(Duration::from_micros(200)),
                retained: 2,
                base,
                restored: restored.clone(),
            };
            let mut input = input(self.plan.clone(), vec![connector(MemorySource::of(self.data, 7))], vec![]);
            if me == 0 || self.plan.sinks[0].is_on_every_node {
                let (rows, committed) = (MemorySink::default(), Arc::clone(&self.committed));
                input.sinks = vec![Box::new(SpanSink { rows, node: me, committed, stops: None })];
            }
            (input.nodes, input.checkpoints) = (Some(nodes), Some(checkpoints));
            let (sender, receiver) = channel();
            let (stats, of_node) = (Arc::new(QueryStats::new(self.plan)), cancel.clone());
            let config = RunConfig { cut_every: self.cut_every, ..config(1, 3) };
            std::thread::spawn(move || sender.send(run(input, &config, &stats, &of_node)));
            ends.push(receiver);
            inboxes.push(inbox);
            failures.push(failure);
            cancels.push(cancel);
        }
        let victim = self.random.below(count as u64) as usize;
        let mut ended: Vec<Option<Result<(), Diagnostic>>> = vec![None; count];
        let (mut delivered, mut idle) = (0, 0);
        while ended.iter().any(Option::is_none) {
            if delivered == dies_after {
                failures[victim].begin();
                cancels[victim].abort();
                let others = inboxes.iter().enumerate().filter(|(node, _)| *node != victim);
                others.for_each(|(_, inbox)| inbox.lost(victim, Diagnostic::new(code::READ_FAILED, "a node is gone")));
            }
            if let Some(((from, to), (message, credit))) = self.post_of(&post, delivered >= dies_after) {
                inboxes[to].deliver(from, message, credit);
                (delivered, idle) = (delivered + 1, 0);
            } else {
                idle += 1;
                assert!(idle < 15_000, "nothing happens any more after {delivered} messages");
                delivered += u64::from(delivered == dies_after);
            }
            for (end, ended) in ends.iter().zip(&mut ended).filter(|(_, ended)| ended.is_none()) {
                *ended = end.try_recv().ok();
            }
        }
        let ended: Vec<Result<(), Diagnostic>> = ended.into_iter().flatten().collect();
        if delivered < dies_after {
            ended.iter().for_each(|end| assert!(end.is_ok(), "{end:?}"));
        }
        ended[0].is_ok()
    }

    /// The next message; none of those that are left when a node has died.
    fn post_of(&mut self, post: &Post, is_dead: bool) -> Option<(Way, Message)> {
        post.take(&mut self.random).filter(|_| !is_dead)
    }
}

/// Has nodes die after more and more messages.
fn die_at_every_message(plan: &QueryPlan, data: &[Vec<Row>]) {
    die_between_cuts(plan, data, 0);
}

/// The same with cuts for tables between those of checkpoints.
fn die_between_cuts(plan: &QueryPlan, data: &[Vec<Row>], cut_every: u64) {
    let (mut expected, _) = run_to_end(plan.clone(), MemorySource::of(data, 7), config(2, 3));
    expected.sort();
    let mut is_through = false;
    for step in (0..).map(|n: u64| n * n / 8 + n).take_while(|&step| step < 3000) {
        let folder = tempfile::tempdir().unwrap();
        let (committed, random) = (Committed::default(), Random(step + 1));
        let mut job = Simulated { plan, data, folder: folder.path(), committed, random, cut_every };
        is_through = job.run(3, step);
        if !is_through {
            // Again a little later, and then no more.
            job.run(2, step / 2 + 3);
            assert!(job.run(5, u64::MAX), "dead after {step} messages");
        }
        let rows = all_committed(&job.committed);
        let count = |all: &[String], row: &String| all.iter().filter(|other| *other == row).count();
        let differs = |row: &&String| count(&rows, row) != count(&expected, row);
        let differing: Vec<(&String, usize)> =
            rows.iter().chain(&expected).filter(differs).map(|row| (row, count(&rows, row))).collect();
        assert!(rows == expected, "dead after {step} messages: rows, and how often they came: {differing:?}");
        if is_through {
            break;
        }
    }
    assert!(is_through, "the query ends before any node dies");
}

#[test]
fn windows_survive_nodes() {
    die_at_every_message(&tumbling_plan(100, 40), &random_splits(11, 4, 300, 60));
}

#[test]
fn sinks_of_every_node_survive_nodes() {
    let (mut copied, mut windows) = (copy_plan(None), tumbling_plan(100, 40));
    for plan in [&mut copied, &mut windows] {
        plan.sinks[0].is_on_every_node = true;
        die_at_every_message(plan, &random_splits(14, 4, 200, 60));
    }
}

/// The first node makes the next cut when this one has passed its own sink. Others may not have passed it then.
#[test]
fn cuts_for_tables_do_not_wait_for_each_other() {
    let mut windows = tumbling_plan(100, 40);
    windows.sinks[0].is_on_every_node = true;
    die_between_cuts(&windows, &random_splits(15, 4, 300, 60), 1);
}

#[test]
fn chains_of_windows_survive_nodes() {
    die_at_every_message(&chained_plan(50, 30, 170), &random_splits(12, 5, 300, 60));
}

#[test]
fn keyed_operators_survive_nodes() {
    let kinds = [Some(aggregates()), None].map(|aggregates| KeyedKind::Sessions(Sessions { gap_ms: 30, aggregates }));
    let [with_aggregates, without] = kinds;
    let [sessions, _] = windowed_operators(with_aggregates, without);
    die_at_every_message(&keyed::plan(sessions), &random_splits(13, 3, 300, 15));
}
