//! Random rows, tables of them, and what is expected of their groups: every kind of accumulator and of `Finish`.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as Arrow, TimeUnit};
use millstream_abi::*;
use millstream_state::{Change, Ordinal, Output, OutputTypes, Partial, Table};
use millstream_types::DataType;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A row of the input.
#[derive(Debug, Clone)]
pub struct Row {
    pub key: Key,
    /// Its place in the input, of which it is the only row.
    pub place: u64,
    pub number: Option<i64>,
    pub double: Option<f64>,
    pub text: Option<String>,
}

/// Keys: a string that may be NULL, and a number.
pub type Key = (Option<String>, i64);

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Wide(i128),
    /// Bits, with one NaN.
    Float(u64),
    Text(String),
    Array(Vec<Cell>),
    Map(Vec<(Cell, Cell)>),
}

pub fn float(x: f64) -> Cell {
    Cell::Float(if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() })
}

fn number(x: i64) -> Cell {
    Cell::Int(x)
}

fn text(x: &str) -> Cell {
    Cell::Text(x.to_string())
}

/// Some sums of doubles have numbers that are multiples of this, which are kept apart from the others.
const FAR: f64 = (1u128 << 100) as f64;

fn is_far(n: i64) -> bool {
    n % 5 == 0 && n != 0
}

impl Row {
    /// Order of the input is that of ordinals whose parts are all different.
    fn ordinal(&self) -> Ordinal {
        Ordinal {
            watermark: self.place as i64 / 9,
            input: (self.place / 3 % 3) as u16,
            split: 0,
            position: self.place % 3,
            pipeline: 0,
        }
    }

    fn wide(&self) -> Option<i128> {
        self.number.map(|n| i128::from(n) << 70)
    }

    fn flag(&self) -> Option<bool> {
        self.number.map(|n| n % 2 == 0)
    }

    /// The argument of a component.
    fn argument(&self, component: usize, accumulator: Accumulator) -> Option<Slot> {
        let word = self.number.map(|n| Slot::of(n.to_le_bytes()));
        match accumulator.argument()? {
            Phys::Bool => self.flag().map(|b| Slot::of([u8::from(b)])),
            Phys::I64 => word,
            Phys::I128 => self.wide().map(|n| Slot::of(n.to_le_bytes())),
            Phys::F64 if accumulator == Accumulator::SumF64 => {
                let double = |n: i64| if is_far(n) { n as f64 * FAR } else { n as f64 / 4.0 };
                self.number.map(|n| Slot::of(double(n).to_le_bytes()))
            }
            // Maxima of exact numbers; objects of any.
            Phys::F64 if component < 7 => self.number.map(|n| Slot::of((n as f64 / 4.0).to_le_bytes())),
            Phys::F64 => self.double.map(|x| Slot::of(x.to_le_bytes())),
            Phys::Str => self.text.as_ref().map(|t| Slot::of(Str::new(t.as_bytes()).bits().to_le_bytes())),
            other => unreachable!("{other} is no argument"),
        }
    }
}

/// Accumulators that can be subtracted.
pub fn invertible() -> Vec<Accumulator> {
    vec![Accumulator::Count, Accumulator::SumI64, Accumulator::SumI128, Accumulator::SumF64]
}

/// All kinds.
pub fn all() -> Vec<Accumulator> {
    use Accumulator::*;
    let list = |keeps_nulls| ObjectKind::List { keeps_nulls };
    vec![
        Count,
        SumI64,
        SumI128,
        SumF64,
        MinI64,
        MaxF64,
        MinStr,
        MaxStr,
        Object(ObjectKind::Bag, Phys::F64),
        Object(list(true), Phys::Str),
        Object(list(false), Phys::Str),
        Object(ObjectKind::Distinct, Phys::I64),
        Object(ObjectKind::Distinct, Phys::I128),
        Object(ObjectKind::Distinct, Phys::Str),
        Object(ObjectKind::Distinct, Phys::F64),
        Object(ObjectKind::First, Phys::Str),
        Object(ObjectKind::Last, Phys::I128),
        Object(ObjectKind::First, Phys::Bool),
        Object(ObjectKind::Cardinality, Phys::Str),
        Object(ObjectKind::Quantiles, Phys::F64),
        Object(list(false), Phys::Bool),
        Object(ObjectKind::Weights, Phys::F64),
        Object(ObjectKind::Weights, Phys::Str),
    ]
}

/// What is shown of the components.
pub fn outputs(components: &[Accumulator]) -> Vec<Output> {
    let wide = || DataType::decimal(38, 2);
    let array = |t: DataType| DataType::Array(Arc::new(t));
    let multiset = |t: DataType| DataType::Map(Arc::new(t), Arc::new(DataType::Int));
    let of = |component: usize, finish: Finish, data_type: DataType| Output { component, finish, data_type };
    let mut outputs = vec![
        of(0, Finish::Value, DataType::BigInt),
        of(1, Finish::Value, DataType::BigInt),
        of(2, Finish::Value, wide()),
        of(3, Finish::Value, DataType::Double),
    ];
    if components.len() > 4 {
        outputs.extend([
            of(4, Finish::Value, DataType::Timestamp(3)),
            of(5, Finish::Value, DataType::Float),
            of(6, Finish::Value, DataType::STRING),
            of(7, Finish::Value, DataType::BYTES),
            of(8, Finish::Percentile(0.5), DataType::Double),
            of(8, Finish::Percentile(0.3), DataType::Double),
            of(8, Finish::Mode, DataType::Double),
            of(8, Finish::Multiset, multiset(DataType::Double)),
            of(9, Finish::Array, array(DataType::STRING)),
            of(9, Finish::Count, DataType::BigInt),
            of(10, Finish::Join(", ".into()), DataType::STRING),
            of(10, Finish::Mode, DataType::BYTES),
            of(10, Finish::Multiset, multiset(DataType::STRING)),
            of(11, Finish::Count, DataType::BigInt),
            of(11, Finish::Sum, DataType::SmallInt),
            of(12, Finish::Sum, wide()),
            of(9, Finish::DistinctArray, array(DataType::STRING)),
            of(10, Finish::DistinctJoin("-".into()), DataType::STRING),
            of(13, Finish::Multiset, multiset(DataType::STRING)),
            of(14, Finish::Count, DataType::BigInt),
            of(15, Finish::Value, DataType::STRING),
            of(16, Finish::Value, wide()),
            of(17, Finish::Value, DataType::Boolean),
            of(18, Finish::Estimate, DataType::BigInt),
            of(19, Finish::Quantile(0.0), DataType::Double),
            of(20, Finish::Array, array(DataType::Boolean)),
            of(21, Finish::Least, DataType::Double),
            of(21, Finish::Mode, DataType::Double),
            of(22, Finish::Greatest, DataType::STRING),
            of(22, Finish::Multiset, multiset(DataType::STRING)),
        ]);
    }
    outputs
}

/// What [`outputs`] show of a group of rows.
pub fn expected<'a>(rows: impl IntoIterator<Item = &'a Row>, components: &[Accumulator]) -> Vec<Cell> {
    let mut rows: Vec<&Row> = rows.into_iter().collect();
    rows.sort_by_key(|row| row.ordinal());
    let some =
        |cells: Vec<Cell>, make: &dyn Fn(Vec<Cell>) -> Cell| if cells.is_empty() { Cell::Null } else { make(cells) };
    let numbers: Vec<i64> = rows.iter().filter_map(|r| r.number).collect();
    let sum: i64 = numbers.iter().sum();
    // What is far is so far that nothing is seen of the others.
    let (far, near): (Vec<i64>, Vec<i64>) = numbers.iter().partition(|&&n| is_far(n));
    let sum_of_doubles = match far.iter().sum::<i64>() {
        0 => near.iter().sum::<i64>() as f64 / 4.0,
        far => far as f64 * FAR,
    };
    let mut cells =
        vec![number(rows.len() as i64), number(sum), Cell::Wide(i128::from(sum) << 70), float(sum_of_doubles)];
    if components.len() == 4 {
        return cells;
    }
    let texts: Vec<&str> = rows.iter().filter_map(|r| r.text.as_deref()).collect();
    let optional = |t: Option<&&str>| t.map_or(Cell::Null, |t| text(t));
    cells.extend([
        number(numbers.iter().copied().min().unwrap_or(i64::MAX)),
        float(numbers.iter().max().map_or(f64::NEG_INFINITY, |&n| n as f64 / 4.0)),
        optional(texts.iter().min()),
        optional(texts.iter().max()),
    ]);
    let mut doubles: Vec<f64> = rows.iter().filter_map(|r| r.double).collect();
    doubles.sort_by(f64::total_cmp);
    let percentile = |p: f64| {
        let Some(last) = doubles.len().checked_sub(1) else { return Cell::Null };
        let rank = p * last as f64;
        let (low, high) = (doubles[rank.floor() as usize], doubles[rank.ceil() as usize]);
        float(if low == high || rank.fract() == 0.0 { low } else { low + (high - low) * rank.fract() })
    };
    let mut counts: BTreeMap<i64, i32> = BTreeMap::new();
    doubles.iter().for_each(|&x| *counts.entry(order(x)).or_default() += 1);
    let back = |key: i64| float(doubles.iter().copied().find(|&x| order(x) == key).map_or(0.0, |x| x + 0.0));
    let mode = counts.iter().max_by_key(|&(&key, &count)| (count, std::cmp::Reverse(key)));
    let pairs: Vec<(Cell, Cell)> = counts.iter().map(|(&k, &c)| (back(k), number(c.into()))).collect();
    cells.extend([
        percentile(0.5),
        percentile(0.3),
        mode.map_or(Cell::Null, |(&k, _)| back(k)),
        if pairs.is_empty() { Cell::Null } else { Cell::Map(pairs) },
        some(rows.iter().map(|r| optional(r.text.as_deref().as_ref())).collect(), &Cell::Array),
        number(rows.len() as i64),
    ]);
    let mut text_counts: BTreeMap<&str, i64> = BTreeMap::new();
    texts.iter().for_each(|t| *text_counts.entry(t).or_default() += 1);
    let text_mode = text_counts.iter().max_by_key(|&(&t, &c)| (c, std::cmp::Reverse(t))).map(|(t, _)| t);
    let map = |pairs: Vec<(Cell, Cell)>| if pairs.is_empty() { Cell::Null } else { Cell::Map(pairs) };
    let distinct: BTreeSet<i64> = numbers.iter().copied().collect();
    let distinct_sum = (!distinct.is_empty()).then(|| distinct.iter().sum::<i64>());
    let wides = |n: i64| Cell::Wide(i128::from(n) << 70);
    let keys: Vec<&str> = text_counts.keys().copied().collect();
    let nothing_or = |empty: bool, cell: Cell| if empty { Cell::Null } else { cell };
    cells.extend([
        nothing_or(texts.is_empty(), text(&texts.join(", "))),
        optional(text_mode),
        map(text_counts.iter().map(|(t, &c)| (text(t), number(c))).collect()),
        number(distinct.len() as i64),
        distinct_sum.map_or(Cell::Null, |s| number(i64::from(s as i16))),
        distinct_sum.map_or(Cell::Null, wides),
        some(
            firsts(rows.iter().map(|r| r.text.as_deref())).into_iter().map(|t| optional(t.as_ref())).collect(),
            &Cell::Array,
        ),
        nothing_or(keys.is_empty(), text(&firsts(texts.iter().copied()).join("-"))),
        map(keys.iter().map(|t| (text(t), number(1))).collect()),
        number(counts.len() as i64),
        optional(texts.first()),
        numbers.last().map_or(Cell::Null, |&n| wides(n)),
        numbers.first().map_or(Cell::Null, |&n| Cell::Bool(n % 2 == 0)),
        number(keys.len() as i64),
        doubles.first().map_or(Cell::Null, |&x| float(x + 0.0)),
        some(rows.iter().filter_map(|r| r.flag()).map(Cell::Bool).collect(), &Cell::Array),
        doubles.first().map_or(Cell::Null, |&x| float(x)),
        mode.map_or(Cell::Null, |(&k, _)| back(k)),
        optional(texts.iter().max()),
        map(text_counts.iter().map(|(t, &c)| (text(t), number(c))).collect()),
    ]);
    cells
}

/// Each value once, where it first is.
fn firsts<T: PartialEq + Copy>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut firsts = Vec::new();
    for value in values {
        if !firsts.contains(&value) {
            firsts.push(value);
        }
    }
    firsts
}

/// Doubles that are one value have one number, in their order.
fn order(x: f64) -> i64 {
    let bits = (x + 0.0).to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Bits of the number of a partition.
pub fn partition_bits() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(4), Just(6), Just(12)]
}

/// The partitions that have something of partials.
pub fn filled(partials: &[Arc<Partial>]) -> BTreeSet<usize> {
    partials.iter().flat_map(|partial| partial.filled_partitions()).collect()
}

/// In `1 << bits` partitions.
pub fn layout(bits: u32, components: &[Accumulator]) -> Arc<EntryLayout> {
    Arc::new(EntryLayout::new(&[(Phys::Str, true), (Phys::I64, false)], components).in_partitions(bits))
}

pub fn types(components: &[Accumulator]) -> OutputTypes {
    OutputTypes { keys: vec![DataType::STRING, DataType::BigInt], outputs: outputs(components) }
}

/// A table of rows, grouped by their keys.
pub fn table_of<'a>(rows: impl IntoIterator<Item = &'a Row>, layout: &Arc<EntryLayout>) -> Table {
    let mut table = Table::new(Arc::clone(layout));
    fill(&mut table, rows);
    table
}

/// Puts rows into a table as programs do, whether it appends or not.
pub fn fill<'a>(table: &mut Table, rows: impl IntoIterator<Item = &'a Row>) {
    for row in rows {
        let (name, number) = &row.key;
        let string = name.as_ref().map(|name| Str::new(name.as_bytes()));
        // SAFETY: the row is alive.
        let hash = string.map_or(hash_word(HASH_SEED, HASH_SEED), |s| unsafe { hash_str(HASH_SEED, s) });
        let hash = hash_finish(hash_word(hash, *number as u64));
        let slots = [string.map_or(Slot::ZERO, |s| Slot::of(s.bits().to_le_bytes())), Slot::of(number.to_le_bytes())];
        let mask = u64::from(string.is_none());
        // SAFETY: what is not found is not in the table, and the row is alive.
        let entry = search(table, hash).unwrap_or_else(|| unsafe { table.insert(hash, mask, &slots) });
        // SAFETY: an entry of the table.
        unsafe { update(table, entry, row) };
    }
}

/// A table of rows for slots.
pub fn slot_table<'a>(rows: impl IntoIterator<Item = (i64, &'a Row)>, layout: &Arc<EntryLayout>) -> Table {
    let mut table = Table::new(Arc::clone(layout));
    for (slot, row) in rows {
        let hash = hash_finish(hash_word(HASH_SEED, slot as u64));
        let insert = |table: &mut Table| {
            // SAFETY: the slot is not in the table.
            unsafe { table.insert(hash, 0, &[Slot::of(slot.to_le_bytes())]) }
        };
        let entry = search(&mut table, hash).unwrap_or_else(|| insert(&mut table));
        // SAFETY: an entry of the table.
        unsafe { update(&mut table, entry, row) };
    }
    table
}

/// The entry of a hash; hashes of the test do not collide.
pub fn search(table: &mut Table, hash: u64) -> Option<*mut u8> {
    let stride = table.layout().stride;
    // SAFETY: the header is that of a live table, and places are masked.
    unsafe {
        let header = *Table::header_of(table);
        let mut place = hash & header.mask;
        loop {
            let entry = header.entries.add(place as usize * stride);
            match *entry.cast::<u64>() {
                HASH_EMPTY => return None,
                found if found == hash => return Some(entry),
                _ => place = (place + 1) & header.mask,
            }
        }
    }
}

/// Updates an entry as programs do.
///
/// # Safety
/// It is an entry of the table.
unsafe fn update(table: &mut Table, entry: *mut u8, row: &Row) {
    let layout = Arc::clone(table.layout());
    for (i, &(component, offset)) in layout.accumulators.iter().enumerate() {
        let argument = row.argument(i, component);
        let keeps_nulls = matches!(component, Accumulator::Object(ObjectKind::List { keeps_nulls: true }, _));
        if argument.is_none() && component != Accumulator::Count && !keeps_nulls {
            continue;
        }
        let slot = argument.unwrap_or(Slot::ZERO);
        let string = Str::from_bits(u128::from_le_bytes(slot.bytes()));
        // SAFETY: offsets and types are those of the layout, and the row's strings are alive.
        unsafe {
            let place = entry.add(offset);
            let word = i64::from_le_bytes(slot.bytes());
            let number = f64::from_le_bytes(slot.bytes());
            match component {
                Accumulator::Count => *place.cast::<i64>() += 1,
                Accumulator::SumI64 => *place.cast::<i64>() += word,
                Accumulator::SumI128 => *place.cast::<i128>() += i128::from_le_bytes(slot.bytes()),
                Accumulator::SumF64 => match exact::fixed(number) {
                    Some(near) => *place.cast() = exact::add(*place.cast(), near),
                    None => table.update_object(place, i, argument, Change::Added(row.ordinal())),
                },
                Accumulator::MinI64 => *place.cast::<i64>() = word.min(*place.cast()),
                Accumulator::MaxF64 => *place.cast::<f64>() = number.max(*place.cast()),
                Accumulator::MinStr | Accumulator::MaxStr => {
                    let kept = *place.cast::<Str>();
                    let smaller = component == Accumulator::MinStr;
                    if kept == Str::NONE || (string.as_bytes() < kept.as_bytes()) == smaller {
                        *place.cast::<Str>() = table.keep_string(string);
                    }
                }
                Accumulator::Object(..) => table.update_object(place, i, argument, Change::Added(row.ordinal())),
                other => unreachable!("no test uses {other:?}"),
            }
        }
    }
}

/// The cells of a column.
pub fn cells(column: &ArrayRef) -> Vec<Cell> {
    let value = |i: usize| match column.data_type() {
        _ if column.is_null(i) => Cell::Null,
        Arrow::Boolean => Cell::Bool(column.as_boolean().value(i)),
        Arrow::Int16 => number(column.as_primitive::<Int16Type>().value(i).into()),
        Arrow::Int32 => number(column.as_primitive::<Int32Type>().value(i).into()),
        Arrow::Int64 => number(column.as_primitive::<Int64Type>().value(i)),
        Arrow::Date32 => number(column.as_primitive::<Date32Type>().value(i).into()),
        Arrow::Timestamp(TimeUnit::Millisecond, _) => {
            number(column.as_primitive::<TimestampMillisecondType>().value(i))
        }
        Arrow::Decimal128(..) => Cell::Wide(column.as_primitive::<Decimal128Type>().value(i)),
        Arrow::Float32 => float(column.as_primitive::<Float32Type>().value(i).into()),
        Arrow::Float64 => float(column.as_primitive::<Float64Type>().value(i)),
        Arrow::Utf8View => text(column.as_string_view().value(i)),
        Arrow::BinaryView => text(std::str::from_utf8(column.as_binary_view().value(i)).unwrap()),
        Arrow::List(_) => Cell::Array(cells(&column.as_list::<i32>().value(i))),
        Arrow::Map(..) => {
            let entries = column.as_map().value(i);
            Cell::Map(cells(entries.column(0)).into_iter().zip(cells(entries.column(1))).collect())
        }
        other => unreachable!("no test has a column of {other}"),
    };
    (0..column.len()).map(value).collect()
}

/// The cells of each row of some columns.
pub fn rows_of(columns: &[ArrayRef]) -> Vec<Vec<Cell>> {
    let columns: Vec<Vec<Cell>> = columns.iter().map(cells).collect();
    (0..columns[0].len()).map(|i| columns.iter().map(|c| c[i].clone()).collect()).collect()
}

/// Keys and what is shown of each group, in the order of the keys.
pub fn model<'a>(rows: impl IntoIterator<Item = &'a Row>, components: &[Accumulator]) -> Vec<Vec<Cell>> {
    let mut groups: BTreeMap<&Key, Vec<&Row>> = BTreeMap::new();
    rows.into_iter().for_each(|row| groups.entry(&row.key).or_default().push(row));
    let mut result: Vec<Vec<Cell>> = Vec::new();
    for ((name, key), rows) in groups {
        let mut cells = vec![name.as_deref().map_or(Cell::Null, text), number(*key)];
        cells.extend(expected(rows, components));
        result.push(cells);
    }
    result.sort();
    result
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[ab]", "[a-c]{1,3}", "a common prefix of [a-c]{1,2}"]
}

fn any_double() -> impl Strategy<Value = f64> {
    let special = proptest::sample::select(vec![0.0, -0.0, f64::NAN]);
    prop_oneof![4 => (-8i32..8).prop_map(|n| f64::from(n) / 4.0), 1 => special]
}

/// Rows without their places.
pub fn row() -> impl Strategy<Value = Row> {
    use proptest::option::of;
    let key = (of(prop_oneof![any_text(), "a long name that is a key [a-d]"]), 0i64..2);
    (key, of(-5i64..5), of(any_double()), of(any_text())).prop_map(|(key, number, double, text)| Row {
        key,
        place: 0,
        number,
        double,
        text,
    })
}
