//! Bodies of the functions on maps.

use super::array::strings_of_json;
use super::lists::{Keys, Lists, Pool, text};
use super::{Input, Output};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array, ListArray, MapArray, StructArray, UInt32Array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_row::Row;
use arrow_schema::DataType as Arrow;
use arrow_select::take;
use std::collections::HashMap;
use std::sync::Arc;

/// Keys or values of a column of maps as a column of arrays.
fn as_lists(map: &MapArray, values: &ArrayRef) -> Result<ArrayRef, String> {
    let element = Arc::new(arrow_schema::Field::new("element", values.data_type().clone(), true));
    let list = ListArray::try_new(element, map.offsets().clone(), values.clone(), map.nulls().cloned());
    list.map(|list| Arc::new(list) as ArrayRef).map_err(text)
}

fn keys_and_values(column: &ArrayRef) -> Result<(ArrayRef, ArrayRef), String> {
    let map = column.as_map();
    Ok((as_lists(map, map.keys())?, as_lists(map, map.values())?))
}

/// Entries of a row, as positions of keys and values; of equal keys the last value wins.
struct Entries<'k> {
    keys: &'k Keys,
    places: HashMap<Row<'k>, usize>,
    positions: Vec<(u32, u32)>,
    start: usize,
}

impl<'k> Entries<'k> {
    fn new(keys: &'k Keys) -> Entries<'k> {
        Entries { keys, places: HashMap::new(), positions: vec![], start: 0 }
    }

    /// Starts the next map.
    fn next_row(&mut self) {
        self.places.clear();
        self.start = self.positions.len();
    }

    fn add(&mut self, pool: &Pool, key: usize, value: usize) -> Result<(), String> {
        if pool.is_null(key) {
            return Err("a key of a MAP is NULL".to_owned());
        }
        match self.places.get(&self.keys.at(key)) {
            Some(&place) => self.positions[place].1 = value as u32,
            None => {
                self.places.insert(self.keys.at(key), self.positions.len());
                self.positions.push((key as u32, value as u32));
            }
        }
        Ok(())
    }
}

/// A column of maps: `fill` adds the entries of a row, and says whether there is a map at all.
fn maps<'k>(
    keys: &Pool,
    values: &Pool,
    key_order: &'k Keys,
    input: &Input,
    mut fill: impl FnMut(usize, &mut Entries<'k>) -> Result<bool, String>,
) -> Output {
    let Arrow::Map(entries_field, sorted) = input.result else {
        return Err(format!("{} is not a type of maps", input.result));
    };
    let Arrow::Struct(fields) = entries_field.data_type() else {
        return Err(format!("{} is not a type of entries", entries_field.data_type()));
    };
    let mut entries = Entries::new(key_order);
    let mut valid = Vec::with_capacity(input.rows);
    let mut lengths = Vec::with_capacity(input.rows);
    for row in 0..input.rows {
        entries.next_row();
        valid.push(fill(row, &mut entries)?);
        lengths.push(entries.positions.len() - entries.start);
    }
    let taken = |pool: &Pool, side: fn(&(u32, u32)) -> u32| {
        let positions: UInt32Array = entries.positions.iter().map(side).map(Some).collect();
        take::take(&pool.values, &positions, None).map_err(text)
    };
    let columns = vec![taken(keys, |entry| entry.0)?, taken(values, |entry| entry.1)?];
    let structs = StructArray::try_new(fields.clone(), columns, None).map_err(text)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    MapArray::try_new(entries_field.clone(), offsets, structs, nulls, *sorted)
        .map(|map| Arc::new(map) as ArrayRef)
        .map_err(text)
}

/// `MAP[key, value, …]`
pub fn construct(input: &Input) -> Output {
    let keys: Vec<&ArrayRef> = input.columns.iter().step_by(2).collect();
    let values: Vec<&ArrayRef> = input.columns.iter().skip(1).step_by(2).collect();
    let (keys, _, key_bases) = Pool::with_elements(&[], &keys)?;
    let (values, _, value_bases) = Pool::with_elements(&[], &values)?;
    let order = keys.keys()?;
    maps(&keys, &values, &order, input, |row, entries| {
        for (key, value) in key_bases.iter().zip(&value_bases) {
            entries.add(&keys, key + row, value + row)?;
        }
        Ok(true)
    })
}

/// `MAP_FROM_ARRAYS(keys, values)`
pub fn from_arrays(input: &Input) -> Output {
    let (keys, key_lists) = Pool::of_lists(&[&input.columns[0]])?;
    let (values, value_lists) = Pool::of_lists(&[&input.columns[1]])?;
    let order = keys.keys()?;
    maps(&keys, &values, &order, input, |row, entries| {
        let (Some(key_range), Some(value_range)) = (key_lists[0].row(row), value_lists[0].row(row)) else {
            return Ok(false);
        };
        if key_range.len() != value_range.len() {
            return Err(format!(
                "MAP_FROM_ARRAYS needs as many values as keys: there are {} keys and {} values",
                key_range.len(),
                value_range.len()
            ));
        }
        for (key, value) in key_range.zip(value_range) {
            entries.add(&keys, key, value)?;
        }
        Ok(true)
    })
}

/// `MAP_UNION(map, …)`: where keys are equal, the later map wins.
pub fn union(input: &Input) -> Output {
    let parts = input.columns.iter().map(keys_and_values).collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<&ArrayRef> = parts.iter().map(|(keys, _)| keys).collect();
    let (keys, key_lists) = Pool::of_lists(&columns)?;
    let columns: Vec<&ArrayRef> = parts.iter().map(|(_, values)| values).collect();
    let (values, value_lists) = Pool::of_lists(&columns)?;
    let order = keys.keys()?;
    let all = |lists: &[Lists], row: usize| lists.iter().map(|list| list.row(row)).collect::<Option<Vec<_>>>();
    maps(&keys, &values, &order, input, |row, entries| {
        let (Some(key_ranges), Some(value_ranges)) = (all(&key_lists, row), all(&value_lists, row)) else {
            return Ok(false);
        };
        for (key, value) in key_ranges.into_iter().flatten().zip(value_ranges.into_iter().flatten()) {
            entries.add(&keys, key, value)?;
        }
        Ok(true)
    })
}

/// The map of keys and values in turn, in the text of a JSON array.
pub fn of_json(input: &Input) -> Output {
    let (strings, counts) = strings_of_json(&input.columns[0], input.rows)?;
    let pool = Pool { values: strings };
    let order = pool.keys()?;
    let mut next = 0;
    maps(&pool, &pool, &order, input, |row, entries| {
        let Some(count) = counts[row] else { return Ok(false) };
        for key in (next..next + count as usize).step_by(2) {
            entries.add(&pool, key, key + 1)?;
        }
        next += count as usize;
        Ok(true)
    })
}

/// `map[key]`; NULL for a key that is not there.
pub fn item(input: &Input) -> Output {
    let (keys, values) = keys_and_values(&input.columns[0])?;
    let (pool, lists, bases) = Pool::with_elements(&[&keys], &[&input.columns[1]])?;
    let (values, value_lists) = Pool::of_lists(&[&values])?;
    let order = pool.keys()?;
    values.pick((0..input.rows).map(|row| {
        let needle = order.at(bases[0] + row);
        let place = lists[0].row(row)?.position(|key| order.at(key) == needle)?;
        Some(value_lists[0].row(row)?.start + place)
    }))
}

/// `CARDINALITY(map)`
pub fn cardinality(input: &Input) -> Output {
    let map = input.columns[0].as_map();
    let count = |row: usize| map.is_valid(row).then(|| map.value_length(row));
    Ok(Arc::new((0..input.rows).map(count).collect::<Int32Array>()))
}

/// `MAP_KEYS(map)`
pub fn keys(input: &Input) -> Output {
    let map = input.columns[0].as_map();
    as_lists(map, map.keys())
}

/// `MAP_VALUES(map)`
pub fn values(input: &Input) -> Output {
    let map = input.columns[0].as_map();
    as_lists(map, map.values())
}

/// `MAP_ENTRIES(map)`
pub fn entries(input: &Input) -> Output {
    let map = input.columns[0].as_map();
    let Arrow::List(element) = input.result else { return Err(format!("{} is not a type of arrays", input.result)) };
    let Arrow::Struct(fields) = element.data_type() else {
        return Err(format!("{} is not a type of rows", element.data_type()));
    };
    let columns = vec![map.keys().clone(), map.values().clone()];
    let rows = StructArray::try_new(fields.clone(), columns, None).map_err(text)?;
    let list = ListArray::try_new(element.clone(), map.offsets().clone(), Arc::new(rows), map.nulls().cloned());
    list.map(|list| Arc::new(list) as ArrayRef).map_err(text)
}
