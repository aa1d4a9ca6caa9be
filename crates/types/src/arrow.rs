//! The SQL types of columns that come from outside as Arrow.

use crate::{DataType, Field};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use std::sync::Arc;

impl DataType {
    /// The type that a column of this Arrow type has in SQL: the one whose values include all of its values, and of which a time keeps
    /// its unit. `None` where SQL has no such type (unions, months with days).
    pub fn from_arrow(arrow: &ArrowType) -> Option<DataType> {
        let boxed = |field: &arrow_schema::Field| DataType::from_arrow(field.data_type()).map(Arc::new);
        Some(match arrow {
            ArrowType::Boolean => DataType::Boolean,
            ArrowType::Int8 => DataType::TinyInt,
            ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt,
            ArrowType::Int32 | ArrowType::UInt16 => DataType::Int,
            ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt,
            ArrowType::UInt64 => DataType::decimal(20, 0),
            ArrowType::Float16 | ArrowType::Float32 => DataType::Float,
            ArrowType::Float64 => DataType::Double,
            ArrowType::Decimal32(precision, scale)
            | ArrowType::Decimal64(precision, scale)
            | ArrowType::Decimal128(precision, scale)
            | ArrowType::Decimal256(precision, scale) => decimal(*precision, *scale)?,
            // A column without any value.
            ArrowType::Null => DataType::STRING,
            ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => DataType::STRING,
            ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView | ArrowType::FixedSizeBinary(_) => {
                DataType::BYTES
            }
            ArrowType::Date32 | ArrowType::Date64 => DataType::Date,
            ArrowType::Time32(_) | ArrowType::Time64(_) => DataType::Time(3),
            ArrowType::Timestamp(unit, None) => DataType::Timestamp(digits(*unit)),
            ArrowType::Timestamp(unit, Some(_)) => DataType::TimestampLtz(digits(*unit)),
            ArrowType::Duration(_) => DataType::IntervalMilli,
            ArrowType::Interval(arrow_schema::IntervalUnit::YearMonth) => DataType::IntervalMonth,
            ArrowType::List(element) | ArrowType::LargeList(element) | ArrowType::FixedSizeList(element, _) => {
                DataType::Array(boxed(element)?)
            }
            ArrowType::Struct(fields) => {
                DataType::Row(fields.iter().map(|f| Field::from_arrow(f)).collect::<Option<_>>()?)
            }
            ArrowType::Map(entries, _) => match entries.data_type() {
                ArrowType::Struct(pair) if pair.len() == 2 => DataType::Map(boxed(&pair[0])?, boxed(&pair[1])?),
                _ => return None,
            },
            ArrowType::Dictionary(_, value) => DataType::from_arrow(value)?,
            _ => return None,
        })
    }
}

impl Field {
    /// The column of SQL that has the values of an Arrow field; `None` as for [`DataType::from_arrow`].
    pub fn from_arrow(field: &arrow_schema::Field) -> Option<Field> {
        Some(Field::new(field.name(), DataType::from_arrow(field.data_type())?, field.is_nullable()))
    }
}

/// Digits of a second.
fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn decimal(precision: u8, scale: i8) -> Option<DataType> {
    // A negative scale stands for zeros in front of the point; SQL's scale has all digits after it.
    let zeros = scale.min(0).unsigned_abs();
    let (precision, scale) = (precision.checked_add(zeros)?, scale.max(0).unsigned_abs());
    (precision <= 38 && scale <= precision).then(|| DataType::decimal(precision, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_column_is_stored_as_has_its_type() {
        let nested = DataType::Row(vec![Field::new("a", DataType::Array(Arc::new(DataType::Int)), true)].into());
        let types = [
            DataType::Boolean,
            DataType::TinyInt,
            DataType::SmallInt,
            DataType::Int,
            DataType::BigInt,
            DataType::Float,
            DataType::Double,
            DataType::decimal(38, 7),
            DataType::STRING,
            DataType::BYTES,
            DataType::Date,
            DataType::Time(3),
            DataType::Timestamp(3),
            DataType::Timestamp(6),
            DataType::TimestampLtz(9),
            DataType::IntervalMonth,
            DataType::IntervalMilli,
            DataType::Map(Arc::new(DataType::STRING), Arc::new(nested.clone())),
            nested,
        ];
        for data_type in types {
            assert_eq!(DataType::from_arrow(&data_type.to_arrow()), Some(data_type.clone()), "{data_type}");
        }
    }

    #[test]
    fn types_of_others_are_widened() {
        let cases = [
            (ArrowType::UInt8, "SMALLINT"),
            (ArrowType::UInt32, "BIGINT"),
            (ArrowType::UInt64, "DECIMAL(20, 0)"),
            (ArrowType::Decimal128(5, -2), "DECIMAL(7, 0)"),
            (ArrowType::Decimal256(40, 2), "none"),
            (ArrowType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())), "TIMESTAMP_LTZ(0)"),
            (ArrowType::Dictionary(Box::new(ArrowType::Int8), Box::new(ArrowType::LargeUtf8)), "STRING"),
            (ArrowType::Interval(arrow_schema::IntervalUnit::MonthDayNano), "none"),
        ];
        for (arrow, expected) in cases {
            let found = DataType::from_arrow(&arrow).map_or("none".to_string(), |t| t.to_string());
            assert_eq!(found, expected, "{arrow}");
        }
    }
}
