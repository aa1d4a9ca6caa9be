//! Which keys of a range are in which partition.

use crate::partition::{BLOCK_BITS, PARTITIONS, partition_of_key, starts};
use millstream_abi::KeyRange;
use std::ops::Range;

/// Keys that follow each other in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Number of the first in the range.
    pub(super) first: usize,
    pub(super) len: usize,
}

impl Run {
    /// Numbers of the keys.
    pub(super) fn keys(&self) -> Range<usize> {
        self.first..self.first + self.len
    }
}

/// All runs of a range, by partition, then key.
#[derive(Debug)]
pub(super) struct Runs {
    runs: Box<[Run]>,
    /// Partition *p* has runs `starts[p]..starts[p + 1]`.
    starts: [usize; PARTITIONS + 1],
}

impl Runs {
    pub(super) fn new(range: KeyRange) -> Runs {
        let mut of_partition: [Vec<Run>; PARTITIONS] = Default::default();
        let (mut first, len) = (0, range.len as usize);
        while first < len {
            let key = range.first.wrapping_add(first as i64);
            let left_of_block = (1 << BLOCK_BITS) - (key & ((1 << BLOCK_BITS) - 1)) as usize;
            let run = Run { first, len: left_of_block.min(len - first) };
            of_partition[partition_of_key(key)].push(run);
            first += run.len;
        }
        Runs { starts: starts(|p| of_partition[p].len()), runs: of_partition.concat().into() }
    }

    /// Those of a range of partitions.
    pub(super) fn of(&self, partitions: &Range<usize>) -> &[Run] {
        &self.runs[self.starts[partitions.start]..self.starts[partitions.end]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_range_in_the_order_of_partials() {
        for (first, len) in [(0, 1), (0, 64), (-3, 70), (i64::MIN, 5), (i64::MAX - 999, 1000), (17, 5000)] {
            let range = KeyRange { first, len };
            let runs = Runs::new(range);
            let keys = |run: &Run| (run.first..run.first + run.len).map(|i| first.wrapping_add(i as i64));
            let found: Vec<i64> = runs.of(&(0..PARTITIONS)).iter().flat_map(keys).collect();
            let mut expected: Vec<i64> = (0..len as i64).map(|i| first.wrapping_add(i)).collect();
            expected.sort_by_key(|&key| (partition_of_key(key), key));
            assert_eq!(found, expected);
            let lens = runs.of(&(0..PARTITIONS)).iter().map(|run| run.len);
            assert_eq!(lens.sum::<usize>(), len as usize);
        }
    }
}
