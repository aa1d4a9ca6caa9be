//! Joins of aggregations by the same keys and windows that end together, as one aggregation.
//!
//! Both sides group by the columns that the join compares, so each has at most one row for a pair of window and key. Then one
//! table serves for both (Moerkotte and Neumann, *Accelerating Queries with Group-By and Join by Groupjoin*, VLDB 2011): rows
//! of the left update the left's components, those of the right the right's, and two counts say which sides a group has.
//! What the join would have made of two rows is a filter and a projection over one. No row is exchanged, hashed again or
//! copied into pairs.
//!
//! | join | groups that stay | columns |
//! | --- | --- | --- |
//! | INNER | of both sides | |
//! | LEFT, RIGHT | of the outer side | those of the other NULL without it |
//! | FULL | all | those of each side NULL without it |
//! | SEMI, ANTI | of the left, with or without the right | those of the left |
//!
//! Whether a row is late is decided by the watermark of its own stream, as before, and a window comes when both sides have passed
//! its end.
//!
//! # One input
//!
//! If both sides read the same rows, with the same filters, the rows are read once, and each updates the components of both.
//! Such sides may have windows of two lengths, like cars of a minute and their speed in five: those that end together are
//! joined by `a.window_time = b.window_time`, an interval join. Then the table is of the longer windows, and components of the shorter ones
//! count only their last part ([`AggregateCall::last_ms`]). Not if the shorter windows have many slices, which are merged again for
//! each window.

use super::above::Above;
use super::expressions::{columns_from, columns_of, is_below, is_column, is_window_time, meaning, same_computation};
use super::in_window::{InWindow, windows_below};
use super::rules::Rules;
use crate::aggregate::{AggregateCall, AggregateFunction};
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::logical::{JoinKind, JoinStrategy, Rel, Window};
use crate::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_types::{DataType, Value};
use std::cmp::Ordering;
use std::num::NonZeroI64;

/// Most slices of a shorter window: they are merged again for each window.
const MOST_SHORTER_SLICES: i64 = 8;

/// Place of a window's start among its bounds.
const START: usize = 0;

/// A side of the join: an aggregation, and what is above it.
struct Grouped<'a> {
    aggregation: &'a Rel,
    input: &'a Rel,
    window: &'a Window,
    keys: &'a [(Expr, String)],
    aggregates: &'a [(AggregateCall, String)],
    /// The side's columns over those of the aggregation.
    columns: Vec<Expr>,
    /// Filters, over the same.
    filters: Vec<Expr>,
}

impl<'a> Grouped<'a> {
    /// Of a relation that is an aggregation but for projections and filters.
    fn of(rel: &'a Rel) -> Option<Grouped<'a>> {
        let Above { below: aggregation, columns, filters } = Above::of(rel)?;
        let Rel::Aggregate { input, window, keys, aggregates } = aggregation else { return None };
        Some(Grouped { aggregation, input, window, keys, aggregates, columns, filters })
    }

    /// The column of the aggregation that a key of the join is.
    fn column(&self, key: &Expr) -> Option<usize> {
        match key.clone().substitute(&self.columns).kind {
            ExprKind::Column(column) => Some(column),
            _ => None,
        }
    }

    /// Whether an expression over the side's columns is the time of its window.
    fn is_time(&self, time: &Expr) -> bool {
        is_window_time(&time.clone().substitute(&self.columns), self.bounds())
    }

    /// Where the bounds of the window begin.
    fn bounds(&self) -> usize {
        self.keys.len() + self.aggregates.len()
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let calls = self.aggregates.iter().flat_map(|(call, _)| call.expressions());
        self.columns.iter().chain(&self.filters).chain(self.keys.iter().map(|(e, _)| e)).chain(calls)
    }
}

/// For each key of the left the key of the right that it is compared with; `None` unless the join compares all keys of both,
/// one by one. Of the windows it may compare anything that is equal in `ends_alone`: only ends and times.
fn paired(left: &Grouped<'_>, right: &Grouped<'_>, keys: &[(Expr, Expr)], ends_alone: bool) -> Option<Vec<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; left.keys.len()];
    for (of_left, of_right) in keys {
        let (l, r) = (left.column(of_left)?, right.column(of_right)?);
        match (l.checked_sub(left.bounds()), r.checked_sub(right.bounds())) {
            (Some(START), Some(_)) if ends_alone => return None,
            (Some(bound), Some(other)) if bound == other => {}
            (None, None) if l < left.keys.len() && r < right.keys.len() => {
                if pairs[l].replace(r).is_some() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let pairs: Vec<usize> = pairs.into_iter().collect::<Option<_>>()?;
    let mut found = pairs.clone();
    found.sort_unstable();
    found.dedup();
    (found.len() == right.keys.len()).then_some(pairs)
}

/// How the windows of both sides are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    Equal,
    /// They end together; those of the left begin so many milliseconds before, and are shorter.
    LeftIsShorter(i64),
    /// The same of the right.
    RightIsShorter(i64),
}

impl Lengths {
    fn of(left: WindowAssigner, right: WindowAssigner) -> Option<Lengths> {
        if left == right {
            return Some(Lengths::Equal);
        }
        let ((left_ms, left_ends), (right_ms, right_ends)) = (cut(left)?, cut(right)?);
        // The longer windows are those of the table, whose slices have to begin where a shorter window does.
        let fits = |shorter_ms: i64, longer: WindowAssigner| match longer {
            WindowAssigner::Overlap(overlap) => {
                let slice_ms = overlap.slicing().size_ms;
                shorter_ms % slice_ms == 0 && shorter_ms / slice_ms <= MOST_SHORTER_SLICES
            }
            _ => false,
        };
        match left_ms.cmp(&right_ms) {
            _ if left_ends != right_ends => None,
            Ordering::Less => fits(left_ms, right).then_some(Lengths::LeftIsShorter(left_ms)),
            Ordering::Greater => fits(right_ms, left).then_some(Lengths::RightIsShorter(right_ms)),
            Ordering::Equal => None,
        }
    }

    /// What of the windows the calls of the left and those of the right are of.
    fn last_ms(self) -> [Option<NonZeroI64>; 2] {
        match self {
            Lengths::Equal => [None, None],
            Lengths::LeftIsShorter(ms) => [NonZeroI64::new(ms), None],
            Lengths::RightIsShorter(ms) => [None, NonZeroI64::new(ms)],
        }
    }
}

/// The length of windows that have one, and where they end.
fn cut(assigner: WindowAssigner) -> Option<(i64, Slicing)> {
    match assigner {
        WindowAssigner::Tumble(slicing) => Some((slicing.size_ms, slicing)),
        WindowAssigner::Overlap(hop @ Overlap::Hop { size_ms, .. }) => Some((size_ms, hop.window_ends())),
        _ => None,
    }
}

/// The join as a projection of one aggregation, if it is one of two by the same keys and windows that end together.
pub(super) fn group_join(rel: &Rel, rules: Rules) -> Option<Rel> {
    let Rel::Join { left, right, kind, strategy, keys, residual } = rel else { return None };
    let sides = (Grouped::of(left)?, Grouped::of(right)?);
    let (of_left, of_right) = (&sides.0, &sides.1);
    // Windows of one function that end together begin together.
    let windows = [of_left, of_right].map(|side| match side.window.assigner {
        WindowAssigner::Attached => windows_below(side.input).filter(|w| matches!(w, WindowAssigner::Overlap(_))),
        assigner => Some(assigner).filter(|w| matches!(w, WindowAssigner::Tumble(_))),
    });
    let [windows_left, windows_right] = windows;
    let lengths = Lengths::of(windows_left?, windows_right?)?;
    match strategy {
        JoinStrategy::Window { .. } if lengths == Lengths::Equal => {}
        // Rows of one time, which is that of their windows.
        JoinStrategy::Interval { left_time, right_time, lower_ms: 0, upper_ms: 0 } if rules >= Rules::Lengths => {
            // Windows of local time may end at one instant when clocks are put forward, but are two.
            let is_one_time = match of_left.window.timeline {
                Timeline::Own => true,
                Timeline::Local(zone) => zone.fixed_offset_seconds().is_some(),
            };
            (is_one_time && of_left.is_time(left_time) && of_right.is_time(right_time)).then_some(())?;
        }
        _ => return None,
    }
    let pairs = paired(of_left, of_right, keys, lengths != Lengths::Equal)?;
    let is_inner = matches!(kind, JoinKind::Inner | JoinKind::Semi);
    let time_type = |side: &Grouped<'_>| side.window.time.as_ref().map(|e| (e.data_type.clone(), e.nullable));
    let start_type = |side: &Grouped<'_>| side.window.start.as_ref().map(|e| e.data_type.clone());
    let same_keys = pairs.iter().enumerate().all(|(l, &r)| {
        let (l, r) = (&of_left.keys[l].0, &of_right.keys[r].0);
        // A key that is NULL has no partner, so that a group of NULL would have to be two in outer joins.
        l.data_type == r.data_type && l.nullable == r.nullable && (is_inner || !l.nullable)
    });
    // Rows of several streams would have to be put in order.
    let keeps_order = |(call, _): &(AggregateCall, String)| {
        use AggregateFunction::{ArrayAgg, FirstValue, LastValue, ListAgg};
        matches!(call.function, FirstValue | LastValue | ListAgg | ArrayAgg)
    };
    let is_possible = of_left.window.timeline == of_right.window.timeline
        && same_keys
        && time_type(of_left).map(|(t, _)| t) == time_type(of_right).map(|(t, _)| t)
        && of_left.window.time.is_some()
        // One that is used twice is made once.
        && of_left.aggregation != of_right.aggregation
        && (residual.is_none() || *kind == JoinKind::Inner)
        && of_left.expressions().chain(of_right.expressions()).all(Expr::is_deterministic);
    if !is_possible {
        return None;
    }
    let one = if rules >= Rules::Lengths { of_one_input((of_left, of_right), &pairs, lengths) } else { None };
    let fused = one.or_else(|| {
        let is_possible = lengths == Lengths::Equal
            && of_left.window.assigner == of_right.window.assigner
            && (time_type(of_left), start_type(of_left)) == (time_type(of_right), start_type(of_right))
            && !of_left.aggregates.iter().chain(of_right.aggregates).any(keeps_order);
        is_possible.then(|| of_two_inputs(of_left, of_right, &pairs))
    })?;
    Some(shown_of(rel, fused, (of_left, of_right), &pairs, lengths))
}

/// What a side reads, over the columns of what is below its projections, filters and windows.
struct Read<'a> {
    base: &'a Rel,
    /// The columns that the side computes with. Those of windows follow those of `base`.
    columns: Vec<Expr>,
    /// What rows fulfil.
    filters: Vec<Expr>,
    /// Event time.
    time: Expr,
}

impl<'a> Read<'a> {
    fn of(side: &Grouped<'a>) -> Option<Read<'a>> {
        let Above { below, columns, filters } = Above::of(side.input)?;
        let time = side.window.time.clone()?.substitute(&columns);
        if let WindowAssigner::Tumble(slicing) = side.window.assigner {
            return Some(Read { base: below, columns, filters, time: time_of_row(time, slicing, below) });
        }
        let Rel::Windowed { input, time: of_windows, .. } = below else { return None };
        let width = input.schema().fields.len();
        let start = side.window.start.clone()?.substitute(&columns);
        if !is_column(&start, width) || !is_window_time(&time, width) {
            return None;
        }
        let mut inner = Above::of(input)?;
        let time = of_windows.clone().substitute(&inner.columns);
        let bounds = &below.schema().fields[width..];
        let mut over = inner.columns;
        over.extend(columns_from(inner.below.schema().fields.len(), bounds));
        let through = |all: Vec<Expr>| all.into_iter().map(|e| e.substitute(&over)).collect::<Vec<_>>();
        inner.filters.extend(through(filters));
        Some(Read { base: inner.below, columns: through(columns), filters: inner.filters, time })
    }
}

/// The time of a row, where that of its tumbling window stands: `WINDOW_START(t) + 4999 ms` of windows of 5 s is in the window
/// of `t`.
fn time_of_row(time: Expr, slicing: Slicing, below: &Rel) -> Expr {
    let is_within = |window: &InWindow<'_>| {
        window.assigner == WindowAssigner::Tumble(slicing) && (-slicing.size_ms..0).contains(&window.behind_end_ms)
    };
    let row = InWindow::of(&time, below).filter(is_within).and_then(|window| window.of);
    row.filter(|row| row.data_type == time.data_type).cloned().unwrap_or(time)
}

/// One aggregation for both sides if they read the same rows, which are read once then.
fn of_one_input((left, right): (&Grouped<'_>, &Grouped<'_>), pairs: &[usize], lengths: Lengths) -> Option<Rel> {
    let (of_left, of_right) = (Read::of(left)?, Read::of(right)?);
    // Rows that are late for the shorter windows alone go nowhere.
    let tells_late = lengths != Lengths::Equal && has_late_table(of_left.base);
    let width = of_left.base.schema().fields.len();
    let over = |read: &Read<'_>, e: &Expr| e.clone().substitute(&read.columns);
    let same = |l: &Expr, r: &Expr| same_computation(l, r);
    let (keys_left, keys_right): (Vec<Expr>, Vec<Expr>) = pairs
        .iter()
        .enumerate()
        .map(|(l, &r)| (over(&of_left, &left.keys[l].0), over(&of_right, &right.keys[r].0)))
        .unzip();
    let has_all = |all: &[Expr], some: &[Expr]| some.iter().all(|e| all.iter().any(|other| same(e, other)));
    let calls = |side: &Grouped<'_>, read: &Read<'_>, last_ms: Option<NonZeroI64>| {
        let mut calls = side.aggregates.to_vec();
        for (call, _) in &mut calls {
            call.expressions_mut().for_each(|e| *e = e.take().substitute(&read.columns));
            call.last_ms = last_ms;
        }
        calls
    };
    let [of_last_left, of_last_right] = lengths.last_ms();
    let (calls_left, calls_right) = (calls(left, &of_left, of_last_left), calls(right, &of_right, of_last_right));
    let arguments = calls_left.iter().chain(&calls_right).flat_map(|(call, _)| call.expressions());
    let mut computed = keys_left.iter().chain(&of_left.filters).chain(&of_right.filters).chain(arguments);
    let are_of_rows = computed.all(|e| is_below(e, width));
    drop(computed);
    let is_possible = meaning(of_left.base)? == meaning(of_right.base)?
        && !tells_late
        && same(&of_left.time, &of_right.time)
        && keys_left.iter().zip(&keys_right).all(|(l, r)| same(l, r))
        && has_all(&of_left.filters, &of_right.filters)
        && has_all(&of_right.filters, &of_left.filters)
        && are_of_rows;
    if !is_possible {
        return None;
    }
    let (longer, read) = match lengths {
        Lengths::LeftIsShorter(_) => (right, of_right),
        Lengths::Equal | Lengths::RightIsShorter(_) => (left, of_left),
    };
    let of_null = keys_left.iter().filter(|e| e.nullable).map(|e| e.clone().not_null());
    let mut input = read.base.clone();
    for predicate in read.filters.iter().cloned().chain(of_null) {
        input = Rel::Filter { input: Box::new(input), predicate };
    }
    if longer.window.assigner == WindowAssigner::Attached {
        let (assigner, timeline) = (windows_below(longer.input)?, longer.window.timeline);
        let (input_of_windows, time) = (Box::new(input), read.time.clone());
        input = Rel::Windowed { input: input_of_windows, assigner, time, timeline, partition: vec![] };
    }
    let start = longer.window.start.as_ref().map(|e| over(&read, e));
    let time = match longer.window.assigner {
        WindowAssigner::Attached => longer.window.time.as_ref().map(|e| over(&read, e)),
        _ => Some(read.time.clone()),
    };
    let window = Window { time, start, ..longer.window.clone() };
    let keys = keys_left.into_iter().zip(left.keys).map(|(e, (_, name))| (e, name.clone())).collect();
    let mut aggregates = calls_left;
    aggregates.extend(calls_right);
    aggregates.push(count_rows(None, of_last_left, "left_rows"));
    aggregates.push(count_rows(None, of_last_right, "right_rows"));
    Some(Rel::Aggregate { input: Box::new(input), window, keys, aggregates })
}

/// Whether rows of a table that is read go to another one when they are late.
#[recursive::recursive]
fn has_late_table(rel: &Rel) -> bool {
    matches!(rel, Rel::Scan { late: Some(_), .. }) || rel.inputs().into_iter().any(has_late_table)
}

/// `COUNT(*)` with a filter, of the last part of windows or of whole ones.
fn count_rows(filter: Option<Expr>, last_ms: Option<NonZeroI64>, name: &str) -> (AggregateCall, String) {
    let call = AggregateCall {
        function: AggregateFunction::CountRows,
        arguments: vec![],
        parameters: vec![],
        distinct: false,
        filter,
        last_ms,
        data_type: DataType::BigInt,
        nullable: false,
    };
    (call, name.to_string())
}

/// One aggregation for both sides, whose inputs it unites.
fn of_two_inputs(left: &Grouped<'_>, right: &Grouped<'_>, pairs: &[usize]) -> Rel {
    // Columns below: keys, arguments of the left, those of the right, time, start, and which side a row is of.
    let keys_of_right: Vec<(Expr, String)> = pairs.iter().map(|&r| right.keys[r].clone()).collect();
    let arguments = |side: &Grouped<'_>| -> Vec<Expr> {
        side.aggregates.iter().flat_map(|(call, _)| call.expressions()).cloned().collect()
    };
    let (of_left, of_right) = (arguments(left), arguments(right));
    let nulls = |all: &[Expr]| all.iter().map(|e| Expr::null(e.data_type.clone())).collect::<Vec<_>>();
    let below = |side: &Grouped<'_>, keys: &[(Expr, String)], arguments: Vec<Expr>, is_left: bool| {
        let sides = [Expr::boolean(is_left), Expr::boolean(!is_left)];
        let times = side.window.time.iter().chain(&side.window.start).cloned();
        let keys = keys.iter().map(|(e, _)| e.clone());
        let columns: Vec<Expr> = keys.chain(arguments).chain(times).chain(sides).collect();
        let is_not_null: Vec<Expr> =
            side.keys.iter().filter(|(e, _)| e.nullable).map(|(e, _)| e.clone().not_null()).collect();
        let mut input = side.input.clone();
        for predicate in is_not_null {
            input = Rel::Filter { input: Box::new(input), predicate };
        }
        let named = columns.into_iter().enumerate().map(|(i, e)| (e, format!("column{i}"))).collect();
        Rel::Project { input: Box::new(input), columns: named }
    };
    let inputs = vec![
        below(left, left.keys, [of_left.clone(), nulls(&of_right)].concat(), true),
        below(right, &keys_of_right, [nulls(&of_left), of_right.clone()].concat(), false),
    ];
    let input = Rel::Union { inputs };
    let all = columns_of(&input.schema());
    let (keys, arguments) = (left.keys.len(), left.keys.len() + of_left.len() + of_right.len());
    let (is_left, is_right) = (all[all.len() - 2].clone(), all[all.len() - 1].clone());
    let calls = |side: &Grouped<'_>, first: usize, is_of_side: &Expr| {
        let mut next = first;
        let mut calls = side.aggregates.to_vec();
        for (call, _) in &mut calls {
            for expression in call.expressions_mut() {
                // Rows of the other side have NULL there, which no guard lets pass.
                *expression = Expr { nullable: expression.nullable, ..all[next].clone() };
                next += 1;
            }
            call.filter = Some(match call.filter.take() {
                Some(filter) => Expr::all(vec![is_of_side.clone(), filter]),
                None => is_of_side.clone(),
            });
        }
        calls
    };
    let mut aggregates = calls(left, keys, &is_left);
    aggregates.extend(calls(right, keys + of_left.len(), &is_right));
    aggregates.push(count_rows(Some(is_left), None, "left_rows"));
    aggregates.push(count_rows(Some(is_right), None, "right_rows"));
    let window = Window {
        time: left.window.time.as_ref().map(|_| all[arguments].clone()),
        start: left.window.start.as_ref().map(|_| all[arguments + 1].clone()),
        ..left.window.clone()
    };
    let keys_of_both = (0..keys).map(|i| (all[i].clone(), left.keys[i].1.clone())).collect();
    Rel::Aggregate { input: Box::new(input), window, keys: keys_of_both, aggregates }
}

/// What the join shows, over the columns of the aggregation that stands for both sides: keys, aggregates of the left, of the right,
/// how many rows each has, and the bounds of the window.
fn shown_of(
    rel: &Rel,
    fused: Rel,
    (left, right): (&Grouped<'_>, &Grouped<'_>),
    pairs: &[usize],
    lengths: Lengths,
) -> Rel {
    let Rel::Join { kind, residual, .. } = rel else { unreachable!("only joins are looked at") };
    let over = columns_of(&fused.schema());
    let keys = left.keys.len();
    let first_of_right = keys + left.aggregates.len();
    let counts = first_of_right + right.aggregates.len();
    let bounds = |last_ms: Option<NonZeroI64>| {
        let mut bounds = over[counts + 2..].to_vec();
        if let Some(ms) = last_ms {
            bounds[START] = bounds[START + 1].clone().plus_ms(-ms.get());
        }
        bounds
    };
    let [of_last_left, of_last_right] = lengths.last_ms();
    let columns_left = [over[..first_of_right].to_vec(), bounds(of_last_left)].concat();
    let mut columns_right: Vec<Expr> = over[..keys].to_vec();
    for (l, &r) in pairs.iter().enumerate() {
        columns_right[r] = over[l].clone();
    }
    columns_right.extend(over[first_of_right..counts].to_vec());
    columns_right.extend(bounds(of_last_right));
    let presence = |side: &Grouped<'_>, columns: &[Expr], count: usize| {
        let zero = Expr::literal(Value::Int(0), DataType::BigInt);
        let mut is_there = Expr::compare(CompareOp::Greater, over[count].clone(), zero);
        for filter in &side.filters {
            let filter = filter.clone().substitute(columns);
            // Not computed without rows: it may fail then.
            let otherwise = Box::new(Expr::boolean(false));
            let (kind, nullable) = (ExprKind::Case(vec![(is_there, filter.clone())], otherwise), filter.nullable);
            is_there = Expr::new(kind, DataType::Boolean, nullable);
        }
        if is_there.nullable {
            is_there = Expr::new(ExprKind::IsBoolean(Box::new(is_there), true), DataType::Boolean, false);
        }
        is_there
    };
    let (has_left, has_right) = (presence(left, &columns_left, counts), presence(right, &columns_right, counts + 1));
    let shown = |side: &Grouped<'_>, columns: &[Expr], is_optional: bool, is_there: &Expr| -> Vec<Expr> {
        let shown = side.columns.iter().map(|e| e.clone().substitute(columns));
        shown.map(|e| if is_optional { e.only_if(is_there.clone()) } else { e }).collect()
    };
    let mut columns = shown(left, &columns_left, kind.left_is_optional(), &has_left);
    let of_right = shown(right, &columns_right, kind.right_is_optional(), &has_right);
    let pair = [columns.clone(), of_right.clone()].concat();
    if kind.shows_right() {
        columns.extend(of_right);
    }
    let not = |e: Expr| Expr::new(ExprKind::Not(Box::new(e)), DataType::Boolean, false);
    let either = |a: Expr, b: Expr| Expr::new(ExprKind::Or(vec![a, b]), DataType::Boolean, false);
    let mut stays = match kind {
        JoinKind::Inner | JoinKind::Semi => Expr::all(vec![has_left, has_right]),
        JoinKind::Left => has_left,
        JoinKind::Right => has_right,
        JoinKind::Full => either(has_left, has_right),
        JoinKind::Anti => Expr::all(vec![has_left, not(has_right)]),
    };
    if let Some(residual) = residual {
        let otherwise = Box::new(Expr::boolean(false));
        let residual = residual.clone().substitute(&pair);
        let nullable = residual.nullable;
        stays = Expr::new(ExprKind::Case(vec![(stays, residual)], otherwise), DataType::Boolean, nullable);
    }
    let named = columns.into_iter().zip(rel.schema().fields);
    let columns = named.map(|(e, field)| (Expr { nullable: field.nullable, ..e }, field.name)).collect();
    let filtered = Rel::Filter { input: Box::new(fused), predicate: stays };
    Rel::Project { input: Box::new(filtered), columns }
}
