//! Reading of input columns and watermarks.

use super::Machine;
use super::lanes::{Lane, Lanes, Selection, with_type};
use crate::program::{InRecord, Layout, Op, Value};
use millstream_abi::{ColumnView, Phys, Str};

impl Machine<'_> {
    /// Executes a load, a validity test or the load of a view of input `index`.
    ///
    /// # Safety
    /// The context's column `index` is as `Kernel::run` asks, for the rows of the selection.
    pub(super) unsafe fn load(&mut self, value: Value, op: &Op, index: u32, selection: &Selection) {
        // SAFETY: the context has a column for each input, and the verifier has checked the index.
        let view = unsafe { *self.context.columns.add(index as usize) };
        let first = self.first_row;
        let mut target = self.take(value);
        let input = &self.program.inputs[index as usize];
        match op {
            Op::IsValid(_) => {
                let out = bool::slice_mut(&mut target);
                // SAFETY: the row is one of the column's.
                selection.each(|lane| out[lane] = unsafe { is_valid(&view, first + lane as u64) });
            }
            // SAFETY: a Str column has a 16-byte view for each row.
            Op::LoadView(_) => unsafe { copy::<i128>(&view, first, &mut target, selection) },
            _ => match (input.phys, input.layout) {
                (_, Layout::Record(place)) => {
                    let count = if let Op::LoadBytes(_, count) = op { Some(*count as usize) } else { None };
                    // SAFETY: the input's column is the records, one for each row.
                    let field = |lane| unsafe { field(&view, &place, first + lane as u64) };
                    load_field(place.ends_at_zero, count, field, &mut target, selection);
                }
                (Phys::Bool, Layout::Array) => {
                    let out = bool::slice_mut(&mut target);
                    selection.each(|lane| {
                        let bit = view.values_offset + first + lane as u64;
                        // SAFETY: a Bool column has a bit for each row.
                        out[lane] = unsafe { bit_at(view.values, bit) };
                    });
                }
                (Phys::Str, Layout::Array) => {
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
                (phys, Layout::Array) => {
                    // SAFETY: a column has a value of its type for each row.
                    with_type!(phys, T => unsafe { copy::<T>(&view, first, &mut target, selection) });
                }
            },
        }
        self.put(value, target);
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

/// The bytes of a field in the record of `row`.
///
/// # Safety
/// The view's values are records that outlive the result. `row` is the number of one, and `place` is a field.
unsafe fn field<'a>(view: &ColumnView, place: &InRecord, row: u64) -> &'a [u8] {
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(view.values.add(row as usize * place.length + place.offset), place.width) }
}

/// Fills lanes with the values of a field, or with its first `count` bytes.
fn load_field<'a>(
    ends_at_zero: bool,
    count: Option<usize>,
    field: impl Fn(usize) -> &'a [u8],
    target: &mut Lanes,
    selection: &Selection,
) {
    /// The bytes as a number of `N` bytes.
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut array = [0; N];
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }
    let text = |bytes: &'a [u8]| match bytes.iter().position(|&byte| byte == 0) {
        Some(end) if ends_at_zero => Str::new(&bytes[..end]),
        _ => Str::new(bytes),
    };
    match (target, count) {
        (Lanes::I128(out), Some(count)) => {
            selection.each(|lane| out[lane] = i128::from_le_bytes(array(&field(lane)[..count])));
        }
        (Lanes::Bool(out), _) => selection.each(|lane| out[lane] = field(lane)[0] != 0),
        (Lanes::I8(out), _) => selection.each(|lane| out[lane] = i8::from_le_bytes(array(field(lane)))),
        (Lanes::I16(out), _) => selection.each(|lane| out[lane] = i16::from_le_bytes(array(field(lane)))),
        (Lanes::I32(out), _) => selection.each(|lane| out[lane] = i32::from_le_bytes(array(field(lane)))),
        (Lanes::I64(out), _) => selection.each(|lane| out[lane] = i64::from_le_bytes(array(field(lane)))),
        (Lanes::I128(out), _) => selection.each(|lane| out[lane] = i128::from_le_bytes(array(field(lane)))),
        (Lanes::F32(out), _) => selection.each(|lane| out[lane] = f32::from_le_bytes(array(field(lane)))),
        (Lanes::F64(out), _) => selection.each(|lane| out[lane] = f64::from_le_bytes(array(field(lane)))),
        (Lanes::Str(out), _) => selection.each(|lane| out[lane] = text(field(lane))),
    }
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
