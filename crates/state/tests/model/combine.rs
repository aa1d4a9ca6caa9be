//! Overlapping windows, combined in all ways, against the rows that are in them.

use crate::input::{self, Cell, Row};
use arrow_array::ArrayRef;
use millstream_abi::{Accumulator, Combination, EntryLayout, ShorterWindows};
use millstream_state::{Combiner, Merged, Partial, WindowContents};
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
fn partials(rows: &[&Placed], layout: &Arc<EntryLayout>) -> Vec<Arc<Partial>> {
    let of_worker = |w: usize| rows.iter().filter(move |p| p.worker == w).map(|p| &p.row);
    let some = (0..3).filter(|&w| of_worker(w).next().is_some());
    some.map(|w| Arc::new(input::table_of(of_worker(w), layout).seal())).collect()
}

fn columns(merged: &Merged, components: &[Accumulator], end: i64) -> Vec<ArrayRef> {
    merged.columns(0..merged.len(), &input::types(components), &[end])
}

/// How combiners are changed: by numbers, for one after the other.
type Changes = Vec<u8>;

/// What is shown where a component counts only a shorter window in which its key is not: a fresh accumulator.
fn blanked(mut row: Vec<Cell>, components: &[Accumulator], shorter: &ShorterWindows, keys: &[Vec<Cell>]) -> Vec<Cell> {
    if !keys.iter().any(|key| *key == row[..KEYS]) {
        for (cell, output) in row[KEYS..].iter_mut().zip(input::outputs(components)) {
            if shorter.components[output.component] {
                *cell = Cell::Null;
            }
        }
    }
    row
}

/// Columns of the key.
const KEYS: usize = 2;

/// The groups of a window, in which some components count only the rows of a shorter one.
fn model<'a>(
    rows: impl Iterator<Item = &'a Placed>,
    components: &[Accumulator],
    shorter: Option<(&ShorterWindows, i64)>,
) -> (Vec<Vec<Cell>>, Vec<Vec<Cell>>) {
    let rows: Vec<&Placed> = rows.collect();
    let whole = input::model(rows.iter().map(|p| &p.row), components);
    let Some((shorter, start)) = shorter else { return (whole, Vec::new()) };
    let last = input::model(rows.iter().filter(|p| p.slice >= start).map(|p| &p.row), components);
    let keys: Vec<Vec<Cell>> = last.iter().map(|row| row[..KEYS].to_vec()).collect();
    let mut of_two: Vec<Vec<Cell>> = whole
        .into_iter()
        .map(|mut row| {
            let of_last = last.iter().find(|other| other[..KEYS] == row[..KEYS]);
            for (i, output) in input::outputs(components).iter().enumerate() {
                if let Some(of_last) = of_last.filter(|_| shorter.components[output.component]) {
                    row[KEYS + i] = of_last[KEYS + i].clone();
                }
            }
            blanked(row, components, shorter, &keys)
        })
        .collect();
    of_two.sort();
    (of_two, keys)
}

/// Runs all windows in each way, and with changes between ways, and compares them.
fn check(
    rows: &[Placed],
    windows: Windows,
    ahead: i64,
    ways: &[Combination],
    (components, shorter): (&[Accumulator], Option<&ShorterWindows>),
    (changes, bits): (&Changes, u32),
) {
    let layout = input::layout(bits, components);
    let partitions = layout.partitions().len();
    let halves = [0..partitions / 2, partitions / 2..partitions];
    let mut changes = changes.iter().cycle();
    // The last pair changes.
    let mut combiners: Vec<Combiner> = ways
        .iter()
        .chain(&ways[..1])
        .flat_map(|&way| halves.clone().map(|half| Combiner::of_two(Arc::clone(&layout), shorter.cloned(), way, half)))
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
            let partials = partials(&on_time, &layout);
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
                    let partials = partials(&late, &layout);
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
        let of_shorter = shorter.map(|shorter| (shorter, shorter.start_of_window(end)));
        let (expected, keys) = model(rows.iter().filter(in_window), components, of_shorter);
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
            if let Some(shorter) = shorter {
                found = found.into_iter().map(|row| blanked(row, components, shorter, &keys)).collect();
            }
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
        bits in input::partition_bits(),
    ) {
        let ways = [Combination::Recompute, Combination::Subtract, Combination::TwoStacks];
        check(&rows, windows, ahead, &ways, (&input::invertible(), None), (&changes, bits));
    }

    #[test]
    fn all_accumulators_are_the_same_in_two_stacks(
        rows in placed(),
        windows in windows(),
        ahead in 0i64..3,
        changes in changes(),
        bits in input::partition_bits(),
    ) {
        let ways = [Combination::Recompute, Combination::TwoStacks];
        check(&rows, windows, ahead, &ways, (&input::all(), None), (&changes, bits));
    }

    #[test]
    fn components_of_shorter_windows_are_the_same_in_all_ways(
        rows in placed(),
        windows in windows(),
        size_ms in 1i64..6,
        is_even in any::<bool>(),
        ahead in 0i64..3,
        changes in changes(),
        bits in input::partition_bits(),
    ) {
        let (all, invertible) = (input::all(), input::invertible());
        let shorter = |components| ShorterWindows { size_ms, components };
        let every_second = |n: usize| (0..n).map(|i| i.is_multiple_of(2) == is_even).collect();
        let of_all = shorter(every_second(all.len()));
        check(&rows, windows, ahead, &[Combination::Recompute, Combination::TwoStacks], (&all, Some(&of_all)), (&changes, bits));
        let ways = [Combination::Recompute, Combination::Subtract, Combination::TwoStacks];
        let of_invertible = shorter(every_second(invertible.len()));
        check(&rows, windows, ahead, &ways, (&invertible, Some(&of_invertible)), (&changes, bits));
        // What is not invertible can be subtracted if it counts only shorter windows.
        let of_others = shorter(all.iter().map(|component| !component.is_invertible()).collect());
        check(&rows, windows, ahead, &ways, (&all, Some(&of_others)), (&changes, bits));
    }
}
