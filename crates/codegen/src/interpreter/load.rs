//! Reading of input columns and watermarks.

use super::Machine;
use super::lanes::{Lane, Lanes, Selection, with_type};
use crate::program::{Op, Value};
use millstream_abi::{ColumnView, Phys, Str};
use std::mem;

impl Machine<'_> {
    /// Executes a load, a validity test or the load of a view of input `index`.
    ///
    /// # Safety
    /// The context's column `index` is as `Kernel::run` asks, for the rows of the selection.
    pub(super) unsafe fn load(&mut self, value: Value, op: &Op, index: u32, selection: &Selection) {
        // SAFETY: the context has a column for each input, and the verifier has checked the index.
        let view = unsafe { *self.context.columns.add(index as usize) };
        let first = self.first_row;
        let mut target = mem::replace(&mut self.registers[value.0 as usize], Lanes::taken());
        match op {
            Op::IsValid(_) => {
                let out = bool::slice_mut(&mut target);
                // SAFETY: the row is one of the column's.
                selection.each(|lane| out[lane] = unsafe { is_valid(&view, first + lane as u64) });
            }
            // SAFETY: a Str column has a 16-byte view for each row.
            Op::LoadView(_) => unsafe { copy::<i128>(&view, first, &mut target, selection) },
            _ => match self.program.inputs[index as usize].phys {
                Phys::Bool => {
                    let out = bool::slice_mut(&mut target);
                    selection.each(|lane| {
                        let bit = view.values_offset + first + lane as u64;
                        // SAFETY: a Bool column has a bit for each row.
                        out[lane] = unsafe { bit_at(view.values, bit) };
                    });
                }
                Phys::Str => {
                    let out = Str::slice_mut(&mut target);
                    selection.each(|lane| {
                        let row = first + lane as u64;
                        // SAFETY: the row is one of the column's; its view is only resolved when it is not NULL.
                        out[lane] = unsafe {
                            if is_valid(&view, row) {
                                let bits = view.values.cast::<u128>().add(row as usize).read_unaligned();
                                Str::from_view(bits, view.buffers)
                            } else {
                                Str::EMPTY
                            }
                        };
                    });
                }
                // SAFETY: a column has a value of its type for each row.
                phys => with_type!(phys, T => unsafe { copy::<T>(&view, first, &mut target, selection) }),
            },
        }
        self.registers[value.0 as usize] = target;
    }

    /// Executes `Op::Watermark`.
    ///
    /// # Safety
    /// The context's watermarks are as `Kernel::run` asks.
    pub(super) unsafe fn watermark(&mut self, value: Value, selection: &Selection) {
        let (watermarks, stride, first) = (self.context.watermarks, self.context.watermark_stride, self.first_row);
        let out = i64::slice_mut(&mut self.registers[value.0 as usize]);
        selection.each(|lane| {
            // SAFETY: there is one watermark, or one for each row.
            out[lane] = unsafe { *watermarks.add(((first + lane as u64) * stride) as usize) };
        });
    }
}

/// Copies plain values of rows `first…` into lanes.
///
/// # Safety
/// The column holds values of type `T` for these rows.
unsafe fn copy<T: Lane>(view: &ColumnView, first: u64, target: &mut Lanes, selection: &Selection) {
    let out = T::slice_mut(target);
    let values = view.values.cast::<T>();
    selection.each(|lane| {
        // SAFETY: promised by the caller.
        out[lane] = unsafe { values.add(first as usize + lane).read_unaligned() };
    });
}

/// Whether the column is not NULL in `row`.
///
/// # Safety
/// The row is one of the column's.
#[inline]
unsafe fn is_valid(view: &ColumnView, row: u64) -> bool {
    // SAFETY: a validity bitmap has a bit for each row.
    view.validity.is_null() || unsafe { bit_at(view.validity, view.validity_offset + row) }
}

/// Bit `index` of a bitmap.
///
/// # Safety
/// The bitmap has that many bits.
#[inline]
unsafe fn bit_at(bitmap: *const u8, index: u64) -> bool {
    // SAFETY: promised by the caller.
    let byte = unsafe { *bitmap.add((index / 8) as usize) };
    byte >> (index % 8) & 1 != 0
}
