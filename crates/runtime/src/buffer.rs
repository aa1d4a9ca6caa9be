//! Buffers: the rows that tasks process, with the stamp of their stream's sequencer.

use crate::columns::sliced;
use crate::ids::Generation;
use crate::schedule::flow::Permit;
use crate::source::event_time::{RowTimes, TimeZones};
use arrow_array::ArrayRef;
use millstream_connectors::drop_columns;
use millstream_types::Spare;
use std::borrow::Cow;
use std::iter::Chain;
use std::slice::from_ref;
use std::sync::{Arc, OnceLock};
use std::{option, vec};

/// Rows before the sequencer has seen them.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Columns of the stream.
    pub(crate) columns: Vec<ArrayRef>,
    /// Rows of each column.
    pub(crate) rows: usize,
    /// Event times, if the stream's watermark follows from its rows.
    pub(crate) times: Option<RowTimes>,
    /// The watermark before each row, where a keyed operator puts it out as the watermark passes: the highest one under which it
    /// is not put out. The stream's own watermark is at or below it; how far it has advanced by then depends on timing.
    pub(crate) watermarks: Option<Vec<i64>>,
    /// Whether strings of the columns are in buffers of tables in memory, which stay until the query ends.
    pub(crate) are_of_table: bool,
    /// Keeps the chunk that the rows came from in flight.
    pub(crate) permit: Option<Arc<Permit>>,
}

/// An empty list of rows.
pub(crate) fn list_of_rows() -> Vec<Rows> {
    LISTS.with(Spare::take)
}

/// A list that has been gone through: its memory is used again.
pub(crate) fn drop_list(list: Vec<Rows>) {
    LISTS.with(|spare| spare.give(list));
}

impl Rows {
    /// Takes the rows from a place on, if there are any; the others stay.
    pub(crate) fn split_off(&mut self, place: usize) -> Option<Rows> {
        if place >= self.rows {
            return None;
        }
        let (before, behind) = (place, self.rows - place);
        let rest = Rows {
            columns: sliced(&self.columns, before, behind),
            rows: behind,
            times: self.times.as_ref().map(|times| times.slice(before, behind)),
            watermarks: self.watermarks.as_mut().map(|watermarks| watermarks.split_off(before)),
            are_of_table: self.are_of_table,
            permit: self.permit.clone(),
        };
        self.columns = sliced(&self.columns, 0, before);
        self.times = self.times.as_ref().map(|times| times.slice(0, before));
        self.rows = before;
        Some(rest)
    }
}

/// What the sequencer says about a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Number of the buffer in its stream.
    pub(crate) sequence: u64,
    /// Watermark of the stream before the first row, in milliseconds.
    pub(crate) watermark: i64,
    /// Rows of the stream before it.
    pub(crate) first_row: u64,
    /// Generation of the tables that the rows go to.
    pub(crate) generation: Generation,
}

/// Some consecutive rows of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// The first row.
    pub(crate) first: usize,
    /// How many rows.
    pub(crate) rows: usize,
    /// The watermark before each row, or one for all.
    pub(crate) watermarks: Cow<'a, [i64]>,
}

/// The pieces of a buffer: nearly always one.
pub(crate) enum BufferPieces<'a> {
    One(Piece<'a>),
    Several(Vec<Piece<'a>>),
}

impl<'a> IntoIterator for BufferPieces<'a> {
    type Item = Piece<'a>;
    type IntoIter = Chain<option::IntoIter<Piece<'a>>, vec::IntoIter<Piece<'a>>>;

    fn into_iter(self) -> Self::IntoIter {
        let (one, several) = match self {
            BufferPieces::One(piece) => (Some(piece), Vec::new()),
            BufferPieces::Several(pieces) => (None, pieces),
        };
        one.into_iter().chain(several)
    }
}

/// Rows in their place of a stream.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Columns of the stream.
    pub(crate) columns: Vec<ArrayRef>,
    /// Rows of each column.
    pub(crate) rows: usize,
    /// Where it stands.
    pub(crate) stamp: Stamp,
    times: Option<RowTimes>,
    /// Watermark before each row; made by the first task that needs it, if the rows did not bring it.
    row_watermarks: OnceLock<Vec<i64>>,
    /// As of [`Rows`].
    pub(crate) are_of_table: bool,
    /// Keeps the chunk in flight until the last task and the last piece of output are done.
    pub(crate) permit: Option<Arc<Permit>>,
}

thread_local! {
    static LISTS: Spare<Vec<Rows>> = const { Spare::new() };
    /// Places of buffers that are not used any more.
    static PLACES: Spare<Arc<Buffer>> = const { Spare::new() };
}

impl Buffer {
    /// For the tasks that take it through pipelines.
    pub(crate) fn shared(self) -> Arc<Buffer> {
        PLACES.with(|places| places.shared(self))
    }

    /// A task is done with it: if it was the last, its memory is used again.
    pub(crate) fn done(this: Arc<Buffer>) {
        PLACES.with(|places| {
            places.give(this, |buffer| {
                drop_columns(std::mem::take(&mut buffer.columns));
                buffer.permit.take().into_iter().for_each(Permit::done);
                (buffer.times, buffer.row_watermarks) = (None, OnceLock::new());
            });
        });
    }

    /// Stamps rows.
    pub(crate) fn new(rows: Rows, stamp: Stamp) -> Buffer {
        let Rows { columns, rows, times, watermarks, are_of_table, permit } = rows;
        let row_watermarks = OnceLock::new();
        if let Some(watermarks) = watermarks {
            let before = watermarks.into_iter().map(|watermark| watermark.max(stamp.watermark));
            row_watermarks.get_or_init(|| before.collect());
        }
        Buffer { columns, rows, stamp, times, row_watermarks, are_of_table, permit }
    }

    /// The watermark before each row, or a single one where all see the same.
    pub(crate) fn exact_watermarks(&self) -> Cow<'_, [i64]> {
        let before = self.stamp.watermark;
        match self.times.as_ref().filter(|times| times.max_watermark > before) {
            Some(times) => Cow::Borrowed(self.row_watermarks.get_or_init(|| times.watermarks_before(before))),
            None => self.row_watermarks.get().map_or_else(|| from_ref(&self.stamp.watermark).into(), |all| all.into()),
        }
    }

    /// Bounds of the event times from a row on, if they are known.
    pub(crate) fn zones(&self, first: usize) -> Option<TimeZones> {
        self.times.as_ref().and_then(|times| times.zones(first))
    }

    /// The rows with their exact watermarks.
    pub(crate) fn whole(&self) -> Piece<'_> {
        Piece { first: 0, rows: self.rows, watermarks: self.exact_watermarks() }
    }

    /// The rows in order, in pieces with one watermark where that decides about windows just as well as that before each
    /// row: all but a few rows about the end of a window. `counts_from` is as for [`RowTimes::pieces`].
    pub(crate) fn pieces(&self, counts_from: impl Fn(i64) -> i64) -> BufferPieces<'_> {
        match &self.times {
            Some(times) => times.pieces(&self.stamp.watermark, counts_from),
            None => BufferPieces::One(self.whole()),
        }
    }
}
