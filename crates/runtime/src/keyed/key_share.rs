//! Which keys of a state a partition takes over from another one, and the numbers that they get there.

use super::batch::Batch;
use super::groups::Groups;
use super::state::State;
use super::store::RowStore;
use crate::columns::partition_of;
use crate::executable_plan::OperatorCode;
use arrow_array::ArrayRef;
use millstream_abi::{HASH_SEED, hash_finish};
use millstream_functions::FunctionContext;
use millstream_plan::pipeline::KeyedOperator;
use millstream_types::Diagnostic;
use std::any::Any;

/// Rows whose hashes are looked for at once.
const MANY_ROWS: usize = 32 << 10;

/// The keys of a state that a partition takes over.
pub(crate) struct KeyShare<'a> {
    hashing: Hashing<'a>,
    /// Bits of a hash that choose the partition, and its number.
    bits: u32,
    partition: usize,
}

/// Finds the hashes of rows and groups that choose their partition.
pub(super) struct Hashing<'a> {
    plan: &'a KeyedOperator,
    code: &'a OperatorCode,
    functions: &'a mut FunctionContext,
    /// Places of the keys that choose the partition, among all keys.
    keys: Vec<usize>,
}

/// The numbers that entries have now that a state has taken over.
pub(crate) struct NewNumbers(Vec<u32>);

/// Of an entry that was not taken over.
const NOT_TAKEN: u32 = u32::MAX;

impl NewNumbers {
    /// Of `known` entries, some were taken over: in this order they have the numbers from `first` on.
    pub(super) fn new(taken: impl IntoIterator<Item = usize>, known: usize, first: usize) -> NewNumbers {
        let mut numbers = vec![NOT_TAKEN; known];
        taken.into_iter().zip(first as u32..).for_each(|(entry, number)| numbers[entry] = number);
        NewNumbers(numbers)
    }

    /// Of groups.
    pub(super) fn of_groups(taken: &[u64], known: usize, first: usize) -> NewNumbers {
        NewNumbers::new(taken.iter().map(|&group| group as usize), known, first)
    }

    /// That of an entry, if it was taken over.
    pub(super) fn of(&self, entry: usize) -> Option<u32> {
        self.0.get(entry).copied().filter(|&number| number != NOT_TAKEN)
    }
}

/// The state of a partition of the same operator as the one that asks.
pub(super) fn of_same_operator<T: State>(other: &mut dyn State) -> Result<&mut T, Diagnostic> {
    let other = (other as &mut dyn Any).downcast_mut();
    other.ok_or_else(|| Diagnostic::bug("a state takes over one of another operator"))
}

impl<'a> Hashing<'a> {
    /// Of an operator.
    pub(super) fn new(
        plan: &'a KeyedOperator,
        code: &'a OperatorCode,
        functions: &'a mut FunctionContext,
    ) -> Hashing<'a> {
        Hashing { plan, code, functions, keys: plan.partition_keys() }
    }

    fn of_groups(&self, groups: &Groups) -> Vec<u64> {
        (0..groups.table.len() as u64).map(|group| groups.table.hash_of(group, &self.keys)).collect()
    }

    /// Of rows with all columns of an input.
    fn of_columns(&mut self, port: usize, columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, Diagnostic> {
        if self.plan.keys.is_empty() {
            return Ok(vec![hash_finish(HASH_SEED); rows]);
        }
        let mut groups = Groups::new(self.plan, self.code)?;
        let of = groups.assign_by(port, columns, rows, self.code, self.functions)?;
        let hashes = self.of_groups(&groups);
        Ok(of.iter().map(|&group| hashes[group as usize]).collect())
    }

    /// Of the rows of a batch.
    pub(super) fn of_batch(&mut self, port: usize, batch: &Batch) -> Result<Vec<i64>, Diagnostic> {
        let hashes = self.of_columns(port, &batch.columns, batch.rows())?;
        Ok(hashes.into_iter().map(|hash| hash as i64).collect())
    }
}

impl<'a> KeyShare<'a> {
    /// What a partition takes over, of as many as there are with so many bits of a hash.
    pub(super) fn new(hashing: Hashing<'a>, (bits, partition): (u32, usize)) -> KeyShare<'a> {
        KeyShare { hashing, bits, partition }
    }

    fn has(&self, hash: u64) -> bool {
        partition_of(hash, self.bits) == self.partition
    }

    /// Whether rows without keys come to the partition.
    pub(super) fn is_home(&self) -> bool {
        self.has(hash_finish(HASH_SEED))
    }

    /// The groups of a state that it takes over, ascending.
    pub(super) fn groups(&self, groups: &Groups) -> Vec<u64> {
        let hashes = self.hashing.of_groups(groups);
        (0..).zip(hashes).filter(|(_, hash)| self.has(*hash)).map(|(group, _)| group).collect()
    }

    /// The rows of an input that it takes over, ascending: also those whose group is not known any more.
    pub(super) fn rows(&mut self, port: usize, store: &RowStore) -> Result<Vec<u32>, Diagnostic> {
        let mut taken = Vec::new();
        for first in (0..store.len()).step_by(MANY_ROWS) {
            let rows: Vec<u32> = (first as u32..store.len().min(first + MANY_ROWS) as u32).collect();
            let hashes = self.hashing.of_columns(port, &store.gather(&rows)?, rows.len())?;
            taken.extend(rows.into_iter().zip(hashes).filter(|(_, hash)| self.has(*hash)).map(|(row, _)| row));
        }
        Ok(taken)
    }
}
