//! Reading fields of packed records in place: by stride, unaligned. Only bytes of the record are read, so the last record
//! may end where memory does.

use super::Emitter;
use super::ir::{Basic, Emitted, Int, Ptr};
use crate::error::JitError;
use crate::runtime;
use inkwell::IntPredicate;
use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::BasicValue;
use millstream_abi::{Phys, Str};
use millstream_codegen::program::{InRecord, Layout};
use std::num::NonZero;

impl<'c> Emitter<'c, '_> {
    /// Address of a field of the current row's record. All fields are of the same records, so one address is kept for them.
    fn field(&mut self, place: InRecord) -> Emitted<Ptr<'c>> {
        let is_field = |layout: &Layout| matches!(layout, Layout::Record(_));
        let first = self.program.inputs.iter().position(|input| is_field(&input.layout));
        let first = first.expect("a field of a record is an input in one");
        let records = self.column(first as u32)?.values;
        let ir = &self.ir;
        let start = ir.b.build_int_mul(self.row, ir.word(place.length as u64), "record.start")?;
        let record = ir.element(ir.i8, records, start, "record")?;
        ir.at(record, place.offset, "field")
    }

    /// Loads from a field, whatever its alignment.
    fn load_unaligned(&self, ty: BasicTypeEnum<'c>, from: Ptr<'c>, name: &str) -> Emitted<Basic<'c>> {
        let value = self.ir.load_input(ty, from, name)?;
        if let Some(instruction) = value.as_instruction_value() {
            // Fails only for instructions that access no memory, which this does.
            let _ = instruction.set_alignment(1);
        }
        Ok(value)
    }

    /// The first `count` bytes of a field as a number of at least as many, zero-extended. Where the record is long
    /// enough, they are read as a machine integer, and the rest of it is cleared.
    fn bytes_of(&self, field: Ptr<'c>, place: InRecord, count: usize, ty: IntType<'c>, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let read = Some(count.next_power_of_two()).filter(|read| place.offset + read <= place.length).unwrap_or(count);
        let width = NonZero::new(8 * read as u32).ok_or_else(|| JitError::Generation("a field of no bytes".into()))?;
        let narrow = ir.context.custom_width_int_type(width).map_err(|e| JitError::Generation(e.into()))?;
        let mut bytes = self.load_unaligned(narrow.into(), field, &format!("{name}.bytes"))?.into_int_value();
        if read > count {
            let mask = ir.constant(narrow, (1i128 << (8 * count)) - 1);
            bytes = ir.b.build_and(bytes, mask, &format!("{name}.low"))?;
        }
        Ok(if narrow == ty { bytes } else { ir.b.build_int_z_extend(bytes, ty, name)? })
    }

    /// `Op::LoadBytes`
    pub(super) fn load_bytes(&mut self, input: u32, count: u32, name: &str) -> Emitted<Int<'c>> {
        let Layout::Record(place) = self.program.inputs[input as usize].layout else {
            unreachable!("the verifier lets only fields of records be read by bytes");
        };
        let field = self.field(place)?;
        self.bytes_of(field, place, count as usize, self.ir.i128, name)
    }

    /// `Op::Load` of a field.
    pub(super) fn load_field(&mut self, phys: Phys, place: InRecord, name: &str) -> Emitted<Basic<'c>> {
        let field = self.field(place)?;
        match phys {
            Phys::Str if place.width <= Str::INLINE => Ok(self.short_text(field, place, name)?.into()),
            Phys::Str => Ok(self.long_text(field, place, name)?.into()),
            _ => {
                let ty = self.ir.memory_type(phys);
                let value = self.load_unaligned(ty, field, name)?;
                self.to_register(value, phys)
            }
        }
    }

    /// A text of at most 12 bytes: all that counts is in the value itself. What stands behind its end is cleared.
    fn short_text(&self, field: Ptr<'c>, place: InRecord, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let ty = if place.width <= 8 { ir.i64 } else { ir.i128 };
        let bytes = self.bytes_of(field, place, place.width, ty, name)?;
        let (bytes, length) =
            if place.ends_at_zero { self.until_zero(bytes)? } else { (bytes, ir.constant(ty, place.width as i128)) };
        let wide =
            |value: Int<'c>| if ty == ir.i128 { Ok(value) } else { ir.b.build_int_z_extend(value, ir.i128, "wide") };
        let shifted = ir.b.build_left_shift(wide(bytes)?, ir.constant(ir.i128, 32), "text.bytes")?;
        Ok(ir.b.build_or(shifted, wide(length)?, name)?)
    }

    /// Clears the bytes from the first 0 on, and counts those before it: as many as the number has if none is 0.
    fn until_zero(&self, bytes: Int<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let ir = &self.ir;
        let ty = bytes.get_type();
        let repeated = |byte: u8| ir.constant(ty, i128::from_le_bytes([byte; 16]));
        // The lowest bit that is set here is the upper one of the first byte of 0.
        let borrowed = ir.b.build_int_sub(bytes, repeated(0x01), "text.borrowed")?;
        let without = ir.b.build_and(borrowed, ir.b.build_not(bytes, "text.not")?, "text.without")?;
        let zeros = ir.b.build_and(without, repeated(0x80), "text.zeros")?;
        let first = ir.b.build_and(zeros, ir.b.build_int_neg(zeros, "text.negated")?, "text.end.bit")?;
        let below = ir.b.build_right_shift(first, ir.constant(ty, 7), false, "text.end")?;
        let mask = ir.b.build_int_sub(below, ir.constant(ty, 1), "text.mask")?;
        let kept = ir.b.build_and(bytes, mask, "text.kept")?;
        let may_be_zero = ir.i1.const_zero();
        let bit = ir.intrinsic("llvm.cttz", &[ty.into()], &[zeros.into(), may_be_zero.into()], "text.bit")?;
        let length = ir.b.build_right_shift(bit.into_int_value(), ir.constant(ty, 3), false, "text.length")?;
        Ok((kept, length))
    }

    /// A text of more than 12 bytes at most: a view of the record, unless it is short.
    fn long_text(&self, field: Ptr<'c>, place: InRecord, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let address = ir.b.build_ptr_to_int(field, ir.i64, "text.address")?;
        let width = ir.word(place.width as u64);
        let length = if place.ends_at_zero {
            ir.result(self.support(runtime::TEXT_LENGTH), &[address.into(), width.into()], "text.length")?
                .into_int_value()
        } else {
            width
        };
        let start = self.bytes_of(field, place, Str::INLINE, ir.i128, name)?;
        let shifted = ir.b.build_left_shift(start, ir.constant(ir.i128, 32), "text.bytes")?;
        let low = ir.b.build_or(ir.b.build_int_truncate(shifted, ir.i64, "text.start")?, length, "text.low")?;
        let long = ir.join(low, address, "text.view")?;
        if !place.ends_at_zero {
            return Ok(long);
        }
        let is_long = ir.compare(IntPredicate::UGT, length, ir.word(Str::INLINE as u64), "text.is_long")?;
        let inline = ir.select(is_long, ir.word(0).into(), length.into(), "text.inline")?.into_int_value();
        let bits = ir.b.build_left_shift(inline, ir.word(3), "text.bits")?;
        let bits = ir.b.build_int_z_extend(bits, ir.i128, "text.bits.wide")?;
        let above = ir.b.build_left_shift(ir.i128.const_all_ones(), bits, "text.above")?;
        let kept = ir.b.build_and(start, ir.b.build_not(above, "text.mask")?, "text.kept")?;
        let kept = ir.b.build_left_shift(kept, ir.constant(ir.i128, 32), "text.inlined")?;
        let wide = ir.b.build_int_z_extend(length, ir.i128, "text.length.wide")?;
        let short = ir.b.build_or(kept, wide, "text.short")?;
        Ok(ir.select(is_long, long.into(), short.into(), name)?.into_int_value())
    }
}
