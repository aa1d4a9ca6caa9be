//! Windows: what the window table functions and the window functions of GROUP BY have in common.
//!
//! | function | operands after the table and the time | windows |
//! | --- | --- | --- |
//! | TUMBLE | size, offset | one a row |
//! | HOP | slide, size, offset | `size / slide` a row; the slide need not divide the size and may be longer |
//! | CUMULATE | step, size, offset | growing by the step up to the size, which is a multiple of it |
//! | SESSION | gap | rows that follow one another within the gap |
//! | COUNT_TUMBLE | size | as many rows |
//! | COUNT_HOP | slide, size | as many rows, beginning every `slide` rows |

use super::expression::Binder;
use super::place::{error, span_of};
use super::scope::{Attribute, Scope, Windows};
use super::window_kind::WindowKind;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::Window;
use millstream_plan::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// The windows of measures in the order of [`WindowKind::measures`]; an offset that is left out is zero.
///
/// # Errors
/// INVALID_WINDOW for measures that are not constant, not positive, or do not fit one another.
pub(super) fn assigner(kind: WindowKind, measures: &[&ast::Expr]) -> Result<WindowAssigner, Diagnostic> {
    let offset = |index: usize, limit_ms: i64| match measures.get(index) {
        Some(&offset) => bounded_offset(offset, limit_ms),
        None => Ok(0),
    };
    Ok(match kind {
        WindowKind::Tumble => {
            let size_ms = positive_interval(measures[0], "size")?;
            WindowAssigner::Tumble(Slicing { size_ms, offset_ms: offset(1, size_ms)?.rem_euclid(size_ms) })
        }
        WindowKind::Hop | WindowKind::Cumulate => {
            let is_hop = kind == WindowKind::Hop;
            let step_ms = positive_interval(measures[0], if is_hop { "slide" } else { "step" })?;
            let size_ms = positive_interval(measures[1], "size")?;
            if !is_hop && size_ms % step_ms != 0 {
                let message = "the size of CUMULATE must be a multiple of its step";
                let advice = match size_ms < step_ms {
                    true => format!("the step comes first: write {}, {}", measures[1], measures[0]),
                    false => {
                        format!("write a step that divides the size, such as INTERVAL {}", tenth(size_ms))
                    }
                };
                return Err(error(code::INVALID_WINDOW, span_of(measures[1]), message).advise(advice));
            }
            let offset_ms = offset(2, size_ms.max(step_ms))?;
            if size_ms == step_ms {
                return Ok(WindowAssigner::Tumble(Slicing { size_ms, offset_ms: offset_ms.rem_euclid(size_ms) }));
            }
            at_a_time(size_ms, step_ms, measures[0])?;
            WindowAssigner::Overlap(match is_hop {
                true => Overlap::Hop { size_ms, slide_ms: step_ms, offset_ms: offset_ms.rem_euclid(step_ms) },
                false => Overlap::Cumulate { size_ms, step_ms, offset_ms: offset_ms.rem_euclid(size_ms) },
            })
        }
        WindowKind::Session => WindowAssigner::Session { gap_ms: positive_interval(measures[0], "gap")? },
        WindowKind::CountTumble => {
            let size = positive_count(measures[0], "size")?;
            WindowAssigner::Count { size, slide: size }
        }
        WindowKind::CountHop => {
            let slide = positive_count(measures[0], "slide")?;
            WindowAssigner::Count { size: positive_count(measures[1], "size")?, slide }
        }
    })
}

/// Fails when more windows overlap than the numbers of their tables have room for.
fn at_a_time(size_ms: i64, step_ms: i64, place: &ast::Expr) -> Result<(), Diagnostic> {
    const MOST: i64 = 1_000_000;
    if size_ms / step_ms <= MOST {
        return Ok(());
    }
    let message = format!("each row would lie in {} windows; at most {MOST} are possible", size_ms / step_ms);
    Err(error(code::INVALID_WINDOW, span_of(place), message).advise("take a longer slide or step, or a shorter window"))
}

/// A time in milliseconds precision.
pub(super) fn in_milliseconds(time: Expr) -> Expr {
    let data_type = match time.data_type {
        DataType::TimestampLtz(_) => DataType::TimestampLtz(3),
        _ => DataType::Timestamp(3),
    };
    time.cast_to(data_type)
}

/// The window of an aggregation whose rows have their windows as columns of `scope`, the start among them.
///
/// Tumbling windows are computed again from any column that lies in them. For other windows the rows say which they
/// belong to: the time is `window_time`, or `window_end - 1 ms` (cast to the type of the time first) where the query
/// did not keep that column.
pub(crate) fn attached(scope: &Scope, windows: &Windows) -> Window {
    let column = |attribute: Attribute| column_of(scope, attribute);
    let start = column(Attribute::WindowStart(windows.clone())).expect("the caller has found the start of the window");
    if let WindowAssigner::Tumble(_) = windows.assigner {
        let time = column(Attribute::WindowedTime(windows.clone()))
            .or_else(|| column(Attribute::WindowTime(windows.clone())).filter(|_| !windows.are_of_instants()))
            .unwrap_or(start);
        let time = Some(time.cast_to(windows.time_type.clone()));
        return Window { assigner: windows.assigner, time, timeline: Timeline::Own, start: None };
    }
    let time = window_time(scope, windows).unwrap_or_else(|| start.clone().cast_to(windows.time_type.clone()));
    Window { assigner: WindowAssigner::Attached, time: Some(time), timeline: Timeline::Own, start: Some(start) }
}

/// `window_time` of rows whose windows are columns of `scope`; `None` when neither it nor the end is among them. Of windows of
/// instants it comes from the end, which is local time: a clock that is put forward moves the instant of a time that it skips.
pub(crate) fn window_time(scope: &Scope, windows: &Windows) -> Option<Expr> {
    let column = |attribute: Attribute| column_of(scope, attribute);
    let from_end = || {
        let end = column(Attribute::WindowEnd(windows.clone()))?;
        Some(end.cast_to(windows.time_type.clone()).plus_ms(-1))
    };
    let time = || column(Attribute::WindowTime(windows.clone()));
    if windows.are_of_instants() { from_end().or_else(time) } else { time().or_else(from_end) }
}

fn column_of(scope: &Scope, attribute: Attribute) -> Option<Expr> {
    let index = scope.columns.iter().position(|c| c.attribute == attribute)?;
    Some(scope.column(index, Span::default()))
}

/// A constant INTERVAL DAY TO SECOND in milliseconds.
fn constant_interval(expression: &ast::Expr, what: &str) -> Result<i64, Diagnostic> {
    let span = span_of(expression);
    let wrong = |message: String| Err(error(code::INVALID_WINDOW, span, message).advise(interval_cure(expression)));
    match Binder::scalar(&Scope::default(), "a window").bind(expression) {
        Ok(Expr { kind: ExprKind::Literal(Value::Int(ms)), data_type: DataType::IntervalMilli, .. }) => Ok(ms),
        Ok(Expr { data_type: DataType::IntervalMonth, .. }) => {
            wrong(format!("the {what} of a window cannot be counted in months, which differ in length"))
        }
        Err(e) if e.code != code::UNKNOWN_COLUMN => Err(e),
        _ => wrong(format!("the {what} of a window must be a constant interval")),
    }
}

/// A step that divides a size: a tenth of it, if that is whole.
fn tenth(size_ms: i64) -> String {
    match size_ms / 10 {
        minutes if size_ms % 600_000 == 0 => format!("'{}' MINUTE", minutes / 60_000),
        seconds if size_ms % 10_000 == 0 => format!("'{}' SECOND", seconds / 1_000),
        _ => "'1' SECOND".into(),
    }
}

/// An interval to write instead of this one.
fn interval_cure(expression: &ast::Expr) -> String {
    let text = expression.to_string();
    let digits: String = text.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let number = if digits.is_empty() { "1" } else { &digits };
    let upper = text.to_uppercase();
    let unit = ["SECOND", "MINUTE", "HOUR", "DAY"].into_iter().find(|unit| upper.contains(unit));
    let days = |per: u64| number.parse::<u64>().unwrap_or(1).saturating_mul(per);
    match unit {
        Some(unit) => format!("write INTERVAL '{number}' {unit}"),
        None if upper.contains("MONTH") => format!("write days: INTERVAL '{}' DAY", days(30)),
        None if upper.contains("YEAR") => format!("write days: INTERVAL '{}' DAY", days(365)),
        None => "write a constant interval, such as INTERVAL '1' MINUTE".into(),
    }
}

fn positive_interval(expression: &ast::Expr, what: &str) -> Result<i64, Diagnostic> {
    let ms = constant_interval(expression, what)?;
    if ms > 0 {
        return Ok(ms);
    }
    let message = format!("the {what} of a window must be positive, and is {ms} ms");
    Err(error(code::INVALID_WINDOW, span_of(expression), message)
        .advise("write an INTERVAL above zero, such as INTERVAL '1' MINUTE"))
}

/// An offset shifts windows by less than `limit_ms`, in either direction.
fn bounded_offset(expression: &ast::Expr, limit_ms: i64) -> Result<i64, Diagnostic> {
    let ms = constant_interval(expression, "offset")?;
    if ms.unsigned_abs() < limit_ms.unsigned_abs() {
        return Ok(ms);
    }
    let message = format!("the offset of a window must be shorter than {limit_ms} ms, the window's length");
    Err(error(code::INVALID_WINDOW, span_of(expression), message)
        .advise("windows repeat: take the remainder of the offset"))
}

/// A constant number of rows.
fn positive_count(expression: &ast::Expr, what: &str) -> Result<u64, Diagnostic> {
    match Binder::scalar(&Scope::default(), "a window").bind(expression) {
        Ok(Expr { kind: ExprKind::Literal(Value::Int(n)), data_type, .. }) if data_type.is_integer() && n > 0 => {
            Ok(n as u64)
        }
        _ => {
            let message = format!("the {what} of a count window must be a constant positive number of rows");
            Err(error(code::INVALID_WINDOW, span_of(expression), message).advise("write a number such as 100"))
        }
    }
}

/// Fails unless the column can assign windows.
pub(super) fn check_time(scope: &Scope, time: &Expr, span: Span) -> Result<(), Diagnostic> {
    if scope.attribute(time).is_time() {
        return Ok(());
    }
    let name = match time.kind {
        ExprKind::Column(i) => format!("column `{}`", scope.columns[i].field.name),
        _ => "the expression".into(),
    };
    let advice = match scope.columns.iter().find(|c| c.attribute.is_time()) {
        Some(column) => format!("use `{0}`, which is one: DESCRIPTOR({0})", column.field.name),
        None => "in CREATE TABLE, declare WATERMARK FOR ts AS ts - INTERVAL '5' SECOND for a TIMESTAMP(3) column, or proctime AS \
                 PROCTIME() for the time of processing; then write DESCRIPTOR of that column"
            .into(),
    };
    Err(error(code::INVALID_WINDOW, span, format!("{name} is not a time attribute")).advise(advice))
}
