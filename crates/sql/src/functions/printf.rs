//! The signature of PRINTF.

use super::call::{BoundCall, Call, convert};
use super::collection::vector_call;
use millstream_functions::printf::{PrintfKind, printf};
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
    let mut kinds = Vec::with_capacity(values.len());
    let mut arguments = vec![convert(format.clone(), &DataType::STRING)];
    for value in values {
        let (kind, to) = match &value.data_type {
            DataType::Boolean => (PrintfKind::Boolean, DataType::Boolean),
            DataType::TinyInt => (PrintfKind::Integer(8), DataType::BigInt),
            DataType::SmallInt => (PrintfKind::Integer(16), DataType::BigInt),
            DataType::Int => (PrintfKind::Integer(32), DataType::BigInt),
            DataType::BigInt => (PrintfKind::Integer(64), DataType::BigInt),
            t if t.is_floating() => (PrintfKind::Float, DataType::Double),
            DataType::Decimal { .. } => (PrintfKind::Decimal, DataType::STRING),
            _ => (PrintfKind::Text, DataType::STRING),
        };
        kinds.push(kind);
        // The type of a cast from a literal must stay what it is for `%s`, so decimals are cast at run time.
        arguments.push(if value.data_type.is_string() { value.clone() } else { cast(value.clone(), &to) });
    }
    Ok(vector_call(format!("PRINTF {:?}", arguments_kinds(values)), arguments, DataType::STRING, move |input| {
        printf(input, &kinds)
    }))
}

/// Types that the converted arguments do not show any more.
fn arguments_kinds(values: &[Expr]) -> Vec<String> {
    values.iter().map(|v| v.data_type.to_string()).collect()
}

fn cast(value: Expr, to: &DataType) -> Expr {
    if value.data_type == DataType::Null { convert(value, to) } else { value.cast_to(to.clone()) }
}
