//! What has been spilled.

use millstream_storage::SpillCounters;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is known of the state of a run that was spilled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpillSnapshot {
    /// Bytes written.
    #[serde(rename = "written_bytes")]
    pub bytes_written: u64,
    /// Bytes read back.
    #[serde(rename = "read_bytes")]
    pub bytes_read: u64,
    /// Files written.
    pub files: u64,
    /// Bytes of the files that are there.
    #[serde(rename = "held_bytes")]
    pub bytes_held: u64,
}

impl SpillSnapshot {
    /// The numbers so far.
    pub(crate) fn of(counters: &SpillCounters) -> SpillSnapshot {
        let [bytes_written, bytes_read, files, bytes_held] =
            [&counters.written, &counters.read, &counters.files, &counters.held]
                .map(|counter: &AtomicU64| counter.load(Relaxed));
        SpillSnapshot { bytes_written, bytes_read, files, bytes_held }
    }
}
