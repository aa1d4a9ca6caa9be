//! Keyed operators: how rows come to them, and ranks and OVER aggregates.

use super::Planner;
use super::branch::Branch;
use super::expressions::columns_of;
use super::payload::Payload;
use crate::aggregate::Components;
use crate::expr::{Expr, ExprKind};
use crate::logical::Rel;
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_types::{DataType, Diagnostic, Field};

impl Planner {
    /// Adds an operator.
    pub(super) fn operator(
        &mut self,
        kind: KeyedKind,
        timeline: Timeline,
        inputs: Vec<KeyedInput>,
        keys: Vec<Field>,
    ) -> usize {
        let output = kind.output(&keys, &inputs);
        self.operators.push(KeyedOperator { kind, timeline, inputs, keys, output });
        self.operators.len() - 1
    }

    /// Ends the branches of `input` in an input of an operator. Rows where one of `not_null`, positions of the payload,
    /// is NULL are left out before.
    pub(super) fn exchange(
        &mut self,
        input: &Rel,
        operator: usize,
        port: usize,
        payload: &Payload,
        time: Option<&Expr>,
        not_null: &[usize],
    ) -> Result<(), Diagnostic> {
        let is_timed = !matches!(self.operators[operator].kind, KeyedKind::RegularJoin { .. });
        for mut branch in self.branches(input)? {
            branch.settle();
            if is_timed {
                self.use_time(&mut branch, time);
            }
            for &key in not_null.iter().filter(|&&i| payload.columns()[i].nullable) {
                let there = ExprKind::IsNotNull(Box::new(payload.columns()[key].clone()));
                branch.filter(&Expr::new(there, DataType::Boolean, false));
            }
            if let (Some(time), Some(reach_ms)) = (time, self.operators[operator].inputs[port].reach_ms) {
                let time = time.clone().substitute(&branch.columns);
                let timeline = self.operators[operator].timeline;
                self.route_late(&branch, super::late::of_rows(&time, timeline, reach_ms));
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
        let mut payload = Payload::new(columns_of(&schema));
        let keys: Vec<usize> = partition.iter().map(|e| payload.add(e)).collect();
        let time_column = payload.add(time);
        let order = order
            .iter()
            .map(|k| SortColumn { column: payload.add(&k.expr), descending: k.descending, nulls_first: k.nulls_first })
            .collect();
        let arriving = payload.schema();
        let mut columns = columns_of(&schema);
        columns.push(Expr::column(arriving.fields.len(), DataType::BigInt, false));
        let key_fields = keys.iter().map(|&i| arriving.fields[i].clone()).collect();
        let kind = KeyedKind::Rank { order, function: *function, range: *range };
        let arriving = KeyedInput { schema: arriving, keys, time: Some(time_column), reach_ms: kind.reach_ms() };
        let operator = self.operator(kind, *timeline, vec![arriving], key_fields);
        self.exchange(input, operator, 0, &payload, Some(time), &[])?;
        Ok(Branch::new(PipelineInput::Operator(operator), columns))
    }

    /// The branch of rows with their OVER aggregates.
    pub(super) fn over(&mut self, rel: &Rel) -> Result<Branch, Diagnostic> {
        let Rel::Over { input, time, partition, frame, aggregates } = rel else {
            return Err(Diagnostic::bug("not an OVER aggregation"));
        };
        let schema = input.schema();
        let mut payload = Payload::new(columns_of(&schema));
        let keys: Vec<usize> = partition.iter().map(|e| payload.add(e)).collect();
        let time_column = time.as_ref().map(|t| payload.add(t));
        let mut components = Components::default();
        let results: Vec<Expr> = aggregates.iter().map(|(call, _)| components.decompose(call, 0)).collect();
        let slots = payload.slots(components);
        let arriving = payload.schema();
        let first = arriving.fields.len();
        let mut columns = columns_of(&schema);
        // The outputs follow the columns that arrive, whose number is known only now.
        columns.extend(results.into_iter().map(|e| shifted(e, first)));
        let key_fields = keys.iter().map(|&i| arriving.fields[i].clone()).collect();
        let kind = KeyedKind::Over { frame: *frame, aggregates: slots };
        let reach_ms = time.as_ref().and(kind.reach_ms());
        let arriving = KeyedInput { schema: arriving, keys, time: time_column, reach_ms };
        let operator = self.operator(kind, Timeline::Own, vec![arriving], key_fields);
        self.exchange(input, operator, 0, &payload, time.as_ref(), &[])?;
        Ok(Branch::new(PipelineInput::Operator(operator), columns))
    }
}

fn shifted(expr: Expr, by: usize) -> Expr {
    expr.rewrite(&mut |mut e| {
        if let ExprKind::Column(i) = &mut e.kind {
            *i += by;
        }
        e
    })
}
