//! Calls: aggregate functions and window functions; everything else goes to [`crate::functions`].

use super::aggregate;
use super::aggregate_order::add_ordered;
use super::arguments::{argument_texts, function_name, plain_arguments};
use super::expression::{Binder, unit_literal};
use super::place::{error, from_parser, span_of, unsupported};
use super::window::in_milliseconds;
use super::window_kind::{self, WindowKind};
use crate::diagnostics::nearest;
use crate::foreign::call_cure;
use crate::functions::{self, aggregate_names, find_aggregate};
use crate::user_function::{NativeAggregate, UserFunction};
use millstream_plan::aggregate::AggregateFunction;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, code};
use sqlparser::ast;

/// Aggregate functions of Flink that are not there yet.
const MISSING_AGGREGATES: &[&str] = &["GROUP_ID", "JSON_ARRAYAGG", "JSON_OBJECTAGG"];

/// Functions that only stand with OVER.
const OVER_ONLY: &[&str] =
    &["CUME_DIST", "DENSE_RANK", "LAG", "LEAD", "NTH_VALUE", "NTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER"];

/// Whether a name, in any case, is that of a function of the dialect.
pub(crate) fn is_builtin_function(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let special = ["PROCTIME", "ROW", "MAP", "ARRAY", "TABLE", "DESCRIPTOR", "UNNEST", "TIMESTAMPADD", "TIMESTAMPDIFF"];
    let listed = [MISSING_AGGREGATES, OVER_ONLY, &["GROUPING", "GROUPING_ID"]].concat();
    find_aggregate(&upper).is_some()
        || listed.contains(&upper.as_str())
        || special.contains(&upper.as_str())
        || window_kind::is_window_function(&upper)
        || functions::is_scalar(&upper)
}

impl Binder<'_> {
    /// Binds a call.
    pub(crate) fn call(&mut self, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let name = function_name(function)?;
        if let Some(over) = &function.over {
            return self.over_call(function, over, span);
        }
        if let Some(aggregate) = find_aggregate(&name) {
            return self.aggregate(aggregate, function, span);
        }
        if let Some(UserFunction::Aggregate(aggregate)) = self.scope.functions.find(&name).map(|known| &**known) {
            return self.program_aggregate(aggregate, function, span);
        }
        if OVER_ONLY.contains(&name.as_str()) {
            let message = format!("{name} needs OVER (…)");
            return Err(error(code::SYNTAX, span_of(&function.name), message)
                .advise(format!("write {name}() OVER (PARTITION BY … ORDER BY …)")));
        }
        if MISSING_AGGREGATES.contains(&name.as_str()) {
            let advice = "SHOW FUNCTIONS; lists those that are there; ARRAY_AGG and COLLECT gather values";
            return Err(unsupported(&format!("the aggregate function {name}"), span_of(&function.name), advice));
        }
        if matches!(name.as_str(), "GROUPING" | "GROUPING_ID") {
            return self.grouping(&name, function, span);
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
            _ if WindowKind::of(name).is_some() => Err(window_kind::misplaced(name, place)),
            _ if window_kind::is_window_function(name) => self.window_bound(name, function, span),
            "PROCTIME" => match plain_arguments(function)?.as_slice() {
                [] => Ok(Expr::new(ExprKind::ProcessingTime, DataType::TimestampLtz(3), false).at(span)),
                _ => Err(error(code::TYPE_MISMATCH, place, "PROCTIME takes no arguments").advise("write PROCTIME()")),
            },
            "CURRENT_WATERMARK" => self.current_watermark(function, span),
            "BETWEEN SYMMETRIC" => self.between_symmetric(&plain_arguments(function)?, span),
            "TABLE" | "DESCRIPTOR" => Err(error(code::SYNTAX, place, format!("{name} stands only in table functions"))
                .advise("write FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))")),
            "TIMESTAMPADD" | "TIMESTAMPDIFF" => {
                let bind = |(i, argument): (usize, &ast::Expr)| match argument {
                    ast::Expr::Identifier(unit) if i == 0 => Ok(unit_literal(&unit.value, from_parser(unit.span))),
                    other => self.bind(other),
                };
                let bound = plain_arguments(function)?.into_iter().enumerate().map(bind);
                functions::bind_call(name, bound.collect::<Result<Vec<_>, _>>()?, span)
            }
            _ => {
                let of_user = self.scope.functions.find(name);
                if of_user.is_none() && !functions::is_scalar(name) {
                    return Err(self.unknown_function(name, function));
                }
                let arguments = plain_arguments(function)?;
                let bound = arguments.into_iter().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
                match self.scope.functions.find(name) {
                    Some(of_user) => of_user.call(bound, span),
                    None => functions::bind_call(name, bound, span),
                }
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
        let data_type = in_milliseconds(time).data_type;
        Ok(Expr::new(ExprKind::CurrentWatermark, data_type, true).at(span))
    }

    fn unknown_function(&self, name: &str, function: &ast::Function) -> Diagnostic {
        let message = format!("unknown function `{}`", function.name);
        let known = nearest(name, aggregate_names())
            .or_else(|| functions::suggest(name))
            .or_else(|| nearest(name, window_kind::BOUND_NAMES));
        let ours = || self.scope.functions.suggest(name).or(known).map(|near| format!("did you mean {near}?"));
        let advice = call_cure(name, &argument_texts(function)).or_else(ours).unwrap_or_else(|| {
            let start: String = name.chars().take(3).collect();
            format!("SHOW FUNCTIONS; lists all, SHOW FUNCTIONS LIKE '%{start}%'; those with {start} in their names")
        });
        error(code::UNKNOWN_FUNCTION, span_of(&function.name), message).advise(advice)
    }

    fn aggregate(&mut self, kind: AggregateFunction, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let name = kind.name();
        let place = span_of(&function.name);
        let Some(aggregates) = self.aggregates.as_deref_mut() else {
            let message = format!("the aggregate function {name} cannot stand in {}", self.clause);
            return Err(error(code::NOT_GROUPED, place, message)
                .advise("filter aggregates with HAVING, or aggregate in a subquery"));
        };
        let written = aggregate::read(kind, function)?;
        let mut inner = Binder::scalar(self.scope, "an aggregate function");
        let arguments = written.arguments.iter().map(|e| inner.bind(e)).collect::<Result<Vec<_>, _>>()?;
        inner.clause = "FILTER";
        let filter = function.filter.as_ref().map(|f| inner.condition(f, "FILTER")).transpose()?;
        inner.clause = "an aggregate function";
        let order = written.order.iter().map(|key| inner.sort_key(key)).collect::<Result<Vec<_>, _>>()?;
        let call = aggregate::typed(written, arguments, filter, aggregates.group_of_nothing, span)?;
        match order.is_empty() {
            true => Ok(aggregates.add(call, span)),
            false => add_ordered(aggregates, &call, order, span),
        }
    }

    /// An aggregate function of the program.
    fn program_aggregate(
        &mut self,
        aggregate: &NativeAggregate,
        function: &ast::Function,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let Some(aggregates) = self.aggregates.as_deref_mut() else {
            let message = format!("the aggregate function {} cannot stand in {}", aggregate.name, self.clause);
            return Err(error(code::NOT_GROUPED, span_of(&function.name), message)
                .advise("filter aggregates with HAVING, or aggregate in a subquery"));
        };
        let mut inner = Binder::scalar(self.scope, "an aggregate function");
        let mut call = aggregate::of_program(aggregate, function, span, false, |e| inner.bind(e))?;
        inner.clause = "FILTER";
        call.filter = function.filter.as_ref().map(|f| inner.condition(f, "FILTER")).transpose()?;
        Ok(aggregate.finished(aggregates.add(call, span), span))
    }

    /// `GROUPING(key, …)`: a bit for each key, 1 where the grouping set lacks it.
    fn grouping(&mut self, name: &str, function: &ast::Function, span: Span) -> Result<Expr, Diagnostic> {
        let place = span_of(&function.name);
        let Some(aggregates) = self.aggregates.as_deref_mut() else {
            let message = format!("{name} cannot stand in {}", self.clause);
            return Err(error(code::NOT_GROUPED, place, message).advise("use it in SELECT or HAVING"));
        };
        let arguments = plain_arguments(function)?;
        if arguments.is_empty() || arguments.len() > 62 {
            let message = format!("{name} takes one or more keys of GROUP BY");
            return Err(error(code::TYPE_MISMATCH, place, message).advise(format!("write {name}(key)")));
        }
        let mut inner = Binder::scalar(self.scope, "GROUPING");
        let keys = arguments.into_iter().map(|e| inner.bind(e)).collect::<Result<Vec<_>, _>>()?;
        Ok(aggregates.add_grouping(keys, span))
    }
}
