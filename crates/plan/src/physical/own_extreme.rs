//! Rows that have the greatest or least value of their window, as one ranking.
//!
//! ```sql
//! SELECT b.* FROM bids AS b
//! JOIN (SELECT MAX(price) AS price, window_start, window_end FROM bids GROUP BY window_start, window_end) AS m
//!   ON b.window_start = m.window_start AND b.window_end = m.window_end AND b.price = m.price
//! ```
//!
//! Both sides come from the same rows, `bids`, so those that the join shows are those of `RANK() = 1` by the value: the rows are made and
//! exchanged once, and but for the first of each window they are not kept. The maximum may be one of a key within the window if the
//! join compares the key, and the comparison be `>=` as well as `=`.

use super::above::Above;
use super::expressions::{columns_of, meaning, same_computation};
use super::in_window::InWindow;
use super::payload::Payload;
use crate::aggregate::AggregateFunction;
use crate::common::Changed;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::keyed::{Leading, LeadingWindows, SortColumn};
use crate::logical::{JoinKind, JoinStrategy, RankFunction, Rel, SortKey, Window};
use crate::operators::filter::conjuncts;
use crate::operators::top::Ties;
use crate::window::{Timeline, WindowAssigner};
use millstream_types::{DataType, Field, Value};

/// The greatest or least value of each window, and key, of rows.
struct Extreme<'a> {
    rows: Above<'a>,
    /// What it is of, over what is below the rows.
    value: Expr,
    is_greatest: bool,
    keys: Vec<Expr>,
    window: &'a Window,
    /// Over the columns of its aggregation: keys, the extreme, then the window.
    columns: Vec<Expr>,
    /// The same.
    filters: Vec<Expr>,
}

impl<'a> Extreme<'a> {
    fn of(rel: &'a Rel) -> Option<Extreme<'a>> {
        let Above { below, columns, filters } = Above::of(rel)?;
        let Rel::Aggregate { input, window, keys, aggregates } = below else { return None };
        let [(call, _)] = &aggregates[..] else { return None };
        let is_greatest = match call.function {
            AggregateFunction::Max => true,
            AggregateFunction::Min => false,
            _ => return None,
        };
        let rows = Above::of(input)?;
        let over = |e: &Expr| e.clone().substitute(&rows.columns);
        let value = over(call.arguments.first()?);
        // NaN is the greatest of doubles for MAX, and equal to nothing.
        let is_ordered = !matches!(value.data_type, DataType::Float | DataType::Double)
            && !value.data_type.is_nested()
            && value.data_type == call.data_type;
        let keys: Vec<Expr> = keys.iter().map(|(e, _)| over(e)).collect();
        (is_ordered && call.filter.is_none()).then_some(Extreme {
            rows,
            value,
            is_greatest,
            keys,
            window,
            columns,
            filters,
        })
    }
}

impl Extreme<'_> {
    /// The start of the window of rows whose window has this `time`, and whether that alone says that it is the window of the extreme. Else
    /// the join has to compare the starts.
    fn start(&self, time: &Expr, timeline: Timeline) -> Option<(Expr, bool)> {
        let below = self.rows.below;
        let over = |e: &Option<Expr>| Some(e.clone()?.substitute(&self.rows.columns));
        let (window, own_time) = (InWindow::of(time, below), over(&self.window.time)?);
        let own = InWindow::of(&own_time, below);
        match self.window.assigner {
            WindowAssigner::Attached => {
                let is_same = window.zip(own).is_some_and(|(window, own)| window.is_at(&own));
                Some((over(&self.window.start)?, is_same))
            }
            WindowAssigner::Tumble(slicing) if timeline == Timeline::Own && self.window.timeline == Timeline::Own => {
                let window = window?;
                let is_own = match own {
                    Some(own) => own.is_with(&window) && (-slicing.size_ms..0).contains(&own.behind_end_ms),
                    None => window.of.is_some_and(|of| same_computation(&own_time, of)),
                };
                let is_time = window.assigner == self.window.assigner && window.behind_end_ms == -1;
                (is_own && is_time).then(|| (time.clone().plus_ms(1 - slicing.size_ms), true))
            }
            _ => None,
        }
    }
}

/// Whether two expressions are the same, or the same time of a window.
fn same_time(a: &Expr, b: &Expr, below: &Rel) -> bool {
    let times = InWindow::of(a, below).zip(InWindow::of(b, below));
    times.is_some_and(|(a, b)| a.is_at(&b)) || same_computation(a, b)
}

/// Has joins of rows with the extreme of their windows be rankings. Before columns are left out: those that a side does not need differ.
#[recursive::recursive]
pub(super) fn to_rankings(rel: &mut Rel, changed: &mut Changed) {
    if let Rel::Common(common) = rel {
        *common = changed.once(common, |changed, below| {
            let mut below = below.clone();
            to_rankings(&mut below, changed);
            below
        });
    }
    if let Some(ranking) = own_extreme(rel) {
        *rel = ranking;
    }
    for input in rel.inputs_mut() {
        to_rankings(input, changed);
    }
}

/// The join as a ranking, if it is one of rows with the extreme of their windows.
fn own_extreme(rel: &Rel) -> Option<Rel> {
    let Rel::Join { left, right, kind, strategy: JoinStrategy::Window { .. }, .. } = rel else { return None };
    match kind {
        JoinKind::Inner => ranked(rel, left, right, false).or_else(|| ranked(rel, right, left, true)),
        JoinKind::Semi => ranked(rel, left, right, false),
        _ => None,
    }
}

/// The same with the rows on one side; `is_mirrored`: on the right.
fn ranked(rel: &Rel, rows: &Rel, extreme: &Rel, is_mirrored: bool) -> Option<Rel> {
    let Rel::Join { kind, strategy: JoinStrategy::Window { left_time, right_time, timeline }, keys, residual, .. } =
        rel
    else {
        return None;
    };
    let extreme = Extreme::of(extreme)?;
    let Above { below, columns, filters } = Above::of(rows)?;
    if meaning(below)? != meaning(extreme.rows.below)? {
        return None;
    }
    let time = if is_mirrored { right_time } else { left_time }.clone().substitute(&columns);
    let (start, mut is_of_window) = extreme.start(&time, *timeline)?;
    // What both leave out is left out before. What only the join leaves out is so after ranking.
    let mut input = below.clone();
    let mut filters: Vec<Expr> = filters.iter().flat_map(conjuncts).cloned().collect();
    for predicate in extreme.rows.filters.iter().flat_map(conjuncts) {
        let known = filters.iter().position(|filter| same_computation(filter, predicate))?;
        filters.remove(known);
        input = Rel::Filter { input: Box::new(input), predicate: predicate.clone() };
    }

    // Behind the columns of the rows stand the rank, which nothing reads as it is 1, and the columns of the aggregation.
    let first = below.schema().fields.len() + 1;
    let (extreme_column, start_column) = (first + extreme.keys.len(), first + extreme.keys.len() + 1);
    let aggregated = |e: &Expr| e.clone().renumbered(|i| first + i);
    let of_extreme: Vec<Expr> = extreme.columns.iter().map(aggregated).collect();

    let (mut is_compared, mut is_of_key) = (false, vec![false; extreme.keys.len()]);
    for (left, right) in keys {
        let (one, other) = if is_mirrored { (right, left) } else { (left, right) };
        let ExprKind::Column(column) = other.clone().substitute(&of_extreme).kind else { return None };
        let (same, met) = match column {
            column if column == extreme_column => (&extreme.value, &mut is_compared),
            column if column == start_column => (&start, &mut is_of_window),
            column => (extreme.keys.get(column - first)?, is_of_key.get_mut(column - first)?),
        };
        *met = same_time(&one.clone().substitute(&columns), same, below);
        if !*met {
            return None;
        }
    }
    if !is_of_window || is_of_key.contains(&false) {
        return None;
    }

    let sides = if is_mirrored { [&of_extreme, &columns] } else { [&columns, &of_extreme] };
    let pair: Vec<Expr> = sides.into_iter().flatten().cloned().collect();
    let mut conditions = filters;
    conditions.extend(extreme.filters.iter().map(aggregated));
    if let Some(residual) = residual {
        for condition in conjuncts(&residual.clone().substitute(&pair)) {
            match is_extreme(condition, &extreme, extreme_column) {
                true => is_compared = true,
                false => conditions.push(condition.clone()),
            }
        }
    }
    if !is_compared {
        return None;
    }
    // NULL has no partner.
    let nullable = extreme.keys.iter().chain([&extreme.value]).filter(|e| e.nullable);
    conditions.extend(nullable.map(|e| e.clone().not_null()));

    // The aggregation's columns in a row that stays.
    let end = time.clone().plus_ms(1).cast_to(DataType::Timestamp(3));
    let partition = [vec![start.clone()], extreme.keys.clone()].concat();
    let start = start.cast_to(DataType::Timestamp(3));
    let rank = Expr::column(first - 1, DataType::BigInt, false);
    let of_aggregation = extreme.keys.iter().chain([&extreme.value, &start, &end, &time]).cloned();
    let all: Vec<Expr> = columns_of(&below.schema()).into_iter().chain([rank]).chain(of_aggregation).collect();
    let mut result = Rel::Rank {
        input: Box::new(input),
        time: Some(time.clone()),
        timeline: *timeline,
        partition,
        order: vec![SortKey { expr: extreme.value.clone(), descending: extreme.is_greatest, nulls_first: false }],
        function: RankFunction::Rank,
        range: (1, 1),
        is_by_time: false,
        shows_rank: true,
        is_alone: false,
    };
    for condition in conditions {
        result = Rel::Filter { input: Box::new(result), predicate: condition.substitute(&all) };
    }
    let shown = if *kind == JoinKind::Inner { pair } else { columns };
    let columns = shown.into_iter().zip(rel.schema().fields);
    let column = |(e, field): (Expr, Field)| (Expr { nullable: field.nullable, ..e.substitute(&all) }, field.name);
    Some(Rel::Project { input: Box::new(result), columns: columns.map(column).collect() })
}

/// Which rows on the left of a join can have a partner, if those on the right are the extremes of their windows, and a time of the left is
/// compared with one of the window. Both come from one table: then the watermark before a row says whether the extreme is of it.
///
/// A row meets the extreme of its own window, and at the start of that the one of the window before. So one that another of its window
/// exceeds has no partner.
pub(super) fn leading_of_join(rel: &Rel, of_left: &Payload<'_>) -> Option<Leading> {
    let Rel::Join { left, right, kind: JoinKind::Inner, strategy, keys, residual } = rel else { return None };
    let between = match strategy {
        JoinStrategy::Interval { left_time, right_time, lower_ms, upper_ms } => Between {
            left: left_time.clone(),
            right: right_time.clone(),
            lower_ms: Some(*lower_ms),
            upper_ms: Some(*upper_ms),
        },
        JoinStrategy::Regular { .. } => Between::of(residual.as_ref()?, left.schema().fields.len())?,
        _ => return None,
    };
    let (rows, extreme) = (Above::of(left)?, Extreme::of(right)?);
    let WindowAssigner::Tumble(slicing) = extreme.window.assigner else { return None };
    // A row on the left has to be one of those that the extreme is of.
    let filters: Vec<&Expr> = rows.filters.iter().flat_map(conjuncts).collect();
    let are_filtered = |predicate: &Expr| filters.iter().any(|filter| same_computation(filter, predicate));
    let is_own = extreme.keys.is_empty()
        && extreme.window.timeline == Timeline::Own
        && extreme.rows.filters.iter().flat_map(conjuncts).all(are_filtered)
        && matches!(rows.below, Rel::Scan { .. })
        && meaning(rows.below)? == meaning(extreme.rows.below)?;
    let own_time = extreme.window.time.as_ref()?.clone().substitute(&extreme.rows.columns);
    let of_rows = |e: &Expr| e.clone().substitute(&rows.columns);
    let of_extreme = |e: &Expr| match e.clone().substitute(&extreme.columns).kind {
        ExprKind::Column(column) => Some(column),
        _ => None,
    };
    // The columns of the aggregation: the extreme, start, end and time of its window.
    let behind_end = match of_extreme(&between.right)? {
        1 => -slicing.size_ms,
        2 => 0,
        3 => -1,
        _ => return None,
    };
    let is_within = between.lower_ms?.saturating_add(behind_end) >= -slicing.size_ms
        && between.upper_ms?.saturating_add(behind_end) <= 0;
    if !is_own || !is_within || !same_computation(&of_rows(&between.left), &own_time) {
        return None;
    }
    let is_value = |(l, r): &(Expr, Expr)| of_extreme(r) == Some(0) && same_computation(&of_rows(l), &extreme.value);
    let column = of_left.keys[keys.iter().position(is_value)?];
    Some(Leading {
        windows: LeadingWindows::Slices { time: of_left.place(&between.left)?, slicing },
        order: vec![SortColumn { column, descending: extreme.is_greatest, nulls_first: false }],
        function: RankFunction::Rank,
        ties: Ties::First,
        most: 1,
    })
}

/// `right + lower ≤ left ≤ right + upper`: a column of each side, in milliseconds.
struct Between {
    left: Expr,
    right: Expr,
    lower_ms: Option<i64>,
    upper_ms: Option<i64>,
}

impl Between {
    /// What a condition over the columns of both sides says of the first pair of times that it compares; those of the left are the first
    /// `width`.
    fn of(condition: &Expr, width: usize) -> Option<Between> {
        let mut between: Option<Between> = None;
        for condition in conjuncts(condition) {
            let ExprKind::Compare(op, a, b) = &condition.kind else { continue };
            let Some((a, b)) = column_and_ms(a).zip(column_and_ms(b)) else { continue };
            let (left, op, right) = match (a.place < width, b.place < width) {
                (true, false) => (a, *op, b),
                (false, true) => (b, op.mirrored(), a),
                _ => continue,
            };
            let ms = right.ms.checked_sub(left.ms)?;
            let (left, right) = (left.column, right.column.clone().renumbered(|place| place - width));
            let between = between.get_or_insert_with(|| Between {
                left: left.clone(),
                right: right.clone(),
                lower_ms: None,
                upper_ms: None,
            });
            if !same_computation(&between.left, left) || !same_computation(&between.right, &right) {
                continue;
            }
            let (lower, upper) = match op {
                CompareOp::GreaterEqual => (Some(ms), None),
                CompareOp::Greater => (ms.checked_add(1), None),
                CompareOp::LessEqual => (None, Some(ms)),
                CompareOp::Less => (None, ms.checked_sub(1)),
                CompareOp::Equal | CompareOp::NotEqual => (None, None),
            };
            between.lower_ms = between.lower_ms.max(lower);
            between.upper_ms = [between.upper_ms, upper].into_iter().flatten().min();
        }
        between
    }
}

/// A column of times, and what is added to it.
struct TimePlus<'a> {
    column: &'a Expr,
    place: usize,
    ms: i64,
}

fn column_and_ms(time: &Expr) -> Option<TimePlus<'_>> {
    match &time.kind {
        &ExprKind::Column(place) if time.data_type == DataType::Timestamp(3) => {
            Some(TimePlus { column: time, place, ms: 0 })
        }
        ExprKind::AddInterval(time, interval) if interval.data_type == DataType::IntervalMilli => {
            let ExprKind::Literal(Value::Int(ms)) = interval.kind else { return None };
            let before = column_and_ms(time)?;
            Some(TimePlus { ms: before.ms.checked_add(ms)?, ..before })
        }
        _ => None,
    }
}

/// Whether a condition says that the value is the extreme.
fn is_extreme(condition: &Expr, extreme: &Extreme<'_>, extreme_column: usize) -> bool {
    let ExprKind::Compare(op, a, b) = &condition.kind else { return false };
    let is_it = |e: &Expr| matches!(e.kind, ExprKind::Column(column) if column == extreme_column);
    let op = match (is_it(a), is_it(b)) {
        (false, true) if same_computation(a, &extreme.value) => *op,
        (true, false) if same_computation(b, &extreme.value) => op.mirrored(),
        _ => return false,
    };
    let reaches = if extreme.is_greatest { CompareOp::GreaterEqual } else { CompareOp::LessEqual };
    op == CompareOp::Equal || op == reaches
}
