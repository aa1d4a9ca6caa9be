//! TUMBLE: as a table function and in GROUP BY.
//!
//! `FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), size))` adds `window_start`, `window_end` and `window_time` to every
//! row. Nothing is aggregated yet; a GROUP BY over the start and the end finds, by the [`Attribute`] of the columns,
//! that its groups are windows.

use super::call::{function_name, plain_arguments};
use super::expression::Binder;
use super::group::{AggregateList, Bound, unplaced};
use super::place::{error, from_parser, span_of, unsupported};
use super::query::{QueryBinder, Relation};
use super::scope::{Attribute, Column, Scope, Windows};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::Rel;
use millstream_plan::window::{Slicing, WindowAssigner};
use millstream_types::{DataType, Diagnostic, Field, Value, code};
use sqlparser::ast;

/// `TUMBLE(time, size)` in GROUP BY.
#[derive(Debug, Clone)]
pub(crate) struct GroupWindow {
    /// The windows.
    pub windows: Windows,
    /// Event time over the input, as given.
    pub time: Expr,
}

/// Names of the window functions and their auxiliary functions.
pub(crate) fn is_window_function(name: &str) -> bool {
    let auxiliary = ["_START", "_END", "_ROWTIME", "_PROCTIME"];
    ["TUMBLE", "HOP", "SESSION", "CUMULATE"]
        .iter()
        .any(|window| name.strip_prefix(window).is_some_and(|rest| rest.is_empty() || auxiliary.contains(&rest)))
}

/// A window function where none can stand.
pub(crate) fn misplaced(name: &str, place: Span) -> Diagnostic {
    match name {
        "TUMBLE" => error(code::INVALID_WINDOW, place, "TUMBLE stands in FROM TABLE(…) or in GROUP BY")
            .advise("for the start of a row's window use TUMBLE_START, or window_start of the table function"),
        "TUMBLE_PROCTIME" => unsupported("processing time (TUMBLE_PROCTIME)", place, "use TUMBLE_ROWTIME"),
        _ => unsupported_window(name, place),
    }
}

fn unsupported_window(name: &str, place: Span) -> Diagnostic {
    unsupported(&format!("the window function {name}"), place, "use TUMBLE")
}

/// The event time in milliseconds precision.
fn in_milliseconds(time: Expr) -> Expr {
    let data_type = match time.data_type {
        DataType::TimestampLtz(_) => DataType::TimestampLtz(3),
        _ => DataType::Timestamp(3),
    };
    time.cast_to(data_type)
}

/// The event time of the windows of `scope`: any column of it that lies in the same window serves.
pub(crate) fn time_of(scope: &Scope, windows: &Windows) -> Expr {
    let find = |attribute: Attribute| scope.columns.iter().position(|c| c.attribute == attribute);
    let column = find(Attribute::WindowedTime(windows.clone()))
        .or_else(|| find(Attribute::WindowTime(windows.clone())))
        .or_else(|| find(Attribute::WindowStart(windows.clone())))
        .expect("the caller has found a window column in the scope");
    scope.column(column, Span::default()).cast_to(windows.time_type.clone())
}

fn windows_of(assigner: WindowAssigner, time: &Expr) -> Windows {
    Windows { assigner, time_type: time.data_type.clone(), partitions: 0 }
}

/// A constant INTERVAL DAY TO SECOND in milliseconds.
fn constant_interval(expression: &ast::Expr, what: &str) -> Result<i64, Diagnostic> {
    let empty = Scope::default();
    let span = span_of(expression);
    let wrong = |message: String| {
        Err(error(code::INVALID_WINDOW, span, message).advise("give a constant such as INTERVAL '10' SECOND"))
    };
    match Binder::scalar(&empty, "a window").bind(expression) {
        Ok(Expr { kind: ExprKind::Literal(Value::Int(ms)), data_type: DataType::IntervalMilli, .. }) => Ok(ms),
        Ok(Expr { data_type: DataType::IntervalMonth, .. }) => {
            wrong(format!("the {what} of a window cannot be counted in months, which differ in length"))
        }
        Err(e) if e.code != code::UNKNOWN_COLUMN => Err(e),
        _ => wrong(format!("the {what} of a window must be a constant interval")),
    }
}

fn slicing(size: &ast::Expr, offset: Option<&ast::Expr>) -> Result<Slicing, Diagnostic> {
    let size_ms = constant_interval(size, "size")?;
    if size_ms <= 0 {
        let message = "the size of a window must be positive";
        return Err(error(code::INVALID_WINDOW, span_of(size), message).advise("give INTERVAL '10' SECOND or the like"));
    }
    let offset_ms = match offset {
        Some(offset) => constant_interval(offset, "offset")?.rem_euclid(size_ms),
        None => 0,
    };
    Ok(Slicing { size_ms, offset_ms })
}

/// Fails unless the column can assign windows.
fn check_event_time(scope: &Scope, time: &Expr, span: Span) -> Result<(), Diagnostic> {
    if scope.attribute(time).is_time() {
        return Ok(());
    }
    let name = match time.kind {
        ExprKind::Column(i) => format!("column `{}`", scope.columns[i].field.name),
        _ => "the expression".into(),
    };
    let advice = match scope.columns.iter().find(|c| c.attribute.is_time()) {
        Some(column) => format!("use `{}`, which is one", column.field.name),
        None => "declare WATERMARK FOR a column of the table, and select that column unchanged".into(),
    };
    Err(error(code::INVALID_WINDOW, span, format!("{name} is not a time attribute")).advise(advice))
}

/// The window that a function of GROUP BY is, if it is one.
pub(crate) fn group_window(scope: &Scope, function: &ast::Function) -> Result<Option<GroupWindow>, Diagnostic> {
    let name = function_name(function)?;
    match name.as_str() {
        "TUMBLE" => {}
        "HOP" | "SESSION" | "CUMULATE" => return Err(unsupported_window(&name, span_of(&function.name))),
        _ => return Ok(None),
    }
    let arguments = plain_arguments(function)?;
    let &[time, size] = arguments.as_slice() else {
        return Err(error(code::INVALID_WINDOW, span_of(&function.name), "TUMBLE in GROUP BY takes a time and a size")
            .advise("write TUMBLE(ts, INTERVAL '10' SECOND)"));
    };
    let time = Binder::scalar(scope, "TUMBLE").bind(time)?;
    check_event_time(scope, &time, time.span)?;
    let time = in_milliseconds(time);
    let windows = windows_of(WindowAssigner::Tumble(slicing(size, None)?), &time);
    Ok(Some(GroupWindow { windows, time }))
}

impl Binder<'_> {
    /// TUMBLE_START, TUMBLE_END or TUMBLE_ROWTIME of the window of GROUP BY.
    pub(crate) fn window_bound(
        &mut self,
        name: &str,
        function: &ast::Function,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let bound = match name {
            "TUMBLE_START" => Bound::Start,
            "TUMBLE_END" => Bound::End,
            _ => Bound::Time,
        };
        let place = span_of(&function.name);
        let Some(known) = self.aggregates.as_ref().and_then(|a| a.group_window.clone()) else {
            return Err(error(code::INVALID_WINDOW, place, format!("{name} needs a GROUP BY with the same TUMBLE"))
                .advise(
                    "add GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), or select window_start of the table function",
                ));
        };
        let same = match plain_arguments(function)?.as_slice() {
            [time, size] => {
                let time = in_milliseconds(Binder::scalar(self.scope, "TUMBLE").bind(time)?);
                unplaced(time) == unplaced(known.time.clone())
                    && WindowAssigner::Tumble(slicing(size, None)?) == known.windows.assigner
            }
            _ => false,
        };
        if !same {
            return Err(error(
                code::INVALID_WINDOW,
                place,
                format!("{name} must have the arguments of GROUP BY's TUMBLE"),
            )
            .advise("repeat the arguments as they are in GROUP BY"));
        }
        Ok(AggregateList::bound(bound, &known.windows.time_type, span))
    }
}

/// The operands of a window table function.
#[derive(Default)]
struct Operands<'a> {
    data: Option<&'a ast::Expr>,
    time: Option<&'a ast::Expr>,
    size: Option<&'a ast::Expr>,
    offset: Option<&'a ast::Expr>,
}

impl<'a> Operands<'a> {
    /// Sorts arguments, by position or by name.
    fn of(arguments: &'a [ast::FunctionArg], place: Span) -> Result<Operands<'a>, Diagnostic> {
        let usage = "write TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
        let wrong = |message: &str| Err(error(code::INVALID_WINDOW, place, message).advise(usage));
        let mut operands = Operands::default();
        for (position, argument) in arguments.iter().enumerate() {
            let (slot, value) = match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => (position, value),
                ast::FunctionArg::Named { name, arg: ast::FunctionArgExpr::Expr(value), .. } => {
                    let names = ["DATA", "TIMECOL", "SIZE", "OFFSET"];
                    match names.iter().position(|n| name.value.eq_ignore_ascii_case(n)) {
                        Some(slot) => (slot, value),
                        None => {
                            let message = format!("TUMBLE has no operand {}", name.value);
                            return Err(error(code::INVALID_WINDOW, from_parser(name.span), message)
                                .advise("its operands are DATA, TIMECOL, SIZE and OFFSET"));
                        }
                    }
                }
                _ => return wrong("the operands of TUMBLE are a table, a descriptor and intervals"),
            };
            let target = match slot {
                0 => &mut operands.data,
                1 => &mut operands.time,
                2 => &mut operands.size,
                3 => &mut operands.offset,
                _ => return wrong("TUMBLE takes a table, a descriptor, a size and at most an offset"),
            };
            if target.replace(value).is_some() {
                return wrong("an operand of TUMBLE is given twice");
            }
        }
        Ok(operands)
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
        if name != "TUMBLE" {
            return Err(unsupported_window(name, place));
        }
        let operands = Operands::of(arguments, place)?;
        let (Some(data), Some(time), Some(size)) = (operands.data, operands.time, operands.size) else {
            return Err(error(code::INVALID_WINDOW, place, "TUMBLE needs a table, a descriptor and a size")
                .advise("write TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)"));
        };
        let mut input = self.window_input(data)?;
        for column in &mut input.columns {
            column.qualifier.clear();
        }
        let time_span = span_of(time);
        let name = descriptor(time)?;
        let scope = Scope { columns: input.columns.clone() };
        let column = scope.resolve(std::slice::from_ref(name))?;
        check_event_time(&scope, &column, time_span)?;
        let slicing = slicing(size, operands.offset)?;
        Ok(with_window_columns(input, &scope, column, slicing))
    }

    /// `TABLE t` or a subquery.
    fn window_input(&mut self, data: &ast::Expr) -> Result<Relation, Diagnostic> {
        let span = span_of(data);
        match data {
            ast::Expr::Function(function) if function_name(function)? == "TABLE" => {
                match plain_arguments(function)?.as_slice() {
                    [ast::Expr::Identifier(name)] => self.named_relation(&[name]),
                    [ast::Expr::CompoundIdentifier(path)] => self.named_relation(&path.iter().collect::<Vec<_>>()),
                    [_, ..] => Err(unsupported("PARTITION BY in TUMBLE", span, "GROUP BY the column instead")),
                    [] => Err(error(code::SYNTAX, span, "expected the name of a table after TABLE")),
                }
            }
            ast::Expr::Subquery(query) => self.query(query, false),
            ast::Expr::Nested(inner) => self.window_input(inner),
            _ => Err(error(code::INVALID_WINDOW, span, "the first operand of TUMBLE must be a table")
                .advise("write TUMBLE(TABLE t, …)")),
        }
    }
}

/// The column of `DESCRIPTOR(column)`.
fn descriptor(operand: &ast::Expr) -> Result<&ast::Ident, Diagnostic> {
    let wrong = || {
        error(code::INVALID_WINDOW, span_of(operand), "the time of TUMBLE must be DESCRIPTOR(column)")
            .advise("write DESCRIPTOR(ts), where ts is the column with the watermark")
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

/// Adds the window's columns to the rows of `input`.
fn with_window_columns(input: Relation, scope: &Scope, column: Expr, slicing: Slicing) -> Relation {
    let time = in_milliseconds(column.clone());
    let windows = windows_of(WindowAssigner::Tumble(slicing), &time);
    let (time_type, nullable) = (time.data_type.clone(), time.nullable);
    let start = Expr::new(ExprKind::WindowStart(Box::new(time), slicing), time_type.clone(), nullable);
    let after_start = |ms: i64| {
        let interval = Expr::literal(Value::Int(ms), DataType::IntervalMilli);
        let kind = ExprKind::AddInterval(Box::new(start.clone()), Box::new(interval));
        Expr::new(kind, time_type.clone(), nullable)
    };
    let added = [
        ("window_start", start.clone().cast_to(DataType::Timestamp(3)), Attribute::WindowStart(windows.clone())),
        (
            "window_end",
            after_start(slicing.size_ms).cast_to(DataType::Timestamp(3)),
            Attribute::WindowEnd(windows.clone()),
        ),
        ("window_time", after_start(slicing.size_ms - 1), Attribute::WindowTime(windows.clone())),
    ];
    let mut columns = input.columns;
    let mut projection: Vec<(Expr, String)> = scope.star(Span::default());
    for (i, output) in columns.iter_mut().enumerate() {
        if column.kind == ExprKind::Column(i) {
            output.attribute = Attribute::WindowedTime(windows.clone());
        }
    }
    for (name, expr, attribute) in added {
        let field = Field::new(name, expr.data_type.clone(), nullable);
        columns.push(Column { attribute, ..Column::plain(field) });
        projection.push((expr, name.into()));
    }
    Relation { rel: Rel::Project { input: Box::new(input.rel), columns: projection }, columns }
}
