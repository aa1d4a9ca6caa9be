//! Rows in the order of a sort, with what they are compared by.

use crate::columns::{all_selected, compact, sliced};
use crate::keyed::batch::Batch;
use crate::keyed::order::SortKeys;
use arrow_array::{ArrayRef, UInt32Array};
use millstream_plan::pipeline::SortColumn;
use millstream_types::Diagnostic;
use std::cmp::Ordering;

/// See the module.
pub(super) struct Block {
    pub(super) batch: Batch,
    /// Of each column to sort by.
    keys: Vec<SortKeys>,
}

impl Block {
    /// The rows with their keys.
    pub(super) fn new(batch: Batch, order: &[SortColumn]) -> Result<Block, Diagnostic> {
        let keys = order.iter().map(|&sort| SortKeys::new(&batch.columns[sort.column], sort));
        Ok(Block { keys: keys.collect::<Result<_, _>>()?, batch })
    }

    /// Compares a row with one of another block. No two are equal: in the end their places decide.
    pub(super) fn compare(&self, row: usize, other: &Block, other_row: usize) -> Ordering {
        let by_key = self.keys.iter().zip(&other.keys).map(|(a, b)| a.compare_with(row, b, other_row));
        let places = || self.batch.ordinals[row].cmp(&other.batch.ordinals[other_row]);
        by_key.into_iter().find(|order| order.is_ne()).unwrap_or_else(places)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.batch.bytes() + self.keys.iter().map(SortKeys::bytes).sum::<usize>()
    }

    /// Its rows in order: those before `bound`, a block of one row, and `most` of them at most. They keep nothing of the input alive.
    pub(super) fn sorted(self, bound: Option<&Block>, most: usize) -> Result<Batch, Diagnostic> {
        let mut rows: Vec<u32> = (0..self.batch.rows() as u32).collect();
        if let Some(bound) = bound {
            rows.retain(|&row| self.compare(row as usize, bound, 0).is_lt());
        }
        let compare = |a: &u32, b: &u32| self.compare(*a as usize, &self, *b as usize);
        if most < rows.len() {
            if most > 0 {
                rows.select_nth_unstable_by(most - 1, compare);
            }
            rows.truncate(most);
        }
        rows.sort_unstable_by(compare);
        let ordinals = rows.iter().map(|&row| self.batch.ordinals[row as usize]).collect();
        let columns = all_selected(&self.batch.columns, &UInt32Array::from(rows))?;
        Ok(Batch::new(columns.iter().map(compact).collect(), ordinals))
    }

    /// One of its rows by itself.
    pub(super) fn single(batch: &Batch, row: usize, order: &[SortColumn]) -> Result<Block, Diagnostic> {
        let columns: Vec<ArrayRef> = sliced(&batch.columns, row, 1).iter().map(compact).collect();
        Block::new(Batch::new(columns, vec![batch.ordinals[row]]), order)
    }
}
