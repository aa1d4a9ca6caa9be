//! What a job of a partition puts out.
//!
//! A job can put out a million times what it takes in: a join of a key that many rows of both sides have. It cannot stop in
//! between, so what is more than a part of the budget goes to files of the run as it is made; when the job is done, a task of its
//! own ([`SpooledOutput`]) reads it back and delivers it piece by piece, and stops while what it has delivered is not
//! consumed. Queries that may not spill keep all of it in memory.

use super::driver::KeyedRuntime;
use super::encoding::{restore_columns, save_columns};
use crate::buffer::Rows;
use crate::query::Query;
use crate::sequencer::Unit;
use crate::spill::{Spilling, Unconsumed, unreadable};
use crate::task::Task;
use millstream_storage::{BlobRef, ByteReader, ByteWriter, SpillFiles, SpillWriter};
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::Arc;

/// The output of a job while it runs, in order of windows.
pub(crate) struct Output<'a> {
    /// Behind what is in files.
    rows: Vec<(i64, Rows)>,
    /// Bytes of `rows`, about.
    bytes: u64,
    /// Where it goes when it is more than so many bytes.
    spilling: Option<(&'a Spilling, u64)>,
    spooled: Vec<(i64, Item)>,
    writer: Option<SpillWriter>,
    failure: Option<Diagnostic>,
}

/// Rows of the output of a job.
#[expect(clippy::large_enum_variant, reason = "rows in memory are the rule, and a box for each would be an allocation")]
pub(crate) enum Item {
    /// In memory.
    Rows(Rows),
    /// So many rows in files.
    Spooled(BlobRef, usize),
}

impl Item {
    fn rows(&self) -> usize {
        match self {
            Item::Rows(rows) => rows.rows,
            Item::Spooled(_, rows) => *rows,
        }
    }
}

/// The output of a job that is done, by window.
pub(crate) struct Finished {
    pub(crate) items: Vec<(i64, Item)>,
    /// Those of the spooled items, if there are any.
    pub(super) files: Option<Arc<SpillFiles>>,
}

impl Finished {
    /// Rows of all items.
    pub(crate) fn rows(&self) -> usize {
        self.items.iter().map(|(_, item)| item.rows()).sum()
    }
}

impl<'a> Output<'a> {
    /// Nothing, and all of it in memory.
    pub(crate) fn in_memory() -> Output<'a> {
        Output { rows: Vec::new(), bytes: 0, spilling: None, spooled: Vec::new(), writer: None, failure: None }
    }

    /// Nothing, of which more than `most` bytes go to files.
    pub(crate) fn spooled(spilling: &'a Spilling, most: u64) -> Output<'a> {
        Output { spilling: Some((spilling, most)), ..Output::in_memory() }
    }

    /// Adds rows of a window, with about so many bytes.
    pub(crate) fn push(&mut self, window: i64, rows: Rows, bytes: usize) {
        self.rows.push((window, rows));
        self.bytes += bytes as u64;
        if let Some((spilling, most)) = self.spilling
            && self.bytes > most
            && self.failure.is_none()
        {
            self.failure = self.spool(spilling).err();
        }
    }

    fn spool(&mut self, spilling: &Spilling) -> Result<(), Diagnostic> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(spilling.writer()?),
        };
        for (window, rows) in self.rows.drain(..) {
            let mut out = ByteWriter::new();
            save_columns(&rows.columns, rows.rows, &mut out);
            out.i64s(rows.watermarks.as_deref().unwrap_or(&[]));
            let blob = writer.write(&out.into_bytes()).map_err(|e| spilling.failed(&e))?;
            self.spooled.push((window, Item::Spooled(blob, rows.rows)));
        }
        self.bytes = 0;
        Ok(())
    }

    /// All of it, complete.
    pub(crate) fn finish(mut self) -> Result<Finished, Diagnostic> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if let (Some(_), Some((spilling, _))) = (&self.writer, self.spilling) {
            // The rest, too: many jobs may be done long before their output is next.
            self.spool(spilling)?;
        }
        let files = match (self.writer, self.spilling) {
            (Some(writer), Some((spilling, _))) => Some(writer.finish().map_err(|e| spilling.failed(&e))?),
            _ => None,
        };
        let mut items = self.spooled;
        items.extend(self.rows.into_iter().map(|(window, rows)| (window, Item::Rows(rows))));
        Ok(Finished { items, files })
    }
}

/// A unit of the output stream that is put out item by item.
struct SpooledUnit {
    number: u64,
    before: Option<i64>,
    items: VecDeque<Item>,
}

/// Units whose rows are, in part, in files.
pub(crate) struct SpooledOutput {
    pub(super) operator: usize,
    files: Arc<SpillFiles>,
    units: VecDeque<SpooledUnit>,
}

impl SpooledOutput {
    /// The operator that has put it out.
    pub(crate) fn operator(&self) -> usize {
        self.operator
    }
}

impl Query {
    /// The output of a job of an operator, before there is any.
    pub(super) fn output_of_job(&self) -> Output<'_> {
        match self.spilling.may_spill() {
            true => Output::spooled(&self.spilling, self.most_unconsumed()),
            false => Output::in_memory(),
        }
    }

    /// Delivers units of the output of an operator: their numbers, watermarks before them, and items.
    pub(super) fn deliver_items(
        &self,
        operator: usize,
        files: Option<Arc<SpillFiles>>,
        units: impl Iterator<Item = (u64, Option<i64>, Vec<Item>)>,
    ) {
        let stream = self.operators[operator].output;
        if let Some(files) = files {
            let unit = |(number, before, items): (u64, Option<i64>, Vec<Item>)| SpooledUnit {
                number,
                before,
                items: items.into(),
            };
            let output = SpooledOutput { operator, files, units: units.map(unit).collect() };
            return self.scheduler.push(vec![Task::PutOut(Box::new(output))]);
        }
        for (number, before, items) in units {
            let in_memory = |item| match item {
                Item::Rows(rows) => Some(rows),
                Item::Spooled(..) => None,
            };
            let rows = items.into_iter().filter_map(in_memory).collect();
            self.deliver(stream, number, Unit { rows, before, ..Unit::default() });
        }
    }

    /// Goes on delivering output that is in files, until it ends or enough of it is not consumed, or enough of all output while it is
    /// not the next. Nobody waits for ever: the units before its first one are delivered by others, who do not wait for it.
    pub(crate) fn deliver_spooled(&self, mut spooled: Box<SpooledOutput>) -> Result<(), Diagnostic> {
        let runtime = &self.operators[spooled.operator];
        let mut output = Unconsumed::default();
        while let Some(unit) = spooled.units.front_mut() {
            if !self.may_put_out(runtime.output, unit.number) {
                let next = (runtime.output, unit.number);
                self.park(next, Task::PutOut(spooled));
                return Ok(());
            }
            let item = unit.items.pop_front();
            let (number, before, continues) = (unit.number, unit.before, !unit.items.is_empty());
            let rows = item.map(|item| runtime.read_item(item, &spooled.files)).transpose()?;
            let rows = rows.into_iter().map(|rows| self.held(rows, &mut output)).collect();
            self.deliver(runtime.output, number, Unit { rows, before, continues, ..Unit::default() });
            if !continues {
                spooled.units.pop_front();
            }
            if output.bytes() > self.most_unconsumed() && !spooled.units.is_empty() {
                self.park_until_consumed(output, Task::PutOut(spooled));
                return Ok(());
            }
        }
        Ok(())
    }
}

impl KeyedRuntime {
    fn read_item(&self, item: Item, files: &SpillFiles) -> Result<Rows, Diagnostic> {
        let blob = match item {
            Item::Rows(rows) => return Ok(rows),
            Item::Spooled(blob, _) => blob,
        };
        let bytes = files.read(&blob).map_err(unreadable)?;
        let types = self.plan.output.fields.iter().map(|field| field.data_type.to_arrow());
        let mut from = ByteReader::new(&bytes);
        let (columns, rows) = restore_columns(types, &mut from).map_err(unreadable)?;
        let watermarks = Some(from.i64s().map_err(unreadable)?).filter(|watermarks| watermarks.len() == rows);
        Ok(Rows { columns, rows, watermarks, ..Rows::default() })
    }
}
