//! What rows bring along to keyed operators.

use super::branch::Branch;
use super::expressions::same_computation;
use crate::aggregate::Components;
use crate::expr::{Expr, ExprKind};
use crate::operators::project::schema_of;
use crate::pipeline::*;
use crate::window::is_end_of_input;
use millstream_types::{DataType, Field, Schema};

/// What rows bring to a keyed operator: expressions over the columns of the relation below, each once.
pub(super) struct Payload<'a> {
    columns: Vec<Expr>,
    /// Positions of the keys.
    pub(super) keys: Vec<usize>,
    /// The time, over the columns of the relation below, and its position.
    pub(super) time: Option<(&'a Expr, usize)>,
    /// Position of the weight of rows, which is one more column of the relation below.
    pub(super) weight: Option<usize>,
}

impl<'a> Payload<'a> {
    /// These columns, and what of keys and time is not among them.
    pub(super) fn new(
        columns: Vec<Expr>,
        keys: impl IntoIterator<Item = &'a Expr>,
        time: Option<&'a Expr>,
    ) -> Payload<'a> {
        let mut payload = Payload { columns, keys: vec![], time: None, weight: None };
        payload.keys = keys.into_iter().map(|key| payload.add(key)).collect();
        payload.time = time.map(|time| (time, payload.add(time)));
        payload
    }

    /// All columns of a row, then its weight, by `keys`.
    pub(super) fn of_row(columns: Vec<Expr>, keys: impl IntoIterator<Item = &'a Expr>, width: usize) -> Payload<'a> {
        let mut payload = Payload::new(columns, keys, None);
        payload.add_weight(width);
        payload
    }

    /// Adds the weight of the rows of a relation of `width` columns.
    pub(super) fn add_weight(&mut self, width: usize) -> Expr {
        let weight = Expr::column(width, DataType::TinyInt, false);
        self.weight = Some(self.columns.len());
        self.columns.push(weight.clone());
        weight
    }

    /// Position of an expression, if it is there.
    pub(super) fn place(&self, expr: &Expr) -> Option<usize> {
        self.columns.iter().position(|known| same_computation(known, expr))
    }

    /// Position of an expression, which is added unless it is there.
    pub(super) fn add(&mut self, expr: &Expr) -> usize {
        self.place(expr).unwrap_or_else(|| {
            self.columns.push(expr.clone());
            self.columns.len() - 1
        })
    }

    /// Has a column, whatever that is: where nobody reads one rows are still counted.
    pub(super) fn never_empty(&mut self) {
        if self.columns.is_empty() {
            self.columns.push(Expr::boolean(true));
        }
    }

    /// The expressions.
    pub(super) fn columns(&self) -> &[Expr] {
        &self.columns
    }

    /// The column of an expression.
    pub(super) fn column(&mut self, expr: &Expr) -> Expr {
        if let ExprKind::Literal(_) = expr.kind {
            return expr.clone();
        }
        let index = self.add(expr);
        Expr::column(index, expr.data_type.clone(), expr.nullable).at(expr.span)
    }

    pub(super) fn schema(&self) -> Schema {
        schema_of(&self.columns)
    }

    /// The input that takes it.
    pub(super) fn input(&self, kind: &KeyedKind) -> KeyedInput {
        let time = self.time.map(|(_, position)| position);
        // What waits for the end of the input is never late.
        let reach_ms = self.time.filter(|(time, _)| !is_end_of_input(time)).and_then(|_| kind.keyed().reach_ms());
        let mut input = KeyedInput { schema: self.schema(), keys: self.keys.clone(), time, reach_ms, leading: None };
        input.leading = match kind {
            KeyedKind::Rank(rank) => Leading::of_ranks(rank, &input),
            KeyedKind::Top(top) => Leading::of_all_ranks(top, &input),
            _ => None,
        };
        input
    }

    /// Its keys as columns.
    pub(super) fn key_fields(&self) -> Vec<Field> {
        let schema = self.schema();
        self.keys.iter().map(|&key| schema.fields[key].clone()).collect()
    }

    /// Leaves the rows of a branch out where one of the `columns` is NULL.
    pub(super) fn leave_out_nulls(&self, columns: &[usize], branch: &mut Branch) {
        let nullable = columns.iter().map(|&column| &self.columns[column]).filter(|value| value.nullable);
        nullable.for_each(|value| branch.filter(&value.clone().not_null()));
    }

    /// Components whose arguments and guards are computed before the exchange.
    pub(super) fn slots(&mut self, components: Components) -> SlotAggregates {
        let Components { list, outputs, calls, .. } = components;
        let mut updates = Vec::with_capacity(list.len());
        let mut kinds = Vec::with_capacity(list.len());
        for (kind, update) in list {
            let guard = update.guard.as_ref().map(|g| self.column(g));
            // An argument is only computed for the rows that its guard admits.
            let argument = update.argument.as_ref().map(|argument| match &update.guard {
                None => self.column(argument),
                Some(guard) => self.column(&argument.clone().only_if(guard.clone())),
            });
            kinds.push(kind);
            updates.push(ComponentUpdate { argument, guard });
        }
        SlotAggregates { components: kinds, updates, outputs, calls }
    }
}
