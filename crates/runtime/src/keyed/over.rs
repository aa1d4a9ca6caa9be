//! OVER: aggregates of each row and rows before it.
//!
//! With event time, rows wait until the watermark reaches their time (`over_order`); without, they are processed in merged order
//! at once. Each row (with RANGE, all rows of the same time, which are *peers*) gets a slot
//! that the compiled program updates, for a whole batch at a time. After that the slots of a key are gone through in
//! order: without a bound each is merged with the one before; with a bound they go through two stacks.

use super::batch::Batch;
use super::encoding::restore_optional;
use super::fifo::{Element, Fifo};
use super::groups::Groups;
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::over_order::{ReadyRows, WaitingRanks};
use super::slots::SlotTable;
use super::state::{State, Work};
use super::store::Doubling;
use crate::executable_plan::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{self, KeyedOperator};
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;

/// See the module.
pub(crate) struct Over {
    frame: Frame,
    waiting: Option<WaitingRanks>,
    groups: Groups,
    table: SlotTable,
    /// By group.
    keys: Vec<Key>,
    /// Rows processed: their order for aggregates that depend on it.
    processed: u64,
    doubling: Doubling,
    /// Bytes of the frames of keys when they were measured, and rows processed by then.
    frames: (usize, u64),
}

#[derive(Default)]
struct Key {
    /// Without a bound: the slot of the last row.
    running: Option<i64>,
    /// With a bound: the rows that count.
    last: Fifo,
    /// The last peers of the batch: their number among the elements.
    peers: Option<usize>,
}

/// A row, or peers; or that the frame of a key ends.
struct FrameStep {
    group: usize,
    /// `None`: the frame ends.
    element: Option<Element>,
    /// The slot of the result.
    result: i64,
}

impl Over {
    /// No rows.
    pub(crate) fn new(plan: &KeyedOperator, over: &pipeline::Over, code: &OperatorCode) -> Result<Over, Diagnostic> {
        Ok(Over {
            frame: over.frame,
            waiting: WaitingRanks::new(&plan.inputs[0], over.frame),
            groups: Groups::new(plan, code)?,
            table: SlotTable::new(&over.aggregates, code)?,
            keys: Vec::new(),
            processed: 0,
            doubling: Doubling::default(),
            frames: (0, 0),
        })
    }

    /// Outputs rows with their aggregates.
    fn process(&mut self, ready: ReadyRows, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        self.keys.resize_with(self.groups.table.len(), Key::default);
        let rows = ready.batch.rows();
        if rows == 0 && ready.ended.is_empty() {
            return Ok(());
        }
        let watermarks = ready.watermarks();
        let (mut steps, step_of) = self.steps(&ready);
        let slots = step_of.iter().map(|&s| steps[s].result).collect();
        let next = self.processed;
        self.processed += rows as u64;
        let in_order = |position| Ordinal { watermark: 0, input: 0, split: 0, position, pipeline: 0 };
        let ordinals: Vec<Ordinal> = (next..self.processed).map(in_order).collect();
        self.table.update(&ready.batch.columns, slots, (&ordinals, &[]), work)?;
        let mut retired = Vec::new();
        for step in &mut steps {
            self.keys[step.group].peers = None;
            self.step(step, &mut retired);
        }
        let results: Vec<i64> = step_of.iter().map(|&s| steps[s].result).collect();
        let mut columns = ready.batch.columns;
        columns.extend(self.table.columns(&results));
        retired.into_iter().for_each(|slot| self.table.slots.remove(slot));
        work.emit_behind(columns, watermarks);
        Ok(())
    }

    /// The steps in order, and which is that of each row.
    fn steps(&mut self, ready: &ReadyRows) -> (Vec<FrameStep>, Vec<usize>) {
        let has_peers = matches!(self.frame, Frame::Range(_)) && !ready.times.is_empty();
        let mut steps: Vec<FrameStep> = Vec::with_capacity(ready.groups.len() + ready.ended.len());
        let mut step_of = Vec::with_capacity(ready.groups.len());
        let mut ended = ready.ended.iter().peekable();
        for row in 0..=ready.groups.len() {
            while let Some(&(_, group)) = ended.next_if(|(before, _)| *before == row) {
                self.keys[group as usize].peers = None;
                steps.push(FrameStep { group: group as usize, element: None, result: 0 });
            }
            let Some(&group) = ready.groups.get(row) else { break };
            let group = group as usize;
            let time = ready.times.get(row).copied().unwrap_or(0);
            let key = &mut self.keys[group];
            let is_peer = |&p: &usize| has_peers && steps[p].element.is_some_and(|peers| peers.first == time);
            let peers = key.peers.filter(is_peer);
            step_of.push(peers.unwrap_or_else(|| {
                let slot = self.table.slots.allocate();
                steps.push(FrameStep { group, element: Some(Element { slot, first: time, last: time }), result: slot });
                key.peers = Some(steps.len() - 1);
                steps.len() - 1
            }));
        }
        (steps, step_of)
    }

    /// Computes the result of a row; what is in `retired` is not needed after the output.
    fn step(&mut self, step: &mut FrameStep, retired: &mut Vec<i64>) {
        let (key, slots) = (&mut self.keys[step.group], &mut self.table.slots);
        let Some(element) = step.element else { return key.last.clear(slots) };
        let time = element.first;
        match self.frame {
            Frame::Rows(None) | Frame::Range(None) => {
                if let Some(before) = key.running.replace(element.slot) {
                    slots.merge_into(element.slot, before);
                    retired.push(before);
                }
                return;
            }
            Frame::Rows(Some(preceding)) => {
                key.last.push(element, slots);
                while key.last.len() as u64 > preceding.saturating_add(1) {
                    key.last.pop(slots);
                }
            }
            Frame::Range(Some(ms)) => {
                key.last.push(element, slots);
                while key.last.oldest().is_some_and(|oldest| oldest < time.saturating_sub(ms)) {
                    key.last.pop(slots);
                }
            }
        }
        if let Some(all) = key.last.query(slots) {
            step.result = all.slot;
            retired.push(all.slot);
        }
    }

    /// Keys have been read or taken over.
    fn measure(&mut self) {
        self.frames = (self.keys.iter().map(|key| key.last.bytes()).sum(), self.processed);
        self.doubling.done(self.keys.len());
    }

    /// Forgets keys whose frames have ended, when there are many.
    fn forget(&mut self, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.keys.len(), work.is_tight) {
            return Ok(());
        }
        let Some((waiting, living)) = self.waiting.as_mut().and_then(|w| w.living().map(|living| (w, living))) else {
            return Ok(());
        };
        waiting.renumber(&living);
        let mut keys = std::mem::take(&mut self.keys);
        self.keys = living.iter().map(|&group| std::mem::take(&mut keys[group as usize])).collect();
        keys.iter_mut().for_each(|key| key.last.clear(&mut self.table.slots));
        self.groups.keep(&living, work)?;
        self.doubling.done(living.len());
        Ok(())
    }
}

impl State for Over {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for batch in inputs {
            let groups = self.groups.assign(0, &batch.columns, batch.rows(), work)?;
            let ready = match &mut self.waiting {
                Some(waiting) => waiting.exchange(batch, (&groups, self.groups.table.len()), watermark, work)?,
                None => ReadyRows { batch, groups, ..ReadyRows::default() },
            };
            self.process(ready, work)?;
        }
        if watermark == i64::MAX { Ok(()) } else { self.forget(work) }
    }

    fn due(&self) -> i64 {
        self.waiting.as_ref().map_or(i64::MAX, |waiting| waiting.rows.due())
    }

    fn bytes(&mut self) -> usize {
        if self.processed - self.frames.1 > self.keys.len() as u64 {
            self.frames = (self.keys.iter().map(|key| key.last.bytes()).sum(), self.processed);
        }
        let waiting = self.waiting.as_ref().map_or(0, WaitingRanks::bytes);
        let keys = self.keys.capacity() * size_of::<Key>() + self.frames.0;
        self.groups.table.bytes() + self.table.bytes() + keys + waiting
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        if let Some(waiting) = &self.waiting {
            waiting.save(out)?;
        }
        self.table.slots.save(out);
        out.u64(self.processed);
        for key in &self.keys {
            out.i64s(key.running.as_slice());
            key.last.save(out);
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        if let Some(waiting) = &mut self.waiting {
            waiting.restore(self.groups.table.len(), from)?;
        }
        self.table.restore(from)?;
        self.processed = from.u64()?;
        if self.processed > i64::MAX as u64 {
            return Err(Damaged(format!("{} rows cannot have been processed", self.processed)).into());
        }
        for _ in 0..self.groups.table.len() {
            let (running, last) = (restore_optional("sums", from)?, Fifo::restore(from)?);
            self.keys.push(Key { running, last, peers: None });
        }
        self.measure();
        Ok(self.table.check_owned(self.keys.iter().flat_map(|key| key.last.slots().chain(key.running)))?)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let (other, first) = (of_same_operator::<Over>(other)?, self.groups.table.len());
        let taken = self.groups.absorb(&other.groups, share)?;
        if let (Some(waiting), Some(others)) = (&mut self.waiting, &other.waiting) {
            let numbers = NewNumbers::of_groups(&taken, other.groups.table.len(), first);
            waiting.absorb(others, &taken, &numbers)?;
        }
        let keys: Vec<Key> = taken.iter().map(|&group| std::mem::take(&mut other.keys[group as usize])).collect();
        let slots: Vec<i64> = keys.iter().flat_map(|key| key.last.slots().chain(key.running)).collect();
        let slots = self.table.absorb(&other.table, &slots)?;
        let moved = |key: Key| Key {
            running: key.running.map(|slot| slots[&slot]),
            last: key.last.with_slots(&slots),
            peers: None,
        };
        self.keys.extend(keys.into_iter().map(moved));
        // What comes from now on is behind the rows of all keys.
        self.processed = self.processed.max(other.processed);
        self.measure();
        Ok(())
    }
}
