//! OVER: aggregates of each row and of the rows of its key before it.

use crate::components::SlotAggregates;
use crate::keyed::Keyed;
use crate::logical::Frame;
use millstream_types::Schema;

/// Aggregates over each row and rows before it, in order of time (without [`KeyedInput::time`](crate::keyed::KeyedInput::time): of
/// arrival). Columns: those of the input, then the aggregates' outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    /// Rows that count.
    pub frame: Frame,
    /// What is computed.
    pub aggregates: SlotAggregates,
}

impl Keyed for Over {
    fn text(&self, _: &Schema) -> String {
        format!("over {}", frame_text(self.frame))
    }

    fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        ("OVER aggregation", vec![("frame", frame_text(self.frame))])
    }

    fn aggregates(&self) -> Option<&SlotAggregates> {
        Some(&self.aggregates)
    }

    /// With a bound, a row is late by what was put out for its key. Only the operator knows that.
    fn reach_ms(&self) -> Option<i64> {
        let is_bounded = matches!(self.frame, Frame::Rows(Some(_)) | Frame::Range(Some(_)));
        (!is_bounded).then_some(0)
    }
}

/// What EXPLAIN calls a frame. Checkpoints have these words, too: they stay.
pub(crate) fn frame_text(frame: Frame) -> String {
    match frame {
        Frame::Rows(None) => "all rows before".into(),
        Frame::Rows(Some(rows)) => format!("{rows} rows before"),
        Frame::Range(None) => "all times before".into(),
        Frame::Range(Some(ms)) => format!("{ms} ms before"),
    }
}
