//! Spreading columns of every kind.

use super::*;
use arrow_array::builder::{Int32Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::{BooleanArray, Decimal128Array, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow_buffer::NullBuffer;
use arrow_schema::Field;

/// Six rows of a column of every kind, with NULLs.
fn columns() -> Vec<ArrayRef> {
    let mut lists = ListBuilder::new(Int32Builder::new());
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..6 {
        (0..row).for_each(|i| lists.values().append_value(10 * row + i));
        lists.append(row != 4);
        maps.keys().append_value(format!("key {row}"));
        maps.values().append_value(row);
        maps.append(row != 1).unwrap();
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), None, Some(3), Some(4), None]));
    let lists: ArrayRef = Arc::new(lists.finish());
    let fields =
        vec![Field::new("n", numbers.data_type().clone(), true), Field::new("l", lists.data_type().clone(), true)];
    let present = NullBuffer::from(vec![true, true, true, false, true, true]);
    let rows = StructArray::new(fields.into(), vec![numbers.clone(), lists.clone()], Some(present));
    vec![
        numbers,
        lists,
        Arc::new(maps.finish()),
        Arc::new(rows),
        Arc::new(StringViewArray::from_iter(
            (0..6).map(|i| (i != 3).then(|| format!("a text that is not inline {i}"))),
        )),
        Arc::new(BooleanArray::from(vec![true, false, true, true, false, true])),
        Arc::new(Decimal128Array::from_iter_values(0..6)),
        Arc::new(TimestampMillisecondArray::from_iter_values(0..6).with_timezone("UTC")),
        new_null_array(&DataType::Null, 6),
    ]
}

#[test]
fn survivors_keep_their_values_and_the_others_have_some() {
    for bits in 0u32..64 {
        let rows = BooleanBuffer::collect_bool(6, |row| bits >> row & 1 == 1);
        let indices = UInt32Array::from_iter_values(rows.set_indices().map(|row| row as u32));
        let survivors = Survivors::new(rows.clone());
        assert_eq!(survivors.count(), indices.len());
        for whole in columns() {
            let picked = arrow_select::take::take(&whole, &indices, None).unwrap();
            let spread = survivors.spread(&picked).unwrap();
            assert_eq!((spread.len(), spread.data_type()), (6, whole.data_type()), "{bits:06b}");
            spread.to_data().validate_full().unwrap();
            assert_eq!(&arrow_select::take::take(&spread, &indices, None).unwrap(), &picked, "{bits:06b}");
            let (is_null, nulls) = (whole.data_type() == &DataType::Null, picked.null_count());
            assert!(is_null || nulls > 0 || spread.null_count() == 0, "{bits:06b}: NULL where survivors have none");
        }
    }
}

#[test]
fn rows_between_survivors_have_the_value_before() {
    let rows = BooleanBuffer::from(vec![false, false, true, false, true, false]);
    let survivors = Survivors::new(rows);
    let picked: ArrayRef = Arc::new(Int64Array::from(vec![7, 9]));
    let spread = survivors.spread(&picked).unwrap();
    assert_eq!(spread.as_ref(), &Int64Array::from(vec![7, 7, 7, 7, 9, 9]) as &dyn Array);
    assert_eq!([0, 1].map(|number| survivors.row(number)), [2, 4]);
}
