//! What the whole engine must do, in one test binary.
//!
//! - `corpus`: every `tests/sql/*.slt` under every configuration of `tests/configs/*.toml`;
//! - `nexmark`: Apache Flink's own results on the same files, under the same configurations;
//! - `properties`: random streams out of order, against brute-force models;
//! - `flink`: Apache Flink's answers to many small queries and expressions;
//! - `group_joins`: joins of aggregations that are one aggregation;
//! - `examples`: the examples of `docs/functions.md`;
//! - `jobs`: statements that run in the background;
//! - `local_time`: windows over TIMESTAMP_LTZ about the changes of clocks, against a model;
//! - `errors`: broken input of every kind, with code, place and what is left behind;
//! - `adaptation`: tables and windows that follow settings and data;
//! - `changes`: results that change, against those of every prefix;
//! - `memory`: the memory budget;
//! - `own_extremes`: rows with the maximum of their window, which are a ranking;
//! - `packed`: tables of packed records in memory;
//! - `repartitioned`: jobs that resume with tables in other partitions;
//! - `shapes`: which queries resume from each other's state;
//! - `skipping`: columns that are decoded for the survivors of filters only;
//! - `sorting`: ORDER BY beyond memory, and in jobs;
//! - `sums`: sums of DOUBLE, which are exact;
//! - `dependencies`: who may depend on whom, and the licences;
//! - `structure`: which modules need each other in a circle, and how long files are.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod adaptation;
mod changes;
mod configurations;
mod corpus;
mod dependencies;
mod errors;
mod examples;
mod flink;
mod group_joins;
mod jobs;
mod local_time;
mod memory;
mod nexmark;
mod nodes;
mod own_extremes;
mod packed;
mod properties;
mod recovered;
mod repartitioned;
mod shapes;
mod skipping;
mod sorting;
#[path = "../support/stopping.rs"]
mod stopping;
mod structure;
mod sums;

use std::path::PathBuf;

/// That of the command: a fifth of what the corpus takes is memory that is allocated and freed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The folder `tests` of the repository.
fn tests_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}
