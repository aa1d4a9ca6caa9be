//! Joins of aggregations by the same windows and keys, as one aggregation.
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

use super::above::Above;
use super::expressions::columns_of;
use crate::aggregate::{AggregateCall, AggregateFunction};
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::logical::{JoinKind, JoinStrategy, Rel, Window};
use crate::window::WindowAssigner;
use millstream_types::{DataType, Value};

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

    /// Where the bounds of the window begin.
    fn bounds(&self) -> usize {
        self.keys.len() + self.aggregates.len()
    }

    fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let calls = self.aggregates.iter().flat_map(|(call, _)| call.expressions());
        self.columns.iter().chain(&self.filters).chain(self.keys.iter().map(|(e, _)| e)).chain(calls)
    }
}

/// The windows that rows are given below an aggregation by attached windows, if an operator right below does that.
pub(super) fn windows_below(rel: &Rel) -> Option<WindowAssigner> {
    match rel {
        Rel::Windowed { assigner, .. } => Some(*assigner),
        Rel::Project { input, .. } | Rel::Filter { input, .. } => windows_below(input),
        _ => None,
    }
}

/// For each key of the left the key of the right that it is compared with; `None` unless the join compares all keys of both,
/// one by one. That windows are equal it compares in any case.
fn paired(left: &Grouped<'_>, right: &Grouped<'_>, keys: &[(Expr, Expr)]) -> Option<Vec<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; left.keys.len()];
    for (of_left, of_right) in keys {
        let (l, r) = (left.column(of_left)?, right.column(of_right)?);
        match (l.checked_sub(left.bounds()), r.checked_sub(right.bounds())) {
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

/// The join as a projection of one aggregation, if it is one of two by the same windows and keys.
pub(super) fn group_join(rel: &Rel) -> Option<Rel> {
    let Rel::Join { left, right, kind, strategy: JoinStrategy::Window { .. }, keys, residual } = rel else {
        return None;
    };
    let sides = (Grouped::of(left)?, Grouped::of(right)?);
    let (of_left, of_right) = (&sides.0, &sides.1);
    let pairs = paired(of_left, of_right, keys)?;
    let is_inner = matches!(kind, JoinKind::Inner | JoinKind::Semi);
    // Windows of one function that end together begin together.
    let windows = [of_left, of_right].map(|side| match side.window.assigner {
        WindowAssigner::Attached => windows_below(side.input).filter(|w| matches!(w, WindowAssigner::Overlap(_))),
        assigner => Some(assigner).filter(|w| matches!(w, WindowAssigner::Tumble(_))),
    });
    let same_windows = windows[0].is_some()
        && windows[0] == windows[1]
        && of_left.window.assigner == of_right.window.assigner
        && of_left.window.timeline == of_right.window.timeline;
    let types = |side: &Grouped<'_>| {
        let time = side.window.time.as_ref().map(|e| (e.data_type.clone(), e.nullable));
        (time, side.window.start.as_ref().map(|e| e.data_type.clone()))
    };
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
    let is_possible = same_windows
        && same_keys
        && types(of_left) == types(of_right)
        && of_left.window.time.is_some()
        && !of_left.aggregates.iter().chain(of_right.aggregates).any(keeps_order)
        // One that is used twice is made once.
        && of_left.aggregation != of_right.aggregation
        && (residual.is_none() || *kind == JoinKind::Inner)
        && of_left.expressions().chain(of_right.expressions()).all(Expr::is_deterministic);
    is_possible.then(|| joined(rel, of_left, of_right, &pairs, *kind, residual.as_ref()))
}

/// See the module.
fn joined(
    rel: &Rel,
    left: &Grouped<'_>,
    right: &Grouped<'_>,
    pairs: &[usize],
    kind: JoinKind,
    residual: Option<&Expr>,
) -> Rel {
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
    let count = |is_of_side: &Expr, name: &str| {
        let call = AggregateCall {
            function: AggregateFunction::CountRows,
            arguments: vec![],
            parameters: vec![],
            distinct: false,
            filter: Some(is_of_side.clone()),
            data_type: DataType::BigInt,
            nullable: false,
        };
        (call, name.to_string())
    };
    let mut aggregates = calls(left, keys, &is_left);
    aggregates.extend(calls(right, keys + of_left.len(), &is_right));
    aggregates.extend([count(&is_left, "left_rows"), count(&is_right, "right_rows")]);
    let counts = keys + aggregates.len() - 2;
    let window = Window {
        time: left.window.time.as_ref().map(|_| all[arguments].clone()),
        start: left.window.start.as_ref().map(|_| all[arguments + 1].clone()),
        ..left.window.clone()
    };
    let keys_of_both = (0..keys).map(|i| (all[i].clone(), left.keys[i].1.clone())).collect();
    let fused = Rel::Aggregate { input: Box::new(input), window, keys: keys_of_both, aggregates };

    // What each side shows, over the columns of both.
    let over = columns_of(&fused.schema());
    let bounds = || over[counts + 2..].to_vec();
    let first_of_right = keys + left.aggregates.len();
    let columns_left = [over[..first_of_right].to_vec(), bounds()].concat();
    let mut columns_right: Vec<Expr> = over[..keys].to_vec();
    for (l, &r) in pairs.iter().enumerate() {
        columns_right[r] = over[l].clone();
    }
    columns_right.extend(over[first_of_right..counts].to_vec());
    columns_right.extend(bounds());
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
