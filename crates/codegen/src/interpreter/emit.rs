//! Emitting rows: values, validity and the number of the input row.

use super::Machine;
use super::lanes::{Lane, Selection, with_type};
use crate::program::{Emit, Value};
use millstream_abi::{OutputColumn, Phys, Str};

impl Machine<'_> {
    /// Appends the rows of the selection to the outputs.
    ///
    /// # Safety
    /// The context's outputs have room for them and the columns' types.
    pub(super) unsafe fn emit(&mut self, columns: &[Emit], selection: &Selection) {
        let start = self.context.out_rows as usize;
        for (i, column) in columns.iter().enumerate() {
            // SAFETY: the context has an output for each emitted column.
            let output = unsafe { *self.context.outputs.add(i) };
            let phys = self.program.type_of(column.value);
            // SAFETY: the output has room for values of this type.
            with_type!(phys, T => unsafe { self.write::<T>(output, start, column.value, selection) });
            if let Some(valid) = column.valid {
                let valid = self.lanes::<bool>(valid);
                let mut row = start;
                selection.each(|lane| {
                    // SAFETY: a column that can be NULL has a validity byte for each row.
                    unsafe { *output.valid.add(row) = valid[lane] as u8 };
                    row += 1;
                });
            }
        }
        let (mut row, first, is_total) = (start, self.first_row, self.program.is_total());
        selection.each(|lane| {
            if !is_total {
                // SAFETY: the selection has room for each row.
                unsafe { *self.context.out_selection.add(row) = (first + lane as u64) as u32 };
            }
            row += 1;
        });
        self.context.out_rows = row as u64;
    }

    /// # Safety
    /// The output has room for the rows of the selection, from `start` on, as values of type `T`.
    unsafe fn write<T: Lane>(&self, output: OutputColumn, start: usize, value: Value, selection: &Selection) {
        let values = self.lanes::<T>(value);
        let out = output.values.cast::<T>();
        let mut row = start;
        selection.each(|lane| {
            // SAFETY: promised by the caller.
            unsafe { out.add(row).write_unaligned(values[lane]) };
            row += 1;
        });
    }
}
