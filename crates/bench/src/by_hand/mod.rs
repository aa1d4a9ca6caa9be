//! Hand-written Rust: what an engine is compared with.
//!
//! A workload gives a [`Layout`]: its rows as columns or as packed records, and the loop over a chunk of them that selects
//! rows and hands key and input of each to a [`Target`]. The three targets are the strategies of Zeuch et al., section
//! 4.2: tables of each thread that are merged at the end ([`local`]), tables of atomics for all threads ([`global`]), and
//! rows that are exchanged by key first ([`partitioned`]). The loop is compiled for each of them, so nothing is called
//! per row.
//!
//! Threads take chunks in the order of the stream, as engines do, so that they work on the same windows. Keys are small
//! numbers, so tables are arrays. What these loops leave out, and an engine cannot: rows that are late, keys that are
//! not small numbers, memory that is given back, anything that is not known beforehand.

mod blocks;
mod cells;
mod exchange;
mod hashed;
mod native;
mod packed;
mod windows;

pub(crate) use blocks::{BLOCK, one_window, select, select_by_two};
pub(crate) use cells::{Cell, Count, CountSum, Invertible, Moments, RealSum, SharedCell, Values};
use exchange::partitioned;
pub(crate) use hashed::hashed;
pub(crate) use packed::{Records, read_f64, read_i32, read_i64, write_i64};
pub(crate) use windows::{Slices, output, output_slices};

use crate::suite::{Checksum, System};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Rows of a workload, and its loop over them.
pub(crate) trait Layout: Sync {
    /// What is kept of each key.
    type Cell: Cell;

    /// Pieces that a thread takes at a time.
    fn chunks(&self) -> usize;

    /// Keys are below this.
    fn keys(&self) -> usize;

    /// Numbers of the windows (or slices) that rows lie in.
    fn windows(&self) -> Range<i64>;

    /// Hands the rows of a chunk that the query selects to the target.
    fn scan<T: Target<Self::Cell>>(&self, chunk: usize, target: &mut T);
}

/// Where selected rows go.
pub(crate) trait Target<C: Cell> {
    /// The rows that follow lie in this window.
    fn window(&mut self, number: i64);

    /// A row.
    fn add(&mut self, key: usize, input: C::Input);
}

/// The loop over a layout with each way to share the work; `finish` makes rows of the slices and adds them up.
pub(crate) fn systems<'a, L: Layout<Cell: SharedCell> + Copy + 'a>(
    name: &str,
    layout: L,
    threads: usize,
    finish: impl Fn(&Slices<L::Cell>) -> Checksum + Copy + 'a,
) -> [System<'a>; 3] {
    let system = |way: &str, run: fn(&L, usize) -> Slices<L::Cell>| {
        System::new(format!("{name}{way}"), threads, move || Ok(finish(&run(&layout, threads))))
    };
    [system("", local), system("/global", global), system("/partition", partitioned)]
}

/// Every thread has a table for each window; they are merged when all rows are read.
pub(crate) fn local<L: Layout>(layout: &L, threads: usize) -> Slices<L::Cell> {
    let next = AtomicUsize::new(0);
    let parts = in_threads(threads, |_| {
        let mut own = Own { keys: layout.keys(), window: None, table: Vec::new(), done: Vec::new() };
        take_chunks(layout, &next, &mut own, |_| {});
        own.finish()
    });
    windows::merge(parts, threads)
}

/// All threads add to the same tables.
fn global<L: Layout>(layout: &L, threads: usize) -> Slices<L::Cell>
where
    L::Cell: SharedCell,
{
    let (next, windows) = (AtomicUsize::new(0), layout.windows());
    let tables: Vec<OnceLock<Vec<<L::Cell as SharedCell>::Atomic>>> =
        windows.clone().map(|_| OnceLock::new()).collect();
    let empty = || (0..layout.keys()).map(|_| Default::default()).collect();
    in_threads(threads, |_| {
        let mut shared = Shared { first: windows.start, tables: &tables, table: &[], empty: &empty };
        take_chunks(layout, &next, &mut shared, |_| {});
    });
    let cells = |table: OnceLock<Vec<<L::Cell as SharedCell>::Atomic>>| -> Option<Vec<L::Cell>> {
        Some(table.into_inner()?.iter().map(L::Cell::load).collect())
    };
    windows.zip(tables).filter_map(|(window, table)| Some((window, cells(table)?))).collect()
}

/// Runs `work` in `threads` threads, each with its number.
pub(crate) fn in_threads<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        handles.into_iter().map(|h| h.join().expect("a loop does not panic")).collect()
    })
}

/// Takes chunks until none is left; `between` runs after each.
fn take_chunks<L: Layout, T: Target<L::Cell>>(
    layout: &L,
    next: &AtomicUsize,
    target: &mut T,
    mut between: impl FnMut(&mut T),
) {
    loop {
        let chunk = next.fetch_add(1, Relaxed);
        if chunk >= layout.chunks() {
            return;
        }
        native::scan(layout, chunk, target);
        between(target);
    }
}

/// The tables of a thread: that of the window at hand, and those of windows before it.
struct Own<C> {
    keys: usize,
    window: Option<i64>,
    table: Vec<C>,
    done: Vec<(i64, Vec<C>)>,
}

impl<C: Cell> Own<C> {
    fn finish(mut self) -> Slices<C> {
        self.close();
        let mut slices: Slices<C> = BTreeMap::new();
        for (window, table) in self.done {
            windows::add(&mut slices, window, table);
        }
        slices
    }

    fn close(&mut self) {
        if let Some(window) = self.window.take() {
            self.done.push((window, std::mem::take(&mut self.table)));
        }
    }
}

impl<C: Cell> Target<C> for Own<C> {
    #[inline(always)]
    fn window(&mut self, number: i64) {
        if self.window != Some(number) {
            self.close();
            self.window = Some(number);
            self.table = vec![C::default(); self.keys];
        }
    }

    #[inline(always)]
    fn add(&mut self, key: usize, input: C::Input) {
        self.table[key].add(input);
    }
}

/// Makes a table of atomics.
type Empty<'a, A> = &'a (dyn Fn() -> Vec<A> + Sync);

/// The tables of all threads, and that of the window at hand.
struct Shared<'a, A> {
    first: i64,
    tables: &'a [OnceLock<Vec<A>>],
    table: &'a [A],
    empty: Empty<'a, A>,
}

impl<'a, C: SharedCell> Target<C> for Shared<'a, C::Atomic> {
    #[inline(always)]
    fn window(&mut self, number: i64) {
        let tables: &'a [OnceLock<Vec<C::Atomic>>] = self.tables;
        self.table = tables[(number - self.first) as usize].get_or_init(self.empty);
    }

    #[inline(always)]
    fn add(&mut self, key: usize, input: C::Input) {
        C::add_shared(&self.table[key], input);
    }
}
