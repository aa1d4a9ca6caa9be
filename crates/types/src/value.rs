//! A single value: literals in plans, constants in row programs, defaults in connectors.

/// A value whose meaning (unit, scale) comes from the [`crate::DataType`] beside it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// Integers; DATE in days; TIME in milliseconds; timestamps in their type's unit; intervals in months or milliseconds.
    Int(i64),
    /// DECIMAL: the unscaled number.
    Decimal(i128),
    /// FLOAT (rounded to binary32) and DOUBLE.
    Float(f64),
    /// CHAR and VARCHAR.
    String(String),
    /// BINARY and VARBINARY.
    Bytes(Vec<u8>),
}
