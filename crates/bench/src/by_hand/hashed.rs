//! Tables of a hand-written loop for keys of which nothing is known: open addressing with linear probing, at most half full. Each thread
//! has one for each window; those of a window are merged by one thread.

use super::{Cell, Layout, Target, in_threads, take_chunks};
use crate::suite::{Checksum, Kind, OutputRows};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Entries that a table begins with.
const FIRST: usize = 1 << 10;

/// A key, counted from 1, and its cell; 0: no key.
type HashedCell<C> = (u64, C);

/// Cells by key.
struct HashTable<C> {
    entries: Vec<HashedCell<C>>,
    used: usize,
}

impl<C: Cell> HashTable<C> {
    fn new(room: usize) -> HashTable<C> {
        HashTable { entries: vec![(0, C::default()); room.next_power_of_two()], used: 0 }
    }

    /// The cell of a key, a new one perhaps.
    #[inline(always)]
    fn cell(&mut self, tag: u64) -> &mut C {
        loop {
            let (mask, bits) = (self.entries.len() - 1, self.entries.len().ilog2());
            let mut place = (tag.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - bits)) as usize;
            while self.entries[place].0 != tag && self.entries[place].0 != 0 {
                place = (place + 1) & mask;
            }
            if self.entries[place].0 == tag {
                return &mut self.entries[place].1;
            }
            if 2 * (self.used + 1) <= self.entries.len() {
                self.used += 1;
                self.entries[place].0 = tag;
                return &mut self.entries[place].1;
            }
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = HashTable::new(2 * self.entries.len());
        let smaller = std::mem::replace(self, larger);
        smaller.rows().for_each(|(tag, cell)| *self.cell(*tag) = cell.clone());
    }

    fn rows(&self) -> impl Iterator<Item = &HashedCell<C>> {
        self.entries.iter().filter(|entry| entry.0 != 0)
    }
}

/// The tables of a thread.
struct OwnHashed<C> {
    window: Option<i64>,
    table: HashTable<C>,
    done: Vec<(i64, HashTable<C>)>,
}

impl<C: Cell> OwnHashed<C> {
    fn close(&mut self) {
        if let Some(window) = self.window.take() {
            // The next window has about as many keys.
            let next = HashTable::new(self.table.entries.len());
            self.done.push((window, std::mem::replace(&mut self.table, next)));
        }
    }
}

impl<C: Cell> Target<C> for OwnHashed<C> {
    #[inline(always)]
    fn window(&mut self, number: i64) {
        if self.window != Some(number) {
            self.close();
            self.window = Some(number);
        }
    }

    #[inline(always)]
    fn add(&mut self, key: usize, input: C::Input) {
        self.table.cell(key as u64 + 1).add(input);
    }
}

/// The loop over a layout with such tables; `row` writes the row of a key in a window.
pub(crate) fn hashed<L: Layout, const N: usize>(
    layout: &L,
    threads: usize,
    kinds: [Kind; N],
    row: impl Fn(&mut OutputRows<N>, i64, usize, &L::Cell) + Sync,
) -> Checksum {
    let next = AtomicUsize::new(0);
    let parts = in_threads(threads, |_| {
        let mut own = OwnHashed { window: None, table: HashTable::new(FIRST), done: Vec::new() };
        take_chunks(layout, &next, &mut own, |_| {});
        own.close();
        own.done
    });
    let mut windows: BTreeMap<i64, Vec<HashTable<L::Cell>>> = BTreeMap::new();
    parts.into_iter().flatten().for_each(|(window, table)| windows.entry(window).or_default().push(table));
    let windows: Vec<_> = windows.into_iter().map(|(window, tables)| (window, Mutex::new(tables))).collect();
    let next = AtomicUsize::new(0);
    let sums = in_threads(threads, |_| {
        let mut rows = OutputRows::new(kinds);
        while let Some((window, tables)) = windows.get(next.fetch_add(1, Relaxed)) {
            let mut tables = std::mem::take(&mut *tables.lock().expect("no thread panics"));
            let Some(mut merged) = tables.pop() else { continue };
            for other in &tables {
                other.rows().for_each(|(tag, cell)| merged.cell(*tag).merge(cell));
            }
            merged.rows().for_each(|(tag, cell)| row(&mut rows, *window, *tag as usize - 1, cell));
        }
        rows.finish()
    });
    sums.into_iter().fold(Checksum::default(), Checksum::and)
}
