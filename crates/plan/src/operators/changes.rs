//! Net changes: what a sink that shows changes gets. Within a beat rows come and go in any order; at its end a key has changed at
//! most once.

use crate::keyed::{Keyed, KeyedInput, arriving};
use millstream_types::{DataType, Field, Schema};

/// The changes of each beat, added up by row and paired by key. The last column that arrives is the weight; in its place the kind of
/// change is put out, a [`RowKind`](millstream_types::RowKind) as TINYINT. Rows of a key come one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changes {
    /// Whether the keys of the operator tell rows apart at any moment. If not, a row is replaced by taking it back and adding
    /// another.
    pub is_keyed: bool,
}

impl Keyed for Changes {
    fn text(&self, _: &Schema) -> String {
        format!("net changes by {}", if self.is_keyed { "key" } else { "row" })
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("net changes", vec![])
    }

    fn ends_beats(&self) -> bool {
        true
    }

    fn output(&self, _: &[Field], inputs: &[KeyedInput]) -> Schema {
        let mut fields: Vec<Field> = arriving(inputs).collect();
        fields.pop();
        fields.push(Field::new("op", DataType::TinyInt, false));
        Schema::new(fields)
    }
}
