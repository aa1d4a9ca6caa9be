//! Rows of a store by what they are, so that one that is taken back is found again.

use super::comparable::Comparable;
use super::store::{NO_ROW, RowStore};
use crate::columns::unselectable;
use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};
use millstream_abi::hash_bytes;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::{Diagnostic, Schema};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// See the module.
pub(super) struct Contents {
    /// The columns that rows are known by, and their converter.
    columns: Vec<usize>,
    converter: RowConverter,
    /// Of each row of the store.
    hashes: Vec<u64>,
    /// The newest row of each hash, and of each row the one before with the same, or [`NO_ROW`].
    newest: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    older: Vec<u32>,
}

/// Takes a hash as it is.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_bytes(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Contents {
    /// Of rows of a schema, which are known by all columns but one.
    pub(super) fn new(schema: &Schema, but: usize) -> Result<Contents, Diagnostic> {
        let columns: Vec<usize> = (0..schema.fields.len()).filter(|&column| column != but).collect();
        let field = |&column: &usize| SortField::new(schema.fields[column].data_type.to_arrow());
        let converter = RowConverter::new(columns.iter().map(field).collect()).map_err(unselectable)?;
        let (hashes, older) = (Vec::new(), Vec::new());
        Ok(Contents { columns, converter, hashes, newest: HashMap::default(), older })
    }

    /// The rows of a batch.
    pub(super) fn rows_of(&self, columns: &[ArrayRef]) -> Result<Comparable, Diagnostic> {
        let own: Vec<ArrayRef> = self.columns.iter().map(|&column| Arc::clone(&columns[column])).collect();
        Comparable::made(&self.converter, &own)
    }

    /// The next row of the store has this hash.
    pub(super) fn add(&mut self, hash: u64) {
        let row = self.hashes.len() as u32;
        self.hashes.push(hash);
        self.older.push(self.newest.insert(hash, row).unwrap_or(NO_ROW));
    }

    /// The numbers in the store of some rows of a batch, each with its hash.
    pub(super) fn find(
        &self,
        store: &RowStore,
        batch: &Comparable,
        rows: &[(u32, u64)],
    ) -> Result<Vec<Option<u32>>, Diagnostic> {
        let mut found = vec![None; rows.len()];
        let candidate = |(place, (_, hash)): (usize, &(u32, u64))| Some((place, *self.newest.get(hash)?));
        let mut candidates: Vec<(usize, u32)> = rows.iter().enumerate().filter_map(candidate).collect();
        while !candidates.is_empty() {
            let numbers: Vec<u32> = candidates.iter().map(|(_, number)| *number).collect();
            let stored = self.rows_of(&store.gather(&numbers)?)?;
            let mut left = Vec::new();
            for (i, (place, number)) in candidates.into_iter().enumerate() {
                if stored.row(i) == batch.row(rows[place].0 as usize) {
                    found[place] = Some(number);
                } else if self.older[number as usize] != NO_ROW {
                    left.push((place, self.older[number as usize]));
                }
            }
            candidates = left;
        }
        Ok(found)
    }

    /// Keeps the rows of these ascending numbers only; the *i*-th of them is number *i* from now on.
    pub(super) fn keep(&mut self, rows: &[u32]) {
        let kept: Vec<u64> = rows.iter().map(|&row| self.hashes[row as usize]).collect();
        self.hashes.clear();
        self.older.clear();
        self.newest = HashMap::default();
        kept.into_iter().for_each(|hash| self.add(hash));
    }

    /// The next rows of the store are rows of another one, by their numbers there.
    pub(super) fn absorb(&mut self, other: &Contents, rows: &[u32]) {
        rows.iter().for_each(|&row| self.add(other.hashes[row as usize]));
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let of_row = size_of::<u64>() + size_of::<u32>();
        self.hashes.capacity() * of_row + self.newest.capacity() * (of_row + 1)
    }

    /// Writes the hashes of the rows from number `from` on.
    pub(super) fn save_from(&self, from: usize, out: &mut ByteWriter) {
        out.i64s(&self.hashes[from..].iter().map(|&hash| hash as i64).collect::<Vec<_>>());
    }

    /// Adds what [`Contents::save_from`] has written; the number of rows.
    pub(super) fn restore(&mut self, from: &mut ByteReader<'_>) -> Result<usize, Diagnostic> {
        from.i64s()?.into_iter().for_each(|hash| self.add(hash as u64));
        Ok(self.hashes.len())
    }
}
