//! Hand-made plans over sources and sinks in memory, against brute-force models:
//!
//! - `stateless`, `stages`: pipelines, and those of several stages;
//! - `windows`, `overlap`, `appending`: aggregations, by window and by how their tables are filled;
//! - `joins`, `keyed`: operators whose rows are partitioned by key;
//! - `nodes`: several nodes in one process; `simulation`, `replacing`: those that die at any message;
//! - `failures`, `checkpoints`: errors and cancellation anywhere, and storage that fails.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod appending;
mod checkpoints;
mod failures;
mod joins;
mod keyed;
mod nodes;
mod overlap;
mod replacing;
mod simulation;
mod stages;
mod stateless;
mod support;
mod windows;
