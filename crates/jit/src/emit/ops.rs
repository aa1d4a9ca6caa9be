//! Operations of row programs. Each gives the bits that the interpreter gives: no flag that lets LLVM assume anything is
//! ever set, and no instruction whose result is undefined for some operands is reached with them.

use super::Emitter;
use super::ir::{Basic, Emitted, Int};
use crate::runtime;
use inkwell::{FloatPredicate, IntPredicate};
use millstream_abi::Phys;
use millstream_codegen::program::{Comparison, Op, Value};
use millstream_codegen::semantics::POWERS_OF_TEN;

/// Predicates of a comparison: of signed integers; of Bools, where FALSE < TRUE, which as one signed bit would be the other
/// way round; of floats, where with NaN only `Ne` is TRUE.
fn predicates(comparison: Comparison) -> (IntPredicate, IntPredicate, FloatPredicate) {
    match comparison {
        Comparison::Eq => (IntPredicate::EQ, IntPredicate::EQ, FloatPredicate::OEQ),
        Comparison::Ne => (IntPredicate::NE, IntPredicate::NE, FloatPredicate::UNE),
        Comparison::Lt => (IntPredicate::SLT, IntPredicate::ULT, FloatPredicate::OLT),
        Comparison::Le => (IntPredicate::SLE, IntPredicate::ULE, FloatPredicate::OLE),
        Comparison::Gt => (IntPredicate::SGT, IntPredicate::UGT, FloatPredicate::OGT),
        Comparison::Ge => (IntPredicate::SGE, IntPredicate::UGE, FloatPredicate::OGE),
    }
}

impl<'c> Emitter<'c, '_> {
    /// Emits one operation; `value` names the result and has its type.
    pub(super) fn op(&mut self, value: Value, op: &Op) -> Emitted<Basic<'c>> {
        let name = &match op {
            Op::Load(input) | Op::LoadView(input) | Op::LoadBytes(input, _) => {
                format!("{}.{value}", self.program.inputs[*input as usize].name)
            }
            _ => value.to_string(),
        };
        let own = self.program.type_of(value);
        match *op {
            Op::Bool(b) => Ok(self.ir.i1.const_int(b as u64, false).into()),
            Op::Int(n) => Ok(self.ir.constant(self.ir.memory_type(own).into_int_type(), n).into()),
            Op::Float(bits) => self.float_constant(own, bits),
            Op::Str(number) => Ok(self.string_constant(number)?.into()),
            Op::Load(input) => self.load_column(input, name),
            Op::IsValid(input) => Ok(self.is_valid(input, name)?.into()),
            Op::LoadView(input) => Ok(self.load_view(input, name)?.into()),
            Op::LoadBytes(input, count) => Ok(self.load_bytes(input, count, name)?.into()),
            Op::Watermark => Ok(self.watermark(name)?.into()),
            Op::Add(a, b) | Op::Sub(a, b) | Op::Mul(a, b) | Op::Div(a, b) | Op::Rem(a, b) => match own.is_float() {
                true => self.float_arithmetic(op, a, b, name),
                false => self.int_arithmetic(op, a, b, name),
            },
            Op::Neg(a) if own.is_float() => Ok(self.ir.b.build_float_neg(self.float(a), name)?.into()),
            Op::Neg(a) => Ok(self.ir.b.build_int_neg(self.int(a), name)?.into()),
            Op::Compare(comparison, a, b) => Ok(self.comparison(comparison, a, b, name)?.into()),
            Op::And(a, b) => Ok(self.ir.b.build_and(self.int(a), self.int(b), name)?.into()),
            Op::Or(a, b) => Ok(self.ir.b.build_or(self.int(a), self.int(b), name)?.into()),
            Op::Not(a) => Ok(self.ir.b.build_not(self.int(a), name)?.into()),
            Op::Select(condition, a, b) => self.ir.select(self.int(condition), self.value(a), self.value(b), name),
            Op::Convert(a) => self.convert(a, own, name),
            Op::OutOfDecimal(a, digits) => Ok(self.out_of_decimal(self.int(a), digits, name)?.into()),
            Op::ScaleUp(a, digits) => {
                let power = self.ir.constant(self.ir.i128, POWERS_OF_TEN[digits as usize]);
                Ok(self.ir.b.build_int_mul(self.int(a), power, name)?.into())
            }
            Op::ScaleDown(a, digits) => Ok(self.scale_down(self.int(a), digits, name)?.into()),
            Op::SliceStart { time, size_ms, offset_ms } => {
                Ok(self.slice_start(self.int(time), size_ms, offset_ms, name)?.into())
            }
            Op::HashFold(hash, key) => {
                Ok(self.fold(self.int(hash), self.value(key), self.program.type_of(key))?.into())
            }
            Op::HashFinish(hash) => Ok(self.finish_hash(self.int(hash))?.into()),
        }
    }

    /// By its bits, so that a NaN stays the one it is.
    fn float_constant(&self, phys: Phys, bits: u64) -> Emitted<Basic<'c>> {
        let ir = &self.ir;
        let (bits, ty) = match phys {
            Phys::F32 => {
                let single = (f64::from_bits(bits) as f32).to_bits();
                (ir.constant(ir.i32, single as i128), ir.context.f32_type())
            }
            _ => (ir.word(bits), ir.f64),
        };
        Ok(ir.b.build_bit_cast(bits, ty, "float")?)
    }

    fn float_arithmetic(&self, op: &Op, a: Value, b: Value, name: &str) -> Emitted<Basic<'c>> {
        let (x, y) = (self.float(a), self.float(b));
        let builder = &self.ir.b;
        Ok(match op {
            Op::Add(..) => builder.build_float_add(x, y, name)?.into(),
            Op::Sub(..) => builder.build_float_sub(x, y, name)?.into(),
            Op::Mul(..) => builder.build_float_mul(x, y, name)?.into(),
            Op::Div(..) => builder.build_float_div(x, y, name)?.into(),
            _ => {
                let is_single = x.get_type() == self.ir.context.f32_type();
                let symbol = if is_single { runtime::FMODF } else { runtime::FMOD };
                self.ir.result(self.support(symbol), &[x.into(), y.into()], name)?
            }
        })
    }

    fn int_arithmetic(&mut self, op: &Op, a: Value, b: Value, name: &str) -> Emitted<Basic<'c>> {
        let (x, y) = (self.int(a), self.int(b));
        let is_wide = x.get_type() == self.ir.i128;
        let builder = &self.ir.b;
        Ok(match op {
            Op::Add(..) => builder.build_int_add(x, y, name)?,
            Op::Sub(..) => builder.build_int_sub(x, y, name)?,
            Op::Mul(..) => builder.build_int_mul(x, y, name)?,
            Op::Div(..) if is_wide => self.wide_division(runtime::DIVIDE, x, y, name)?,
            Op::Rem(..) if is_wide => self.wide_division(runtime::REMAINDER, x, y, name)?,
            _ => self.division(matches!(op, Op::Div(..)), x, y, name)?,
        }
        .into())
    }

    /// Division or remainder that never faults: the divisors 0 and -1 are replaced by 1. The result for -1 is the
    /// wrapping negation, or a remainder of 0; for 0, which no row uses, it is 0 as in the interpreter.
    fn division(&self, is_quotient: bool, x: Int<'c>, y: Int<'c>, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let ty = x.get_type();
        let is_zero = ir.compare(IntPredicate::EQ, y, ty.const_zero(), "divisor.is_zero")?;
        let is_minus_one = ir.compare(IntPredicate::EQ, y, ty.const_all_ones(), "divisor.is_minus_one")?;
        let is_special = ir.b.build_or(is_zero, is_minus_one, "divisor.is_special")?;
        let one = ir.constant(ty, 1);
        let divisor = ir.select(is_special, one.into(), y.into(), "divisor")?.into_int_value();
        let (result, special) = if is_quotient {
            (ir.b.build_int_signed_div(x, divisor, "quotient")?, ir.b.build_int_neg(x, "negated")?)
        } else {
            (ir.b.build_int_signed_rem(x, divisor, "remainder")?, ty.const_zero())
        };
        let result = ir.select(is_minus_one, special.into(), result.into(), "divided")?;
        Ok(ir.select(is_zero, ty.const_zero().into(), result, name)?.into_int_value())
    }

    fn comparison(&mut self, comparison: Comparison, a: Value, b: Value, name: &str) -> Emitted<Int<'c>> {
        let phys = self.program.type_of(a);
        let (of_ints, of_bools, of_floats) = predicates(comparison);
        let ir = &self.ir;
        match phys {
            Phys::F32 | Phys::F64 => {
                let (x, y) = (self.float(a), self.float(b));
                Ok(ir.b.build_float_compare(of_floats, x, y, name)?)
            }
            Phys::Bool => ir.compare(of_bools, self.int(a), self.int(b), name),
            Phys::I128 if matches!(comparison, Comparison::Eq | Comparison::Ne) => {
                let different = self.difference(a, b)?;
                ir.compare(of_ints, different, ir.word(0), name)
            }
            Phys::Str => {
                let is_inline = self.is_inline_constant(a) || self.is_inline_constant(b);
                let equal = self.strings_equal(self.int(a), self.int(b), is_inline, name)?;
                match comparison {
                    Comparison::Ne => Ok(self.ir.b.build_not(equal, name)?),
                    _ => Ok(equal),
                }
            }
            _ => match self.divisibility(comparison, a, b)? {
                Some(is_divisible) if comparison == Comparison::Eq => Ok(is_divisible),
                Some(is_divisible) => Ok(ir.b.build_not(is_divisible, name)?),
                None => ir.compare(of_ints, self.int(a), self.int(b), name),
            },
        }
    }

    /// For `x % d = 0` and `x % d <> 0` with a constant: whether `d` divides `x`. By a multiplication with the inverse of the
    /// odd part of `d` and a rotation, which brings just the multiples of `d` below a bound (Hacker's Delight, section
    /// 10-17): LLVM makes vectors of that, not of divisions.
    fn divisibility(&self, comparison: Comparison, a: Value, b: Value) -> Emitted<Option<Int<'c>>> {
        let ir = &self.ir;
        let constant = |value: Value| match self.operations.get(&value) {
            Some(&&Op::Int(n)) => Some(n),
            _ => None,
        };
        let mut remainder = a;
        // A remainder that is made narrower keeps its value when the divisor fits.
        let mut most = i128::MAX;
        if let Some(&&Op::Convert(wider)) = self.operations.get(&a) {
            (remainder, most) = (wider, (1 << (8 * self.program.type_of(a).size() - 1)) - 1);
        }
        let (dividend, divisor) = match (comparison, self.operations.get(&remainder), constant(b)) {
            (Comparison::Eq | Comparison::Ne, Some(&&Op::Rem(x, d)), Some(0)) => (x, constant(d)),
            _ => return Ok(None),
        };
        let divisor = divisor.filter(|d| most == i128::MAX || d.unsigned_abs() as i128 <= most);
        let (false, Some(divisor)) = (self.program.type_of(dividend).is_float(), divisor) else { return Ok(None) };
        let ty = self.int(dividend).get_type();
        let bits = ty.get_bit_width();
        let (x, divisor) = (self.int(dividend), divisor.unsigned_abs() as u64);
        if divisor < 2 || bits > 64 {
            return Ok(None);
        }
        let zero = ty.const_zero();
        if divisor.is_power_of_two() {
            let low = ir.b.build_and(x, ir.constant(ty, divisor as i128 - 1), "low_bits")?;
            return Ok(Some(ir.compare(IntPredicate::EQ, low, zero, "is_divisible")?));
        }
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // An odd number has the three lowest bits of its own inverse. Each step of Newton's iteration doubles them.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        let shift = (((1u64 << (bits - 1)) - 1) / odd) >> twos << twos;
        let most = (2 * shift) >> twos;
        let product = ir.b.build_int_mul(x, ir.constant(ty, inverse as i128), "divisible.product")?;
        let shifted = ir.b.build_int_add(product, ir.constant(ty, shift as i128), "divisible.shifted")?;
        let rotated = match twos {
            0 => shifted,
            _ => {
                let by = ir.constant(ty, twos as i128);
                let arguments = [shifted.into(), shifted.into(), by.into()];
                ir.intrinsic("llvm.fshr", &[ty.into()], &arguments, "divisible.rotated")?.into_int_value()
            }
        };
        Ok(Some(ir.compare(IntPredicate::ULE, rotated, ir.constant(ty, most as i128), "is_divisible")?))
    }

    /// Zero when two 128-bit integers are equal, by words: LLVM makes no vectors of wider integers. The first word of a view
    /// says it all when the other one is that of a string of at most four bytes, which end it: the rest is padding.
    fn difference(&self, a: Value, b: Value) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let ((a_low, a_high), (b_low, b_high)) = (ir.halves(self.int(a))?, ir.halves(self.int(b))?);
        let low = ir.b.build_xor(a_low, b_low, "different.low")?;
        let is_view = |value| matches!(self.operations.get(&value), Some(Op::LoadView(_)));
        let is_short = |value| match self.operations.get(&value) {
            Some(&&Op::Int(view)) => view as u32 <= 4 && view >> 64 == 0,
            _ => false,
        };
        if (is_view(a) && is_short(b)) || (is_view(b) && is_short(a)) {
            return Ok(low);
        }
        let high = ir.b.build_xor(a_high, b_high, "different.high")?;
        Ok(ir.b.build_or(low, high, "different")?)
    }

    fn convert(&mut self, a: Value, to: Phys, name: &str) -> Emitted<Basic<'c>> {
        let from = self.program.type_of(a);
        let ty = self.ir.register_type(to);
        let value = self.value(a);
        let b = &self.ir.b;
        if from.is_float() {
            let x = value.into_float_value();
            return Ok(match to {
                Phys::F32 | Phys::F64 => b.build_float_cast(x, ty.into_float_type(), name)?.into(),
                Phys::I128 => self.double_to_wide(x, name)?.into(),
                _ => self.ir.intrinsic("llvm.fptosi.sat", &[ty, value.get_type()], &[value.into()], name)?,
            });
        }
        let x = value.into_int_value();
        Ok(match (from, to.is_float()) {
            (Phys::Bool, true) => b.build_unsigned_int_to_float(x, ty.into_float_type(), name)?.into(),
            (Phys::Bool, false) => b.build_int_z_extend(x, ty.into_int_type(), name)?.into(),
            (Phys::I128, true) => self.wide_to_float(x, to, name)?,
            (_, true) => b.build_signed_int_to_float(x, ty.into_float_type(), name)?.into(),
            (_, false) if from.size() > to.size() => b.build_int_truncate(x, ty.into_int_type(), name)?.into(),
            (_, false) => b.build_int_s_extend(x, ty.into_int_type(), name)?.into(),
        })
    }

    /// `t - floor_mod(t - offset, size)`; the divisor is constant, so LLVM multiplies instead.
    pub(super) fn slice_start(&self, time: Int<'c>, size_ms: i64, offset_ms: i64, name: &str) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let size = ir.word(size_ms as u64);
        let shifted = ir.b.build_int_sub(time, ir.word(offset_ms as u64), "slice.shifted")?;
        let remainder = ir.b.build_int_signed_rem(shifted, size, "slice.remainder")?;
        let is_negative = ir.compare(IntPredicate::SLT, remainder, ir.word(0), "slice.is_negative")?;
        let raised = ir.b.build_int_add(remainder, size, "slice.raised")?;
        let into = ir.select(is_negative, raised.into(), remainder.into(), "slice.into")?.into_int_value();
        Ok(ir.b.build_int_sub(time, into, name)?)
    }

    /// A value as it is stored: a Bool as one byte.
    pub(super) fn to_memory(&self, value: Basic<'c>, phys: Phys) -> Emitted<Basic<'c>> {
        match phys {
            Phys::Bool => Ok(self.ir.b.build_int_z_extend(value.into_int_value(), self.ir.i8, "byte")?.into()),
            _ => Ok(value),
        }
    }

    /// The inverse of [`Emitter::to_memory`].
    pub(super) fn to_register(&self, value: Basic<'c>, phys: Phys) -> Emitted<Basic<'c>> {
        match phys {
            Phys::Bool => Ok(self.ir.b.build_int_truncate(value.into_int_value(), self.ir.i1, "bool")?.into()),
            _ => Ok(value),
        }
    }
}
