//! Strategies over slices that fire and tables that are sealed.

use super::*;
use millstream_abi::{Accumulator, HASH_SEED, ObjectKind, Phys, Slot, hash_finish, hash_word};
use millstream_state::{Partial, Table};
use std::sync::Arc;

impl Strategy {
    /// A slice fires, with `private` entries in the tables of all workers and `shared` ones in shared tables.
    fn note_entries(&self, private: usize, shared: usize) -> Option<Decision> {
        let own = if private > 0 { self.situation.workers } else { 0 };
        self.note_fired(Fired { slices: 1.0, own, private, appended: 0, shared }, 64 << 30)
    }
}

#[test]
fn slices_are_judged_when_they_fire() {
    let config = RunConfig { workers: 8, merge: MergeStrategy::Auto, ..RunConfig::default() };
    let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count, Accumulator::SumI64]);
    let mut strategy = Strategy::new(&config, &layout, None, Arc::default());
    strategy.situation.caches = Caches { second: 1 << 20, last: 32 << 20 };
    let entries = (8.0 * different(3e6, 1e7 / 8.0)) as usize;
    strategy.note_task(10_000_000);
    assert_eq!(strategy.sharing(false), Sharing::Local);
    let switch = strategy.note_entries(entries, 0).expect("many keys");
    assert!(switch.observed.contains("10000000 rows") && switch.decided.contains("share"), "{switch:?}");
    assert_eq!(*strategy.facts.rows.lock(), Some(10_000_000.0));
    assert_eq!(strategy.sharing(false), Sharing::Global);
    strategy.note_task(10_000_000);
    assert_eq!(strategy.note_entries(10, 10), None);
    assert_eq!(strategy.sharing(false), Sharing::Global, "a slice of both kinds tells nothing");
    strategy.note_task(10_000_000);
    assert!(strategy.note_entries(0, 10).is_some());
    assert_eq!(strategy.sharing(false), Sharing::Local);
    *strategy.facts.heavy.lock() = 0.9;
    strategy.note_task(10_000_000);
    assert_eq!(strategy.note_entries(entries, 0), None);
    assert_eq!(strategy.sharing(false), Sharing::Local, "heavy keys stay private");
}

/// A table of `rows` rows, `each` of every key, that appends or does not; keys are so far `apart`.
fn sealed(layout: &Arc<EntryLayout>, (rows, each): (i64, i64), apart: u64, appends: bool) -> Partial {
    let mut table = Table::new(Arc::clone(layout));
    table.set_appending(appends);
    for row in (0..rows).step_by(if appends { 1 } else { each as usize }) {
        let key = (row / each) as u64 * apart;
        let hash = hash_finish(hash_word(HASH_SEED, key));
        // SAFETY: a key of the layout, which the table does not have unless it appends; the first accumulator is a count.
        unsafe {
            let entry = table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]);
            entry.add(layout.accumulators[0].1).cast::<i64>().write(if appends { 1 } else { each });
        }
    }
    table.drain()
}

#[test]
fn rows_of_keys_of_their_own_are_appended_until_keys_come_again() {
    for (workers, merge) in [(1, MergeStrategy::Local), (4, MergeStrategy::Auto), (4, MergeStrategy::Partition)] {
        let config = RunConfig { workers, merge, ..RunConfig::default() };
        let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
        let strategy = Strategy::new(&config, &layout, Some(0), Arc::default());
        let fire = |each, kind: Kind, memory| {
            let partial = sealed(&layout, (50_000, each), 65_537, kind == Kind::Appended);
            (0..workers).for_each(|_| strategy.note_sealed(kind, &partial));
            strategy.note_slices_sealed(1, memory)
        };
        let begins = || strategy.appending.begins();
        assert_eq!(fire(10, Kind::Own, 8 << 30), None, "ten rows of each key");
        assert_eq!(fire(1, Kind::Own, 1 << 20), None, "there is no memory for so many rows");
        assert!(!begins());
        let switch = fire(1, Kind::Own, 8 << 30).expect("a key for each row");
        assert!(switch.observed.contains("50000 rows of a table had 50000 keys"), "{switch:?}");
        assert!(switch.decided.contains("appended"), "{switch:?}");
        assert!(begins() && strategy.sharing(false) == Sharing::Local);
        assert_eq!(fire(1, Kind::Appended, 8 << 30), None);
        assert_eq!(fire(1, Kind::Own, 8 << 30), None, "made before");
        assert_eq!(strategy.note_slices_sealed(1, 8 << 30), None, "nothing has been sealed");
        assert!(begins());
        assert!(fire(10, Kind::Appended, 8 << 30).is_some_and(|switch| switch.decided.contains("before")));
        assert!(!begins());
        // Keys that follow each other have an array, whatever the rows.
        assert!(fire(1, Kind::Own, 8 << 30).is_some() && begins());
        let dense = sealed(&layout, (50_000, 1), 7, true);
        (0..workers).for_each(|_| strategy.note_sealed(Kind::Appended, &dense));
        assert!(strategy.note_slices_sealed(1, 8 << 30).is_some_and(|switch| switch.decided.contains("before")));
        (0..workers).for_each(|_| strategy.note_sealed(Kind::Own, &dense));
        assert!(strategy.note_slices_sealed(1, 8 << 30).is_none() && !begins());
    }
}

#[test]
fn a_heavy_key_is_seen_wherever_it_is() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
    let strategy = Strategy::new(&RunConfig { workers: 1, ..RunConfig::default() }, &layout, Some(0), Arc::default());
    for heavy in 0..32i64 {
        let mut table = Table::new(Arc::clone(&layout));
        for key in 0..20_000i64 {
            let hash = hash_finish(hash_word(HASH_SEED, key as u64));
            // SAFETY: the keys are distinct; the first accumulator is a count.
            unsafe {
                let entry = table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]);
                let rows = if key == heavy * 600 { 40_000 } else { 1 };
                entry.add(layout.accumulators[0].1).cast::<i64>().write(rows);
            }
        }
        strategy.note_sealed(Kind::Own, &table.drain());
        assert_eq!(strategy.note_slices_sealed(1, 8 << 30), None);
    }
}

#[test]
fn rows_that_nobody_counts_are_estimated() {
    let config = RunConfig { workers: 1, ..RunConfig::default() };
    let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxI64]);
    let strategy = Strategy::new(&config, &layout, None, Arc::default());
    let fire = |rows, private| {
        strategy.note_task(rows);
        strategy.note_fired(Fired { slices: 1.0, own: 1, private, ..Fired::default() }, 8 << 30)
    };
    assert_eq!(fire(20_000, 10_000), None, "half of the rows are of the next slice");
    let switches = (0..20).filter_map(|_| fire(10_000, 10_000)).count();
    assert_eq!(switches, 1);
}

#[test]
fn shared_tables_give_way_to_appended_rows() {
    let config = RunConfig { workers: 4, merge: MergeStrategy::Auto, ..RunConfig::default() };
    let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
    let strategy = Strategy::new(&config, &layout, None, Arc::default());
    strategy.is_global.store(true, Relaxed);
    strategy.note_task(1_000_000);
    assert!(strategy.note_entries(0, 1_000_000).is_some_and(|switch| switch.decided.contains("appended")));
    assert_eq!(strategy.sharing(false), Sharing::Local);
    let global = RunConfig { merge: MergeStrategy::Global, ..config };
    let strategy = Strategy::new(&global, &layout, None, Arc::default());
    strategy.note_task(1_000_000);
    assert_eq!(strategy.note_entries(0, 1_000_000), None, "what is set is done");
}

#[test]
fn only_what_is_possible_is_done() {
    let counts = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
    let strings = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxStr]);
    let first = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Object(ObjectKind::First, Phys::I64)]);
    let all = EntryLayout::new(&[], &[Accumulator::Count]);
    let of = |merge, layout| merge_strategy(&RunConfig { merge, workers: 2, ..RunConfig::default() }, layout);
    use MergeStrategy::{Auto, Global, Local, Partition};
    assert_eq!([Auto, Global, Partition, Local].map(|m| of(m, &counts)), [Auto, Global, Partition, Local]);
    assert_eq!([Auto, Global, Partition].map(|m| of(m, &strings)), [Local, Local, Partition]);
    assert_eq!([Auto, Global, Partition].map(|m| of(m, &first)), [Local; 3]);
    assert_eq!([Auto, Global, Partition].map(|m| of(m, &all)), [Local; 3]);
}
