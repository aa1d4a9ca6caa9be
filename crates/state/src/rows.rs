//! The rows that partials come to: entries, each by its address, and blocks of arrays, each with a mask of what is there. So rows
//! of arrays are not touched one by one before their columns are made.

use crate::array::{ArrayShape, BLOCK, Grid, KeyBlock, Region};
use crate::dense::key_of_entry;
use crate::sort::order;
use millstream_abi::{KeyRange, prefetch};
use std::ops::Range;
use std::sync::Arc;

/// An array in which rows are.
pub(crate) trait Array {
    /// What it has in common with others.
    fn shape(&self) -> &Arc<ArrayShape>;
    /// Its keys.
    fn range(&self) -> KeyRange;
    /// The entry of one of them, with those of the same block behind it.
    fn entry_at(&self, key: i64) -> *const u8;
}

impl Array for Region {
    fn shape(&self) -> &Arc<ArrayShape> {
        self.shape()
    }

    fn range(&self) -> KeyRange {
        self.range()
    }

    fn entry_at(&self, key: i64) -> *const u8 {
        self.entry(key)
    }
}

impl Array for Grid {
    fn shape(&self) -> &Arc<ArrayShape> {
        self.shape()
    }

    fn range(&self) -> KeyRange {
        self.range()
    }

    fn entry_at(&self, key: i64) -> *const u8 {
        self.entry_of(key).expect("a key of the range")
    }
}

/// A part of a partition's entries and keys in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Entries by number.
    Entries(Range<usize>),
    /// Keys of the array.
    Keys(KeyRange),
}

/// How `count` entries of a partition, in order, lie about the keys of an array, of which they have none: that of NULL,
/// whose `key` is 0, is behind 0.
pub(crate) fn parts(count: usize, key: impl Fn(usize) -> i64, range: KeyRange) -> impl Iterator<Item = Part> {
    let first_where = |from: usize, is_behind: &dyn Fn(i64) -> bool| {
        let (mut low, mut high) = (from, count);
        while low < high {
            let middle = low.midpoint(high);
            if is_behind(key(middle)) { high = middle } else { low = middle + 1 }
        }
        low
    };
    let below = first_where(0, &|key| key >= range.first);
    let within = first_where(below, &|key| key > range.last());
    let mut parts = vec![Part::Entries(0..below)];
    if below < within {
        parts.push(Part::Keys(KeyRange::between(range.first, 0)));
        parts.push(Part::Entries(below..within));
        if range.last() > 0 {
            parts.push(Part::Keys(KeyRange::between(1, range.last())));
        }
    } else {
        parts.push(Part::Keys(range));
    }
    parts.push(Part::Entries(within..count));
    parts.into_iter().filter(|part| *part != Part::Entries(0..0) && !matches!(part, Part::Entries(e) if e.is_empty()))
}

/// Keys that are there of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRows {
    /// The key of bit 0.
    pub(crate) first: i64,
    /// Its entry.
    pub(crate) at: *const u8,
    /// Bytes from one entry to the next.
    pub(crate) stride: usize,
    /// Bit *i* is set when key `first + i` is there; not 0.
    pub(crate) mask: u64,
}

impl BlockRows {
    pub(crate) fn len(&self) -> usize {
        self.mask.count_ones() as usize
    }

    /// Numbers of the keys.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.mask;
        std::iter::from_fn(move || {
            let lowest = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(lowest as usize)
        })
    }

    /// Some of the keys, counted from the lowest.
    fn slice(self, rows: Range<usize>) -> BlockRows {
        let without_lowest = |mask: u64, count: usize| (0..count).fold(mask, |mask, _| mask & mask.wrapping_sub(1));
        let mask = without_lowest(self.mask, rows.start) & !without_lowest(self.mask, rows.end);
        BlockRows { mask, ..self }
    }
}

/// Rows that follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunk<'a> {
    Entries(&'a [*const u8]),
    Block(BlockRows),
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    entries: Vec<*const u8>,
    /// Where the pieces are; none if all rows are entries.
    pieces: Vec<Piece>,
    len: usize,
}

#[derive(Debug)]
struct Piece {
    /// Number of the first row.
    start: usize,
    content: PieceContent,
}

#[derive(Debug)]
enum PieceContent {
    /// Entries from a number on.
    Entries(usize),
    Block(BlockRows),
}

impl From<Vec<*const u8>> for Rows {
    fn from(entries: Vec<*const u8>) -> Rows {
        Rows { len: entries.len(), entries, pieces: Vec::new() }
    }
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The rows, if all are entries.
    pub(crate) fn entries(&self) -> Option<&[*const u8]> {
        self.pieces.is_empty().then_some(&self.entries)
    }

    /// Sorted entries (`sort.rs`) of some partitions, and what is there of an array that has none of their keys but NULL.
    ///
    /// # Safety
    /// `entries` are entries of the array's layout, or of one that begins with it.
    pub(crate) unsafe fn about(entries: &[*const u8], array: &impl Array, partitions: &Range<usize>) -> Rows {
        let (mut rows, mut rest) = (Rows::default(), entries);
        let layout = &array.shape().layout;
        // SAFETY: promised by the caller.
        let partition_of = |entry: *const u8| unsafe { order(layout, entry) }.0;
        for partition in array.shape().partitioner().met(array.range(), partitions) {
            let (before, others) = rest.split_at(rest.partition_point(|&entry| partition_of(entry) < partition));
            let (these, others) = others.split_at(others.partition_point(|&entry| partition_of(entry) == partition));
            rows.push_entries(before);
            // SAFETY: as above.
            unsafe { rows.push_partition(partition, these, array) };
            rest = others;
        }
        rows.push_entries(rest);
        rows
    }

    /// Adds the rows of a partition.
    ///
    /// # Safety
    /// As for [`Rows::about`].
    unsafe fn push_partition(&mut self, partition: usize, entries: &[*const u8], array: &impl Array) {
        let shape = array.shape();
        // SAFETY: promised by the caller.
        let key = |i: usize| unsafe { key_of_entry(&shape.layout, entries[i]) }.unwrap_or(0);
        for part in parts(entries.len(), key, array.range()) {
            match part {
                Part::Entries(range) => self.push_entries(&entries[range]),
                Part::Keys(range) => {
                    let mut blocks = shape.partitioner().blocks(range, partition).peekable();
                    while let Some(block) = blocks.next() {
                        // Blocks of a partition are far from each other.
                        if let Some(next) = blocks.peek() {
                            prefetch(array.entry_at(next.first), next.len * shape.array.stride);
                        }
                        self.push_block(block, array);
                    }
                }
            }
        }
    }

    fn push_entries(&mut self, entries: &[*const u8]) {
        if !entries.is_empty() {
            self.pieces.push(Piece { start: self.len, content: PieceContent::Entries(self.entries.len()) });
            self.len += entries.len();
            self.entries.extend(entries);
        }
    }

    fn push_block(&mut self, block: KeyBlock, array: &impl Array) {
        let (at, shape) = (array.entry_at(block.first), array.shape());
        // SAFETY: the array has entries of all keys of the block.
        let mask = unsafe { shape.mask(at, block.len) };
        if mask != 0 {
            let rows = BlockRows { first: block.first, at, stride: shape.array.stride, mask };
            self.pieces.push(Piece { start: self.len, content: PieceContent::Block(rows) });
            self.len += rows.len();
        }
    }

    /// Rows of a range, in order.
    pub(crate) fn chunks(&self, range: Range<usize>) -> Vec<Chunk<'_>> {
        if self.pieces.is_empty() {
            return vec![Chunk::Entries(&self.entries[range])];
        }
        let mut chunks = Vec::with_capacity(range.len() / BLOCK + 2);
        let first = self.pieces.partition_point(|piece| piece.start <= range.start).saturating_sub(1);
        for (number, piece) in self.pieces.iter().enumerate().skip(first) {
            let end = self.pieces.get(number + 1).map_or(self.len, |next| next.start);
            if piece.start >= range.end {
                break;
            }
            let rows = range.start.max(piece.start) - piece.start..range.end.min(end) - piece.start;
            chunks.push(match piece.content {
                PieceContent::Entries(from) => Chunk::Entries(&self.entries[from + rows.start..from + rows.end]),
                PieceContent::Block(block) if rows.len() == block.len() => Chunk::Block(block),
                PieceContent::Block(block) => Chunk::Block(block.slice(rows)),
            });
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_behind_zero() {
        let found = |keys: &[i64], first, last| -> Vec<Part> {
            parts(keys.len(), |i| keys[i], KeyRange::between(first, last)).collect()
        };
        let keys = |first, last| Part::Keys(KeyRange::between(first, last));
        assert_eq!(found(&[], 3, 9), [keys(3, 9)]);
        assert_eq!(found(&[0], 3, 9), [Part::Entries(0..1), keys(3, 9)]);
        assert_eq!(
            found(&[-7, 0, 12], -3, 9),
            [Part::Entries(0..1), keys(-3, 0), Part::Entries(1..2), keys(1, 9), Part::Entries(2..3)]
        );
        assert_eq!(found(&[0, 20], -3, 0), [keys(-3, 0), Part::Entries(0..1), Part::Entries(1..2)]);
    }

    #[test]
    fn a_part_of_a_block_has_the_keys_in_between() {
        let block = BlockRows { first: 0, at: std::ptr::null(), stride: 8, mask: 0b1011_0110 };
        assert_eq!(block.slice(1..4).numbers().collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!(block.slice(0..5).mask, block.mask);
        assert_eq!(BlockRows { mask: u64::MAX, ..block }.slice(60..64).numbers().collect::<Vec<_>>(), [60, 61, 62, 63]);
    }
}
