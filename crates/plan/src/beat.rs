//! What the beats are of a query whose results change.

/// What says when a beat ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BeatClock {
    /// How long its first row has waited, and how many have come.
    #[default]
    Arrival,
    /// The watermark of each split: a row is of the beat that the watermark before it falls into, counted in so many milliseconds from
    /// the epoch. So the beats are the same in every run.
    EventTime(u64),
    /// The end of the input: there is one beat, so each row of a result is final.
    End,
}

impl BeatClock {
    /// Whether the splits' watermarks say where beats end.
    pub fn is_event_time(self) -> bool {
        matches!(self, BeatClock::EventTime(_))
    }
}
