//! Components of aggregates: what an entry holds, how a row updates it, and what is shown of it.

use crate::expr::{Expr, ExprKind};
use millstream_abi::{Accumulator, Finish, ObjectKind};
use millstream_types::{DataType, Field};

/// Aggregates that a keyed operator keeps for each *slot*: a session, a slice of a count window, a row of OVER. Its program
/// updates the table entry of the slot, whose only key is the slot's number (BIGINT), which is one more column after those
/// of the input.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotAggregates {
    /// Components in the order of the entry layout.
    pub components: Vec<Accumulator>,
    /// Over the input's columns, in the order of `components`.
    pub updates: Vec<ComponentUpdate>,
    /// What is shown of them.
    pub outputs: Vec<ComponentOutput>,
    /// What was asked for: [`crate::aggregate::AggregateCall::outline`] of each call.
    pub calls: Vec<String>,
}

/// A column that shows an accumulator.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentOutput {
    /// Index into the components.
    pub component: usize,
    /// What it shows.
    pub finish: Finish,
    /// SQL type. The trigger narrows `Accumulator::output` to its physical type (integers wrap, as SUM(INT) does; DOUBLE
    /// rounds to FLOAT).
    pub data_type: DataType,
    /// Whether it can be NULL: MIN and MAX of strings and results of objects can, as no value may have been seen.
    pub nullable: bool,
}

impl ComponentOutput {
    /// The plain value of a component.
    pub fn value(component: usize, accumulator: Accumulator, data_type: DataType) -> ComponentOutput {
        let nullable = matches!(accumulator, Accumulator::MinStr | Accumulator::MaxStr);
        ComponentOutput { component, finish: Finish::Value, data_type, nullable }
    }

    /// The plain values of all components, of these types.
    pub fn values(components: &[Accumulator], types: &[DataType]) -> Vec<ComponentOutput> {
        let parts = components.iter().zip(types).enumerate();
        parts.map(|(i, (&component, t))| ComponentOutput::value(i, component, t.clone())).collect()
    }
}

/// What a row does to one component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentUpdate {
    /// Value; for `Accumulator::Count` only its NULLs matter (`None` counts every row). NULLs do not update, except a list
    /// that keeps them.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub guard: Option<Expr>,
}

/// Columns that show accumulators.
pub(crate) fn output_fields(outputs: &[ComponentOutput]) -> impl Iterator<Item = Field> + '_ {
    let named =
        |(i, o): (usize, &ComponentOutput)| Field::new(format!("component{i}"), o.data_type.clone(), o.nullable);
    outputs.iter().enumerate().map(named)
}

/// What EXPLAIN calls the accumulators of an entry that rows update so.
pub(crate) fn components_text(components: &[Accumulator], updates: &[ComponentUpdate]) -> String {
    let text = |(i, component): (usize, &Accumulator)| match component {
        Accumulator::Object(ObjectKind::Fold { .. }, _) => match updates.get(i).and_then(ComponentUpdate::packed_for) {
            Some(name) => format!("FOLD({name})"),
            None => "FOLD".into(),
        },
        component => format!("{component:?}"),
    };
    let texts: Vec<String> = components.iter().enumerate().map(text).collect();
    format!("components [{}]", texts.join(", "))
}

impl ComponentUpdate {
    /// The aggregate function of the program that the argument is packed for.
    fn packed_for(&self) -> Option<&str> {
        match &self.argument.as_ref()?.kind {
            ExprKind::Vector(pack, _) => Some(pack.0.name()),
            _ => None,
        }
    }
}
