//! What of a session's settings decides about what a query means.

use millstream_plan::beat::BeatClock;
use std::time::Duration;

/// `execution.runtime-mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuntimeMode {
    /// Every input may be endless.
    Streaming,
    /// Every input is bounded.
    Batch,
    /// An input is bounded if all tables that it reads are.
    #[default]
    Automatic,
}

/// `sql-client.execution.result-mode`: what a SELECT shows whose result changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultMode {
    /// Its rows as they are at last, if its input has an end, and else its changes.
    #[default]
    Automatic,
    /// Its rows as they are: at last, or on a terminal as they come.
    Table,
    /// Its changes.
    Changelog,
}

/// The settings that binding depends on.
#[derive(Debug, Clone, Copy, Default)]
pub struct BindSettings {
    /// Whether a bounded input is one window, so that GROUP BY without a window is allowed.
    pub runtime_mode: RuntimeMode,
    /// What a SELECT shows whose result changes.
    pub result_mode: ResultMode,
    /// What ends beats.
    pub beat: BeatClock,
    /// How long what is kept of all rows is, in processing time since it was written; `None`: forever.
    pub state_ttl: Option<Duration>,
}

impl BindSettings {
    /// `state_ttl` in milliseconds.
    pub fn state_ttl_ms(&self) -> Option<u64> {
        // Rounds up: less than a millisecond counts as one, not as the 0 that is "forever" in SET.
        let ms = |ttl: Duration| u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        self.state_ttl.map(ms)
    }
}
