//! The functions of the dialect: names, types, and what a call becomes in the plan.
//!
//! [`bind_call`] looks a name up (in any case) and turns a call with bound arguments into an [`Expr`]: a call of a
//! native function, an expression made of cheaper parts (CASE, arithmetic), or a vectorised call of a DataFusion
//! function where there is no native one. Flink's names and semantics win where both exist.
//!
//! Typing: arguments that do not have the type of the parameter are cast where the cast is implicit (numbers, strings
//! of other lengths, NULL); everything else is a TYPE_MISMATCH that shows the signatures. Results are nullable iff an
//! argument is, or the function can give NULL by itself.
//!
//! Functions with special syntax are bound under these names, with these arguments:
//!
//! | SQL | name | arguments |
//! | --- | --- | --- |
//! | `EXTRACT(unit FROM x)` | `EXTRACT` | unit as a string literal, x |
//! | `FLOOR(x TO unit)`, `CEIL(x TO unit)` | `FLOOR`, `CEIL` | x, unit as a string literal |
//! | `TIMESTAMPADD(unit, n, x)`, `TIMESTAMPDIFF(unit, a, b)` | the same | unit as a string literal, then the others |
//! | `TRIM([side] [chars] FROM s)` | `BTRIM`, `LTRIM`, `RTRIM` | s, chars if any |
//! |  | or `TRIM` | `'BOTH'`, `'LEADING'` or `'TRAILING'`, chars, s |
//! | `POSITION(search IN s)` | `POSITION` | search, s |
//! | `OVERLAY(s PLACING r FROM i FOR n)` | `OVERLAY` | s, r, i, n if any |
//! | `SUBSTRING(s FROM i FOR n)` | `SUBSTRING` | s, i, n if any |
//! | `s LIKE p ESCAPE e`, `s ILIKE …`, `s SIMILAR TO …` | `LIKE`, `ILIKE`, `SIMILAR TO` | s, p, e if any |
//! | `a \|\| b` | `\|\|` | a, b |
//! | `ARRAY[…]`, `MAP[…]`, `ROW(…)`, `a[i]` | `ARRAY`, `MAP`, `ROW`, `[]` | the values; a, i |
//! | `s IS JSON` | `IS JSON` | s, kind as a string literal |
//! | `JSON_VALUE(…)` and its kind | the same | see `json_syntax` |
//! | `CURRENT_TIMESTAMP` and its kind, with or without parentheses | the same | none |

mod aggregate;
mod call;
pub(crate) mod collection;
mod conditional;
mod docs;
mod examples;
#[cfg(feature = "fallback")]
mod fallback;
mod function;
mod further;
mod json;
mod math;
mod ours;
mod overload;
mod printf;
mod special;
mod string;
mod temporal;
#[cfg(test)]
mod tests;

pub(crate) use aggregate::{aggregate_names, aggregate_usage, find_aggregate};
pub use docs::reference_markdown;
pub use examples::{EXAMPLE_TABLE, Example};
pub use function::{Category, FunctionInfo};

use crate::diagnostics;
use call::{Call, at};
use function::{Binding, Function};
use millstream_plan::expr::{Expr, Span};
use millstream_types::{Diagnostic, code};

/// Functions of Flink that are not there yet: named as such instead of "unknown".
const MISSING: &[&str] = &["JSON_ARRAYAGG", "JSON_OBJECTAGG", "PARSE_JSON", "SOURCE_WATERMARK", "TRY_PARSE_JSON"];

/// What to write instead of a function that is not there yet.
fn missing_cure(name: &str) -> &'static str {
    match name {
        "PARSE_JSON" | "TRY_PARSE_JSON" => "keep the text, and read parts of it: JSON_VALUE(x, '$.a')",
        "SOURCE_WATERMARK" => "declare how late rows may come: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        _ => "write JSON_STRING(ARRAY_AGG(x))",
    }
}

/// Whether [`bind_call`] knows a scalar function of this name, even if only as one that Flink has and we lack.
pub fn is_scalar(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ours::find(&name).is_some() || further::find(&name).is_some() || MISSING.contains(&&*name)
}

/// The function whose name is nearest to an unknown one.
pub fn suggest(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    let ours = ours::names().filter(|known| known.starts_with(|c: char| c.is_ascii_alphabetic()));
    let mut known: Vec<&'static str> =
        ours.chain(further::FURTHER.iter().flat_map(|function| function.names())).collect();
    known.sort_unstable();
    diagnostics::nearest(&upper, known)
}

/// Binds the call of a scalar function.
///
/// # Errors
/// UNKNOWN_FUNCTION with the nearest name, UNSUPPORTED for functions of Flink that are not there yet, TYPE_MISMATCH with
/// the signatures when the arguments fit none of them.
pub fn bind_call(name: &str, arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
    let upper = name.to_ascii_uppercase();
    if let Some(function) = ours::find(&upper) {
        let call = Call { function, arguments, span };
        let expr = match function.binding {
            Binding::Overloads(overloads) => overload::choose(overloads, call),
            Binding::Custom(bind) => bind(call),
        };
        return expr.map(|expr| expr.at(span)).map_err(|diagnostic| at(diagnostic, span));
    }
    #[cfg(feature = "fallback")]
    if let Some(udf) = fallback::find(&upper) {
        return fallback::bind(udf, arguments, span);
    }
    #[cfg(not(feature = "fallback"))]
    if further::find(&upper).is_some() {
        let message = format!("this program was built without the function {upper}");
        return Err(
            at(Diagnostic::new(code::UNSUPPORTED, message), span).advise("build it with everything: make release")
        );
    }
    if MISSING.contains(&&*upper) {
        let message = format!("the function {upper} is not supported yet");
        return Err(at(Diagnostic::new(code::UNSUPPORTED, message), span).advise(missing_cure(&upper)));
    }
    let advice = match suggest(name) {
        Some(near) => format!("did you mean {near}?"),
        None => "SHOW FUNCTIONS; lists all functions".to_owned(),
    };
    Err(at(Diagnostic::new(code::UNKNOWN_FUNCTION, format!("unknown function {name}")), span).advise(advice))
}

/// Every function: ours in the order of the documentation, the aggregates, those that the binder knows, then DataFusion's by name.
pub fn all() -> Vec<FunctionInfo> {
    let lists = [special::TIME, special::GROUPING, special::OVER, special::WINDOW, further::FURTHER];
    let others = lists.into_iter().flatten().map(Function::info);
    ours::all().map(Function::info).chain(aggregate::listed()).chain(others).collect()
}
