//! The programs of keyed operators and lookup tables: numbers for keys, conditions over pairs of rows, and aggregates of
//! numbered slots.

use super::aggregate::key_layout;
use super::{Lowered, Lowering};
use crate::program::Terminal;
use crate::programs::Keyed;
use millstream_abi::Accumulator;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{ComponentUpdate, KeyedOperator, SlotAggregates};
use millstream_types::{DataType, Diagnostic, Field, Schema};
use std::sync::Arc;

/// Lowers the numbering of keys: for each row over the columns of `schema` it finds the entry of the key in the columns
/// `keys`, or has it inserted, and reports its group (`Accumulator::Group`, the only accumulator). `fields` has name,
/// type and nullability of each key in the entry. The other columns are not looked at: they may be NULL whatever the schema
/// says, since whoever numbers kept keys again has nothing to put there.
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
    let layout = key_layout(fields, &[Accumulator::Group])?;
    Lowering::new(&schema).update_entries(name, layout, None, (&exprs, fields), &[update])
}

/// Lowers a condition over the columns of `schema` to a program that emits no columns: what it gives is the selection of
/// the rows for which `predicate` is TRUE.
pub fn lower_condition(name: &str, schema: &Schema, predicate: &Expr) -> Result<Lowered, Diagnostic> {
    let mut lowering = Lowering::new(schema);
    lowering.filter(predicate)?;
    lowering.finish(name, Terminal::Emit(vec![]))
}

/// Lowers the update of the aggregates of slots, over the columns of `schema` and one more, the number of the row's slot
/// (BIGINT NOT NULL), which is the only key of the entries.
pub fn lower_slots(name: &str, schema: &Schema, aggregates: &SlotAggregates) -> Result<Lowered, Diagnostic> {
    let slot = Field::new("slot", DataType::BigInt, false);
    let key = Expr::column(schema.fields.len(), slot.data_type.clone(), false);
    let fields = schema.fields.iter().cloned().chain([slot.clone()]).collect();
    let with_slot = Schema::new(fields);
    let layout = key_layout(std::slice::from_ref(&slot), &aggregates.components)?;
    Lowering::new(&with_slot).update_entries(name, layout, None, (&[key], &[slot]), &aggregates.updates)
}

/// The programs of a keyed operator, lowered.
pub(super) type KeyedPrograms = Result<Keyed<Arc<Lowered>>, Diagnostic>;

/// Lowers the programs of keyed operator `index`, part by part.
pub(super) struct ByKey<'a> {
    pub(super) index: usize,
    pub(super) operator: &'a KeyedOperator,
}

impl ByKey<'_> {
    /// The keys of each input, and nothing else.
    pub(super) fn keys(&self) -> KeyedPrograms {
        let ByKey { index, operator } = self;
        let mut keys = Vec::with_capacity(operator.inputs.len());
        for (port, input) in operator.inputs.iter().enumerate() {
            let name = format!("keys of input {port} of operator {index}");
            keys.push(Arc::new(lower_keys(&name, &input.schema, &input.keys, &operator.keys)?));
        }
        Ok(Keyed { keys, residual: None, slots: None })
    }

    /// The keys, and the update of the aggregates of slots, if there are any, over the columns of the first input.
    pub(super) fn keys_and_slots(&self) -> KeyedPrograms {
        let (name, schema) = (format!("aggregates of operator {}", self.index), &self.operator.inputs[0].schema);
        let slots = self.operator.kind.keyed().aggregates().map(|aggregates| lower_slots(&name, schema, aggregates));
        Ok(Keyed { slots: slots.transpose()?.map(Arc::new), ..self.keys()? })
    }

    /// The keys, and what a pair of rows must fulfil besides equal keys.
    pub(super) fn keys_and_condition(&self) -> KeyedPrograms {
        let both = self.operator.inputs.iter().flat_map(|i| i.schema.fields.iter().cloned()).collect();
        let (name, schema) = (format!("condition of operator {}", self.index), Schema::new(both));
        let residual = self.operator.kind.keyed().residual().map(|residual| lower_condition(&name, &schema, residual));
        Ok(Keyed { residual: residual.transpose()?.map(Arc::new), ..self.keys()? })
    }
}
