//! Rows that wait until the watermark reaches their time, in the order of their times and then of their places.
//!
//! Rows that do not wait any more are kept, because somebody is about to output them, until [`TimedRows::forget`].

use super::batch::{Batch, times_of};
use super::encoding::check_count;
use super::key_share::NewNumbers;
use super::store::RowStore;
use arrow_array::ArrayRef;
use millstream_plan::pipeline::KeyedInput;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::{Diagnostic, Schema};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// See the module.
pub(super) struct TimedRows {
    schema: Schema,
    /// Position of the time.
    pub(super) time: usize,
    pub(super) rows: RowStore,
    /// Of each row of the store.
    pub(super) groups: Vec<u32>,
    /// Time, place and number of the rows that wait.
    order: BinaryHeap<Reverse<(i64, Ordinal, u32)>>,
}

impl TimedRows {
    /// No rows, of an input with event time.
    pub(super) fn new(input: &KeyedInput) -> TimedRows {
        TimedRows {
            schema: input.schema.clone(),
            time: input.time.unwrap_or(0),
            rows: RowStore::new(&input.schema),
            groups: Vec::new(),
            order: BinaryHeap::new(),
        }
    }

    /// Takes rows of these groups in, none of which waits yet; returns the number of the first.
    pub(super) fn push(&mut self, columns: Vec<ArrayRef>, groups: &[u64]) -> Result<u32, Diagnostic> {
        self.groups.extend(groups.iter().map(|&group| group as u32));
        self.rows.push(columns, groups.len())
    }

    /// Has a row wait for its time.
    #[inline]
    pub(super) fn wait(&mut self, time: i64, ordinal: Ordinal, row: u32) {
        self.order.push(Reverse((time, ordinal, row)));
    }

    /// The row that is next, with its time and its place, if a time has been reached; it waits no longer.
    pub(super) fn next(&mut self, reached: i64) -> Option<(i64, Ordinal, u32)> {
        self.order.peek().filter(|Reverse((time, ..))| *time <= reached)?;
        self.order.pop().map(|Reverse(next)| next)
    }

    /// The time of the row that is next.
    pub(super) fn due(&self) -> i64 {
        self.order.peek().map_or(i64::MAX, |Reverse((time, ..))| *time)
    }

    /// Whether no row waits.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The group of a row.
    #[inline]
    pub(super) fn group(&self, row: u32) -> usize {
        self.groups[row as usize] as usize
    }

    /// The groups of the rows that wait.
    pub(super) fn waiting_groups(&self) -> impl Iterator<Item = usize> {
        self.order.iter().map(|Reverse((.., row))| self.group(*row))
    }

    /// Forgets the rows that do not wait.
    pub(super) fn forget(&mut self) -> Result<(), Diagnostic> {
        let mut left = std::mem::take(&mut self.order).into_vec();
        left.sort_unstable_by_key(|Reverse((.., row))| *row);
        let kept: Vec<u32> = left.iter().map(|Reverse((.., row))| *row).collect();
        self.rows.keep(&kept)?;
        self.groups = kept.iter().map(|&row| self.groups[row as usize]).collect();
        self.order = left.into_iter().zip(0..).map(|(Reverse((t, o, _)), row)| Reverse((t, o, row))).collect();
        Ok(())
    }

    /// Adds the rows of others that wait, of groups that have new numbers.
    pub(super) fn absorb(&mut self, other: &TimedRows, numbers: &NewNumbers) -> Result<(), Diagnostic> {
        let taken = |&Reverse((time, ordinal, row)): &Reverse<(i64, Ordinal, u32)>| {
            numbers.of(other.group(row)).map(|group| (row, group, time, ordinal))
        };
        let mut taken: Vec<(u32, u32, i64, Ordinal)> = other.order.iter().filter_map(taken).collect();
        taken.sort_unstable_by_key(|&(row, ..)| row);
        let first = self.rows.absorb(&other.rows, &taken.iter().map(|&(row, ..)| row).collect::<Vec<_>>())?;
        self.groups.extend(taken.iter().map(|&(_, group, ..)| group));
        taken.into_iter().zip(first..).for_each(|((_, _, time, ordinal), row)| self.wait(time, ordinal, row));
        Ok(())
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.rows.bytes()
            + self.groups.capacity() * size_of::<u32>()
            + self.order.capacity() * size_of::<Reverse<(i64, Ordinal, u32)>>()
    }

    /// Writes the rows that wait, in the order of their numbers.
    pub(super) fn save(&self, out: &mut ByteWriter) -> Result<(), Diagnostic> {
        let mut waiting: Vec<(u32, Ordinal)> = self.order.iter().map(|&Reverse((_, o, row))| (row, o)).collect();
        waiting.sort_unstable_by_key(|&(row, _)| row);
        let (rows, ordinals): (Vec<u32>, Vec<Ordinal>) = waiting.into_iter().unzip();
        Batch::new(self.rows.gather(&rows)?, ordinals).save(out)?;
        out.u32s(&rows.iter().map(|&row| self.groups[row as usize]).collect::<Vec<_>>());
        Ok(())
    }

    /// Restores the rows that [`TimedRows::save`] has written, of `groups` groups; there are none so far.
    pub(super) fn restore(&mut self, groups: usize, from: &mut ByteReader<'_>) -> Result<(), Diagnostic> {
        let batch = Batch::restore(&self.schema, from)?;
        self.groups = from.u32s()?;
        check_count("groups of rows", self.groups.len(), batch.rows())?;
        if self.groups.iter().any(|&group| group as usize >= groups) {
            return Err(Damaged("a row is in no group".into()).into());
        }
        if batch.rows() > 0 {
            let times = times_of(&batch.columns[self.time])?;
            self.rows.push(batch.columns, times.len())?;
            let places = times.iter().zip(batch.ordinals).zip(0..);
            self.order = places.map(|((&time, ordinal), row)| Reverse((time, ordinal, row))).collect();
        }
        Ok(())
    }
}
