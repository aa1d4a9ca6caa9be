//! Flink-dialect SQL to a bound logical plan.
#![forbid(unsafe_code)]

pub mod bind;
pub mod catalog;
pub mod ddl;
pub mod describe;
pub mod diagnostics;
pub mod dialect;
pub mod functions;
pub mod script;
pub mod settings;
pub mod statement;
