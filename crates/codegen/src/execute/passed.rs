//! Input columns that pass a program which drops rows: their values at the rows that it emits.
//!
//! The rows of a step are copied as soon as the program has run over it, when the columns that it has looked at are still in
//! the cache. As long as no row is dropped nothing is copied: a buffer all of whose rows pass keeps its columns.

use crate::buffers::InputColumns;
use crate::lower::{Lowered, OutputSource};
use arrow_array::{Array, ArrayRef, UInt32Array, make_array};
use arrow_buffer::MutableBuffer;
use millstream_abi::Phys;
use millstream_types::Diagnostic;
use std::slice;

/// Rows of a step: 128 KiB of a column of eight bytes.
pub(super) const STEP_ROWS: u64 = 16 << 10;

/// The passed columns of one run.
pub(super) struct PassedColumns {
    /// For each output column its copy, if it is one that is copied step by step.
    copies: Vec<Option<Copied>>,
    /// Rows of the columns.
    rows: usize,
    /// Rows that have been emitted.
    emitted: usize,
    /// Whether they are the first rows of the input, so that nothing has been copied.
    are_first: bool,
}

impl PassedColumns {
    /// For a run over the columns that `inputs` views, of so many rows.
    pub(super) fn new(lowered: &Lowered, inputs: &InputColumns, rows: usize) -> PassedColumns {
        let drops = !lowered.program.is_total();
        let copied = |source: &OutputSource| match *source {
            OutputSource::Input(input) if drops => Copied::new(lowered.program.inputs[input].phys, inputs, input),
            OutputSource::Input(_) | OutputSource::Emitted(_) => None,
        };
        PassedColumns { copies: lowered.outputs.iter().map(copied).collect(), rows, emitted: 0, are_first: true }
    }

    /// Whether any column is copied step by step.
    pub(super) fn are_copied(&self) -> bool {
        self.copies.iter().any(Option::is_some)
    }

    /// Copies the rows that a step has emitted, after which the program has run over all before `end`.
    ///
    /// # Safety
    /// The rows are rows of the columns that were viewed, and these are alive.
    pub(super) unsafe fn append(&mut self, rows: &[u32], end: usize) {
        let before = self.emitted;
        self.emitted += rows.len();
        if self.are_first && self.emitted == end {
            return;
        }
        let are_first = std::mem::replace(&mut self.are_first, false);
        // As many of the rest as of these, and some more, so that what was copied is not copied again.
        let expected = self.emitted * self.rows / end;
        let expected = (expected + expected / 8).min(self.rows);
        for copied in self.copies.iter_mut().flatten() {
            // SAFETY: promised by the caller; `before` rows were emitted of the columns.
            unsafe {
                if are_first {
                    copied.to.reserve(expected * copied.width);
                    copied.append_first(before);
                }
                copied.append(rows);
            }
        }
    }

    /// Output column `output`, which is `column` at the rows emitted, some but not all of its own.
    pub(super) fn take(
        &mut self,
        output: usize,
        column: &ArrayRef,
        rows: &UInt32Array,
    ) -> Result<ArrayRef, Diagnostic> {
        match self.copies[output].take() {
            Some(_) if self.are_first => Ok(column.slice(0, rows.len())),
            Some(copied) => Ok(copied.into_array(column, rows.len())),
            None => super::take(column, rows),
        }
    }
}

/// The copy of a column whose values have a fixed width and none of which is NULL. Of strings the views are copied.
struct Copied {
    /// Bytes of a value.
    width: usize,
    /// The column's values.
    from: *const u8,
    to: MutableBuffer,
}

impl Copied {
    /// `None` for other columns.
    fn new(phys: Phys, inputs: &InputColumns, input: usize) -> Option<Copied> {
        let view = inputs.view_of(input);
        let is_plain = phys != Phys::Bool && view.validity.is_null();
        is_plain.then(|| Copied { width: phys.size(), from: view.values, to: MutableBuffer::new(0) })
    }

    /// Copies the first rows.
    ///
    /// # Safety
    /// The column has so many.
    unsafe fn append_first(&mut self, rows: usize) {
        // SAFETY: promised by the caller.
        self.to.extend_from_slice(unsafe { slice::from_raw_parts(self.from, rows * self.width) });
    }

    /// Copies rows of the column.
    ///
    /// # Safety
    /// They are rows of it.
    unsafe fn append(&mut self, rows: &[u32]) {
        let before = self.to.len();
        self.to.reserve(rows.len() * self.width);
        // SAFETY: there is room for the values behind what is there, and the caller promises that they exist.
        unsafe {
            let to = self.to.as_mut_ptr().add(before);
            match self.width {
                1 => gather::<u8>(self.from, rows, to),
                2 => gather::<u16>(self.from, rows, to),
                4 => gather::<u32>(self.from, rows, to),
                8 => gather::<u64>(self.from, rows, to),
                _ => gather::<u128>(self.from, rows, to),
            }
            self.to.set_len(before + rows.len() * self.width);
        }
    }

    fn into_array(self, column: &ArrayRef, rows: usize) -> ArrayRef {
        let data = column.to_data();
        let mut buffers = data.buffers().to_vec();
        buffers[0] = self.to.into();
        let data = data.into_builder().offset(0).len(rows).nulls(None).buffers(buffers);
        // SAFETY: values of the same column, as many as there are rows; views are of its buffers, which are kept.
        make_array(unsafe { data.build_unchecked() })
    }
}

/// Copies the values at `rows` to `to`.
///
/// # Safety
/// `from` has values there, and `to` is aligned for them and has room for as many as there are rows.
unsafe fn gather<T: Copy>(from: *const u8, rows: &[u32], to: *mut u8) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    for (place, &row) in rows.iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { to.add(place).write(from.add(row as usize).read_unaligned()) };
    }
}
