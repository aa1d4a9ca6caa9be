//! Tables of all kinds, taken and used again.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use super::*;
use millstream_abi::{Accumulator, Counters, KeyRange, Phys};
use millstream_plan::window::{Slicing, WindowAssigner};
use millstream_state::Charge;

#[test]
fn tables_of_both_kinds_are_taken_together() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
    let owners = Owners { own: 3, nodes: 2, workers: 2 };
    let tables = OpenTables::new(
        (layout, OutputTypes { keys: vec![], outputs: vec![] }),
        owners,
        (true, false),
        &MemoryBudget::new(1 << 20),
        Arc::default(),
    );
    let generation = Generation::default();
    for slice in [0, 10, 20] {
        let own = tables.find(0, generation, slice, || false);
        assert_eq!(own, tables.find(0, generation, slice, || true));
        assert_ne!(own, tables.find(2, generation, slice, || true));
        let shared = tables.find_shared(1, generation, slice);
        assert_eq!(shared, tables.find_shared(1, generation, slice));
        assert_ne!(shared, tables.find_shared(0, generation, slice));
    }
    let ids = TableIds(WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }));
    let taken = tables.take(ids, 19);
    let count = |tables: &[Taken], is: fn(&Taken) -> bool| tables.iter().filter(|table| is(table)).count();
    let kinds = |tables: &[Taken]| (tables.len(), count(tables, |table| matches!(table, Taken::Shared(_))));
    let counts: Vec<_> = taken.iter().map(|(slice, tables)| (*slice, kinds(tables))).collect();
    assert_eq!(counts, [(0, (4, 2)), (10, (4, 2))]);
    assert!(taken.values().flatten().all(Taken::is_empty));
    let appending = |tables: &[Taken]| count(tables, |table| table.kind() == Kind::Appended);
    assert!(taken.values().all(|tables| appending(tables) == 1), "as was in force when they were made");
    assert_eq!(tables.take(ids, 29).len(), 1);
    assert!(tables.take(ids, i64::MAX).is_empty());
}

#[test]
fn tables_are_used_again_for_either_kind_and_append_while_there_is_memory() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]));
    let budget = MemoryBudget::new(1 << 20);
    let tables = OpenTables::new(
        (layout, OutputTypes { keys: vec![], outputs: vec![] }),
        Owners { own: 1, nodes: 0, workers: 1 },
        (true, false),
        &budget,
        Arc::default(),
    );
    let ids = TableIds(WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }));
    let mut first = None;
    for (number, appends) in (0..).map(|n| n * 10).zip([true, true, false, true, false]) {
        let table = tables.find(0, Generation::default(), number, || appends);
        assert_eq!(table, *first.get_or_insert(table), "it is used again");
        // SAFETY: the table is alive, and nobody else uses it.
        assert_eq!(unsafe { (*table).is_appending() }, appends);
        let taken = tables.take(ids, number + 9).into_values().flatten();
        taken.for_each(|table| drop(tables.seal(table)));
    }
    let _large = Charge::new(&budget, MemoryClass::Tables, 1 << 19);
    let table = tables.find(0, Generation::default(), 100, || true);
    // SAFETY: as above.
    assert!(unsafe { !(*table).is_appending() }, "appended rows have a share of the memory only");
}

#[test]
fn new_tables_begin_as_large_as_those_that_were_completed() {
    let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]).counted_by(Counters::One(0));
    let layout = Arc::new(layout);
    let (budget, facts) = (MemoryBudget::new(1 << 30), Arc::<SliceFacts>::default());
    let tables = |facts: &Arc<SliceFacts>, budget: &Arc<MemoryBudget>| {
        OpenTables::new(
            (Arc::clone(&layout), OutputTypes { keys: vec![], outputs: vec![] }),
            Owners { own: 1, nodes: 0, workers: 1 },
            (true, false),
            budget,
            Arc::clone(facts),
        )
    };
    let ids = TableIds(WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }));
    let first = tables(&facts, &budget);
    let table = first.find(0, Generation::default(), 0, || false);
    for key in 0..1000i64 {
        let slot = millstream_abi::Slot::of(key.to_le_bytes());
        // SAFETY: nobody else uses the table; hashes are not those of empty entries, and each key comes once.
        let entry = unsafe { (*table).insert(key as u64 + 100, 0, &[slot]) };
        // SAFETY: an entry of the layout, whose count is at the same offset everywhere.
        unsafe { entry.add(layout.accumulators[0].1).cast::<i64>().write(1) };
    }
    let grown = first.take(ids, 9).remove(&0).unwrap().remove(0);
    assert_eq!(grown.kind(), Kind::Array);
    let grown = first.seal(grown).unwrap();
    let hint = facts.tables.lock().own;
    assert_eq!(hint.range, Some(KeyRange { first: 0, len: 1024 }), "the blocks that have keys");
    let begun = |budget: &Arc<MemoryBudget>| {
        let next = tables(&facts, budget);
        // SAFETY: nobody else uses the table.
        unsafe { (*next.find(0, Generation::default(), 10, || false)).bytes() }
    };
    assert!(begun(&budget) >= grown.bytes() / 2);
    assert!(begun(&MemoryBudget::new(1 << 20)) < 1024, "it would be much of the budget");
}

#[test]
fn regions_of_entries_are_known_to_new_tables_too() {
    let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxStr]));
    let (budget, facts) = (MemoryBudget::new(1 << 30), Arc::<SliceFacts>::default());
    let tables = OpenTables::new(
        (layout, OutputTypes { keys: vec![], outputs: vec![] }),
        Owners { own: 1, nodes: 0, workers: 1 },
        (true, false),
        &budget,
        Arc::clone(&facts),
    );
    let table = tables.find(0, Generation::default(), 0, || false);
    for key in 0..1000i64 {
        let slot = millstream_abi::Slot::of(key.to_le_bytes());
        // SAFETY: nobody else uses the table; hashes are not those of empty entries, and each key comes once.
        unsafe { (*table).insert(key as u64 + 100, 0, &[slot]) };
    }
    let ids = TableIds(WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }));
    tables.take(ids, 9).into_values().flatten().for_each(|table| drop(tables.seal(table)));
    assert_eq!(facts.tables.lock().own.range, Some(KeyRange { first: 0, len: 1024 }));
}
