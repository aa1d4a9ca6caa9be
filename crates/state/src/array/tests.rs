//! Regions and grids against each other.

use super::*;
use millstream_abi::{Accumulator, Counters};

fn shape(accumulators: &[Accumulator], counters: Counters) -> Arc<ArrayShape> {
    shape_in(4, accumulators, counters)
}

fn shape_in(bits: u32, accumulators: &[Accumulator], counters: Counters) -> Arc<ArrayShape> {
    let layout = EntryLayout::new(&[(Phys::I64, false)], accumulators).counted_by(counters).in_partitions(bits);
    ArrayShape::of(&Arc::new(layout)).expect("numbers by an integer")
}

/// A region of maxima, whose keys that are there have themselves.
fn maxima(shape: &Arc<ArrayShape>, range: KeyRange, is_there: impl Fn(i64) -> bool) -> Region {
    let region = Region::fresh(shape, range);
    for key in (range.first..=range.last()).filter(|&key| is_there(key)) {
        // SAFETY: an entry of the region.
        unsafe {
            write(region.entry(key), shape.layout.accumulators[0].1, key);
            write(region.entry(key), shape.array.mark, 1u64);
        }
    }
    region
}

#[test]
fn blocks_are_a_range_in_the_order_of_partials() {
    for (first, len) in [(0, 1), (0, 64), (-3, 70), (i64::MIN, 5), (i64::MAX - 999, 1000), (17, 5000)] {
        for bits in [0, 1, 4, 6, 12] {
            let (range, shape) = (KeyRange { first, len }, shape_in(bits, &[Accumulator::Count], Counters::One(0)));
            let (partitioner, all) = (shape.partitioner(), shape.layout.partitions());
            let keys = |block: KeyBlock| (0..block.len as i64).map(move |i| block.first + i);
            let found: Vec<i64> = all.clone().flat_map(|p| partitioner.blocks(range, p)).flat_map(keys).collect();
            let mut expected: Vec<i64> = (first..=range.last()).collect();
            expected.sort_by_key(|&key| (partitioner.of_key(key), key));
            assert_eq!(found, expected);
            for partitions in [all.clone(), 0..1, 0..all.end.div_ceil(2)] {
                let is_of = |key: &i64| partitions.contains(&partitioner.of_key(*key));
                let by_key = partitioner.blocks_by_key(range, partitions.clone());
                let by_key: Vec<i64> = by_key.flat_map(|(_, block)| keys(block)).collect();
                assert!(by_key.into_iter().eq((first..=range.last()).filter(is_of)));
                let met = partitioner.met(range, &partitions);
                assert!(partitions.clone().all(|p| met.contains(&p) || partitioner.blocks(range, p).next().is_none()));
            }
        }
    }
}

#[test]
fn a_mask_has_a_bit_for_each_entry_that_is_there() {
    use Accumulator::{Count, MaxI64, SumI64};
    for shape in
        [shape(&[Count], Counters::One(0)), shape(&[MaxI64], Counters::None), shape(&[SumI64, Count], Counters::One(1))]
    {
        let region = Region::fresh(&shape, KeyRange { first: 0, len: 64 });
        assert_eq!(region.mask(KeyBlock { first: 0, len: 64 }), 0);
        for key in [0, 3, 8, 31, 32, 62, 63] {
            // SAFETY: an entry of the region.
            unsafe { write(region.entry(key), shape.array.mark, 1u64 << 40) };
        }
        let expected = 1 | 1 << 3 | 1 << 8 | 1 << 31 | 1 << 32 | 1 << 62 | 1 << 63;
        assert_eq!(region.mask(KeyBlock { first: 0, len: 64 }), expected);
        assert_eq!(region.mask(KeyBlock { first: 0, len: 32 }), expected & 0xffff_ffff);
        assert_eq!(region.keys().collect::<Vec<_>>(), [0, 3, 8, 31, 32, 62, 63]);
    }
}

#[test]
fn a_grid_has_what_its_regions_have_and_grows_and_shrinks() {
    for (bits, ranges) in [(4, [0..16, 3..4, 5..12]), (12, [0..4096, 1024..2048, 64..65]), (1, [0..2, 0..1, 1..2])] {
        check_grids(bits, ranges);
    }
}

fn check_grids(bits: u32, ranges: [Range<usize>; 3]) {
    let shape = shape_in(bits, &[Accumulator::MaxI64], Counters::None);
    let partition_of_key = |key| shape.partitioner().of_key(key);
    let all = shape.layout.partitions();
    let low = maxima(&shape, KeyRange { first: -2000, len: 3000 }, |key| key % 3 == 0);
    let high = maxima(&shape, KeyRange { first: 700, len: 9000 }, |key| key % 7 == 0 && key < 5000);
    for partitions in ranges {
        let is_of = |key: &i64| partitions.contains(&partition_of_key(*key));
        let mut grid = Grid::fresh(&shape, partitions.clone(), high.range());
        grid.take_over(&high);
        grid.cover(low.range());
        grid.merge(&low);
        let keys = |grid: &Grid| -> Vec<i64> { grid.there().map(|(_, key)| key).collect() };
        let mut expected: Vec<i64> = low.keys().chain(high.keys()).filter(is_of).collect();
        expected.sort_by_key(|&key| (partition_of_key(key), key));
        expected.dedup();
        assert_eq!(keys(&grid), expected);
        for (entry, key) in grid.there() {
            // SAFETY: an entry of the grid.
            assert_eq!(unsafe { read::<i64>(entry, shape.layout.accumulators[0].1) }, key);
            assert_eq!(grid.entry_of(key).map(<*mut u8>::cast_const), Some(entry));
        }
        let mut wider = Grid::fresh(&shape, partitions.clone(), KeyRange { first: -30_000, len: 60_000 });
        wider.merge_grid(&grid);
        assert_eq!(keys(&wider), expected);
        let bytes = wider.bytes();
        wider.trim();
        assert_eq!(keys(&wider), expected);
        assert!(wider.bytes() <= bytes && wider.range().contains(grid.range()) == (wider.range() == grid.range()));
    }
    let mut empty = Grid::fresh(&shape, all, high.range());
    empty.trim();
    // Of many partitions the groups are those of sixteen.
    assert_eq!((empty.range().len, empty.there().count()), (64 << bits.min(4), 0));
}

#[test]
fn ranges_that_are_far_from_the_others_stay_out() {
    let range = |first, len| KeyRange { first, len };
    assert_eq!(common_range(&[]), None);
    assert_eq!(common_range(&[range(5, 10)]), Some(range(5, 10)));
    let near = [range(100_000, 50_000), range(0, 90_000)];
    assert_eq!(common_range(&near), Some(range(0, 150_000)));
    let far = [range(1 << 50, 10), range(0, 90_000), range(90_000, 10)];
    assert_eq!(common_range(&far), Some(range(0, 90_010)));
    assert_eq!(common_range(&[range(i64::MIN, 10), range(i64::MAX - 9, 10)]), Some(range(i64::MIN, 10)));
}

#[test]
fn what_owners_get_of_a_range_is_an_array_while_entries_would_take_as_much() {
    // 8 bytes in an array, 24 as an entry: of so many nodes each owns as many keys of a range.
    let (counts, keys) = (shape(&[Accumulator::Count], Counters::One(0)), 1 << 20);
    let range = KeyRange { first: 0, len: keys };
    assert_eq!((counts.array.stride, counts.layout.stride), (8, 24));
    for (nodes, is_array) in [(1, true), (2, true), (4, true), (11, true), (13, false), (1000, false)] {
        assert_eq!(counts.is_worth(range, keys / nodes), is_array, "{nodes} nodes");
    }
    assert!(!counts.is_worth(KeyRange { first: 0, len: u64::MAX }, 1000));
}
