//! Groups of all rows so far: what GROUP BY without a window is over endless input. Their results change with every beat.

use crate::components::SlotAggregates;
use crate::keyed::{Keyed, ttl_constant, ttl_text, weight_field};
use millstream_types::{Field, Schema};

/// Groups that are never complete. Columns: keys, the aggregates' outputs, the weight. At the end of a beat each group whose outputs
/// differ from those that were put out last is put out: as it was, with weight -1, and as it is, with weight 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What is computed.
    pub aggregates: SlotAggregates,
    /// Of an input that changes.
    pub changes: Option<GroupChanges>,
    /// For how many milliseconds of processing time a group is kept that no row comes for; `None`: for good.
    pub ttl_ms: Option<u64>,
}

/// How a group goes along with an input that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupChanges {
    /// Position of the weight in the input.
    pub weight: usize,
    /// The component that adds up all weights: a group in which that is 0 has no rows, and is none unless it is that of all rows.
    pub rows: usize,
}

impl Keyed for Group {
    fn text(&self, _: &Schema) -> String {
        let rows = if self.changes.is_some() { "all rows that have not been taken back" } else { "all rows" };
        format!("groups of {rows}{}", ttl_text(self.ttl_ms))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        let name = if self.changes.is_some() { "groups of changes" } else { "groups" };
        (name, ttl_constant("ttl_ms", self.ttl_ms).into_iter().collect())
    }

    fn aggregates(&self) -> Option<&SlotAggregates> {
        Some(&self.aggregates)
    }

    fn appended(&self) -> Vec<Field> {
        vec![weight_field()]
    }

    fn shows_keys(&self) -> bool {
        true
    }

    fn ends_beats(&self) -> bool {
        true
    }

    fn keeps(&self, keys: bool) -> Option<String> {
        if self.ttl_ms.is_some() {
            return None;
        }
        Some(if keys { "a group for each key, so its state grows with the keys" } else { "one group" }.into())
    }
}
