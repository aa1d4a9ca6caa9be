//! LAG, LEAD and NTILE: what OVER computes from the place of a row among others.
//!
//! | call | becomes |
//! | --- | --- |
//! | `LAG(x, n, y)` | the first value of `ARRAY_AGG(x) OVER (… ROWS n PRECEDING)`, if these are more than n; else y |
//! | `LEAD(x, n, y)` | the same in the opposite order |
//! | an aggregate over `n PRECEDING AND m PRECEDING` | as `LAG`, of the same aggregate over `n - m PRECEDING` |
//! | `NTILE(k)` | arithmetic with `ROW_NUMBER` in both orders, whose sum is one more than the number of rows |

use super::arguments::plain_arguments;
use super::coercion::common_type;
use super::expression::Binder;
use super::operators;
use super::over_list::{OverCall, OverFunction, OverList, Whole};
use super::place::{error, span_of, type_name, unsupported};
use super::scope::Scope;
use crate::functions;
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, Span};
use millstream_plan::logical::{Frame, RankFunction};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;
use std::sync::Arc;

/// A function of the place of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    Lag,
    Lead,
    Ntile,
}

impl Shift {
    /// The function of an upper-case name.
    pub fn of(name: &str) -> Option<Shift> {
        match name {
            "LAG" => Some(Shift::Lag),
            "LEAD" => Some(Shift::Lead),
            "NTILE" => Some(Shift::Ntile),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Shift::Lag => "LAG",
            Shift::Lead => "LEAD",
            Shift::Ntile => "NTILE",
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Shift::Lag => "write LAG(x [, rows [, default]]) OVER (… ORDER BY …)",
            Shift::Lead => "write LEAD(x [, rows [, default]]) OVER (… ORDER BY …)",
            Shift::Ntile => "write NTILE(4) OVER (… ORDER BY …)",
        }
    }
}

impl Binder<'_> {
    /// A call of one of the functions over a specification.
    pub(super) fn shift(
        &mut self,
        shift: Shift,
        function: &ast::Function,
        specification: &ast::WindowSpec,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let (name, place) = (shift.name(), span_of(&function.name));
        if specification.window_frame.is_some() {
            return Err(error(code::SYNTAX, place, format!("{name} has no frame")).advise("remove ROWS or RANGE"));
        }
        self.check_clauses_of_shift(shift, function, place)?;
        let arguments = plain_arguments(function)?;
        let counts = if shift == Shift::Ntile { 1..=1 } else { 1..=3 };
        if !counts.contains(&arguments.len()) {
            let wanted = if shift == Shift::Ntile { "one argument" } else { "one to three arguments" };
            return Err(error(code::TYPE_MISMATCH, place, format!("{name} takes {wanted}")).advise(shift.usage()));
        }
        // Within OVER there are no further calls with OVER.
        let clause = std::mem::replace(&mut self.clause, "OVER");
        let parts = self.partition_and_order(specification);
        let value = self.bind(arguments[0]);
        let default = arguments.get(2).map(|e| self.bind(e)).transpose();
        self.clause = clause;
        let ((partition, order), value, default) = (parts?, value?, default?);
        let call = |function, frame, backwards| OverCall {
            function,
            partition: partition.clone(),
            order: order.clone(),
            frame,
            whole: (shift != Shift::Lag).then_some(Whole { name, backwards }),
            place,
        };
        let overs = &mut self.aggregates.as_deref_mut().expect("the caller has looked").overs;
        if shift == Shift::Ntile {
            let tiles = constant_rows(arguments[0], 1, "the number of tiles", shift)?;
            let mut number = |backwards| {
                overs.add(call(OverFunction::Rank(RankFunction::RowNumber), Frame::Rows(None), backwards), span)
            };
            return ntile(tiles, number(false), number(true), span);
        }
        let rows = arguments.get(1).map_or(Ok(1), |e| constant_rows(e, 0, "the number of rows", shift))?;
        let default = default.unwrap_or_else(|| Expr::literal(Value::Null, DataType::Null).at(span));
        let data_type = match common_type(&value.data_type, &default.data_type) {
            Some(DataType::Null) | None => {
                let (value, default) = (type_name(&value.data_type), type_name(&default.data_type));
                let message = format!("the value of {name} is {value} and its default {default}");
                return Err(error(code::TYPE_MISMATCH, place, message).advise("cast one to the type of the other"));
            }
            Some(data_type) if data_type.is_nested() => {
                let feature = format!("{name} of {}", type_name(&data_type));
                return Err(unsupported(&feature, place, "take single fields"));
            }
            Some(_) => value.data_type.clone(),
        };
        let overs_call = |function, frame| call(function, frame, shift == Shift::Lead);
        shifted(overs, &overs_call, value, data_type, rows.unsigned_abs(), default, span)
    }

    fn check_clauses_of_shift(&self, shift: Shift, function: &ast::Function, place: Span) -> Result<(), Diagnostic> {
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(()) };
        let ignores = |treatment: &ast::NullTreatment| *treatment == ast::NullTreatment::IgnoreNulls;
        let within = list.clauses.iter().any(|clause| match clause {
            ast::FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => ignores(treatment),
            _ => true,
        });
        if within || list.duplicate_treatment.is_some() || function.null_treatment.as_ref().is_some_and(ignores) {
            let feature = format!("IGNORE NULLS, DISTINCT or another clause of {}", shift.name());
            return Err(unsupported(&feature, place, "remove the clause"));
        }
        Ok(())
    }
}

/// The value in the row that is `rows` before, or `default`, by a call that `call` makes.
fn shifted(
    overs: &mut OverList,
    call: &dyn Fn(OverFunction, Frame) -> OverCall,
    value: Expr,
    data_type: DataType,
    rows: u64,
    default: Expr,
    span: Span,
) -> Result<Expr, Diagnostic> {
    let aggregate = AggregateCall {
        function: AggregateFunction::ArrayAgg,
        arguments: vec![value],
        parameters: vec![Value::Boolean(true)],
        distinct: false,
        filter: None,
        last_ms: None,
        data_type: DataType::Array(Arc::new(data_type)),
        nullable: true,
    };
    let values = overs.add(call(OverFunction::Aggregate(aggregate), Frame::Rows(Some(rows))), span);
    // NULLs are among the values, so there are as many as rows.
    let count = functions::bind_call("CARDINALITY", vec![values.clone()], span)?;
    let rows = Expr::literal(Value::Int(rows.cast_signed()), DataType::BigInt).at(span);
    let is_there = operators::compare(CompareOp::Greater, count, rows, span)?;
    let first = Expr::literal(Value::Int(1), DataType::Int).at(span);
    let value = functions::bind_call("[]", vec![values, first], span)?;
    operators::case(vec![(is_there, value)], default, span)
}

/// What `call`, whose result is `value`, gives for the row that is `rows` before: of no row where there is none.
pub(super) fn ended_before(
    overs: &mut OverList,
    call: &OverCall,
    value: Expr,
    rows: u64,
    span: Span,
) -> Result<Expr, Diagnostic> {
    let data_type = value.data_type.clone();
    if data_type.is_nested() {
        let feature = format!("a frame of {} that ends before the current row", type_name(&data_type));
        return Err(unsupported(&feature, call.place, "end the frame at CURRENT ROW"));
    }
    use AggregateFunction::{ApproxCountDistinct, Count, CountRows};
    let default = match &call.function {
        OverFunction::Aggregate(AggregateCall { function: Count | CountRows | ApproxCountDistinct, .. }) => {
            Value::Int(0)
        }
        _ => Value::Null,
    };
    let default = Expr::literal(default, data_type.clone()).at(span);
    let again = |function, frame| OverCall { function, frame, ..call.clone() };
    shifted(overs, &again, value, data_type, rows, default, span)
}

/// A constant number of rows, at least `least`.
fn constant_rows(expression: &ast::Expr, least: i64, what: &str, shift: Shift) -> Result<i64, Diagnostic> {
    let bound = Binder::scalar(&Scope::default(), "a constant argument").bind(expression);
    match bound.as_ref().map(|e| (&e.kind, &e.data_type)) {
        Ok((ExprKind::Literal(Value::Int(n)), t)) if t.is_integer() && *n >= least => Ok(*n),
        _ => {
            let message = format!("{what} of {} must be a constant of at least {least}", shift.name());
            Err(error(code::TYPE_MISMATCH, span_of(expression), message).advise(shift.usage()))
        }
    }
}

/// The tile of a row with these numbers from either end. Of `tiles` tiles the first ones have a row more, if they cannot all have equally many.
fn ntile(tiles: i64, number: Expr, from_end: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let int = |n| Expr::literal(Value::Int(n), DataType::BigInt).at(span);
    let of = |op, a: &Expr, b: &Expr| operators::arithmetic(op, a.clone(), b.clone(), span);
    let before = of(ArithmeticOp::Subtract, &number, &int(1))?;
    let rows = of(ArithmeticOp::Add, &before, &from_end)?;
    let size = of(ArithmeticOp::Divide, &rows, &int(tiles))?;
    let larger = of(ArithmeticOp::Modulo, &rows, &int(tiles))?;
    let in_larger = of(ArithmeticOp::Multiply, &larger, &of(ArithmeticOp::Add, &size, &int(1))?)?;
    let among_larger = of(ArithmeticOp::Divide, &before, &of(ArithmeticOp::Add, &size, &int(1))?)?;
    // Only where there are rows beyond the larger tiles is the size not 0.
    let behind = of(ArithmeticOp::Divide, &of(ArithmeticOp::Subtract, &before, &in_larger)?, &size)?;
    let is_larger = operators::compare(CompareOp::Less, before, in_larger, span)?;
    let first = of(ArithmeticOp::Add, &among_larger, &int(1))?;
    let last = of(ArithmeticOp::Add, &of(ArithmeticOp::Add, &larger, &behind)?, &int(1))?;
    operators::case(vec![(is_larger, first)], last, span)
}
