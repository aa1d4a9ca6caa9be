//! Result rows of hand-written loops. They are written as columns and added up a block at a time, as the engine's are:
//! a loop that folds each row into a checksum in registers does less than a query that has a result.

use super::checksum::{Checksum, fold_values, hash_double};

/// Rows of a block: three columns of it fit into the second-level cache.
const BLOCK: usize = 4096;

/// What the eight bytes of a column's values are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// An integer or the number of a timestamp.
    Integer,
    /// The bits of a DOUBLE.
    Double,
}

/// A block of rows of `N` columns, and the sum of those before it.
#[derive(Debug)]
pub(crate) struct OutputRows<const N: usize> {
    kinds: [Kind; N],
    columns: Box<[[i64; BLOCK]]>,
    len: usize,
    hashes: Box<[u64; BLOCK]>,
    sum: Checksum,
}

impl<const N: usize> OutputRows<N> {
    /// No rows, of columns of these kinds.
    pub(crate) fn new(kinds: [Kind; N]) -> OutputRows<N> {
        let columns = vec![[0; BLOCK]; N].into();
        OutputRows { kinds, columns, len: 0, hashes: Box::new([0; BLOCK]), sum: Checksum::default() }
    }

    /// Writes a row.
    #[inline(always)]
    pub(crate) fn push(&mut self, row: [i64; N]) {
        if self.len == BLOCK {
            self.add_up();
        }
        for (column, value) in self.columns.iter_mut().zip(row) {
            column[self.len] = value;
        }
        self.len += 1;
    }

    /// The sum of all rows.
    pub(crate) fn finish(mut self) -> Checksum {
        self.add_up();
        self.sum
    }

    #[inline(never)]
    fn add_up(&mut self) {
        let hashes = &mut self.hashes[..self.len];
        hashes.fill(0);
        for (column, kind) in self.columns.iter().zip(self.kinds) {
            let values = &column[..self.len];
            match kind {
                Kind::Integer => fold_values(values, hashes, |value| value),
                Kind::Double => fold_values(values, hashes, |bits| hash_double(f64::from_bits(bits as u64))),
            }
        }
        self.sum.add_hashes(hashes);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_blocks_add_up_as_one_by_one() {
        for rows in [0, 1, BLOCK as i64, BLOCK as i64 + 1] {
            let mut written = OutputRows::new([Kind::Integer, Kind::Double]);
            let mut expected = Checksum::default();
            for row in 0..rows {
                let value = row as f64 / 3.0;
                written.push([row, value.to_bits() as i64]);
                expected.add(&[row, hash_double(value)]);
            }
            assert_eq!(written.finish(), expected);
        }
    }
}
