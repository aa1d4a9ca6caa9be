//! Sorting rows by columns of any type: each value becomes a number that sorts as the value does.

use crate::columns::unselectable;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use millstream_plan::pipeline::SortColumn;
use millstream_types::Diagnostic;
use std::cmp::Ordering;

/// Bytes of a string that are in its number.
const PREFIX: usize = 15;

/// The values of a column to sort by.
pub(crate) struct SortKeys {
    numbers: Vec<u128>,
    /// Strings, which decide between equal numbers, and whether they descend.
    strings: Option<(ArrayRef, bool)>,
}

impl SortKeys {
    /// The keys of a column, with direction and place of NULLs.
    pub(crate) fn new(column: &ArrayRef, sort: SortColumn) -> Result<SortKeys, Diagnostic> {
        let (mut numbers, is_string) = numbers(column)?;
        if sort.descending {
            numbers.iter_mut().for_each(|n| *n = !*n);
        }
        if let Some(nulls) = column.logical_nulls() {
            let null = if sort.nulls_first { 0 } else { u128::MAX };
            (0..numbers.len()).filter(|&i| nulls.is_null(i)).for_each(|i| numbers[i] = null);
        }
        Ok(SortKeys { numbers, strings: is_string.then(|| (column.clone(), sort.descending)) })
    }

    /// Compares two rows.
    pub(crate) fn compare(&self, a: u32, b: u32) -> Ordering {
        self.compare_with(a as usize, self, b as usize)
    }

    /// Compares a row with one of other rows, whose keys are of the same column.
    pub(crate) fn compare_with(&self, row: usize, other: &SortKeys, other_row: usize) -> Ordering {
        let by_number = self.numbers[row].cmp(&other.numbers[other_row]);
        match (&self.strings, &other.strings) {
            (Some((column, descending)), Some((other, _))) if by_number.is_eq() => {
                // Two NULLs are equal; a NULL and a string have different numbers.
                let order = bytes(column, row).cmp(bytes(other, other_row));
                if *descending { order.reverse() } else { order }
            }
            _ => by_number,
        }
    }

    /// Bytes of memory, without those of the column.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.numbers)
    }
}

/// Compares two rows by several columns.
pub(crate) fn compare(keys: &[SortKeys], a: u32, b: u32) -> Ordering {
    keys.iter().map(|k| k.compare(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

fn bytes(column: &ArrayRef, row: usize) -> &[u8] {
    if column.is_null(row) {
        return &[];
    }
    match column.as_string_view_opt() {
        Some(strings) => strings.value(row).as_bytes(),
        None => column.as_binary_view().value(row),
    }
}

/// Values as numbers of the same order, away from 0 and `u128::MAX`, which are for NULLs; whether they are only prefixes
/// of strings.
fn numbers(column: &ArrayRef) -> Result<(Vec<u128>, bool), Diagnostic> {
    /// Between the ends, as 64 bits of a value leave room on both sides.
    fn integer(value: i64) -> u128 {
        (1 << 64) | u128::from(value as u64 ^ 1 << 63)
    }
    fn float(value: f64) -> u128 {
        // All NaNs are one value, above all others; zeroes are equal.
        let bits = if value.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { (value + 0.0).to_bits() };
        (1 << 64) | u128::from(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }
    fn prefix(bytes: &[u8]) -> u128 {
        let mut number = [0u8; 16];
        number[0] = 1;
        let length = bytes.len().min(PREFIX);
        number[1..=length].copy_from_slice(&bytes[..length]);
        u128::from_be_bytes(number)
    }
    macro_rules! integers {
        ($t:ty) => {
            column.as_primitive::<$t>().values().iter().map(|&v| integer(v as i64)).collect()
        };
    }
    let numbers = match column.data_type() {
        Arrow::Null => vec![0; column.len()],
        Arrow::Boolean => column.as_boolean().values().iter().map(|b| integer(b as i64)).collect(),
        Arrow::Int8 => integers!(Int8Type),
        Arrow::Int16 => integers!(Int16Type),
        Arrow::Int32 => integers!(Int32Type),
        Arrow::Int64 => integers!(Int64Type),
        Arrow::Date32 => integers!(Date32Type),
        Arrow::Time32(TimeUnit::Millisecond) => integers!(Time32MillisecondType),
        Arrow::Timestamp(TimeUnit::Second, _) => integers!(TimestampSecondType),
        Arrow::Timestamp(TimeUnit::Millisecond, _) => integers!(TimestampMillisecondType),
        Arrow::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
        Arrow::Timestamp(TimeUnit::Nanosecond, _) => integers!(TimestampNanosecondType),
        Arrow::Interval(IntervalUnit::YearMonth) => integers!(IntervalYearMonthType),
        Arrow::Duration(TimeUnit::Millisecond) => integers!(DurationMillisecondType),
        Arrow::Float32 => column.as_primitive::<Float32Type>().values().iter().map(|&v| float(v.into())).collect(),
        Arrow::Float64 => column.as_primitive::<Float64Type>().values().iter().map(|&v| float(v)).collect(),
        // 38 digits are below 2^127, so that the shifted number is at neither end.
        Arrow::Decimal128(..) => {
            column.as_primitive::<Decimal128Type>().values().iter().map(|&v| v as u128 ^ 1 << 127).collect()
        }
        Arrow::Utf8View | Arrow::BinaryView => {
            return Ok(((0..column.len()).map(|i| prefix(bytes(column, i))).collect(), true));
        }
        other => return Err(unselectable(format!("{other} has no order"))),
    };
    Ok((numbers, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Decimal128Array, Float64Array, Int32Array, StringViewArray};
    use std::sync::Arc;

    fn sorted(column: ArrayRef, descending: bool, nulls_first: bool) -> Vec<u32> {
        let keys = [SortKeys::new(&column, SortColumn { column: 0, descending, nulls_first }).unwrap()];
        let mut rows: Vec<u32> = (0..column.len() as u32).collect();
        rows.sort_by(|&a, &b| compare(&keys, a, b));
        rows
    }

    #[test]
    fn values_of_all_kinds_are_in_order() {
        let floats = [Some(f64::NAN), Some(1.5), None, Some(-0.0), Some(f64::INFINITY), Some(-2.0), Some(0.0)];
        let floats: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        assert_eq!(sorted(floats.clone(), false, true), [2, 5, 3, 6, 1, 4, 0]);
        assert_eq!(sorted(floats, true, false), [0, 4, 1, 3, 6, 5, 2]);
        let decimals = [Some(-(10i128.pow(38)) + 1), None, Some(10i128.pow(38) - 1), Some(0)];
        let decimals: ArrayRef = Arc::new(Decimal128Array::from(decimals.to_vec()));
        assert_eq!(sorted(decimals.clone(), false, false), [0, 3, 2, 1]);
        assert_eq!(sorted(decimals, true, true), [1, 2, 3, 0]);
        let integers: ArrayRef = Arc::new(Int32Array::from(vec![i32::MAX, 0, -1, i32::MIN]));
        assert_eq!(sorted(integers, false, false), [3, 2, 1, 0]);
        let booleans: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]));
        assert_eq!(sorted(booleans, false, true), [1, 2, 0]);
        let texts = [Some("a long string, the second"), Some(""), None, Some("a long string, first"), Some("é")];
        let texts: ArrayRef = Arc::new(StringViewArray::from(texts.to_vec()));
        assert_eq!(sorted(texts.clone(), false, false), [1, 3, 0, 4, 2]);
        assert_eq!(sorted(texts, true, true), [2, 4, 0, 3, 1]);
    }
}
