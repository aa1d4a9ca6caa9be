//! Physical types: what a value is to a row program, after SQL's meaning has been lowered to operations.

use std::fmt;

/// The type of a value in a row program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phys {
    /// A truth value; a byte 0 or 1 in memory, a bit in Arrow columns.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer: INT, DATE, TIME, months.
    I32,
    /// 64-bit signed integer: BIGINT, timestamps, milliseconds.
    I64,
    /// 128-bit signed integer: the unscaled value of a DECIMAL.
    I128,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// A string or byte string: a [`crate::Str`].
    Str,
}

impl Phys {
    /// A name that stays as it is.
    pub const fn name(self) -> &'static str {
        match self {
            Phys::Bool => "BOOL",
            Phys::I8 => "I8",
            Phys::I16 => "I16",
            Phys::I32 => "I32",
            Phys::I64 => "I64",
            Phys::I128 => "I128",
            Phys::F32 => "F32",
            Phys::F64 => "F64",
            Phys::Str => "STR",
        }
    }

    /// Bytes of a value in memory (Bool as one byte).
    pub const fn size(self) -> usize {
        match self {
            Phys::Bool | Phys::I8 => 1,
            Phys::I16 => 2,
            Phys::I32 | Phys::F32 => 4,
            Phys::I64 | Phys::F64 => 8,
            Phys::I128 | Phys::Str => 16,
        }
    }

    /// I8 to I128.
    pub const fn is_integer(self) -> bool {
        matches!(self, Phys::I8 | Phys::I16 | Phys::I32 | Phys::I64 | Phys::I128)
    }

    /// F32 or F64.
    pub const fn is_float(self) -> bool {
        matches!(self, Phys::F32 | Phys::F64)
    }
}

impl fmt::Display for Phys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().to_ascii_lowercase())
    }
}
