//! Columns of arrays, taken apart and put together.
//!
//! Every array of a result is a choice among the elements of one *pool* (all elements of all arguments), so functions
//! only compute positions; the elements are copied once, at the end, whatever their type.

use super::{Input, Output};
use arrow_array::builder::{BooleanBufferBuilder, BufferBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, UInt32Array};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_row::{Row, RowConverter, Rows, SortField};
use arrow_schema::DataType as Arrow;
use arrow_select::{concat, take};
use std::fmt::Display;
use std::ops::Range;

/// An error of Arrow as a message.
pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}

/// The arrays of a column, as positions in a pool.
#[derive(Debug)]
pub(super) struct Lists {
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    /// Where the elements of this column start in the pool.
    base: usize,
}

impl Lists {
    /// Positions of the elements of a row; `None` for NULL.
    pub(super) fn row(&self, row: usize) -> Option<Range<usize>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let (start, end) = (self.offsets[row] as usize, self.offsets[row + 1] as usize);
        Some(self.base + start..self.base + end)
    }
}

/// Elements of several columns together.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) values: ArrayRef,
}

impl Pool {
    /// The elements of these columns one after the other, and where each column starts.
    fn of(columns: &[ArrayRef]) -> Result<(Pool, Vec<usize>), String> {
        let mut start = 0;
        let bases = columns
            .iter()
            .map(|column| {
                let base = start;
                start += column.len();
                base
            })
            .collect();
        let all: Vec<&dyn Array> = columns.iter().map(|column| &**column).collect();
        let values = match columns {
            [one] => one.clone(),
            _ => concat::concat(&all).map_err(text)?,
        };
        Ok((Pool { values }, bases))
    }

    /// The elements of columns of arrays.
    pub(super) fn of_lists(columns: &[&ArrayRef]) -> Result<(Pool, Vec<Lists>), String> {
        Pool::with_elements(columns, &[]).map(|(pool, lists, _)| (pool, lists))
    }

    /// The elements of columns of arrays, and after them columns of single elements with the position of their first.
    pub(super) fn with_elements(
        columns: &[&ArrayRef],
        elements: &[&ArrayRef],
    ) -> Result<(Pool, Vec<Lists>, Vec<usize>), String> {
        let lists: Vec<&ListArray> = columns.iter().map(|column| column.as_list::<i32>()).collect();
        let parts: Vec<ArrayRef> =
            lists.iter().map(|list| list.values().clone()).chain(elements.iter().map(|&e| e.clone())).collect();
        let (pool, mut bases) = Pool::of(&parts)?;
        let singles = bases.split_off(lists.len());
        let lists = lists
            .into_iter()
            .zip(bases)
            .map(|(list, base)| Lists { offsets: list.offsets().clone(), nulls: list.nulls().cloned(), base })
            .collect();
        Ok((pool, lists, singles))
    }

    /// Whether an element is NULL.
    pub(super) fn is_null(&self, position: usize) -> bool {
        self.values.is_null(position)
    }

    /// Elements in a form that can be compared, NULLs first and equal to each other.
    pub(super) fn keys(&self) -> Result<Keys, String> {
        let converter = RowConverter::new(vec![SortField::new(self.values.data_type().clone())]).map_err(text)?;
        converter.convert_columns(std::slice::from_ref(&self.values)).map(Keys).map_err(text)
    }

    /// One element for each row, NULL for none.
    pub(super) fn pick(&self, positions: impl Iterator<Item = Option<usize>>) -> Output {
        let positions: UInt32Array = positions.map(|position| position.map(|p| p as u32)).collect();
        take::take(&self.values, &positions, None).map_err(text)
    }

    /// A column of arrays of the type asked for: `fill` appends the positions of a row's elements; `None` for no array
    /// at all.
    pub(super) fn arrays(&self, input: &Input, mut fill: impl FnMut(usize, &mut Vec<u32>) -> Option<()>) -> Output {
        let &Input { rows, result, .. } = input;
        let Arrow::List(element) = result else { return Err(format!("{result} is not a type of arrays")) };
        let mut positions = Vec::new();
        let mut offsets = BufferBuilder::<i32>::new(rows + 1);
        let mut valid = BooleanBufferBuilder::new(rows);
        offsets.append(0);
        for row in 0..rows {
            valid.append(fill(row, &mut positions).is_some());
            offsets.append(i32::try_from(positions.len()).map_err(|_| "the arrays have too many elements")?);
        }
        let values = take::take(&self.values, &UInt32Array::from(positions), None).map_err(text)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets.finish()));
        let nulls = NullBuffer::new(valid.finish());
        let list = ListArray::try_new(element.clone(), offsets, values, Some(nulls)).map_err(text)?;
        Ok(std::sync::Arc::new(list))
    }
}

/// Elements of a pool in a form that can be compared and hashed.
#[derive(Debug)]
pub(super) struct Keys(Rows);

impl Keys {
    /// The element at a position.
    pub(super) fn at(&self, position: usize) -> Row<'_> {
        self.0.row(position)
    }
}
