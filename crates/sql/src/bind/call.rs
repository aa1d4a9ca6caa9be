//! Calls: aggregate functions and window functions; everything else goes to [`crate::functions`].

use super::expression::{Binder, unit_literal};
use super::place::{error, from_parser, span_of, unsupported};
use super::window;
use crate::diagnostics::nearest;
use crate::functions;
use millstream_plan::aggregate::AggregateFunction;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, code};
use sqlparser::ast;

/// Aggregate functions of Flink that are not there yet.
const MISSING_AGGREGATES: &[&str] = &[
    "APPROX_COUNT_DISTINCT",
    "ARRAY_AGG",
    "COLLECT",
    "CUME_DIST",
    "DENSE_RANK",
    "FIRST_VALUE",
    "GROUPING",
    "GROUPING_ID",
    "GROUP_ID",
    "JSON_ARRAYAGG",
    "JSON_OBJECTAGG",
    "LAG",
    "LAST_VALUE",
    "LEAD",
    "LISTAGG",
    "NTILE",
    "PERCENTILE",
    "PERCENT_RANK",
    "RANK",
    "ROW_NUMBER",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
];

/// Aggregate functions that are there, for suggestions.
const AGGREGATES: &[&str] = &["AVG", "COUNT", "MAX", "MIN", "SUM"];

fn aggregate_function(name: &str) -> Option<AggregateFunction> {
    match name {
        "COUNT" => Some(AggregateFunction::Count),
        "SUM" => Some(AggregateFunction::Sum),
        "MIN" => Some(AggregateFunction::Min),
        "MAX" => Some(AggregateFunction::Max),
        "AVG" => Some(AggregateFunction::Avg),
        _ => None,
    }
}

/// The plain name of a function in upper case, and the name as written.
pub(crate) fn function_name(function: &ast::Function) -> Result<String, Diagnostic> {
    match function.name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => Ok(name.value.to_ascii_uppercase()),
        _ => {
            let message = format!("unknown function `{}`", function.name);
            Err(error(code::UNKNOWN_FUNCTION, span_of(&function.name), message)
                .advise("functions are called by their plain name"))
        }
    }
}

/// The arguments of a call, all plain expressions.
pub(crate) fn plain_arguments(function: &ast::Function) -> Result<Vec<&ast::Expr>, Diagnostic> {
    let list = match &function.args {
        ast::FunctionArguments::None => return Ok(vec![]),
        ast::FunctionArguments::List(list) => list,
        ast::FunctionArguments::Subquery(query) => {
            return Err(unsupported("a subquery as an argument", span_of(&**query), "compute the value in the query"));
        }
    };
    let mut plain = Vec::with_capacity(list.args.len());
    for argument in &list.args {
        match argument {
            ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => plain.push(expr),
            ast::FunctionArg::Unnamed(_) => {
                let message = format!("`*` is not an argument of {}", function.name);
                return Err(error(code::TYPE_MISMATCH, span_of(&function.name), message).advise("name the columns"));
            }
            _ => {
                let advice = "give the arguments in order";
                return Err(unsupported("an argument by name", span_of(&function.name), advice));
            }
        }
    }
    Ok(plain)
}

impl Binder<'_> {
    /// Binds a call.
    pub(crate) fn call(&mut self, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let name = function_name(function)?;
        if function.over.is_some() {
            let advice = "aggregate within a window (TUMBLE) instead";
            return Err(unsupported(&format!("{name} … OVER (…)"), span_of(&function.name), advice));
        }
        if let Some(aggregate) = aggregate_function(&name) {
            return self.aggregate(aggregate, function, span);
        }
        if MISSING_AGGREGATES.contains(&name.as_str()) {
            let advice = "use COUNT, SUM, MIN, MAX or AVG";
            return Err(unsupported(&format!("the aggregate function {name}"), span_of(&function.name), advice));
        }
        if let Some(filter) = &function.filter {
            let message = format!("FILTER belongs to aggregate functions, and {name} is none");
            return Err(error(code::TYPE_MISMATCH, span_of(&**filter), message).advise("use CASE WHEN instead"));
        }
        if let ast::FunctionArguments::List(list) = &function.args
            && list.duplicate_treatment.is_some()
        {
            let message = format!("DISTINCT belongs to aggregate functions, and {name} is none");
            return Err(error(code::TYPE_MISMATCH, span_of(&function.name), message).advise("remove DISTINCT"));
        }
        self.scalar_call(&name, function, span)
    }

    fn scalar_call(&mut self, name: &str, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let place = span_of(&function.name);
        match name {
            "TUMBLE_START" | "TUMBLE_END" | "TUMBLE_ROWTIME" => self.window_bound(name, function, span),
            _ if window::is_window_function(name) => Err(window::misplaced(name, place)),
            "PROCTIME" => match plain_arguments(function)?.as_slice() {
                [] => Ok(Expr::new(ExprKind::ProcessingTime, DataType::TimestampLtz(3), false).at(span)),
                _ => Err(error(code::TYPE_MISMATCH, place, "PROCTIME takes no arguments").advise("write PROCTIME()")),
            },
            "CURRENT_WATERMARK" => self.current_watermark(function, span),
            "ROW" => Err(unsupported("a ROW constructor", place, "select the fields as columns")),
            "MAP" => Err(unsupported("a MAP constructor", place, "select the values as columns")),
            "TABLE" | "DESCRIPTOR" => Err(error(code::SYNTAX, place, format!("{name} stands only in table functions"))
                .advise("write FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))")),
            "TIMESTAMPADD" | "TIMESTAMPDIFF" => {
                let arguments = plain_arguments(function)?;
                let mut bound = Vec::with_capacity(arguments.len());
                for (i, argument) in arguments.into_iter().enumerate() {
                    bound.push(match argument {
                        ast::Expr::Identifier(unit) if i == 0 => unit_literal(&unit.value, from_parser(unit.span)),
                        other => self.bind(other)?,
                    });
                }
                functions::bind_call(name, bound, span)
            }
            _ => {
                if !functions::is_scalar(name) {
                    return Err(unknown_function(name, function));
                }
                let arguments = plain_arguments(function)?;
                let bound = arguments.into_iter().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
                functions::bind_call(name, bound, span)
            }
        }
    }

    /// `CURRENT_WATERMARK(rowtime)`: of the type of the time.
    fn current_watermark(&mut self, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let place = span_of(&function.name);
        let usage = "write CURRENT_WATERMARK(ts), where ts is the column with the watermark";
        let &[time] = plain_arguments(function)?.as_slice() else {
            return Err(error(code::TYPE_MISMATCH, place, "CURRENT_WATERMARK takes one argument").advise(usage));
        };
        let time = self.bind(time)?;
        if !self.scope.attribute(&time).is_event_time() {
            let message = "the argument of CURRENT_WATERMARK is not an event time";
            return Err(error(code::TYPE_MISMATCH, time.span, message).advise(usage));
        }
        let data_type = match time.data_type {
            DataType::TimestampLtz(_) => DataType::TimestampLtz(3),
            _ => DataType::Timestamp(3),
        };
        Ok(Expr::new(ExprKind::CurrentWatermark, data_type, true).at(span))
    }

    fn aggregate(
        &mut self,
        aggregate: AggregateFunction,
        function: &ast::Function,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let name = aggregate.name();
        let place = span_of(&function.name);
        let Some(aggregates) = self.aggregates.as_deref_mut() else {
            let message = format!("the aggregate function {name} cannot stand in {}", self.clause);
            return Err(error(code::NOT_GROUPED, place, message)
                .advise("filter aggregates with HAVING, or aggregate in a subquery"));
        };
        let list = match &function.args {
            ast::FunctionArguments::List(list) => list,
            _ => return Err(argument_count(name, place)),
        };
        if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
            return Err(unsupported(
                &format!("{name}(DISTINCT …)"),
                place,
                "aggregate over a windowed SELECT DISTINCT",
            ));
        }
        if !list.clauses.is_empty() || !function.within_group.is_empty() {
            return Err(unsupported(&format!("ORDER BY or another clause within {name}"), place, "remove the clause"));
        }
        let mut inner = Binder::scalar(self.scope, "an aggregate function");
        let argument = match list.args.as_slice() {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] if aggregate == AggregateFunction::Count => {
                None
            }
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] => Some(inner.bind(argument)?),
            [_, _, ..] if aggregate == AggregateFunction::Count => {
                return Err(unsupported("COUNT of several values", place, "count rows with a FILTER instead"));
            }
            _ => return Err(argument_count(name, place)),
        };
        inner.clause = "FILTER";
        let filter = function.filter.as_ref().map(|f| inner.condition(f, "FILTER")).transpose()?;
        aggregates.add(aggregate, argument, filter, span)
    }
}

fn argument_count(name: &str, place: Span) -> Diagnostic {
    let advice = if name == "COUNT" { "write COUNT(*) or COUNT(x)".into() } else { format!("write {name}(x)") };
    error(code::TYPE_MISMATCH, place, format!("{name} takes one argument")).advise(advice)
}

fn unknown_function(name: &str, function: &ast::Function) -> Diagnostic {
    let message = format!("unknown function `{}`", function.name);
    let advice = match nearest(name, AGGREGATES.iter().copied()).or_else(|| functions::suggest(name)) {
        Some(near) => format!("did you mean {near}?"),
        None => "docs/sql-reference.md lists all functions".into(),
    };
    error(code::UNKNOWN_FUNCTION, span_of(&function.name), message).advise(advice)
}
