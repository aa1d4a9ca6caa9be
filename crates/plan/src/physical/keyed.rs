//! Keyed operators: how rows come to them, and ranks and OVER aggregates; sorts.

use super::Planner;
use super::branch::Branch;
use super::expressions::columns_of;
use super::payload::Payload;
use crate::aggregate::Components;
use crate::changes::changing;
use crate::expr::Expr;
use crate::logical::{JoinStrategy, RankFunction, Rel, SortKey};
use crate::pipeline::*;
use crate::window::{Timeline, WindowAssigner, is_end_of_input};
use millstream_types::{DataType, Diagnostic, Field, Schema, Value};

impl Planner {
    /// Adds an operator of these inputs.
    pub(super) fn operator(
        &mut self,
        kind: KeyedKind,
        timeline: Timeline,
        inputs: &[&Payload<'_>],
        keys: Vec<Field>,
    ) -> usize {
        let inputs: Vec<KeyedInput> = inputs.iter().map(|payload| payload.input(&kind)).collect();
        let output = kind.keyed().output(&keys, &inputs);
        self.operators.push(KeyedOperator { kind, timeline, inputs, keys, partitioned_by: None, output });
        self.operators.len() - 1
    }

    /// The branch of an operator over `input`, with `columns` over its output.
    pub(super) fn keyed(
        &mut self,
        input: &Rel,
        kind: KeyedKind,
        timeline: Timeline,
        payload: &Payload<'_>,
        keys: Vec<Field>,
        columns: Vec<Expr>,
    ) -> Result<Branch, Diagnostic> {
        let operator = self.operator(kind, timeline, &[payload], keys);
        self.exchange(input, operator, 0, payload, &[])?;
        Ok(Branch::new(PipelineInput::Operator(operator), columns))
    }

    /// Ends the branches of `input` in an input of an operator. Rows where one of `not_null`, positions of the payload,
    /// is NULL are left out before.
    pub(super) fn exchange(
        &mut self,
        input: &Rel,
        operator: usize,
        port: usize,
        payload: &Payload<'_>,
        not_null: &[usize],
    ) -> Result<(), Diagnostic> {
        let time = payload.time.map(|(time, _)| time);
        let is_timed = !self.operators[operator].kind.takes_arrivals() && !time.is_some_and(is_end_of_input);
        for mut branch in self.branches(input)? {
            branch.settle();
            match (payload.weight, branch.weight.take()) {
                (Some(_), weight) => {
                    let comes = || Expr::literal(Value::Int(1), DataType::TinyInt);
                    branch.columns.push(weight.unwrap_or_else(comes));
                }
                (None, Some(_)) => return Err(Diagnostic::bug("an operator gets changes that it knows nothing of")),
                (None, None) => {}
            }
            if is_timed {
                self.use_time(&mut branch, time);
            }
            payload.leave_out_nulls(not_null, &mut branch);
            if let (Some(time), Some(reach_ms)) = (time, self.operators[operator].inputs[port].reach_ms) {
                let time = time.clone().substitute(&branch.columns);
                let timeline = self.operators[operator].timeline;
                self.route_late(&branch, super::late_rows::of_rows(&time, timeline, reach_ms));
            }
            branch.project(payload.columns().iter());
            self.end(branch, |columns| (Some(columns), PipelineEnd::Exchange { operator, port }));
        }
        Ok(())
    }

    /// The branch of ranked rows.
    pub(super) fn rank(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Rank { input, time, timeline, partition, order, function, range, is_by_time, shows_rank, is_alone } =
            rel
        else {
            return Err(Diagnostic::bug("not a rank"));
        };
        let (function, range, is_alone) = (*function, *range, *is_alone);
        let schema = input.schema();
        let mut payload = Payload::new(columns_of(&schema), partition, time.as_ref());
        let order: Vec<SortColumn> = order.iter().map(|key| sort_column(&mut payload, key)).collect();
        let mut columns = columns_of(&schema);
        // Deduplication by time that keeps the last row keeps the one that came last. Without an order it is that of arrival.
        let keeps_last = |order: &[SortColumn]| {
            let is_descending = order.first().is_none_or(|first| first.descending);
            *is_by_time && (function, range) == (RankFunction::RowNumber, (1, 1)) && is_descending
        };
        if let Some(time) = time {
            columns.push(Expr::column(payload.columns().len(), DataType::BigInt, false));
            let ties = if is_end_of_input(time) && keeps_last(&order) { Ties::Last } else { Ties::First };
            let kind = KeyedKind::Rank(Rank { order, function, range, ties });
            return self.keyed(input, kind, *timeline, &payload, payload.key_fields(), columns);
        }
        let ties = match () {
            () if changing(input).is_some() || is_unordered(input) => Ties::Values,
            () if keeps_last(&order) => Ties::Last,
            () => Ties::First,
        };
        if changing(input).is_some() {
            payload.add_weight(schema.fields.len());
        }
        payload.never_empty();
        let (width, shows_rank) = (payload.columns().len(), *shows_rank);
        columns.push(match shows_rank {
            true => Expr::column(width, DataType::BigInt, false),
            false => Expr::literal(Value::Int(0), DataType::BigInt),
        });
        let weight = Expr::column(width + usize::from(shows_rank), DataType::TinyInt, false);
        let kind = KeyedKind::Top(Top {
            order,
            function,
            range,
            ties,
            shows_rank,
            weight: payload.weight,
            ttl_ms: self.ttl_ms,
            is_alone,
        });
        let branch = self.keyed(input, kind, *timeline, &payload, payload.key_fields(), columns)?;
        Ok(Branch { weight: Some(weight), ..branch })
    }

    /// The branch of rows with their OVER aggregates.
    pub(super) fn over(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Over { input, time, partition, frame, aggregates } = rel else {
            return Err(Diagnostic::bug("not an OVER aggregation"));
        };
        let schema = input.schema();
        let mut payload = Payload::new(columns_of(&schema), partition, time.as_ref());
        let (components, results) = Components::of(aggregates, 0);
        let aggregates = payload.slots(components);
        let first = payload.columns().len();
        let mut columns = columns_of(&schema);
        // The outputs follow the columns that arrive, whose number is known only now.
        columns.extend(results.into_iter().map(|e| e.renumbered(|i| first + i)));
        let kind = KeyedKind::Over(Over { frame: *frame, aggregates });
        self.keyed(input, kind, Timeline::Own, &payload, payload.key_fields(), columns)
    }

    /// The branch of sorted rows.
    pub(super) fn sort(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Sort { input, keys, offset, count } = rel else { return Err(Diagnostic::bug("not a sort")) };
        let schema = input.schema();
        let mut payload = Payload::new(columns_of(&schema), [], None);
        let mut order: Vec<SortColumn> = keys.iter().map(|key| sort_column(&mut payload, key)).collect();
        if is_unordered(input) {
            // Rows of a regular join have no places that are the same in every run, but they have values.
            order.extend(ascending(&schema));
        }
        payload.never_empty();
        let (branches, sort) = (self.branches(input)?, self.sorts.len());
        self.sorts.push(Sort { schema: payload.schema(), order, offset: *offset, count: *count });
        for mut branch in branches {
            branch.settle();
            branch.project(payload.columns().iter());
            self.end(branch, |columns| (Some(columns), PipelineEnd::Sort { sort }));
        }
        Ok(Branch::new(PipelineInput::Sort(sort), columns_of(&schema)))
    }
}

/// The column of what rows are ordered by.
fn sort_column(payload: &mut Payload<'_>, key: &SortKey) -> SortColumn {
    SortColumn { column: payload.add(&key.expr), descending: key.descending, nulls_first: key.nulls_first }
}

/// All columns that can be compared.
fn ascending(schema: &Schema) -> impl Iterator<Item = SortColumn> {
    let comparable = schema.fields.iter().enumerate().filter(|(_, field)| !field.data_type.is_nested());
    comparable.map(|(column, _)| SortColumn { column, descending: false, nulls_first: true })
}

/// Whether the places of rows differ from run to run: they come from a regular join, without an operator in between that orders them.
fn is_unordered(rel: &Rel) -> bool {
    let mut left = vec![rel];
    while let Some(rel) = left.pop() {
        match rel {
            Rel::Join { strategy: JoinStrategy::Regular { .. }, .. } => return true,
            Rel::Aggregate { window, .. } if matches!(window.assigner, WindowAssigner::Unbounded { .. }) => {
                return true;
            }
            Rel::Aggregate { .. } | Rel::Sort { .. } => {}
            other => left.extend(other.inputs()),
        }
    }
    false
}
