//! Decimal arithmetic: a few 128-bit operations when every intermediate result fits 38 digits, else a runtime function.
//!
//! Results are exact, rounded half up to the scale of the result's type, and NULL when they do not fit its precision,
//! as Flink does.

use super::super::{Computed, Lowering, Scalar};
use crate::program::{Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::{ArithmeticOp, Expr};
use millstream_types::{DataType, Diagnostic};

/// Most digits of a decimal, and of an `i128` that is surely in range.
const MAX_DIGITS: u8 = 38;

/// A number: value, digits, scale.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) scalar: Scalar,
    pub(super) precision: u8,
    pub(super) scale: u8,
}

impl Lowering<'_> {
    /// `a op b` with a decimal result; operands are decimals of any type, or integers.
    pub(super) fn decimal_arithmetic(&mut self, expr: &Expr, op: ArithmeticOp, a: &Expr, b: &Expr) -> Computed {
        let DataType::Decimal { precision, scale } = expr.data_type else {
            return Err(Diagnostic::bug("decimal arithmetic without a decimal result"));
        };
        let (left, right) = (self.decimal_operand(a)?, self.decimal_operand(b)?);
        let valid = self.both(left.scalar.valid, right.scalar.valid);
        if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo) {
            self.trap_zero(expr, right.scalar, valid);
        }
        if let Some(number) = self.inline(op, left, right, valid)
            && let Some(result) = self.rescale_inline(number, precision, scale)
        {
            return Ok(result);
        }
        let (s, s1, s2, p) = (scale as i32, left.scale as i32, right.scale as i32, precision as i32);
        let (function, numbers) = match op {
            ArithmeticOp::Add => (RuntimeFn::DecimalAdd, vec![s1, s2, s, p]),
            ArithmeticOp::Subtract => (RuntimeFn::DecimalSubtract, vec![s1, s2, s, p]),
            ArithmeticOp::Modulo => (RuntimeFn::DecimalModulo, vec![s1, s2, s, p]),
            ArithmeticOp::Multiply => (RuntimeFn::DecimalMultiply, vec![s1 + s2 - s, p]),
            ArithmeticOp::Divide => (RuntimeFn::DecimalDivide, vec![s - s1 + s2, p]),
        };
        let numbers: Vec<Scalar> = numbers.into_iter().map(|n| self.number(n)).collect();
        let arguments = match numbers[..] {
            [s1, s2, s, p] => vec![left.scalar, s1, right.scalar, s2, s, p],
            _ => [vec![left.scalar, right.scalar], numbers].concat(),
        };
        let site = self.site(expr);
        self.call(function, &arguments, site, true)
    }

    /// An I32 constant argument.
    pub(super) fn number(&mut self, n: i32) -> Scalar {
        Scalar::always(self.builder.int(n.into(), Phys::I32))
    }

    fn decimal_operand(&mut self, expr: &Expr) -> Computed<Operand> {
        let scalar = self.expression(expr)?;
        let (precision, scale) = digits_of(&expr.data_type)
            .ok_or_else(|| Diagnostic::bug(format!("decimal arithmetic on {}", expr.data_type)))?;
        Ok(Operand { scalar: self.converted(scalar, Phys::I128), precision, scale })
    }

    /// The exact result when 128 bits surely hold it; `valid` says where there is one.
    fn inline(&mut self, op: ArithmeticOp, a: Operand, b: Operand, valid: Option<Value>) -> Option<Operand> {
        if op == ArithmeticOp::Multiply {
            let (precision, scale) = (a.precision + b.precision, a.scale + b.scale);
            let product = Op::Mul(a.scalar.value, b.scalar.value);
            return (precision <= MAX_DIGITS).then(|| Operand {
                scalar: Scalar { value: self.builder.op(product, Phys::I128), valid },
                precision,
                scale,
            });
        }
        let scale = a.scale.max(b.scale);
        let (a_up, b_up) = (scale - a.scale, scale - b.scale);
        let widest = (a.precision + a_up).max(b.precision + b_up);
        if widest > MAX_DIGITS || op == ArithmeticOp::Divide {
            return None;
        }
        let (x, y) = (self.scale_up(a.scalar.value, a_up), self.scale_up(b.scalar.value, b_up));
        // The sum of two numbers of 38 digits is below 2 · 10^38, which an i128 does not hold.
        let (op, precision) = match op {
            ArithmeticOp::Add if widest < MAX_DIGITS => (Op::Add(x, y), widest + 1),
            ArithmeticOp::Subtract if widest < MAX_DIGITS => (Op::Sub(x, y), widest + 1),
            ArithmeticOp::Modulo => (Op::Rem(x, y), widest),
            _ => return None,
        };
        Some(Operand { scalar: Scalar { value: self.builder.op(op, Phys::I128), valid }, precision, scale })
    }

    /// `value · 10^digits`
    fn scale_up(&mut self, value: Value, digits: u8) -> Value {
        if digits == 0 { value } else { self.builder.op(Op::ScaleUp(value, digits), Phys::I128) }
    }

    /// A number as DECIMAL(`precision`, `to`): NULL where it does not fit. `None` when that takes more than 128 bits.
    pub(super) fn rescale_inline(&mut self, number: Operand, precision: u8, to: u8) -> Option<Scalar> {
        let Operand { scalar, precision: digits, scale: from } = number;
        let (value, digits) = if to >= from {
            let up = to - from;
            if digits + up > MAX_DIGITS {
                return None;
            }
            (self.scale_up(scalar.value, up), digits + up)
        } else {
            let down = from - to;
            // Rounding up can add a digit: 9.9 becomes 10.
            let digits = digits.saturating_sub(down) + 1;
            (self.builder.op(Op::ScaleDown(scalar.value, down), Phys::I128), digits)
        };
        if digits <= precision {
            return Some(Scalar { value, valid: scalar.valid });
        }
        let out = self.builder.op(Op::OutOfDecimal(value, precision), Phys::Bool);
        let fits = self.builder.not(out);
        Some(Scalar { value, valid: Some(self.and_valid(scalar.valid, fits)) })
    }
}

/// Precision and scale of a decimal, or of an integer as one.
pub(super) fn digits_of(data_type: &DataType) -> Option<(u8, u8)> {
    match *data_type {
        DataType::Decimal { precision, scale } => Some((precision, scale)),
        DataType::TinyInt => Some((3, 0)),
        DataType::SmallInt => Some((5, 0)),
        DataType::Int => Some((10, 0)),
        DataType::BigInt => Some((19, 0)),
        _ => None,
    }
}
