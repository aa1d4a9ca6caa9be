//! What expressions do with nested values: `=`, CASE and the cast to STRING.

use super::vector::call as vector_call;
use millstream_functions::collection::row;
use millstream_functions::collection::write::{Form, texts};
use millstream_plan::expr::Expr;
use millstream_types::DataType;

/// Whether a nested value can be written as a STRING without knowing the session's time zone.
pub(crate) fn is_printable(data_type: &DataType) -> bool {
    match data_type {
        DataType::TimestampLtz(_) => false,
        DataType::Row(fields) => fields.iter().all(|field| is_printable(&field.data_type)),
        DataType::Array(element) => is_printable(element),
        DataType::Map(key, value) => is_printable(key) && is_printable(value),
        _ => true,
    }
}

/// `CAST(nested AS STRING)`.
pub(crate) fn to_text(expr: Expr) -> Expr {
    let (span, data_type) = (expr.span, expr.data_type.clone());
    vector_call("CAST AS STRING", vec![expr], DataType::STRING, move |input| texts(input, &data_type, Form::Text))
        .at(span)
}

/// `a = b` of two values of one nested type.
pub(crate) fn equals(a: Expr, b: Expr) -> Expr {
    vector_call("=", vec![a, b], DataType::Boolean, row::equals)
}

/// `CASE … END` of values of one nested type.
pub(crate) fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr, data_type: DataType) -> Expr {
    let arguments = branches.into_iter().flat_map(|(condition, value)| [condition, value]).chain([otherwise]).collect();
    vector_call("CASE", arguments, data_type, row::case)
}
