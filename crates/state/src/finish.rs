//! What a column shows of objects (`Finish`).

use crate::arrow_column::{byte_strings, floats, integers, primitive};
use crate::object::{Exact, List, Object, Values, key_of_number, number_of_key, positive_zero};
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
    let arrow = data_type.to_arrow();
    match finish {
        Finish::Count | Finish::Estimate => counts(objects, &arrow, |object| match (finish, object) {
            (Finish::Count, Object::List(list)) => list.len() as i64,
            (Finish::Count, Object::Distinct(set)) => set.len() as i64,
            (Finish::Estimate, Object::Cardinality(sketch)) => sketch.estimate(),
            _ => wrong(object, finish),
        }),
        Finish::Percentile(fraction) | Finish::Quantile(fraction) => {
            numbers(objects, &arrow, |object| match (finish, object) {
                (Finish::Percentile(_), Object::List(list)) => percentile(list, *fraction),
                (Finish::Quantile(_), Object::Quantiles(sketch)) => sketch.quantile(*fraction),
                _ => wrong(object, finish),
            })
        }
        Finish::Array => arrays(objects, phys, &arrow, List::in_order),
        Finish::DistinctArray => arrays(objects, phys, &arrow, first_of_each),
        Finish::Multiset => multisets(objects, phys, &arrow),
        Finish::State => single(objects, phys, &arrow, |object, into| match (object, into) {
            (Object::Folded(folded), Values::Strings(bytes, ends)) => {
                let mut kept = ByteWriter::new();
                folded.save(&mut kept);
                bytes.extend_from_slice(&kept.into_bytes());
                ends.push(bytes.len());
                true
            }
            (object, _) => wrong(object, finish),
        }),
        Finish::Value | Finish::Mode | Finish::Sum | Finish::Join(_) | Finish::DistinctJoin(_) => {
            single(objects, phys, &arrow, |object, into| match (finish, object) {
                (Finish::Value, Object::Single(kept)) => {
                    into.push_from(&kept.value, 0);
                    true
                }
                (Finish::Mode, Object::List(list)) => mode(&ascending(list, phys), into),
                (Finish::Sum, Object::Distinct(set)) => sum(&set.ascending(), phys, into),
                (Finish::Join(separator), Object::List(list)) => join(list.in_order(), separator, into),
                (Finish::DistinctJoin(separator), Object::List(list)) => join(first_of_each(list), separator, into),
                _ => wrong(object, finish),
            })
        }
    }
}

fn wrong(object: &Object, finish: &Finish) -> ! {
    unreachable!("{finish:?} does not show {object:?}")
}

/// A column of at most one value of each object: `push` says whether it has pushed one.
fn single(
    objects: &[Option<&Object>],
    phys: Phys,
    arrow: &Arrow,
    mut push: impl FnMut(&Object, &mut Values) -> bool,
) -> ArrayRef {
    let mut values = Values::new(phys);
    let mut valid = Vec::with_capacity(objects.len());
    for object in objects {
        let pushed = object.is_some_and(|object| push(object, &mut values));
        if !pushed {
            values.push_nothing();
        }
        valid.push(pushed);
    }
    values_column(values, phys, Some(NullBuffer::from(valid)), arrow)
}

fn counts(objects: &[Option<&Object>], arrow: &Arrow, count: impl Fn(&Object) -> i64) -> ArrayRef {
    integers(objects.iter().map(|object| object.map_or(0, &count)).collect(), None, arrow)
}

fn numbers(objects: &[Option<&Object>], arrow: &Arrow, number: impl Fn(&Object) -> Option<f64>) -> ArrayRef {
    let numbers: Vec<Option<f64>> = objects.iter().map(|object| object.and_then(&number)).collect();
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

/// The values of a list in ascending order, without NULLs.
fn ascending(list: &List, phys: Phys) -> Values {
    match phys {
        Phys::I128 => Values::Wides(sorted(list, Values::wide)),
        Phys::Str => Values::of_strings(sorted(list, Values::string)),
        _ => Values::Words(sorted(list, |values, i| positive_zero(phys, values.word(i)))),
    }
}

fn sorted<'a, T: Ord>(list: &'a List, value: impl Fn(&'a Values, usize) -> T) -> Vec<T> {
    let mut values = not_null(list, value);
    values.sort_unstable();
    values
}

/// The values of a list that are not NULL, in any order.
fn not_null<'a, T>(list: &'a List, value: impl Fn(&'a Values, usize) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(list.len() - list.null_count());
    for leaf in list.leaves() {
        let own = &leaf.values;
        values.extend((0..own.len()).filter(|&i| !leaf.is_null(i)).map(|i| value(own, i)));
    }
    values
}

/// Runs of equal ones among sorted values: where each begins, and how many they are.
fn runs(sorted: &Values) -> impl Iterator<Item = (usize, i64)> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let first = end;
        end += (first..sorted.len()).take_while(|&i| sorted.compare(first, sorted, i).is_eq()).count();
        (end > first).then_some((first, (end - first) as i64))
    })
}

/// The first of the longest runs.
fn mode(sorted: &Values, into: &mut Values) -> bool {
    let longest = runs(sorted).reduce(|best, run| if run.1 > best.1 { run } else { best });
    longest.iter().for_each(|&(first, _)| into.push_from(sorted, first));
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

/// The number with the rank `fraction · (count - 1)` among the sorted ones, interpolated between neighbours.
fn percentile(list: &List, fraction: f64) -> Option<f64> {
    let mut keys = not_null(list, Values::word);
    let last = keys.len().checked_sub(1)?;
    let rank = fraction.clamp(0.0, 1.0) * last as f64;
    let below = (rank as usize).min(last);
    let part = rank - below as f64;
    let (_, &mut low, above) = keys.select_nth_unstable(below);
    let low = number_of_key(low);
    let Some(high) = above.iter().min().map(|&key| number_of_key(key)).filter(|_| part > 0.0) else {
        return Some(low);
    };
    let distance = high - low;
    Some(if low == high {
        low
    } else if distance.is_finite() {
        low + distance * part
    } else {
        low * (1.0 - part) + high * part
    })
}

/// A value of a list: the leaf that it is in, and its place there.
type ListPlace<'a> = (&'a List, usize);

/// The places of the distinct values of a list, each where it first came, in order of the input.
fn first_of_each(list: &List) -> Vec<ListPlace<'_>> {
    let places = list.in_order();
    let same = |a: usize, b: usize| places[a].0.compare(places[a].1, places[b].0, places[b].1);
    let mut by_value: Vec<usize> = (0..places.len()).collect();
    // Stable: the first of equal values stays the first.
    by_value.sort_by(|&a, &b| same(a, b));
    let mut firsts: Vec<usize> = by_value.chunk_by(|&a, &b| same(a, b).is_eq()).map(|run| run[0]).collect();
    firsts.sort_unstable();
    firsts.into_iter().map(|i| places[i]).collect()
}

fn join(places: Vec<ListPlace<'_>>, separator: &str, into: &mut Values) -> bool {
    let Values::Strings(bytes, ends) = into else { unreachable!("only strings are joined") };
    let start = bytes.len();
    let mut count = 0;
    for (leaf, i) in places.into_iter().filter(|(leaf, i)| !leaf.is_null(*i)) {
        if count > 0 {
            bytes.extend_from_slice(separator.as_bytes());
        }
        bytes.extend_from_slice(leaf.values.string(i));
        count += 1;
    }
    if count > 0 {
        ends.push(bytes.len());
    } else {
        bytes.truncate(start);
    }
    count > 0
}

fn arrays(
    objects: &[Option<&Object>],
    phys: Phys,
    arrow: &Arrow,
    places: for<'a> fn(&'a List) -> Vec<ListPlace<'a>>,
) -> ArrayRef {
    let Arrow::List(element) = arrow else { unreachable!("an ARRAY is stored as a list, not as {arrow}") };
    let mut values = Values::new(phys);
    let mut valid = Vec::new();
    let mut lengths = Vec::with_capacity(objects.len());
    for object in objects {
        let before = values.len();
        match object {
            None => {}
            Some(Object::List(list)) => {
                for (leaf, i) in places(list) {
                    values.push_from(&leaf.values, i);
                    valid.push(!leaf.is_null(i));
                }
            }
            Some(object) => unreachable!("{object:?} has no elements"),
        }
        lengths.push(values.len() - before);
    }
    let nulls = NullBuffer::from_iter(objects.iter().map(Option::is_some));
    let elements = values_column(values, phys, Some(NullBuffer::from(valid)), element.data_type());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(Arc::clone(element), offsets, elements, Some(nulls).filter(|n| n.null_count() > 0)))
}

fn multisets(objects: &[Option<&Object>], phys: Phys, arrow: &Arrow) -> ArrayRef {
    let Arrow::Map(entries, _) = arrow else { unreachable!("a MULTISET is stored as a map, not as {arrow}") };
    let Arrow::Struct(fields) = entries.data_type() else { unreachable!("a map has entries, not {entries}") };
    let mut keys = Values::new(phys);
    let mut counts: Vec<i64> = Vec::new();
    let mut lengths = Vec::with_capacity(objects.len());
    let mut valid = Vec::with_capacity(objects.len());
    for object in objects {
        let before = counts.len();
        let sorted = object.map(|object| match object {
            Object::List(list) => ascending(list, phys),
            Object::Distinct(set) => set.ascending(),
            object => unreachable!("{object:?} has no elements"),
        });
        if let Some(sorted) = sorted {
            for (first, count) in runs(&sorted) {
                keys.push_from(&sorted, first);
                counts.push(count);
            }
        }
        lengths.push(counts.len() - before);
        valid.push(counts.len() > before);
    }
    let keys = values_column(keys, phys, None, fields[0].data_type());
    let counts = integers(counts, None, fields[1].data_type());
    let nulls = Some(NullBuffer::from(valid)).filter(|n| n.null_count() > 0);
    let pairs = StructArray::new(fields.clone(), vec![keys, counts], None);
    Arc::new(MapArray::new(Arc::clone(entries), OffsetBuffer::from_lengths(lengths), pairs, nulls, false))
}
