//! Arrays against tables: the same rows, however they are divided between the two.

use super::*;
use crate::combine::Combiner;
use crate::merge::{arrays_of_one_shape, merge};
use crate::output::{Output, OutputTypes};
use crate::partition::partition_of_key;
use crate::table::{Table, TableHint};
use arrow_array::ArrayRef;
use millstream_abi::{Accumulator, Combination, Finish, Slot};
use millstream_types::DataType;
use proptest::prelude::*;
use std::ops::Range;

const RANGE: KeyRange = KeyRange { first: -70, len: 200 };

/// A row: the worker that has it, the key, a number.
type Row = (usize, i64, i64);

fn layout(accumulators: &[Accumulator]) -> Arc<EntryLayout> {
    Arc::new(EntryLayout::new(&[(Phys::I32, true)], accumulators))
}

fn plain() -> Vec<Accumulator> {
    use Accumulator::*;
    vec![SumI64, Count, SumI128, SumF64, MinI64, MaxI64, MinI128, MaxI128, MinF64, MaxF64]
}

fn budget() -> Arc<MemoryBudget> {
    MemoryBudget::new(1 << 30)
}

fn shape(layout: &Arc<EntryLayout>, count: Option<usize>, range: KeyRange) -> Arc<ArrayShape> {
    let array = layout.array(count).expect("the accumulators are numbers");
    Arc::new(ArrayShape::new(Arc::clone(layout), array, range))
}

/// Updates an entry with a number.
///
/// # Safety
/// It is one with the accumulators of the layout.
unsafe fn update(layout: &EntryLayout, entry: *mut u8, number: i64) {
    // SAFETY: promised by the caller.
    unsafe {
        for &(component, at) in &layout.accumulators {
            use Accumulator::*;
            let (wide, double) = (i128::from(number) << 70, number as f64 / 4.0);
            match component {
                Count => write(entry, at, read::<i64>(entry, at) + 1),
                SumI64 => write(entry, at, read::<i64>(entry, at) + number),
                SumI128 => write(entry, at, read::<i128>(entry, at) + wide),
                SumF64 => write(entry, at, read::<f64>(entry, at) + double),
                MinI64 => write(entry, at, read::<i64>(entry, at).min(number)),
                MaxI64 => write(entry, at, read::<i64>(entry, at).max(number)),
                MinI128 => write(entry, at, read::<i128>(entry, at).min(wide)),
                MaxI128 => write(entry, at, read::<i128>(entry, at).max(wide)),
                MinF64 => write(entry, at, read::<f64>(entry, at).min(double)),
                MaxF64 => write(entry, at, read::<f64>(entry, at).max(double)),
                _ => unreachable!("the tests have numbers only"),
            }
        }
    }
}

/// A hash table of rows.
fn table_of(layout: &Arc<EntryLayout>, rows: impl Iterator<Item = Row>) -> Table {
    let mut table = Table::with_hint(Arc::clone(layout), true, TableHint::default());
    let mut keyed = vec![0; layout.stride];
    for (_, key, number) in rows {
        // SAFETY: an entry of the key, and one of the table that is found by it or inserted.
        unsafe {
            write_key(layout, keyed.as_mut_ptr(), key);
            let entry = table.find(keyed.as_ptr());
            let hash = entry::hash(keyed.as_ptr());
            let slot = Slot::of((key as i32).to_le_bytes());
            let entry = entry.unwrap_or_else(|| table.insert(hash, 0, &[slot]));
            update(layout, entry, number);
        }
    }
    table
}

/// An array table of rows, updated as generated code does.
fn array_of(shape: &Arc<ArrayShape>, budget: &Arc<MemoryBudget>, rows: impl Iterator<Item = Row>) -> ArrayTable {
    let mut table = ArrayTable::new(Arc::clone(shape), budget);
    // SAFETY: a live table.
    let header = unsafe { ArrayTable::header_of(&raw mut table).read() };
    for (_, key, number) in rows {
        let index = shape.range.index(key).expect("in the range");
        // SAFETY: there is an entry for each key of the range.
        unsafe {
            let entry = header.dense.add(index * shape.array.stride);
            update(&shape.layout, entry, number);
            if shape.array.sets_mark {
                write(entry, shape.array.mark, 1u64);
            }
        }
    }
    table
}

/// What a worker has: a hash table of the keys outside of its range, arrays of the others.
fn partials(layout: &Arc<EntryLayout>, shapes: &[Arc<ArrayShape>], rows: &[Row]) -> Vec<Arc<Partial>> {
    let budget = budget();
    let mut partials = Vec::new();
    for (worker, shape) in shapes.iter().enumerate() {
        let mine = || rows.iter().copied().filter(|row| row.0 == worker);
        let (inside, outside): (Vec<Row>, Vec<Row>) = mine().partition(|row| shape.range.index(row.1).is_some());
        partials.push(array_of(shape, &budget, inside.into_iter()).seal(true));
        if !outside.is_empty() {
            partials.push(table_of(layout, outside.into_iter()).seal());
        }
    }
    partials.into_iter().map(Arc::new).collect()
}

fn types(accumulators: &[Accumulator]) -> OutputTypes {
    let output = |(component, accumulator): (usize, &Accumulator)| {
        let data_type = match accumulator.output() {
            Phys::I64 => DataType::BigInt,
            Phys::I128 => DataType::decimal(38, 0),
            _ => DataType::Double,
        };
        Output { component, finish: Finish::Value, data_type }
    };
    OutputTypes { keys: vec![DataType::Int], outputs: accumulators.iter().enumerate().map(output).collect() }
}

fn columns(partials: &[Arc<Partial>], partitions: Range<usize>, accumulators: &[Accumulator]) -> Vec<ArrayRef> {
    let merged = merge(partials, partitions);
    merged.columns(0..merged.len(), &types(accumulators), &[])
}

fn check(accumulators: &[Accumulator], shapes: &[Arc<ArrayShape>], rows: &[Row]) {
    let layout = Arc::clone(&shapes[0].layout);
    let expected = Arc::new(table_of(&layout, rows.iter().copied()).seal());
    let partials = partials(&layout, shapes, rows);
    let all = columns(std::slice::from_ref(&expected), 0..PARTITIONS, accumulators);
    assert_eq!(columns(&partials, 0..PARTITIONS, accumulators), all);
    let compacted = Arc::new(Partial::compacted(&partials, &budget()));
    assert_eq!(compacted.is_array(), arrays_of_one_shape(&partials).is_some());
    assert_eq!(columns(&[compacted], 0..PARTITIONS, accumulators), all);
    for partition in 0..PARTITIONS {
        let part = partition..partition + 1;
        assert_eq!(
            columns(&partials, part.clone(), accumulators),
            columns(std::slice::from_ref(&expected), part.clone(), accumulators)
        );
        let count: usize = partials.iter().map(|p| p.len_of(&part)).sum();
        assert!(count >= expected.len_of(&part));
    }
}

fn rows(workers: usize, keys: Range<i64>) -> impl Strategy<Value = Vec<Row>> {
    proptest::collection::vec((0..workers, keys, -1000i64..1000), 1..300)
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn arrays_of_one_shape_are_merged_as_tables_are(rows in rows(3, -70..130), count in any::<bool>()) {
        for accumulators in [plain(), vec![Accumulator::SumI64, Accumulator::Count], vec![Accumulator::Count; 2]] {
            let shape = shape(&layout(&accumulators), count.then_some(1), RANGE);
            check(&accumulators, &vec![shape; 3], &rows);
        }
    }

    #[test]
    fn one_array_needs_no_merge(rows in rows(1, -70..130)) {
        for (accumulators, count) in [(plain(), None), (vec![Accumulator::Count], Some(0)), (vec![], None)] {
            let shape = shape(&layout(&accumulators), count, RANGE);
            check(&accumulators, &[shape], &rows);
        }
    }

    #[test]
    fn arrays_are_merged_with_tables_and_with_arrays_of_other_ranges(rows in rows(3, -200..200)) {
        let layout = layout(&plain());
        let of = |count, first, len| shape(&layout, count, KeyRange { first, len });
        check(&plain(), &[of(Some(1), -70, 200), of(Some(1), -128, 256), of(None, -70, 200)], &rows);
        check(&plain(), &[of(Some(1), -300, 600), of(Some(1), 190, 1), of(None, -5, 10)], &rows);
    }

    #[test]
    fn windows_of_slices_may_hold_arrays(rows in rows(6, -80..140)) {
        for (combination, accumulators) in [
            (Combination::Subtract, vec![Accumulator::Count, Accumulator::SumI64]),
            (Combination::TwoStacks, plain()),
            (Combination::Recompute, plain()),
        ] {
            let layout = layout(&accumulators);
            let shapes = vec![shape(&layout, None, RANGE); 2];
            let mut combiner = Combiner::new(Arc::clone(&layout), combination, 0..PARTITIONS);
            let of_slice = |slice: usize| -> Vec<Row> {
                rows.iter().filter(|r| r.0 / 2 == slice).map(|r| (r.0 % 2, r.1, r.2)).collect()
            };
            for slice in 0..3 {
                combiner.add_slice(slice as i64, &partials(&layout, &shapes, &of_slice(slice)));
                let window = combiner.window(slice as i64 - 1, slice as i64 + 1);
                let found = window.columns(0..window.len(), &types(&accumulators), &[]);
                let all = (slice.saturating_sub(1)..=slice).flat_map(of_slice);
                let expected = Arc::new(table_of(&layout, all).seal());
                prop_assert_eq!(found, columns(&[expected], 0..PARTITIONS, &accumulators));
            }
        }
    }
}

/// Blocks of a partition.
fn save(partial: &Partial, partition: usize) -> Vec<Vec<u8>> {
    partial.blocks_of(partition, 500).collect()
}

/// An array in which keys are there as `is_there` says, and the same as entries.
fn written(
    accumulators: &[Accumulator],
    count: Option<usize>,
    is_there: impl Fn(&i64) -> bool,
) -> (Arc<Partial>, Arc<Partial>) {
    let (layout, budget) = (layout(accumulators), budget());
    let shape = shape(&layout, count, RANGE);
    let rows: Vec<Row> = (-70..130).filter(is_there).map(|key| (0, key, key * 7)).collect();
    let array = array_of(&shape, &budget, rows.iter().copied()).seal(false);
    (Arc::new(array), Arc::new(table_of(&layout, rows.into_iter()).seal()))
}

#[test]
fn arrays_are_written_as_entries_or_in_less() {
    let budget = budget();
    for (accumulators, count) in
        [(plain(), Some(1)), (plain(), None), (vec![], None), (vec![Accumulator::SumI64, Accumulator::Count], Some(1))]
    {
        let types = types(&accumulators);
        let (few, entries) = written(&accumulators, count, |key| key % 7 == 0);
        for partition in 0..PARTITIONS {
            assert_eq!(save(&few, partition), save(&entries, partition));
        }
        let (most, entries) = written(&accumulators, count, |key| *key != 100 && *key != -3);
        let before = most.bytes();
        let bytes = |partial: &Partial| (0..PARTITIONS).flat_map(|p| save(partial, p)).flatten().count();
        assert!(bytes(&most) <= bytes(&entries), "{accumulators:?}");
        assert!(accumulators.len() > 3 || 3 * bytes(&most) < 2 * bytes(&entries), "{accumulators:?}");
        assert_eq!(most.bytes(), before, "no entries were made for that");
        let partitions = [partition_of_key(0), partition_of_key(64)];
        let parts = partitions.map(|partition| save(&most, partition)).concat();
        let restored = Arc::new(Partial::restore(most.layout(), &types, &budget, &parts).unwrap());
        assert!(restored.len() > 100 && restored.is_distinct());
        for partition in partitions {
            let part = partition..partition + 1;
            let expected = columns(std::slice::from_ref(&entries), part.clone(), &accumulators);
            assert_eq!(columns(std::slice::from_ref(&restored), part, &accumulators), expected);
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn damaged_arrays_are_found_or_do_no_harm(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 200),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 30),
    ) {
        let accumulators = [Accumulator::SumI64, Accumulator::Count];
        let (array, budget) = (written(&accumulators, Some(1), |key| *key != 100).0, budget());
        let types = types(&accumulators);
        let block = array.blocks(partition_of_key(0)).next().unwrap();
        let restored = |block: &[u8]| Partial::restore(array.layout(), &types, &budget, &[block]);
        prop_assert!(restored(&block).is_ok());
        for cut in cuts {
            prop_assert!(restored(&block[..cut.index(block.len())]).is_err());
        }
        for (at, bit) in flips {
            let mut block = block.clone();
            let at = at.index(block.len().min(60));
            block[at] ^= 1 << bit;
            if let Ok(partial) = restored(&block) {
                let all = [Arc::new(partial), Arc::clone(&array)];
                prop_assert_eq!(columns(&all, 0..PARTITIONS, &accumulators).len(), 3);
            }
        }
        prop_assert_eq!(budget.used_by(MemoryClass::Partials), 0, "nothing is kept");
    }
}

#[test]
fn memory_is_used_again_and_counted() {
    let (budget, accumulators) = (budget(), plain());
    let shape = shape(&layout(&accumulators), Some(1), RANGE);
    let bytes = shape.array.bytes(200) as u64;
    let first = array_of(&shape, &budget, [(0, 5, 7)].into_iter());
    assert!(!first.is_empty());
    assert_eq!(budget.used_by(MemoryClass::Tables), bytes);
    let sealed = first.seal(true);
    assert_eq!((sealed.len(), sealed.bytes() as u64), (1, bytes));
    assert_eq!((budget.used_by(MemoryClass::Tables), budget.used_by(MemoryClass::Partials)), (0, bytes));
    drop(sealed);
    assert_eq!((budget.used_by(MemoryClass::Tables), budget.used_by(MemoryClass::Partials)), (bytes, 0));
    let second = ArrayTable::new(Arc::clone(&shape), &budget);
    assert!(second.is_empty(), "what the first one left is gone");
    assert_eq!(budget.used(), bytes);
    drop(second.seal(false));
    assert_eq!(budget.used(), 0, "nothing is kept");
}
