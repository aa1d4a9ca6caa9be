//! Arithmetic on integers, floats and intervals.

use super::super::{Computed, Lowering, Scalar};
use crate::program::{Comparison, Op};
use millstream_abi::{ErrorKind, Phys};
use millstream_plan::expr::{ArithmeticOp, Expr};
use millstream_types::{DataType, Diagnostic};

impl Lowering<'_> {
    /// `a op b`; decimals are in `decimal`.
    pub(super) fn arithmetic(&mut self, expr: &Expr, op: ArithmeticOp, a: &Expr, b: &Expr) -> Computed {
        if matches!(expr.data_type, DataType::Decimal { .. }) {
            return self.decimal_arithmetic(expr, op, a, b);
        }
        let (left, right) = (self.expression(a)?, self.expression(b)?);
        let phys = self.builder.type_of(left.value);
        if phys != self.builder.type_of(right.value) || matches!(phys, Phys::Bool | Phys::Str) {
            let message = format!("{:?} of {} and {}", op, a.data_type, b.data_type);
            return Err(Diagnostic::bug(message));
        }
        let valid = self.both(left.valid, right.valid);
        if phys.is_integer() && matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo) {
            self.trap_zero(expr, right, valid);
        }
        let (a, b) = (left.value, right.value);
        let op = match op {
            ArithmeticOp::Add => Op::Add(a, b),
            ArithmeticOp::Subtract => Op::Sub(a, b),
            ArithmeticOp::Multiply => Op::Mul(a, b),
            ArithmeticOp::Divide => Op::Div(a, b),
            ArithmeticOp::Modulo => Op::Rem(a, b),
        };
        Ok(Scalar { value: self.builder.op(op, phys), valid })
    }

    /// Makes the row an error when the divisor is zero and no operand is NULL.
    pub(super) fn trap_zero(&mut self, expr: &Expr, divisor: Scalar, valid: Option<crate::program::Value>) {
        let phys = self.builder.type_of(divisor.value);
        let zero = self.builder.int(0, phys);
        let is_zero = self.builder.compare(Comparison::Eq, divisor.value, zero);
        let fails = self.and_valid(valid, is_zero);
        let site = self.site(expr);
        self.builder.trap(fails, ErrorKind::DivisionByZero, site);
    }
}
