//! 128-bit operations that are not one instruction: through support functions, with inline paths for values that fit
//! 64 bits, as most decimals do.

use super::Emitter;
use super::ir::{Basic, Emitted, Int, Ptr};
use crate::runtime;
use inkwell::IntPredicate;
use inkwell::values::{FloatValue, FunctionValue};
use millstream_abi::Phys;
use millstream_codegen::semantics::POWERS_OF_TEN;

impl<'c> Emitter<'c, '_> {
    /// The declaration of a support function.
    pub(super) fn support(&self, symbol: &str) -> FunctionValue<'c> {
        let support =
            runtime::all().into_iter().find(|s| s.name == symbol).expect("symbols are constants of the runtime module");
        self.ir.declare_support(symbol, support.parameters, support.result)
    }

    /// Where support functions write 128-bit results.
    fn wide_slot(&mut self) -> Emitted<Ptr<'c>> {
        if let Some(slot) = self.wide_slot {
            return Ok(slot);
        }
        let slot = self.ir.slot(self.ir.i128, "wide.result")?;
        self.wide_slot = Some(slot);
        Ok(slot)
    }

    /// Quotient or remainder.
    pub(super) fn wide_division(&mut self, symbol: &str, x: Int<'c>, y: Int<'c>, name: &str) -> Emitted<Int<'c>> {
        let slot = self.wide_slot()?;
        let ir = &self.ir;
        let ((x_low, x_high), (y_low, y_high)) = (ir.halves(x)?, ir.halves(y)?);
        let arguments = [x_low.into(), x_high.into(), y_low.into(), y_high.into(), slot.into()];
        ir.b.build_call(self.support(symbol), &arguments, "")?;
        Ok(ir.load(ir.i128, slot, name)?.into_int_value())
    }

    /// `Op::OutOfDecimal`
    pub(super) fn out_of_decimal(&self, x: Int<'c>, digits: u8, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let power = POWERS_OF_TEN[digits as usize];
        let above = ir.compare(IntPredicate::SGE, x, ir.constant(ir.i128, power), "is_above")?;
        let below = ir.compare(IntPredicate::SLE, x, ir.constant(ir.i128, -power), "is_below")?;
        Ok(ir.b.build_or(above, below, name)?)
    }

    /// `Op::ScaleDown`: by a 64-bit division by a constant, which LLVM turns into a multiplication, when x fits.
    pub(super) fn scale_down(&mut self, x: Int<'c>, digits: u8, name: &str) -> Emitted<Int<'c>> {
        let slot = self.wide_slot()?;
        let ir = &self.ir;
        let block = |what: &str| ir.block(&format!("{name}.{what}"));
        let (general, end) = (block("wide"), block("scaled"));
        let mut incoming = Vec::with_capacity(2);
        // Twice a remainder below 10^18 fits 64 bits.
        if digits <= 18 {
            let short = ir.b.build_int_truncate(x, ir.i64, "short")?;
            let extended = ir.b.build_int_s_extend(short, ir.i128, "short.wide")?;
            let fits = ir.compare(IntPredicate::EQ, extended, x, "fits")?;
            let narrow = block("short");
            ir.branch(fits, narrow, general)?;
            ir.enter(narrow);
            let quotient = self.rounded_quotient(short, POWERS_OF_TEN[digits as usize] as i64)?;
            let quotient = ir.b.build_int_s_extend(quotient, ir.i128, "scaled.short")?;
            incoming.push((quotient.into(), ir.current()));
            ir.jump(end)?;
        } else {
            ir.jump(general)?;
        }
        ir.enter(general);
        let (low, high) = ir.halves(x)?;
        let arguments = [low.into(), high.into(), ir.word(digits as u64).into(), slot.into()];
        ir.b.build_call(self.support(runtime::SCALE_DOWN), &arguments, "")?;
        incoming.push((ir.load(ir.i128, slot, "scaled.wide")?, ir.current()));
        ir.jump(end)?;
        ir.enter(end);
        Ok(ir.merge(&incoming, name)?.into_int_value())
    }

    /// `x / power`, rounded half away from zero.
    fn rounded_quotient(&self, x: Int<'c>, power: i64) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let divisor = ir.word(power as u64);
        let quotient = ir.b.build_int_signed_div(x, divisor, "quotient")?;
        let remainder = ir.b.build_int_signed_rem(x, divisor, "remainder")?;
        let twice = ir.b.build_int_add(remainder, remainder, "twice")?;
        let up = ir.compare(IntPredicate::SGE, twice, divisor, "rounds_up")?;
        let down = ir.compare(IntPredicate::SLE, twice, ir.word(power.wrapping_neg() as u64), "rounds_down")?;
        let up = ir.b.build_int_z_extend(up, ir.i64, "up")?;
        let down = ir.b.build_int_z_extend(down, ir.i64, "down")?;
        let raised = ir.b.build_int_add(quotient, up, "raised")?;
        Ok(ir.b.build_int_sub(raised, down, "rounded")?)
    }

    /// Conversion of I128 to F32 or F64.
    pub(super) fn wide_to_float(&self, x: Int<'c>, to: Phys, name: &str) -> Emitted<Basic<'c>> {
        let symbol = if to == Phys::F32 { runtime::WIDE_TO_SINGLE } else { runtime::WIDE_TO_DOUBLE };
        let (low, high) = self.ir.halves(x)?;
        self.ir.result(self.support(symbol), &[low.into(), high.into()], name)
    }

    /// Conversion of F32 or F64 to I128; every F32 is an F64 with the same integer part.
    pub(super) fn double_to_wide(&mut self, x: FloatValue<'c>, name: &str) -> Emitted<Int<'c>> {
        let slot = self.wide_slot()?;
        let ir = &self.ir;
        let double = ir.b.build_float_cast(x, ir.f64, "double")?;
        ir.b.build_call(self.support(runtime::DOUBLE_TO_WIDE), &[double.into(), slot.into()], "")?;
        Ok(ir.load(ir.i128, slot, name)?.into_int_value())
    }
}
