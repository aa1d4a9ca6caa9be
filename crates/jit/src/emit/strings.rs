//! Strings: constants, and equality by 16-byte comparison with a call only for two long strings of equal length and
//! prefix.

use super::Emitter;
use super::ir::{Emitted, Int};
use crate::runtime;
use inkwell::IntPredicate;
use millstream_abi::Str;
use millstream_codegen::program::{Op, Value};

impl<'c> Emitter<'c, '_> {
    /// A string constant. Long ones are constants of the module, which lives as long as the code.
    pub(super) fn string_constant(&mut self, number: u32) -> Emitted<Int<'c>> {
        if let Some(value) = self.long_strings.get(&number) {
            return Ok(*value);
        }
        let bytes: &[u8] = &self.program.strings[number as usize];
        let string = Str::new(bytes);
        let ir = &self.ir;
        if string.is_inline() {
            return Ok(ir.constant(ir.i128, string.bits() as i128));
        }
        let place = ir.constant_in_memory(&format!("string{number}"), || ir.context.const_string(bytes, false));
        let value = ir.hoist(|ir| {
            let address = ir.b.build_ptr_to_int(place, ir.i64, "string.address")?;
            ir.join(ir.word(string.low), address, &format!("string{number}.value"))
        })?;
        self.long_strings.insert(number, value);
        Ok(value)
    }

    /// Whether a value is a constant of at most [`Str::INLINE`] bytes.
    pub(super) fn is_inline_constant(&self, value: Value) -> bool {
        match self.operations.get(&value) {
            Some(Op::Str(number)) => self.program.strings[*number as usize].len() <= Str::INLINE,
            _ => false,
        }
    }

    /// Whether two strings are equal; `is_inline`: one of them is known to be short.
    pub(super) fn strings_equal(&self, a: Int<'c>, b: Int<'c>, is_inline: bool, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let same = ir.compare(IntPredicate::EQ, a, b, if is_inline { name } else { "same" })?;
        if is_inline {
            return Ok(same);
        }
        let block = |what: &str| ir.block(&format!("{name}.{what}"));
        let (differ, bytes, end) = (block("differ"), block("bytes"), block("compared"));
        let first = ir.current();
        ir.branch(same, end, differ)?;
        ir.enter(differ);
        let ((a_low, a_high), (b_low, b_high)) = (ir.halves(a)?, ir.halves(b)?);
        let same_start = ir.compare(IntPredicate::EQ, a_low, b_low, "same_start")?;
        let both_long = ir.b.build_and(same_start, self.is_long(a_low)?, "both_long")?;
        ir.branch(both_long, bytes, end)?;
        ir.enter(bytes);
        let length = ir.b.build_and(a_low, ir.word(u32::MAX as u64), "length")?;
        let arguments = [a_high.into(), b_high.into(), length.into()];
        let equal = ir.result(self.support(runtime::BYTES_EQUAL), &arguments, "equal")?.into_int_value();
        let equal = ir.compare(IntPredicate::NE, equal, ir.i32.const_zero(), "is_equal")?;
        ir.jump(end)?;
        ir.enter(end);
        let truth = |b: u64| ir.i1.const_int(b, false).into();
        Ok(ir.merge(&[(truth(1), first), (truth(0), differ), (equal.into(), bytes)], name)?.into_int_value())
    }
}
