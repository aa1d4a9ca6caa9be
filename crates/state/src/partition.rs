//! Which partition an entry belongs to: what workers merge beside each other.

use crate::dense::key_of_entry;
use crate::entry;
use millstream_abi::EntryLayout;

/// Bits of a hash that choose the partition.
pub const PARTITION_BITS: u32 = 4;
/// Number of partitions: how many workers a merge can occupy, few enough that partials of a handful of keys stay cheap.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;
/// Of the keys that can be in arrays, this many low bits do not choose the partition, so that keys which follow each
/// other are merged together.
pub(crate) const BLOCK_BITS: u32 = 6;
/// Keys that differ in this many low bits only are in one group, in which each partition has one block.
pub(crate) const GROUP_BITS: u32 = BLOCK_BITS + PARTITION_BITS;

/// The partition of a hash: its top bits (tables use the low bits, so both spread well).
#[inline]
pub fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

/// The partition of a key that can be in arrays: its higher digits, added without carry. Keys that follow each other are spread
/// evenly, and so are multiples of powers of two.
#[inline]
pub(crate) fn partition_of_key(key: i64) -> usize {
    sum_of_digits((key >> BLOCK_BITS) as u64)
}

/// Which block of a group of keys a partition has.
#[inline]
pub(crate) fn block_in_group(group: i64, partition: usize) -> usize {
    // The digits of a block are its own in the group and those of the group.
    partition ^ sum_of_digits((group as u64) << PARTITION_BITS >> PARTITION_BITS)
}

/// The hexadecimal digits of a number, added without carry.
#[inline]
fn sum_of_digits(mut digits: u64) -> usize {
    for shift in [32, 16, 8, 4] {
        digits ^= digits >> shift;
    }
    digits as usize % PARTITIONS
}

/// Where each partition begins, and the last one ends, if partition *p* has `count_of(p)` things, one after the other.
pub(crate) fn starts(count_of: impl Fn(usize) -> usize) -> [usize; PARTITIONS + 1] {
    let mut starts = [0; PARTITIONS + 1];
    for partition in 0..PARTITIONS {
        starts[partition + 1] = starts[partition] + count_of(partition);
    }
    starts
}

/// The partition of an entry.
///
/// # Safety
/// It is one of the layout.
#[inline]
pub(crate) unsafe fn partition_of_entry(layout: &EntryLayout, by_key: bool, entry: *const u8) -> usize {
    match by_key {
        // SAFETY: promised by the caller; an entry whose key is NULL has a zero in its place.
        true => partition_of_key(unsafe { key_of_entry(layout, entry) }.unwrap_or(0)),
        // SAFETY: promised by the caller.
        false => partition_of(unsafe { entry::hash(entry) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_follow_each_other_and_powers_of_two_are_spread_evenly() {
        for step in [1, 1 << BLOCK_BITS, 1 << 12, 1 << 20, 1 << 40] {
            let mut found = [0; PARTITIONS];
            let count = (PARTITIONS as i64) << BLOCK_BITS;
            (0..count).for_each(|n| found[partition_of_key(n.wrapping_mul(step))] += 1);
            assert_eq!(found, [count / PARTITIONS as i64; PARTITIONS], "{step}");
        }
    }
}
