//! A repetition of a system as a line of JSON (docs/benchmarks.md describes the fields).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One run of one system over one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) benchmark: String,
    /// `parameter=value`, after `figure/` when a benchmark has several.
    pub(crate) case: String,
    pub(crate) system: String,
    pub(crate) threads: usize,
    /// Rows that went in.
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    pub(crate) rows_per_s: f64,
    /// Of the bytes that the query must touch, 0 if that is not said.
    #[serde(default)]
    pub(crate) bytes_per_s: f64,
    /// What is compared with that of other systems: rows of the result and the sum of their hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
    /// Measures that only some benchmarks have, such as `compile_ms`.
    #[serde(flatten)]
    pub(crate) more: Map<String, Value>,
}

impl Record {
    /// The part of the case before `/`: what is drawn in one plot.
    pub(crate) fn figure(&self) -> &str {
        self.case.rsplit_once('/').map_or("", |(figure, _)| figure)
    }

    /// The case within its figure.
    pub(crate) fn point(&self) -> &str {
        self.case.rsplit_once('/').map_or(self.case.as_str(), |(_, point)| point)
    }

    /// The parameter of the case and its value, if the case is `parameter=number`.
    pub(crate) fn parameter(&self) -> Option<(&str, f64)> {
        let (name, value) = self.point().split_once('=')?;
        Some((name, value.parse().ok()?))
    }
}
