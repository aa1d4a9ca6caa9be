//! Slots against a map from numbers to rows.

use crate::input::{self, Row};
use millstream_abi::{Accumulator, EntryLayout, Phys};
use millstream_state::{OutputTypes, Slots};
use millstream_storage::{ByteReader, ByteWriter};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What happens to slots; numbers choose among those that there are.
#[derive(Debug, Clone)]
enum Step {
    Allocate,
    Absorb(Vec<(usize, Row)>),
    Merge(usize, usize),
    Copy(usize, usize),
    Remove(usize),
    /// They are written and read.
    Save,
}

fn step() -> impl Strategy<Value = Step> {
    let rows = proptest::collection::vec((0..64usize, input::row()), 0..12);
    prop_oneof![
        2 => Just(Step::Allocate),
        4 => rows.prop_map(Step::Absorb),
        2 => (0..64usize, 0..64usize).prop_map(|(into, from)| Step::Merge(into, from)),
        1 => (0..64usize, 0..64usize).prop_map(|(into, from)| Step::Copy(into, from)),
        2 => (0..64usize).prop_map(Step::Remove),
        1 => Just(Step::Save),
    ]
}

fn layout(components: &[Accumulator]) -> Arc<EntryLayout> {
    Arc::new(EntryLayout::new(&[(Phys::I64, false)], components))
}

fn types(components: &[Accumulator]) -> OutputTypes {
    OutputTypes { keys: vec![], outputs: input::outputs(components) }
}

/// The slots after they were written and read; less than that is damage.
pub fn saved_and_restored(slots: &Slots, layout: &Arc<EntryLayout>, types: &OutputTypes) -> Slots {
    let mut out = ByteWriter::new();
    slots.save(&mut out);
    let bytes = out.into_bytes();
    let restore = |bytes: &[u8]| {
        let mut reader = ByteReader::new(bytes);
        let slots = Slots::restore(Arc::clone(layout), types, &mut reader)?;
        reader.end().map(|()| slots)
    };
    assert!((0..bytes.len()).step_by(bytes.len() / 40 + 1).all(|length| restore(&bytes[..length]).is_err()));
    let restored = restore(&bytes).unwrap();
    assert_eq!(restored.len(), slots.len());
    restored
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn slots_are_the_rows_that_came_to_them(steps in proptest::collection::vec(step(), 1..40)) {
        let components = input::all();
        let layout = layout(&components);
        let mut slots = Slots::new(Arc::clone(&layout));
        let mut model: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        let mut place = 0;
        for step in steps {
            let numbers: Vec<i64> = model.keys().copied().collect();
            let some = |i: usize| numbers.get(i % numbers.len().max(1)).copied();
            match step {
                Step::Allocate => {
                    let slot = slots.allocate();
                    prop_assert!(model.insert(slot, vec![]).is_none(), "{} was free", slot);
                }
                Step::Absorb(rows) => {
                    let mut placed: Vec<(i64, Row)> = Vec::new();
                    for (i, row) in rows {
                        place += 1;
                        placed.extend(some(i).map(|slot| (slot, Row { place, ..row })));
                    }
                    let table = input::slot_table(placed.iter().map(|(slot, row)| (*slot, row)), &layout);
                    slots.absorb(table);
                    for (slot, row) in placed {
                        model.get_mut(&slot).unwrap().push(row);
                    }
                }
                Step::Merge(into, from) => {
                    if let (Some(into), Some(from)) = (some(into), some(from)) && into != from {
                        slots.merge_into(into, from);
                        let merged = model[&from].clone();
                        model.get_mut(&into).unwrap().extend(merged);
                    }
                }
                Step::Copy(into, from) => {
                    if let (Some(into), Some(from)) = (some(into), some(from)) {
                        slots.copy(into, from);
                        model.insert(into, model[&from].clone());
                    }
                }
                Step::Save => slots = saved_and_restored(&slots, &layout, &types(&components)),
                Step::Remove(slot) => {
                    if let Some(slot) = some(slot) {
                        slots.remove(slot);
                        model.remove(&slot);
                    }
                }
            }
        }
        prop_assert_eq!(slots.len(), model.len());
        let numbers: Vec<i64> = model.keys().copied().rev().collect();
        let found = input::rows_of(&slots.columns(&numbers, &types(&components)));
        let expected: Vec<_> = model.values().rev().map(|rows| input::expected(rows, &components)).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_slot_that_is_taken_out_again_leaves_the_others() {
    let components = input::invertible();
    let layout = layout(&components);
    let mut slots = Slots::new(Arc::clone(&layout));
    let row = |number| Row { key: (None, 0), place: 0, number: Some(number), double: None, text: None };
    let (running, first, second) = (slots.allocate(), slots.allocate(), slots.allocate());
    let (a, b, c) = (row(1), row(20), row(300));
    slots.absorb(input::slot_table([(first, &a), (second, &b), (second, &c)], &layout));
    slots.merge_into(running, first);
    slots.merge_into(running, second);
    let shown = |slots: &Slots| input::rows_of(&slots.columns(&[running], &types(&components)));
    assert_eq!(shown(&slots), [input::expected([&a, &b, &c], &components)]);
    slots.subtract(running, first);
    assert_eq!(shown(&slots), [input::expected([&b, &c], &components)]);
}

#[test]
fn slots_that_come_and_go_do_not_grow() {
    let components = input::all();
    let layout = layout(&components);
    let mut slots = Slots::new(Arc::clone(&layout));
    let text = |i: u64| Some(format!("a text that is not stored inline {i:09}"));
    let mut largest = [0; 2];
    for round in 0..4000u64 {
        let slot = slots.allocate();
        let rows: Vec<Row> = (0..4)
            .map(|i| Row { key: (None, 0), place: i, number: Some(1), double: Some(1.0), text: text(4 * round + i) })
            .collect();
        slots.absorb(input::slot_table(rows.iter().map(|row| (slot, row)), &layout));
        let bytes = slots.bytes() + slots.object_bytes();
        let half = usize::from(round >= 2000);
        largest[half] = largest[half].max(bytes);
        slots.remove(slot);
    }
    assert!(slots.is_empty());
    assert_eq!(largest[0], largest[1], "the second half needs no more than the first");
}
