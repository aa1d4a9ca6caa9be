//! Constants.

use super::super::{Computed, Lowering, Scalar, unsupported};
use crate::buffers::phys_of;
use crate::program::Value as Number;
use millstream_abi::Phys;
use millstream_plan::expr::Span;
use millstream_types::{DataType, Diagnostic, Value};

impl Lowering<'_> {
    /// A constant of a type.
    pub(super) fn literal(&mut self, value: &Value, data_type: &DataType, span: Span) -> Computed {
        let Some(phys) = phys_of(data_type) else {
            return Err(unsupported(format!("a constant of type {data_type}"), span));
        };
        if *value == Value::Null {
            return Ok(self.null(phys));
        }
        self.constant(value, phys).map(Scalar::always)
    }

    /// A constant that is not NULL.
    pub(super) fn constant(&mut self, value: &Value, phys: Phys) -> Computed<Number> {
        Ok(match (value, phys) {
            (Value::Boolean(b), Phys::Bool) => self.builder.bool(*b),
            (Value::Int(n), _) if phys.is_integer() => self.builder.int((*n).into(), phys),
            (Value::Decimal(n), Phys::I128) => self.builder.int(*n, phys),
            (Value::Float(x), _) if phys.is_float() => self.builder.float(*x, phys),
            (Value::String(s), Phys::Str) => self.builder.str(s.as_bytes()),
            (Value::Bytes(b), Phys::Str) => self.builder.str(b),
            _ => return Err(Diagnostic::bug(format!("the constant {value:?} does not have its type, {phys}"))),
        })
    }
}
