//! Exact sums of doubles (`millstream_abi::exact`). A multiple of 2^-20, as integers and binary fractions are, is an integer in units of
//! the upper two words and added to them; a converted integer needs no check for a fraction. Any other number that is near is shifted to
//! its place: in the lower two of the three words, or in the upper two if it is at least 2^32, and added with carry. Each case is a branch, since the
//! numbers of a column are alike. One that is not near is handed to whoever has the table.

use super::Emitter;
use super::ir::{Emitted, Int, Ptr};
use super::update::TableState;
use inkwell::values::FloatValue;
use inkwell::{FloatPredicate, IntPredicate};
use millstream_abi::Phys;
use millstream_abi::exact::{EXPONENTS, LEAST_EXPONENT, MANTISSA_BITS, UNIT};
use millstream_codegen::program::{Access, Component, Op, Value};
use std::num::NonZero;

/// 1 has this bit in the second word.
const UNIT_BITS: u64 = (-64 - UNIT) as u64;

impl<'c> Emitter<'c, '_> {
    /// Adds a double to the sum of component `number` at an offset of an entry, when the guard holds.
    pub(super) fn add_double(
        &self,
        table: &TableState<'c>,
        (entry, offset): (Ptr<'c>, usize),
        (number, argument): (usize, Value),
        component: &Component,
        access: Access,
    ) -> Emitted<()> {
        let ir = &self.ir;
        let bits = ir.b.build_bit_cast(self.value(argument), ir.i64, "double.bits")?.into_int_value();
        let block = |what: &str| ir.block(&format!("update.double.{what}"));
        let (near, other, far, end) = (block("near"), block("other"), block("far"), block("end"));

        if access == Access::Own {
            let (whole, fraction) = (block("whole"), block("fraction"));
            let integer = self.exact_integer(argument)?;
            let (units, is_whole) = match integer {
                Some(integer) => integer,
                None => self.in_units_of_upper_words(self.value(argument).into_float_value())?,
            };
            ir.branch(is_whole, whole, fraction)?;
            ir.enter(whole);
            let units = self.addend(units, component.guard)?;
            let (low, above) = match integer {
                Some(_) => (ir.b.build_left_shift(units, ir.word(UNIT_BITS), "double.low")?, 64 - UNIT_BITS),
                None => (units, 63),
            };
            let above = ir.b.build_right_shift(units, ir.word(above), true, "double.above")?;
            self.add_words(table, (entry, offset + 8), &[low, above])?;
            ir.jump(end)?;
            ir.enter(fraction);
        }

        let exponent = ir.b.build_right_shift(bits, ir.word(MANTISSA_BITS.into()), false, "double.upper")?;
        let exponent = ir.b.build_and(exponent, ir.word(0x7ff), "double.exponent")?;
        let place = ir.b.build_int_sub(exponent, ir.word(LEAST_EXPONENT), "double.place")?;
        let is_far = ir.compare(IntPredicate::UGE, place, ir.word(EXPONENTS), "double.is_far")?;
        ir.branch_rarely(is_far, other, near)?;

        // Zero is not near by its exponent, and nothing to be added; nor is what the guard excludes.
        ir.enter(other);
        let magnitude = ir.b.build_left_shift(bits, ir.word(1), "double.magnitude")?;
        let is_wanted = ir.compare(IntPredicate::NE, magnitude, ir.i64.const_zero(), "double.is_not_zero")?;
        let is_wanted = match component.guard {
            Some(guard) => ir.b.build_and(is_wanted, self.int(guard), "double.is_wanted")?,
            None => is_wanted,
        };
        ir.branch(is_wanted, far, end)?;
        ir.enter(far);
        let field = ir.at(entry, offset, "accumulator")?;
        let unguarded = Component { guard: None, ..component.clone() };
        self.update_object(table, field, number, (argument, Phys::F64), &unguarded)?;
        ir.jump(end)?;

        ir.enter(near);
        let signed = self.addend(self.signed_mantissa(bits)?, component.guard)?;
        let (lower, upper) = (block("lower"), block("upper"));
        let is_upper = ir.compare(IntPredicate::UGE, place, ir.word(64), "double.is_upper")?;
        ir.branch(is_upper, upper, lower)?;
        for (at, first) in [(lower, 0), (upper, 1)] {
            ir.enter(at);
            // Of the place the lower six bits.
            let (low, high) = self.shifted(signed, place)?;
            let words = match first {
                0 => vec![low, high, ir.b.build_right_shift(high, ir.word(63), true, "double.above")?],
                _ => vec![low, high],
            };
            let offset = offset + 8 * first;
            match access {
                Access::Own => self.add_words(table, (entry, offset), &words)?,
                Access::Shared => self.atomic_add_words(ir.at(entry, offset, "accumulator")?, &words)?,
            }
            ir.jump(end)?;
        }
        ir.enter(end);
        Ok(())
    }

    /// The integer that a double was converted from, or its square, and whether the double has exactly that value.
    fn exact_integer(&self, argument: Value) -> Emitted<Option<(Int<'c>, Int<'c>)>> {
        let ir = &self.ir;
        let b = &ir.b;
        let converted = |value: Value| match self.operations.get(&value) {
            Some(&&Op::Convert(integer)) => match self.program.type_of(integer) {
                Phys::I8 => Some((integer, 7)),
                Phys::I16 => Some((integer, 15)),
                Phys::I32 => Some((integer, 31)),
                Phys::I64 => Some((integer, 63)),
                _ => None,
            },
            _ => None,
        };
        let (converted, exact_bits, is_square) = match self.operations.get(&argument) {
            Some(&&Op::Mul(a, b)) if a == b => (converted(a), 26, true),
            _ => (converted(argument), 53, false),
        };
        let Some((integer, bits)) = converted else { return Ok(None) };
        let integer = b.build_int_s_extend_or_bit_cast(self.int(integer), ir.i64, "integer")?;
        let is_exact = if bits <= exact_bits {
            ir.i1.const_int(1, false)
        } else {
            let moved = b.build_int_add(integer, ir.word(1 << exact_bits), "integer.moved")?;
            ir.compare(IntPredicate::ULE, moved, ir.word(2 << exact_bits), "integer.is_exact")?
        };
        let integer = if is_square { b.build_int_mul(integer, integer, "integer.square")? } else { integer };
        Ok(Some((integer, is_exact)))
    }

    /// A double as an integer in units of the second word, and whether it is one.
    fn in_units_of_upper_words(&self, x: FloatValue<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let ir = &self.ir;
        let b = &ir.b;
        let scaled = b.build_float_mul(x, ir.f64.const_float((1u64 << UNIT_BITS) as f64), "double.scaled")?;
        // The conversion of a double that is too large, or no number, is undefined. It is limited before, and then differs from itself.
        let limit = (1i64 << 62) as f64;
        let mut limited = scaled;
        for (is_within, limit) in [(FloatPredicate::OLT, limit), (FloatPredicate::OGT, -limit)] {
            let limit = ir.f64.const_float(limit);
            let is_within = b.build_float_compare(is_within, limited, limit, "double.is_within")?;
            limited = ir.select(is_within, limited.into(), limit.into(), "double.limited")?.into_float_value();
        }
        let units = b.build_float_to_signed_int(limited, ir.i64, "double.units")?;
        let back = b.build_signed_int_to_float(units, ir.f64, "double.back")?;
        Ok((units, b.build_float_compare(FloatPredicate::OEQ, back, scaled, "double.is_whole")?))
    }

    /// A number that is added; 0 when the guard excludes it.
    fn addend(&self, number: Int<'c>, guard: Option<Value>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        match guard {
            Some(guard) => {
                Ok(ir.select(self.int(guard), number.into(), ir.i64.const_zero().into(), "addend")?.into_int_value())
            }
            None => Ok(number),
        }
    }

    /// The mantissa of a double that is near, with its sign.
    fn signed_mantissa(&self, bits: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let b = &ir.b;
        let mantissa = b.build_and(bits, ir.word((1 << MANTISSA_BITS) - 1), "double.fraction")?;
        let mantissa = b.build_or(mantissa, ir.word(1 << MANTISSA_BITS), "double.mantissa")?;
        let sign = b.build_right_shift(bits, ir.word(63), true, "double.sign")?;
        let signed = b.build_xor(mantissa, sign, "double.flipped")?;
        Ok(b.build_int_sub(signed, sign, "double.signed")?)
    }

    /// A word moved to the left by fewer than 64 bits, as two.
    fn shifted(&self, signed: Int<'c>, place: Int<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let ir = &self.ir;
        let wide = ir.b.build_int_s_extend(signed, ir.i128, "double.wide")?;
        let shift = ir.b.build_and(place, ir.word(63), "double.shift")?;
        let shift = ir.b.build_int_z_extend(shift, ir.i128, "double.shift_wide")?;
        ir.halves(ir.b.build_left_shift(wide, shift, "double.moved")?)
    }

    /// Adds words with carry.
    fn add_words(&self, table: &TableState<'c>, (entry, offset): (Ptr<'c>, usize), words: &[Int<'c>]) -> Emitted<()> {
        let ir = &self.ir;
        let b = &ir.b;
        let width = NonZero::new(64 * words.len() as u32).expect("there are words");
        let whole = ir.i128.get_context().custom_width_int_type(width).expect("a width that LLVM has");
        let together = |words: &[Int<'c>]| -> Emitted<Int<'c>> {
            let mut sum = whole.const_zero();
            for (i, &word) in words.iter().enumerate() {
                let word = b.build_int_z_extend(word, whole, "word.wide")?;
                let word = b.build_left_shift(word, whole.const_int(64 * i as u64, false), "word.moved")?;
                sum = b.build_or(sum, word, "words")?;
            }
            Ok(sum)
        };
        let mut places = Vec::with_capacity(words.len());
        for i in 0..words.len() {
            let at = offset + 8 * i;
            places.push(match table.single.as_ref().and_then(|single| single.local(at)) {
                Some(local) => local,
                None => ir.at(entry, at, "accumulator")?,
            });
        }
        let mut old = vec![ir.i64.const_zero(); words.len()];
        for (word, &place) in old.iter_mut().zip(&places) {
            *word = ir.load_word(place, "sum.old")?;
        }
        let sum = b.build_int_add(together(&old)?, together(words)?, "sum.new")?;
        for (i, &place) in places.iter().enumerate() {
            let word = b.build_right_shift(sum, whole.const_int(64 * i as u64, false), false, "sum.upper")?;
            ir.store(place, b.build_int_truncate(word, ir.i64, "sum.word")?.into())?;
        }
        Ok(())
    }
}
