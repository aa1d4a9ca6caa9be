//! How many partitions a keyed operator has.

/// Bits of the hash of a key that choose its partition, usually.
const FEWEST_BITS: u32 = 6;
/// The same where memory is little.
const MOST_BITS: u32 = 8;
/// Where memory is little: a budget of less than this many bytes.
const LITTLE: u64 = 512 << 20;
/// Where it is so little that of more partitions each would be a file of a few kilobytes.
const LEAST: u64 = 32 << 20;

/// How many bits of the hash of a key choose its partition in a query that has `limit` bytes and may spill, or not. One
/// partition has to fit into memory with what its jobs need, beside those that other workers are at, when all of them
/// together are many times as large as memory. So there are more where that is little, although routing rows costs more
/// then: of ten million sessions one of 64 partitions takes 44 MiB. Which rows are output does not depend on it, and a
/// query that is recovered keeps what it had.
pub(crate) fn partition_bits(limit: u64, may_spill: bool) -> u32 {
    if may_spill && (LEAST..LITTLE).contains(&limit) { MOST_BITS } else { FEWEST_BITS }
}

/// The bits that make `partitions` partitions, if there can be that many.
pub(crate) fn bits_of_partitions(partitions: usize) -> Option<u32> {
    [FEWEST_BITS, MOST_BITS].into_iter().find(|bits| partitions == 1 << bits)
}
