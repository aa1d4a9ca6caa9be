//! The signature of PRINTF.

use super::call::{BoundCall, Call, convert};
use super::collection::vector_call;
use millstream_functions::printf::printf;
use millstream_plan::expr::Expr;
use millstream_types::DataType;

/// `PRINTF(format, value, …)`
pub(super) fn bind(call: Call) -> BoundCall {
    let Some((format, values)) = call.arguments.split_first() else { return Err(call.mismatch()) };
    if !(format.data_type.is_string() || format.data_type == DataType::Null)
        || values.iter().any(|v| v.data_type.is_nested())
    {
        return Err(call.mismatch());
    }
    let types: Vec<DataType> = values.iter().map(|v| v.data_type.clone()).collect();
    let mut arguments = vec![convert(format.clone(), &DataType::STRING)];
    for value in values {
        let to = match &value.data_type {
            DataType::Boolean => DataType::Boolean,
            t if t.is_integer() => DataType::BigInt,
            t if t.is_floating() => DataType::Double,
            _ => DataType::STRING,
        };
        // The type of a cast from a literal must stay what it is for `%s`, so decimals are cast at run time.
        arguments.push(if value.data_type.is_string() { value.clone() } else { cast(value.clone(), &to) });
    }
    // The converted arguments do not show their types any more.
    let name = format!("PRINTF {:?}", types.iter().map(DataType::to_string).collect::<Vec<_>>());
    Ok(vector_call(name, arguments, DataType::STRING, move |input| printf(input, &types)))
}

fn cast(value: Expr, to: &DataType) -> Expr {
    if value.data_type == DataType::Null { convert(value, to) } else { value.cast_to(to.clone()) }
}
