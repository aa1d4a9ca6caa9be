//! Keyed operators: what rows bring along to them, and ranks and OVER aggregates.

use super::branch::Branch;
use super::{Planner, columns_of};
use crate::aggregate::Components;
use crate::expr::{Expr, ExprKind};
use crate::logical::{Frame, Rel};
use crate::pipeline::*;
use crate::window::Timeline;
use millstream_types::{DataType, Diagnostic, Field, Schema, Value};

/// The columns that rows bring to a keyed operator: expressions over the columns of the relation below, each once.
pub(super) struct Payload(Vec<Expr>);

impl Payload {
    pub(super) fn new(columns: Vec<Expr>) -> Payload {
        Payload(columns)
    }

    /// Position of an expression, which is added unless it is there.
    pub(super) fn add(&mut self, expr: &Expr) -> usize {
        let same = |known: &Expr| super::source::same_computation(known, expr);
        self.0.iter().position(same).unwrap_or_else(|| {
            self.0.push(expr.clone());
            self.0.len() - 1
        })
    }

    /// The expressions.
    pub(super) fn columns(&self) -> &[Expr] {
        &self.0
    }

    /// The column of an expression.
    fn column(&mut self, expr: &Expr) -> Expr {
        if let ExprKind::Literal(_) = expr.kind {
            return expr.clone();
        }
        let index = self.add(expr);
        Expr::column(index, expr.data_type.clone(), expr.nullable).at(expr.span)
    }

    pub(super) fn schema(&self) -> Schema {
        let named = |(i, e): (usize, &Expr)| Field::new(format!("column{i}"), e.data_type.clone(), e.nullable);
        Schema::new(self.0.iter().enumerate().map(named).collect())
    }

    /// Components whose arguments and guards are computed before the exchange.
    pub(super) fn slots(&mut self, components: Components) -> SlotAggregates {
        let Components { list, outputs, calls } = components;
        let mut updates = Vec::with_capacity(list.len());
        let mut kinds = Vec::with_capacity(list.len());
        for (kind, update) in list {
            let guard = update.guard.as_ref().map(|g| self.column(g));
            // An argument is only computed for the rows that its guard admits.
            let argument = update.argument.as_ref().map(|argument| match &update.guard {
                None => self.column(argument),
                Some(guard) => self.column(&only_if(guard, argument)),
            });
            kinds.push(kind);
            updates.push(ComponentUpdate { argument, guard });
        }
        SlotAggregates { components: kinds, updates, outputs, calls }
    }
}

fn only_if(guard: &Expr, value: &Expr) -> Expr {
    let null = Expr::literal(Value::Null, value.data_type.clone());
    let case = ExprKind::Case(vec![(guard.clone(), value.clone())], Box::new(null));
    Expr::new(case, value.data_type.clone(), true).at(value.span)
}

impl SlotAggregates {
    /// Columns of the outputs.
    pub(super) fn output_fields(&self) -> impl Iterator<Item = Field> + '_ {
        let outputs = self.outputs.iter().enumerate();
        outputs.map(|(i, o)| Field::new(format!("component{i}"), o.data_type.clone(), o.nullable))
    }
}

impl Planner {
    /// Adds an operator.
    pub(super) fn operator(&mut self, operator: KeyedOperator) -> usize {
        self.operators.push(operator);
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
            for &key in not_null.iter().filter(|&&i| payload.0[i].nullable) {
                let there = ExprKind::IsNotNull(Box::new(payload.0[key].clone()));
                branch.filter(&Expr::new(there, DataType::Boolean, false));
            }
            if let (Some(time), Some(reach_ms)) = (time, self.operators[operator].inputs[port].reach_ms) {
                let time = time.clone().substitute(&branch.columns);
                let timeline = self.operators[operator].timeline;
                self.route_late(&branch, super::late::of_rows(&time, timeline, reach_ms));
            }
            branch.project(payload.0.iter());
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
        let rank = Field::new("rownum", DataType::BigInt, false);
        let mut columns = columns_of(&schema);
        columns.push(Expr::column(arriving.fields.len(), DataType::BigInt, false));
        let mut output = arriving.clone();
        output.fields.push(rank);
        let key_fields = keys.iter().map(|&i| arriving.fields[i].clone()).collect();
        let kind = KeyedKind::Rank { order, function: *function, range: *range };
        let arriving = KeyedInput { schema: arriving, keys, time: Some(time_column), reach_ms: Some(0) };
        let inputs = vec![arriving];
        let operator = self.operator(KeyedOperator { kind, timeline: *timeline, inputs, keys: key_fields, output });
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
        let mut output = arriving.clone();
        output.fields.extend(slots.output_fields());
        let key_fields = keys.iter().map(|&i| arriving.fields[i].clone()).collect();
        let kind = KeyedKind::Over { frame: *frame, aggregates: slots };
        // With a bound rows are late by what was triggered for their key, which only the operator knows.
        let is_bounded = matches!(frame, Frame::Rows(Some(_)) | Frame::Range(Some(_)));
        let reach_ms = time.as_ref().filter(|_| !is_bounded).map(|_| 0);
        let arriving = KeyedInput { schema: arriving, keys, time: time_column, reach_ms };
        let (timeline, inputs) = (Timeline::Own, vec![arriving]);
        let operator = self.operator(KeyedOperator { kind, timeline, inputs, keys: key_fields, output });
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
