//! Exact sums of doubles (`millstream_abi::exact`). A number that is near is moved to its place in three words by a shift and
//! selections, without a branch, and added with carry. One that is not is handed to whoever has the table.

use super::Emitter;
use super::ir::{Emitted, Int, Ptr};
use super::update::TableState;
use inkwell::IntPredicate;
use millstream_abi::Phys;
use millstream_abi::exact::{EXPONENTS, LEAST_EXPONENT, MANTISSA_BITS};
use millstream_codegen::program::{Access, Component, Value};
use std::num::NonZero;

/// Bits of three words.
const WIDTH: NonZero<u32> = NonZero::new(192).expect("it is not 0");

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
        let words = self.words_of_double(bits, place, component.guard.map(|guard| self.int(guard)))?;
        match access {
            Access::Own => self.add_words(table, (entry, offset), words)?,
            Access::Shared => self.atomic_add_words(ir.at(entry, offset, "accumulator")?, words)?,
        }
        ir.jump(end)?;
        ir.enter(end);
        Ok(())
    }

    /// The three words of a double that is near; of one that the guard excludes, zeros.
    fn words_of_double(&self, bits: Int<'c>, place: Int<'c>, guard: Option<Int<'c>>) -> Emitted<[Int<'c>; 3]> {
        let ir = &self.ir;
        let b = &ir.b;
        let mantissa = b.build_and(bits, ir.word((1 << MANTISSA_BITS) - 1), "double.fraction")?;
        let mantissa = b.build_or(mantissa, ir.word(1 << MANTISSA_BITS), "double.mantissa")?;
        let sign = b.build_right_shift(bits, ir.word(63), true, "double.sign")?;
        let signed = b.build_xor(mantissa, sign, "double.flipped")?;
        let mut signed = b.build_int_sub(signed, sign, "double.signed")?;
        if let Some(guard) = guard {
            signed = ir.select(guard, signed.into(), ir.i64.const_zero().into(), "addend")?.into_int_value();
        }
        let wide = b.build_int_s_extend(signed, ir.i128, "double.wide")?;
        let shift = b.build_and(place, ir.word(63), "double.shift")?;
        let shift = b.build_int_z_extend(shift, ir.i128, "double.shift_wide")?;
        let (low, high) = ir.halves(b.build_left_shift(wide, shift, "double.moved")?)?;
        let above = b.build_right_shift(high, ir.word(63), true, "double.above")?;
        let is_upper = ir.compare(IntPredicate::UGE, place, ir.word(64), "double.is_upper")?;
        let choose = |upper: Int<'c>, lower: Int<'c>| -> Emitted<Int<'c>> {
            Ok(ir.select(is_upper, upper.into(), lower.into(), "double.word")?.into_int_value())
        };
        Ok([choose(ir.i64.const_zero(), low)?, choose(low, high)?, choose(high, above)?])
    }

    /// Adds words with carry.
    fn add_words(&self, table: &TableState<'c>, (entry, offset): (Ptr<'c>, usize), words: [Int<'c>; 3]) -> Emitted<()> {
        let ir = &self.ir;
        let b = &ir.b;
        let whole = ir.i128.get_context().custom_width_int_type(WIDTH).expect("a width that LLVM has");
        let together = |words: [Int<'c>; 3]| -> Emitted<Int<'c>> {
            let mut sum = whole.const_zero();
            for (i, word) in words.into_iter().enumerate() {
                let word = b.build_int_z_extend(word, whole, "word.wide")?;
                let word = b.build_left_shift(word, whole.const_int(64 * i as u64, false), "word.moved")?;
                sum = b.build_or(sum, word, "words")?;
            }
            Ok(sum)
        };
        let mut places = Vec::with_capacity(3);
        for i in 0..3 {
            let at = offset + 8 * i;
            places.push(match table.single.as_ref().and_then(|single| single.local(at)) {
                Some(local) => local,
                None => ir.at(entry, at, "accumulator")?,
            });
        }
        let mut old = [ir.i64.const_zero(); 3];
        for (word, &place) in old.iter_mut().zip(&places) {
            *word = ir.load_word(place, "sum.old")?;
        }
        let sum = b.build_int_add(together(old)?, together(words)?, "sum.new")?;
        for (i, &place) in places.iter().enumerate() {
            let word = b.build_right_shift(sum, whole.const_int(64 * i as u64, false), false, "sum.upper")?;
            ir.store(place, b.build_int_truncate(word, ir.i64, "sum.word")?.into())?;
        }
        Ok(())
    }
}
