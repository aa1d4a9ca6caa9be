//! From slices to windows: merging what threads have, and output.

use super::{Cell, Invertible, in_threads};
use crate::suite::{Checksum, Kind, OutputRows};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Tables by the number of their slice (or window); a key is the place in a table.
pub(crate) type Slices<C> = BTreeMap<i64, Vec<C>>;

/// Adds a table.
pub(super) fn add<C: Cell>(slices: &mut Slices<C>, window: i64, table: Vec<C>) {
    match slices.entry(window) {
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(table);
        }
        std::collections::btree_map::Entry::Occupied(mut entry) => merge_table(entry.get_mut(), &table),
    }
}

fn merge_table<C: Cell>(into: &mut [C], from: &[C]) {
    into.iter_mut().zip(from).filter(|(_, from)| from.has_rows()).for_each(|(into, from)| into.merge(from));
}

/// Merges the tables of all threads; each slice is the work of one.
pub(super) fn merge<C: Cell>(parts: Vec<Slices<C>>, threads: usize) -> Slices<C> {
    let mut by_slice: BTreeMap<i64, Vec<Vec<C>>> = BTreeMap::new();
    for (window, table) in parts.into_iter().flatten() {
        by_slice.entry(window).or_default().push(table);
    }
    let slices: Vec<(i64, Mutex<Vec<Vec<C>>>)> = by_slice.into_iter().map(|(w, t)| (w, Mutex::new(t))).collect();
    let next = AtomicUsize::new(0);
    in_threads(threads, |_| {
        while let Some((_, tables)) = slices.get(next.fetch_add(1, Relaxed)) {
            let mut tables = tables.lock().expect("no thread panics");
            let others = tables.split_off(1);
            others.iter().for_each(|other| merge_table(&mut tables[0], other));
        }
    });
    let table = |tables: Mutex<Vec<Vec<C>>>| tables.into_inner().expect("no thread panics").swap_remove(0);
    slices.into_iter().map(|(window, tables)| (window, table(tables))).collect()
}

/// Writes the rows of windows of `slices_per_window` slices each, with columns of these kinds; `row` writes that of a key
/// in the window that starts with this slice. Each thread has a range of the keys.
pub(crate) fn output<C: Invertible, const N: usize>(
    slices: &Slices<C>,
    slices_per_window: i64,
    threads: usize,
    kinds: [Kind; N],
    row: impl Fn(&mut OutputRows<N>, i64, usize, &C) + Sync,
) -> Checksum {
    let keys = slices.values().next().map_or(0, Vec::len);
    let (Some(first), Some(last)) = (slices.keys().next(), slices.keys().next_back()) else {
        return Checksum::default();
    };
    let share = keys.div_ceil(threads).max(1);
    let parts = in_threads(threads, |thread| {
        let range = (thread * share).min(keys)..((thread + 1) * share).min(keys);
        let mut running = vec![C::default(); range.len()];
        let mut rows = OutputRows::new(kinds);
        let of = |slice: i64| slices.get(&slice).map(|table| &table[range.clone()]);
        for window in first - slices_per_window + 1..=*last {
            if let Some(entering) = of(window + slices_per_window - 1) {
                merge_table(&mut running, entering);
            }
            for (key, cell) in range.clone().zip(&running).filter(|(_, cell)| cell.has_rows()) {
                row(&mut rows, window, key, cell);
            }
            if let Some(leaving) = of(window) {
                running.iter_mut().zip(leaving).for_each(|(cell, leaving)| cell.remove(leaving));
            }
        }
        rows.finish()
    });
    parts.into_iter().fold(Checksum::default(), Checksum::and)
}

/// As [`output`], for windows of one slice, of which nothing is ever taken back.
pub(crate) fn output_slices<C: Cell, const N: usize>(
    slices: &Slices<C>,
    threads: usize,
    kinds: [Kind; N],
    row: impl Fn(&mut OutputRows<N>, i64, usize, &C) + Sync,
) -> Checksum {
    let all: Vec<(&i64, &Vec<C>)> = slices.iter().collect();
    let next = AtomicUsize::new(0);
    let parts = in_threads(threads, |_| {
        let mut rows = OutputRows::new(kinds);
        while let Some((window, table)) = all.get(next.fetch_add(1, Relaxed)) {
            for (key, cell) in table.iter().enumerate().filter(|(_, cell)| cell.has_rows()) {
                row(&mut rows, **window, key, cell);
            }
        }
        rows.finish()
    });
    parts.into_iter().fold(Checksum::default(), Checksum::and)
}
