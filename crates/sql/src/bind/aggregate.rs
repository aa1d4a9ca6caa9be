//! Aggregate functions: their arguments, types and nullability.

use super::arguments::plain_arguments;
use super::expression::Binder;
use super::place::{error, span_of, type_name, unsupported};
use super::scope::Scope;
use crate::functions::aggregate_usage;
use crate::user_function::NativeAggregate;
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;
use std::sync::Arc;

/// The modifiers of an aggregate call, and its arguments as written.
pub(super) struct Written<'a> {
    /// The function.
    pub function: AggregateFunction,
    /// The arguments that are aggregated.
    pub arguments: Vec<&'a ast::Expr>,
    /// ORDER BY within the call.
    pub order: &'a [ast::OrderByExpr],
    parameters: Vec<Value>,
    distinct: bool,
}

/// Reads an aggregate call without binding what it aggregates.
pub(super) fn read<'a>(kind: AggregateFunction, function: &'a ast::Function) -> Result<Written<'a>, Diagnostic> {
    use AggregateFunction as F;
    let place = span_of(&function.name);
    let ast::FunctionArguments::List(list) = &function.args else { return Err(argument_count(kind, place)) };
    let order = order_of(kind, function, list, place)?;
    let keeps_nulls = null_treatment(kind, function, list, place)?;
    let distinct = is_distinct(kind, list, place)?;
    if let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] = list.args.as_slice()
        && kind == F::Count
    {
        if distinct {
            return Err(error(code::SYNTAX, place, "COUNT(DISTINCT *) names no column").advise("name the column"));
        }
        return Ok(Written { function: F::CountRows, arguments: vec![], order, parameters: vec![], distinct: false });
    }
    let mut arguments = plain_arguments(function)?;
    let (values, constants) = match kind {
        F::CovarPop | F::CovarSamp | F::Corr => (2, 0..=0),
        F::Percentile | F::ApproxPercentile => (1, 1..=1),
        F::ListAgg => (1, 0..=1),
        _ => (1, 0..=0),
    };
    if kind == F::Count && arguments.len() > 1 {
        return Err(unsupported("COUNT of several values", place, "count rows with a FILTER instead"));
    }
    if arguments.len() < values || !constants.contains(&(arguments.len() - values)) {
        return Err(argument_count(kind, place));
    }
    let constants = arguments.split_off(values);
    let parameters = match (kind, constants.as_slice()) {
        (F::ArrayAgg, _) => vec![Value::Boolean(keeps_nulls)],
        (F::Percentile | F::ApproxPercentile, [fraction]) => vec![Value::Float(constant_fraction(fraction)?)],
        (F::ListAgg, [separator]) => vec![Value::String(constant_text(separator)?)],
        (F::ListAgg, _) => vec![Value::String(",".into())],
        _ => vec![],
    };
    Ok(Written { function: kind, arguments, order, parameters, distinct })
}

/// `ORDER BY` within the parentheses, or in `WITHIN GROUP (…)` behind them.
fn order_of<'a>(
    kind: AggregateFunction,
    function: &'a ast::Function,
    list: &'a ast::FunctionArgumentList,
    place: Span,
) -> Result<&'a [ast::OrderByExpr], Diagnostic> {
    let within = list.clauses.iter().find_map(|clause| match clause {
        ast::FunctionArgumentClause::OrderBy(keys) => Some(keys.as_slice()),
        _ => None,
    });
    let order = within.unwrap_or(&function.within_group);
    if order.is_empty() || matches!(kind, AggregateFunction::ArrayAgg | AggregateFunction::ListAgg) {
        return Ok(order);
    }
    let advice = match kind {
        AggregateFunction::FirstValue | AggregateFunction::LastValue => "write ARRAY_AGG(x ORDER BY y)[1]",
        _ => "remove it, where the order makes no difference",
    };
    Err(unsupported(&format!("ORDER BY within {}", kind.name()), place, advice))
}

/// Whether ARRAY_AGG keeps NULLs; the others ignore them.
fn null_treatment(
    kind: AggregateFunction,
    function: &ast::Function,
    list: &ast::FunctionArgumentList,
    place: Span,
) -> Result<bool, Diagnostic> {
    let mut treatment = function.null_treatment;
    for clause in &list.clauses {
        match clause {
            ast::FunctionArgumentClause::IgnoreOrRespectNulls(given) => treatment = Some(*given),
            ast::FunctionArgumentClause::OrderBy(_) => {}
            _ => {
                let feature = format!("this clause within {}", kind.name());
                return Err(unsupported(&feature, place, "remove the clause"));
            }
        }
    }
    match treatment {
        Some(ast::NullTreatment::RespectNulls) if kind != AggregateFunction::ArrayAgg => {
            Err(unsupported(&format!("RESPECT NULLS of {}", kind.name()), place, "remove it: NULLs are ignored"))
        }
        other => Ok(other != Some(ast::NullTreatment::IgnoreNulls)),
    }
}

/// Whether values are to be made distinct: DISTINCT is dropped where it changes nothing.
fn is_distinct(kind: AggregateFunction, list: &ast::FunctionArgumentList, place: Span) -> Result<bool, Diagnostic> {
    use AggregateFunction as F;
    if list.duplicate_treatment != Some(ast::DuplicateTreatment::Distinct) {
        return Ok(false);
    }
    match kind {
        F::Count | F::CountRows | F::Sum | F::Avg | F::ListAgg | F::ArrayAgg | F::Collect => Ok(true),
        F::Min | F::Max | F::BoolAnd | F::BoolOr | F::FirstValue | F::ApproxCountDistinct => Ok(false),
        _ => {
            let advice = "aggregate over a SELECT DISTINCT of the window and the value";
            Err(unsupported(&format!("{}(DISTINCT …)", kind.name()), place, advice))
        }
    }
}

fn constant(expression: &ast::Expr) -> Result<Expr, Diagnostic> {
    Binder::scalar(&Scope::default(), "a constant argument").bind(expression)
}

fn constant_fraction(expression: &ast::Expr) -> Result<f64, Diagnostic> {
    let bound = constant(expression);
    let fraction = match bound.as_ref().map(|e| (&e.kind, &e.data_type)) {
        Ok((ExprKind::Literal(Value::Int(i)), t)) if t.is_integer() => Some(*i as f64),
        Ok((ExprKind::Literal(Value::Float(x)), _)) => Some(*x),
        Ok((ExprKind::Literal(Value::Decimal(unscaled)), DataType::Decimal { scale, .. })) => {
            // Through text, so that 0.1 is the double nearest to 0.1.
            format!("{unscaled}e-{scale}").parse().ok()
        }
        _ => None,
    };
    fraction.filter(|f| (0.0..=1.0).contains(f)).ok_or_else(|| {
        error(code::TYPE_MISMATCH, span_of(expression), "the fraction must be a constant from 0 to 1")
            .advise("write 0.95 for the 95th percentile")
    })
}

fn constant_text(expression: &ast::Expr) -> Result<String, Diagnostic> {
    match constant(expression).map(|e| e.kind) {
        Ok(ExprKind::Literal(Value::String(text))) => Ok(text),
        _ => Err(error(code::TYPE_MISMATCH, span_of(expression), "the separator must be a constant string")
            .advise("write LISTAGG(x, ', ')")),
    }
}

fn argument_count(kind: AggregateFunction, place: Span) -> Diagnostic {
    let wanted = match kind {
        AggregateFunction::CovarPop | AggregateFunction::CovarSamp | AggregateFunction::Corr => "two arguments",
        AggregateFunction::Percentile | AggregateFunction::ApproxPercentile => "a value and a fraction",
        AggregateFunction::ListAgg => "a string and at most a separator",
        _ => "one argument",
    };
    error(code::TYPE_MISMATCH, place, format!("{} takes {wanted}", kind.name()))
        .advise(format!("write {}", aggregate_usage(kind)))
}

/// The call with its type.
///
/// `group_of_nothing` says that there is a result even without rows. Results that objects keep, and those that are
/// quotients of sums, are nullable whatever their arguments are.
pub(super) fn typed(
    written: Written<'_>,
    arguments: Vec<Expr>,
    filter: Option<Expr>,
    group_of_nothing: bool,
    span: Span,
) -> Result<AggregateCall, Diagnostic> {
    use AggregateFunction as F;
    let Written { mut function, parameters, distinct, .. } = written;
    let mut arguments = arguments;
    if function == F::Count && !distinct && arguments.iter().all(|a| !a.nullable) {
        // COUNT of what is never NULL counts rows.
        function = F::CountRows;
        arguments.clear();
    }
    for argument in &mut arguments {
        check_argument(function, distinct, argument, span)?;
    }
    let input = arguments.first().map_or(DataType::Null, |a| a.data_type.clone());
    let data_type = match (function, &input) {
        (F::CountRows | F::Count | F::ApproxCountDistinct, _) => DataType::BigInt,
        (F::Sum, DataType::Decimal { scale, .. }) => DataType::decimal(38, *scale),
        (F::Avg, DataType::Decimal { scale, .. }) => DataType::decimal(38, (*scale).max(6)),
        (F::Sum | F::Avg | F::Min | F::Max | F::FirstValue | F::LastValue | F::Mode, _) => input.clone(),
        (F::BoolAnd | F::BoolOr, _) => DataType::Boolean,
        (F::Collect, _) => DataType::Map(Arc::new(input.clone()), Arc::new(DataType::Int)),
        (F::ListAgg, _) => DataType::STRING,
        (F::ArrayAgg, _) => DataType::Array(Arc::new(input.clone())),
        _ => DataType::Double,
    };
    let can_be_missing = || arguments.iter().any(|a| a.nullable) || filter.is_some() || group_of_nothing;
    let nullable = match function {
        F::CountRows | F::Count | F::ApproxCountDistinct => false,
        // A decimal result may not fit.
        F::Sum | F::Avg => distinct || matches!(input, DataType::Decimal { .. }) || can_be_missing(),
        // The extremes of strings are kept as nullable values.
        F::Min | F::Max => input.is_string() || input.is_binary() || can_be_missing(),
        F::BoolAnd | F::BoolOr => can_be_missing(),
        _ => true,
    };
    Ok(AggregateCall { function, arguments, parameters, distinct, filter, last_ms: None, data_type, nullable })
}

/// The call of an aggregate function of the program, without its FILTER: what [`NativeAggregate::finished`] makes the result of.
pub(super) fn of_program<'a>(
    aggregate: &NativeAggregate,
    function: &'a ast::Function,
    span: Span,
    is_over: bool,
    mut bind: impl FnMut(&'a ast::Expr) -> Result<Expr, Diagnostic>,
) -> Result<AggregateCall, Diagnostic> {
    let (name, place) = (&aggregate.name, span_of(&function.name));
    let mut distinct = false;
    if let ast::FunctionArguments::List(list) = &function.args {
        distinct = list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct);
        if !list.clauses.is_empty() || !function.within_group.is_empty() || function.null_treatment.is_some() {
            return Err(unsupported(&format!("a clause within {name}"), place, "remove the clause"));
        }
    }
    if distinct && aggregate.state.is_some() {
        let advice = "aggregate over a SELECT DISTINCT of the window and the value";
        return Err(unsupported(&format!("{name}(DISTINCT …)"), place, advice));
    }
    let arguments = plain_arguments(function)?.into_iter().map(&mut bind).collect::<Result<Vec<_>, _>>()?;
    let packed = aggregate.packed(arguments, span)?;
    let (kind, parameters, data_type) = match aggregate.state {
        // With OVER a state is shown for each row, with the rows that are not folded yet.
        Some(number) => {
            (AggregateFunction::Fold { number, rows: if is_over { 32 } else { 1024 } }, vec![], DataType::BYTES)
        }
        None => {
            let keeps_nulls = vec![Value::Boolean(true)];
            (AggregateFunction::ArrayAgg, keeps_nulls, DataType::Array(Arc::new(DataType::BYTES)))
        }
    };
    let arguments = vec![packed];
    Ok(AggregateCall {
        function: kind,
        arguments,
        parameters,
        distinct,
        filter: None,
        last_ms: None,
        data_type,
        nullable: true,
    })
}

fn check_argument(
    function: AggregateFunction,
    distinct: bool,
    argument: &mut Expr,
    span: Span,
) -> Result<(), Diagnostic> {
    use AggregateFunction as F;
    let (name, input) = (function.name(), &argument.data_type);
    let wrong = |needs: &str, advice: &str| {
        let message = format!("{name} needs {needs}, not {}", type_name(input));
        Err(error(code::TYPE_MISMATCH, argument.span, message).advise(advice))
    };
    match function {
        F::Count if !distinct => return Ok(()),
        F::Sum
        | F::Avg
        | F::StddevPop
        | F::StddevSamp
        | F::VarPop
        | F::VarSamp
        | F::CovarPop
        | F::CovarSamp
        | F::Corr
        | F::Median
        | F::Percentile
        | F::ApproxPercentile
            if !input.is_numeric() =>
        {
            return wrong("a number", "cast the argument to a number");
        }
        F::BoolAnd | F::BoolOr if *input != DataType::Boolean => {
            return wrong("a BOOLEAN", "compare the argument with something");
        }
        F::ListAgg if !input.is_string() => return wrong("a string", "write CAST(x AS STRING)"),
        _ => {}
    }
    if input.is_nested() || *input == DataType::Null {
        let message = format!("{name} cannot be applied to {}", type_name(input));
        return Err(error(code::TYPE_MISMATCH, span, message).advise("aggregate a single field"));
    }
    Ok(())
}
