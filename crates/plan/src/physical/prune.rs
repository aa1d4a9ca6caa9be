//! Column pruning: below operators that keep, send or repeat rows only the columns that something above uses.

use super::expressions::{columns_of, same_computation};
use crate::common::Changed;
use crate::expr::{Expr, ExprKind};
use crate::logical::Rel;

/// Rewrites `rel` to an equal relation of which only the columns that are `needed` are left, in their order.
pub(super) fn prune(rel: Rel, needed: &[bool]) -> Rel {
    within(rel, needed, &mut Changed::default())
}

#[recursive::recursive]
fn within(rel: Rel, needed: &[bool], changed: &mut Changed) -> Rel {
    match rel {
        // Each place needs different columns: all of them are kept.
        Rel::Common(common) => {
            let all = vec![true; needed.len()];
            let common = changed.once(&common, |changed, rel| within(rel.clone(), &all, changed));
            select(Rel::Common(common), &positions(needed))
        }
        Rel::Scan { .. } | Rel::Values { .. } => select(rel, &positions(needed)),
        Rel::Project { input, columns } => {
            let kept = columns.into_iter().zip(needed).filter(|(_, needed)| **needed).map(|(column, _)| column);
            let below = nothing_of(&input);
            narrowed(Rel::Project { input, columns: kept.collect() }, below, changed).0
        }
        Rel::Aggregate { ref input, .. } => {
            let below = nothing_of(input);
            select(narrowed(rel, below, changed).0, &positions(needed))
        }
        Rel::Join { .. } => prune_join(rel, needed, changed),
        Rel::Filter { .. }
        | Rel::Limit { .. }
        | Rel::Sort { .. }
        | Rel::Union { .. }
        | Rel::Windowed { .. }
        | Rel::Rank { .. }
        | Rel::Over { .. }
        | Rel::Unnest { .. } => {
            let mut rel = rel;
            let width = rel.inputs()[0].schema().fields.len();
            if let Rel::Rank { shows_rank, .. } = &mut rel {
                *shows_rank = needed[width];
            }
            let (pruned, mut kept) = narrowed(rel, needed[..width].to_vec(), changed);
            // What it appends is there in any case.
            kept.resize(needed.len(), true);
            let places = renumbering(&kept);
            let selected: Vec<usize> = positions(needed).into_iter().map(|i| places[i]).collect();
            select(pruned, &selected)
        }
    }
}

/// Leaves out of the inputs the columns that are neither `needed` nor used by the operator's own expressions. Also says which are
/// left.
fn narrowed(mut rel: Rel, mut needed: Vec<bool>, changed: &mut Changed) -> (Rel, Vec<bool>) {
    rel.expressions_mut().into_iter().for_each(|e| mark(e, &mut needed));
    let places = renumbering(&needed);
    for expr in rel.expressions_mut() {
        *expr = expr.take().renumbered(|i| places[i]);
    }
    for input in rel.inputs_mut() {
        *input = within(input.take(), &needed, changed);
    }
    (rel, needed)
}

/// The inputs of a join become projections of the columns that are used above it, by the residual, or as keys and times, in their
/// order. Which of these uses a column does not change what is kept. Keys and times that are not columns follow: of a
/// nested row whose field is a key, only the field is kept.
fn prune_join(rel: Rel, needed: &[bool], changed: &mut Changed) -> Rel {
    let Rel::Join { left, right, kind, mut strategy, keys, residual } = rel else { return rel };
    let width = left.schema().fields.len();
    let mut used = needed.to_vec();
    used.resize(width + right.schema().fields.len(), false);
    residual.iter().for_each(|residual| mark(residual, &mut used));
    let mut mark_column = |expr: &Expr, first: usize| {
        if let ExprKind::Column(i) = expr.kind {
            used[first + i] = true;
        }
    };
    for (l, r) in keys.iter().map(|(l, r)| (l, r)).chain(strategy.times()) {
        mark_column(l, 0);
        mark_column(r, width);
    }
    let places = renumbering(&used);
    let (mut of_left, mut of_right) = (Side::new(&left, &used[..width]), Side::new(&right, &used[width..]));
    let keys = keys.iter().map(|(l, r)| (of_left.column(l), of_right.column(r))).collect();
    if let Some((left_time, right_time)) = strategy.times_mut() {
        *left_time = of_left.column(left_time);
        *right_time = of_right.column(right_time);
    }
    // Columns of the right come after those that keys and times have added to the left.
    let (kept_left, added) = (of_left.kept, of_left.columns.len() - of_left.kept);
    let place = |i: usize| if places[i] < kept_left { places[i] } else { places[i] + added };
    let residual = residual.map(|residual| residual.renumbered(place));
    let kept: Vec<usize> = positions(needed).into_iter().map(place).collect();
    let (left, right) = (Box::new(of_left.finish(left, changed)), Box::new(of_right.finish(right, changed)));
    select(Rel::Join { left, right, kind, strategy, keys, residual }, &kept)
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

    fn finish(self, input: Box<Rel>, changed: &mut Changed) -> Rel {
        let needed = vec![true; self.columns.len()];
        within(Rel::Project { input, columns: self.columns }, &needed, changed)
    }
}

fn nothing_of(rel: &Rel) -> Vec<bool> {
    vec![false; rel.schema().fields.len()]
}

/// Notes the columns that an expression uses.
fn mark(expr: &Expr, needed: &mut [bool]) {
    expr.each_column(|i| needed[i] = true);
}

fn positions(needed: &[bool]) -> Vec<usize> {
    (0..needed.len()).filter(|&i| needed[i]).collect()
}

/// Positions of columns after others have been left out.
pub(super) fn renumbering(kept: &[bool]) -> Vec<usize> {
    let mut next = 0;
    let number = |kept: &bool| {
        let number = next;
        next += usize::from(*kept);
        number
    };
    kept.iter().map(number).collect()
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
