//! Values with weights, and exact sums, of rows that are taken back: against maps from values to weights, whose values are shown by lists.

use crate::input::{self, Cell, cells};
use crate::saved::round_trip;
use crate::slots::saved_and_restored;
use arrow_array::ArrayRef;
use millstream_abi::*;
use millstream_state::{Change, Ordinal, Output, OutputTypes, Partial, Slots, Table, merge};
use millstream_types::DataType;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What happens to a group.
#[derive(Debug, Clone, Copy)]
struct Event {
    group: i64,
    /// Number of a value of each type; `None` is NULL.
    value: Option<usize>,
    is_taken_back: bool,
}

// Values of each type, ascending.
const WORDS: [i64; 8] = [i64::MIN, -7, -1, 0, 1, 2, 42, i64::MAX];
const DOUBLES: [f64; 8] = [f64::NEG_INFINITY, -2.25, -0.0, 0.0, 1.5, HUGE, f64::INFINITY, f64::NAN];
const WIDES: [i128; 8] = [i128::MIN, -(1 << 90), -1, 0, 1, 1 << 64, 1 << 90, i128::MAX];
const TEXTS: [&str; 8] = ["", "a", "a text that is longer", "a text that is longer still", "ab", "b", "ä", "日本"];
/// 2^1000: products with small numbers are exact, and no sum with it shows the others.
const HUGE: f64 = f64::from_bits((1023 + 1000) << 52);

const TYPES: [Phys; 5] = [Phys::I64, Phys::F64, Phys::I128, Phys::Str, Phys::Bool];

/// The number of a value among those of its type: there are but two Booleans.
fn number_of(phys: Phys, value: usize) -> usize {
    if phys == Phys::Bool { value % 2 } else { value }
}

fn slot_of(phys: Phys, value: usize) -> Slot {
    match phys {
        Phys::I64 => Slot::of(WORDS[value].to_le_bytes()),
        Phys::F64 => Slot::of(DOUBLES[value].to_le_bytes()),
        Phys::I128 => Slot::of(WIDES[value].to_le_bytes()),
        Phys::Str => Slot::of(Str::new(TEXTS[value].as_bytes()).bits().to_le_bytes()),
        _ => Slot::of([(value % 2) as u8]),
    }
}

fn cell_of(phys: Phys, value: usize) -> Cell {
    match phys {
        Phys::I64 => Cell::Int(WORDS[value]),
        Phys::F64 => input::float(DOUBLES[value]),
        Phys::I128 => Cell::Wide(WIDES[value]),
        Phys::Str => Cell::Text(TEXTS[value].into()),
        _ => Cell::Bool(value == 1),
    }
}

fn type_of(phys: Phys) -> DataType {
    match phys {
        Phys::I64 => DataType::BigInt,
        Phys::F64 => DataType::Double,
        Phys::I128 => DataType::decimal(38, 2),
        Phys::Str => DataType::STRING,
        _ => DataType::Boolean,
    }
}

/// What is shown of values of a type, but for the ends, with the kind of list that shows it.
fn finishes(phys: Phys) -> Vec<(ObjectKind, Finish, DataType)> {
    use ObjectKind::{Bag, Distinct};
    let (list, of) = (ObjectKind::List { keeps_nulls: false }, type_of(phys));
    let (array, item) = (DataType::Array(Arc::new(of.clone())), Arc::new(of.clone()));
    let mut finishes = vec![
        (Distinct, Finish::Count, DataType::BigInt),
        (Bag, Finish::Mode, of.clone()),
        (Bag, Finish::Multiset, DataType::Map(item, Arc::new(DataType::Int))),
        (list, Finish::Array, array.clone()),
        (list, Finish::DistinctArray, array),
    ];
    match phys {
        Phys::I64 | Phys::I128 => finishes.push((Distinct, Finish::Sum, of)),
        Phys::F64 => {
            finishes.push((Distinct, Finish::Sum, of));
            let percentile = |p| (Bag, Finish::Percentile(p), DataType::Double);
            finishes.extend([0.0, 0.1, 0.5, 0.75, 1.0].map(percentile));
        }
        Phys::Str => {
            finishes.push((list, Finish::Join(", ".into()), of.clone()));
            finishes.push((list, Finish::DistinctJoin("-".into()), of));
        }
        _ => {}
    }
    finishes
}

fn layout_of(accumulators: &[Accumulator]) -> Arc<EntryLayout> {
    Arc::new(EntryLayout::new(&[(Phys::I64, false)], accumulators))
}

/// Weights of each type, then a sum of doubles.
fn layout() -> Arc<EntryLayout> {
    let weights = TYPES.map(|phys| Accumulator::Object(ObjectKind::Weights, phys));
    layout_of(&[&weights[..], &[Accumulator::SumF64]].concat())
}

/// What is shown of [`layout`]: the ends and all else of each type, and the sum.
fn outputs() -> Vec<Output> {
    let mut outputs = Vec::new();
    for (component, phys) in TYPES.into_iter().enumerate() {
        let ends = [Finish::Least, Finish::Greatest].map(|finish| (ObjectKind::Weights, finish, type_of(phys)));
        let all = ends.into_iter().chain(finishes(phys));
        outputs.extend(all.map(|(_, finish, data_type)| Output { component, finish, data_type }));
    }
    outputs.push(Output { component: TYPES.len(), finish: Finish::Value, data_type: DataType::Double });
    outputs
}

fn slot_types() -> OutputTypes {
    OutputTypes { keys: vec![], outputs: outputs() }
}

/// The entry of a group, which is made unless it is there.
fn entry_of(table: &mut Table, group: i64) -> *mut u8 {
    let hash = hash_finish(hash_word(HASH_SEED, group as u64));
    // SAFETY: what is not found is not in the table.
    input::search(table, hash).unwrap_or_else(|| unsafe { table.insert(hash, 0, &[Slot::of(group.to_le_bytes())]) })
}

/// A table of events, updated as programs do: of a row that is taken back they negate what is added.
fn table_of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Table {
    let layout = layout();
    let mut table = Table::new(Arc::clone(&layout));
    for &Event { group, value, is_taken_back } in events {
        let entry = entry_of(&mut table, group);
        let change = if is_taken_back { Change::TakenBack } else { Change::Added(Ordinal::NOWHERE) };
        for (component, &(accumulator, offset)) in layout.accumulators.iter().enumerate() {
            // SAFETY: a component of the entry, with a value of its type.
            unsafe {
                let place = entry.add(offset);
                if let Accumulator::Object(_, phys) = accumulator {
                    table.update_object(place, component, value.map(|value| slot_of(phys, value)), change);
                    continue;
                }
                let Some(x) = value.map(|value| if is_taken_back { -DOUBLES[value] } else { DOUBLES[value] }) else {
                    continue;
                };
                match exact::fixed(x) {
                    Some(near) => *place.cast() = exact::add(*place.cast(), near),
                    None => table.update_object(place, component, Some(Slot::of(x.to_le_bytes())), change),
                }
            }
        }
    }
    table
}

/// Weights by number of the value, of a group.
type Model = BTreeMap<usize, i64>;

/// What is left of the events of each group that has any.
fn models<'a>(events: impl IntoIterator<Item = &'a Event>, phys: Phys) -> BTreeMap<i64, Model> {
    let mut models: BTreeMap<i64, Model> = BTreeMap::new();
    for event in events {
        let model = models.entry(event.group).or_default();
        if let Some(value) = event.value {
            *model.entry(number_of(phys, value)).or_default() += if event.is_taken_back { -1 } else { 1 };
        }
    }
    models.values_mut().for_each(|model| model.retain(|_, weight| *weight != 0));
    models
}

/// What lists show, which get the values of each group in ascending order, each as often as its weight.
fn shown_by_lists(models: &BTreeMap<i64, Model>, phys: Phys) -> Vec<ArrayRef> {
    let finishes = finishes(phys);
    let kinds: Vec<Accumulator> = finishes.iter().map(|&(kind, ..)| Accumulator::Object(kind, phys)).collect();
    let layout = layout_of(&kinds);
    let (mut table, mut slots) = (Table::new(Arc::clone(&layout)), Slots::new(Arc::clone(&layout)));
    let mut position = 0;
    for (group, model) in models {
        let entry = entry_of(&mut table, slots.allocate());
        assert_eq!(slots.len(), *group as usize + 1, "groups are numbered");
        for (&value, &weight) in model {
            for _ in 0..weight.max(0) {
                position += 1;
                let place = Change::Added(Ordinal { position, ..Ordinal::NOWHERE });
                for (component, &(_, offset)) in layout.accumulators.iter().enumerate() {
                    // SAFETY: a component of the entry, with a value of its type.
                    unsafe { table.update_object(entry.add(offset), component, Some(slot_of(phys, value)), place) };
                }
            }
        }
    }
    slots.absorb(table);
    let output = |(component, (_, finish, data_type))| Output { component, finish, data_type };
    let outputs = finishes.into_iter().enumerate().map(output).collect();
    let all: Vec<i64> = (0..slots.len() as i64).collect();
    slots.columns(&all, &OutputTypes { keys: vec![], outputs })
}

/// The sum of all doubles as often as their weights, of which some may be negative.
fn sum_of(model: &Model) -> Cell {
    let weight = |number: usize| model.get(&number).copied().unwrap_or(0);
    let [negative, infinite, none] = [0, 6, 7].map(weight);
    let huge = weight(5) as f64 * HUGE;
    input::float(match (negative, infinite, none) {
        (0, 0, 0) if huge != 0.0 => huge,
        (0, 0, 0) => weight(1) as f64 * -2.25 + weight(4) as f64 * 1.5,
        (_, 0, 0) => f64::NEG_INFINITY,
        (0, _, 0) => f64::INFINITY,
        _ => f64::NAN,
    })
}

/// What [`outputs`] show of groups `0..groups`, column by column.
fn expected(events: &[Event], groups: i64) -> Vec<Vec<Cell>> {
    let models = |phys| {
        let mut models = models(events, phys);
        for group in 0..groups {
            models.entry(group).or_default();
        }
        models
    };
    let mut columns = Vec::new();
    for phys in TYPES {
        let models = models(phys);
        let shown = |model: &Model| -> Vec<usize> {
            model.iter().filter(|&(_, &weight)| weight > 0).map(|(&value, _)| value).collect()
        };
        let end = |value: Option<&usize>| value.map_or(Cell::Null, |&value| cell_of(phys, value));
        columns.push(models.values().map(|model| end(shown(model).first())).collect());
        columns.push(models.values().map(|model| end(shown(model).last())).collect());
        columns.extend(shown_by_lists(&models, phys).iter().map(cells));
    }
    columns.push(models(Phys::F64).values().map(sum_of).collect());
    columns
}

const GROUPS: i64 = 3;

fn shown(slots: &Slots, groups: &[i64]) -> Vec<Vec<Cell>> {
    slots.columns(groups, &slot_types()).iter().map(cells).collect()
}

/// Slots for all groups.
fn slots() -> Slots {
    let mut slots = Slots::new(layout());
    (0..GROUPS).for_each(|group| assert_eq!(slots.allocate(), group));
    slots
}

/// Events, each with the table that it comes to, and an order of the tables.
fn split_events() -> impl Strategy<Value = (Vec<(Event, usize)>, Vec<usize>)> {
    let event = (0..GROUPS, prop::option::weighted(0.9, 0..8usize), prop::bool::weighted(0.4));
    let event = event.prop_map(|(group, value, is_taken_back)| Event { group, value, is_taken_back });
    (prop::collection::vec((event, 0..4usize), 0..150), Just((0..4).collect::<Vec<_>>()).prop_shuffle())
}

fn tables(split: &[(Event, usize)], order: &[usize]) -> Vec<Table> {
    order.iter().map(|table| table_of(split.iter().filter(|(_, of)| of == table).map(|(event, _)| event))).collect()
}

fn opposite(event: &Event) -> Event {
    Event { is_taken_back: !event.is_taken_back, ..*event }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]

    #[test]
    fn partials_of_any_split_show_what_is_left((split, order) in split_events()) {
        let events: Vec<Event> = split.iter().map(|(event, _)| *event).collect();
        let types = OutputTypes { keys: vec![DataType::BigInt], outputs: outputs() };
        let partials: Vec<Arc<Partial>> = tables(&split, &order).into_iter().map(|t| Arc::new(t.seal())).collect();
        let restored: Vec<Arc<Partial>> = partials.iter().map(|p| Arc::new(round_trip(p, &types))).collect();
        let all = expected(&events, GROUPS);
        for partials in [partials, restored] {
            let merged = merge(&partials, partials[0].partitions());
            let columns: Vec<Vec<Cell>> = merged.columns(0..merged.len(), &types, &[]).iter().map(cells).collect();
            prop_assert_eq!(columns[0].len(), models(&events, Phys::I64).len());
            for (row, group) in columns[0].iter().enumerate() {
                let Cell::Int(group) = group else { panic!("{group:?} is no group") };
                let found: Vec<&Cell> = columns[1..].iter().map(|column| &column[row]).collect();
                let expected: Vec<&Cell> = all.iter().map(|column| &column[*group as usize]).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn slots_take_back_what_came_before((split, order) in split_events(), saves in any::<bool>()) {
        let events: Vec<Event> = split.iter().map(|(event, _)| *event).collect();
        let all: Vec<i64> = (0..GROUPS).collect();
        let mut slots = slots();
        for table in tables(&split, &order) {
            slots.absorb(table);
            if saves {
                slots = saved_and_restored(&slots, &layout(), &slot_types());
            }
        }
        prop_assert_eq!(shown(&slots, &all), expected(&events, GROUPS));

        // A copy stays as it is when the slot goes on.
        let copy = slots.allocate();
        slots.copy(copy, 0);
        slots.merge_into(0, 1);
        let moved = events.iter().filter(|e| e.group == 1).map(|event| Event { group: 0, ..*event });
        let both: Vec<Event> = events.iter().copied().chain(moved).collect();
        prop_assert_eq!(shown(&slots, &all), expected(&both, GROUPS));
        let as_before: Vec<Event> = events.iter().filter(|e| e.group == 0).copied().collect();
        prop_assert_eq!(shown(&slots, &[copy]), expected(&as_before, 1));

        // Nothing is left when all is taken back.
        slots.absorb(table_of(&both.iter().map(opposite).collect::<Vec<_>>()));
        prop_assert_eq!(shown(&slots, &all), expected(&[], GROUPS));
        let again = saved_and_restored(&slots, &layout(), &slot_types());
        prop_assert_eq!(shown(&again, &all), expected(&[], GROUPS));
        slots.absorb(table_of(&events));
        prop_assert_eq!(shown(&slots, &all), expected(&events, GROUPS));
    }
}

#[test]
fn groups_without_values_show_nothing() {
    let mut slots = slots();
    // A value that is taken back before it comes.
    let early = Event { group: 1, value: Some(4), is_taken_back: true };
    let other = Event { group: 2, value: None, is_taken_back: false };
    slots.absorb(table_of(&[early, other]));
    let is_count = |output: &Output| output.finish == Finish::Count;
    let columns = shown(&slots, &[0, 1, 2]);
    for (output, column) in outputs().iter().zip(&columns).take(columns.len() - 1) {
        let nothing = if is_count(output) { Cell::Int(0) } else { Cell::Null };
        assert_eq!(*column, vec![nothing; 3], "{output:?}");
    }
    assert_eq!(columns[columns.len() - 1], [0.0, -1.5, 0.0].map(input::float));
    slots.absorb(table_of(&[opposite(&early)]));
    assert_eq!(shown(&slots, &[1]), shown(&slots, &[0]));
}

#[test]
#[should_panic(expected = "only what can forget a value")]
fn lists_forget_nothing() {
    let layout = layout_of(&[Accumulator::Object(ObjectKind::Bag, Phys::I64)]);
    let mut table = Table::new(Arc::clone(&layout));
    let entry = entry_of(&mut table, 0);
    // SAFETY: the only component of the entry, with a value of its type.
    unsafe {
        let place = entry.add(layout.accumulators[0].1);
        table.update_object(place, 0, Some(slot_of(Phys::I64, 0)), Change::TakenBack);
    }
}
