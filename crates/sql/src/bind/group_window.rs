//! TUMBLE, HOP and SESSION in GROUP BY, and the functions that give the bounds of such a window.

use super::aggregate_list::{AggregateList, GroupWindow};
use super::arguments::{function_name, plain_arguments};
use super::expression::Binder;
use super::markers::Bound;
use super::place::{error, span_of};
use super::scope::{Attribute, Scope, Windows};
use super::window::{assigner, check_time, in_milliseconds};
use super::window_kind::{AUXILIARIES, WindowKind, misplaced};
use millstream_plan::expr::{Expr, Span};
use millstream_types::{Diagnostic, code};
use sqlparser::ast;

/// The window that a function of GROUP BY is, if it is one.
pub(crate) fn of_group_by(scope: &Scope, function: &ast::Function) -> Result<Option<GroupWindow>, Diagnostic> {
    let name = function_name(function)?;
    match WindowKind::of(&name) {
        Some(kind) if kind.is_group_function() => bind(scope, kind, function).map(Some),
        Some(kind) => {
            let place = span_of(&function.name);
            Err(error(code::INVALID_WINDOW, place, format!("{name} cannot stand in GROUP BY")).advise(format!(
                "write FROM TABLE({name}(TABLE t, DESCRIPTOR(ts), {})) … GROUP BY window_start, window_end",
                kind.example()
            )))
        }
        None => Ok(None),
    }
}

/// The window of the arguments of a window function of GROUP BY or of one of its auxiliary functions.
fn bind(scope: &Scope, kind: WindowKind, function: &ast::Function) -> Result<GroupWindow, Diagnostic> {
    let arguments = plain_arguments(function)?;
    let required = kind.measures().iter().filter(|m| **m != "OFFSET").count();
    let Some((time, measures)) = arguments.split_first().filter(|(_, measures)| measures.len() == required) else {
        let names: Vec<String> =
            kind.measures().iter().filter(|m| **m != "OFFSET").map(|m| m.to_ascii_lowercase()).collect();
        let message = format!("{} in GROUP BY takes a time and a {}", kind.name(), names.join(" and a "));
        return Err(error(code::INVALID_WINDOW, span_of(&function.name), message).advise(format!(
            "write {}(ts, {})",
            kind.name(),
            kind.example()
        )));
    };
    let time = Binder::scalar(scope, kind.name()).bind(time)?;
    check_time(scope, &time, time.span)?;
    let is_processing_time = scope.attribute(&time) == Attribute::Proctime;
    let time = in_milliseconds(time);
    let windows = Windows { assigner: assigner(kind, measures)?, time_type: time.data_type.clone(), partitions: 0 };
    Ok(GroupWindow { windows, time, kind, is_processing_time })
}

impl Binder<'_> {
    /// TUMBLE_START, HOP_END, SESSION_ROWTIME and their siblings: a bound of the window of GROUP BY.
    pub(crate) fn window_bound(
        &mut self,
        name: &str,
        function: &ast::Function,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let place = span_of(&function.name);
        let parts = AUXILIARIES.iter().find_map(|suffix| Some((WindowKind::of(name.strip_suffix(suffix)?)?, *suffix)));
        let Some((kind, suffix)) = parts.filter(|(kind, _)| kind.is_group_function()) else {
            return Err(misplaced(name, place));
        };
        let Some(known) = self.aggregates.as_ref().and_then(|a| a.group_window.clone()) else {
            let message = format!("{name} needs a GROUP BY with the same {}", kind.name());
            return Err(error(code::INVALID_WINDOW, place, message).advise(format!(
                "add GROUP BY {}(ts, {}), or select window_start of the table function",
                kind.name(),
                kind.example()
            )));
        };
        let same = known.kind == kind && bind(self.scope, kind, function).is_ok_and(|given| given.is_same(&known));
        if !same {
            let message = format!("{name} must have the arguments of GROUP BY's {}", known.kind.name());
            return Err(
                error(code::INVALID_WINDOW, place, message).advise("repeat the arguments as they are in GROUP BY")
            );
        }
        let bound = match suffix {
            "_START" => Bound::Start,
            "_END" => Bound::End,
            _ => Bound::Time,
        };
        let (wanted, other) =
            if known.is_processing_time { ("_PROCTIME", "processing") } else { ("_ROWTIME", "event") };
        if bound == Bound::Time && suffix != wanted {
            let message = format!("the windows of GROUP BY are of {other} time");
            return Err(error(code::INVALID_WINDOW, place, message).advise(format!("use {}{wanted}", kind.name())));
        }
        Ok(AggregateList::bound(bound, &known.windows.time_type, span))
    }
}
