//! SQL types as Flink defines them, and the Arrow type in which a column of each is stored.
//!
//! Nullability belongs to a [`Field`] or an expression, not to the type.

use crate::text::unit_of_precision;
use std::fmt;
use std::sync::Arc;

/// A SQL type of Flink's type system (Flink documentation, "Data Types").
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DataType {
    /// The type of a bare `NULL` before a context gives it another.
    Null,
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`: 8-bit signed.
    TinyInt,
    /// `SMALLINT`: 16-bit signed.
    SmallInt,
    /// `INT`: 32-bit signed.
    Int,
    /// `BIGINT`: 64-bit signed.
    BigInt,
    /// `FLOAT`: IEEE binary32.
    Float,
    /// `DOUBLE`: IEEE binary64.
    Double,
    /// `DECIMAL(precision, scale)`: 1 ≤ precision ≤ 38, 0 ≤ scale ≤ precision; stored as an unscaled `i128`.
    Decimal {
        /// Total number of decimal digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `CHAR(n)`, in code points. Not padded, as in Flink's runtime.
    Char(u32),
    /// `VARCHAR(n)`, in code points; `STRING` is `VARCHAR(2147483647)`.
    Varchar(u32),
    /// `BINARY(n)`, in bytes.
    Binary(u32),
    /// `VARBINARY(n)`, in bytes; `BYTES` is `VARBINARY(2147483647)`.
    Varbinary(u32),
    /// `DATE`: days since 1970-01-01 in an `i32`.
    Date,
    /// `TIME(p)`: milliseconds of the day in an `i32`, whatever `p` (as Flink stores it).
    Time(u8),
    /// `TIMESTAMP(p)` without time zone: an `i64` in [`DataType::time_unit`]s since 1970-01-01 00:00:00.
    Timestamp(u8),
    /// `TIMESTAMP_LTZ(p)`: an `i64` in [`DataType::time_unit`]s since the epoch in UTC.
    TimestampLtz(u8),
    /// `INTERVAL YEAR TO MONTH`: months in an `i32`.
    IntervalMonth,
    /// `INTERVAL DAY TO SECOND`: milliseconds in an `i64`.
    IntervalMilli,
    /// `ROW<…>`
    Row(Arc<[Field]>),
    /// `ARRAY<…>`; elements are nullable.
    Array(Arc<DataType>),
    /// `MAP<…, …>`; values are nullable.
    Map(Arc<DataType>, Arc<DataType>),
}

/// Unit of a stored timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds: precision 0 to 3.
    Milli,
    /// Microseconds: precision 4 to 6.
    Micro,
    /// Nanoseconds: precision 7 to 9 (years 1677 to 2262).
    Nano,
}

impl TimeUnit {
    /// Units per second.
    pub fn per_second(self) -> i64 {
        match self {
            TimeUnit::Milli => 1_000,
            TimeUnit::Micro => 1_000_000,
            TimeUnit::Nano => 1_000_000_000,
        }
    }
}

impl DataType {
    /// `STRING`
    pub const STRING: DataType = DataType::Varchar(i32::MAX as u32);
    /// `BYTES`
    pub const BYTES: DataType = DataType::Varbinary(i32::MAX as u32);

    /// `DECIMAL(precision, scale)`
    pub fn decimal(precision: u8, scale: u8) -> DataType {
        debug_assert!((1..=38).contains(&precision) && scale <= precision);
        DataType::Decimal { precision, scale }
    }

    /// Unit in which a timestamp of this type is stored; milliseconds for every other type.
    pub fn time_unit(&self) -> TimeUnit {
        match self {
            DataType::Timestamp(p) | DataType::TimestampLtz(p) => unit_of_precision(*p),
            _ => TimeUnit::Milli,
        }
    }

    /// TINYINT, SMALLINT, INT or BIGINT.
    pub fn is_integer(&self) -> bool {
        matches!(self, DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt)
    }

    /// FLOAT or DOUBLE.
    pub fn is_floating(&self) -> bool {
        matches!(self, DataType::Float | DataType::Double)
    }

    /// Integers, floats and decimals.
    pub fn is_numeric(&self) -> bool {
        self.is_integer() || self.is_floating() || matches!(self, DataType::Decimal { .. })
    }

    /// CHAR or VARCHAR.
    pub fn is_string(&self) -> bool {
        matches!(self, DataType::Char(_) | DataType::Varchar(_))
    }

    /// BINARY or VARBINARY.
    pub fn is_binary(&self) -> bool {
        matches!(self, DataType::Binary(_) | DataType::Varbinary(_))
    }

    /// TIMESTAMP or TIMESTAMP_LTZ.
    pub fn is_timestamp(&self) -> bool {
        matches!(self, DataType::Timestamp(_) | DataType::TimestampLtz(_))
    }

    /// Either kind of INTERVAL.
    pub fn is_interval(&self) -> bool {
        matches!(self, DataType::IntervalMonth | DataType::IntervalMilli)
    }

    /// ROW, ARRAY or MAP: types that row programs pass through but do not compute with.
    pub fn is_nested(&self) -> bool {
        matches!(self, DataType::Row(_) | DataType::Array(_) | DataType::Map(..))
    }

    /// The Arrow type of a column of this type.
    pub fn to_arrow(&self) -> arrow_schema::DataType {
        use arrow_schema::DataType as A;
        let unit = || match self.time_unit() {
            TimeUnit::Milli => arrow_schema::TimeUnit::Millisecond,
            TimeUnit::Micro => arrow_schema::TimeUnit::Microsecond,
            TimeUnit::Nano => arrow_schema::TimeUnit::Nanosecond,
        };
        match self {
            DataType::Null => A::Null,
            DataType::Boolean => A::Boolean,
            DataType::TinyInt => A::Int8,
            DataType::SmallInt => A::Int16,
            DataType::Int => A::Int32,
            DataType::BigInt => A::Int64,
            DataType::Float => A::Float32,
            DataType::Double => A::Float64,
            DataType::Decimal { precision, scale } => A::Decimal128(*precision, *scale as i8),
            DataType::Char(_) | DataType::Varchar(_) => A::Utf8View,
            DataType::Binary(_) | DataType::Varbinary(_) => A::BinaryView,
            DataType::Date => A::Date32,
            DataType::Time(_) => A::Time32(arrow_schema::TimeUnit::Millisecond),
            DataType::Timestamp(_) => A::Timestamp(unit(), None),
            DataType::TimestampLtz(_) => A::Timestamp(unit(), Some("UTC".into())),
            DataType::IntervalMonth => A::Interval(arrow_schema::IntervalUnit::YearMonth),
            DataType::IntervalMilli => A::Duration(arrow_schema::TimeUnit::Millisecond),
            DataType::Row(fields) => A::Struct(fields.iter().map(Field::to_arrow).collect()),
            DataType::Array(element) => {
                A::List(Arc::new(arrow_schema::Field::new("element", element.to_arrow(), true)))
            }
            DataType::Map(key, value) => {
                let key = arrow_schema::Field::new("key", key.to_arrow(), false);
                let value = arrow_schema::Field::new("value", value.to_arrow(), true);
                let entries = A::Struct(vec![key, value].into());
                A::Map(Arc::new(arrow_schema::Field::new("entries", entries, false)), false)
            }
        }
    }
}

/// Prints the type as Flink's `DESCRIBE` does, without nullability.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Null => f.write_str("NULL"),
            DataType::Boolean => f.write_str("BOOLEAN"),
            DataType::TinyInt => f.write_str("TINYINT"),
            DataType::SmallInt => f.write_str("SMALLINT"),
            DataType::Int => f.write_str("INT"),
            DataType::BigInt => f.write_str("BIGINT"),
            DataType::Float => f.write_str("FLOAT"),
            DataType::Double => f.write_str("DOUBLE"),
            DataType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            DataType::Char(n) => write!(f, "CHAR({n})"),
            DataType::Varchar(_) if *self == DataType::STRING => f.write_str("STRING"),
            DataType::Varchar(n) => write!(f, "VARCHAR({n})"),
            DataType::Binary(n) => write!(f, "BINARY({n})"),
            DataType::Varbinary(_) if *self == DataType::BYTES => f.write_str("BYTES"),
            DataType::Varbinary(n) => write!(f, "VARBINARY({n})"),
            DataType::Date => f.write_str("DATE"),
            DataType::Time(p) => write!(f, "TIME({p})"),
            DataType::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
            DataType::TimestampLtz(p) => write!(f, "TIMESTAMP_LTZ({p})"),
            DataType::IntervalMonth => f.write_str("INTERVAL YEAR TO MONTH"),
            DataType::IntervalMilli => f.write_str("INTERVAL DAY TO SECOND"),
            DataType::Row(fields) => {
                f.write_str("ROW<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    let not_null = if field.nullable { "" } else { " NOT NULL" };
                    write!(f, "{comma}`{}` {}{not_null}", field.name.replace('`', "``"), field.data_type)?;
                }
                f.write_str(">")
            }
            DataType::Array(element) => write!(f, "ARRAY<{element}>"),
            DataType::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
        }
    }
}

/// A named column or a field of a `ROW`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Field {
    /// Name; case-sensitive, as in Flink.
    pub name: String,
    /// Type.
    pub data_type: DataType,
    /// Whether the value may be NULL.
    pub nullable: bool,
}

impl Field {
    /// A field.
    pub fn new(name: impl Into<String>, data_type: DataType, nullable: bool) -> Field {
        Field { name: name.into(), data_type, nullable }
    }

    /// The Arrow field of the same name.
    pub fn to_arrow(&self) -> arrow_schema::Field {
        arrow_schema::Field::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}

/// The columns of a table or a result, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schema {
    /// Columns.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema of these columns.
    pub fn new(fields: Vec<Field>) -> Schema {
        Schema { fields }
    }

    /// Position of the column of this exact name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| f.name == name)
    }

    /// The Arrow schema.
    pub fn to_arrow(&self) -> arrow_schema::SchemaRef {
        Arc::new(arrow_schema::Schema::new(self.fields.iter().map(Field::to_arrow).collect::<Vec<_>>()))
    }
}
