//! Overlapping windows, combined in all ways, against the rows that are in them.

use crate::input::{self, Row};
use arrow_array::ArrayRef;
use millstream_abi::{Accumulator, Combination};
use millstream_state::{Combiner, Merged, PARTITIONS, Partial, WindowContents};
use proptest::prelude::*;
use std::sync::Arc;

/// A row in a slice; a late one counts only for windows from an end on.
#[derive(Debug, Clone)]
struct Placed {
    row: Row,
    slice: i64,
    worker: usize,
    /// How many slices after its own the first window ends that the row counts for.
    late_by: Option<i64>,
}

/// Windows in slices of length 1: `[end - size, end)` every `slide`, or growing ones that start again every `size`.
#[derive(Debug, Clone, Copy)]
struct Windows {
    size: i64,
    slide: i64,
    grow: bool,
}

impl Windows {
    fn all(self, slices: i64) -> Vec<(i64, i64)> {
        let ends = (1..=slices + self.size).filter(|end| end % self.slide == 0);
        ends.map(|end| {
            let start = if self.grow { (end - 1).div_euclid(self.size) * self.size } else { end - self.size };
            (start, end)
        })
        .collect()
    }
}

const SLICES: i64 = 24;

fn placed() -> impl Strategy<Value = Vec<Placed>> {
    let late = prop_oneof![3 => Just(None), 1 => (1i64..6).prop_map(Some)];
    let one = (input::row(), 0..SLICES, 0..3usize, late);
    proptest::collection::vec(one, 0..250).prop_map(|rows| {
        let rows = rows.into_iter().enumerate();
        rows.map(|(i, (row, slice, worker, late_by))| {
            let row = Row { place: (i * 7919 % 1009) as u64, ..row };
            Placed { row, slice, worker, late_by }
        })
        .collect()
    })
}

/// No change more often than not.
fn changes() -> impl Strategy<Value = Changes> {
    proptest::collection::vec(0u8..8, 1..60)
}

fn windows() -> impl Strategy<Value = Windows> {
    (1i64..14, 1i64..5, any::<bool>()).prop_map(|(size, slide, grow)| Windows { size, slide, grow })
}

/// The partials of the workers' rows.
fn partials(rows: &[&Placed], components: &[Accumulator]) -> Vec<Arc<Partial>> {
    let of_worker = |w: usize| rows.iter().filter(move |p| p.worker == w).map(|p| &p.row);
    let some = (0..3).filter(|&w| of_worker(w).next().is_some());
    some.map(|w| Arc::new(input::table_of(of_worker(w), components).seal())).collect()
}

fn columns(merged: &Merged, components: &[Accumulator], end: i64) -> Vec<ArrayRef> {
    merged.columns(0..merged.len(), &input::types(components), &[end])
}

/// How combiners are changed: by numbers, for one after the other.
type Changes = Vec<u8>;

/// Runs all windows in each way, and with changes between ways, and compares them.
fn check(
    rows: &[Placed],
    windows: Windows,
    ahead: i64,
    ways: &[Combination],
    components: &[Accumulator],
    changes: &Changes,
) {
    let layout = input::layout(components);
    let halves = [0..PARTITIONS / 2, PARTITIONS / 2..PARTITIONS];
    let mut changes = changes.iter().cycle();
    // The last pair changes.
    let mut combiners: Vec<Combiner> = ways
        .iter()
        .chain(&ways[..1])
        .flat_map(|&way| halves.clone().map(|half| Combiner::new(Arc::clone(&layout), way, half)))
        .collect();
    let changing = 2 * ways.len();
    let mut change = |combiner: &mut Combiner| {
        let way = changes.next().and_then(|&change| ways.get(usize::from(change)));
        way.iter().for_each(|&&way| combiner.set_combination(way));
    };
    let mut next_slice = 0;
    let mut last_end = 0;
    for (start, end) in windows.all(SLICES) {
        while next_slice < (end + ahead).min(SLICES) {
            let on_time: Vec<&Placed> = rows.iter().filter(|p| p.slice == next_slice && p.late_by.is_none()).collect();
            let partials = partials(&on_time, components);
            combiners.iter_mut().for_each(|c| c.add_slice(next_slice, &partials));
            next_slice += 1;
        }
        combiners[changing..].iter_mut().for_each(&mut change);
        for slice in start.max(0)..end.min(SLICES) {
            for late_by in 1..6 {
                let from_end = slice + late_by;
                if last_end < from_end && from_end <= end {
                    let late: Vec<&Placed> =
                        rows.iter().filter(|p| p.slice == slice && p.late_by == Some(late_by)).collect();
                    let partials = partials(&late, components);
                    combiners.iter_mut().for_each(|c| c.add_late(slice, from_end, &partials));
                }
            }
        }
        combiners[changing..].iter_mut().for_each(&mut change);
        last_end = end;
        let in_window = |p: &&Placed| {
            let counts = p.late_by.is_none_or(|by| p.slice + by <= end);
            (start..end).contains(&p.slice) && counts
        };
        // Late rows whose slice is behind a gap between windows have not been added above, nor do they count.
        let expected = input::model(rows.iter().filter(in_window).map(|p| &p.row), components);
        let mut first: Option<Vec<Vec<ArrayRef>>> = None;
        for pair in combiners.chunks_mut(2) {
            let way = pair[0].combination();
            let mut of_way = Vec::new();
            for combiner in pair.iter_mut() {
                of_way.push(columns(combiner.window(start, end), components, end));
                let contents = combiner.contents();
                assert_eq!(contents.keys, of_way[of_way.len() - 1][0].len());
                assert!(contents.slices <= contents.entries && (contents.slices as i64) <= end - start, "{contents:?}");
            }
            let mut found: Vec<_> = of_way.iter().flat_map(|c| input::rows_of(&c[..c.len() - 1])).collect();
            found.sort();
            assert_eq!(found, expected, "{way:?} of [{start}, {end})");
            match &first {
                Some(first) => assert_eq!(&of_way, first, "{way:?} and {:?} of [{start}, {end})", ways[0]),
                None => first = Some(of_way),
            }
        }
    }
    for combiner in &mut combiners {
        assert!(combiner.window(i64::MAX, i64::MAX).is_empty());
        assert_eq!(combiner.slices(), 0, "nothing is kept of slices that are over");
        assert_eq!(combiner.contents(), WindowContents::default());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn invertible_windows_are_the_same_in_all_ways(
        rows in placed(),
        windows in windows(),
        ahead in 0i64..3,
        changes in changes(),
    ) {
        let ways = [Combination::Recompute, Combination::Subtract, Combination::TwoStacks];
        check(&rows, windows, ahead, &ways, &input::invertible(), &changes);
    }

    #[test]
    fn all_accumulators_are_the_same_in_two_stacks(
        rows in placed(),
        windows in windows(),
        ahead in 0i64..3,
        changes in changes(),
    ) {
        let ways = [Combination::Recompute, Combination::TwoStacks];
        check(&rows, windows, ahead, &ways, &input::all(), &changes);
    }
}
