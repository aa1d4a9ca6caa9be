//! Flink-dialect SQL to a bound logical plan.
//!
//! | file | what |
//! | --- | --- |
//! | [`script`] | a script's text to the tokens of its statements; `${NAME}`; is a statement complete? |
//! | `parameter` | values for `?` and `$name` |
//! | [`dialect`] | sqlparser's dialect: how Flink's constructs appear in its AST |
//! | [`data_type`] | the text of data types |
//! | `chains` | a bound on how deep a statement is |
//! | [`statement`], [`ddl`] | tokens to statements |
//! | [`catalog`], [`describe`] | tables and views, `DESCRIBE`, `SHOW CREATE` |
//! | [`settings`] | what binding depends on |
//! | [`functions`] | signatures of the functions: which body, which types |
//! | [`bind`] | queries to [`millstream_plan::logical`] |
//! | [`diagnostics`], `syntax_advice` | errors of parsing in our words; rendering with a caret |
//! | `placed` | errors at tokens |
//! | `foreign` | habits of other dialects, and what to write instead |
//!
//! Invariants: no I/O, no execution; only this crate sees sqlparser and DataFusion. Every place in a diagnostic is a
//! line and column of the whole script. No input makes it panic.
#![forbid(unsafe_code)]

pub mod bind;
pub mod catalog;
mod chains;
pub mod data_type;
pub mod ddl;
pub mod describe;
pub mod diagnostics;
pub mod dialect;
mod foreign;
pub mod functions;
mod json_syntax;
mod parameter;
mod placed;
pub mod script;
pub mod settings;
pub mod statement;
mod syntax_advice;
pub mod user_function;

pub use bind::{bind_insert, bind_insert_of, bind_query, unknown_table};
pub use catalog::{Catalog, CatalogEntry, Connectors, file_stem};
pub use diagnostics::render;
pub use parameter::{ParameterValue, Parameters};
pub use script::{is_complete, substitute_variables};
pub use settings::{BindSettings, ResultMode, RuntimeMode};
pub use statement::{
    ExplainKind, InsertStatement, NamePattern, ObjectKind, ParsedStatement, Statement, StatementText, parse_script,
    parse_script_with, parse_statement,
};

pub use sqlparser::ast::Ident;
pub use user_function::{NativeAggregate, NativeFunction};
