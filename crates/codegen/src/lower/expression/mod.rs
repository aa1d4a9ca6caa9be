//! Scalar expressions, a file per family.

mod arithmetic;
mod call;
mod case;
mod cast;
mod comparison;
mod decimal;
mod literal;
mod logic;
mod time;

use super::vector::field_column;
use super::{Lowering, Scalar};
use crate::program::{Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::{Expr, ExprKind};
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// Lowers an expression over the columns after `depth` projections. A column of the last of thousands of projections is as deep.
    #[recursive::recursive]
    pub(super) fn expression(&mut self, expr: &Expr, depth: usize) -> Result<Scalar, Diagnostic> {
        let scalar = self.any_expression(expr, depth)?;
        let known = scalar.valid.and_then(|valid| self.builder.known_bool(valid));
        Ok(if known == Some(true) { Scalar::always(scalar.value) } else { scalar })
    }

    fn any_expression(&mut self, expr: &Expr, depth: usize) -> Result<Scalar, Diagnostic> {
        match &expr.kind {
            ExprKind::Column(index) => self.column(depth, *index, expr.span),
            ExprKind::Literal(value) => self.literal(value, &expr.data_type, expr.span),
            ExprKind::ProcessingTime => {
                let clock = ExprKind::Call(RuntimeFn::CurrentTimestamp, vec![]);
                self.expression(&Expr::new(clock, expr.data_type.clone(), false).at(expr.span), depth)
            }
            ExprKind::CurrentWatermark => Ok(self.current_watermark()),
            ExprKind::Field(..) => self.vector(&field_column(expr), depth),
            ExprKind::Arithmetic(op, a, b) => self.arithmetic(expr, *op, a, b, depth),
            ExprKind::Negate(operand) => {
                let Scalar { value, valid } = self.expression(operand, depth)?;
                let phys = self.builder.type_of(value);
                Ok(Scalar { value: self.builder.op(Op::Neg(value), phys), valid })
            }
            ExprKind::AddInterval(time, interval) => self.add_interval(expr, time, interval, depth),
            ExprKind::Compare(op, a, b) => self.comparison(expr, *op, a, b, depth),
            ExprKind::And(operands) => self.connective(operands, true, depth),
            ExprKind::Or(operands) => self.connective(operands, false, depth),
            ExprKind::Not(operand) => {
                let Scalar { value, valid } = self.expression(operand, depth)?;
                Ok(Scalar { value: self.builder.not(value), valid })
            }
            ExprKind::IsNull(operand) => {
                let valid = self.is_valid(operand, depth)?;
                Ok(Scalar::always(self.builder.not(valid)))
            }
            ExprKind::IsNotNull(operand) => Ok(Scalar::always(self.is_valid(operand, depth)?)),
            ExprKind::IsBoolean(operand, truth) => {
                let scalar = self.expression(operand, depth)?;
                Ok(Scalar::always(if *truth { self.is_true(scalar) } else { self.is_false(scalar) }))
            }
            ExprKind::Case(branches, otherwise) => self.case(branches, otherwise, depth),
            ExprKind::InList(operand, values) => self.in_list(operand, values, depth),
            ExprKind::Cast { operand, fallible_to_null } => self.cast(expr, operand, *fallible_to_null, depth),
            ExprKind::Call(function, arguments) => self.function(expr, *function, arguments, depth),
            ExprKind::Vector(..) => self.vector(expr, depth),
            ExprKind::WindowStart(time, slicing) => self.window_start(time, *slicing, depth),
        }
    }

    /// The validity of an expression, without a meaningful value. Other than a value, nested columns have one.
    pub(super) fn validity(&mut self, expr: &Expr, depth: usize) -> Result<Scalar, Diagnostic> {
        let (source, below) = self.resolve(expr, depth);
        let source = source.clone();
        let input = match (&source.kind, below) {
            (ExprKind::Column(index), 0) if *index < self.schema.fields.len() => *index,
            (ExprKind::Vector(..), _) => self.vector_input(&source, below)?,
            (ExprKind::Field(..), _) => self.vector_input(&field_column(&source), below)?,
            (ExprKind::Cast { .. }, _) if source.data_type.is_nested() => {
                self.vector_input(&super::nested_cast::cast_column(&source)?, below)?
            }
            _ => return self.expression(expr, depth),
        };
        let valid = self.input_valid(input as u32);
        Ok(Scalar { value: self.builder.bool(false), valid })
    }

    /// Bool: whether an expression is not NULL.
    fn is_valid(&mut self, expr: &Expr, depth: usize) -> Result<Value, Diagnostic> {
        let scalar = self.validity(expr, depth)?;
        Ok(match scalar.valid {
            Some(valid) => valid,
            None => self.builder.bool(true),
        })
    }

    /// Bool: whether a BOOLEAN is TRUE (and not NULL).
    pub(super) fn is_true(&mut self, scalar: Scalar) -> Value {
        match scalar.valid {
            Some(valid) => self.builder.and(valid, scalar.value),
            None => scalar.value,
        }
    }

    /// Bool: whether a BOOLEAN is FALSE (and not NULL).
    fn is_false(&mut self, scalar: Scalar) -> Value {
        let value = self.builder.not(scalar.value);
        self.is_true(Scalar { value, valid: scalar.valid })
    }

    /// Whether both of two things are valid.
    fn both(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.builder.and(a, b)),
            (a, b) => a.or(b),
        }
    }

    /// The conjunction of a condition with an optional one.
    fn and_valid(&mut self, valid: Option<Value>, condition: Value) -> Value {
        match valid {
            Some(valid) => self.builder.and(valid, condition),
            None => condition,
        }
    }

    /// Lowers something whose result only matters in rows where `condition` is TRUE, so that it has no effect in the
    /// others: what can fail or is a call goes into a branch, the rest is computed for all rows. The validity of the
    /// result is meaningless where `condition` is FALSE.
    pub(super) fn guarded(
        &mut self,
        condition: Value,
        lower: impl FnOnce(&mut Self) -> Result<Scalar, Diagnostic>,
    ) -> Result<Scalar, Diagnostic> {
        let known = self.builder.known_bool(condition);
        if known == Some(true) {
            return lower(self);
        }
        self.builder.open();
        let inner = lower(self);
        let then = self.builder.close();
        let inner = inner?;
        let phys = self.builder.type_of(inner.value);
        if known == Some(false) {
            let value = self.builder.default_of(phys);
            return Ok(Scalar { value, valid: Some(self.builder.bool(false)) });
        }
        if then.is_pure() {
            self.builder.inline(then);
            return Ok(inner);
        }
        let mut pairs = vec![(inner.value, self.builder.default_of(phys))];
        if let Some(valid) = inner.valid {
            pairs.push((valid, self.builder.bool(false)));
        }
        self.builder.open();
        let otherwise = self.builder.close();
        let results = self.builder.branch(condition, then, otherwise, &pairs);
        Ok(Scalar { value: results[0], valid: results.get(1).copied() })
    }

    /// Converts a value to another physical type.
    fn converted(&mut self, scalar: Scalar, phys: Phys) -> Scalar {
        Scalar { value: self.builder.convert(scalar.value, phys), valid: scalar.valid }
    }
}
