//! The rows of a chunk that are left, and columns of theirs spread over all rows.
//!
//! A row that is not left has the value of the one before it that is, or of the first one. So a column that is never NULL, or
//! constant, or in a range among the rows that are left is so among all rows, and code that assumes that need not give up for
//! the sake of rows that it drops. Collections are empty there, since copies of theirs could be large, and where no row is
//! left values are zero.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, MapArray, PrimitiveArray, StructArray, UInt32Array,
    downcast_primitive_array, make_array, new_empty_array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// Which rows are left.
pub(crate) struct Survivors {
    rows: BooleanBuffer,
    count: usize,
    /// For each row the number of the survivor whose value it has.
    places: UInt32Array,
}

impl Survivors {
    /// Those of the set bits.
    pub(crate) fn new(rows: BooleanBuffer) -> Survivors {
        let mut seen = 0u32;
        let place = |survives: bool| {
            seen += u32::from(survives);
            seen.saturating_sub(1)
        };
        let places = UInt32Array::from_iter_values(rows.iter().map(place));
        Survivors { rows, count: seen as usize, places }
    }

    /// The set bits.
    pub(crate) fn rows(&self) -> &BooleanBuffer {
        &self.rows
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The row of survivor `number`.
    pub(crate) fn row(&self, number: usize) -> usize {
        self.rows.set_indices().nth(number).unwrap_or(self.rows.len())
    }

    /// A column of the survivors as one of all rows.
    pub(crate) fn spread(&self, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.count == self.rows.len() {
            return Ok(column.clone());
        }
        if self.count == 0 {
            return zeros(column.data_type(), self.rows.len());
        }
        match column.data_type() {
            DataType::Struct(fields) => {
                let rows = column.as_struct();
                let children = rows.columns().iter().map(|child| self.spread(child)).collect::<Result<_, _>>()?;
                let nulls = self.spread_validity(rows.nulls())?;
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, self.rows.len())?))
            }
            DataType::List(field) => {
                let list = column.as_list::<i32>();
                let nulls = self.spread_validity(list.nulls())?;
                let offsets = self.spread_offsets(list.offsets());
                Ok(Arc::new(ListArray::try_new(field.clone(), offsets, list.values().clone(), nulls)?))
            }
            DataType::Map(field, is_sorted) => {
                let map = column.as_map();
                let nulls = self.spread_validity(map.nulls())?;
                let offsets = self.spread_offsets(map.offsets());
                Ok(Arc::new(MapArray::try_new(field.clone(), offsets, map.entries().clone(), nulls, *is_sorted)?))
            }
            _ => downcast_primitive_array!(
                column => self.spread_primitive(column),
                _ => arrow_select::take::take(column, &self.places, None),
            ),
        }
    }

    /// Numbers, run by run: there may be few survivors, and then runs are long.
    fn spread_primitive<T: ArrowPrimitiveType>(&self, column: &PrimitiveArray<T>) -> Result<ArrayRef, ArrowError> {
        let mut spread = Vec::with_capacity(self.rows.len());
        let ends = self.rows.set_indices().skip(1).chain([self.rows.len()]);
        for (value, end) in column.values().iter().zip(ends) {
            spread.resize(end, *value);
        }
        let nulls = self.spread_validity(column.nulls())?;
        let spread = PrimitiveArray::<T>::try_new(spread.into(), nulls)?;
        Ok(Arc::new(spread.with_data_type(column.data_type().clone())))
    }

    fn spread_validity(&self, nulls: Option<&NullBuffer>) -> Result<Option<NullBuffer>, ArrowError> {
        let Some(nulls) = nulls else { return Ok(None) };
        let valid = BooleanArray::new(nulls.inner().clone(), None);
        let valid = arrow_select::take::take(&valid, &self.places, None)?;
        Ok(Some(NullBuffer::new(valid.as_boolean().values().clone())))
    }

    /// Collections of the survivors; those of the other rows are empty.
    fn spread_offsets(&self, offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i32> {
        let mut next = 0;
        let length = |survives: bool| {
            next += usize::from(survives);
            if survives { (offsets[next] - offsets[next - 1]) as usize } else { 0 }
        };
        let mut spread: Vec<i32> = Vec::with_capacity(self.rows.len() + 1);
        let mut end = offsets[0];
        spread.push(end);
        spread.extend(self.rows.iter().map(length).map(|length| {
            end += length as i32;
            end
        }));
        OffsetBuffer::new(spread.into())
    }
}

/// Rows of zero, the empty text, empty collections.
fn zeros(data_type: &DataType, rows: usize) -> Result<ArrayRef, ArrowError> {
    match data_type {
        DataType::Null => Ok(new_null_array(data_type, rows)),
        DataType::Struct(fields) => {
            let children = fields.iter().map(|field| zeros(field.data_type(), rows)).collect::<Result<_, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), children, None, rows)?))
        }
        DataType::Map(field, is_sorted) => {
            let entries = new_empty_array(field.data_type()).as_struct().clone();
            let offsets = OffsetBuffer::new_zeroed(rows);
            Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, None, *is_sorted)?))
        }
        _ => {
            // NULLs are kept as zeros.
            let zeros = new_null_array(data_type, rows).into_data().into_builder().nulls(None);
            zeros.build().map(make_array)
        }
    }
}

#[cfg(test)]
mod tests;
