//! Which rows of a join can meet: the choice among window, interval, lookup and regular joins.
//!
//! In this order: `FOR SYSTEM_TIME AS OF` looks up versions, or rows; equal `window_start` and `window_end` of the same windows make a
//! window join; bounds on the difference of two event times make an interval join; one bounded input (or, for outer and
//! semi joins, a bounded optional one) is looked up; what remains are regular joins of all rows. Those of a result that changes, and all
//! but INNER and semi joins, take back rows that they have given.

use super::super::hints::with_hint;
use super::super::place::error;
use super::super::query::QueryBinder;
use super::super::relation::Relation;
use super::super::scope::{Attribute, Column, Scope, Windows};
use super::interval::Interval;
use super::pairing::{Pairing, joined, joined_columns};
use super::versioned;
use millstream_plan::changes::changing;
use millstream_plan::expr::{Expr, Span};
use millstream_plan::logical::{JoinKind, JoinStrategy, Rel};
use millstream_plan::window::{Timeline, WindowAssigner};
use millstream_types::{Diagnostic, Value, code};

/// Which version of the right side a row of the left meets.
#[derive(Debug)]
pub(in super::super) enum AsOf {
    /// The one that is there when it is processed: the right side is looked up.
    Processing,
    /// The one of this event time, over the columns of the left.
    EventTime(Expr),
}

/// Joins two relations.
///
/// # Errors
/// UNSUPPORTED for `FOR SYSTEM_TIME AS OF` a processing time of
/// an endless table; INVALID_WINDOW for versions of a table that is not versioned.
pub(super) fn join(
    left: Relation,
    right: Relation,
    kind: JoinKind,
    pairing: Pairing,
    as_of: Option<AsOf>,
    binder: &QueryBinder<'_>,
    place: Span,
) -> Result<Relation, Diagnostic> {
    // A bounded input that changes, as it does when it is treated as a stream, is no table.
    let is_table = |relation: &Relation| binder.is_bounded(&relation.rel) && changing(&relation.rel).is_none();
    let right_is_bounded = is_table(&right);
    if as_of.is_some() && !matches!(kind, JoinKind::Inner | JoinKind::Left) {
        return Err(error(code::SYNTAX, place, "FOR SYSTEM_TIME AS OF takes an INNER or LEFT join")
            .advise("put the table of which versions are looked up on the right"));
    }
    match as_of {
        Some(AsOf::EventTime(time)) => return versioned::join(left, right, kind, pairing, time, place),
        Some(AsOf::Processing) if right_is_bounded => return Ok(lookup(left, right, kind, pairing)),
        Some(AsOf::Processing) => {
            let message = "FOR SYSTEM_TIME AS OF a processing time of an endless table is not supported yet";
            return Err(error(code::UNSUPPORTED, place, message).advise(
                "join AS OF an event time (a column with WATERMARK FOR), or look up a bounded table (a file)",
            ));
        }
        None => {}
    }
    if let Some(windows) = common_windows(&left, &right, &pairing) {
        return Ok(window(left, right, kind, pairing, &windows));
    }
    if kind.shows_right()
        && let Some((interval, pairing)) = Interval::find(&left, &right, &pairing)
    {
        return Ok(interval_join(left, right, kind, pairing, interval));
    }
    let left_is_bounded = is_table(&left);
    match kind {
        JoinKind::Inner => {
            let constant = pairing.equalities.is_empty();
            // Of two bounded sides the one without time is the table, so that the other keeps its time.
            let (left_has_time, right_has_time) = (has_time(&left), has_time(&right));
            if right_is_bounded && (!left_is_bounded || constant || (left_has_time && !right_has_time)) {
                Ok(lookup(left, right, kind, pairing))
            } else if left_is_bounded && (!right_is_bounded || (right_has_time && !left_has_time)) {
                Ok(swapped_lookup(left, right, kind, pairing))
            } else {
                Ok(regular(left, right, kind, pairing, binder))
            }
        }
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti if right_is_bounded => Ok(lookup(left, right, kind, pairing)),
        JoinKind::Right if left_is_bounded => Ok(swapped_lookup(left, right, JoinKind::Left, pairing)),
        JoinKind::Full if left_is_bounded && right_is_bounded => Ok(full_lookup(left, right, pairing)),
        _ => Ok(regular(left, right, kind, pairing, binder)),
    }
}

/// Whether rows are of a time: by a column that says so, or because a table below has event time.
fn has_time(relation: &Relation) -> bool {
    relation.columns.iter().any(|column| column.attribute != Attribute::None)
        || relation.rel.tables().iter().any(|table| table.watermark.is_some())
}

/// The roles in time of what each equality compares.
fn attributes(left: &Relation, right: &Relation, pairing: &Pairing) -> Vec<(Attribute, Attribute)> {
    let (left, right) = (Scope::of(left.columns.clone()), Scope::of(right.columns.clone()));
    pairing.equalities.iter().map(|e| (left.attribute(&e.left), right.attribute(&e.right))).collect()
}

/// The windows whose start and end the conditions equate.
fn common_windows(left: &Relation, right: &Relation, pairing: &Pairing) -> Option<Windows> {
    let of_both = attributes(left, right, pairing).into_iter().filter(|(l, r)| l == r);
    let equal: Vec<Attribute> = of_both.map(|(attribute, _)| attribute).collect();
    equal.iter().find_map(|a| match a {
        // Count windows end at any time.
        Attribute::WindowStart(w) if matches!(w.assigner, WindowAssigner::Count { .. }) => None,
        Attribute::WindowStart(w) if equal.contains(&Attribute::WindowEnd(w.clone())) => Some(w.clone()),
        _ => None,
    })
}

fn window(left: Relation, right: Relation, kind: JoinKind, mut pairing: Pairing, windows: &Windows) -> Relation {
    drop_window_keys(&left, &right, &mut pairing, windows);
    let (left_time, right_time) = (window_time(&left, windows), window_time(&right, windows));
    let mut joined =
        joined(left, right, kind, JoinStrategy::Window { left_time, right_time, timeline: Timeline::Own }, pairing);
    // Rows come when their window is complete: other times are behind the watermark then.
    joined.columns.iter_mut().filter(|c| !c.attribute.belongs_to(windows)).for_each(|c| c.attribute = Attribute::None);
    joined
}

/// Takes the window's columns out of the keys: only rows of equal `window_time` meet, and windows that are cut out of time
/// are known by it. One of them stays where there is no other key, so that windows spread over the workers.
fn drop_window_keys(left: &Relation, right: &Relation, pairing: &mut Pairing, windows: &Windows) {
    if windows.assigner.slicing().is_none() {
        return;
    }
    let attributes = attributes(left, right, pairing);
    let (of_window, others): (Vec<_>, Vec<_>) = std::mem::take(&mut pairing.equalities)
        .into_iter()
        .zip(attributes)
        .partition(|(_, (l, r))| l.belongs_to(windows) && l == r);
    let keys = if others.is_empty() { of_window.into_iter().take(1).collect() } else { others };
    pairing.equalities = keys.into_iter().map(|(equality, _)| equality).collect();
}

/// `window_time` of the rows of a relation.
fn window_time(relation: &Relation, windows: &Windows) -> Expr {
    let scope = Scope::of(relation.columns.clone());
    super::super::window::window_time(&scope, windows).expect("the caller has found the end among the columns")
}

fn interval_join(
    left: Relation,
    right: Relation,
    kind: JoinKind,
    mut pairing: Pairing,
    interval: Interval,
) -> Relation {
    let left_time = Scope::of(left.columns.clone()).column(interval.left_column, interval.place);
    let right_time = Scope::of(right.columns.clone()).column(interval.right_column, interval.place);
    let mut upper_ms = interval.upper_ms;
    if interval.lower_ms > upper_ms {
        // Bounds that contradict one another: rows never meet.
        upper_ms = interval.lower_ms;
        pairing.rest.push(Expr::boolean(false).at(interval.place));
    }
    let strategy = JoinStrategy::Interval { left_time, right_time, lower_ms: interval.lower_ms, upper_ms };
    let mut joined = joined(left, right, kind, strategy, pairing);
    // The windows of the two sides differ, so that they no longer say to which one a row belongs.
    for column in &mut joined.columns {
        let still = column.attribute.is_event_time();
        column.attribute = if still { Attribute::Rowtime } else { Attribute::None };
    }
    joined
}

/// Joins of all rows, or of those that are kept.
fn regular(left: Relation, right: Relation, kind: JoinKind, pairing: Pairing, binder: &QueryBinder<'_>) -> Relation {
    let (all, hint) = (binder.settings.state_ttl_ms(), &binder.state_ttl);
    let ttl_ms = [&left, &right].map(|side| with_hint(all, hint.of_columns(&side.columns)));
    let strategy = JoinStrategy::Regular { ttl_ms };
    let mut joined = joined(left, right, kind, strategy, pairing);
    joined.forget_times();
    joined
}

/// The right side as a table: rows of the left keep their time.
pub(super) fn lookup(left: Relation, mut right: Relation, kind: JoinKind, pairing: Pairing) -> Relation {
    right.forget_times();
    joined(left, right, kind, JoinStrategy::Lookup, pairing)
}

/// The left side as a table, with the columns in the order of the query.
fn swapped_lookup(left: Relation, right: Relation, kind: JoinKind, pairing: Pairing) -> Relation {
    let (lefts, rights) = (left.columns.len(), right.columns.len());
    let joined = lookup(right, left, kind, pairing.swapped(lefts, rights));
    let scope = Scope::of(joined.columns.clone());
    let output = |i: usize| {
        let from = if i < lefts { i + rights } else { i - lefts };
        (scope.column(from, Span::default()), scope.columns[from].clone())
    };
    joined.project((0..lefts + rights).map(output).collect())
}

/// FULL of two bounded inputs: the left with its partners, then the right rows without one.
fn full_lookup(left: Relation, right: Relation, pairing: Pairing) -> Relation {
    let columns = joined_columns(left.columns.clone(), right.columns.clone(), JoinKind::Full);
    let (lefts, rights) = (left.columns.len(), right.columns.len());
    let rest = lookup(right.clone(), left.clone(), JoinKind::Anti, pairing.clone().swapped(lefts, rights));
    let matched = lookup(left, right, JoinKind::Left, pairing);
    let scope = Scope::of(rest.columns.clone());
    let output = |(i, column): (usize, &Column)| {
        let expr = match i.checked_sub(lefts) {
            Some(right) => scope.column(right, Span::default()),
            None => Expr::literal(Value::Null, column.field.data_type.clone()),
        };
        (expr, column.clone())
    };
    let outputs = columns.iter().enumerate().map(output).collect();
    let inputs = vec![matched.rel, rest.project(outputs).rel];
    Relation { rel: Rel::Union { inputs }, columns }
}
