//! Shared tables under several threads, against a model.

use super::*;
use crate::merge;
use millstream_abi::{Accumulator, HASH_SEED, Phys, Str, hash_finish, hash_str, hash_word};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;

const WORKERS: usize = 4;
const ROWS: u64 = if cfg!(miri) { 150 } else { 40_000 };
const ROUNDS: u64 = if cfg!(miri) { 2 } else { 20 };

/// Keys: a nullable number and, if the layout has two, its text.
type Number = Option<i64>;

fn layout(with_text: bool) -> Arc<EntryLayout> {
    let keys = [(Phys::I64, true), (Phys::Str, false)];
    Arc::new(EntryLayout::new(&keys[..1 + with_text as usize], &[Accumulator::Count, Accumulator::MaxI64]))
}

fn text(number: Number) -> String {
    format!("text of the number {number:?}")
}

/// Adds a row to a table, as generated code does.
fn add(table: &SharedTable, worker: usize, header: *mut TableHeader, number: Number, value: i64) {
    let layout = table.layout();
    let text = text(number);
    let string = Str::new(text.as_bytes());
    let slots = [Slot::of(number.unwrap_or(0).to_le_bytes()), Slot::of(string.bits().to_le_bytes())];
    let (slots, null_mask) = (&slots[..layout.keys.len()], number.is_none() as u64);
    let mut hash = hash_word(HASH_SEED, number.map_or(HASH_SEED, |n| n as u64));
    if slots.len() == 2 {
        // SAFETY: the string is alive.
        hash = unsafe { hash_str(hash, string) };
    }
    let hash = hash_finish(hash);
    // SAFETY: each thread has its own number, and the header is its; strings are alive; entries have the two accumulators.
    unsafe {
        let found = look_up(layout, *header, hash, number, slots);
        let entry = found.unwrap_or_else(|| table.insert(worker, hash, null_mask, slots));
        AtomicI64::from_ptr(entry.add(layout.accumulators[0].1).cast()).fetch_add(1, Ordering::Relaxed);
        AtomicI64::from_ptr(entry.add(layout.accumulators[1].1).cast()).fetch_max(value, Ordering::Relaxed);
    }
}

/// # Safety
/// The header is that of a level of the layout, and the slots are those of the number.
unsafe fn look_up(
    layout: &EntryLayout,
    header: TableHeader,
    hash: u64,
    number: Number,
    slots: &[Slot],
) -> Option<*mut u8> {
    // SAFETY: promised by the caller.
    unsafe {
        let dense = number.filter(|_| layout.dense_key().is_some());
        if let Some(entry) = dense.and_then(|number| header.dense_entry(number, layout.stride)) {
            return (word_of(entry).load(Ordering::Acquire) > HASH_BUSY).then_some(entry);
        }
        let mut place = hash & header.mask;
        loop {
            let entry = header.entries.add(place as usize * layout.stride);
            match word_of(entry).load(Ordering::Acquire) {
                HASH_EMPTY => return None,
                found if found == hash && entry::has_keys(layout, entry, number.is_none() as u64, slots) => {
                    return Some(entry);
                }
                _ => place = (place + 1) & header.mask,
            }
        }
    }
}

/// Row number `row` of a worker: most keys are close together, some are anywhere, and some are asked for by all at once.
fn row(seed: u64, worker: usize, row: u64) -> (Number, i64) {
    let random = hash_finish(hash_word(seed, row << 8 | worker as u64));
    let width = 20 << (seed % 8);
    let number = match random % 16 {
        0 => None,
        1 => Some(row as i64 * 1_000_003),
        2..8 => Some((row % width) as i64 - 10),
        _ => Some((random >> 8) as i64 % width as i64),
    };
    (number, (random >> 32) as i64)
}

type Totals = BTreeMap<Number, (i64, i64)>;

/// Adds the rows of all workers at once.
fn fill(table: &SharedTable, seed: u64) -> Totals {
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let mut header = std::ptr::null_mut();
                for n in 0..ROWS {
                    if n % 100 == 0 {
                        // SAFETY: each thread has its own number.
                        header = unsafe { table.header_of(worker) };
                    }
                    let (number, value) = row(seed, worker, n);
                    add(table, worker, header, number, value);
                }
            });
        }
    });
    let mut totals = Totals::new();
    for (number, value) in (0..WORKERS).flat_map(|worker| (0..ROWS).map(move |n| row(seed, worker, n))) {
        let (count, largest) = totals.entry(number).or_insert((0, i64::MIN));
        (*count, *largest) = (*count + 1, value.max(*largest));
    }
    totals
}

/// What merging partials gives, and that each key is there once, with its text.
fn merged(layout: &EntryLayout, partials: &[Arc<Partial>]) -> Totals {
    let merged = merge(partials, partials[0].partitions());
    let totals: Totals = merged
        .entries()
        .iter()
        .map(|&row| {
            // SAFETY: an entry of the layout.
            unsafe {
                let is_null = entry::null_mask(layout, row) != 0;
                let number = (!is_null).then(|| entry::read(row, layout.keys[0].offset));
                if let Some(key) = layout.keys.get(1) {
                    assert_eq!(entry::read::<Str>(row, key.offset).as_bytes(), text(number).as_bytes());
                }
                let [count, largest] = [0, 1].map(|i| entry::read(row, layout.accumulators[i].1));
                (number, (count, largest))
            }
        })
        .collect();
    assert_eq!(totals.len(), merged.len(), "each key is there once");
    totals
}

#[test]
fn workers_at_once_give_what_one_would() {
    for with_text in [false, true] {
        let layout = layout(with_text);
        let mut table = SharedTable::new(Arc::clone(&layout), WORKERS, true, TableHint::default());
        for seed in 0..ROUNDS {
            let expected = fill(&table, seed);
            assert!(table.len() >= expected.len());
            let partial = table.drain();
            assert!(partial.len() >= expected.len() && !partial.is_distinct() && table.is_empty());
            assert_eq!(merged(&layout, &[Arc::new(partial)]), expected, "seed {seed}");
        }
    }
}

#[test]
fn partials_of_shared_and_of_own_tables_merge() {
    let layout = layout(false);
    let mut shared = SharedTable::new(Arc::clone(&layout), WORKERS, false, TableHint::default());
    let mut expected = fill(&shared, 3);
    let mut own = crate::Table::new(Arc::clone(&layout));
    let hash = hash_finish(hash_word(HASH_SEED, 5));
    // SAFETY: the table is empty.
    unsafe {
        let inserted = own.insert(hash, 0, &[Slot::of(5i64.to_le_bytes())]);
        entry::write(inserted, layout.accumulators[0].1, 1000i64);
    }
    expected.get_mut(&Some(5)).expect("all workers have it").0 += 1000;
    assert_eq!(merged(&layout, &[Arc::new(own.seal()), Arc::new(shared.drain())]), expected);
}

#[test]
fn memory_is_used_again_and_given_back() {
    const KEYS: i64 = if cfg!(miri) { 500 } else { 5000 };
    let layout = layout(false);
    let mut table = SharedTable::new(Arc::clone(&layout), 1, true, TableHint::default());
    // SAFETY: the only worker.
    let header = |table: &SharedTable| unsafe { table.header_of(0) };
    let fill = |table: &SharedTable| (0..KEYS).for_each(|n| add(table, 0, header(table), Some(n), n));
    fill(&table);
    let hint = table.hint();
    assert!(hint.range.is_some_and(|range| range.first <= 0 && range.index(KEYS / 2).is_some()), "{hint:?}");
    table.drain();
    // SAFETY: a header of the table.
    let before = unsafe { *header(&table) };
    (0..KEYS / 2).for_each(|n| add(&table, 0, header(&table), Some(n), n));
    // SAFETY: as above.
    let after = unsafe { *header(&table) };
    assert_eq!((before.entries, before.dense), (after.entries, after.dense), "without allocation");
    assert_eq!(table.len(), KEYS as usize / 2);
    table.drain();
    add(&table, 0, header(&table), Some(1), 1);
    let bytes = table.bytes();
    table.drain();
    assert!(table.bytes() * 10 < bytes, "what one key needs: {} of {bytes} bytes", table.bytes());

    let hinted = SharedTable::new(layout, 1, true, hint);
    fill(&hinted);
    assert_eq!(hinted.map.levels().count(), 1, "the hint was large enough");
}

#[test]
fn ascending_keys_make_few_levels() {
    const KEYS: i64 = if cfg!(miri) { 500 } else { 100_000 };
    let mut table = SharedTable::new(layout(false), 2, true, TableHint::default());
    for n in 0..KEYS {
        // SAFETY: the only thread.
        let header = unsafe { table.header_of(n as usize % 2) };
        add(&table, n as usize % 2, header, Some(n - KEYS / 2), n);
    }
    let levels = table.map.levels().count();
    assert!(levels < 40, "{levels} levels");
    assert_eq!(table.drain().len(), KEYS as usize);
}
