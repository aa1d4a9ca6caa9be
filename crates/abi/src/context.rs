//! What a task hands to a pipeline: columns in, columns out, window state, and how the run ended.

use crate::{Slot, TableHeader};
use std::ffi::c_void;

/// One input column, read in place: in Arrow's layout, or packed records of which the program knows the length and the
/// place of the column.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ColumnView {
    /// First value of row 0 of the buffer; for Bool the bitmap (see `offset`); for Str the array of 16-byte views. For a
    /// field of packed records the record of row 0; then the rest is unused.
    pub values: *const u8,
    /// Validity bitmap, least significant bit first; null when no row is NULL.
    pub validity: *const u8,
    /// Bit position of row 0 in the validity bitmap.
    pub validity_offset: u64,
    /// Bit position of row 0 in `values`, for Bool columns only.
    pub values_offset: u64,
    /// Addresses of the data buffers of a Str column.
    pub buffers: *const *const u8,
    /// Of an I64 column, bounds of the values of each [`ZONE_ROWS`] rows from row 0 on; null when they are not known.
    pub zones: *const Zone,
}

/// Rows of a [`Zone`].
pub const ZONE_ROWS: usize = 1024;

/// A value that no value of some rows is below, and one that none is above.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// The former.
    pub least: i64,
    /// The latter.
    pub most: i64,
}

/// One output column: `capacity` rows of the natural size (Bool one byte, Str a [`crate::Str`]), and a byte a row
/// that is 1 when the value is not NULL. Written for rows `0..out_rows`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OutputColumn {
    /// Values.
    pub values: *mut u8,
    /// Validity bytes; may be null when the program never emits NULL in this column.
    pub valid: *mut u8,
}

/// Finds or makes the worker's table of the slice that starts at `slice_start`; sets `slice_start` and `table` of
/// the context. Never fails.
pub type FindSlice = unsafe extern "C" fn(context: *mut ExecContext, slice_start: i64);

/// Inserts a key that the table does not have and returns its entry, accumulators freshly initialised. `keys` holds
/// one slot a key; `null_mask` as in the entry. Long strings are copied into the table. May move the entries.
pub type InsertKey =
    unsafe extern "C" fn(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8;

/// Copies bytes of a string that a MIN or MAX accumulator keeps into the current table's arena.
pub type KeepString = unsafe extern "C" fn(context: *mut ExecContext, string: *mut crate::Str);

/// Updates the object at `accumulator` (a pointer within an entry of the current table, null for a fresh object), which is
/// component `component` of the layout, with a value of row `row` of the buffer. `value` is null for a NULL, which only
/// lists that keep NULLs get. Strings are copied. Of a sum of doubles, `accumulator` is that of what is near, and stays as it is;
/// the value is one that is far ([`exact`](crate::exact)).
pub type UpdateObject =
    unsafe extern "C" fn(context: *mut ExecContext, accumulator: *mut u8, component: u32, value: *const Slot, row: u64);

/// Everything a pipeline run needs besides the row range. One per task; not shared between threads.
#[repr(C)]
#[derive(Debug)]
pub struct ExecContext {
    /// Input columns, in the order of the program's inputs.
    pub columns: *const ColumnView,
    /// Output columns, in the order of the program's emitted columns.
    pub outputs: *const OutputColumn,
    /// For every output row the number of its input row, for columns that are passed through. Not used by programs without
    /// filters.
    pub out_selection: *mut u32,
    /// Output rows written so far; the next row goes here.
    pub out_rows: u64,
    /// Watermark before row *i*, in milliseconds: `watermarks[i * watermark_stride]`.
    pub watermarks: *const i64,
    /// 0 when one watermark holds for the whole buffer, 1 when each row has its own.
    pub watermark_stride: u64,
    /// Rows dropped because they were late.
    pub late_rows: u64,
    /// Start of the slice that `table` belongs to; meaningless while `table` is null.
    pub slice_start: i64,
    /// The current table; null before the first row.
    pub table: *mut TableHeader,
    /// Called when a row's slice is not `slice_start`, or `table` is null. This and the next three are `None` in programs that emit
    /// rows, which never call them. Generated code takes them for the pointers.
    pub find_slice: Option<FindSlice>,
    /// Called when a key is not in the table.
    pub insert_key: Option<InsertKey>,
    /// Copies bytes of a string that a MIN or MAX accumulator keeps into the current table's arena.
    pub keep_string: Option<KeepString>,
    /// Called for each update of an object, and of a sum of doubles by a number that is far.
    pub update_object: Option<UpdateObject>,
    /// For programs that report groups: the group of each row, by number of the row in the buffer.
    pub groups: *mut u64,
    /// The `FunctionContext` of the functions crate, passed to every runtime function.
    pub functions: *mut c_void,
    /// Owned by the runtime; opaque to programs.
    pub host: *mut c_void,
    /// After an error: an [`ErrorKind`].
    pub error_kind: u32,
    /// After an error: the index into the program's list of sites.
    pub error_site: u32,
}

/// Why a row could not be processed.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Integer or decimal division or modulo by zero.
    DivisionByZero = 1,
    /// A number does not fit its type.
    Overflow = 2,
    /// A runtime function failed; its message is in the function context.
    FunctionFailed = 3,
    /// The event time is NULL.
    NullRowtime = 4,
    /// A vectorised fallback function failed for this row; its message is with the fallback column.
    FallbackFailed = 5,
    /// NULL arrived in a NOT NULL column of a sink.
    NullInNotNull = 6,
}

impl ErrorKind {
    /// The inverse of `kind as u32`.
    pub fn from_u32(kind: u32) -> Option<ErrorKind> {
        use ErrorKind::*;
        [DivisionByZero, Overflow, FunctionFailed, NullRowtime, FallbackFailed, NullInNotNull]
            .into_iter()
            .find(|&k| k as u32 == kind)
    }
}

/// How a run over rows `start..end` ended, packed into 64 bits: whether it is an error in the upper 2, row in the lower 62.
///
/// Rows before `row` have had their whole effect, `row` and the rows after it none, so a run can be resumed at
/// `row` or `row + 1` (skip a bad row).
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u64);

/// The two ways a run can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusKind {
    /// All rows are done.
    Done,
    /// The row could not be processed: see `error_kind` and `error_site` of the context.
    Error {
        /// The row.
        row: u64,
    },
}

impl Status {
    /// All rows are done.
    pub const DONE: Status = Status(0);
    /// Bit pattern to `or` with the row of an error.
    pub const ERROR: u64 = 1 << 62;

    /// Unpacks.
    pub fn kind(self) -> StatusKind {
        let row = self.0 & (Status::ERROR - 1);
        match self.0 >> 62 {
            0 => StatusKind::Done,
            _ => StatusKind::Error { row },
        }
    }
}
