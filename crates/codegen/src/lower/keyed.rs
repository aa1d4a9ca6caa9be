//! The programs of keyed operators and lookup tables: numbers for keys, conditions over pairs of rows, and aggregates of
//! numbered slots.

use super::aggregate::key_layout;
use super::{Lowered, Lowering};
use crate::program::{Access, Terminal, Update};
use crate::programs::Keyed;
use millstream_abi::Accumulator;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{ComponentUpdate, KeyedOperator, SlotAggregates};
use millstream_types::{DataType, Diagnostic, Field, Schema};
use std::sync::Arc;

/// Lowers the numbering of keys: for each row over the columns of `schema` it finds the entry of the key in the columns
/// `keys`, or has it inserted, and reports its group (`Accumulator::Group`, the only accumulator). `fields` has name,
/// type and nullability of each key in the entry. The other columns are not looked at: they may be NULL whatever the schema
/// says, for who numbers kept keys anew has nothing to put there.
pub fn lower_keys(name: &str, schema: &Schema, keys: &[usize], fields: &[Field]) -> Result<Lowered, Diagnostic> {
    let mut exprs = Vec::with_capacity(keys.len());
    for &key in keys {
        let field = schema.fields.get(key).ok_or_else(|| Diagnostic::bug("a key is not among the columns"))?;
        exprs.push(Expr::column(key, field.data_type.clone(), field.nullable));
    }
    let mut schema = schema.clone();
    let fields_of_others = schema.fields.iter_mut().enumerate().filter(|(i, _)| !keys.contains(i));
    fields_of_others.for_each(|(_, field)| field.nullable = true);
    let update = ComponentUpdate { argument: None, guard: None };
    Lowering::new(&schema).update_entries(name, fields, &exprs, &[Accumulator::Group], &[update])
}

/// Lowers a condition over the columns of `schema` to a program that emits no columns: what it gives is the selection of
/// the rows for which `predicate` is TRUE.
pub fn lower_condition(name: &str, schema: &Schema, predicate: &Expr) -> Result<Lowered, Diagnostic> {
    let mut lowering = Lowering::new(schema);
    lowering.filter(predicate)?;
    lowering.finish(name, Terminal::Emit(vec![]), vec![], vec![])
}

/// Lowers the update of the aggregates of slots, over the columns of `schema` and one more, the number of the row's slot
/// (BIGINT NOT NULL), which is the only key of the entries.
pub fn lower_slots(name: &str, schema: &Schema, aggregates: &SlotAggregates) -> Result<Lowered, Diagnostic> {
    let slot = Field::new("slot", DataType::BigInt, false);
    let key = Expr::column(schema.fields.len(), slot.data_type.clone(), false);
    let fields = schema.fields.iter().cloned().chain([slot.clone()]).collect();
    let with_slot = Schema::new(fields);
    let lowering = Lowering::new(&with_slot);
    lowering.update_entries(name, &[slot], &[key], &aggregates.components, &aggregates.updates)
}

/// Lowers the programs of keyed operator `index`, part by part.
pub(super) struct ByKey<'a> {
    pub(super) index: usize,
    pub(super) operator: &'a KeyedOperator,
}

impl ByKey<'_> {
    /// The keys of each input, and nothing else.
    pub(super) fn keys(&self) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
        let ByKey { index, operator } = self;
        let mut keys = Vec::with_capacity(operator.inputs.len());
        for (port, input) in operator.inputs.iter().enumerate() {
            let name = format!("keys of input {port} of operator {index}");
            keys.push(Arc::new(lower_keys(&name, &input.schema, &input.keys, &operator.keys)?));
        }
        Ok(Keyed { keys, residual: None, slots: None })
    }

    /// The keys, and the update of the aggregates if there are any.
    pub(super) fn keys_and_slots(
        &self,
        aggregates: Option<&SlotAggregates>,
    ) -> Result<Keyed<Arc<Lowered>>, Diagnostic> {
        let slots = aggregates.map(|aggregates| self.slots(aggregates)).transpose()?;
        Ok(Keyed { slots, ..self.keys()? })
    }

    /// What a pair of rows must fulfil besides equal keys.
    pub(super) fn condition(&self, residual: Option<&Expr>) -> Result<Option<Arc<Lowered>>, Diagnostic> {
        let both = self.operator.inputs.iter().flat_map(|i| i.schema.fields.iter().cloned()).collect();
        let name = format!("condition of operator {}", self.index);
        residual.map(|r| lower_condition(&name, &Schema::new(both), r).map(Arc::new)).transpose()
    }

    /// The update of the aggregates of slots, over the columns of the first input.
    pub(super) fn slots(&self, aggregates: &SlotAggregates) -> Result<Arc<Lowered>, Diagnostic> {
        let name = format!("aggregates of operator {}", self.index);
        lower_slots(&name, &self.operator.inputs[0].schema, aggregates).map(Arc::new)
    }
}

impl Lowering<'_> {
    /// Ends the program with the update of a table that all rows share.
    fn update_entries(
        mut self,
        name: &str,
        fields: &[Field],
        keys: &[Expr],
        accumulators: &[Accumulator],
        updates: &[ComponentUpdate],
    ) -> Result<Lowered, Diagnostic> {
        let layout = key_layout(fields, accumulators)?;
        let keys = self.keys(keys, fields)?;
        let components = self.components(updates, accumulators)?;
        self.finish(
            name,
            Terminal::Update(Update { access: Access::Own, layout, slice: None, keys, components, range: None }),
            vec![],
            vec![],
        )
    }
}
