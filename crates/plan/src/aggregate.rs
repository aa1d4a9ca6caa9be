//! Aggregate functions as compositions of accumulator components.
//!
//! An aggregate declares which components it updates and how its result is computed from them; the result is an
//! ordinary expression over the trigger's output columns, so it is compiled with the next pipeline.

use crate::expr::Expr;
use millstream_types::DataType;

/// A SQL aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// `COUNT(*)`
    CountRows,
    /// `COUNT(x)`: rows where x is not NULL.
    Count,
    /// `SUM(x)`: of x's type (integers wrap), DECIMAL(38, s) for decimals; NULL when no value was there.
    Sum,
    /// `MIN(x)`
    Min,
    /// `MAX(x)`
    Max,
    /// `AVG(x)`: of x's type, truncated for integers; DECIMAL(38, max(6, s)) for decimals.
    Avg,
}

/// One aggregate of a query, over the input of the aggregation.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateCall {
    /// Function.
    pub function: AggregateFunction,
    /// Argument; `None` for `COUNT(*)`.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Expr>,
    /// Type of the result.
    pub data_type: DataType,
    /// Whether the result can be NULL.
    pub nullable: bool,
}
