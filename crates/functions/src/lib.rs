//! Bodies of the functions that row programs call (`millstream_abi::RuntimeFn`), with Flink's semantics.
//!
//! Each body is an ordinary safe function over Rust types; [`address`] wraps it into the common signature. A body that
//! needs memory, the time zone or a cache gets the [`FunctionContext`]. Functions that Flink defines to return NULL on bad input
//! return `None`; those that fail the row return an [`Failure`].
//!
//! A file per family: `strings`, `search`, `replacement`, `regex`, `datetime`, `math`, `decimal`, `casts`, `json`. What bodies compile and
//! keep between rows lies below the context, and knows nothing of it: `like_pattern`, `java_regex` with `regex_chain`, `date_pattern`
//! with `date_template`, `java_random`. Arguments that are texts come as `text` says, and results go to the `arena`.
//!
//! What row programs do not compute with is in [`collection`] and [`printf`]: their bodies take whole Arrow columns.

mod arena;
mod cache;
mod casts;
pub mod collection;
mod context;
mod date_parse;
mod date_pattern;
mod date_template;
mod datetime;
mod decimal;
mod dispatch;
#[cfg(test)]
mod draws;
mod encoding;
mod hash;
mod java_random;
mod java_regex;
mod json;
mod like;
mod like_pattern;
mod math;
mod places;
pub mod printf;
mod random;
mod regex;
mod regex_chain;
mod replacement;
mod search;
mod strings;
mod text;
mod url;

pub use context::{Failure, FunctionContext, FunctionSettings};
pub use datetime::{LTZ_MILLIS, fixed_step};
pub use dispatch::address;
pub use like::is_like;
