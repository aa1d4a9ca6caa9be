//! Random columns of every type, with NULLs, sliced so that offsets are not zero.

use super::Random;
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DurationMillisecondArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, NullArray, PrimitiveArray,
    StringViewArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use millstream_types::{DataType, Field, Schema, TimeUnit};
use std::sync::Arc;

/// Columns of random types: at least one of those that aggregates and predicates ask for.
pub fn random_schema(random: &mut Random) -> Schema {
    let pool = [
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::decimal(10, 2),
        DataType::decimal(4, 0),
        DataType::decimal(18, 6),
        DataType::STRING,
        DataType::Varchar(20),
        DataType::BYTES,
        DataType::Date,
        DataType::Time(3),
        DataType::Timestamp(3),
        DataType::Timestamp(6),
        DataType::TimestampLtz(3),
        DataType::IntervalMilli,
        DataType::IntervalMonth,
        DataType::Null,
    ];
    let always = [DataType::Int, DataType::BigInt, DataType::STRING, DataType::Timestamp(3), DataType::Double];
    let mut types = always.to_vec();
    types.extend((0..random.below(8)).map(|_| random.pick(&pool).clone()));
    let field = |(i, data_type): (usize, DataType)| {
        let nullable = data_type == DataType::Null || random.chance(2);
        Field::new(format!("f{i}"), data_type, nullable)
    };
    Schema::new(types.into_iter().enumerate().map(field).collect())
}

/// A column of `rows` random values.
pub fn random_column(random: &mut Random, field: &Field, rows: usize) -> ArrayRef {
    let skip = random.below(70) as usize;
    let nulls = field.nullable && !random.chance(4);
    let column = column(random, &field.data_type, skip + rows, nulls);
    column.slice(skip, rows)
}

fn column(random: &mut Random, data_type: &DataType, rows: usize, nulls: bool) -> ArrayRef {
    macro_rules! fill {
        ($array:ty, $value:expr) => {{
            let values = (0..rows).map(|_| if nulls && random.chance(4) { None } else { Some($value) });
            let array: $array = values.collect();
            array
        }};
    }
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => Arc::new(fill!(BooleanArray, random.chance(2))),
        DataType::TinyInt => Arc::new(fill!(PrimitiveArray<Int8Type>, random.integer(8) as i8)),
        DataType::SmallInt => Arc::new(fill!(Int16Array, random.integer(16) as i16)),
        DataType::Int => Arc::new(fill!(Int32Array, random.integer(32) as i32)),
        DataType::BigInt => Arc::new(fill!(Int64Array, random.integer(64))),
        DataType::Float => Arc::new(fill!(Float32Array, random.float() as f32)),
        DataType::Double => Arc::new(fill!(Float64Array, random.float())),
        DataType::Decimal { precision, scale } => {
            let bound = 10i64.pow((*precision).min(18).into());
            let array = fill!(Decimal128Array, (random.integer(64) % bound).into());
            let array = array.with_precision_and_scale(*precision, *scale as i8);
            Arc::new(array.expect("the numbers fit the precision"))
        }
        DataType::Char(_) | DataType::Varchar(_) => Arc::new(fill!(StringViewArray, random.text())),
        DataType::Binary(_) | DataType::Varbinary(_) => Arc::new(fill!(BinaryViewArray, random.text().into_bytes())),
        DataType::Date => Arc::new(fill!(Date32Array, random.below(40_000) as i32 - 20_000)),
        DataType::Time(_) => Arc::new(fill!(Time32MillisecondArray, random.below(86_400_000) as i32)),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let mut time = || random.below(3_000) as i64 - 1_500;
            let values: Vec<i64> = (0..rows).map(|_| time()).collect();
            let values = values.into_iter().map(|t| if nulls && random.chance(10) { None } else { Some(t) });
            let zone = matches!(data_type, DataType::TimestampLtz(_)).then(|| Arc::from("UTC"));
            match data_type.time_unit() {
                TimeUnit::Milli => {
                    Arc::new(values.collect::<TimestampMillisecondArray>().with_timezone_opt::<Arc<str>>(zone))
                }
                TimeUnit::Micro => {
                    Arc::new(values.collect::<TimestampMicrosecondArray>().with_timezone_opt::<Arc<str>>(zone))
                }
                TimeUnit::Nano => {
                    Arc::new(values.collect::<TimestampNanosecondArray>().with_timezone_opt::<Arc<str>>(zone))
                }
            }
        }
        DataType::IntervalMonth => Arc::new(fill!(IntervalYearMonthArray, random.below(48) as i32 - 24)),
        DataType::IntervalMilli => Arc::new(fill!(DurationMillisecondArray, random.below(4_000) as i64 - 2_000)),
        DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => {
            unreachable!("random columns are not nested: {data_type}")
        }
    }
}
