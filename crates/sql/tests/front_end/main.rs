//! The SQL front end before the binder: scripts, statements, tables and what goes wrong with them.
#![allow(clippy::unwrap_used)]

mod errors;
mod robustness;
mod statements;
mod tables;

/// Nexmark's tables and queries.
const NEXMARK: &str = include_str!("nexmark.sql");
/// Nexmark's tables with one file for each kind of event.
const NEXMARK_FLAT: &str = include_str!("nexmark_flat.sql");
