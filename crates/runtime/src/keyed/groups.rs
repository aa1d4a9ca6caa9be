//! The keys of a partition as dense numbers, by the compiled programs of the operator's inputs.

use super::key_share::KeyShare;
use super::shared::Portion;
use super::state::Work;
use crate::columns::sliced;
use crate::executable_plan::OperatorCode;
use crate::groups;
use arrow_array::{ArrayRef, new_null_array};
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::{KeyedInput, KeyedOperator};
use millstream_state::GroupTable;
use millstream_storage::{ByteReader, Damaged};
use millstream_types::{DataType, Diagnostic, Field};
use std::sync::Arc;

/// Most groups that there is room for before they come: rows may have few.
const ROOM: usize = 4 << 10;

/// Groups without rows are forgotten when there are this many, and as many as others.
const MANY_EMPTY: usize = 1 << 10;

/// Whether that many groups without rows, of all, are worth forgetting.
pub(super) fn pays_to_forget(empty: usize, all: usize) -> bool {
    empty >= MANY_EMPTY && empty >= all / 2
}

/// See the module.
pub(crate) struct Groups {
    pub(super) table: GroupTable,
    /// Key columns.
    types: Vec<DataType>,
    /// Of each input the positions of its keys, and NULLs in place of all its columns.
    inputs: Vec<(Vec<usize>, Vec<ArrayRef>)>,
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
        let nulls = |field: &Field| new_null_array(&field.data_type.to_arrow(), 0);
        let of_input = |i: &KeyedInput| (i.keys.clone(), i.schema.fields.iter().map(nulls).collect());
        let inputs = plan.inputs.iter().map(of_input).collect();
        Ok(Groups { table: GroupTable::new(Arc::new(layout.clone())), types, inputs })
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
        self.assign_by(port, columns, rows, work.code, work.functions)
    }

    /// The same by the programs of an operator.
    pub(super) fn assign_by(
        &mut self,
        port: usize,
        columns: &[ArrayRef],
        rows: usize,
        code: &OperatorCode,
        functions: &mut FunctionContext,
    ) -> Result<Vec<u64>, Diagnostic> {
        groups::assign(&mut self.table, &code.keys[port], columns, rows, functions)
    }

    /// Takes over the groups of a share from others, none of which is here; which ones, ascending: in this order they have the next numbers.
    pub(super) fn absorb(&mut self, other: &Groups, share: &KeyShare<'_>) -> Result<Vec<u64>, Damaged> {
        let taken = share.groups(other);
        self.table.adopt(&other.table, &taken)?;
        Ok(taken)
    }

    /// The same for rows of the one input of an operator; without keys they are all of one group, which is in no table.
    pub(crate) fn assign_or_one(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<u64>, Diagnostic> {
        if self.types.is_empty() { Ok(vec![0; rows]) } else { self.assign(0, columns, rows, work) }
    }

    /// Number of groups; without keys there is one.
    pub(crate) fn len_or_one(&self) -> usize {
        if self.types.is_empty() { 1 } else { self.table.len() }
    }

    /// The same for rows of an input in parts: of shared ones only the keys are selected.
    pub(crate) fn assign_parts<'a>(
        &mut self,
        port: usize,
        parts: impl Iterator<Item = &'a Portion>,
        work: &mut Work<'_>,
    ) -> Result<Vec<u64>, Diagnostic> {
        let mut groups = Vec::new();
        for part in parts {
            groups.extend(match part.is_shared() {
                false => self.assign(port, part.wholes(), part.rows(), work)?,
                true => {
                    let keys: Vec<ArrayRef> =
                        self.inputs[port].0.iter().map(|&key| part.column(key)).collect::<Result<_, _>>()?;
                    self.assign_keys(port, keys, part.rows(), work)?
                }
            });
        }
        Ok(groups)
    }

    /// The same for the key columns of rows of an input: the program looks at no others.
    fn assign_keys(
        &mut self,
        port: usize,
        keys: Vec<ArrayRef>,
        rows: usize,
        work: &mut Work<'_>,
    ) -> Result<Vec<u64>, Diagnostic> {
        let (places, others) = &mut self.inputs[port];
        if others.first().is_none_or(|other| other.len() < rows) {
            let nulls = |column: &ArrayRef| new_null_array(column.data_type(), rows.next_power_of_two());
            *others = others.iter().map(nulls).collect();
        }
        let mut columns = sliced(others, 0, rows);
        places.iter().zip(keys).for_each(|(&place, key)| columns[place] = key);
        self.assign(port, &columns, rows, work)
    }

    /// The same of an operator that has one group if it has no keys, where others may have come to know it: they have `known` groups.
    pub(super) fn absorb_or_one(
        &mut self,
        other: &Groups,
        known: usize,
        share: &KeyShare<'_>,
    ) -> Result<Vec<u64>, Damaged> {
        match self.types.is_empty() {
            true => Ok((0..known as u64).filter(|_| share.is_home()).collect()),
            false => self.absorb(other, share),
        }
    }

    /// Adds the groups that [`GroupTable::save_from`] has written.
    pub(crate) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        self.table.restore(&self.types, from)
    }

    /// Makes room for the groups of about so many rows, while there are none.
    pub(crate) fn make_room(&mut self, rows: usize) {
        if self.table.is_empty() {
            self.table = GroupTable::with_room(Arc::clone(self.table.layout()), rows.min(ROOM));
        }
    }

    /// Forgets all groups.
    pub(crate) fn clear(&mut self) {
        self.table = GroupTable::new(Arc::clone(self.table.layout()));
    }

    /// Forgets all groups but these, which are distinct: the *i*-th of them is group *i* from now on.
    pub(crate) fn keep(&mut self, groups: &[u64], work: &mut Work<'_>) -> Result<(), Diagnostic> {
        let keys = self.columns(groups);
        self.clear();
        let numbers = self.assign_keys(0, keys, groups.len(), work)?;
        debug_assert!(numbers.iter().enumerate().all(|(i, &n)| n == i as u64), "the groups were distinct");
        Ok(())
    }
}
