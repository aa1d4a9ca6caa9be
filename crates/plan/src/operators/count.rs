//! Count windows: so many rows of a key in order of arrival, aggregated or as they are.

use crate::components::SlotAggregates;
use crate::keyed::{Keyed, KeyedInput, arriving, windowed};
use millstream_types::{Field, Schema};

/// [`KeyedKind::CountAggregate`](super::KeyedKind::CountAggregate) and [`KeyedKind::CountRows`](super::KeyedKind::CountRows).
pub(crate) struct Count<'a> {
    pub(crate) size: u64,
    pub(crate) slide: u64,
    /// `None`: the rows are kept as they are.
    pub(crate) aggregates: Option<&'a SlotAggregates>,
}

impl<'a> Keyed<'a> for Count<'a> {
    fn text(&self, _: &Schema) -> String {
        let Count { size, slide, aggregates } = self;
        let rows_of = if aggregates.is_some() { "" } else { "rows of " };
        format!("{rows_of}windows of {size} rows every {slide} rows")
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let name = if self.aggregates.is_some() { "count window aggregation" } else { "count windows" };
        (name, vec![("size_rows", self.size.to_string()), ("slide_rows", self.slide.to_string())])
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
