//! Scalar expressions, a file per family.

mod arithmetic;
mod call;
mod case;
mod cast;
mod comparison;
mod decimal;
mod literal;
mod logic;
mod native;
mod time;

use super::nested_cast::cast_column;
use super::vector::field_column;
use super::{Computed, Lowering, Note, Scalar};
use crate::builder::Scope;
use crate::program::{Op, Value};
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::{Expr, ExprKind};

impl Lowering<'_> {
    /// Lowers an expression. A column of the last of thousands of projections is as deep.
    #[recursive::recursive]
    pub(super) fn expression(&mut self, expr: &Expr) -> Computed {
        let scalar = self.any_expression(expr)?;
        let known = scalar.valid.and_then(|valid| self.builder.known_bool(valid));
        Ok(if known == Some(true) { Scalar::always(scalar.value) } else { scalar })
    }

    fn any_expression(&mut self, expr: &Expr) -> Computed {
        match &expr.kind {
            ExprKind::Column(index) => self.column(*index, expr.span),
            ExprKind::Literal(value) => self.literal(value, &expr.data_type, expr.span),
            ExprKind::ProcessingTime => {
                let clock = ExprKind::Call(RuntimeFn::CurrentTimestamp, vec![]);
                self.expression(&Expr::new(clock, expr.data_type.clone(), false).at(expr.span))
            }
            ExprKind::CurrentWatermark => Ok(self.current_watermark()),
            ExprKind::Field(..) => self.vector(&field_column(expr)),
            ExprKind::Arithmetic(op, a, b) => self.arithmetic(expr, *op, a, b),
            ExprKind::Negate(operand) => {
                let Scalar { value, valid } = self.expression(operand)?;
                let phys = self.builder.type_of(value);
                Ok(Scalar { value: self.builder.op(Op::Neg(value), phys), valid })
            }
            ExprKind::AddInterval(time, interval) => self.add_interval(expr, time, interval),
            ExprKind::Compare(op, a, b) => self.comparison(expr, *op, a, b),
            ExprKind::And(operands) => self.connective(operands, true),
            ExprKind::Or(operands) => self.connective(operands, false),
            ExprKind::Not(operand) => {
                let Scalar { value, valid } = self.expression(operand)?;
                Ok(Scalar { value: self.builder.not(value), valid })
            }
            ExprKind::IsNull(operand) => {
                let valid = self.is_valid(operand)?;
                Ok(Scalar::always(self.builder.not(valid)))
            }
            ExprKind::IsNotNull(operand) => Ok(Scalar::always(self.is_valid(operand)?)),
            ExprKind::IsBoolean(operand, truth) => {
                let scalar = self.expression(operand)?;
                Ok(Scalar::always(if *truth { self.is_true(scalar) } else { self.is_false(scalar) }))
            }
            ExprKind::Case(branches, otherwise) => self.case(branches, otherwise),
            ExprKind::InList(operand, values) => self.in_list(operand, values),
            ExprKind::Cast { operand, fallible_to_null } => self.cast(expr, operand, *fallible_to_null),
            ExprKind::Call(function, arguments) => self.function(expr, *function, arguments),
            ExprKind::Vector(..) => self.vector(expr),
            ExprKind::WindowStart(time, slicing) => self.window_start(time, *slicing),
        }
    }

    /// The validity of an expression, without a meaningful value. Other than a value, nested columns have one.
    pub(super) fn validity(&mut self, expr: &Expr) -> Computed {
        let (source, below) = self.resolve(expr);
        let input = match (&source.kind, vector_call(source)?) {
            (_, Some(call)) => self.at_depth(below, |lowering| lowering.vector_input(&call))?,
            (ExprKind::Column(index), _) if below == 0 && *index < self.schema.fields.len() => *index,
            _ => return self.expression(expr),
        };
        let valid = self.input_valid(input as u32);
        Ok(Scalar { value: self.builder.bool(false), valid })
    }

    /// Bool: whether an expression is not NULL.
    fn is_valid(&mut self, expr: &Expr) -> Computed<Value> {
        let scalar = self.validity(expr)?;
        Ok(self.validity_value(scalar))
    }

    /// The validity of a scalar as a value.
    fn validity_value(&mut self, scalar: Scalar) -> Value {
        scalar.valid.unwrap_or_else(|| self.builder.bool(true))
    }

    /// Bool: whether a BOOLEAN is TRUE (and not NULL).
    pub(super) fn is_true(&mut self, scalar: Scalar) -> Value {
        self.and_valid(scalar.valid, scalar.value)
    }

    /// Bool: whether a BOOLEAN is FALSE (and not NULL).
    fn is_false(&mut self, scalar: Scalar) -> Value {
        let value = self.builder.not(scalar.value);
        self.is_true(Scalar { value, valid: scalar.valid })
    }

    /// Whether both of two things are valid.
    pub(super) fn both(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
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
    pub(super) fn guarded(&mut self, condition: Value, lower: impl FnOnce(&mut Self) -> Computed) -> Computed {
        let known = self.builder.known_bool(condition);
        if known == Some(true) {
            return lower(self);
        }
        let (inner, then) = self.scoped(lower)?;
        let phys = self.builder.type_of(inner.value);
        if known == Some(false) {
            return Ok(self.null(phys));
        }
        if then.is_pure {
            self.builder.inline(then);
            return Ok(inner);
        }
        let value = self.builder.default_of(phys);
        let valid = inner.valid.map(|_| self.builder.bool(false));
        let (_, otherwise) = self.scoped(|_| Ok(()))?;
        Ok(self.branch(condition, (inner, then), (Scalar { value, valid }, otherwise)))
    }

    /// Lowers something into a new scope.
    fn scoped<T>(&mut self, lower: impl FnOnce(&mut Self) -> Computed<T>) -> Computed<(T, Scope<Note, Scalar>)> {
        self.builder.open();
        let inner = lower(self);
        let scope = self.builder.close();
        Ok((inner?, scope))
    }

    /// What one of two scopes gives.
    fn branch(
        &mut self,
        condition: Value,
        (a, then): (Scalar, Scope<Note, Scalar>),
        (b, otherwise): (Scalar, Scope<Note, Scalar>),
    ) -> Scalar {
        let mut pairs = vec![(a.value, b.value)];
        if a.valid.is_some() || b.valid.is_some() {
            pairs.push((self.validity_value(a), self.validity_value(b)));
        }
        let results = self.builder.branch(condition, then, otherwise, &pairs);
        Scalar { value: results[0], valid: results.get(1).copied() }
    }

    /// NULL.
    fn null(&mut self, phys: Phys) -> Scalar {
        let value = self.builder.default_of(phys);
        Scalar { value, valid: Some(self.builder.bool(false)) }
    }

    /// Converts a value to another physical type.
    fn converted(&mut self, scalar: Scalar, phys: Phys) -> Scalar {
        Scalar { value: self.builder.convert(scalar.value, phys), valid: scalar.valid }
    }
}

/// The vectorised call that gives an expression, if one does.
pub(super) fn vector_call(expr: &Expr) -> Computed<Option<Expr>> {
    Ok(match &expr.kind {
        ExprKind::Vector(..) => Some(expr.clone()),
        ExprKind::Field(..) => Some(field_column(expr)),
        ExprKind::Cast { .. } if expr.data_type.is_nested() => Some(cast_column(expr)?),
        _ => None,
    })
}
