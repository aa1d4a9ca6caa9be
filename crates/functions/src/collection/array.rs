//! Bodies of the functions on arrays.

use super::lists::{Lists, Pool, text};
use super::{Input, Output};
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array};
use arrow_row::Row;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// `ARRAY[a, b, …]`
pub fn construct(input: &Input) -> Output {
    let elements: Vec<&ArrayRef> = input.columns.iter().collect();
    let (pool, _, bases) = Pool::with_elements(&[], &elements)?;
    pool.arrays(input, |row, out| {
        out.extend(bases.iter().map(|base| (base + row) as u32));
        Some(())
    })
}

/// An INT argument.
fn int(column: &ArrayRef, row: usize) -> Option<i32> {
    column.is_valid(row).then(|| column.as_primitive::<Int32Type>().value(row))
}

/// `array[index]`: from 1; NULL outside.
pub fn item(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    pool.pick((0..input.rows).map(|row| {
        let elements = lists[0].row(row)?;
        let index = usize::try_from(int(&input.columns[1], row)?).ok()?.checked_sub(1)?;
        (index < elements.len()).then(|| elements.start + index)
    }))
}

/// `CARDINALITY(array)`
pub fn cardinality(input: &Input) -> Output {
    let (_, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let counts: Int32Array = (0..input.rows).map(|row| lists[0].row(row).map(|r| r.len() as i32)).collect();
    Ok(Arc::new(counts))
}

/// `ELEMENT(array)`: an array of more than one element is an error.
pub fn element(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let sole = |row: usize| match lists[0].row(row) {
        Some(elements) if elements.len() > 1 => {
            Err(format!("ELEMENT needs an array of at most one element, not of {}", elements.len()))
        }
        Some(elements) => Ok(elements.into_iter().next()),
        None => Ok(None),
    };
    let positions = (0..input.rows).map(sole).collect::<Result<Vec<_>, _>>()?;
    pool.pick(positions.into_iter())
}

/// Calls `give` with the place of the first element that equals the needle, in each row that has an array.
fn search<T>(input: &Input, give: impl Fn(Option<usize>, bool) -> Option<T>) -> Result<Vec<Option<T>>, String> {
    let (pool, lists, bases) = Pool::with_elements(&[&input.columns[0]], &[&input.columns[1]])?;
    let keys = pool.keys()?;
    let found = |row: usize| {
        let needle = bases[0] + row;
        let place = lists[0].row(row)?.position(|element| keys.at(element) == keys.at(needle));
        give(place, pool.is_null(needle))
    };
    Ok((0..input.rows).map(found).collect())
}

/// `ARRAY_CONTAINS(array, needle)`; a NULL needle is looked for too.
pub fn contains(input: &Input) -> Output {
    Ok(Arc::new(BooleanArray::from(search(input, |place, _| Some(place.is_some()))?)))
}

/// `ARRAY_POSITION(array, needle)`: from 1, 0 when it is not there, NULL for a NULL needle.
pub fn position(input: &Input) -> Output {
    let position = |place: Option<usize>, is_null: bool| (!is_null).then(|| place.map_or(0, |at| at as i32 + 1));
    Ok(Arc::new(Int32Array::from(search(input, position)?)))
}

/// `ARRAY_REMOVE(array, needle)`; a NULL needle removes NULLs.
pub fn remove(input: &Input) -> Output {
    let (pool, lists, bases) = Pool::with_elements(&[&input.columns[0]], &[&input.columns[1]])?;
    let keys = pool.keys()?;
    pool.arrays(input, |row, out| {
        let elements = lists[0].row(row)?;
        let needle = keys.at(bases[0] + row);
        out.extend(elements.filter(|&element| keys.at(element) != needle).map(|element| element as u32));
        Some(())
    })
}

/// Arrays that `fill` puts together from the elements of the first argument and the one that is the second.
fn with_element(input: &Input, fill: impl Fn(&mut Vec<u32>, Range<u32>, u32)) -> Output {
    let (pool, lists, bases) = Pool::with_elements(&[&input.columns[0]], &[&input.columns[1]])?;
    pool.arrays(input, |row, out| {
        let elements = lists[0].row(row)?;
        fill(out, elements.start as u32..elements.end as u32, (bases[0] + row) as u32);
        Some(())
    })
}

/// `ARRAY_APPEND(array, element)`
pub fn append(input: &Input) -> Output {
    with_element(input, |out, elements, element| out.extend(elements.chain([element])))
}

/// `ARRAY_PREPEND(array, element)`
pub fn prepend(input: &Input) -> Output {
    with_element(input, |out, elements, element| out.extend([element].into_iter().chain(elements)))
}

/// `ARRAY_REVERSE(array)`
pub fn reverse(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    pool.arrays(input, |row, out| {
        let elements = lists[0].row(row)?;
        out.extend(elements.rev().map(|element| element as u32));
        Some(())
    })
}

/// `ARRAY_CONCAT(array, …)`
pub fn concat(input: &Input) -> Output {
    let columns: Vec<&ArrayRef> = input.columns.iter().collect();
    let (pool, lists) = Pool::of_lists(&columns)?;
    pool.arrays(input, |row, out| {
        let arrays = rows_of(&lists, row)?;
        out.extend(arrays.into_iter().flatten().map(|element| element as u32));
        Some(())
    })
}

/// The arrays of a row in every column; `None` when one is NULL.
fn rows_of(lists: &[Lists], row: usize) -> Option<Vec<Range<usize>>> {
    lists.iter().map(|list| list.row(row)).collect()
}

/// Arrays without duplicates out of all elements of all arguments, in order, whose keys `keep` accepts: it gets the key
/// and the keys of the last argument.
fn distinct_of(input: &Input, from: Range<usize>, keep: impl Fn(&Row, &HashSet<Row>) -> bool) -> Output {
    let columns: Vec<&ArrayRef> = input.columns.iter().collect();
    let (pool, lists) = Pool::of_lists(&columns)?;
    let keys = pool.keys()?;
    pool.arrays(input, |row, out| {
        let arrays = rows_of(&lists, row)?;
        let last: HashSet<Row> = match arrays.last() {
            Some(last) if arrays.len() > 1 => last.clone().map(|element| keys.at(element)).collect(),
            _ => HashSet::new(),
        };
        let mut seen = HashSet::new();
        for element in arrays[from.clone()].iter().cloned().flatten() {
            let key = keys.at(element);
            if keep(&key, &last) && seen.insert(key) {
                out.push(element as u32);
            }
        }
        Some(())
    })
}

/// `ARRAY_DISTINCT(array)`
pub fn distinct(input: &Input) -> Output {
    distinct_of(input, 0..1, |_, _| true)
}

/// `ARRAY_UNION(a, b)`
pub fn union(input: &Input) -> Output {
    distinct_of(input, 0..2, |_, _| true)
}

/// `ARRAY_INTERSECT(a, b)`
pub fn intersect(input: &Input) -> Output {
    distinct_of(input, 0..1, |key, last| last.contains(key))
}

/// `ARRAY_EXCEPT(a, b)`
pub fn except(input: &Input) -> Output {
    distinct_of(input, 0..1, |key, last| !last.contains(key))
}

/// `ARRAY_SLICE(array, from [, to])`: both from 1, or negative from the end; `to` is included.
pub fn slice(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    pool.arrays(input, |row, out| {
        let to = match input.columns.get(2) {
            Some(column) => int(column, row),
            None => Some(i32::MAX),
        };
        let (elements, from, to) = (lists[0].row(row)?, int(&input.columns[1], row)?, to?);
        let length = elements.len() as i64;
        let place = |offset: i32| match i64::from(offset) {
            0 => 1,
            offset if offset < 0 => length + offset + 1,
            offset => offset,
        };
        let (from, to) = (place(from).max(1), place(to).min(length));
        if from <= to {
            let start = elements.start as i64;
            out.extend((start + from - 1..start + to).map(|element| element as u32));
        }
        Some(())
    })
}

/// `ARRAY_SORT(array [, ascending [, nulls_first]])`: NULLs first when ascending and last when not, unless said.
pub fn sort(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let keys = pool.keys()?;
    let truth = |index: usize, row: usize, otherwise: bool| match input.columns.get(index) {
        Some(column) => column.is_valid(row).then(|| column.as_boolean().value(row)),
        None => Some(otherwise),
    };
    pool.arrays(input, |row, out| {
        let ascending = truth(1, row, true)?;
        let (elements, nulls_first) = (lists[0].row(row)?, truth(2, row, ascending)?);
        let (nulls, mut values): (Vec<usize>, Vec<usize>) = elements.partition(|&element| pool.is_null(element));
        values.sort_by(|&a, &b| if ascending { keys.at(a).cmp(&keys.at(b)) } else { keys.at(b).cmp(&keys.at(a)) });
        let (first, last) = if nulls_first { (nulls, values) } else { (values, nulls) };
        out.extend(first.into_iter().chain(last).map(|element| element as u32));
        Some(())
    })
}

/// The element that `better` prefers to the one so far; NULLs do not take part.
fn extreme(input: &Input, better: fn(&Row, &Row) -> bool) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let keys = pool.keys()?;
    pool.pick((0..input.rows).map(|row| {
        let values = lists[0].row(row)?.filter(|&element| !pool.is_null(element));
        values.reduce(|best, next| if better(&keys.at(next), &keys.at(best)) { next } else { best })
    }))
}

/// `ARRAY_MAX(array)`
pub fn max(input: &Input) -> Output {
    extreme(input, |next, best| next > best)
}

/// `ARRAY_MIN(array)`
pub fn min(input: &Input) -> Output {
    extreme(input, |next, best| next < best)
}

/// `ARRAY_JOIN(array, delimiter [, null_replacement])`: without a replacement NULLs are left out.
pub fn join(input: &Input) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let string =
        |column: &ArrayRef, row: usize| column.is_valid(row).then(|| column.as_string_view().value(row).to_owned());
    let elements = pool.values.as_string_view();
    let mut joined = StringViewBuilder::new();
    for row in 0..input.rows {
        let replacement = input.columns.get(2).map(|column| string(column, row));
        let (Some(range), Some(delimiter)) = (lists[0].row(row), string(&input.columns[1], row)) else {
            joined.append_null();
            continue;
        };
        let replacement = match replacement {
            Some(None) => {
                joined.append_null();
                continue;
            }
            Some(replacement) => replacement,
            None => None,
        };
        let parts: Vec<&str> = range
            .filter_map(|at| if pool.is_null(at) { replacement.as_deref() } else { Some(elements.value(at)) })
            .collect();
        joined.append_value(parts.join(&delimiter));
    }
    Ok(Arc::new(joined.finish()))
}

/// `SPLIT(string, delimiter)`: an empty delimiter cuts between all characters.
pub fn split(input: &Input) -> Output {
    let (strings, delimiters) = (input.columns[0].as_string_view(), input.columns[1].as_string_view());
    let mut parts = StringViewBuilder::new();
    let mut counts = Vec::with_capacity(input.rows);
    for row in 0..input.rows {
        if strings.is_null(row) || delimiters.is_null(row) {
            counts.push(None);
            continue;
        }
        let (s, delimiter) = (strings.value(row), delimiters.value(row));
        let mut count = 0;
        let mut add = |part: &str| {
            parts.append_value(part);
            count += 1;
        };
        match delimiter {
            "" => s.char_indices().for_each(|(at, c)| add(&s[at..at + c.len_utf8()])),
            _ => s.split(delimiter).for_each(&mut add),
        }
        counts.push(Some(count));
    }
    of_counts(Arc::new(parts.finish()), &counts, input)
}

/// Arrays of these numbers of elements, in order.
pub(super) fn of_counts(elements: ArrayRef, counts: &[Option<u32>], input: &Input) -> Output {
    let pool = Pool { values: elements };
    let mut next = 0;
    pool.arrays(input, |row, out| {
        let count = counts[row]?;
        out.extend(next..next + count);
        next += count;
        Some(())
    })
}

/// The strings of each row's JSON array.
pub(super) fn strings_of_json(column: &ArrayRef, rows: usize) -> Result<(ArrayRef, Vec<Option<u32>>), String> {
    let column = column.as_string_view();
    let mut strings = StringViewBuilder::new();
    let mut counts = Vec::with_capacity(rows);
    for row in 0..rows {
        if column.is_null(row) {
            counts.push(None);
            continue;
        }
        let items: Vec<serde_json::Value> = serde_json::from_str(column.value(row)).map_err(text)?;
        counts.push(Some(items.len() as u32));
        for item in items {
            match item {
                serde_json::Value::Null => strings.append_null(),
                serde_json::Value::String(s) => strings.append_value(s),
                other => strings.append_value(other.to_string()),
            }
        }
    }
    Ok((Arc::new(strings.finish()), counts))
}

/// The text of a JSON array as `ARRAY<STRING>`.
pub fn of_json(input: &Input) -> Output {
    let (strings, counts) = strings_of_json(&input.columns[0], input.rows)?;
    of_counts(strings, &counts, input)
}
