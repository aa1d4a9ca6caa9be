//! Which partition an entry belongs to: what workers merge beside each other.
//!
//! A job has 1 to 4,096 partitions, always a power of two ([`EntryLayout::partition_bits`]). That of a hash is its top bits, so each
//! partition of 16 is four of 64 that follow each other. The same holds for the keys that can be in arrays, but for less than 16 partitions:
//! those of 8, 4 and 2 follow from that of 16 in another way. So who has many that follow each other may treat them as fewer larger ones
//! ([`Partitioner::coarsest`]).
//!
//! # Partitions of keys
//!
//! ```text
//! key        … 58 bits: number of the block n_57 … n_0                        6 bits
//! sums       s_j = those n_i added up without carry whose i has all bits of j (Pascal's triangle modulo 2)
//! partition  s_0 … s_3 as the four hexadecimal digits of n added up, then s_4, s_5, … as they are
//! ```
//!
//! Where the other bits of *n* are given, its first *b* sums and any *b* bits that follow each other determine each other, because the first
//! *b* rows of the triangle and *b* columns that follow each other have determinant 1 in common. So keys that follow each other are spread
//! evenly, and so are multiples of powers of two; and each partition has one block of a *group*, which are `1 << b` blocks that differ in
//! the low *b* bits of their numbers. The first four sums and the digits added up determine each other, too; the digits are what
//! state has from when there were always 16 partitions.

use crate::dense::key_of_entry;
use crate::entry;
use millstream_abi::EntryLayout;
use std::ops::Range;

/// Of the keys that can be in arrays, this many low bits do not choose the partition, so that keys which follow each
/// other are merged together.
pub(crate) const BLOCK_BITS: u32 = 6;
/// Bits of a hexadecimal digit.
const DIGIT: u32 = 4;

/// Into which of so many partitions hashes and keys belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partitioner {
    bits: u32,
}

impl Partitioner {
    /// That of entries of a layout.
    pub(crate) fn of(layout: &EntryLayout) -> Partitioner {
        Partitioner { bits: layout.partition_bits }
    }

    /// That of so many bits.
    pub(crate) fn in_bits(bits: u32) -> Partitioner {
        Partitioner { bits }
    }

    /// Keys that differ in this many low bits only are in one group, in which each partition has one block.
    pub(crate) fn group_bits(self) -> u32 {
        BLOCK_BITS + self.bits
    }

    /// Bits of the number of a partition.
    pub(crate) fn bits(self) -> u32 {
        self.bits
    }

    /// The partition of a hash: its top bits (tables use the low bits, so both spread well).
    #[inline]
    pub(crate) fn of_hash(self, hash: u64) -> usize {
        // Two shifts, because one by 64 is none.
        (hash >> 1 >> (u64::BITS - 1 - self.bits)) as usize
    }

    /// The partition of a key that can be in arrays.
    #[inline]
    pub(crate) fn of_key(self, key: i64) -> usize {
        self.of_block((key >> BLOCK_BITS) as u64)
    }

    #[inline]
    fn of_block(self, number: u64) -> usize {
        let digits = sum_of_digits(number);
        match self.bits {
            DIGIT => digits,
            _ => self.of_sums(digits, sums(number)),
        }
    }

    fn of_sums(self, digits: usize, sums: u64) -> usize {
        match self.bits.checked_sub(DIGIT) {
            Some(more) => (digits << more) | first_bits(sums >> DIGIT, more) as usize,
            None => first_bits(sums, self.bits) as usize,
        }
    }

    /// Which block of a group of keys a partition has.
    #[inline]
    pub(crate) fn block_in_group(self, group: i64, partition: usize) -> usize {
        // What the block's own bits add to those of the group.
        let own = partition ^ self.of_block((group << self.bits) as u64);
        match self.bits {
            DIGIT => own,
            _ => self.block_of(own as u64),
        }
    }

    /// The block of the first group that is of a partition.
    fn block_of(self, partition: u64) -> usize {
        // Sums are their own inverse, and those of a digit are of the digit.
        let of_block = match self.bits.checked_sub(DIGIT) {
            Some(more) => sums(partition >> more) | (first_bits(partition, more) << DIGIT),
            None => first_bits(partition, self.bits),
        };
        sums(of_block) as usize
    }

    /// The fewest partitions of which some that follow each other consist, and which of those.
    pub(crate) fn coarsest(self, partitions: &Range<usize>) -> (Partitioner, Range<usize>) {
        let zeros = partitions.start.trailing_zeros().min(partitions.end.trailing_zeros());
        let fewer = zeros.min(self.bits.saturating_sub(DIGIT));
        (Partitioner { bits: self.bits - fewer }, partitions.start >> fewer..partitions.end >> fewer)
    }

    /// The partition of an entry.
    ///
    /// # Safety
    /// It is one of the layout that this is of.
    #[inline]
    pub(crate) unsafe fn of_entry(self, layout: &EntryLayout, entry: *const u8) -> usize {
        match layout.by_key {
            // SAFETY: promised by the caller; an entry whose key is NULL has a zero in its place.
            true => self.of_key(unsafe { key_of_entry(layout, entry) }.unwrap_or(0)),
            // SAFETY: promised by the caller.
            false => self.of_hash(unsafe { entry::hash(entry) }),
        }
    }
}

/// The hexadecimal digits of a number, added without carry.
#[inline]
fn sum_of_digits(mut digits: u64) -> usize {
    for shift in [32, 16, 8, 4] {
        digits ^= digits >> shift;
    }
    digits as usize % (1 << DIGIT)
}

/// Bit *j* is the sum without carry of those bits *i* in which *i* has all bits of *j*.
#[inline]
fn sums(mut bits: u64) -> u64 {
    let steps = [
        (32, 0x0000_0000_ffff_ffff),
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    for (step, without) in steps {
        bits ^= (bits >> step) & without;
    }
    bits
}

/// The lowest bits of a word, the lowest first.
#[inline]
fn first_bits(word: u64, bits: u32) -> u64 {
    word.reverse_bits() >> 1 >> (u64::BITS - 1 - bits)
}

/// Where the things of each partition begin, which are in the order of their partitions. It takes no more than the partitions that
/// have some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionStarts {
    /// The partitions that have some, ascending, each with the number of its first thing.
    filled: Box<[(usize, usize)]>,
    len: usize,
}

impl PartitionStarts {
    /// Of partitions in ascending order, each with how many things follow.
    pub(crate) fn of_counts(counts: impl Iterator<Item = (usize, usize)>) -> PartitionStarts {
        let most = counts.size_hint().1.unwrap_or(0);
        let (mut filled, mut len) = (Vec::<(usize, usize)>::with_capacity(most.min(1 << DIGIT)), 0);
        for (partition, count) in counts.filter(|&(_, count)| count > 0) {
            if filled.last().is_none_or(|&(last, _)| last < partition) {
                filled.push((partition, len));
            }
            len += count;
        }
        PartitionStarts { filled: filled.into_boxed_slice(), len }
    }

    /// Number of all things.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The things of some partitions.
    pub(crate) fn range(&self, partitions: &Range<usize>) -> Range<usize> {
        let start = |partition: usize| {
            let number = self.filled.partition_point(|&(other, _)| other < partition);
            self.filled.get(number).map_or(self.len, |&(_, start)| start)
        };
        start(partitions.start)..start(partitions.end)
    }

    /// The partitions that have some.
    pub(crate) fn filled(&self) -> impl Iterator<Item = usize> {
        self.filled.iter().map(|&(partition, _)| partition)
    }

    /// These with their things.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let ends = self.filled.iter().skip(1).map(|&(_, start)| start).chain(std::iter::once(self.len));
        self.filled.iter().zip(ends).map(|(&(partition, start), end)| (partition, start..end))
    }

    /// The same without the things of other partitions.
    pub(crate) fn within(&self, partitions: &Range<usize>) -> PartitionStarts {
        let range = self.range(partitions);
        let filled = self.filled.iter().filter(|(partition, _)| partitions.contains(partition));
        let filled = filled.map(|&(partition, start)| (partition, start - range.start)).collect();
        PartitionStarts { filled, len: range.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn of(bits: u32) -> Partitioner {
        Partitioner { bits }
    }

    #[test]
    fn keys_that_follow_each_other_and_powers_of_two_are_spread_evenly() {
        for bits in 0..=12 {
            let (count, mut found) = (1i64 << bits << BLOCK_BITS, vec![0; 1 << bits]);
            for step in [0, 6, 7, 11, 12, 20, 40] {
                found.fill(0);
                (0..count).for_each(|n| found[of(bits).of_key(n << step)] += 1);
                assert!(found.iter().all(|&found| found == 1 << BLOCK_BITS), "{bits} bits, steps of 1 << {step}");
            }
        }
    }

    #[test]
    fn of_sixteen_a_key_has_the_partition_that_it_always_had() {
        for key in [0, 63, 64, 1 << 40, -1, i64::MIN, i64::MAX, 0x1234_5678_9abc_def0] {
            let digits = (0..16).fold(0, |sum, digit| sum ^ (((key >> BLOCK_BITS) as u64 >> (4 * digit)) % 16));
            assert_eq!(of(4).of_key(key), digits as usize);
        }
    }

    #[test]
    fn each_partition_has_one_block_of_a_group() {
        for bits in 0..=12 {
            for group in [0, 1, -1, 77, i64::MIN >> (BLOCK_BITS + bits), i64::MAX >> (BLOCK_BITS + bits)] {
                for partition in 0..1 << bits {
                    let block = of(bits).block_in_group(group, partition);
                    let first = ((group << bits) | block as i64) << BLOCK_BITS;
                    assert!(block < 1 << bits);
                    assert_eq!((of(bits).of_key(first), of(bits).of_key(first + 63)), (partition, partition));
                }
            }
        }
    }

    #[test]
    fn partitions_are_parts_of_larger_ones() {
        let keys = (0..3000).map(|n: i64| (n * n * 0x9_1234_5671) << (n % 3));
        let mut fewer = HashMap::new();
        for key in keys {
            for (bits, finer) in (0..=12).flat_map(|bits| (bits..=12).map(move |finer| (bits, finer))) {
                let (partition, part) = (of(bits).of_key(key), of(finer).of_key(key));
                assert_eq!(of(bits).of_hash(key as u64), of(finer).of_hash(key as u64) >> (finer - bits));
                match bits < DIGIT && finer >= DIGIT {
                    true => assert_eq!(*fewer.entry((bits, finer, part)).or_insert(partition), partition),
                    false => assert_eq!(partition, part >> (finer - bits)),
                }
            }
        }
    }

    #[test]
    fn partitions_that_follow_each_other_are_fewer_larger_ones() {
        assert_eq!(of(12).coarsest(&(0..4096)), (of(4), 0..16));
        assert_eq!(of(12).coarsest(&(1024..1088)), (of(6), 16..17));
        assert_eq!(of(12).coarsest(&(3..9)), (of(12), 3..9));
        assert_eq!((of(4).coarsest(&(0..16)), of(0).coarsest(&(0..1))), ((of(4), 0..16), (of(0), 0..1)));
    }

    #[test]
    fn things_are_found_by_partition() {
        let starts = PartitionStarts::of_counts([(1, 2), (1, 1), (5, 0), (7, 4)].into_iter());
        assert_eq!((starts.len(), starts.filled().collect::<Vec<_>>()), (7, vec![1, 7]));
        assert_eq!(starts.ranges().collect::<Vec<_>>(), [(1, 0..3), (7, 3..7)]);
        let range = |partitions: Range<usize>| starts.range(&partitions);
        assert_eq!((range(0..16), range(0..1), range(1..2), range(2..7), range(2..8)), (0..7, 0..0, 0..3, 3..3, 3..7));
        let within = starts.within(&(2..8));
        assert_eq!((within.len(), within.range(&(7..8)), within.range(&(0..7))), (4, 0..4, 0..0));
    }
}
