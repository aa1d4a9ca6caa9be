//! Reading input columns in place: values, bitmaps, string views, watermarks. Their addresses are hoisted.

use super::Emitter;
use super::ir::{Basic, Emitted, Int, Ir, Ptr};
use crate::uniform::Uniform;
use inkwell::IntPredicate;
use inkwell::types::{BasicType, BasicTypeEnum};
use millstream_abi::{ColumnView, ExecContext, Phys, Str};
use millstream_codegen::program::Layout;
use std::mem::offset_of;

/// Rows that columns are fetched ahead: 2 KB of values of eight bytes. Measured: from 1 KB on the memory has been read in time.
const ROWS_AHEAD: u64 = 256;

/// A bitmap, least significant bit first.
#[derive(Clone, Copy)]
struct Bitmap<'c> {
    bytes: Ptr<'c>,
    /// Bit of row 0.
    offset: Int<'c>,
    /// All ones, or zero for a bitmap that is one byte of ones, which every row then reads.
    reach: Int<'c>,
}

/// Hoisted addresses of an input column.
#[derive(Clone, Copy)]
pub(super) struct Column<'c> {
    view: Ptr<'c>,
    /// Address of the first value, or of the first record.
    pub(super) values: Ptr<'c>,
    validity: Option<Bitmap<'c>>,
    bits: Option<Int<'c>>,
    buffers: Option<Ptr<'c>>,
}

/// Loads a field of a `ColumnView`.
fn field<'c>(ir: &Ir<'c>, ty: impl BasicType<'c>, view: Ptr<'c>, offset: usize, name: &str) -> Emitted<Basic<'c>> {
    ir.load_input(ty, ir.at(view, offset, name)?, name)
}

impl<'c> Emitter<'c, '_> {
    /// The column of an input, whose address is loaded once a run.
    pub(super) fn column(&mut self, input: u32) -> Emitted<Column<'c>> {
        if let Some(column) = self.columns.get(&input) {
            return Ok(*column);
        }
        let declared = &self.program.inputs[input as usize];
        let name = |what: &str| format!("{}.{what}", declared.name);
        let context = self.context;
        let column = self.ir.hoist(|ir| {
            let views = ir.load_field(context, offset_of!(ExecContext, columns), "columns")?;
            let view = ir.at(views, input as usize * size_of::<ColumnView>(), &name("view"))?;
            let pointer = |offset: usize, what: &str| {
                Emitted::Ok(field(ir, ir.ptr, view, offset, &name(what))?.into_pointer_value())
            };
            let mut column = Column {
                view,
                values: pointer(offset_of!(ColumnView, values), "values")?,
                validity: None,
                bits: None,
                buffers: None,
            };
            match declared.phys {
                Phys::Bool => {
                    let bits = field(ir, ir.i64, view, offset_of!(ColumnView, values_offset), &name("bit"))?;
                    column.bits = Some(bits.into_int_value());
                }
                Phys::Str => column.buffers = Some(pointer(offset_of!(ColumnView, buffers), "buffers")?),
                _ => {}
            }
            Ok(column)
        })?;
        self.columns.insert(input, column);
        Ok(column)
    }

    /// The bounds of an input's values, if they are known: null or the address of the first zone.
    pub(super) fn zones(&mut self, input: u32) -> Emitted<Ptr<'c>> {
        let view = self.column(input)?.view;
        let offset = offset_of!(ColumnView, zones);
        self.ir.hoist(|ir| Ok(field(ir, ir.ptr, view, offset, "zones")?.into_pointer_value()))
    }

    /// The validity bitmap of an input. A missing one is replaced by one byte of ones, so that rows need no branch.
    fn validity(&mut self, input: u32) -> Emitted<Bitmap<'c>> {
        let mut column = self.column(input)?;
        if let Some(bitmap) = column.validity {
            return Ok(bitmap);
        }
        let ones = self.ones();
        let name = |what: &str| format!("{}.{what}", self.program.inputs[input as usize].name);
        let bitmap = self.ir.hoist(|ir| {
            let view = column.view;
            let bytes = field(ir, ir.ptr, view, offset_of!(ColumnView, validity), &name("validity"))?;
            let offset = field(ir, ir.i64, view, offset_of!(ColumnView, validity_offset), &name("validity.bit"))?;
            let missing = ir.b.build_is_null(bytes.into_pointer_value(), &name("validity.missing"))?;
            let bytes = ir.select(missing, ones.into(), bytes, &name("validity.bytes"))?;
            let reach = ir.select(missing, ir.word(0).into(), ir.word(u64::MAX).into(), &name("validity.reach"))?;
            Ok(Bitmap {
                bytes: bytes.into_pointer_value(),
                offset: offset.into_int_value(),
                reach: reach.into_int_value(),
            })
        })?;
        column.validity = Some(bitmap);
        self.columns.insert(input, column);
        Ok(bitmap)
    }

    /// A constant byte of ones.
    fn ones(&self) -> Ptr<'c> {
        self.ir.constant_in_memory("all_valid", || self.ir.i8.const_all_ones())
    }

    fn bit(&self, bitmap: Bitmap<'c>, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let bit = ir.b.build_int_add(bitmap.offset, self.row, "bit")?;
        let byte = ir.b.build_right_shift(bit, ir.word(3), false, "byte")?;
        let byte = ir.b.build_and(byte, bitmap.reach, "byte.reached")?;
        let byte = ir.load_input(ir.i8, ir.element(ir.i8, bitmap.bytes, byte, "byte.place")?, "byte.value")?;
        let shift = ir.b.build_int_truncate(bit, ir.i8, "shift")?;
        let shift = ir.b.build_and(shift, ir.constant(ir.i8, 7), "shift.low")?;
        let shifted = ir.b.build_right_shift(byte.into_int_value(), shift, false, "shifted")?;
        Ok(ir.b.build_int_truncate(shifted, ir.i1, name)?)
    }

    /// `Op::IsValid`
    pub(super) fn is_valid(&mut self, input: u32, name: &str) -> Emitted<Int<'c>> {
        if !self.program.inputs[input as usize].nullable {
            return Ok(self.ir.i1.const_int(1, false));
        }
        let bitmap = self.validity(input)?;
        self.bit(bitmap, name)
    }

    /// `Op::Load`
    pub(super) fn load_column(&mut self, input: u32, name: &str) -> Emitted<Basic<'c>> {
        let phys = self.program.inputs[input as usize].phys;
        if let Layout::Record(place) = self.program.inputs[input as usize].layout {
            return self.load_field(phys, place, name);
        }
        let column = self.column(input)?;
        match (phys, column.bits, column.buffers) {
            (Phys::Bool, Some(offset), _) => {
                let reach = self.ir.word(u64::MAX);
                Ok(self.bit(Bitmap { bytes: column.values, offset, reach }, name)?.into())
            }
            (Phys::Str, _, Some(buffers)) => Ok(self.load_string(input, buffers, name)?.into()),
            _ => {
                let ty = self.ir.memory_type(phys);
                self.prefetch(input, ty, column.values)?;
                self.ir.load_input(ty, self.value_place(ty, column.values)?, name)
            }
        }
    }

    /// Where the row's value of a column is. In a loop over all rows of a block as a distance from that of the block's first row:
    /// then LLVM sees that neighbours are 16 bytes apart, and takes the words of views from whole vectors.
    fn value_place(&self, ty: BasicTypeEnum<'c>, values: Ptr<'c>) -> Emitted<Ptr<'c>> {
        let ir = &self.ir;
        match self.block_start {
            Some(start) => {
                let first = ir.element(ty, values, start, "place.first")?;
                ir.element(ty, first, self.row_in_block, "place")
            }
            None => ir.element(ty, values, self.row, "place"),
        }
    }

    /// Fetches a column's value for a later row, when most lines of its memory are read. The processor reads ahead by itself, but it
    /// starts over in each page, and gets less far the more there is to do for a row.
    fn prefetch(&self, input: u32, ty: BasicTypeEnum<'c>, values: Ptr<'c>) -> Emitted<()> {
        // Times of rows within one slice are not read, unless they are aggregated too.
        let is_time = |uniform: &Uniform| uniform.times.values().any(|&time| time == input);
        if self.uniform.is_none() || self.plan.uniform.as_ref().is_some_and(is_time) {
            return Ok(());
        }
        let ir = &self.ir;
        let row = ir.b.build_int_add(self.row, ir.word(ROWS_AHEAD), "row.ahead")?;
        ir.prefetch(ty, values, row)
    }

    /// `Op::LoadView`. By words, since LLVM makes no vectors of wider integers.
    pub(super) fn load_view(&mut self, input: u32, name: &str) -> Emitted<Int<'c>> {
        let column = self.column(input)?;
        let ir = &self.ir;
        self.prefetch(input, ir.i128.into(), column.values)?;
        let place = self.value_place(ir.i128.into(), column.values)?;
        let low = ir.load_input(ir.i64, place, "view.low")?.into_int_value();
        let high = ir.load_input(ir.i64, ir.at(place, 8, "view.rest")?, "view.high")?.into_int_value();
        ir.join(low, high, name)
    }

    /// A string, its buffer number and offset replaced by an address when it is long. The view of a NULL row may be
    /// garbage: it counts as the empty string.
    fn load_string(&mut self, input: u32, buffers: Ptr<'c>, name: &str) -> Emitted<Int<'c>> {
        let mut view = self.load_view(input, &format!("{name}.view"))?;
        if self.program.inputs[input as usize].nullable {
            let valid = self.is_valid(input, &format!("{name}.valid"))?;
            let empty = self.ir.i128.const_zero();
            view = self.ir.select(valid, view.into(), empty.into(), &format!("{name}.safe"))?.into_int_value();
        }
        let ir = &self.ir;
        let (long, end) = (ir.block(&format!("{name}.long")), ir.block(&format!("{name}.loaded")));
        let (low, high) = ir.halves(view)?;
        let before = ir.current();
        ir.branch(self.is_long(low)?, long, end)?;
        ir.enter(long);
        let buffer = ir.b.build_and(high, ir.word(u32::MAX as u64), "buffer")?;
        let offset = ir.b.build_right_shift(high, ir.word(32), false, "offset")?;
        let place = ir.element(ir.ptr, buffers, buffer, "buffer.place")?;
        let start = ir.load_input(ir.ptr, place, "buffer.start")?.into_pointer_value();
        let address = ir.element(ir.i8, start, offset, "address")?;
        let address = ir.b.build_ptr_to_int(address, ir.i64, "address.word")?;
        let resolved = ir.join(low, address, "resolved")?;
        ir.jump(end)?;
        ir.enter(end);
        Ok(ir.merge(&[(view.into(), before), (resolved.into(), long)], name)?.into_int_value())
    }

    /// Whether a string with this low word is longer than [`Str::INLINE`].
    pub(super) fn is_long(&self, low: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let length = ir.b.build_int_truncate(low, ir.i32, "length")?;
        ir.compare(IntPredicate::UGT, length, ir.constant(ir.i32, Str::INLINE as i128), "is_long")
    }

    /// `Op::Watermark`
    pub(super) fn watermark(&mut self, name: &str) -> Emitted<Int<'c>> {
        let context = self.context;
        let (base, mask) = match self.watermarks {
            Some(found) => found,
            None => self.ir.hoist(|ir| {
                let base = ir.load_field(context, offset_of!(ExecContext, watermarks), "watermarks")?;
                let place = ir.at(context, offset_of!(ExecContext, watermark_stride), "watermark.stride")?;
                let stride = ir.load_word(place, "watermark.stride")?;
                // Stride 0 gives no bits, stride 1 all of them: an `and` in place of a multiplication.
                Ok((base, ir.b.build_int_neg(stride, "watermark.mask")?))
            })?,
        };
        self.watermarks = Some((base, mask));
        let ir = &self.ir;
        let index = ir.b.build_and(self.row, mask, "watermark.index")?;
        let place = ir.element(ir.i64, base, index, "watermark.place")?;
        Ok(ir.load_input(ir.i64, place, name)?.into_int_value())
    }
}
