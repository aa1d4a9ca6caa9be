//! The keys of a partition as dense numbers, by the compiled programs of the operator's inputs.

use super::shared::Portion;
use super::state::Work;
use crate::columns::sliced;
use crate::executable_plan::OperatorCode;
use crate::groups;
use arrow_array::{ArrayRef, new_null_array};
use millstream_plan::pipeline::{KeyedInput, KeyedOperator};
use millstream_state::GroupTable;
use millstream_storage::{ByteReader, Damaged};
use millstream_types::{DataType, Diagnostic};
use std::sync::Arc;

/// See the module.
pub(crate) struct Groups {
    pub(super) table: GroupTable,
    /// Key columns.
    types: Vec<DataType>,
    input: KeyedInput,
    /// Of each input the positions of its keys, and NULLs in place of its columns.
    keys: Vec<(Vec<usize>, Vec<ArrayRef>)>,
}

impl Groups {
    /// No groups.
    pub(crate) fn new(plan: &KeyedOperator, code: &OperatorCode) -> Result<Groups, Diagnostic> {
        let mut layouts = code.keys.iter().map(|c| c.lowered.layout());
        let layout =
            layouts.next().flatten().ok_or_else(|| Diagnostic::bug("an operator has no program for its keys"))?;
        if layouts.any(|other| other != Some(layout)) {
            return Err(Diagnostic::bug("the inputs of an operator disagree about its keys"));
        }
        let types = plan.keys.iter().map(|k| k.data_type.clone()).collect();
        let keys = plan.inputs.iter().map(|input| (input.keys.clone(), nulls_of(input, 0))).collect();
        let table = GroupTable::new(Arc::new(layout.clone()));
        Ok(Groups { table, types, input: plan.inputs[0].clone(), keys })
    }

    /// The key columns of groups.
    pub(crate) fn columns(&self, groups: &[u64]) -> Vec<ArrayRef> {
        self.table.columns(groups, &self.types)
    }

    /// The group of each row of an input.
    pub(crate) fn assign(
        &mut self,
        port: usize,
        columns: &[ArrayRef],
        rows: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<u64>, Diagnostic> {
        if rows == 0 {
            return Ok(Vec::new());
        }
        groups::assign(&mut self.table, &work.code.keys[port], columns, rows, work.functions)
    }

    /// The same for a part of the rows of an input: of shared ones only the keys are selected.
    pub(crate) fn assign_part(
        &mut self,
        port: usize,
        part: &Portion,
        work: &mut Work<'_>,
    ) -> Result<Vec<u64>, Diagnostic> {
        let rows = part.rows();
        if !part.is_shared() {
            return self.assign(port, part.wholes(), rows, work);
        }
        let (keys, others) = &mut self.keys[port];
        if others.first().is_none_or(|other| other.len() < rows) {
            let nulls = |column: &ArrayRef| new_null_array(column.data_type(), rows.next_power_of_two());
            *others = others.iter().map(nulls).collect();
        }
        // The program looks at keys only.
        let mut columns = sliced(others, 0, rows);
        for &key in &*keys {
            columns[key] = part.column(key)?;
        }
        self.assign(port, &columns, rows, work)
    }

    /// Has the groups that [`GroupTable::save`] has written instead.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        self.table = GroupTable::restore(Arc::clone(self.table.layout()), &self.types, from)?;
        Ok(())
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.table = GroupTable::new(Arc::clone(self.table.layout()));
    }

    /// Forgets all groups but these, which are distinct: the *i*-th of them is group *i* from now on.
    pub(crate) fn keep(&mut self, groups: &[u64], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let keys = self.columns(groups);
        self.clear();
        // Only the keys are read.
        let mut columns = nulls_of(&self.input, groups.len());
        for (&place, key) in self.input.keys.iter().zip(keys) {
            columns[place] = key;
        }
        let numbers = self.assign(0, &columns, groups.len(), work)?;
        debug_assert!(numbers.iter().enumerate().all(|(i, &n)| n == i as u64), "the groups were distinct");
        Ok(())
    }
}

/// NULLs in all columns of an input.
fn nulls_of(input: &KeyedInput, rows: usize) -> Vec<ArrayRef> {
    input.schema.fields.iter().map(|field| new_null_array(&field.data_type.to_arrow(), rows)).collect()
}
