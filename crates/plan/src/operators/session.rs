//! Sessions: the rows of a key that lie close together, aggregated or as they are.

use crate::components::SlotAggregates;
use crate::keyed::{Keyed, window_bounds};
use millstream_types::{Field, Schema};

/// Sessions of a key. Columns: keys, the aggregates' outputs, or the columns of the input; then `window_start` and `window_end` as
/// TIMESTAMP(3).
#[derive(Debug, Clone, PartialEq)]
pub struct Sessions {
    /// Milliseconds.
    pub gap_ms: i64,
    /// What is computed; `None`: the rows are kept as they are.
    pub aggregates: Option<SlotAggregates>,
}

impl Keyed for Sessions {
    fn text(&self, _: &Schema) -> String {
        let Sessions { gap_ms, aggregates } = self;
        let rows_of = if aggregates.is_some() { "" } else { "rows of " };
        format!("{rows_of}sessions, gap {gap_ms} ms")
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let name = if self.aggregates.is_some() { "session aggregation" } else { "sessions" };
        (name, vec![("gap_ms", self.gap_ms.to_string())])
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
