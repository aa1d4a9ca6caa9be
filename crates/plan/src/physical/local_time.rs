//! Windows over TIMESTAMP_LTZ are cut out of local time, as in Flink: the hour that clocks show twice is one window, and of
//! one that they skip there are no rows.
//!
//! The binder writes their times as instants. Here they become local times of the session's zone, a TIMESTAMP(3), before
//! anything is planned: of windows, of what refers to a row's window by its end, and of the bounds of tumbling windows, which
//! are computed in the row. What is left to the operators is to look at watermarks as local time ([`Timeline`]). The
//! `window_time` of results is an instant again: the local time, cast back.
//!
//! Count windows are not cut out of time: their bounds stay instants, which are shown in local time.

use super::expressions::columns_of;
use crate::common::Changed;
use crate::expr::{Expr, ExprKind};
use crate::logical::{JoinStrategy, Rel};
use crate::window::{Timeline, WindowAssigner};
use millstream_types::DataType;
use millstream_types::text::zone::Zone;

/// Has the windows of a query over TIMESTAMP_LTZ be of local time.
pub(super) fn to_local_time(rel: &mut Rel, zone: Zone) {
    if !zone.is_utc() {
        change_within(rel, zone, &mut Changed::default());
    }
}

#[recursive::recursive]
fn change_within(rel: &mut Rel, zone: Zone, changed: &mut Changed) {
    if let Rel::Common(common) = rel {
        *common = changed.once(common, |changed, below| {
            let mut below = below.clone();
            change_within(&mut below, zone, changed);
            below
        });
    }
    for input in rel.inputs_mut() {
        change_within(input, zone, changed);
    }
    for expr in rel.expressions_mut() {
        *expr = bounds_in_local_time(expr.take());
    }
    let (time, timeline) = match rel {
        Rel::Windowed { assigner: WindowAssigner::Count { .. }, .. } => return,
        Rel::Windowed { time, timeline, .. } | Rel::Rank { time: Some(time), timeline, .. } => (time, timeline),
        Rel::Aggregate { window, .. } => match &mut window.time {
            Some(time) => (time, &mut window.timeline),
            None => return,
        },
        Rel::Join { strategy: JoinStrategy::Window { left_time, right_time, timeline }, .. } => {
            if is_instant(right_time) {
                *right_time = local(right_time.take());
            }
            (left_time, timeline)
        }
        _ => return,
    };
    if !is_instant(time) {
        return;
    }
    *time = local(time.take());
    *timeline = Timeline::Local(zone);
    if let Rel::Windowed { .. } | Rel::Aggregate { .. } = rel {
        window_time_as_instant(rel);
    }
}

fn is_instant(expr: &Expr) -> bool {
    matches!(expr.data_type, DataType::TimestampLtz(_))
}

/// Casts the last column, the `window_time` of windows of local time, to an instant.
fn window_time_as_instant(rel: &mut Rel) {
    let schema = rel.schema();
    let mut columns = columns_of(&schema);
    if let Some(time) = columns.last_mut() {
        *time = time.take().cast_to(DataType::TimestampLtz(3));
    }
    let columns = columns.into_iter().zip(schema.fields).map(|(e, field)| (e, field.name)).collect();
    *rel = Rel::Project { input: Box::new(rel.take()), columns };
}

/// Computes the bounds of tumbling windows of instants within an expression in local time.
fn bounds_in_local_time(mut expr: Expr) -> Expr {
    let data_type = expr.data_type.clone();
    if is_bound(&expr) {
        return local(expr).cast_to(data_type);
    }
    if let ExprKind::Cast { operand, .. } = &mut expr.kind
        && matches!(data_type, DataType::Timestamp(_))
        && is_bound(operand)
    {
        // As they are shown.
        return local(operand.take()).cast_to(data_type);
    }
    for child in expr.children_mut() {
        *child = bounds_in_local_time(child.take());
    }
    expr
}

/// Whether an instant is the start of a tumbling window, or at a constant distance from it.
fn is_bound(expr: &Expr) -> bool {
    is_instant(expr)
        && match &expr.kind {
            ExprKind::WindowStart(..) => true,
            ExprKind::AddInterval(time, step) => matches!(step.kind, ExprKind::Literal(_)) && is_bound(time),
            _ => false,
        }
}

/// An instant as local time in milliseconds. What was made of local time, and of its bounds, is that time: between the two
/// lies no instant that a change of the clocks could move.
fn local(time: Expr) -> Expr {
    let (nullable, span) = (time.nullable, time.span);
    let made = |kind| Expr::new(kind, DataType::Timestamp(3), nullable).at(span);
    match time.kind {
        ExprKind::WindowStart(inner, slicing) => made(ExprKind::WindowStart(Box::new(local(*inner)), slicing)),
        ExprKind::AddInterval(inner, step) if is_instant(&inner) => {
            made(ExprKind::AddInterval(Box::new(local(*inner)), step))
        }
        ExprKind::Cast { operand, .. } if matches!(operand.data_type, DataType::Timestamp(_)) => {
            operand.cast_to(DataType::Timestamp(3))
        }
        _ => time.cast_to(DataType::Timestamp(3)),
    }
}
