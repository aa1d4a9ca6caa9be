//! Sessions: the rows of a key that lie close together, aggregated or as they are.

use crate::components::SlotAggregates;
use crate::keyed::{Keyed, KeyedInput, arriving, windowed};
use millstream_types::{Field, Schema};

/// [`KeyedKind::SessionAggregate`](super::KeyedKind::SessionAggregate) and [`KeyedKind::SessionRows`](super::KeyedKind::SessionRows).
pub(crate) struct Session<'a> {
    pub(crate) gap_ms: i64,
    /// `None`: the rows are kept as they are.
    pub(crate) aggregates: Option<&'a SlotAggregates>,
}

impl<'a> Keyed<'a> for Session<'a> {
    fn text(&self, _: &Schema) -> String {
        let Session { gap_ms, aggregates } = self;
        let rows_of = if aggregates.is_some() { "" } else { "rows of " };
        format!("{rows_of}sessions, gap {gap_ms} ms")
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let name = if self.aggregates.is_some() { "session aggregation" } else { "sessions" };
        (name, vec![("gap_ms", self.gap_ms.to_string())])
    }

    fn output(&self, keys: &[Field], inputs: &[KeyedInput]) -> Schema {
        match self.aggregates {
            Some(aggregates) => windowed(keys.iter().cloned().chain(aggregates.output_fields())),
            None => windowed(arriving(inputs)),
        }
    }

    fn aggregates(&self) -> Option<&'a SlotAggregates> {
        self.aggregates
    }

    fn shows_keys(&self) -> bool {
        self.aggregates.is_some()
    }
}
