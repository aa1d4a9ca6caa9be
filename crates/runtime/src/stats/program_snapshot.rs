//! Programs at one moment: data without a way back into the query.

use super::forms::{range, seconds_of_nanos, text};
use millstream_codegen::kernel::Tier;
use serde::Serialize;

/// A program at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramSnapshot {
    /// As EXPLAIN calls it: `pipeline 0`.
    pub name: String,
    /// In order of their making. Replaced ones are dropped beyond some dozens.
    pub variants: Vec<VariantSnapshot>,
    /// What is known of its rows; `None` for programs that are not adapted.
    pub profile: Option<ProfileSnapshot>,
    /// What each filter costs, in nanoseconds per row that comes into the program, in the order of the generic program; only
    /// after a run that was to measure it, and empty otherwise.
    pub filter_nanos: Vec<f64>,
}

/// A variant of a program at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VariantSnapshot {
    /// From 0, over the life of the program.
    pub number: u32,
    /// Whether it is interpreted or machine code.
    #[serde(serialize_with = "text")]
    pub tier: Tier,
    /// What it is specialised for; empty for generic code.
    pub choices: String,
    /// Rows that it has processed.
    pub rows: u64,
    /// Buffers, or parts of buffers.
    pub buffers: u64,
    /// Nanoseconds that workers have spent in it.
    #[serde(rename = "time_s", serialize_with = "seconds_of_nanos")]
    pub nanos: u64,
    /// Those for each row; `None` before the first.
    pub nanos_per_row: Option<f64>,
    /// The same in cycles of the reference clock; `None` where programs cannot read it, too.
    pub cycles_per_row: Option<f64>,
    /// Whether it runs now, or ran at the end.
    #[serde(rename = "current")]
    pub is_current: bool,
}

/// What is known of the recent rows of a program, from samples. Shares are from 0 to 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ProfileSnapshot {
    /// Sampled rows.
    #[serde(rename = "sampled_rows")]
    pub rows: u64,
    /// The share of rows that pass each filter, in the order of the generic program.
    #[serde(rename = "filter_shares")]
    pub filters: Vec<f64>,
    /// The grouping keys.
    pub keys: Option<KeysSnapshot>,
    /// The share of rows whose event time is before that of a row before them in their buffer.
    #[serde(rename = "out_of_order_share")]
    pub out_of_order: Option<f64>,
    /// By how many milliseconds these are behind, on average.
    pub disorder_ms: Option<f64>,
    /// Rows of a slice, at a guess.
    pub rows_per_slice: Option<f64>,
    /// The columns that the program reads.
    pub columns: Vec<ColumnSnapshot>,
}

/// The grouping keys of recent rows that pass all filters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KeysSnapshot {
    /// How many there are, at a guess.
    pub distinct: f64,
    /// The share of rows of the most frequent one.
    #[serde(rename = "heaviest_share")]
    pub heaviest: f64,
    /// The share of rows without a key, if it is one integer.
    pub null_share: f64,
    /// The least and the greatest, if they are one integer.
    #[serde(flatten, serialize_with = "range")]
    pub range: Option<(i64, i64)>,
}

/// The recent values of a column.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ColumnSnapshot {
    /// Its name.
    pub name: String,
    /// The share of NULLs.
    #[serde(rename = "null_share")]
    pub null_rate: f64,
    /// How many values it has, if few.
    pub distinct: Option<usize>,
    /// The mean length of its strings in bytes.
    pub text_bytes: Option<f64>,
}
