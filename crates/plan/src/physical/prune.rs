//! Column pruning: below operators that keep, send or repeat rows only the columns that something above uses.

use super::expressions::{columns_of, same_computation};
use crate::common::Changed;
use crate::expr::{Expr, ExprKind};
use crate::logical::{JoinStrategy, Rel, Window};

/// Rewrites `rel` to an equal relation of which only the columns that are `needed` are left, in their order.
pub(super) fn prune(rel: &Rel, needed: &[bool]) -> Rel {
    within(rel, needed, &mut Changed::default())
}

#[recursive::recursive]
fn within(rel: &Rel, needed: &[bool], changed: &mut Changed) -> Rel {
    let pruned = match rel {
        // Each place needs columns of its own: it keeps all of them.
        Rel::Common(common) => Rel::Common(changed.once(common, |changed, rel| within(rel, &all_of(rel), changed))),
        Rel::Scan { .. } | Rel::Values { .. } => rel.clone(),
        Rel::Project { input, columns } => {
            let kept: Vec<_> = columns.iter().zip(needed).filter(|(_, n)| **n).map(|(c, _)| c.clone()).collect();
            let mut below = nothing_of(input);
            kept.iter().for_each(|(e, _)| mark(e, &mut below));
            let map = Renumbering::new(&below);
            let columns = kept.into_iter().map(|(e, name)| (map.apply(e), name)).collect();
            return Rel::Project { input: Box::new(within(input, &below, changed)), columns };
        }
        Rel::Filter { input, predicate } => {
            let mut below = needed.to_vec();
            mark(predicate, &mut below);
            let map = Renumbering::new(&below);
            let predicate = map.apply(predicate.clone());
            let filtered = Rel::Filter { input: Box::new(within(input, &below, changed)), predicate };
            return select(filtered, &map.of(needed));
        }
        Rel::Limit { input, count } => {
            return Rel::Limit { input: Box::new(within(input, needed, changed)), count: *count };
        }
        Rel::Union { inputs } => {
            return Rel::Union { inputs: inputs.iter().map(|i| within(i, needed, changed)).collect() };
        }
        Rel::Aggregate { input, window, keys, aggregates } => {
            let mut below = nothing_of(input);
            let mut parts = rel.clone();
            parts.expressions_mut().into_iter().for_each(|e| mark(e, &mut below));
            let map = Renumbering::new(&below);
            let apply = |e: &Expr| map.apply(e.clone());
            let window = Window {
                assigner: window.assigner,
                time: window.time.as_ref().map(apply),
                timeline: window.timeline,
                start: window.start.as_ref().map(apply),
            };
            let mut aggregates = aggregates.clone();
            for (call, _) in &mut aggregates {
                call.arguments.iter_mut().chain(&mut call.filter).for_each(|e| *e = apply(e));
            }
            let keys = keys.iter().map(|(e, name)| (apply(e), name.clone())).collect();
            Rel::Aggregate { input: Box::new(within(input, &below, changed)), window, keys, aggregates }
        }
        Rel::Join { .. } => return prune_join(rel, needed, changed),
        Rel::Windowed { input, .. } | Rel::Rank { input, .. } | Rel::Over { input, .. } | Rel::Unnest { input, .. } => {
            let width = input.schema().fields.len();
            let mut below = needed[..width].to_vec();
            let mut pruned = rel.clone();
            pruned.expressions_mut().into_iter().for_each(|e| mark(e, &mut below));
            let map = Renumbering::new(&below);
            for expr in pruned.expressions_mut() {
                *expr = map.apply(std::mem::replace(expr, Expr::boolean(false)));
            }
            for slot in pruned.inputs_mut() {
                *slot = within(input, &below, changed);
            }
            let mut kept = map.of(&needed[..width]);
            let left = below.iter().filter(|b| **b).count();
            kept.extend(needed[width..].iter().enumerate().filter(|(_, n)| **n).map(|(i, _)| left + i));
            return select(pruned, &kept);
        }
    };
    let kept: Vec<usize> = needed.iter().enumerate().filter(|(_, n)| **n).map(|(i, _)| i).collect();
    select(pruned, &kept)
}

/// The inputs of a join become projections of the columns that are used above it, by the residual, or as keys and times, in their
/// order: which of these it is that uses one does not change what is kept. Keys and times that are no columns follow: of a nested
/// row whose field is a key, only the field is kept.
fn prune_join(rel: &Rel, needed: &[bool], changed: &mut Changed) -> Rel {
    let Rel::Join { left, right, kind, strategy, keys, residual } = rel else { return rel.clone() };
    let width = left.schema().fields.len();
    let mut used = vec![false; width + right.schema().fields.len()];
    used.iter_mut().zip(needed).for_each(|(slot, needed)| *slot = *needed);
    if let Some(residual) = residual {
        mark(residual, &mut used);
    }
    let mut mark_column = |expr: &Expr, first: usize| {
        if let ExprKind::Column(i) = expr.kind {
            used[first + i] = true;
        }
    };
    for (l, r) in keys.iter().map(|(l, r)| (l, r)).chain(times(strategy)) {
        mark_column(l, 0);
        mark_column(r, width);
    }
    let both = Renumbering::new(&used);
    let (mut of_left, mut of_right) = (Side::new(left, &used[..width]), Side::new(right, &used[width..]));
    let keys = keys.iter().map(|(l, r)| (of_left.column(l), of_right.column(r))).collect();
    let mut strategy = strategy.clone();
    if let JoinStrategy::Window { left_time, right_time, .. }
    | JoinStrategy::Interval { left_time, right_time, .. }
    | JoinStrategy::Versioned { left_time, right_time } = &mut strategy
    {
        *left_time = of_left.column(left_time);
        *right_time = of_right.column(right_time);
    }
    // Columns of the right come after those that keys and times have added to the left.
    let (kept_left, added) = (of_left.kept, of_left.columns.len() - of_left.kept);
    let place = |i: usize| if i < kept_left { i } else { i + added };
    let residual = residual.clone().map(|r| {
        both.apply(r).rewrite(&mut |mut e| {
            if let ExprKind::Column(i) = &mut e.kind {
                *i = place(*i);
            }
            e
        })
    });
    let kept: Vec<usize> = both.of(needed).into_iter().map(place).collect();
    let (left, right) = (Box::new(of_left.finish(left, changed)), Box::new(of_right.finish(right, changed)));
    select(Rel::Join { left, right, kind: *kind, strategy, keys, residual }, &kept)
}

/// What the rows of both sides are joined by besides their keys.
fn times(strategy: &JoinStrategy) -> Option<(&Expr, &Expr)> {
    match strategy {
        JoinStrategy::Window { left_time, right_time, .. }
        | JoinStrategy::Interval { left_time, right_time, .. }
        | JoinStrategy::Versioned { left_time, right_time } => Some((left_time, right_time)),
        JoinStrategy::Regular { .. } | JoinStrategy::Lookup => None,
    }
}

/// The columns that an input of a join brings along.
struct Side {
    columns: Vec<(Expr, String)>,
    /// How many of them are columns of the input.
    kept: usize,
}

impl Side {
    fn new(input: &Rel, used: &[bool]) -> Side {
        let schema = input.schema();
        let all = columns_of(&schema).into_iter().zip(&schema.fields).zip(used);
        let columns: Vec<_> = all.filter(|(_, used)| **used).map(|((e, f), _)| (e, f.name.clone())).collect();
        Side { kept: columns.len(), columns }
    }

    /// The column of an expression over the input's columns, which is added unless it is there.
    fn column(&mut self, expr: &Expr) -> Expr {
        let same = |(known, _): &(Expr, String)| same_computation(known, expr);
        let index = self.columns.iter().position(same).unwrap_or_else(|| {
            self.columns.push((expr.clone(), format!("key{}", self.columns.len())));
            self.columns.len() - 1
        });
        Expr::column(index, expr.data_type.clone(), expr.nullable).at(expr.span)
    }

    fn finish(self, input: &Rel, changed: &mut Changed) -> Rel {
        let project = Rel::Project { input: Box::new(input.clone()), columns: self.columns };
        within(&project, &all_of(&project), changed)
    }
}

fn all_of(rel: &Rel) -> Vec<bool> {
    vec![true; rel.schema().fields.len()]
}

fn nothing_of(rel: &Rel) -> Vec<bool> {
    vec![false; rel.schema().fields.len()]
}

/// Notes the columns that an expression uses.
fn mark(expr: &Expr, needed: &mut [bool]) {
    expr.walk(&mut |e| {
        if let ExprKind::Column(i) = e.kind {
            needed[i] = true;
        }
    });
}

/// Positions of columns after others have been left out.
struct Renumbering(Vec<usize>);

impl Renumbering {
    fn new(kept: &[bool]) -> Renumbering {
        let mut next = 0;
        let number = |kept: &bool| {
            let number = next;
            next += usize::from(*kept);
            number
        };
        Renumbering(kept.iter().map(number).collect())
    }

    fn apply(&self, expr: Expr) -> Expr {
        expr.rewrite(&mut |mut e| {
            if let ExprKind::Column(i) = &mut e.kind {
                *i = self.0[*i];
            }
            e
        })
    }

    /// New positions of the columns that are needed.
    fn of(&self, needed: &[bool]) -> Vec<usize> {
        needed.iter().zip(&self.0).filter(|(n, _)| **n).map(|(_, i)| *i).collect()
    }
}

/// The columns at `kept`, unless these are all.
fn select(rel: Rel, kept: &[usize]) -> Rel {
    let schema = rel.schema();
    if kept.len() == schema.fields.len() {
        return rel;
    }
    let all = columns_of(&schema);
    let columns = kept.iter().map(|&i| (all[i].clone(), schema.fields[i].name.clone())).collect();
    Rel::Project { input: Box::new(rel), columns }
}
