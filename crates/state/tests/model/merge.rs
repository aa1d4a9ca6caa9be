//! Merges of partials of plain accumulators against a map from keys to rows.

use crate::input::{filled, partition_bits};
use crate::saved::round_trip;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use millstream_abi::*;
use millstream_state::{MemoryBudget, Output, OutputTypes, Partial, Table, merge};
use millstream_types::DataType;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key of all physical types that SQL groups by; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    flag: bool,
    tiny: Option<i8>,
    small: i16,
    int: i32,
    big: Option<i64>,
    decimal: i128,
    float: i8,
    double: Option<i8>,
    text: Option<String>,
}

/// What one row adds.
#[derive(Debug, Clone)]
struct Row {
    key: Key,
    number: i64,
    wide: i128,
    double: f64,
    text: String,
}

/// The model's accumulators: count, sums, minima and maxima.
#[derive(Debug, Clone, PartialEq)]
struct Expected {
    count: i64,
    sum: i64,
    sum_wide: i128,
    sum_double: f64,
    min: i64,
    max: i64,
    min_double: f64,
    max_double: f64,
    min_text: String,
    max_text: String,
}

fn layout(bits: u32) -> Arc<EntryLayout> {
    use Accumulator::*;
    let layout = EntryLayout::new(
        &[
            (Phys::Bool, false),
            (Phys::I8, true),
            (Phys::I16, false),
            (Phys::I32, false),
            (Phys::I64, true),
            (Phys::I128, false),
            (Phys::F32, false),
            (Phys::F64, true),
            (Phys::Str, true),
        ],
        &[Count, SumI64, SumI128, SumF64, MinI64, MaxI64, MinI128, MaxI128, MinF64, MaxF64, MinStr, MaxStr],
    );
    Arc::new(layout.in_partitions(bits))
}

fn types() -> OutputTypes {
    let wide = DataType::decimal(38, 2);
    OutputTypes {
        keys: vec![
            DataType::Boolean,
            DataType::TinyInt,
            DataType::SmallInt,
            DataType::Date,
            DataType::TimestampLtz(3),
            DataType::decimal(20, 0),
            DataType::Float,
            DataType::Double,
            DataType::STRING,
        ],
        outputs: values(vec![
            DataType::BigInt,
            DataType::Int,
            wide.clone(),
            DataType::Double,
            DataType::BigInt,
            DataType::BigInt,
            wide.clone(),
            wide,
            DataType::Double,
            DataType::Float,
            DataType::STRING,
            DataType::BYTES,
        ]),
    }
}

/// The plain values of components of these types.
fn values(types: Vec<DataType>) -> Vec<Output> {
    let outputs = types.into_iter().enumerate();
    outputs.map(|(component, data_type)| Output { component, finish: Finish::Value, data_type }).collect()
}

fn slots(key: &Key) -> (u64, u64, Vec<Slot>) {
    let mut hash = HASH_SEED;
    let mut mask = 0;
    let mut slots = Vec::new();
    let mut fold = |slot: Option<Slot>, folded: &dyn Fn(u64) -> u64| {
        hash = if slot.is_some() { folded(hash) } else { hash_word(hash, HASH_SEED) };
        mask |= (slot.is_none() as u64) << slots.len();
        slots.push(slot.unwrap_or(Slot::ZERO));
    };
    let int = |v: i64| move |h: u64| hash_word(h, v as u64);
    fold(Some(Slot::of([key.flag as u8])), &int(key.flag as i64));
    fold(key.tiny.map(|v| Slot::of(v.to_le_bytes())), &int(key.tiny.unwrap_or(0) as i64));
    fold(Some(Slot::of(key.small.to_le_bytes())), &int(key.small as i64));
    fold(Some(Slot::of(key.int.to_le_bytes())), &int(key.int as i64));
    fold(key.big.map(|v| Slot::of(v.to_le_bytes())), &int(key.big.unwrap_or(0)));
    fold(Some(Slot::of(key.decimal.to_le_bytes())), &|h| hash_wide(h, key.decimal as u128));
    // -0.0 and 0.0 are one group: half of the zeros are given as -0.0.
    let zero = if key.flag { -0.0 } else { 0.0 };
    let float = if key.float == 0 { zero } else { key.float as f64 };
    let bits = |x: f64| (x + 0.0).to_bits();
    fold(Some(Slot::of((float as f32).to_le_bytes())), &|h| hash_word(h, bits(float)));
    fold(key.double.map(|v| Slot::of((v as f64).to_le_bytes())), &|h| {
        hash_word(h, bits(key.double.unwrap_or(0) as f64))
    });
    let text = Str::new(key.text.as_deref().unwrap_or("").as_bytes());
    // SAFETY: the key outlives the hash.
    fold(key.text.as_ref().map(|_| Slot::of(text.bits().to_le_bytes())), &|h| unsafe { hash_str(h, text) });
    (hash_finish(hash), mask, slots)
}

/// Updates one entry as generated code does.
///
/// # Safety
/// `entry` is an entry of `layout` in `table`.
unsafe fn update(table: &mut Table, layout: &EntryLayout, entry: *mut u8, row: &Row) {
    for &(component, offset) in &layout.accumulators {
        // SAFETY: offsets and types are those of the layout.
        unsafe {
            let place = entry.add(offset);
            macro_rules! change {
                ($type:ty, $f:expr) => {{
                    let place = place.cast::<$type>();
                    let change: &mut dyn FnMut($type) -> $type = &mut $f;
                    *place = change(*place);
                }};
            }
            let text = Str::new(row.text.as_bytes());
            match component {
                Accumulator::Group | Accumulator::Object(..) => unreachable!("the model has none"),
                Accumulator::Count => change!(i64, |c| c + 1),
                Accumulator::SumI64 => change!(i64, |s| s.wrapping_add(row.number)),
                Accumulator::SumI128 => change!(i128, |s| s.wrapping_add(row.wide)),
                Accumulator::SumF64 => change!(exact::Fixed, |sum| {
                    exact::add(sum, exact::fixed(row.double).expect("the model has no other"))
                }),
                Accumulator::MinI64 => change!(i64, |m| m.min(row.number)),
                Accumulator::MaxI64 => change!(i64, |m| m.max(row.number)),
                Accumulator::MinI128 => change!(i128, |m| m.min(row.wide)),
                Accumulator::MaxI128 => change!(i128, |m| m.max(row.wide)),
                Accumulator::MinF64 => change!(f64, |m| if m.is_nan() { row.double } else { m.min(row.double) }),
                Accumulator::MaxF64 => change!(f64, |m| m.max(row.double)),
                Accumulator::MinStr => change!(Str, |m| {
                    if m == Str::NONE || row.text.as_bytes() < m.as_bytes() { table.keep_string(text) } else { m }
                }),
                Accumulator::MaxStr => change!(Str, |m| {
                    if m == Str::NONE || row.text.as_bytes() > m.as_bytes() { table.keep_string(text) } else { m }
                }),
            }
        }
    }
}

/// One worker's table over some of the rows, with a search of the test's own.
fn table_of<'a>(rows: impl Iterator<Item = &'a Row>, bits: u32) -> Table {
    let layout = layout(bits);
    let mut table = Table::new(Arc::clone(&layout));
    let mut seen: BTreeMap<Key, (u64, u64, Vec<Slot>)> = BTreeMap::new();
    for row in rows {
        let (hash, mask, slots) = seen.entry(row.key.clone()).or_insert_with(|| slots(&row.key)).clone();
        let entry = search(&mut table, hash).unwrap_or_else(|| {
            // SAFETY: the search has not found the key, and `row` outlives the call.
            unsafe { table.insert(hash, mask, &slots) }
        });
        // SAFETY: the entry was found in or inserted into the table.
        unsafe { update(&mut table, &layout, entry, row) };
    }
    table
}

/// Finds a key as generated code does; the test's hashes do not collide but for equal keys.
fn search(table: &mut Table, hash: u64) -> Option<*mut u8> {
    let stride = table.layout().stride;
    // SAFETY: the header is that of a live table, and places are masked.
    unsafe {
        let header = Table::header_of(table);
        let mut place = hash & (*header).mask;
        loop {
            let entry = (*header).entries.add(place as usize * stride);
            match *entry.cast::<u64>() {
                0 => return None,
                h if h == hash => return Some(entry),
                _ => place = (place + 1) & (*header).mask,
            }
        }
    }
}

fn expected(rows: &[Row]) -> BTreeMap<Key, Expected> {
    let mut model: BTreeMap<Key, Expected> = BTreeMap::new();
    for row in rows {
        let e = model.entry(row.key.clone()).or_insert_with(|| Expected {
            count: 0,
            sum: 0,
            sum_wide: 0,
            sum_double: 0.0,
            min: i64::MAX,
            max: i64::MIN,
            min_double: f64::INFINITY,
            max_double: f64::NEG_INFINITY,
            min_text: row.text.clone(),
            max_text: row.text.clone(),
        });
        e.count += 1;
        e.sum = e.sum.wrapping_add(row.number);
        e.sum_wide = e.sum_wide.wrapping_add(row.wide);
        // Doubles of the test are multiples of 1/4 below 2^50, so their sum is exact.
        e.sum_double += row.double;
        e.min = e.min.min(row.number);
        e.max = e.max.max(row.number);
        e.min_double = e.min_double.min(row.double);
        e.max_double = e.max_double.max(row.double);
        e.min_text = e.min_text.clone().min(row.text.clone());
        e.max_text = e.max_text.clone().max(row.text.clone());
    }
    model
}

/// Reads the output columns back.
fn actual(columns: &[ArrayRef], wide: &dyn Fn(&Key) -> (i128, i128)) -> BTreeMap<Key, Expected> {
    let rows = columns[0].len();
    let mut result = BTreeMap::new();
    for i in 0..rows {
        let key = Key {
            flag: columns[0].as_boolean().value(i),
            tiny: columns[1].is_valid(i).then(|| columns[1].as_primitive::<Int8Type>().value(i)),
            small: columns[2].as_primitive::<Int16Type>().value(i),
            int: columns[3].as_primitive::<Date32Type>().value(i),
            big: columns[4].is_valid(i).then(|| columns[4].as_primitive::<TimestampMillisecondType>().value(i)),
            decimal: columns[5].as_primitive::<Decimal128Type>().value(i),
            float: columns[6].as_primitive::<Float32Type>().value(i) as i8,
            double: columns[7].is_valid(i).then(|| columns[7].as_primitive::<Float64Type>().value(i) as i8),
            text: columns[8].is_valid(i).then(|| columns[8].as_string_view().value(i).to_string()),
        };
        let c = &columns[9..];
        assert!(!columns[6].as_primitive::<Float32Type>().value(i).is_sign_negative() || key.float != 0);
        let (min_wide, max_wide) = wide(&key);
        assert_eq!(c[6].as_primitive::<Decimal128Type>().value(i), min_wide);
        assert_eq!(c[7].as_primitive::<Decimal128Type>().value(i), max_wide);
        let value = Expected {
            count: c[0].as_primitive::<Int64Type>().value(i),
            // SUM(INT) wraps to 32 bits.
            sum: c[1].as_primitive::<Int32Type>().value(i) as i64,
            sum_wide: c[2].as_primitive::<Decimal128Type>().value(i),
            sum_double: c[3].as_primitive::<Float64Type>().value(i),
            min: c[4].as_primitive::<Int64Type>().value(i),
            max: c[5].as_primitive::<Int64Type>().value(i),
            min_double: c[8].as_primitive::<Float64Type>().value(i),
            max_double: c[9].as_primitive::<Float32Type>().value(i) as f64,
            min_text: c[10].as_string_view().value(i).to_string(),
            max_text: String::from_utf8(c[11].as_binary_view().value(i).to_vec()).unwrap(),
        };
        assert!(result.insert(key, value).is_none(), "a key appears once");
    }
    result
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-c]{1,12}", "common prefix of [a-d]{1,40}"]
}

fn key() -> impl Strategy<Value = Key> {
    let small = (any::<bool>(), proptest::option::of(-2i8..2), -2i16..2, -1i32..2, proptest::option::of(-1i64..2));
    let large = (-1i128..2, -2i8..3, proptest::option::of(-1i8..2), proptest::option::of(text()));
    (small, large).prop_map(|((flag, tiny, small, int, big), (decimal, float, double, text))| Key {
        flag,
        tiny,
        small,
        int,
        big,
        decimal: decimal << 70,
        float,
        double,
        text,
    })
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let keys = proptest::collection::vec(key(), 1..60);
    (keys, 1usize..400).prop_flat_map(|(keys, rows)| {
        let row = (0..keys.len(), any::<i64>(), any::<i64>(), -1_000_000i64..1_000_000, text());
        proptest::collection::vec(row, rows).prop_map(move |rows| {
            rows.into_iter()
                .map(|(k, number, wide, double, text)| Row {
                    key: keys[k].clone(),
                    number,
                    wide: (wide as i128) << 40,
                    double: double as f64 / 4.0,
                    text,
                })
                .collect()
        })
    })
}

fn all_columns(partials: &[Arc<Partial>], window: &[i64]) -> Vec<ArrayRef> {
    let merged = merge(partials, partials[0].partitions());
    merged.columns(0..merged.len(), &types(), window)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn merged_partials_are_the_groups_of_all_rows(rows in rows(), workers in 1usize..5, bits in partition_bits()) {
        let partials: Vec<Arc<Partial>> = (0..workers)
            .map(|w| Arc::new(table_of(rows.iter().skip(w).step_by(workers), bits).seal()))
            .collect();
        let wide = |key: &Key| {
            let of_key = || rows.iter().filter(|r| r.key == *key).map(|r| r.wide);
            (of_key().min().unwrap(), of_key().max().unwrap())
        };
        let mut model = expected(&rows);
        for e in model.values_mut() {
            e.sum = e.sum as i32 as i64;
            e.max_double = e.max_double as f32 as f64;
        }
        let columns = all_columns(&partials, &[5, 15]);
        prop_assert_eq!(actual(&columns, &wide), model);
        let ends = columns[columns.len() - 1].as_primitive::<TimestampMillisecondType>();
        prop_assert!(ends.values().iter().all(|&end| end == 15));

        // The same rows in one table give the same columns, in the same order.
        let one = Arc::new(table_of(rows.iter(), bits).seal());
        prop_assert_eq!(&columns, &all_columns(&[one], &[5, 15]));

        // Nor does it matter whether they have been elsewhere.
        let restored: Vec<_> = partials.iter().map(|partial| Arc::new(round_trip(partial, &types()))).collect();
        prop_assert_eq!(&columns, &all_columns(&restored, &[5, 15]));

        // Nor whether they have been put together before.
        let compacted = Arc::new(Partial::compacted(&partials, &MemoryBudget::new(1 << 30)));
        prop_assert!(compacted.is_distinct());
        drop(partials);
        prop_assert_eq!(&columns, &all_columns(std::slice::from_ref(&compacted), &[5, 15]));
        let partials = vec![compacted];

        // Partitions one by one are the whole.
        let mut whole = 0;
        for p in filled(&partials) {
            let merged = merge(&partials, p..p + 1);
            let part = merged.columns(0..merged.len(), &types(), &[5, 15]);
            for (part, all) in part.iter().zip(&columns) {
                prop_assert_eq!(&**part, &*all.slice(whole, merged.len()));
            }
            whole += merged.len();
        }
        prop_assert_eq!(whole, columns[0].len());
    }
}

#[test]
fn components_that_saw_no_value_have_their_documented_outputs() {
    let mut table = Table::new(layout(4));
    let key =
        Key { flag: true, tiny: None, small: 0, int: 0, big: None, decimal: 0, float: 0, double: None, text: None };
    let (hash, mask, slots) = slots(&key);
    // SAFETY: the table is empty.
    unsafe { table.insert(hash, mask, &slots) };
    let columns = all_columns(&[Arc::new(table.seal())], &[]);
    assert_eq!(columns.len(), 9 + 12);
    assert_eq!(columns[9].as_primitive::<Int64Type>().value(0), 0);
    assert!(columns[19].is_null(0) && columns[20].is_null(0), "MIN and MAX of no string are NULL");
    assert!(columns[8].is_null(0) && columns[1].is_null(0));
}
