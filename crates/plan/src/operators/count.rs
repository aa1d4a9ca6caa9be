//! Count windows: a fixed number of rows of a key in order of arrival, aggregated or as they are.

use crate::components::SlotAggregates;
use crate::keyed::{Keyed, window_bounds};
use millstream_types::{Field, Schema};

/// `size` rows of a key in order of arrival, every `slide` rows; only full windows are put out. Columns as for sessions; the window is
/// from the smallest time in it to 1 ms after the largest.
#[derive(Debug, Clone, PartialEq)]
pub struct CountWindows {
    /// Rows.
    pub size: u64,
    /// Rows.
    pub slide: u64,
    /// What is computed; `None`: the rows are kept as they are.
    pub aggregates: Option<SlotAggregates>,
}

impl Keyed for CountWindows {
    fn text(&self, _: &Schema) -> String {
        let CountWindows { size, slide, aggregates } = self;
        let rows_of = if aggregates.is_some() { "" } else { "rows of " };
        format!("{rows_of}windows of {size} rows every {slide} rows")
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let name = if self.aggregates.is_some() { "count window aggregation" } else { "count windows" };
        (name, vec![("size_rows", self.size.to_string()), ("slide_rows", self.slide.to_string())])
    }

    fn aggregates(&self) -> Option<&SlotAggregates> {
        self.aggregates.as_ref()
    }

    fn appended(&self) -> Vec<Field> {
        window_bounds()
    }

    fn shows_keys(&self) -> bool {
        self.aggregates.is_some()
    }
}
