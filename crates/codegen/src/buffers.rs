//! Between Arrow arrays and the columns of a kernel: views of inputs in place, and output buffers that become arrays.

mod input;
mod output;

pub use input::InputColumns;
pub use output::OutputBuffers;

use millstream_abi::Phys;
use millstream_types::DataType;

/// The type in which row programs compute with values of a SQL type; `None` for nested types, which they only pass
/// through.
pub fn phys_of(data_type: &DataType) -> Option<Phys> {
    Some(match data_type {
        // Every value of type NULL is NULL; the smallest type stands for it.
        DataType::Null | DataType::Boolean => Phys::Bool,
        DataType::TinyInt => Phys::I8,
        DataType::SmallInt => Phys::I16,
        DataType::Int | DataType::Date | DataType::Time(_) | DataType::IntervalMonth => Phys::I32,
        DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::IntervalMilli => Phys::I64,
        DataType::Decimal { .. } => Phys::I128,
        DataType::Float => Phys::F32,
        DataType::Double => Phys::F64,
        DataType::Char(_) | DataType::Varchar(_) | DataType::Binary(_) | DataType::Varbinary(_) => Phys::Str,
        DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => return None,
    })
}

/// Type of the program's input for a nested column: only whether it is valid can be asked, it is never loaded.
pub const NESTED: Phys = Phys::Bool;
