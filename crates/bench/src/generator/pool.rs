//! The rows that a generator sends repeatedly.

use crate::suite::Random;
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray};
use clap::ValueEnum;
use millstream::{DataType, Field, Schema};
use std::sync::Arc;

/// Most rows of a pool: more than the most keys that a benchmark asks for.
const POOL: u64 = 1 << 20;

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Advertisements that were shown (HPI, section 3.1)
    Ads,
    /// Purchases because of advertisements, every tenth without one
    Purchases,
    /// Events of the Yahoo benchmark
    Ysb,
}

/// The name of the last column of every workload: milliseconds since 1970.
const TIME: &str = "event_time";

impl Workload {
    /// Columns before the time.
    fn fields(self) -> Vec<(&'static str, DataType)> {
        let text = DataType::Varchar(9);
        match self {
            Workload::Ads => vec![("ad_id", DataType::Int), ("user_id", DataType::Int), ("cost", DataType::Double)],
            Workload::Purchases => vec![
                ("purchase_id", DataType::Int),
                ("user_id", DataType::Int),
                ("ad_id", DataType::Int),
                ("price", DataType::Double),
            ],
            Workload::Ysb => vec![
                ("user_id", DataType::BigInt),
                ("page_id", DataType::BigInt),
                ("campaign_id", DataType::BigInt),
                ("ad_type", text.clone()),
                ("event_type", text),
                ("ip", DataType::Int),
            ],
        }
    }

    /// As the command line names it.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    /// All columns.
    pub(crate) fn schema(self) -> Schema {
        let fields = self.fields().into_iter().chain([(TIME, DataType::BigInt)]);
        Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, false)).collect())
    }

    /// All columns, as CREATE TABLE has them.
    pub(crate) fn columns(self) -> String {
        let fields = self.schema().fields;
        let column = |field: &Field| format!("{} {} NOT NULL", field.name, field.data_type);
        fields.iter().map(column).collect::<Vec<_>>().join(", ")
    }
}

/// A column of a pool.
pub(super) enum Column {
    Int(Vec<i32>),
    Long(Vec<i64>),
    Double(Vec<f64>),
    Text(Vec<&'static str>),
}

/// Rows in columns, without their times.
pub(super) struct Pool {
    pub rows: u64,
    pub columns: Vec<Column>,
    arrays: Vec<ArrayRef>,
}

impl Pool {
    /// A pool for `total` rows in all.
    pub(super) fn new(workload: Workload, keys: u64, total: u64) -> Pool {
        let rows = total.clamp(1, POOL);
        let mut random = Random::new(17 + workload as u64);
        let mut below = |end: u64| -> Vec<i64> { (0..rows).map(|_| random.below(end)).collect() };
        let ints = |values: Vec<i64>| Column::Int(values.into_iter().map(|v| v as i32).collect());
        let longs = |values: Vec<i64>| Column::Long(values);
        // Quarters add up exactly in any order.
        let money = |values: Vec<i64>| Column::Double(values.into_iter().map(|v| v as f64 / 4.0).collect());
        let words = |values: Vec<i64>, words: &[&'static str]| {
            Column::Text(values.into_iter().map(|v| words[v as usize]).collect())
        };
        let columns = match workload {
            Workload::Ads => vec![ints(below(keys)), ints(below(100_000)), money(below(400))],
            Workload::Purchases => {
                let id = |v: i64| if v % 10 == 0 { 0 } else { v };
                let ids = below(1_000_000).into_iter().map(id).collect();
                vec![ints(ids), ints(below(100_000)), ints(below(keys)), money(below(4_000))]
            }
            Workload::Ysb => vec![
                longs(below(1 << 40)),
                longs(below(1 << 40)),
                longs(below(keys)),
                words(below(5), &["banner", "modal", "sponsored", "mail", "mobile"]),
                words(below(3), &["view", "click", "purchase"]),
                ints(below(1 << 31)),
            ],
        };
        let arrays = columns.iter().map(array).collect();
        Pool { rows, columns, arrays }
    }

    /// Columns of the rows from `first` on, with these times.
    pub(super) fn arrays(&self, first: usize, times: impl ExactSizeIterator<Item = i64>) -> Vec<ArrayRef> {
        let rows = times.len();
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
        self.arrays.iter().map(|array| array.slice(first, rows)).chain([times]).collect()
    }
}

fn array(column: &Column) -> ArrayRef {
    match column {
        Column::Int(v) => Arc::new(Int32Array::from(v.clone())),
        Column::Long(v) => Arc::new(Int64Array::from(v.clone())),
        Column::Double(v) => Arc::new(Float64Array::from(v.clone())),
        Column::Text(v) => Arc::new(StringViewArray::from_iter_values(v)),
    }
}
