//! The names of the aggregate functions, and what `docs/functions.md` says of them. [`crate::bind`] gives them types.

use super::function::{Category, Function, FunctionInfo, functions};
use AggregateFunction::*;
use millstream_plan::aggregate::AggregateFunction;

const AGGREGATES: &[Function<AggregateFunction>] = functions! {Aggregate;
    "COUNT" ("COUNT(*)", "COUNT([DISTINCT] x)") Count,
        "The number of rows, of rows where x is not NULL, or of distinct values of x. BIGINT.";
    "SUM" ("SUM([DISTINCT] x)") Sum,
        "The sum, of x's type (integers wrap around); DECIMAL(38, s) for decimals.";
    "AVG" ("AVG([DISTINCT] x)") Avg,
        "The mean, of x's type (truncated for integers); DECIMAL(38, max(6, s)) for decimals.";
    "MIN" ("MIN(x)") Min, "The smallest value.";
    "MAX" ("MAX(x)") Max, "The largest value.";
    "STDDEV_POP" ("STDDEV_POP(x)") StddevPop, "The population's standard deviation, DOUBLE.";
    "STDDEV_SAMP" ["STDDEV"] ("STDDEV_SAMP(x)") StddevSamp,
        "The sample's standard deviation, DOUBLE; NULL for fewer than two values.";
    "VAR_POP" ("VAR_POP(x)") VarPop, "The population's variance, DOUBLE.";
    "VAR_SAMP" ["VARIANCE"] ("VAR_SAMP(x)") VarSamp, "The sample's variance, DOUBLE; NULL for fewer than two values.";
    "COVAR_POP" ("COVAR_POP(y, x)") CovarPop, "The population's covariance of the pairs without NULL, DOUBLE.";
    "COVAR_SAMP" ("COVAR_SAMP(y, x)") CovarSamp, "The sample's covariance, DOUBLE; NULL for fewer than two pairs.";
    "CORR" ("CORR(y, x)") Corr, "The correlation, DOUBLE; NULL when y or x does not vary.";
    "BOOL_AND" ["EVERY"] ("BOOL_AND(x)") BoolAnd, "Whether every x that is not NULL is TRUE.";
    "BOOL_OR" ["SOME", "ANY"] ("BOOL_OR(x)") BoolOr, "Whether any x is TRUE.";
    "FIRST_VALUE" ("FIRST_VALUE(x)") FirstValue, "The first value that is not NULL, in the order of the input.";
    "LAST_VALUE" ("LAST_VALUE(x)") LastValue, "The last value that is not NULL, in the order of the input.";
    "APPROX_COUNT_DISTINCT" ("APPROX_COUNT_DISTINCT(x)") ApproxCountDistinct,
        "The approximate number of distinct values of x, from a sketch of fixed size. BIGINT.";
    "MEDIAN" ("MEDIAN(x)") Median, "The middle value, or the mean of the two middle ones, DOUBLE.";
    "PERCENTILE" ("PERCENTILE(x, fraction)") Percentile,
        "The value below which a constant fraction (0 to 1) of the values lies, interpolated, DOUBLE.";
    "APPROX_PERCENTILE" ("APPROX_PERCENTILE(x, fraction)") ApproxPercentile,
        "PERCENTILE within 1 % of the value, from a sketch of bounded size, DOUBLE.";
    "MODE" ("MODE(x)") Mode, "The most frequent value; the smallest one if there are several.";
    "COLLECT" ("COLLECT([DISTINCT] x)") Collect, "A MAP from each value to the number of its occurrences (Flink's MULTISET).";
    "LISTAGG" ["STRING_AGG"] ("LISTAGG([DISTINCT] string [, separator] [ORDER BY key, …])") ListAgg,
        "The strings joined in the order of the input, or of the keys, with a constant separator (a comma by default).";
    "ARRAY_AGG" ("ARRAY_AGG([DISTINCT] x [RESPECT NULLS | IGNORE NULLS] [ORDER BY key, …])") ArrayAgg,
        "An ARRAY of the values in the order of the input, or of the keys, including NULLs unless they are ignored.";
};

/// The aggregate function of an upper-case name.
pub(crate) fn find_aggregate(name: &str) -> Option<AggregateFunction> {
    AGGREGATES.iter().find(|a| a.names().any(|known| known == name)).map(|a| a.binding)
}

/// The names of all aggregate functions, without aliases.
pub(crate) fn aggregate_names() -> impl Iterator<Item = &'static str> + Clone {
    AGGREGATES.iter().map(|a| a.name)
}

/// How an aggregate function is called.
pub(crate) fn aggregate_usage(function: AggregateFunction) -> String {
    let function = if function == CountRows { Count } else { function };
    let signatures = AGGREGATES.iter().filter(|a| a.binding == function).flat_map(|a| a.signatures);
    signatures.copied().collect::<Vec<_>>().join(" or ")
}

/// The aggregate functions for listings.
pub(super) fn listed() -> impl Iterator<Item = FunctionInfo> {
    AGGREGATES.iter().map(Function::info)
}
