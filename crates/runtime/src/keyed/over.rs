//! OVER: aggregates of each row and rows before it.
//!
//! With event time, rows wait until the watermark reaches their time and are processed in order of time, then in merged
//! order; without, in merged order at once. Each row (with RANGE, all rows of the same time, which are *peers*) gets a slot
//! that the compiled program updates, for a whole batch at a time. After that the slots of a key are gone through in
//! order: without a bound each is merged with the one before; with a bound they go through two stacks.

use super::batch::{Batch, times_of};
use super::encoding::check_count;
use super::fifo::{Element, Fifo};
use super::groups::Groups;
use super::slots::SlotTable;
use super::store::{Doubling, RowStore};
use super::{State, Work};
use crate::input::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{KeyedOperator, SlotAggregates};
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the file's description.
pub(crate) struct Over {
    frame: Frame,
    /// Of rows.
    schema: Schema,
    waiting: Option<Waiting>,
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

/// Rows whose time the watermark has not reached.
struct Waiting {
    /// Position of the time.
    time: usize,
    rows: RowStore,
    order: BinaryHeap<Reverse<(i64, Ordinal, u32)>>,
    doubling: Doubling,
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

/// A row, or peers.
struct Step {
    group: usize,
    element: Element,
    /// The slot of the result.
    result: i64,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.rows.bytes() + self.order.capacity() * size_of::<Reverse<(i64, Ordinal, u32)>>()
    }

    fn add(&mut self, batch: Batch) -> Result<(), Diagnostic> {
        let rows = batch.rows();
        if rows > 0 {
            let times = times_of(&batch.columns[self.time])?;
            let first = self.rows.push(batch.columns, rows)?;
            let places = times.iter().zip(batch.ordinals).zip(first..);
            self.order.extend(places.map(|((&time, ordinal), row)| Reverse((time, ordinal, row))));
        }
        Ok(())
    }

    /// Those that wait, in the order of their numbers.
    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let mut waiting: Vec<(u32, Ordinal)> = self.order.iter().map(|&Reverse((_, o, row))| (row, o)).collect();
        waiting.sort_unstable_by_key(|&(row, _)| row);
        let (numbers, ordinals): (Vec<u32>, Vec<Ordinal>) = waiting.into_iter().unzip();
        Batch { columns: self.rows.gather(&numbers)?, ordinals }.save(out);
        Ok(())
    }

    fn restore(&mut self, schema: &Schema, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        self.add(Batch::restore(schema, from)?)?;
        self.doubling.done(self.rows.len());
        Ok(())
    }

    /// Takes rows in, and gives those whose time the watermark has reached, in order.
    fn exchange(
        &mut self,
        batch: Batch,
        watermark: i64,
        is_tight: bool,
    ) -> Result<Option<(Batch, Vec<i64>)>, Diagnostic> {
        self.add(batch)?;
        let (mut numbers, mut times, mut ordinals) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(Reverse((time, ordinal, row))) = self.order.peek().copied() {
            if time > watermark {
                break;
            }
            self.order.pop();
            numbers.push(row);
            times.push(time);
            ordinals.push(ordinal);
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        let columns = self.rows.gather(&numbers)?;
        if self.order.is_empty() || self.doubling.is_due(self.rows.len(), is_tight) {
            let mut left: Vec<Reverse<(i64, Ordinal, u32)>> = std::mem::take(&mut self.order).into_vec();
            left.sort_unstable_by_key(|Reverse((.., row))| *row);
            self.rows.keep(&left.iter().map(|Reverse((.., row))| *row).collect::<Vec<_>>())?;
            let renumbered = left.into_iter().enumerate();
            self.order = renumbered.map(|(i, Reverse((time, o, _)))| Reverse((time, o, i as u32))).collect();
            self.doubling.done(self.rows.len());
        }
        Ok(Some((Batch { columns, ordinals }, times)))
    }
}

impl Over {
    /// No rows.
    pub(crate) fn new(
        plan: &KeyedOperator,
        frame: Frame,
        aggregates: &SlotAggregates,
        code: &OperatorCode,
    ) -> Result<Over, Diagnostic> {
        let input = &plan.inputs[0];
        let waiting = input.time.map(|time| Waiting {
            time,
            rows: RowStore::new(&input.schema),
            order: BinaryHeap::new(),
            doubling: Doubling::default(),
        });
        Ok(Over {
            frame,
            schema: input.schema.clone(),
            waiting,
            groups: Groups::new(plan, code)?,
            table: SlotTable::new(aggregates, code)?,
            keys: Vec::new(),
            processed: 0,
            doubling: Doubling::default(),
            frames: (0, 0),
        })
    }

    /// Outputs rows with their aggregates.
    fn process(&mut self, batch: Batch, times: &[i64], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let rows = batch.rows();
        let groups = self.groups.assign(0, &batch.columns, rows, work)?;
        self.keys.resize_with(self.groups.len(), Key::default);
        let has_peers = matches!(self.frame, Frame::Range(_)) && !times.is_empty();
        let mut steps: Vec<Step> = Vec::with_capacity(rows);
        let mut step_of = Vec::with_capacity(rows);
        for (row, &group) in groups.iter().enumerate() {
            let group = group as usize;
            let time = times.get(row).copied().unwrap_or(0);
            let key = &mut self.keys[group];
            let peers = key.peers.filter(|&p| has_peers && steps[p].element.first == time);
            step_of.push(peers.unwrap_or_else(|| {
                let slot = self.table.slots.allocate();
                steps.push(Step { group, element: Element { slot, first: time, last: time }, result: slot });
                key.peers = Some(steps.len() - 1);
                steps.len() - 1
            }));
        }
        let slots = step_of.iter().map(|&s| steps[s].element.slot).collect();
        let next = self.processed;
        self.processed += rows as u64;
        let in_order = |position| Ordinal { watermark: 0, stream: 0, position, pipeline: 0 };
        let ordinals: Vec<Ordinal> = (next..self.processed).map(in_order).collect();
        self.table.update(&batch.columns, slots, &ordinals, work)?;
        let mut retired = Vec::new();
        for step in &mut steps {
            self.keys[step.group].peers = None;
            self.step(step, &mut retired);
        }
        let results: Vec<i64> = step_of.iter().map(|&s| steps[s].result).collect();
        let mut columns = batch.columns;
        columns.extend(self.table.columns(&results));
        retired.into_iter().for_each(|slot| self.table.slots.remove(slot));
        work.emit(columns, rows);
        Ok(())
    }

    /// Computes the result of a row; what is in `retired` is not needed after the output.
    fn step(&mut self, step: &mut Step, retired: &mut Vec<i64>) {
        let (key, slots) = (&mut self.keys[step.group], &mut self.table.slots);
        let time = step.element.first;
        match self.frame {
            Frame::Rows(None) | Frame::Range(None) => {
                if let Some(before) = key.running.replace(step.element.slot) {
                    slots.merge_into(step.element.slot, before);
                    retired.push(before);
                }
                return;
            }
            Frame::Rows(Some(preceding)) => {
                key.last.push(step.element, slots);
                while key.last.len() as u64 > preceding.saturating_add(1) {
                    key.last.pop(slots);
                }
            }
            Frame::Range(Some(ms)) => {
                key.last.push(step.element, slots);
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

    /// Forgets keys none of whose rows can count any more.
    fn forget(&mut self, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let Frame::Range(Some(ms)) = self.frame else { return Ok(()) };
        if !self.doubling.is_due(self.keys.len(), work.is_tight) {
            return Ok(());
        }
        let counts = |key: &Key| key.last.newest().is_some_and(|newest| newest.saturating_add(ms) > watermark);
        let (mut kept, mut numbers) = (Vec::new(), Vec::new());
        for (group, mut key) in std::mem::take(&mut self.keys).into_iter().enumerate() {
            if counts(&key) {
                kept.push(key);
                numbers.push(group as u64);
            } else {
                key.last.clear(&mut self.table.slots);
            }
        }
        self.keys = kept;
        self.groups.keep(&numbers, work)?;
        self.doubling.done(numbers.len());
        Ok(())
    }
}

impl State for Over {
    fn advance(&mut self, inputs: Vec<Batch>, watermark: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for batch in inputs {
            let ready = match &mut self.waiting {
                Some(waiting) => waiting.exchange(batch, watermark, work.is_tight)?,
                None => (batch.rows() > 0).then_some((batch, vec![])),
            };
            if let Some((batch, times)) = ready {
                self.process(batch, &times, work)?;
            }
        }
        if watermark == i64::MAX { Ok(()) } else { self.forget(watermark, work) }
    }

    fn due(&self) -> i64 {
        let first = self.waiting.as_ref().and_then(|w| w.order.peek());
        first.map_or(i64::MAX, |Reverse((time, ..))| *time)
    }

    fn bytes(&mut self) -> usize {
        if self.processed - self.frames.1 > self.keys.len() as u64 {
            self.frames = (self.keys.iter().map(|key| key.last.bytes()).sum(), self.processed);
        }
        let waiting = self.waiting.as_ref().map_or(0, Waiting::bytes);
        let keys = self.keys.capacity() * size_of::<Key>() + self.frames.0;
        self.groups.bytes() + self.table.bytes() + keys + waiting
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        if let Some(waiting) = &self.waiting {
            waiting.save(out)?;
        }
        self.groups.save(out);
        self.table.save(out);
        out.u64(self.processed);
        for key in &self.keys {
            out.i64s(key.running.as_slice());
            key.last.save(out);
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        if let Some(waiting) = &mut self.waiting {
            waiting.restore(&self.schema, from)?;
        }
        self.groups.restore(from)?;
        self.table.restore(from)?;
        self.processed = from.u64()?;
        if self.processed > i64::MAX as u64 {
            return Err(Damaged(format!("{} rows cannot have been processed", self.processed)).into());
        }
        for _ in 0..self.groups.len() {
            let (running, last) = (from.i64s()?, Fifo::restore(from)?);
            check_count("sums", running.len(), running.len().min(1))?;
            self.keys.push(Key { running: running.first().copied(), last, peers: None });
        }
        self.frames = (self.keys.iter().map(|key| key.last.bytes()).sum(), self.processed);
        self.doubling.done(self.keys.len());
        Ok(self.table.check_owned(self.keys.iter().flat_map(|key| key.last.slots().chain(key.running)))?)
    }
}
