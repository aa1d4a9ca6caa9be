//! Processes, the network between them, and the store: events in virtual time, which follow from a seed.

use crate::lane::{Lane, LaneId, Mesh, Sent};
use crate::ledger::{Ledger, Record};
use crate::member::{Effect, Member, Own, Place};
use crate::messages::{SplitAt, Stored};
use crate::stage::Agreed;
use crate::store::Memory;
use crate::{Config, Random};
use millstream_cluster::attempts::{self, Precedence, precedence};
use millstream_storage::{Checkpoints, Manifest, Run, SourceState, SplitState};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

const JOB: &str = "j";
/// A node that is silent for so long is lost.
const SILENCE: Duration = Duration::from_millis(60);
/// From the end of an attempt to the next.
const BACKOFF: Duration = Duration::from_millis(10);
/// Without a checkpoint or a disturbance for so long, the job stands still.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Something that happens to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The node of an attempt does something by itself.
    Own(u64, Own),
    /// The next message of a lane arrives.
    Arrive(LaneId),
    /// The receiver gives a credit back.
    Consumed(LaneId, u64),
    /// It comes to the sender.
    Granted(LaneId, u64),
    /// The order to begin an attempt.
    Begin(u64),
    /// A node of the attempt is gone, or refuses to speak.
    Lost(u64),
    /// A node refuses to begin the attempt.
    Refused(u64),
    /// The first node begins the next attempt.
    NextAttempt,
    Die,
    Return,
    Pause(Duration),
    Wake,
    /// Another process takes the job over, unless this one is alive after all.
    TakeOver,
    /// The seed wills something.
    Disturb,
}

/// Who a process is when its job is to lead.
struct Leader {
    run: u64,
    checkpoints: Checkpoints,
    attempts: u64,
    /// It does not begin again.
    has_ended: bool,
}

#[derive(Default)]
struct Process {
    is_dead: bool,
    is_paused: bool,
    /// What has come for it while it was paused.
    backlog: Vec<Event>,
    /// Counts its lives: what was meant for an earlier one is void.
    life: u64,
    member: Option<Member>,
    /// The newest attempt that it has been in.
    attempt: Option<u64>,
    leader: Option<Leader>,
}

/// What the nodes of an attempt are told.
struct Order {
    base: u64,
    restored: Option<(Vec<SplitAt>, Vec<i64>)>,
    agreed: Rc<RefCell<Agreed>>,
}

/// When an event happens, its number, its process, the life of that, and its slot.
type Entry = (Duration, u64, usize, u64, usize);

pub struct World {
    config: Rc<Config>,
    start: Instant,
    now: Duration,
    count: u64,
    events: BinaryHeap<Reverse<Entry>>,
    /// The events of the heap's entries.
    slots: Vec<Event>,
    free: Vec<usize>,
    processes: Vec<Process>,
    leader: usize,
    meshes: BTreeMap<u64, (Mesh, Order)>,
    store: Memory,
    runs: Memory,
    ledger: Ledger,
    random: Random,
    disturbances: u64,
    last_progress: Duration,
    is_done: bool,
    pub steps: u64,
    pub refused: u64,
    pub attempts: u64,
}

impl World {
    pub fn new(config: Config) -> World {
        let config = Rc::new(config);
        let mut world = World {
            start: Instant::now(),
            now: Duration::ZERO,
            count: 0,
            events: BinaryHeap::new(),
            slots: vec![],
            free: vec![],
            processes: (1..config.nodes).map(|_| Process::default()).collect(),
            leader: 0,
            meshes: BTreeMap::new(),
            store: Memory::default(),
            runs: Memory::default(),
            ledger: Ledger::new(config.units.len()),
            random: Random::new(config.delays.seed),
            disturbances: config.disturbances,
            last_progress: Duration::ZERO,
            is_done: false,
            steps: 0,
            refused: 0,
            attempts: 0,
            config,
        };
        world.take_over();
        world.disturb_later();
        world
    }

    /// Runs the job to its end, and what is left of old attempts behind it. How many checkpoints have been completed.
    pub fn run(&mut self) -> usize {
        while let Some(Reverse((at, _, process, life, slot))) = self.events.pop() {
            self.now = at;
            self.free.push(slot);
            let event = self.slots[slot];
            if self.processes[process].life != life
                && !matches!(event, Event::Return | Event::TakeOver | Event::Disturb)
            {
                continue;
            }
            self.steps += 1;
            assert!(self.now - self.last_progress < STANDSTILL, "nothing comes of it any more: {event:?}");
            self.happen(process, event);
        }
        assert!(self.is_done, "nobody has anything to do, and the job has not come to its end");
        let (last, _) = self.meshes.last_key_value().map(|(_, mesh)| mesh).expect("there was an attempt");
        let is_complete = last.processes.iter().all(|&process| !self.processes[process].is_dead);
        assert!(!is_complete || last.lanes.values().all(|lane| lane.unsent() == 0), "a lane still waits at the end");
        self.ledger.check_end(&self.config.units);
        self.ledger.chain.len()
    }

    fn at(&mut self, after: Duration, process: usize, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(event);
            self.slots.len() - 1
        });
        self.slots[slot] = event;
        self.count += 1;
        let life = self.processes[process].life;
        self.events.push(Reverse((self.now + after, self.count, process, life, slot)));
    }

    fn latency(&mut self) -> Duration {
        self.config.delays.latency + Duration::from_micros(self.random.below(1000))
    }

    fn happen(&mut self, process: usize, event: Event) {
        let of = &mut self.processes[process];
        if of.is_paused
            && !matches!(event, Event::Die | Event::Wake | Event::Pause(_) | Event::TakeOver | Event::Disturb)
        {
            of.backlog.push(event);
            return;
        }
        match event {
            // Nobody is in that attempt any more.
            Event::Arrive(lane) | Event::Consumed(lane, _) | Event::Granted(lane, _)
                if !self.meshes.contains_key(&lane.0) => {}
            Event::Begin(attempt) if !self.meshes.contains_key(&attempt) => {}
            Event::Own(attempt, own) => self.own(process, attempt, own),
            Event::Arrive(lane) => self.arrive(process, lane),
            Event::Consumed(lane, cost) => {
                let grant = self.lane(lane).incoming.released(cost);
                if let Some(bytes) = grant {
                    let (sender, latency) = (self.meshes[&lane.0].0.processes[lane.1 as usize], self.latency());
                    self.at(latency, sender, Event::Granted(lane, bytes));
                }
            }
            Event::Granted(lane, bytes) => self.with_lane(process, lane, |lane| lane.granted(bytes)),
            Event::Begin(attempt) => self.begin(process, attempt),
            Event::Lost(attempt) => self.with_member(process, attempt, |member, _| member.fail()),
            Event::Refused(attempt) => {
                // A newer process leads: this one does not begin again.
                if let Some(leader) = &mut of.leader {
                    leader.has_ended = true;
                }
                self.with_member(process, attempt, |member, _| member.fail());
            }
            Event::NextAttempt => self.next_attempt(process),
            Event::Die => self.die(process),
            Event::Return => of.is_dead = false,
            Event::Pause(length) if !of.is_dead && !of.is_paused => {
                of.is_paused = true;
                self.at(length, process, Event::Wake);
                if length > SILENCE {
                    self.lose(process, SILENCE);
                }
            }
            Event::Pause(_) => {}
            Event::Wake => {
                of.is_paused = false;
                for event in std::mem::take(&mut of.backlog) {
                    self.at(Duration::ZERO, process, event);
                }
            }
            Event::TakeOver if self.leader == process && (of.is_dead || of.is_paused) => self.take_over(),
            Event::TakeOver => {}
            Event::Disturb => self.disturb(),
        }
    }

    /// The lane of a mesh that is still there.
    fn lane(&mut self, lane: LaneId) -> &mut Lane {
        let (attempt, from, to) = lane;
        let (mesh, window) = (&mut self.meshes.get_mut(&attempt).expect("its nodes are there").0, self.config.window);
        mesh.lanes.entry((from, to)).or_insert_with(|| Lane::new(window))
    }

    /// Changes what the sender of a lane has, and sends what may go.
    fn with_lane(&mut self, sender: usize, id: LaneId, change: impl FnOnce(&mut Lane)) {
        let (now, config) = (self.now, Rc::clone(&self.config));
        let lane = self.lane(id);
        let before = lane.unsent();
        change(lane);
        let due = lane.pump((id.1, id.2), now, &config);
        let after = lane.unsent();
        if let Some(member) = self.processes[sender].member.as_mut().filter(|member| member.attempt == id.0) {
            member.unsent = member.unsent + after - before;
        }
        let receiver = self.meshes[&id.0].0.processes[id.2 as usize];
        due.into_iter().for_each(|at| self.at(at - now, receiver, Event::Arrive(id)));
    }

    /// Has the node of an attempt do something, if the process is still in that, and acts on what follows.
    fn with_member(&mut self, process: usize, attempt: u64, act: impl FnOnce(&mut Member, Duration)) {
        let of = &mut self.processes[process];
        let Some(member) = of.member.as_mut().filter(|member| member.attempt == attempt && !member.is_over) else {
            return;
        };
        act(member, self.now);
        let (me, effects) = (member.me, std::mem::take(&mut member.effects));
        for effect in effects {
            match effect {
                Effect::Send(to, message, cost) => {
                    let now = self.now;
                    let lane = (attempt, me as u32, to as u32);
                    self.with_lane(process, lane, |lane| lane.push(message, cost, now));
                }
                Effect::After(delay, own) => self.at(delay, process, Event::Own(attempt, own)),
                Effect::Consumed(from, cost) => {
                    let slowness = self.slowness(process);
                    let delay = Duration::from_micros((10 + self.random.below(300)) * slowness);
                    self.at(delay, process, Event::Consumed((attempt, from as u32, me as u32), cost));
                }
                Effect::Commits(number) => self.ledger.commits(attempt, number, me),
                Effect::Failed if me == 0 => self.at(BACKOFF, process, Event::NextAttempt),
                Effect::Failed => {}
            }
        }
    }

    fn slowness(&self, process: usize) -> u64 {
        if process == self.config.slow { 10 } else { 1 }
    }

    fn arrive(&mut self, process: usize, id: LaneId) {
        let (attempt, from, to) = id;
        let ours = self.processes[process].attempt.unwrap_or(0);
        match precedence((JOB, attempt), (JOB, ours)) {
            Precedence::Newer => {
                // It has not begun that yet; whoever wants to speak tries again, as long as it is in that attempt.
                let sender = self.meshes[&attempt].0.processes[from as usize];
                let speaks = |member: &Member| member.attempt == attempt && !member.is_over;
                if self.processes[sender].member.as_ref().is_some_and(speaks) {
                    let again = self.latency();
                    self.at(again, process, Event::Arrive(id));
                }
                return;
            }
            Precedence::Older | Precedence::OfAnotherJob => {
                self.refused += 1;
                self.lane(id).wire.pop_front();
                let (sender, latency) = (self.meshes[&attempt].0.processes[from as usize], self.latency());
                return self.at(latency, sender, Event::Lost(attempt));
            }
            Precedence::Same => {}
        }
        let lane = self.lane(id);
        let Some(Sent { message, cost, .. }) = lane.wire.pop_front() else { return };
        if cost > 0 {
            lane.incoming.arrived(cost).expect("the sender keeps the rules");
        }
        let current = self.processes[process].member.as_ref().map(|member| member.attempt);
        // The process that has left the attempt for no other one takes nothing more.
        if let Some(current) = current {
            debug_assert_eq!(to as usize, self.processes[process].member.as_ref().map_or(0, |member| member.me));
            self.with_member(process, current, |member, now| member.receive(from as usize, message, cost, now));
        }
    }

    fn own(&mut self, process: usize, attempt: u64, own: Own) {
        match own {
            Own::Write => self.write(process, attempt, false),
            Own::WriteLast => self.write(process, attempt, true),
            Own::Commit => {
                // Also when the run has failed meanwhile: whoever commits does not look.
                let member = self.processes[process].member.as_ref().filter(|member| member.attempt == attempt);
                let written = member.and_then(|member| member.written());
                let Some((number, _)) = written else { return };
                self.ledger.commits(attempt, number, 0);
                self.last_progress = self.now;
                self.with_member(process, attempt, |member, now| member.has_committed(now));
            }
            own => self.with_member(process, attempt, |member, now| member.act(own, now)),
        }
    }

    /// The first node writes a manifest, and looks whether the job is still its own.
    fn write(&mut self, process: usize, attempt: u64, is_finished: bool) {
        let of = &mut self.processes[process];
        let Some(member) = of.member.as_mut().filter(|member| member.attempt == attempt) else { return };
        let watermarks = member.watermarks();
        let written = if is_finished { Some(member.last()) } else { member.written() };
        let Some((number, stored)) = written else { return };
        let count = self.meshes[&attempt].0.processes.len();
        assert_eq!(
            stored.len(),
            count,
            "checkpoint {number} is written with what {} of {count} nodes say",
            stored.len()
        );
        let record = self.record((attempt, number), &stored, is_finished);
        self.ledger.writes(record);
        let manifest = manifest((attempt, number), &stored, &watermarks, is_finished);
        let leader = self.processes[process].leader.as_mut().expect("the first node leads");
        match leader.checkpoints.write(&manifest) {
            Ok(()) => {
                self.ledger.completed(attempt, number);
                if is_finished {
                    // The others have ended: what they have prepared is made visible here.
                    (0..count).for_each(|node| self.ledger.commits(attempt, number, node));
                    (self.is_done, leader.has_ended) = (true, true);
                    return self.with_member(process, attempt, |member, _| member.is_over = true);
                }
                self.with_member(process, attempt, |member, _| member.has_written());
            }
            Err(_) => {
                leader.has_ended = true;
                self.with_member(process, attempt, |member, _| member.fail());
            }
        }
    }

    fn record(&self, (attempt, number): (u64, u64), stored: &[Stored], is_finished: bool) -> Record {
        let mut positions = vec![u64::MAX; self.config.units.len()];
        let splits = stored.iter().flat_map(|stored| &stored.splits);
        splits.for_each(|split| positions[split.number] = split.position);
        let part = |stored: &Stored| (stored.attempt, stored.splits.iter().map(|split| split.number).collect());
        Record { attempt, number, positions, parts: stored.iter().map(part).collect(), is_finished }
    }

    /// Another process becomes the first node of the job.
    fn take_over(&mut self) {
        let (runs, made) = (Arc::new(self.runs.clone()), self.runs.clone());
        let run =
            Run::take(runs, |name| made.make(name), |_| Ok(None)).expect("a store in memory").expect("it is free");
        let number = run.number();
        let checkpoints = Checkpoints::of_run(Arc::new(self.store.clone()), Arc::new(run));
        let leader = Some(Leader { run: number, checkpoints, attempts: 0, has_ended: false });
        self.leader = self.processes.len();
        self.processes.push(Process { leader, ..Process::default() });
        // It looks for checkpoints a while after it has taken its number.
        self.at(BACKOFF, self.leader, Event::NextAttempt);
    }

    /// Begins an attempt from the newest checkpoint, on all nodes that answer.
    fn next_attempt(&mut self, process: usize) {
        let nodes: Vec<usize> = (0..self.config.nodes - 1)
            .filter(|&node| !self.processes[node].is_dead && !self.processes[node].is_paused)
            .collect();
        let leader = self.processes[process].leader.as_mut().expect("the first node leads");
        if leader.has_ended {
            return;
        }
        if nodes.is_empty() && self.config.nodes > 1 {
            return self.at(BACKOFF, process, Event::NextAttempt);
        }
        leader.attempts += 1;
        let most = 10 + 3 * self.config.disturbances;
        assert!(leader.attempts <= most, "an attempt ends without a reason, again and again");
        let (attempt, checkpoints) = (attempts::number(Some(leader.run), leader.attempts), leader.checkpoints.clone());
        let newest = checkpoints.list().expect("a store in memory").into_iter().next();
        let newest = newest.map(|listed| listed.manifest.expect("it is whole"));
        checkpoints.go_on_from(newest.as_ref().map_or(0, |newest| newest.checkpoint)).expect("a store in memory");
        let (base, restored) = newest.as_ref().map_or((0, None), |newest| (newest.checkpoint, Some(restored(newest))));
        // Of a process that has been superseded nothing follows: the nodes refuse to begin.
        if attempt > self.ledger.newest {
            self.attempts += 1;
            self.last_progress = self.now;
            self.ledger.resumes(attempt, newest.as_ref().map(attempt_of));
        }
        if newest.is_some_and(|newest| newest.is_finished) {
            self.is_done = true;
            return;
        }
        let processes: Vec<usize> = std::iter::once(process).chain(nodes).collect();
        // What nobody is in any more is forgotten.
        let used: Vec<u64> = self.processes.iter().filter_map(|process| process.attempt).collect();
        let oldest = used.iter().copied().min().unwrap_or(0);
        self.meshes.retain(|&attempt, _| attempt >= oldest);
        let others = processes[1..].to_vec();
        let order = Order { base, restored, agreed: Rc::default() };
        self.meshes.insert(attempt, (Mesh { processes, ..Mesh::default() }, order));
        for node in others {
            let latency = self.latency();
            self.at(latency, node, Event::Begin(attempt));
        }
        // It takes part itself when the others have answered.
        self.at(self.config.delays.latency + Duration::from_millis(3), process, Event::Begin(attempt));
    }

    fn begin(&mut self, process: usize, attempt: u64) {
        if self.processes[process].is_dead {
            return;
        }
        let ours = self.processes[process].attempt.map(|ours| precedence((JOB, attempt), (JOB, ours)));
        let (mesh, order) = &self.meshes[&attempt];
        if ours.is_some_and(|ours| ours != Precedence::Newer) {
            self.refused += 1;
            let (first, latency) = (mesh.processes[0], self.latency());
            return self.at(latency, first, Event::Refused(attempt));
        }
        let me = mesh.processes.iter().position(|&of| of == process).expect("it was told to begin");
        let count = mesh.processes.len();
        let splits = match &order.restored {
            Some((splits, _)) => splits.clone(),
            None => (0..self.config.units.len())
                .map(|number| SplitAt { number, position: 0, watermark: i64::MIN })
                .collect(),
        };
        let place = Place {
            attempt,
            me,
            count,
            base: order.base,
            splits: splits.into_iter().filter(|split| split.number % count == me).collect(),
            restored: order.restored.as_ref().map(|(_, watermarks)| watermarks.clone()),
            slowness: self.slowness(process),
        };
        let agreed = Rc::clone(&order.agreed);
        let is_broken = mesh.is_broken;
        let member = Member::begin(place, &self.config, &agreed, (self.start, self.now));
        let left =
            self.processes[process].attempt.and_then(|left| Some((left, self.meshes.get(&left)?.0.processes.clone())));
        if let Some((left, processes)) = left {
            // Its connections are closed: who is still in that attempt sees it.
            for other in processes {
                let is_in = |member: &Member| member.attempt == left && !member.is_over;
                if other != process && self.processes[other].member.as_ref().is_some_and(is_in) {
                    let latency = self.latency();
                    self.at(latency, other, Event::Lost(left));
                }
            }
        }
        let of = &mut self.processes[process];
        (of.member, of.attempt) = (Some(member), Some(attempt));
        self.with_member(process, attempt, |_, _| {});
        if is_broken {
            // One has died before this one began: nobody answers there.
            let latency = self.latency();
            self.at(latency, process, Event::Lost(attempt));
        }
    }

    /// The nodes of the attempts that a process is in find it gone.
    fn lose(&mut self, process: usize, after: Duration) {
        let of: Vec<(u64, Vec<usize>)> = self
            .meshes
            .iter()
            .filter(|(_, (mesh, _))| mesh.processes.contains(&process))
            .map(|(attempt, (mesh, _))| (*attempt, mesh.processes.clone()))
            .collect();
        for (attempt, processes) in of {
            for other in processes.into_iter().filter(|&other| other != process) {
                let latency = self.latency();
                self.at(after + latency, other, Event::Lost(attempt));
            }
        }
        if process == self.leader && !self.is_done {
            self.at(after + BACKOFF, process, Event::TakeOver);
        }
    }

    fn die(&mut self, process: usize) {
        if self.processes[process].is_dead {
            return;
        }
        self.lose(process, Duration::ZERO);
        let of_it = self.meshes.values_mut().filter(|(mesh, _)| mesh.processes.contains(&process));
        of_it.for_each(|(mesh, _)| mesh.is_broken = true);
        let of = &mut self.processes[process];
        of.life += 1;
        (of.is_dead, of.is_paused, of.member, of.attempt) = (true, false, None, None);
        of.backlog.clear();
        let back = Duration::from_millis(5 + self.random.below(80));
        if process < self.config.nodes - 1 {
            self.at(back, process, Event::Return);
        }
    }

    fn disturb_later(&mut self) {
        if self.disturbances > 0 && !self.is_done {
            self.disturbances -= 1;
            let after = Duration::from_micros(self.random.below(self.config.gap.as_micros() as u64));
            self.at(after, 0, Event::Disturb);
        }
    }

    /// Something bad happens to somebody.
    fn disturb(&mut self) {
        self.last_progress = self.now;
        let (what, node) = (self.random.below(10), self.random.below(self.config.nodes as u64 - 1) as usize);
        let (short, long) = (Duration::from_millis(20), Duration::from_millis(100 + self.random.below(200)));
        match what {
            0..=3 => self.happen(node, Event::Die),
            4 => self.happen(self.leader, Event::Die),
            5 => self.happen(node, Event::Pause(short)),
            6 | 7 => self.happen(node, Event::Pause(long)),
            8 => self.happen(self.leader, Event::Pause(short)),
            _ => self.happen(self.leader, Event::Pause(long)),
        }
        self.disturb_later();
    }
}

/// What the manifest of a checkpoint says.
fn manifest((attempt, number): (u64, u64), stored: &[Stored], watermarks: &[i64], is_finished: bool) -> Manifest {
    let split = |split: &SplitAt| SplitState {
        name: split.number.to_string(),
        number: split.number as u32,
        at: Some(split.position),
        watermark: split.watermark,
        ..SplitState::default()
    };
    let mut splits: Vec<SplitState> = stored.iter().flat_map(|stored| stored.splits.iter().map(split)).collect();
    splits.sort_by_key(|split| split.number);
    let sources = vec![SourceState { table: "t".into(), number: 0, splits }];
    let shape = serde_json::json!({ "attempt": attempt, "watermarks": watermarks });
    let format = millstream_storage::FORMAT;
    Manifest { format, checkpoint: number, job: JOB.into(), is_finished, sources, shape, ..Manifest::default() }
}

fn attempt_of(manifest: &Manifest) -> (u64, u64) {
    (manifest.shape["attempt"].as_u64().expect("a number"), manifest.checkpoint)
}

fn restored(manifest: &Manifest) -> (Vec<SplitAt>, Vec<i64>) {
    let watermarks = manifest.shape["watermarks"].as_array().expect("a list");
    let split = |split: &SplitState| SplitAt {
        number: split.number as usize,
        position: split.at.unwrap_or(0),
        watermark: split.watermark,
    };
    let splits = manifest.sources[0].splits.iter().map(split).collect();
    (splits, watermarks.iter().map(|watermark| watermark.as_i64().expect("a number")).collect())
}
