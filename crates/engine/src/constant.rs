//! Expressions without columns: constant folding, and the rows of VALUES.
//!
//! They are evaluated by the interpreter, as every row is at first, so a folded constant is what the running query
//! would have computed.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use millstream_codegen::execute::{self, Flow};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::lower::lower_expressions;
use millstream_functions::{FunctionContext, FunctionSettings};
use millstream_plan::expr::Expr;
use millstream_types::{DataType, Diagnostic, Schema, Value};
use std::sync::Arc;

/// Evaluates expressions without columns: one row, one array for each.
fn evaluate_row(exprs: &[Expr], settings: &FunctionSettings) -> Result<Vec<ArrayRef>, Diagnostic> {
    let lowered = lower_expressions("constants", &Schema::default(), exprs)?;
    let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
    let mut functions = FunctionContext::new(settings.clone());
    let mut failed = None;
    let emitted = execute::emit(&lowered, &kernel, &[], 1, &[i64::MIN], &mut functions, &mut |error| {
        failed = Some(error.diagnostic);
        Flow::Stop
    })?;
    match failed {
        Some(diagnostic) => Err(diagnostic),
        None => Ok(emitted.columns),
    }
}

/// The value of a constant expression; `None` when it fails or is not a scalar.
pub(crate) fn fold(expr: &Expr, settings: &FunctionSettings) -> Option<Value> {
    let columns = evaluate_row(std::slice::from_ref(expr), settings).ok()?;
    value_of(columns.first()?, &expr.data_type)
}

/// The columns of VALUES. `width` is the number of columns, which matters when there are no rows.
pub(crate) fn columns_of(
    rows: &[Vec<Expr>],
    types: &[DataType],
    settings: &FunctionSettings,
) -> Result<Vec<ArrayRef>, Diagnostic> {
    let evaluated = rows.iter().map(|row| evaluate_row(row, settings)).collect::<Result<Vec<_>, _>>()?;
    let column = |(i, data_type): (usize, &DataType)| {
        let pieces: Vec<&dyn Array> = evaluated.iter().map(|row| row[i].as_ref()).collect();
        if pieces.is_empty() {
            return Ok(arrow_array::new_empty_array(&data_type.to_arrow()));
        }
        arrow_select::concat::concat(&pieces).map_err(|e| Diagnostic::bug(format!("VALUES cannot be joined: {e}")))
    };
    types.iter().enumerate().map(column).collect()
}

/// The first value of an array of `data_type`.
fn value_of(array: &dyn Array, data_type: &DataType) -> Option<Value> {
    if array.is_null(0) {
        return Some(Value::Null);
    }
    let data = array.to_data();
    Some(match data_type {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Boolean(array.as_boolean().value(0)),
        DataType::TinyInt => Value::Int(data.buffer::<i8>(0)[0].into()),
        DataType::SmallInt => Value::Int(data.buffer::<i16>(0)[0].into()),
        DataType::Int | DataType::Date | DataType::Time(_) | DataType::IntervalMonth => {
            Value::Int(data.buffer::<i32>(0)[0].into())
        }
        DataType::BigInt | DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::IntervalMilli => {
            Value::Int(data.buffer::<i64>(0)[0])
        }
        DataType::Float => Value::Float(array.as_primitive::<Float32Type>().value(0).into()),
        DataType::Double => Value::Float(array.as_primitive::<Float64Type>().value(0)),
        DataType::Decimal { .. } => Value::Decimal(array.as_primitive::<Decimal128Type>().value(0)),
        DataType::Char(_) | DataType::Varchar(_) => Value::String(array.as_string_view().value(0).to_string()),
        DataType::Binary(_) | DataType::Varbinary(_) => Value::Bytes(array.as_binary_view().value(0).to_vec()),
        DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => return None,
    })
}
