//! Buffers: the rows that tasks process, with the stamp of their stream's sequencer.

use crate::event_time::RowTimes;
use crate::flow::Permit;
use arrow_array::ArrayRef;
use millstream_plan::window::Slicing;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The tables between two checkpoints (design section 9): tasks before a cut write one generation, tasks after it
/// the next. Without checkpoints there is only the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Generation(pub(crate) u32);

/// Rows before the sequencer has seen them.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Columns of the stream.
    pub(crate) columns: Vec<ArrayRef>,
    /// Rows of each column.
    pub(crate) rows: usize,
    /// Event times, if the stream's watermark follows from its rows.
    pub(crate) times: Option<RowTimes>,
    /// Keeps the chunk that the rows came from in flight.
    pub(crate) permit: Option<Arc<Permit>>,
}

/// What the sequencer says about a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Number of the buffer in its stream.
    pub(crate) sequence: u64,
    /// Watermark of the stream before the first row, in milliseconds.
    pub(crate) watermark: i64,
    /// Generation of the tables that the rows go to.
    pub(crate) generation: Generation,
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
    /// Watermark before each row; made by the first task that needs it.
    row_watermarks: OnceLock<Vec<i64>>,
    /// Keeps the chunk in flight until the last task and the last piece of output are done.
    pub(crate) permit: Option<Arc<Permit>>,
}

impl Buffer {
    /// Stamps rows.
    pub(crate) fn new(rows: Rows, stamp: Stamp) -> Buffer {
        let Rows { columns, rows, times, permit } = rows;
        Buffer { columns, rows, stamp, times, row_watermarks: OnceLock::new(), permit }
    }

    /// The watermark before each row, or a single one where that decides about lateness just as well.
    ///
    /// A row is late under watermark *w* iff its window ends at *w* + 1 or before. Windows end in the order of the times
    /// in them; so if even the window of the buffer's smallest time ends after the largest watermark that any row here
    /// can see, the watermark's advance within the buffer makes no row late.
    pub(crate) fn watermarks(&self, slicing: Option<Slicing>) -> Cow<'_, [i64]> {
        let before = self.stamp.watermark;
        let matters = |times: &RowTimes| {
            let last_of_first_window =
                slicing.map_or(i64::MAX, |s| s.start_of(times.min_time()).saturating_add(s.size_ms - 1));
            times.max_watermark() > before && last_of_first_window <= times.max_watermark()
        };
        match self.times.as_ref().filter(|times| matters(times)) {
            Some(times) => Cow::Borrowed(self.row_watermarks.get_or_init(|| times.watermarks_before(before))),
            None => Cow::Owned(vec![before]),
        }
    }
}
