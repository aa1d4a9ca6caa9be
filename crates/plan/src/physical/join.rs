//! Joins: keyed operators, and lookups in bounded tables.

use super::Planner;
use super::branch::Branch;
use super::expressions::columns_of;
use super::payload::Payload;
use crate::expr::{Expr, ExprKind};
use crate::logical::{JoinKind, JoinStrategy, Rel};
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_types::{DataType, Diagnostic, Field, Schema};

impl Planner {
    /// The branch of a window, interval, versioned or regular join.
    pub(super) fn join(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Join { left, right, kind, strategy, keys, residual } = rel else {
            return Err(Diagnostic::bug("not a join"));
        };
        let (left_time, right_time) = match strategy {
            JoinStrategy::Window { left_time, right_time, .. }
            | JoinStrategy::Interval { left_time, right_time, .. }
            | JoinStrategy::Versioned { left_time, right_time } => (Some(left_time), Some(right_time)),
            JoinStrategy::Regular { .. } | JoinStrategy::Lookup => (None, None),
        };
        let timeline = match strategy {
            JoinStrategy::Window { timeline, .. } => *timeline,
            _ => Timeline::Own,
        };
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let mut of_left = Payload::new(columns_of(&left_schema));
        let mut of_right = Payload::new(columns_of(&right_schema));
        let left_keys: Vec<usize> = keys.iter().map(|(l, _)| of_left.add(l)).collect();
        let right_keys: Vec<usize> = keys.iter().map(|(_, r)| of_right.add(r)).collect();
        let left_time_column = left_time.map(|t| of_left.add(t));
        let right_time_column = right_time.map(|t| of_right.add(t));
        let (left_arriving, right_arriving) = (of_left.schema(), of_right.schema());
        let width = left_arriving.fields.len();
        let pairs = pair_columns(&left_schema, &right_schema, width);
        let residual = residual.clone().map(|r| r.substitute(&pairs));
        let operator_kind = match strategy {
            JoinStrategy::Window { .. } => KeyedKind::WindowJoin { kind: *kind, residual },
            JoinStrategy::Interval { lower_ms, upper_ms, .. } => {
                KeyedKind::IntervalJoin { kind: *kind, lower_ms: *lower_ms, upper_ms: *upper_ms, residual }
            }
            JoinStrategy::Versioned { .. } => KeyedKind::VersionedJoin { kind: *kind, residual },
            JoinStrategy::Regular { ttl_ms } => KeyedKind::RegularJoin { ttl_ms: *ttl_ms, residual },
            JoinStrategy::Lookup => return Err(Diagnostic::bug("a lookup join is not a keyed operator")),
        };
        let fields: Vec<Field> = left_keys
            .iter()
            .zip(&right_keys)
            .map(|(&l, &r)| {
                let (l, r) = (&left_arriving.fields[l], &right_arriving.fields[r]);
                Field::new(&l.name, l.data_type.clone(), l.nullable || r.nullable)
            })
            .collect();
        let reach_ms = operator_kind.reach_ms();
        let left_input =
            KeyedInput { schema: left_arriving, keys: left_keys.clone(), time: left_time_column, reach_ms };
        let right_input =
            KeyedInput { schema: right_arriving, keys: right_keys.clone(), time: right_time_column, reach_ms };
        let operator = self.operator(operator_kind, timeline, vec![left_input, right_input], fields);
        let output = &self.operators[operator].output;
        let columns = joined_columns(output, left_schema.fields.len(), right_schema.fields.len(), width, *kind);
        // A row whose key is NULL has no partner: only an outer side keeps it.
        let drops_left = matches!(kind, JoinKind::Inner | JoinKind::Right | JoinKind::Semi);
        let drops_right = !matches!(kind, JoinKind::Right | JoinKind::Full);
        let left_not_null: &[usize] = if drops_left { &left_keys } else { &[] };
        let right_not_null: &[usize] = if drops_right { &right_keys } else { &[] };
        self.exchange(left, operator, 0, &of_left, left_time, left_not_null)?;
        self.exchange(right, operator, 1, &of_right, right_time, right_not_null)?;
        Ok(Branch::new(PipelineInput::Operator(operator), columns))
    }

    /// The branches of the left input, each probing a table made of the right one.
    pub(super) fn lookup_join(&mut self, rel: &Rel) -> Result<Vec<Branch>, Diagnostic> {
        let Rel::Join { left, right, kind, keys, residual, .. } = rel else {
            return Err(Diagnostic::bug("not a join"));
        };
        let table = self.lookup_table(right, keys)?;
        let (left_schema, right_schema) = (left.schema(), right.schema());
        let (width, right_width) = (left_schema.fields.len(), right_schema.fields.len());
        let pairs = pair_columns(&left_schema, &right_schema, width);
        let residual = residual.clone().map(|r| r.substitute(&pairs));
        let mut branches = self.branches(left)?;
        for branch in &mut branches {
            let appended = FlatMap::Lookup { table, kind: *kind, keys: vec![], residual: None }.appended(&self.lookups);
            branch.flat_map(appended, |over| FlatMap::Lookup {
                table,
                kind: *kind,
                keys: keys.iter().map(|(l, _)| over(l)).collect(),
                residual: residual.clone(),
            });
            // Without the key expressions that the table has besides its columns.
            branch.columns.truncate(width + if kind.shows_right() { right_width } else { 0 });
        }
        Ok(branches)
    }

    /// The table of a bounded relation by the right sides of `keys`; equal ones are made once.
    fn lookup_table(&mut self, right: &Rel, keys: &[(Expr, Expr)]) -> Result<usize, Diagnostic> {
        let schema = right.schema();
        let mut payload = Payload::new(columns_of(&schema));
        let positions: Vec<usize> = keys.iter().map(|(_, r)| payload.add(r)).collect();
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
        self.lookups.push(LookupTable { name: name_of(right), schema: arriving, keys: positions.clone() });
        self.looked_up.push((right.clone(), key_exprs, self.depth, table));
        self.depth += 1;
        let branches = self.branches(right);
        self.depth -= 1;
        for mut branch in branches? {
            for &key in &positions {
                let value = &payload.columns()[key];
                if value.nullable {
                    let there = ExprKind::IsNotNull(Box::new(value.clone()));
                    branch.filter(&Expr::new(there, DataType::Boolean, false));
                }
            }
            branch.project(payload.columns().iter());
            self.end(branch, |columns| (Some(columns), PipelineEnd::Build { lookup: table }));
        }
        Ok(table)
    }
}

/// The columns of left and right over a pair of rows of which the right one begins at `width`.
fn pair_columns(left: &Schema, right: &Schema, width: usize) -> Vec<Expr> {
    let mut pairs = columns_of(left);
    let shifted = right.fields.iter().enumerate();
    pairs.extend(shifted.map(|(i, f)| Expr::column(width + i, f.data_type.clone(), f.nullable)));
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
