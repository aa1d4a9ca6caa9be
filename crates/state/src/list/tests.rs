//! Lists as logs, runs and joins, against vectors.

use super::*;
use crate::memory::EntryMemory;
use crate::object::key_of_number;
use millstream_abi::Slot;
use millstream_storage::{ByteReader, ByteWriter};
use proptest::prelude::*;

fn layout_of(kind: ObjectKind, phys: Phys) -> EntryLayout {
    EntryLayout::new(&[], &[Accumulator::Count, Accumulator::Object(kind, phys)])
}

fn place(position: u64) -> Ordinal {
    Ordinal { watermark: -7, input: 3, split: 1 << 20, position, pipeline: 9 }
}

/// Values as text: long strings and short ones.
fn text(value: u32) -> String {
    if value.is_multiple_of(3) { format!("a long string with a number: {value}") } else { value.to_string() }
}

/// Entries of a layout, empty.
struct Entries {
    layout: EntryLayout,
    memory: EntryMemory,
}

impl Entries {
    fn new(layout: &EntryLayout, count: usize) -> Entries {
        Entries { layout: layout.clone(), memory: EntryMemory::zeroed(count * layout.stride) }
    }

    fn at(&self, i: usize) -> *mut u8 {
        self.memory.start().wrapping_add(i * self.layout.stride)
    }

    fn all(&self) -> Vec<*mut u8> {
        (0..self.memory.bytes() / self.layout.stride).map(|i| self.at(i)).collect()
    }

    fn run(&self, i: usize) -> Run {
        // SAFETY: an entry of the layout, whose list is its second accumulator.
        unsafe { read(self.at(i), self.layout.accumulators[1].1) }
    }

    fn accumulator(&self, i: usize) -> *mut u8 {
        self.at(i).wrapping_add(self.layout.accumulators[1].1)
    }
}

/// The values of a list in the order of the input: text, or NULL.
fn texts(run: Run, element: Element) -> Vec<Option<String>> {
    let mut list = List::new(element);
    // SAFETY: the tests have lists that are alive.
    unsafe { list.gather(run) };
    let value = |i: usize| (!list.is_null(i)).then(|| String::from_utf8_lossy(list.values.string(i)).into_owned());
    list.in_order().into_iter().map(value).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 100 }))]

    #[test]
    fn logs_become_runs_and_runs_joins(
        rows in prop::collection::vec((0..7_usize, prop::option::weighted(0.8, 0..40_u32)), 0..400),
        merged in prop::collection::vec((0..7_usize, 0..7_usize), 0..6),
        moved in any::<bool>(),
    ) {
        let layout = layout_of(ObjectKind::List { keeps_nulls: true }, Phys::Str);
        let element = Element::of(layout.accumulators[1].0).unwrap();
        let mut expected: Vec<Vec<Option<String>>> = vec![Vec::new(); 7];
        let entries = Entries::new(&layout, 7);
        let mut logs = Logs::new(&layout).unwrap();
        let mut arena = Arena::default();
        // Twice, because memory is used again.
        for round in 0..2 {
            // SAFETY: the memory of an entry.
            entries.all().iter().for_each(|entry| unsafe { entry.write_bytes(0, layout.stride) });
            expected.iter_mut().for_each(Vec::clear);
            for (row, (group, value)) in rows.iter().enumerate() {
                let value = value.map(|value| text(value + round));
                let string = value.as_ref().map(|value| Str::new(value.as_bytes()));
                let slot = string.map(|string| Slot(string.bits().to_le_bytes()));
                // SAFETY: an accumulator of the layout, and a string that is alive.
                unsafe { logs.push(0, entries.accumulator(*group), slot.as_ref(), place(row as u64)) };
                expected[*group].push(value);
            }
            prop_assert!(rows.is_empty() || logs.bytes() > 0);
            // SAFETY: all entries.
            unsafe { logs.seal(&entries.all(), &mut arena) };
            for (group, expected) in expected.iter().enumerate() {
                // SAFETY: a sealed list.
                prop_assert_eq!(unsafe { len(entries.run(group)) }, expected.len());
                prop_assert_eq!(&texts(entries.run(group), element), expected);
            }
        }
        // Joins keep what they are made of as it was.
        for &(into, from) in merged.iter().filter(|(into, from)| into != from) {
            let before = texts(entries.run(from), element);
            // SAFETY: two entries with sealed lists.
            unsafe { merge((layout.accumulators[1].1, element), entries.at(into), entries.at(from), &mut arena) };
            prop_assert_eq!(&texts(entries.run(from), element), &before);
            // SAFETY: a sealed list.
            prop_assert_eq!(unsafe { len(entries.run(into)) }, expected[into].len() + expected[from].len());
            let both = expected[from].clone();
            expected[into].extend(both);
        }
        let sorted = |mut texts: Vec<Option<String>>| { texts.sort(); texts };
        let mut other = Arena::default();
        let mut mover = Mover::default();
        for (group, expected) in expected.into_iter().enumerate() {
            // SAFETY: an entry with sealed lists, of which the arena is alive.
            unsafe {
                match moved {
                    true => mover.entry(&layout, entries.at(group), &mut other),
                    false => copy(&layout, entries.at(group), &mut other),
                }
            }
            let found = texts(entries.run(group), element);
            prop_assert_eq!(sorted(found.clone()), sorted(expected));
            // As bytes and back.
            let (mut list, mut out) = (List::new(element), ByteWriter::new());
            // SAFETY: as above.
            unsafe { list.gather(entries.run(group)) };
            list.save(&mut out);
            let bytes = out.into_bytes();
            let mut reader = ByteReader::new(&bytes);
            let run = restore(element, true, &mut reader, &mut other).unwrap();
            prop_assert!(reader.end().is_ok());
            prop_assert_eq!(texts(run, element), found);
        }
        drop(arena);
        for group in 0..7 {
            // Nothing of what was moved is in the arena that is gone.
            texts(entries.run(group), element);
        }
    }

    #[test]
    fn distinct_values_are_sets(
        rows in prop::collection::vec((0..5_usize, 0..90_u32), 0..1500),
        twins in prop::option::of((0..2_usize, 2..5_usize)),
        merged in prop::collection::vec((0..5_usize, 0..5_usize), 0..9),
        phys in prop::sample::select(vec![Phys::Str, Phys::I128, Phys::I64, Phys::F64, Phys::Bool]),
    ) {
        let layout = layout_of(ObjectKind::Distinct, phys);
        let element = Element::of(layout.accumulators[1].0).unwrap();
        let entries = Entries::new(&layout, 5);
        let mut logs = Logs::new(&layout).unwrap();
        // What is shown of a set: the values as text.
        let shown = |values: &Values| -> Vec<String> {
            let value = |i: usize| match values {
                Values::Words(words) => words[i].to_string(),
                Values::Wides(wides) => wides[i].to_string(),
                Values::Strings(..) => String::from_utf8_lossy(values.string(i)).into_owned(),
            };
            (0..values.len()).map(value).collect()
        };
        let mut expected = vec![std::collections::BTreeSet::new(); 5];
        for (row, &(group, value)) in rows.iter().enumerate() {
            let string = text(value);
            let number = f64::from(value) - 45.0;
            let (slot, shown) = match phys {
                Phys::Str => (Slot(Str::new(string.as_bytes()).bits().to_le_bytes()), string.clone()),
                Phys::I128 => (Slot((i128::from(value) << 70).to_le_bytes()), (i128::from(value) << 70).to_string()),
                Phys::I64 => (Slot::of(i64::from(value).to_le_bytes()), value.to_string()),
                Phys::Bool => (Slot::of([(value % 2) as u8]), (value % 2).to_string()),
                _ => {
                    // Both zeros are one.
                    let x = if number == 0.0 && row % 2 == 0 { -0.0 } else { number };
                    (Slot::of(x.to_le_bytes()), key_of_number(number).to_string())
                }
            };
            // SAFETY: an accumulator of the layout, and a string that is alive.
            unsafe { logs.push(0, entries.accumulator(group), Some(&slot), place(row as u64)) };
            expected[group].insert(shown);
            if let Some((into, from)) = twins.filter(|_| row == 700) {
                // SAFETY: entries of the layout.
                unsafe { logs.merge(entries.at(into), entries.at(from)) };
                logs.settle();
                let moved = std::mem::take(&mut expected[from]);
                expected[into].extend(moved);
            }
        }
        let mut arena = Arena::default();
        // SAFETY: all entries.
        unsafe { logs.seal(&entries.all(), &mut arena) };
        let set = |run: Run| {
            let mut list = List::new(element);
            // SAFETY: a sealed list.
            unsafe { list.gather(run) };
            list.sort();
            shown(&list.values).into_iter().collect::<std::collections::BTreeSet<_>>()
        };
        for (group, expected) in expected.iter().enumerate() {
            // SAFETY: sealed lists.
            prop_assert_eq!(unsafe { len(entries.run(group)) }, expected.len());
            prop_assert_eq!(&set(entries.run(group)), expected);
        }
        for &(into, from) in merged.iter().filter(|(into, from)| into != from) {
            // SAFETY: sealed lists.
            unsafe {
                merge((layout.accumulators[1].1, element), entries.at(into), entries.at(from), &mut arena);
                let (run, least) = (entries.run(into), expected[into].len().max(1));
                prop_assert!(len(run) <= 2 * least + FEW + expected[from].len() * 3 + FEW);
            }
            let others = expected[from].clone();
            expected[into].extend(others);
        }
        let mut other = Arena::default();
        let mut mover = Mover::default();
        for (group, expected) in expected.iter().enumerate() {
            // SAFETY: an entry with a sealed list.
            unsafe { mover.entry(&layout, entries.at(group), &mut other) };
            prop_assert_eq!(&set(entries.run(group)), expected);
            // SAFETY: as above.
            unsafe { copy(&layout, entries.at(group), &mut other) };
            // SAFETY: as above.
            unsafe {
                prop_assert!(is_run(entries.run(group)));
                prop_assert_eq!(len(entries.run(group)), expected.len());
            }
            let (mut list, mut out) = (List::new(element), ByteWriter::new());
            // SAFETY: as above.
            unsafe { list.gather(entries.run(group)) };
            list.save(&mut out);
            let bytes = out.into_bytes();
            let mut reader = ByteReader::new(&bytes);
            let run = restore(element, phys == Phys::Str, &mut reader, &mut other).unwrap();
            prop_assert!(reader.end().is_ok());
            prop_assert_eq!(&set(run), expected);
        }
    }

    #[test]
    fn groups_that_become_one_have_the_values_of_both(
        rows in prop::collection::vec((0..9_usize, any::<i64>()), 1..300),
        pairs in prop::collection::vec((0..4_usize, 4..9_usize), 0..5),
        later in prop::collection::vec((0..4_usize, any::<i64>()), 0..200),
    ) {
        let layout = layout_of(ObjectKind::Bag, Phys::I64);
        let element = Element::of(layout.accumulators[1].0).unwrap();
        let entries = Entries::new(&layout, 9);
        let mut logs = Logs::new(&layout).unwrap();
        let mut expected: Vec<Vec<i64>> = vec![Vec::new(); 9];
        let push = |logs: &mut Logs, (group, value): (usize, i64)| {
            let slot = Slot::of(value.to_le_bytes());
            // SAFETY: an accumulator of the layout.
            unsafe { logs.push(0, entries.accumulator(group), Some(&slot), place(0)) };
        };
        for &(group, value) in &rows {
            push(&mut logs, (group, value));
            expected[group].push(value);
        }
        for &(into, from) in &pairs {
            // SAFETY: entries of the layout.
            unsafe { logs.merge(entries.at(into), entries.at(from)) };
            let moved = std::mem::take(&mut expected[from]);
            expected[into].extend(moved);
        }
        logs.settle();
        for &(group, value) in &later {
            push(&mut logs, (group, value));
            expected[group].push(value);
        }
        let mut arena = Arena::default();
        // SAFETY: all entries.
        unsafe { logs.seal(&entries.all(), &mut arena) };
        for (group, mut expected) in expected.into_iter().enumerate() {
            let mut list = List::new(element);
            // SAFETY: a sealed list.
            unsafe { list.gather(entries.run(group)) };
            let Values::Words(mut words) = list.values else { panic!("words") };
            words.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(words, expected);
        }
    }
}

#[test]
fn long_chains_of_joins_need_no_stack() {
    let layout = layout_of(ObjectKind::Bag, Phys::I64);
    let element = Element::of(layout.accumulators[1].0).unwrap();
    let mut arena = Arena::default();
    let count = if cfg!(miri) { 200 } else { 200_000 };
    let mut chain: Run = std::ptr::null();
    let mut chain_to_the_right: Run = std::ptr::null();
    for word in 0..count {
        let one = leaf(&[word], element, &mut arena);
        // SAFETY: runs of the arena.
        unsafe {
            chain = join(chain, one, &mut arena);
            chain_to_the_right = join(one, chain_to_the_right, &mut arena);
        }
    }
    let mut other = Arena::default();
    let mut mover = Mover::default();
    let mut list = List::new(element);
    for chain in [chain, chain_to_the_right] {
        // SAFETY: a list of the arena.
        unsafe { list.gather(mover.list(chain, element, &mut other)) };
        let Values::Words(words) = &mut list.values else { panic!("words") };
        words.sort_unstable();
        assert!(words.iter().copied().eq(0..count as i64));
    }
}

#[test]
fn damaged_lists_are_refused() {
    let element = |kind, phys| Element::of(Accumulator::Object(kind, phys)).unwrap();
    let mut arena = Arena::default();
    let mut refused = |element: Element, written: &[u64], why: &str| {
        let mut out = ByteWriter::new();
        written.iter().for_each(|&word| out.u64(word));
        let bytes = out.into_bytes();
        let damaged = restore(element, true, &mut ByteReader::new(&bytes), &mut arena).unwrap_err();
        assert!(damaged.0.contains(why), "{damaged:?}");
    };
    let bag = element(ObjectKind::Bag, Phys::I64);
    refused(bag, &[1, 5, 1, 0], "NULLs in a bag");
    refused(bag, &[1, 5, 1, 1], "not among its values");
    refused(element(ObjectKind::List { keeps_nulls: true }, Phys::I64), &[2, 5, 6, 2, 1, 0], "not among its values");
    refused(bag, &[9, 5], "");
}

/// Values of a slice: a stretch of a range, in order or at random, and what lies far from it.
fn stretches() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let first = prop_oneof![
        4 => -300..300_i64,
        1 => i64::MAX - 900..i64::MAX,
        1 => i64::MIN..i64::MIN + 900,
    ];
    let stretch = (first, 1..900_i64, 1..4_i64, any::<bool>(), 1..5_u32);
    let rows = stretch.prop_flat_map(|(first, len, step, is_ordered, groups)| {
        let one = (0..len, 1..=groups, prop::option::weighted(0.02, any::<i64>()));
        prop::collection::vec(one, 0..1200).prop_map(move |rows| {
            let rows = rows.into_iter().enumerate();
            let row = |(i, (at, group, far)): (usize, (i64, u32, Option<i64>))| {
                let at = if is_ordered { i as i64 * step } else { at };
                (group, far.unwrap_or(first.wrapping_add(at)) as u64)
            };
            rows.map(row).collect::<Vec<_>>()
        })
    });
    prop::collection::vec(rows, 1..4).prop_map(|stretches| stretches.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 200 }))]

    #[test]
    fn pairs_are_there_once(slices in prop::collection::vec(stretches(), 1..4), stage in 1..3000_usize) {
        let element = Element { phys: Phys::I64, is_placed: false, is_distinct: true };
        let mut pairs = pairs::Pairs::default();
        // Memory is used again.
        for slice in slices {
            for stage in slice.chunks(stage) {
                let (numbers, values): (Vec<u32>, Vec<u64>) = stage.iter().copied().unzip();
                // SAFETY: there are no strings.
                unsafe { pairs.absorb(&numbers, &values, element) };
            }
            let mut found: Vec<(u32, u64)> = pairs.numbers.iter().copied().zip(pairs.values.iter().copied()).collect();
            found.sort_unstable();
            let mut expected = slice;
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(found, expected);
            pairs.clear();
        }
    }
}

#[test]
fn values_that_lie_close_together_take_a_word_each() {
    let element = Element { phys: Phys::I64, is_placed: false, is_distinct: true };
    let values: Vec<u64> = (0..100_000).collect();
    let (numbers, mut pairs) = (vec![7; values.len()], pairs::Pairs::default());
    for (numbers, values) in numbers.chunks(2048).zip(values.chunks(2048)) {
        // SAFETY: there are no strings.
        unsafe { pairs.absorb(numbers, values, element) };
    }
    assert_eq!(pairs.numbers.len(), values.len());
    // Numbers, values and groups, and half as many again of these; the vectors have room for more.
    let bytes = pairs.bytes();
    assert!(bytes < values.len() * (2 * (4 + 8) + 12), "{bytes} bytes");
}
