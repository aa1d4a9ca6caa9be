//! Count windows: `size` rows of a key in merged order, beginning every `slide` rows; only full ones give results.

use super::batch::{Batch, times_of};
use super::encoding::{Owned, check_count};
use super::fifo::{Element, Fifo, restore_elements, save_elements};
use super::groups::Groups;
use super::key_share::{KeyShare, NewNumbers, of_same_operator};
use super::slots::SlotTable;
use super::state::{State, Work};
use super::store::{Doubling, RowStore, timestamps};
use crate::executable_plan::OperatorCode;
use millstream_plan::pipeline::{CountWindows, KeyedOperator, SlotAggregates};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// Size and slide of windows, in rows.
#[derive(Debug, Clone, Copy)]
struct Shape {
    size: u64,
    slide: u64,
}

impl Shape {
    /// Rows of a slice: every window begins and ends where a slice does.
    fn slice(self) -> u64 {
        let (mut a, mut b) = (self.size, self.slide);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    /// Whether row `number` of a key (from 0) is in no window.
    fn skips(self, number: u64) -> bool {
        number % self.slide >= self.size
    }

    /// Whether row `number` of a key is the last one of a window.
    fn completes(self, number: u64) -> bool {
        (number + 1).checked_sub(self.size).is_some_and(|start| start % self.slide == 0)
    }

    /// How many of the rows of a complete window are not in the next one.
    fn leave(self) -> u64 {
        self.size.min(self.slide)
    }

    /// How many of the first `number` rows of a key are in open windows.
    fn open(self, number: u64) -> u64 {
        let counted = match self.slide > self.size {
            true => number / self.slide * self.size + (number % self.slide).min(self.size),
            false => number,
        };
        let complete = number.checked_sub(self.size).map_or(0, |rest| rest / self.slide + 1);
        counted - complete * self.leave()
    }
}

/// Reads the number of rows that a key has had.
fn restore_rows(from: &mut ByteReader<'_>) -> Result<u64, Damaged> {
    let rows = from.u64()?;
    match rows <= i64::MAX as u64 {
        true => Ok(rows),
        false => Err(Damaged(format!("a key cannot have had {rows} rows"))),
    }
}

/// Aggregates of count windows.
pub(crate) struct CountAggregate {
    shape: Shape,
    /// Position of the event time.
    time: usize,
    groups: Groups,
    table: SlotTable,
    keys: Vec<CountKey>,
    /// Bytes of the slices of keys when they were measured, and rows since.
    slices: (usize, usize),
}

#[derive(Default)]
struct CountKey {
    /// Rows so far.
    rows: u64,
    /// Full slices of the windows that are open.
    slices: Fifo,
    /// The slice that is being filled.
    filling: Option<Element>,
}

impl CountKey {
    /// The slots that belong to it.
    fn slots(&self) -> impl Iterator<Item = i64> + use<'_> {
        self.slices.slots().chain(self.filling.map(|slice| slice.slot))
    }
}

/// What happens to a key when its slices have been updated.
enum CountEvent {
    /// A slice is full.
    Slice(Element),
    /// A window is.
    Window,
}

impl CountAggregate {
    /// No rows.
    pub(crate) fn new(
        plan: &KeyedOperator,
        windows: &CountWindows,
        aggregates: &SlotAggregates,
        code: &OperatorCode,
    ) -> Result<CountAggregate, Diagnostic> {
        Ok(CountAggregate {
            shape: Shape { size: windows.size.max(1), slide: windows.slide.max(1) },
            time: plan.inputs[0].time.unwrap_or(0),
            groups: Groups::new(plan, code)?,
            table: SlotTable::new(aggregates, code)?,
            keys: Vec::new(),
            slices: (0, 0),
        })
    }

    /// Counts the rows and updates their slices; what follows, in order: groups, watermarks before their rows, events.
    fn count(&mut self, mut batch: Batch, work: &mut Work<'_>) -> Result<Vec<(u64, i64, CountEvent)>, Diagnostic> {
        let rows = batch.rows();
        let times = times_of(&batch.columns[self.time])?;
        let groups = self.groups.assign(0, &batch.columns, rows, work)?;
        self.keys.resize_with(self.groups.table.len(), CountKey::default);
        self.slices.1 += rows;
        let (shape, length) = (self.shape, self.shape.slice());
        let (mut events, mut slots, mut counted) = (Vec::new(), Vec::with_capacity(rows), Vec::with_capacity(rows));
        for (row, (&group, &time)) in groups.iter().zip(times.iter()).enumerate() {
            let (key, watermark) = (&mut self.keys[group as usize], batch.ordinals[row].watermark);
            let number = key.rows;
            key.rows += 1;
            if shape.skips(number) {
                continue;
            }
            let slice = key.filling.get_or_insert_with(|| Element {
                slot: self.table.slots.allocate(),
                first: time,
                last: time,
            });
            (slice.first, slice.last) = (slice.first.min(time), slice.last.max(time));
            slots.push(slice.slot);
            counted.push(row as u32);
            if (number + 1).is_multiple_of(length) {
                events.extend(key.filling.take().map(|slice| (group, watermark, CountEvent::Slice(slice))));
            }
            if shape.completes(number) {
                events.push((group, watermark, CountEvent::Window));
            }
        }
        if counted.len() < rows {
            batch = batch.pick(counted)?;
        }
        self.table.update(&batch.columns, slots, (&batch.ordinals, &[]), work)?;
        Ok(events)
    }
}

impl State for CountAggregate {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let leave = self.shape.leave() / self.shape.slice();
        for batch in inputs {
            if batch.rows() == 0 {
                continue;
            }
            // Groups, windows and the watermarks that they come behind.
            let mut full: Vec<(u64, Element, i64)> = Vec::new();
            for (group, watermark, event) in self.count(batch, work)? {
                let (key, slots) = (&mut self.keys[group as usize], &mut self.table.slots);
                match event {
                    // A window of one slice is that slice.
                    CountEvent::Slice(slice) if self.shape.slice() == self.shape.size => {
                        full.push((group, slice, watermark));
                    }
                    CountEvent::Slice(slice) => key.slices.push(slice, slots),
                    CountEvent::Window if self.shape.slice() == self.shape.size => {}
                    CountEvent::Window => {
                        full.extend(key.slices.query(slots).map(|window| (group, window, watermark)));
                        (0..leave).for_each(|_| key.slices.pop(slots));
                    }
                }
            }
            work.stats.windows_fired.fetch_add(full.len() as u64, Relaxed);
            for part in full.chunks(work.most_rows) {
                let groups: Vec<u64> = part.iter().map(|(group, ..)| *group).collect();
                let slots: Vec<i64> = part.iter().map(|(_, window, _)| window.slot).collect();
                let mut columns = self.groups.columns(&groups);
                columns.extend(self.table.columns(&slots));
                columns.push(timestamps(part.iter().map(|(_, window, _)| window.first).collect()));
                columns.push(timestamps(part.iter().map(|(_, window, _)| window.last.saturating_add(1)).collect()));
                work.emit_behind(columns, part.iter().map(|(.., watermark)| *watermark).collect());
                slots.into_iter().for_each(|slot| self.table.slots.remove(slot));
            }
        }
        Ok(())
    }

    fn bytes(&mut self) -> usize {
        if self.slices.1 > self.keys.len() {
            self.slices = (self.keys.iter().map(|key| key.slices.bytes()).sum(), 0);
        }
        self.groups.table.bytes() + self.table.bytes() + self.keys.capacity() * size_of::<CountKey>() + self.slices.0
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.table.slots.save(out);
        for key in &self.keys {
            out.u64(key.rows);
            key.slices.save(out);
            save_elements(key.filling.as_slice(), out);
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        self.table.restore(from)?;
        for _ in 0..self.groups.table.len() {
            let (rows, slices, filling) = (restore_rows(from)?, Fifo::restore(from)?, restore_elements(from)?);
            check_count("slices", filling.len(), filling.len().min(1))?;
            self.keys.push(CountKey { rows, slices, filling: filling.first().copied() });
        }
        self.slices = (self.keys.iter().map(|key| key.slices.bytes()).sum(), 0);
        Ok(self.table.check_owned(self.keys.iter().flat_map(CountKey::slots))?)
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<CountAggregate>(other)?;
        let taken = self.groups.absorb(&other.groups, share)?;
        let keys: Vec<CountKey> = taken.iter().map(|&group| std::mem::take(&mut other.keys[group as usize])).collect();
        let slots: Vec<i64> = keys.iter().flat_map(CountKey::slots).collect();
        let slots = self.table.absorb(&other.table, &slots)?;
        let moved = |key: CountKey| CountKey {
            slices: key.slices.with_slots(&slots),
            filling: key.filling.map(|slice| Element { slot: slots[&slice.slot], ..slice }),
            ..key
        };
        self.keys.extend(keys.into_iter().map(moved));
        self.slices = (self.keys.iter().map(|key| key.slices.bytes()).sum(), 0);
        Ok(())
    }
}

/// Rows of full count windows.
pub(crate) struct CountRows {
    shape: Shape,
    /// Position of the event time.
    time: usize,
    groups: Groups,
    rows: RowStore,
    /// Event time of each row.
    times: Vec<i64>,
    keys: Vec<KeyRows>,
    doubling: Doubling,
}

#[derive(Default)]
struct KeyRows {
    /// Rows so far.
    rows: u64,
    /// Rows of the windows that are open.
    open: VecDeque<u32>,
}

impl CountRows {
    /// No rows.
    pub(crate) fn new(
        plan: &KeyedOperator,
        windows: &CountWindows,
        code: &OperatorCode,
    ) -> Result<CountRows, Diagnostic> {
        Ok(CountRows {
            shape: Shape { size: windows.size.max(1), slide: windows.slide.max(1) },
            time: plan.inputs[0].time.unwrap_or(0),
            groups: Groups::new(plan, code)?,
            rows: RowStore::new(&plan.inputs[0].schema),
            times: Vec::new(),
            keys: Vec::new(),
            doubling: Doubling::default(),
        })
    }

    fn emit(&self, output: &mut Vec<(u32, i64, i64, i64)>, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        for part in output.chunks(work.most_rows) {
            let mut columns = self.rows.gather(&part.iter().map(|o| o.0).collect::<Vec<_>>())?;
            columns.push(timestamps(part.iter().map(|o| o.1).collect()));
            columns.push(timestamps(part.iter().map(|o| o.2).collect()));
            work.emit_behind(columns, part.iter().map(|o| o.3).collect());
        }
        output.clear();
        Ok(())
    }

    /// Forgets rows that are in no open window, when there are many.
    fn forget(&mut self, is_tight: bool) -> Result<(), Diagnostic> {
        if !self.doubling.is_due(self.rows.len(), is_tight) {
            return Ok(());
        }
        let mut kept: Vec<u32> = self.keys.iter().flat_map(|k| k.open.iter().copied()).collect();
        kept.sort_unstable();
        self.rows.keep(&kept)?;
        let mut numbers = vec![0; self.times.len()];
        kept.iter().enumerate().for_each(|(i, &row)| numbers[row as usize] = i as u32);
        self.times = kept.iter().map(|&row| self.times[row as usize]).collect();
        let open = self.keys.iter_mut().flat_map(|k| &mut k.open);
        open.for_each(|row| *row = numbers[*row as usize]);
        self.doubling.done(kept.len());
        Ok(())
    }
}

impl State for CountRows {
    fn advance(&mut self, inputs: Vec<Batch>, _: i64, work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let shape = self.shape;
        for batch in inputs {
            let rows = batch.rows();
            if rows == 0 {
                continue;
            }
            let groups = self.groups.assign(0, &batch.columns, rows, work)?;
            self.keys.resize_with(self.groups.table.len(), KeyRows::default);
            self.times.extend_from_slice(&times_of(&batch.columns[self.time])?);
            let ordinals = batch.ordinals;
            let first = self.rows.push(batch.columns, rows)?;
            let mut output = Vec::new();
            for ((row, &group), ordinal) in (first..).zip(&groups).zip(ordinals) {
                let key = &mut self.keys[group as usize];
                let number = key.rows;
                key.rows += 1;
                if shape.skips(number) {
                    continue;
                }
                key.open.push_back(row);
                if !shape.completes(number) {
                    continue;
                }
                let times = || key.open.iter().map(|&row| self.times[row as usize]);
                let start = times().min().unwrap_or(0);
                let end = times().max().unwrap_or(0).saturating_add(1);
                output.extend(key.open.iter().map(|&row| (row, start, end, ordinal.watermark)));
                key.open.drain(..shape.leave() as usize);
                work.stats.windows_fired.fetch_add(1, Relaxed);
                if output.len() >= work.most_rows {
                    self.emit(&mut output, work)?;
                }
            }
            self.emit(&mut output, work)?;
        }
        self.forget(work.is_tight)
    }

    fn bytes(&mut self) -> usize {
        let rows = self.rows.bytes() + self.times.capacity() * size_of::<i64>() + self.rows.len() * size_of::<u32>();
        self.groups.table.bytes() + rows + self.keys.capacity() * size_of::<KeyRows>()
    }

    fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        self.groups.table.save_from(0, out);
        self.rows.save(out)?;
        out.i64s(&self.times);
        for key in &self.keys {
            out.u64(key.rows);
            out.length(key.open.len());
            key.open.iter().for_each(|&row| out.u32(row));
        }
        Ok(())
    }

    fn restore(&mut self, from: &mut ByteReader<'_>, _now_ms: i64) -> Result<(), Diagnostic> {
        self.groups.restore(from)?;
        self.rows.restore(from)?;
        self.times = from.i64s()?;
        check_count("times", self.times.len(), self.rows.len())?;
        let mut owned = Owned::new(self.rows.len());
        for _ in 0..self.groups.table.len() {
            let (rows, open) = (restore_rows(from)?, VecDeque::from(from.u32s()?));
            check_count("rows in windows", open.len(), self.shape.open(rows) as usize)?;
            open.iter().try_for_each(|&row| owned.take(row as usize))?;
            self.keys.push(KeyRows { rows, open });
        }
        self.doubling.done(self.rows.len());
        Ok(())
    }

    fn absorb(&mut self, other: &mut dyn State, share: &mut KeyShare<'_>) -> Result<(), Diagnostic> {
        let other = of_same_operator::<CountRows>(other)?;
        let taken = self.groups.absorb(&other.groups, share)?;
        let keys: Vec<KeyRows> = taken.iter().map(|&group| std::mem::take(&mut other.keys[group as usize])).collect();
        let mut rows: Vec<u32> = keys.iter().flat_map(|key| key.open.iter().copied()).collect();
        rows.sort_unstable();
        let first = self.rows.absorb(&other.rows, &rows)?;
        let numbers = NewNumbers::new(rows.iter().map(|&row| row as usize), other.rows.len(), first as usize);
        self.times.extend(rows.iter().map(|&row| other.times[row as usize]));
        let moved = |key: KeyRows| KeyRows {
            open: key.open.iter().filter_map(|&row| numbers.of(row as usize)).collect(),
            ..key
        };
        self.keys.extend(keys.into_iter().map(moved));
        self.doubling.done(self.rows.len());
        Ok(())
    }
}
