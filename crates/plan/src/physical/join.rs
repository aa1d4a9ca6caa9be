//! Joins: keyed operators, and lookups in bounded tables.

use super::Planner;
use super::branch::Branch;
use super::expressions::{columns_from, columns_of};
use super::own_extreme::leading_of_join;
use super::payload::Payload;
use crate::changes::changing;
use crate::expansion::Expansion;
use crate::expr::Expr;
use crate::logical::{JoinKind, JoinStrategy, Rel};
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_types::{DataType, Diagnostic, Schema};

impl Planner {
    /// The branch of a window, interval, versioned or regular join.
    pub(super) fn join(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Join { left, right, kind, strategy, keys, residual } = rel else {
            return Err(Diagnostic::bug("not a join"));
        };
        let (left_time, right_time) = strategy.times().unzip();
        let timeline = match strategy {
            JoinStrategy::Window { timeline, .. } => *timeline,
            _ => Timeline::Own,
        };
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let mut of_left = Payload::new(columns_of(&left_schema), keys.iter().map(|(l, _)| l), left_time);
        let mut of_right = Payload::new(columns_of(&right_schema), keys.iter().map(|(_, r)| r), right_time);
        let changes = matches!(strategy, JoinStrategy::Regular { .. }) && changing(rel).is_some();
        for (payload, input, schema) in [(&mut of_left, left, &left_schema), (&mut of_right, right, &right_schema)] {
            if changes {
                payload.never_empty();
            }
            if changing(input).is_some() {
                payload.add_weight(schema.fields.len());
            }
        }
        // A semi join of rows that only come puts each out once, when its first partner comes.
        let in_beats = changes || *kind == JoinKind::Semi && matches!(strategy, JoinStrategy::Regular { .. });
        let width = of_left.columns().len();
        let kind = *kind;
        let residual = residual.clone().map(|r| r.substitute(&pair_columns(&left_schema, &right_schema, width)));
        let operator_kind = match *strategy {
            JoinStrategy::Window { .. } => KeyedKind::WindowJoin(WindowJoin { kind, residual }),
            JoinStrategy::Interval { lower_ms, upper_ms, .. } => {
                KeyedKind::IntervalJoin(IntervalJoin { kind, lower_ms, upper_ms, residual })
            }
            JoinStrategy::Versioned { .. } => KeyedKind::VersionedJoin(VersionedJoin { kind, residual }),
            JoinStrategy::Regular { ttl_ms } if in_beats => {
                let weights = [of_left.weight, of_right.weight];
                KeyedKind::ChangingJoin(ChangingJoin { kind, residual, weights, ttl_ms })
            }
            JoinStrategy::Regular { ttl_ms } => KeyedKind::RegularJoin(RegularJoin { ttl_ms, residual }),
            JoinStrategy::Lookup => return Err(Diagnostic::bug("a lookup join is not a keyed operator")),
        };
        let mut key_fields = of_left.key_fields();
        for (key, of_right) in key_fields.iter_mut().zip(of_right.key_fields()) {
            key.nullable |= of_right.nullable;
        }
        let operator = self.operator(operator_kind, timeline, &[&of_left, &of_right], key_fields);
        self.operators[operator].inputs[0].leading = leading_of_join(rel, &of_left);
        let output = &self.operators[operator].output;
        let weight = changes.then(|| Expr::column(output.fields.len() - 1, DataType::TinyInt, false));
        let columns = joined_columns(output, left_schema.fields.len(), right_schema.fields.len(), width, kind);
        // A row whose key is NULL has no partner: only an outer side keeps it.
        let drops_left = matches!(kind, JoinKind::Inner | JoinKind::Right | JoinKind::Semi);
        let drops_right = !matches!(kind, JoinKind::Right | JoinKind::Full);
        let not_null = |drops: bool, keys| if drops { keys } else { &[][..] };
        self.exchange(left, operator, 0, &of_left, not_null(drops_left, &of_left.keys))?;
        self.exchange(right, operator, 1, &of_right, not_null(drops_right, &of_right.keys))?;
        Ok(Branch { weight, ..Branch::new(PipelineInput::Operator(operator), columns) })
    }

    /// The branches of the left input, each probing a table made of the right one.
    pub(super) fn lookup_join(&mut self, rel: &Rel) -> Result<Vec<Branch>, Diagnostic> {
        let Rel::Join { left, right, kind, keys, residual, .. } = rel else {
            return Err(Diagnostic::bug("not a join"));
        };
        let table = self.lookup_table(right, keys)?;
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let (width, right_width) = (left_schema.fields.len(), right_schema.fields.len());
        let mut branches = self.branches(left)?;
        for branch in &mut branches {
            // The weight of a row comes behind its columns.
            let first = width + usize::from(branch.weight.is_some());
            let pairs = pair_columns(&left_schema, &right_schema, first);
            let residual = residual.clone().map(|r| r.substitute(&pairs));
            let mut lookup = Lookup { table, kind: *kind, keys: vec![], residual };
            let appended = lookup.appended(&self.lookups);
            branch.flat_map(appended, |over| {
                lookup.keys = keys.iter().map(|(l, _)| over(l)).collect();
                FlatMap::Lookup(lookup)
            });
            // Without the key expressions that the table has besides its columns.
            branch.columns.truncate(width + if kind.shows_right() { right_width } else { 0 });
        }
        Ok(branches)
    }

    /// The table of a bounded relation by the right sides of `keys`; equal ones are made once.
    fn lookup_table(&mut self, right: &Rel, keys: &[(Expr, Expr)]) -> Result<usize, Diagnostic> {
        let schema = right.schema();
        let payload = Payload::new(columns_of(&schema), keys.iter().map(|(_, r)| r), None);
        let key_exprs: Vec<Expr> = keys.iter().map(|(_, r)| r.clone()).collect();
        let known = self.looked_up.iter().find(|(rel, exprs, ..)| rel == right && *exprs == key_exprs);
        if let Some(&(.., table)) = known.filter(|(.., depth, _)| *depth == self.depth) {
            return Ok(table);
        }
        let mut arriving = payload.schema();
        for (field, named) in arriving.fields.iter_mut().zip(&schema.fields) {
            field.name.clone_from(&named.name);
        }
        let table = self.lookups.len();
        self.lookups.push(LookupTable { name: name_of(right), schema: arriving, keys: payload.keys.clone() });
        self.looked_up.push((right.clone(), key_exprs, self.depth, table));
        self.depth += 1;
        let branches = self.branches(right);
        self.depth -= 1;
        for mut branch in branches? {
            payload.leave_out_nulls(&payload.keys, &mut branch);
            branch.project(payload.columns().iter());
            self.end(branch, |columns| (Some(columns), PipelineEnd::Build { lookup: table }));
        }
        Ok(table)
    }
}

/// The columns of left and right over a pair of rows of which the right one begins at `width`.
fn pair_columns(left: &Schema, right: &Schema, width: usize) -> Vec<Expr> {
    let mut pairs = columns_of(left);
    pairs.extend(columns_from(width, &right.fields));
    pairs
}

/// The columns of a join over its operator's output, in which those of the right begin at `width`.
fn joined_columns(output: &Schema, left: usize, right: usize, width: usize, kind: JoinKind) -> Vec<Expr> {
    let all = columns_of(output);
    let mut columns = all[..left].to_vec();
    if kind.shows_right() {
        columns.extend_from_slice(&all[width..width + right]);
    }
    columns
}

/// What EXPLAIN calls a lookup table.
fn name_of(rel: &Rel) -> String {
    match rel {
        Rel::Scan { table, .. } => format!("table {}", table.name),
        Rel::Values { .. } => "constant rows".into(),
        other => match other.inputs().as_slice() {
            [input] => name_of(input),
            _ => "rows of a subquery".into(),
        },
    }
}
