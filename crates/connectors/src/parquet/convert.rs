//! Columns of a Parquet file → columns of the table's types.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millstream_types::DataType;
use std::sync::Arc;

/// The field at a path of names below `array`; NULL where a row on the way is. `None` if there is no such field.
pub(super) fn field_below(array: &ArrayRef, path: &[String]) -> Result<Option<ArrayRef>, String> {
    let Some((name, rest)) = path.split_first() else { return Ok(Some(array.clone())) };
    let Some(rows) = array.as_struct_opt() else {
        return Err(format!("{} has no fields", array.data_type()));
    };
    let Some(child) = rows.column_by_name(name) else { return Ok(None) };
    let child = match rows.nulls() {
        Some(nulls) if nulls.null_count() > 0 => masked(child, nulls)?,
        _ => child.clone(),
    };
    field_below(&child, rest)
}

fn masked(array: &ArrayRef, parent: &NullBuffer) -> Result<ArrayRef, String> {
    let absent = BooleanArray::new(!parent.inner(), None);
    arrow_select::nullif::nullif(array, &absent).map_err(|e| e.to_string())
}

/// The column in the Arrow type of `wanted`. Fails when the types have nothing to do with each other or a value does not
/// fit.
pub(super) fn fit(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, String> {
    let target = wanted.to_arrow();
    if *array.data_type() == target {
        return Ok(array.clone());
    }
    let mismatch = || format!("{} cannot be read as {wanted}", array.data_type());
    if let DataType::Row(fields) = wanted {
        let rows = array.as_struct_opt().ok_or_else(mismatch)?;
        let child = |field: &millstream_types::Field| match rows.column_by_name(&field.name) {
            Some(child) => fit(child, &field.data_type),
            None => Ok(new_null_array(&field.data_type.to_arrow(), rows.len())),
        };
        let children = fields.iter().map(child).collect::<Result<Vec<_>, _>>()?;
        let ArrowType::Struct(target) = target else { unreachable!("ROW is stored as a struct") };
        let rows = StructArray::try_new_with_length(target, children, rows.nulls().cloned(), rows.len());
        return Ok(Arc::new(rows.map_err(|e| e.to_string())?));
    }
    if kind(array.data_type()) != kind(&target) && *array.data_type() != ArrowType::Null {
        return Err(mismatch());
    }
    let cast = |array: &ArrayRef, target: &ArrowType| {
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(array, target, &options).map_err(|e| format!("{}: {e}", mismatch()))
    };
    match (array.data_type(), &target) {
        (ArrowType::List(_), ArrowType::List(field)) => {
            let (DataType::Array(element), list) = (wanted, array.as_list::<i32>()) else { return Err(mismatch()) };
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            let list = ListArray::try_new(field.clone(), offsets, fit(list.values(), element)?, nulls);
            Ok(Arc::new(list.map_err(|e| e.to_string())?))
        }
        // Parquet has instants and local times; both are stored as if in UTC, so that the zone is only a label.
        (ArrowType::Timestamp(..), ArrowType::Timestamp(unit, zone)) => {
            let plain = cast(&labelled(array, None), &ArrowType::Timestamp(*unit, None))?;
            Ok(labelled(&plain, zone.clone()))
        }
        _ => cast(array, &target),
    }
}

/// The same timestamps with another zone.
fn labelled(array: &ArrayRef, zone: Option<Arc<str>>) -> ArrayRef {
    let ArrowType::Timestamp(unit, _) = array.data_type() else { return array.clone() };
    match unit {
        TimeUnit::Second => Arc::new(array.as_primitive::<TimestampSecondType>().clone().with_timezone_opt(zone)),
        TimeUnit::Millisecond => {
            Arc::new(array.as_primitive::<TimestampMillisecondType>().clone().with_timezone_opt(zone))
        }
        TimeUnit::Microsecond => {
            Arc::new(array.as_primitive::<TimestampMicrosecondType>().clone().with_timezone_opt(zone))
        }
        TimeUnit::Nanosecond => {
            Arc::new(array.as_primitive::<TimestampNanosecondType>().clone().with_timezone_opt(zone))
        }
    }
}

/// Types between which a cast keeps the meaning.
#[derive(PartialEq)]
enum TypeKind {
    Boolean,
    Number,
    Text,
    Time,
    Timestamp,
    Date,
    Nested,
    Other,
}

fn kind(data_type: &ArrowType) -> TypeKind {
    match data_type {
        ArrowType::Boolean => TypeKind::Boolean,
        t if t.is_numeric() || matches!(t, ArrowType::Decimal128(..) | ArrowType::Decimal256(..)) => TypeKind::Number,
        // Writers without logical types leave strings as bytes.
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => TypeKind::Text,
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
            TypeKind::Text
        }
        ArrowType::Dictionary(_, value) => kind(value),
        ArrowType::Time32(_) | ArrowType::Time64(_) => TypeKind::Time,
        ArrowType::Timestamp(..) => TypeKind::Timestamp,
        ArrowType::Date32 | ArrowType::Date64 => TypeKind::Date,
        ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(..) | ArrowType::Map(..) => {
            TypeKind::Nested
        }
        _ => TypeKind::Other,
    }
}
