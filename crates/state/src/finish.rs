//! What a column shows of objects and lists (`Finish`).

mod weights;

use crate::arrow_column::{byte_strings, floats, integers, primitive};
use crate::list::{self, Element, List, Run};
use crate::object::{Exact, Object, Values, Weights, key_of_number, number_of_key};
use arrow_array::types::Decimal128Type;
use arrow_array::{ArrayRef, ListArray, MapArray, NullArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType as Arrow;
use millstream_abi::{Finish, Phys};
use millstream_storage::ByteWriter;
use millstream_types::DataType;
use std::sync::Arc;

/// A column of the type that shows objects whose values are of the type `phys`; `None` has seen no value.
///
/// # Panics
/// When the objects are not of the kind that the finish is for.
pub(crate) fn column(objects: &[Option<&Object>], phys: Phys, finish: &Finish, data_type: &DataType) -> ArrayRef {
    let (arrow, rows) = (data_type.to_arrow(), objects.len());
    match finish {
        Finish::Estimate => {
            let count = |object: &Object| match object {
                Object::Cardinality(sketch) => sketch.estimate(),
                _ => wrong(object, finish),
            };
            integers(objects.iter().map(|object| object.map_or(0, count)).collect(), None, &arrow)
        }
        Finish::Quantile(fraction) => numbers(rows, &arrow, |row| match objects[row]? {
            Object::Quantiles(sketch) => sketch.quantile(*fraction),
            object => wrong(object, finish),
        }),
        Finish::State | Finish::Value => single(rows, phys, &arrow, |row, into| match (finish, objects[row], into) {
            (_, None, _) => false,
            (Finish::State, Some(Object::Folded(folded)), Values::Strings(bytes, ends)) => {
                let mut kept = ByteWriter::new();
                folded.save(&mut kept);
                bytes.extend_from_slice(&kept.into_bytes());
                ends.push(bytes.len());
                true
            }
            (Finish::Value, Some(Object::Single(kept)), into) => {
                into.push_from(&kept.value, 0);
                true
            }
            (_, Some(object), _) => wrong(object, finish),
        }),
        _ => {
            let weights = objects.iter().map(|object| {
                object.map(|object| match object {
                    Object::Weights(weights) => weights,
                    _ => wrong(object, finish),
                })
            });
            let weights: Vec<Option<&Weights>> = weights.collect();
            weights::column(&weights, phys, finish, &arrow)
        }
    }
}

fn wrong(object: &Object, finish: &Finish) -> ! {
    unreachable!("{finish:?} does not show {object:?}")
}

/// A column of the type that shows lists; null has seen no value.
///
/// # Safety
/// They are of such elements, and alive.
///
/// # Panics
/// When the finish is not for lists.
pub(crate) unsafe fn list_column(
    runs: &[Run],
    element: Element,
    phys: Phys,
    finish: &Finish,
    data_type: &DataType,
) -> ArrayRef {
    let (arrow, rows) = (data_type.to_arrow(), runs.len());
    let mut list = List::new(element);
    let gather = |row: usize, list: &mut List| {
        // SAFETY: promised by the caller.
        unsafe { list.gather(runs[row]) };
        !runs[row].is_null()
    };
    match finish {
        Finish::Count => {
            let count = |row: usize| {
                // SAFETY: promised by the caller.
                let (len, is_run) = unsafe { (list::len(runs[row]), list::is_run(runs[row])) };
                if is_run || !element.is_distinct {
                    return len as i64;
                }
                gather(row, &mut list);
                list.sort();
                list.values.len() as i64
            };
            integers((0..rows).map(count).collect(), None, &arrow)
        }
        Finish::Percentile(fraction) => numbers(rows, &arrow, |row| {
            gather(row, &mut list);
            percentile(&mut list, *fraction)
        }),
        Finish::Array | Finish::DistinctArray => arrays(rows, phys, &arrow, |row, values, valid| {
            let is_there = gather(row, &mut list);
            let places = if *finish == Finish::Array { list.in_order() } else { first_of_each(&list) };
            for i in places {
                values.push_from(&list.values, i);
                valid.push(!list.is_null(i));
            }
            is_there
        }),
        Finish::Multiset => multisets(rows, phys, &arrow, |row, keys, counts| {
            gather(row, &mut list);
            list.sort();
            for (first, count) in runs_of(&list.values) {
                keys.push_from(&list.values, first);
                counts.push(count);
            }
        }),
        _ => single(rows, phys, &arrow, |row, into| {
            gather(row, &mut list)
                && match finish {
                    Finish::Sum if element.is_distinct => {
                        list.sort();
                        sum(&list.values, phys, into)
                    }
                    Finish::Mode => {
                        list.sort();
                        mode(&list.values, runs_of(&list.values), into)
                    }
                    Finish::Join(separator) => join(strings_at(&list, list.in_order()), separator, into),
                    Finish::DistinctJoin(separator) => join(strings_at(&list, first_of_each(&list)), separator, into),
                    _ => unreachable!("{finish:?} does not show a list"),
                }
        }),
    }
}

/// A column of at most one value of each row: `push` says whether it has pushed one.
fn single(rows: usize, phys: Phys, arrow: &Arrow, mut push: impl FnMut(usize, &mut Values) -> bool) -> ArrayRef {
    let mut values = Values::new(phys);
    let mut valid = Vec::with_capacity(rows);
    for row in 0..rows {
        let pushed = push(row, &mut values);
        if !pushed {
            values.push_nothing();
        }
        valid.push(pushed);
    }
    values_column(values, phys, Some(NullBuffer::from(valid)), arrow)
}

fn numbers(rows: usize, arrow: &Arrow, number: impl FnMut(usize) -> Option<f64>) -> ArrayRef {
    let numbers: Vec<Option<f64>> = (0..rows).map(number).collect();
    let nulls = NullBuffer::from_iter(numbers.iter().map(Option::is_some));
    floats(numbers.into_iter().map(|x| x.unwrap_or(0.0)).collect(), Some(nulls), arrow)
}

/// Values as a column of the Arrow type.
fn values_column(values: Values, phys: Phys, nulls: Option<NullBuffer>, arrow: &Arrow) -> ArrayRef {
    let nulls = nulls.filter(|n| n.null_count() > 0);
    match values {
        values if *arrow == Arrow::Null => Arc::new(NullArray::new(values.len())),
        Values::Words(words) if phys == Phys::F64 => {
            floats(words.into_iter().map(number_of_key).collect(), nulls, arrow)
        }
        Values::Words(words) => integers(words, nulls, arrow),
        Values::Wides(wides) => primitive::<Decimal128Type>(wides, nulls, arrow),
        // SAFETY: strings of a character column have come from one, and joined strings are put together from them.
        Values::Strings(..) => unsafe { byte_strings(values.len(), |i| values.string(i), nulls.as_ref(), arrow) },
    }
}

/// Runs of equal ones among sorted values: where each begins, and how many they are.
fn runs_of(sorted: &Values) -> impl Iterator<Item = (usize, i64)> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let first = end;
        end += (first..sorted.len()).take_while(|&i| sorted.compare(first, sorted, i).is_eq()).count();
        (end > first).then_some((first, (end - first) as i64))
    })
}

/// The value of the first of the longest runs.
fn mode(values: &Values, runs: impl Iterator<Item = (usize, i64)>, into: &mut Values) -> bool {
    let longest = runs.reduce(|best, run| if run.1 > best.1 { run } else { best });
    longest.iter().for_each(|&(first, _)| into.push_from(values, first));
    longest.is_some()
}

/// The sum, that of doubles rounded once; integers wrap. `false`, and nothing
/// pushed, when decimals do not fit 128 bits.
fn sum(values: &Values, phys: Phys, into: &mut Values) -> bool {
    match (values, into) {
        (Values::Words(words), Values::Words(into)) if phys == Phys::F64 => {
            let mut sum = Exact::new();
            words.iter().for_each(|&word| sum.push(number_of_key(word)));
            into.push(key_of_number(sum.nearest()));
        }
        (Values::Words(words), Values::Words(into)) => into.push(words.iter().fold(0, |a, &b| a.wrapping_add(b))),
        (Values::Wides(wides), Values::Wides(into)) => {
            let (total, wraps) = wides.iter().fold((0i128, 0i64), |(total, wraps), &wide| {
                let (total, wrapped) = total.overflowing_add(wide);
                (total, wraps + i64::from(wrapped) * if wide < 0 { -1 } else { 1 })
            });
            if wraps != 0 {
                return false;
            }
            into.push(total);
        }
        _ => unreachable!("strings have no sum"),
    }
    true
}

/// The number with the rank `fraction · (count - 1)` among the sorted ones, interpolated between neighbours. Puts the values of the bag
/// in another order.
fn percentile(list: &mut List, fraction: f64) -> Option<f64> {
    list.keep_values();
    let Values::Words(keys) = &mut list.values else { unreachable!("only numbers have percentiles") };
    let (below, part) = rank(keys.len(), fraction)?;
    let (_, &mut low, above) = keys.select_nth_unstable(below);
    let low = number_of_key(low);
    let Some(high) = above.iter().min().map(|&key| number_of_key(key)).filter(|_| part > 0.0) else {
        return Some(low);
    };
    Some(between(low, high, part))
}

/// The rank `fraction · (count - 1)`: its integer and the part beyond; `None` of no numbers.
fn rank(count: usize, fraction: f64) -> Option<(usize, f64)> {
    let last = count.checked_sub(1)?;
    let rank = fraction.clamp(0.0, 1.0) * last as f64;
    let below = (rank as usize).min(last);
    Some((below, rank - below as f64))
}

/// The number at a part of the way from one to the next.
fn between(low: f64, high: f64, part: f64) -> f64 {
    let distance = high - low;
    if low == high {
        low
    } else if distance.is_finite() {
        low + distance * part
    } else {
        low * (1.0 - part) + high * part
    }
}

/// The distinct values of a list, each where it first came, in order of the input.
fn first_of_each(list: &List) -> Vec<usize> {
    let places = list.in_order();
    let same = |a: usize, b: usize| list.compare(places[a], places[b]);
    let mut by_value: Vec<usize> = (0..places.len()).collect();
    // Stable: the first of equal values stays the first.
    by_value.sort_by(|&a, &b| same(a, b));
    let mut firsts: Vec<usize> = by_value.chunk_by(|&a, &b| same(a, b).is_eq()).map(|run| run[0]).collect();
    firsts.sort_unstable();
    firsts.into_iter().map(|i| places[i]).collect()
}

/// The strings at places of a list, without NULLs.
fn strings_at(list: &List, places: Vec<usize>) -> impl Iterator<Item = &[u8]> {
    places.into_iter().filter(|&i| !list.is_null(i)).map(|i| list.values.string(i))
}

/// Appends the strings as one; `false`, and nothing appended, if there are none.
fn join<'a>(strings: impl Iterator<Item = &'a [u8]>, separator: &str, into: &mut Values) -> bool {
    let Values::Strings(bytes, ends) = into else { unreachable!("only strings are joined") };
    let mut is_first = true;
    for string in strings {
        if !is_first {
            bytes.extend_from_slice(separator.as_bytes());
        }
        bytes.extend_from_slice(string);
        is_first = false;
    }
    if !is_first {
        ends.push(bytes.len());
    }
    !is_first
}

/// Arrays: `push` appends the elements of a row, each with whether it is not NULL, and says whether there is an array.
fn arrays(
    rows: usize,
    phys: Phys,
    arrow: &Arrow,
    mut push: impl FnMut(usize, &mut Values, &mut Vec<bool>) -> bool,
) -> ArrayRef {
    let Arrow::List(field) = arrow else { unreachable!("an ARRAY is stored as a list, not as {arrow}") };
    let (mut values, mut valid) = (Values::new(phys), Vec::new());
    let (mut is_there, mut lengths) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let before = values.len();
        is_there.push(push(row, &mut values, &mut valid));
        lengths.push(values.len() - before);
    }
    let nulls = NullBuffer::from(is_there);
    let elements = values_column(values, phys, Some(NullBuffer::from(valid)), field.data_type());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(Arc::clone(field), offsets, elements, Some(nulls).filter(|n| n.null_count() > 0)))
}

/// Maps from values to their counts: `push` appends those of a row, in ascending order.
fn multisets(
    rows: usize,
    phys: Phys,
    arrow: &Arrow,
    mut push: impl FnMut(usize, &mut Values, &mut Vec<i64>),
) -> ArrayRef {
    let Arrow::Map(entries, _) = arrow else { unreachable!("a MULTISET is stored as a map, not as {arrow}") };
    let Arrow::Struct(fields) = entries.data_type() else { unreachable!("a map has entries, not {entries}") };
    let mut keys = Values::new(phys);
    let mut counts: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(rows);
    let mut valid = Vec::with_capacity(rows);
    for row in 0..rows {
        let before = counts.len();
        push(row, &mut keys, &mut counts);
        lengths.push(counts.len() - before);
        valid.push(counts.len() > before);
    }
    let keys = values_column(keys, phys, None, fields[0].data_type());
    let counts = integers(counts, None, fields[1].data_type());
    let nulls = Some(NullBuffer::from(valid)).filter(|n| n.null_count() > 0);
    let pairs = StructArray::new(fields.clone(), vec![keys, counts], None);
    Arc::new(MapArray::new(Arc::clone(entries), OffsetBuffer::from_lengths(lengths), pairs, nulls, false))
}
