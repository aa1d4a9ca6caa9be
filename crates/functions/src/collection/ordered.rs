//! Arrays that aggregate functions have gathered, in the order of others: `ARRAY_AGG(x ORDER BY y)`, `LISTAGG(s ORDER BY y)`.
//!
//! The first argument has the values of a group, each further one the values of a key of the same rows in the same order. A group without
//! rows has no arrays, and no result.

use super::lists::{Lists, Pool, text};
use super::{Input, Output};
use arrow_array::ArrayRef;
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use std::cmp::Ordering;
use std::sync::Arc;

/// How the values of a key are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyOrder {
    /// From the largest to the smallest.
    pub descending: bool,
    /// NULL before all others.
    pub nulls_first: bool,
}

/// The values of a key, which can be compared.
struct Key {
    lists: Vec<Lists>,
    rows: Rows,
}

impl Key {
    fn new(column: &ArrayRef, order: KeyOrder) -> Result<Key, String> {
        let (pool, lists) = Pool::of_lists(&[column])?;
        let options = SortOptions { descending: order.descending, nulls_first: order.nulls_first };
        let field = SortField::new_with_options(pool.values.data_type().clone(), options);
        let converter = RowConverter::new(vec![field]).map_err(text)?;
        let rows = converter.convert_columns(std::slice::from_ref(&pool.values)).map_err(text)?;
        Ok(Key { lists, rows })
    }

    /// Compares two places of the array of a row.
    fn compare(&self, row: usize, a: usize, b: usize) -> Ordering {
        let start = self.lists[0].row(row).map_or(0, |range| range.start);
        self.rows.row(start + a).cmp(&self.rows.row(start + b))
    }
}

fn keys(input: &Input, orders: &[KeyOrder]) -> Result<Vec<Key>, String> {
    input.columns[1..].iter().zip(orders).map(|(column, &order)| Key::new(column, order)).collect()
}

/// The places of `count` values of a row in order. Equal ones stay as they are.
fn sorted(keys: &[Key], row: usize, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    let compare = |&a: &usize, &b: &usize| {
        keys.iter().map(|key| key.compare(row, a, b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    places.sort_by(compare);
    places
}

/// The values in order, with NULLs if they are kept; NULL without values.
pub fn arrays(input: &Input, orders: &[KeyOrder], keeps_nulls: bool) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let keys = keys(input, orders)?;
    pool.arrays(input, |row, out| {
        let (values, before) = (lists[0].row(row)?, out.len());
        let places = sorted(&keys, row, values.len()).into_iter().map(|place| values.start + place);
        out.extend(places.filter(|&value| keeps_nulls || !pool.is_null(value)).map(|value| value as u32));
        (out.len() > before).then_some(())
    })
}

/// The texts in order with a separator between them; NULL without one.
pub fn texts(input: &Input, orders: &[KeyOrder], separator: &str) -> Output {
    let (pool, lists) = Pool::of_lists(&[&input.columns[0]])?;
    let (keys, values) = (keys(input, orders)?, pool.values.as_string_view());
    let mut joined = StringViewBuilder::new();
    for row in 0..input.rows {
        let range = lists[0].row(row).unwrap_or(0..0);
        let places = sorted(&keys, row, range.len()).into_iter().map(|place| range.start + place);
        let parts: Vec<&str> = places.filter(|&value| !pool.is_null(value)).map(|value| values.value(value)).collect();
        joined.append_option((!parts.is_empty()).then(|| parts.join(separator)));
    }
    Ok(Arc::new(joined.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int32Builder, ListBuilder};
    use arrow_array::{Array, Int32Array};

    type Lists<'a> = &'a [Option<&'a [Option<i32>]>];

    fn column(lists: Lists<'_>) -> ArrayRef {
        let mut builder = ListBuilder::new(Int32Builder::new());
        lists.iter().for_each(|list| builder.append_option(list.map(|values| values.iter().copied())));
        Arc::new(builder.finish())
    }

    #[test]
    fn values_follow_their_keys() {
        let values = column(&[Some(&[Some(1), None, Some(3), Some(4)]), None, Some(&[Some(5)]), Some(&[None])]);
        let first = column(&[Some(&[Some(2), Some(1), None, Some(2)]), None, Some(&[None]), Some(&[Some(0)])]);
        let second = column(&[Some(&[Some(7), Some(7), Some(7), Some(8)]), None, Some(&[None]), Some(&[Some(0)])]);
        let (rows, result) = (values.len(), values.data_type().clone());
        let columns = [values, first, second];
        let input = Input { columns: &columns, rows, result: &result };
        let order = |descending, nulls_first| KeyOrder { descending, nulls_first };
        let shown = |keeps_nulls, orders: [KeyOrder; 2]| -> Vec<Option<Vec<Option<i32>>>> {
            let sorted = arrays(&input, &orders, keeps_nulls).unwrap();
            let of = |list: ArrayRef| list.as_any().downcast_ref::<Int32Array>().unwrap().iter().collect();
            sorted.as_list::<i32>().iter().map(|list| list.map(of)).collect()
        };
        let ascending = [order(false, true), order(false, true)];
        let in_order = vec![Some(3), None, Some(1), Some(4)];
        assert_eq!(shown(true, ascending), [Some(in_order), None, Some(vec![Some(5)]), Some(vec![None])]);
        let without = vec![Some(4), Some(1), Some(3)];
        let descending = [order(true, false), order(true, false)];
        assert_eq!(shown(false, descending), [Some(without), None, Some(vec![Some(5)]), None]);
    }
}
