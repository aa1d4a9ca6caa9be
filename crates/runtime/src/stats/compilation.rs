//! The making of machine code in the statistics.

use super::forms::seconds;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// The making of machine code for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compilation {
    /// Name of the program, such as `pipeline 0`.
    pub program: String,
    /// How long it took to make the code, or to load it from disk; zero when it was in memory.
    #[serde(rename = "time_s", serialize_with = "seconds")]
    pub time: Duration,
    /// Length of the code.
    pub code_bytes: u64,
    /// Where it came from.
    #[serde(flatten, serialize_with = "origin")]
    pub origin: CodeOrigin,
    /// What was wrong with the code kept on disk: why a file was not used, or why the code could not be kept.
    pub cache_problem: Option<String>,
}

/// Where machine code came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeOrigin {
    /// It was made for the query.
    Compiled,
    /// A query of the same process had it made or loaded.
    Memory,
    /// Another process had kept it.
    Disk,
}

impl CodeOrigin {
    /// As in the statistics.
    pub fn name(self) -> &'static str {
        match self {
            CodeOrigin::Compiled => "compiled",
            CodeOrigin::Memory => "memory",
            CodeOrigin::Disk => "disk",
        }
    }
}

/// `origin` and `reused`.
fn origin<S: Serializer>(origin: &CodeOrigin, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("origin", origin.name())?;
    map.serialize_entry("reused", &(*origin != CodeOrigin::Compiled))?;
    map.end()
}
