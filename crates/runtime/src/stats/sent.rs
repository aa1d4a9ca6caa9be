//! What the nodes of a query have sent each other, by station. Marks are not counted: they are a few bytes each.

use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of what a station has sent to itself on other nodes.
#[derive(Debug, Default)]
pub(crate) struct SentStats {
    frames: AtomicU64,
    bytes: AtomicU64,
}

/// What a station has sent to itself on other nodes; nothing on one node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSnapshot {
    /// Frames: rows or partials that were sent together.
    #[serde(rename = "sent_frames")]
    pub frames: u64,
    /// Their bytes.
    #[serde(rename = "sent_bytes")]
    pub bytes: u64,
}

impl SentStats {
    /// Counts a frame.
    pub(crate) fn count(&self, bytes: usize) {
        self.frames.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> SentSnapshot {
        SentSnapshot { frames: self.frames.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}
