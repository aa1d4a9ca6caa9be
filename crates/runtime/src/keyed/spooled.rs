//! Output of a job that is in files: read back and delivered piece by piece, while what was delivered is consumed.

use super::encoding::restore_columns;
use super::output::Item;
use super::{KeyedJob, KeyedStation};
use crate::buffer::Rows;
use crate::durable::blobs::unreadable;
use crate::station::{Consequences, Job, Parked, Task, Unconsumed, Until};
use crate::stream::sequencer::Unit;
use millstream_storage::{ByteReader, SpillFiles};
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::Arc;

/// A unit of the output stream whose items are put out one by one, if some are in files.
pub(super) struct SpooledUnit {
    pub(super) number: u64,
    /// The watermark before it.
    pub(super) before: Option<i64>,
    pub(super) items: VecDeque<Item>,
}

/// Units whose rows are, in part, in files.
pub(super) struct SpooledOutput {
    pub(super) files: Arc<SpillFiles>,
    /// As [`Unit::place`].
    pub(super) partition: Option<usize>,
    pub(super) units: VecDeque<SpooledUnit>,
    /// What of it is not consumed, since it waited for that last.
    pub(super) output: Unconsumed,
}

impl KeyedStation {
    /// The task that puts such output out.
    pub(super) fn put_out(&self, output: Box<SpooledOutput>) -> Task {
        Task::awaited(self.id, KeyedJob::PutOut(output))
    }

    /// Delivers the next item, unless enough of the output is not consumed, or enough of all output while it is not the next.
    /// Nobody waits forever: the units before its first one are delivered by others, who do not wait for it.
    pub(super) fn deliver_spooled(&self, mut spooled: Box<SpooledOutput>) -> Result<Consequences, Diagnostic> {
        let mut consequences = Consequences::default();
        let Some(unit) = spooled.units.front_mut() else { return Ok(consequences) };
        let number = unit.number;
        let until = match spooled.output.bytes() > self.host.spilling.most_unconsumed() {
            true => Some(Until::Consumed(std::mem::take(&mut spooled.output))),
            false => (!self.host.may_put_out(&self.output, number)).then_some(Until::Next(self.output.id, number)),
        };
        if let Some(until) = until {
            consequences.parked.push(Parked { task: self.put_out(spooled), until });
            return Ok(consequences);
        }
        let item = unit.items.pop_front();
        let (before, place, continues) = (unit.before, spooled.partition, !unit.items.is_empty());
        if !continues {
            spooled.units.pop_front();
        }
        let rows = item.map(|item| self.read_item(item, &spooled.files)).transpose()?;
        let rows = rows.into_iter().map(|rows| self.host.held(rows, &mut spooled.output)).collect();
        consequences.deliver(self.output.id, number, Unit { rows, before, place, continues, ..Unit::default() });
        consequences.then = Some(Job::new(KeyedJob::PutOut(spooled)));
        Ok(consequences)
    }

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
