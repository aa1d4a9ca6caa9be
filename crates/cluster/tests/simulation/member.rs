//! A node in an attempt. What it decides is decided by the engine's own state machines (`millstream_runtime::protocol`); around them is what threads,
//! sources and stations do there, as events.

use crate::messages::{Message, SplitAt, Stored};
use crate::stage::{Agreed, Settled, Stage};
use crate::{Config, Random};
use millstream_runtime::protocol::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What a node does by itself, later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own {
    /// The reader of a split takes the next unit.
    Read(usize),
    /// What a split has brought next is processed.
    Process(usize),
    /// A split that was idle speaks again.
    Speak(usize),
    /// The next release of a stage's output comes where it is read.
    Output(usize),
    /// A mark of a stage has waited long enough.
    Linger(usize),
    /// The first node looks whether a checkpoint is due.
    Look,
    /// A cut is wanted that belongs to no checkpoint.
    CutTables,
    /// The files of a node are written.
    Store,
    /// The first node writes the manifest.
    Write,
    /// It makes visible what the manifest names.
    Commit,
    /// The last manifest.
    WriteLast,
}

/// What follows for others.
pub enum Effect {
    Send(usize, Message, Option<u64>),
    After(Duration, Own),
    /// A message with a credit has been consumed.
    Consumed(usize, u64),
    /// Its span for a checkpoint is committed.
    Commits(u64),
    /// Its run has ended by an error.
    Failed,
}

/// What a split has brought.
enum Item {
    /// Rows of a generation, behind a watermark; the watermark behind them.
    Unit {
        generation: u32,
        before: i64,
        after: i64,
    },
    Cut {
        generation: u32,
        cut: i64,
    },
    End,
}

struct Split {
    number: usize,
    position: u64,
    watermark: i64,
    generation: u32,
    cut: i64,
    pending: VecDeque<Item>,
    has_ended: bool,
}

pub struct Member {
    pub attempt: u64,
    pub me: usize,
    count: usize,
    config: Rc<Config>,
    /// When the virtual time began.
    start: Instant,
    now: Duration,
    base: u64,
    cuts: Cuts,
    tables: TableGenerations,
    pub schedule: CheckpointSchedule,
    next_look: Option<Duration>,
    turn: InTurn<(Message, u64)>,
    pub stages: Vec<Stage>,
    sink: Progress,
    is_written: bool,
    splits: Vec<Split>,
    collecting: Option<Collecting<Stored>>,
    /// How far it had read at the last checkpoint.
    at_cut: Stored,
    /// The generation that began there.
    cut_at: Generation,
    /// The checkpoint that it writes, with what others have stored.
    writing: Option<(u64, BTreeMap<usize, Stored>)>,
    uncommitted: Uncommitted<()>,
    ending: Ending<Stored>,
    is_ending: bool,
    pub is_over: bool,
    /// What waits in its lanes, in bytes.
    pub unsent: u64,
    /// What it does takes so many times as long.
    slowness: u64,
    random: Random,
    pub effects: Vec<Effect>,
}

/// Where a member begins.
pub struct Place {
    pub attempt: u64,
    pub me: usize,
    pub count: usize,
    pub base: u64,
    /// Splits that it reads.
    pub splits: Vec<SplitAt>,
    /// Of the checkpoint that it resumes from: the watermark that each stage had come to.
    pub restored: Option<Vec<i64>>,
    pub slowness: u64,
}

/// From one cut for tables to the next. The slow node can follow: the first one does not wait for a node that reads nothing.
const CUTS: Duration = Duration::from_millis(8);
/// Readers wait while more than this is unsent on their node.
const UNSENT: u64 = 4 << 10;

impl Member {
    pub fn begin(
        place: Place,
        config: &Rc<Config>,
        agreed: &Rc<RefCell<Agreed>>,
        (start, now): (Instant, Duration),
    ) -> Member {
        let Place { attempt, me, count, base, splits, restored, slowness } = place;
        let reached = |stage: usize| restored.as_ref().map_or(i64::MIN, |stages| stages[stage]);
        let split = |SplitAt { number, position, watermark }: SplitAt| Split {
            number,
            position,
            // One that was silent comes after what was decided without it.
            watermark: watermark.max(reached(0)),
            generation: 0,
            cut: i64::MIN,
            pending: VecDeque::new(),
            has_ended: false,
        };
        let splits: Vec<Split> = splits.into_iter().map(split).collect();
        let owners = config.owners.min(count);
        let stage = |number| {
            let channels = if number == 0 { splits.len() } else { usize::from(me < owners) };
            Stage::new((number, channels), (me, count, owners), reached(number), agreed)
        };
        let stages = (0..config.stages).map(stage).collect();
        let interval = (me == 0).then_some(config.interval);
        let mut member = Member {
            attempt,
            me,
            count,
            config: Rc::clone(config),
            start,
            now,
            base,
            cuts: Cuts::new(0),
            tables: TableGenerations::default(),
            schedule: CheckpointSchedule::new(interval, restored.as_ref().map(|_| base), start + now),
            next_look: None,
            turn: InTurn::default(),
            stages,
            sink: Progress::new(1),
            is_written: false,
            splits,
            collecting: None,
            at_cut: Stored { attempt, splits: vec![] },
            cut_at: Generation::default(),
            writing: None,
            uncommitted: Uncommitted::default(),
            ending: Ending::of_others(count - 1),
            is_ending: false,
            is_over: false,
            unsent: 0,
            slowness,
            random: Random::new(config.delays.seed ^ attempt << 20 ^ me as u64),
            effects: vec![],
        };
        (0..member.splits.len()).for_each(|split| member.later(Own::Read(split)));
        (0..member.stages.len()).for_each(|stage| member.settle(stage));
        member.look();
        if config.cuts_tables && (me == 0 || me == count / 2) {
            member.later(Own::CutTables);
        }
        member
    }

    fn is_first(&self) -> bool {
        self.me == 0
    }

    fn instant(&self) -> Instant {
        self.start + self.now
    }

    /// A while that a step takes.
    fn while_(&mut self) -> Duration {
        Duration::from_micros((20 + self.random.below(400)) * self.slowness)
    }

    fn later(&mut self, own: Own) {
        let delay = self.while_();
        self.effects.push(Effect::After(delay, own));
    }

    fn send(&mut self, to: usize, message: Message) {
        self.effects.push(Effect::Send(to, message, None));
    }

    fn tell_others(&mut self, message: Message) {
        (1..self.count).for_each(|node| self.send(node, message.clone()));
    }

    /// The run ends by an error, and the others are told.
    pub fn fail(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            match self.is_first() {
                true => self.tell_others(Message::Ended),
                false => self.send(0, Message::Ended),
            }
            self.effects.push(Effect::Failed);
        }
    }

    /// Does what was to be done later.
    pub fn act(&mut self, own: Own, now: Duration) {
        self.now = now;
        match own {
            Own::Read(split) => self.read(split),
            Own::Process(split) => self.process(split),
            Own::Speak(split) => {
                let watermark = &mut self.splits[split].watermark;
                let progress = &mut self.stages[0].inputs.progress;
                progress.set_idle(Port::new(split), false);
                // What it brings comes after what was decided without it.
                *watermark = (*watermark).max(progress.watermark());
                self.settle(0);
                self.later(Own::Read(split));
            }
            Own::Output(stage) => {
                let Some(release) = self.stages[stage].output.pop_front() else { return };
                if stage + 1 < self.stages.len() {
                    // A node that owns nothing of a stage has nothing for the next.
                    if self.stages[stage].owner.is_some() {
                        self.stages[stage + 1].inputs.progress.release(Port::new(0), release);
                        self.settle(stage + 1);
                    }
                } else {
                    self.sink.release(Port::new(0), release);
                    self.settle_sink();
                }
            }
            Own::Linger(stage) => self.settle(stage),
            // Later than it was to be, if the process was paused.
            Own::Look if self.next_look.is_some_and(|at| at <= now) => self.look(),
            Own::Look => {}
            Own::CutTables => self.want_cut(),
            Own::Store => {
                let Some((number, _)) = self.writing.take() else { return };
                self.uncommitted.store(number, ());
                let stored = self.at_cut.clone();
                self.send(0, Message::Stored { number, stored });
            }
            Own::Write | Own::Commit | Own::WriteLast => unreachable!("they need the store"),
        }
    }

    /// Has a cut made for tables alone, again and again.
    fn want_cut(&mut self) {
        if self.is_written {
            return;
        }
        match self.is_first() {
            true => self.cut_tables(),
            false => self.send(0, Message::AskCut),
        }
        let after = CUTS + self.while_();
        self.effects.push(Effect::After(after, Own::CutTables));
    }

    /// The first node makes a cut for tables, if it can.
    fn cut_tables(&mut self) {
        if !self.is_written {
            self.cut(Purpose::Tables);
        }
    }

    /// The reader of a split takes a unit, or waits.
    fn read(&mut self, split: usize) {
        if self.unsent > UNSENT {
            self.effects.push(Effect::After(Duration::from_millis(1), Own::Read(split)));
            return;
        }
        let (step, idles, after) = (self.random.below(100), self.random.below(100), self.random.below(30));
        let Split { number, position, watermark, generation, pending, .. } = &mut self.splits[split];
        if *position == self.config.units[*number] {
            pending.push_back(Item::End);
            return self.later(Own::Process(split));
        }
        if idles < self.config.idles && pending.is_empty() {
            self.stages[0].inputs.progress.set_idle(Port::new(split), true);
            self.settle(0);
            return self.effects.push(Effect::After(Duration::from_millis(5 + after), Own::Speak(split)));
        }
        let before = *watermark;
        (*position, *watermark) = (*position + 1, (*watermark).max(0) + step as i64);
        pending.push_back(Item::Unit { generation: *generation, before, after: *watermark });
        self.later(Own::Process(split));
        let pause = Duration::from_micros((self.config.pace / 2 + self.random.below(self.config.pace)) * self.slowness);
        self.effects.push(Effect::After(pause, Own::Read(split)));
    }

    /// The next that a split has brought goes to the first stage.
    fn process(&mut self, split: usize) {
        let Some(item) = self.splits[split].pending.pop_front() else { return };
        let Split { generation, cut, has_ended, .. } = &mut self.splits[split];
        let passed = self.stages[0].passed[split];
        let release = match item {
            Item::Unit { generation, before, after } => {
                for _ in 0..1 + self.random.below(2) {
                    let time = before.max(0) + 1 + self.random.below(200) as i64;
                    self.send_row(0, generation, time);
                }
                Release { watermark: after, generation: passed.0, cut: passed.1, ended: false }
            }
            Item::Cut { generation, cut } => {
                self.stages[0].passed[split] = (generation, cut);
                Release { watermark: cut, generation, cut, ended: false }
            }
            Item::End => {
                *has_ended = true;
                Release { watermark: i64::MAX, generation: *generation, cut: *cut, ended: true }
            }
        };
        self.stages[0].inputs.progress.release(Port::new(split), release);
        self.settle(0);
    }

    /// A row goes to one of the owners of a stage.
    fn send_row(&mut self, stage: usize, generation: u32, time: i64) {
        let to = self.random.below(self.config.owners.min(self.count) as u64) as usize;
        self.stages[stage].agreed.borrow_mut().sends(stage, to, generation);
        if to == self.me {
            return self.stages[stage].take(generation, time);
        }
        let message = Message::Rows { stage, generation, time, said: self.stages[stage].said };
        let cost = 65 + self.random.below(self.config.largest - 65);
        self.effects.push(Effect::Send(to, message, Some(cost)));
    }

    /// Acts on what the inputs of a stage have come to.
    fn settle(&mut self, stage: usize) {
        let instant = self.instant();
        let Settled { marks, rows, releases, passed } = self.stages[stage].settle(instant);
        let (me, owners) = (self.me, self.config.owners.min(self.count));
        for mark in marks {
            for to in (0..owners).filter(|&to| to != me) {
                self.send(to, Message::Mark { stage, mark });
            }
        }
        if stage + 1 < self.stages.len() {
            rows.into_iter().for_each(|(generation, time)| self.send_row(stage + 1, generation, time));
        }
        (0..releases).for_each(|_| self.later(Own::Output(stage)));
        let of = &mut self.stages[stage];
        if let Some(due) = of.inputs.linger.due().filter(|&due| of.looks_at != Some(due)) {
            of.looks_at = Some(due);
            self.effects.push(Effect::After(due.saturating_duration_since(instant), Own::Linger(stage)));
        }
        passed.into_iter().for_each(|generation| self.station_passed(generation));
    }

    fn settle_sink(&mut self) {
        let mut passed = vec![];
        while let Some(forward) = self.sink.advance() {
            passed.extend(self.sink.reached_cut());
            if forward.end.is_some() {
                self.is_written = true;
            }
        }
        passed.into_iter().for_each(|generation| self.station_passed(generation));
        if self.is_written && !self.is_first() {
            if !std::mem::replace(&mut self.is_ending, true) {
                self.send(0, Message::AllWritten);
            }
        } else {
            self.finish_if_written();
        }
    }

    /// The cut to a generation has passed a station, which hands its part over if it is that of a checkpoint.
    fn station_passed(&mut self, generation: Generation) {
        if self.schedule.before(generation).is_some() {
            self.collecting.as_mut().expect("it is collected until all has come").station();
        }
        if self.cuts.reached(1)
            && let Some((Message::Cut { generation, purpose }, _)) = self.turn.postponed()
        {
            self.follow(generation, purpose);
        }
        self.complete_if_all();
    }

    /// Begins a generation; which, if there is no cut on its way.
    fn cut(&mut self, purpose: Purpose) -> Option<Generation> {
        let (generation, cut) = self.cuts.begin(purpose == Purpose::Checkpoint)?;
        let tables = self.tables.begin(generation);
        let number = (purpose == Purpose::Checkpoint).then(|| self.base + u64::from(tables.0));
        if let Some(number) = number {
            self.schedule.begin(generation, number, self.start + self.now);
        }
        let mut parts = 0;
        for stage in &mut self.stages {
            if stage.await_cut(generation) {
                cut.awaits();
                parts += 1;
            }
        }
        if self.sink.await_cut(generation) {
            cut.awaits();
            parts += 1;
        }
        drop(cut);
        if self.is_first() {
            self.tell_others(Message::Cut { generation, purpose });
        }
        if let Some(number) = number {
            let others = if self.is_first() { self.count - 1 } else { 0 };
            let mut collecting = Collecting::new(number, others);
            collecting.begun(parts);
            assert!(self.collecting.replace(collecting).is_none(), "one checkpoint at a time is under way");
            (self.at_cut, self.cut_at) = (self.stored(), generation);
        }
        for number in 0..self.splits.len() {
            let split = &mut self.splits[number];
            if !split.has_ended {
                (split.generation, split.cut) = (generation.0, split.watermark);
                // In front of the end, if that has been read.
                let item = Item::Cut { generation: generation.0, cut: split.watermark };
                match split.pending.back() {
                    Some(Item::End) => {
                        let end = split.pending.pop_back();
                        split.pending.push_back(item);
                        split.pending.extend(end);
                    }
                    _ => split.pending.push_back(item),
                }
                self.later(Own::Process(number));
            }
        }
        self.complete_if_all();
        Some(generation)
    }

    /// Makes the cut that the first node has made, or has it wait for the one before.
    fn follow(&mut self, generation: Generation, purpose: Purpose) {
        match self.cut(purpose) {
            Some(made) => assert_eq!(made, generation, "nodes count their cuts alike"),
            None => return self.turn.postpone((Message::Cut { generation, purpose }, 0)),
        }
        for (from, kind, (message, cost)) in self.turn.release() {
            self.admit(from, kind, message, cost);
        }
    }

    /// The first node looks whether a checkpoint is due.
    fn look(&mut self) {
        self.next_look = None;
        if !self.is_first() || self.is_written || self.is_over {
            return;
        }
        let (instant, asked) = (self.instant(), (0, false));
        let at = match self.schedule.due(instant, asked).expect("nobody asks for the last checkpoint") {
            CheckpointDue::Later(at) => at,
            CheckpointDue::Now if self.cut(Purpose::Checkpoint).is_none() => self.schedule.postponed(instant),
            CheckpointDue::Now => self.schedule.made(instant, asked),
        };
        if let Some(at) = at {
            let after = at.saturating_duration_since(instant);
            self.next_look = Some(self.now + after);
            self.effects.push(Effect::After(after, Own::Look));
        }
    }

    fn complete_if_all(&mut self) {
        if let Some(collecting) = self.collecting.take_if(|collecting| collecting.is_complete()) {
            let number = collecting.number();
            self.writing = Some((number, collecting.into_others()));
            self.later(if self.is_first() { Own::Write } else { Own::Store });
        }
    }

    /// The checkpoint that the first node writes: its number, and what all nodes have stored.
    pub fn written(&self) -> Option<(u64, Vec<Stored>)> {
        let (number, others) = self.writing.as_ref()?;
        Some((*number, std::iter::once(&self.at_cut).chain(others.values()).cloned().collect()))
    }

    /// The watermark that each stage had come to at the last cut of a checkpoint.
    pub fn watermarks(&self) -> Vec<i64> {
        self.stages.iter().map(|stage| stage.cut_at(self.cut_at)).collect()
    }

    /// The last checkpoint.
    pub fn last(&mut self) -> (u64, Vec<Stored>) {
        let number = self.base + u64::from(self.tables.next().0);
        let own = self.stored();
        (number, std::iter::once(own).chain(self.ending.take().into_values()).collect())
    }

    /// How far it has read.
    fn stored(&self) -> Stored {
        let split =
            |split: &Split| SplitAt { number: split.number, position: split.position, watermark: split.watermark };
        Stored { attempt: self.attempt, splits: self.splits.iter().map(split).collect() }
    }

    /// The first node has written the manifest.
    pub fn has_written(&mut self) {
        self.later(Own::Commit);
    }

    /// It has made its own spans visible; its number.
    pub fn has_committed(&mut self, now: Duration) {
        self.now = now;
        let Some((number, _)) = self.writing.take() else { return };
        // Before the next one can begin: the others must not hear of its cut first.
        self.tell_others(Message::Completed(number));
        self.schedule.complete(number);
        self.look();
        self.finish_if_written();
    }

    /// The first node has the others end when all rows are written, and no checkpoint is under way.
    fn finish_if_written(&mut self) {
        let may_finish = self.is_written && self.ending.have_all_written() && self.schedule.under_way().is_none();
        if self.is_first() && may_finish && !self.is_ending {
            self.is_ending = true;
            self.tell_others(Message::Finish);
            self.end_if_finished();
        }
    }

    fn end_if_finished(&mut self) {
        if self.is_ending && self.ending.have_finished() {
            self.later(Own::WriteLast);
        }
    }

    /// Takes a message of another node.
    pub fn receive(&mut self, from: usize, message: Message, cost: u64, now: Duration) {
        self.now = now;
        self.admit(from, message.kind(), message, cost);
    }

    fn admit(&mut self, from: usize, kind: MessageKind, message: Message, cost: u64) {
        let Some((message, cost)) = self.turn.admit(from, kind, self.cuts.last(), (message, cost)) else { return };
        if cost > 0 {
            self.effects.push(Effect::Consumed(from, cost));
        }
        match message {
            Message::Rows { stage, generation, time, said } => {
                self.stages[stage].check_place(from, said);
                self.stages[stage].take(generation, time);
            }
            Message::Mark { stage, mark } => {
                assert!(mark.release.generation <= self.cuts.last().0, "a mark comes before the cut was made here");
                self.stages[stage].hear(from, mark);
                self.settle(stage);
            }
            Message::Cut { generation, purpose } => self.follow(generation, purpose),
            Message::AskCut => self.cut_tables(),
            Message::Stored { number, stored } => {
                let collecting = self.collecting.as_mut().filter(|collecting| collecting.number() == number);
                collecting.expect("nodes store what the first one has begun").of_node(from, stored);
                self.complete_if_all();
            }
            Message::Completed(number) => {
                self.schedule.complete(number);
                if self.uncommitted.completed(number).is_some() {
                    self.effects.push(Effect::Commits(number));
                }
            }
            Message::AllWritten => {
                let is_told = self.ending.has_all_written(from);
                assert!(!is_told, "nobody is replaced here");
                self.finish_if_written();
            }
            Message::Finish => {
                let stored = self.stored();
                self.send(0, Message::Finished(stored));
                self.is_over = true;
            }
            Message::Finished(stored) => {
                self.ending.has_finished(from, stored);
                self.end_if_finished();
            }
            Message::Ended => self.fail(),
        }
    }
}
