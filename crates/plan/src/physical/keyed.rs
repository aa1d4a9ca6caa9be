//! Keyed operators: how rows come to them, and ranks and OVER aggregates.

use super::Planner;
use super::branch::Branch;
use super::expressions::columns_of;
use super::payload::Payload;
use crate::aggregate::Components;
use crate::expr::Expr;
use crate::logical::Rel;
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_types::{DataType, Diagnostic, Field};

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
        self.operators.push(KeyedOperator { kind, timeline, inputs, keys, output });
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
        let is_timed = !matches!(self.operators[operator].kind, KeyedKind::RegularJoin(_));
        let time = payload.time.map(|(time, _)| time);
        for mut branch in self.branches(input)? {
            branch.settle();
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
        let Rel::Rank { input, time, timeline, partition, order, function, range } = rel else {
            return Err(Diagnostic::bug("not a rank"));
        };
        let schema = input.schema();
        let mut payload = Payload::new(columns_of(&schema), partition, Some(time));
        let order = order
            .iter()
            .map(|k| SortColumn { column: payload.add(&k.expr), descending: k.descending, nulls_first: k.nulls_first })
            .collect();
        let mut columns = columns_of(&schema);
        columns.push(Expr::column(payload.columns().len(), DataType::BigInt, false));
        let kind = KeyedKind::Rank(Rank { order, function: *function, range: *range });
        self.keyed(input, kind, *timeline, &payload, payload.key_fields(), columns)
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
}
