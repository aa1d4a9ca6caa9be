//! Window table functions: `FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size))` and its siblings.
//!
//! They add `window_start`, `window_end` and `window_time` to every row. Nothing is aggregated yet; a GROUP BY over the
//! start and the end finds, by the [`Attribute`] of the columns, that its groups are windows.

use super::arguments::{function_name, plain_arguments};
use super::changes::no_times;
use super::expression::Binder;
use super::place::{error, from_parser, span_of};
use super::query::QueryBinder;
use super::relation::Relation;
use super::scope::{Attribute, Column, Scope, Windows};
use super::window::{assigner, check_time, in_milliseconds};
use super::window_kind::{WindowKind, misplaced};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::Rel;
use millstream_plan::window::{Slicing, Timeline, WindowAssigner};
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast;
use std::sync::Arc;

/// The operands of a window table function.
struct WindowOperands<'a> {
    data: &'a ast::Expr,
    time: &'a ast::Expr,
    /// In the order of [`WindowKind::measures`].
    measures: Vec<&'a ast::Expr>,
}

impl<'a> WindowOperands<'a> {
    /// Sorts arguments, by position or by name.
    fn of(kind: WindowKind, arguments: &'a [ast::FunctionArg], place: Span) -> Result<WindowOperands<'a>, Diagnostic> {
        let function = kind.name();
        let wrong = |message: String| {
            let given = match arguments {
                [data, time, ..] => format!("{data}, {time}"),
                _ => "TABLE t, DESCRIPTOR(ts)".into(),
            };
            let given = given.replace("TABLE(", "TABLE ").replacen("),", ",", usize::from(given.starts_with("TABLE(")));
            let needed: Vec<&str> = kind.measures().iter().copied().filter(|name| *name != "OFFSET").collect();
            let names = needed.join(" and ").to_lowercase();
            let usage = format!("write {function}({given}, {}), with {names} in this order", kind.example());
            Err(error(code::INVALID_WINDOW, place, message).advise(usage))
        };
        let names: Vec<&str> = ["DATA", "TIMECOL"].into_iter().chain(kind.measures().iter().copied()).collect();
        let mut slots: Vec<Option<&ast::Expr>> = vec![None; names.len()];
        for (position, argument) in arguments.iter().enumerate() {
            let (slot, value) = match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => (position, value),
                ast::FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(value), .. } => {
                    match names.iter().position(|n| name.value.eq_ignore_ascii_case(n)) {
                        Some(slot) => (slot, value),
                        None => {
                            let message = format!("{function} has no operand {}", name.value);
                            return Err(error(code::INVALID_WINDOW, from_parser(name.span), message)
                                .advise(format!("its operands are {}", names.join(", "))));
                        }
                    }
                }
                _ => return wrong(format!("the operands of {function} are {}", names.join(", "))),
            };
            let Some(target) = slots.get_mut(slot) else {
                return wrong(format!("{function} takes at most {} operands: {}", names.len(), names.join(", ")));
            };
            if target.replace(value).is_some() {
                return wrong(format!("the operand {} of {function} is given twice", names[slot]));
            }
        }
        let missing = slots.iter().zip(&names).find(|(slot, name)| slot.is_none() && **name != "OFFSET");
        let (Some(data), Some(time), None) = (slots[0], slots[1], missing) else {
            let missing = missing.map_or("DATA", |(_, name)| name);
            return wrong(format!("{function} needs the operand {missing}"));
        };
        // Only the last, the offset, can be missing.
        let measures = slots.into_iter().skip(2).flatten().collect();
        Ok(WindowOperands { data, time, measures })
    }
}

impl QueryBinder<'_> {
    /// A window table function in FROM.
    pub(crate) fn window_table(
        &mut self,
        name: &str,
        arguments: &[ast::FunctionArg],
        place: Span,
    ) -> Result<Relation, Diagnostic> {
        let Some(kind) = WindowKind::of(name) else { return Err(misplaced(name, place)) };
        let operands = WindowOperands::of(kind, arguments, place)?;
        let (mut input, partition) = self.window_input(kind, operands.data)?;
        for column in &mut input.columns {
            column.qualifier = Arc::default();
        }
        let scope = Scope::of(input.columns.clone());
        let time_span = span_of(operands.time);
        let time = scope.resolve(std::slice::from_ref(descriptor(kind, operands.time)?))?;
        // Without a watermark no row of a bounded input is late, and its windows are complete at its end.
        let is_moment = matches!(time.data_type, DataType::Timestamp(_) | DataType::TimestampLtz(_));
        if !(is_moment && self.is_one_window(&input.rel)) {
            check_time(&scope, &time, time_span).map_err(|e| no_times(&input.rel, self.extent(&input.rel), e))?;
        }
        let assigner = assigner(kind, &operands.measures)?;
        let partition = partition.into_iter().map(|e| partition_column(&scope, e)).collect::<Result<Vec<_>, _>>()?;
        Ok(match assigner {
            WindowAssigner::Tumble(slicing) => tumble(input, &scope, time, slicing),
            _ => windowed(input, time, assigner, partition),
        })
    }

    /// `TABLE t` or a subquery, either with `PARTITION BY …`.
    fn window_input<'e>(
        &mut self,
        kind: WindowKind,
        data: &'e ast::Expr,
    ) -> Result<(Relation, Vec<&'e ast::Expr>), Diagnostic> {
        let span = span_of(data);
        match data {
            ast::Expr::Function(function) if function_name(function)? == "TABLE" => {
                let mut arguments = plain_arguments(function)?.into_iter();
                let table = arguments.next();
                let partition: Vec<&ast::Expr> = arguments.collect();
                if let (Some(key), false) = (partition.first(), kind.has_partitions()) {
                    let message = format!("PARTITION BY changes nothing in {}", kind.name());
                    return Err(
                        error(code::INVALID_WINDOW, span_of(*key), message).advise("GROUP BY the column instead")
                    );
                }
                let relation = match table {
                    Some(ast::Expr::Identifier(name)) => self.named_relation(std::slice::from_ref(name))?,
                    Some(ast::Expr::CompoundIdentifier(path)) => self.named_relation(path)?,
                    Some(ast::Expr::Subquery(query)) => self.query(query, false)?,
                    _ => {
                        return Err(error(code::SYNTAX, span, "expected the name of a table after TABLE")
                            .advise("write TABLE t, or a query in parentheses"));
                    }
                };
                Ok((relation, partition))
            }
            ast::Expr::Subquery(query) => Ok((self.query(query, false)?, vec![])),
            ast::Expr::Nested(inner) => self.window_input(kind, inner),
            _ => {
                let message = format!("the first operand of {} must be a table", kind.name());
                Err(error(code::INVALID_WINDOW, span, message)
                    .advise(format!("write {}(TABLE {data}, …)", kind.name())))
            }
        }
    }
}

/// What to write instead of an operand that is not `DESCRIPTOR(column)`.
fn descriptor_cure(operand: &ast::Expr) -> String {
    match operand {
        ast::Expr::Identifier(name) => format!("write DESCRIPTOR({name})"),
        _ if operand.to_string().to_uppercase().contains("PROCTIME") => {
            "add the column proctime AS PROCTIME() to CREATE TABLE, and write DESCRIPTOR(proctime)".into()
        }
        _ => "write DESCRIPTOR(ts), where ts is the column with the watermark".into(),
    }
}

/// The column of `DESCRIPTOR(column)`.
fn descriptor(kind: WindowKind, operand: &ast::Expr) -> Result<&ast::Ident, Diagnostic> {
    let wrong = || {
        let message = format!("the time of {} must be DESCRIPTOR(column)", kind.name());
        error(code::INVALID_WINDOW, span_of(operand), message).advise(descriptor_cure(operand))
    };
    match operand {
        ast::Expr::Function(function) if function_name(function)? == "DESCRIPTOR" => {
            match plain_arguments(function)?.as_slice() {
                [ast::Expr::Identifier(name)] => Ok(name),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// A column of PARTITION BY.
fn partition_column(scope: &Scope, expression: &ast::Expr) -> Result<Expr, Diagnostic> {
    let column = Binder::scalar(scope, "PARTITION BY").bind(expression)?;
    if matches!(column.kind, ExprKind::Column(_)) && !column.data_type.is_nested() {
        return Ok(column);
    }
    let message = "PARTITION BY of a window takes columns of simple types";
    Err(error(code::INVALID_WINDOW, column.span, message).advise("compute the column in a view, and name it here"))
}

/// Columns of earlier windows lose their meaning: only one window of a row counts. Event times do too where rows come
/// when their window is complete, and no longer in the order of time.
fn forget_windows(columns: &mut [Column], comes_late: bool) {
    for column in columns {
        let keeps = match column.attribute {
            Attribute::Rowtime => !comes_late,
            Attribute::Proctime | Attribute::None => true,
            _ => false,
        };
        if !keeps {
            column.attribute = Attribute::None;
        }
    }
}

/// Adds the window's columns to the rows of `input`, each of which is in one tumbling window.
fn tumble(input: Relation, scope: &Scope, column: Expr, slicing: Slicing) -> Relation {
    let time = in_milliseconds(column.clone());
    let (time_type, nullable) = (time.data_type.clone(), time.nullable);
    let windows = Windows { assigner: WindowAssigner::Tumble(slicing), time_type: time_type.clone(), partitions: 0 };
    let start = Expr::new(ExprKind::WindowStart(Box::new(time), slicing), time_type, nullable);
    let end = start.clone().plus_ms(slicing.size_ms);
    let last = start.clone().plus_ms(slicing.size_ms - 1);
    let added = [start.cast_to(DataType::Timestamp(3)), end.cast_to(DataType::Timestamp(3)), last];
    let mut columns = input.columns;
    let mut projection: Vec<(Expr, String)> =
        (0..columns.len()).map(|i| (scope.column(i, Span::default()), columns[i].field.name.clone())).collect();
    forget_windows(&mut columns, false);
    if let ExprKind::Column(i) = column.kind {
        columns[i].attribute = Attribute::WindowedTime(windows.clone());
    }
    for (expr, (name, attribute)) in added.into_iter().zip(window_attributes(&windows)) {
        let field = Field::new(name, expr.data_type.clone(), nullable);
        columns.push(Column { attribute, ..Column::plain(field) });
        projection.push((expr, name.into()));
    }
    Relation { rel: Rel::Project { input: Box::new(input.rel), columns: projection }, columns }
}

/// The rows of `input` once for each of their windows.
fn windowed(input: Relation, column: Expr, assigner: WindowAssigner, partition: Vec<Expr>) -> Relation {
    let time = in_milliseconds(column.clone());
    let windows = Windows { assigner, time_type: time.data_type.clone(), partitions: partition.len() };
    let mut columns = input.columns;
    let comes_late = matches!(assigner, WindowAssigner::Session { .. } | WindowAssigner::Count { .. });
    forget_windows(&mut columns, comes_late);
    if let ExprKind::Column(i) = column.kind {
        columns[i].attribute = Attribute::None;
    }
    for (number, key) in partition.iter().enumerate() {
        if let ExprKind::Column(i) = key.kind {
            columns[i].attribute = Attribute::WindowPartition(windows.clone(), number);
        }
    }
    let first = columns.len();
    let rel = Rel::Windowed { input: Box::new(input.rel), assigner, time, timeline: Timeline::Own, partition };
    let mut relation = Relation::with_added(rel, columns);
    for (column, (_, attribute)) in relation.columns[first..].iter_mut().zip(window_attributes(&windows)) {
        column.attribute = attribute;
    }
    relation
}

/// The names and meanings of the columns that a window adds.
fn window_attributes(windows: &Windows) -> [(&'static str, Attribute); 3] {
    [
        ("window_start", Attribute::WindowStart(windows.clone())),
        ("window_end", Attribute::WindowEnd(windows.clone())),
        ("window_time", Attribute::WindowTime(windows.clone())),
    ]
}
