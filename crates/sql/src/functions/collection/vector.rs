//! A function over whole columns, for values that row programs do not compute with.

use arrow_array::ArrayRef;
use arrow_schema::DataType as Arrow;
use millstream_functions::collection::{Input, Output};
use millstream_plan::expr::{Expr, ExprKind, VectorCall, VectorFunction};
use millstream_types::DataType;
use std::fmt;
use std::sync::Arc;

/// A function with the types of one call.
struct ColumnFunction<F> {
    /// Says everything that the arguments do not say: calls of one name with equal arguments are the same call.
    name: String,
    result: Arrow,
    evaluate: F,
}

impl<F> fmt::Debug for ColumnFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnFunction").field("name", &self.name).field("result", &self.result).finish_non_exhaustive()
    }
}

impl<F: Fn(&Input) -> Output + Send + Sync> VectorFunction for ColumnFunction<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, _: u64) -> Output {
        (self.evaluate)(&Input { columns: arguments, rows, result: &self.result })
    }
}

/// A call of `evaluate`, which can give NULL. The name says everything that the arguments do not say.
pub(crate) fn call(
    name: impl Into<String>,
    arguments: Vec<Expr>,
    data_type: DataType,
    evaluate: impl Fn(&Input) -> Output + Send + Sync + 'static,
) -> Expr {
    let function = ColumnFunction { name: name.into(), result: data_type.to_arrow(), evaluate };
    Expr::new(ExprKind::Vector(VectorCall(Arc::new(function)), arguments), data_type, true)
}
