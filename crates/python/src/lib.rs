//! The extension module `millstream._core`: the engine and its command as Python sees them. What users read is in
//! `python/millstream`.
//!
//! | file | what |
//! | --- | --- |
//! | `session`, `relation` | a catalog; queries of it |
//! | `reader`, `job`, `waiting` | rows on their way; INSERTs in the background; how one waits |
//! | `frame`, `source`, `sink` | Python's tables as tables of SQL; tables whose rows code of Python makes or takes |
//! | `batch`, `rows` | rows as Arrow and as Python values; parameters |
//! | `cluster` | nodes of a cluster; code of the program on them |
//! | `capsule` | the Arrow PyCapsule interface |
//! | `error` | errors as exceptions |
//! | `function`, `aggregate`, `calls` | functions of Python in SQL; how those that run are ended |
//! | `thread_state` | threads of the engine that run code of Python |
//! | `process` | children that were forked |
//!
//! Invariant: who holds the interpreter never waits for the engine, whose threads may want it.
#![deny(unsafe_code)]

mod aggregate;
mod batch;
mod calls;
mod capsule;
mod cluster;
mod error;
mod frame;
mod function;
mod job;
mod process;
mod reader;
mod relation;
mod rows;
mod session;
mod sink;
mod source;
mod thread_state;
mod waiting;

use pyo3::prelude::*;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "static-libraries")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// See the crate.
#[pymodule(gil_used = false)]
mod _core {
    use super::*;

    #[pymodule_export]
    use super::batch::{Batch, Batches};
    #[pymodule_export]
    use super::calls::interrupt_thread;
    #[pymodule_export]
    use super::cluster::Cluster;
    #[pymodule_export]
    use super::function::{Column, column_from_bytes, column_to_bytes};
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::reader::Reader;
    #[pymodule_export]
    use super::relation::Relation;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::source::Feed;

    /// The version of the package.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// Cancels all queries and jobs, and waits for their end, for so many seconds at most.
    #[pyfunction]
    fn end_all(py: Python<'_>, seconds: f64) {
        py.detach(|| process::end_all(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
    }

    /// Runs the command `millstream` with these words, of which the first is its name; the exit code.
    #[pyfunction]
    fn run_command(py: Python<'_>, words: Vec<OsString>) -> u8 {
        py.detach(|| millstream_cli::run(words, Some(Arc::new(cluster::PythonLoader))))
    }
}
