//! The programs of keyed operators and lookup tables: numbers for keys, conditions over pairs of rows, and aggregates of
//! numbered slots.

use super::aggregate::key_layout;
use super::{Lowered, Lowering};
use crate::program::{Access, Terminal, Update};
use millstream_abi::Accumulator;
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{ComponentUpdate, SlotAggregates};
use millstream_types::{DataType, Diagnostic, Field, Schema};

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
