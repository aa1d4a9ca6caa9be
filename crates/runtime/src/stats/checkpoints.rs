//! Counters of checkpoints.

use super::forms::{from_optional_seconds, from_seconds, optional_seconds, seconds};
use super::histogram::{Histogram, Times};
use crate::schedule::threads::Watch;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct CheckpointStats {
    /// All but the times.
    pub(crate) counts: Mutex<CheckpointSnapshot>,
    /// When the last one was complete.
    completed: Mutex<Option<Instant>>,
    duration: Histogram,
    handing_over: Histogram,
    handing_over_processor: Histogram,
    /// Whether any are taken while the query runs; unset until it is built.
    pub(crate) are_taken: OnceLock<bool>,
}

/// Checkpoints that are kept.
const KEPT: usize = 50;

/// A checkpoint that is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Its number.
    pub number: u64,
    /// When it was complete, in milliseconds since 1970.
    pub at_ms: u64,
    /// From the cut to the commit of sinks.
    #[serde(rename = "duration_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub duration: Duration,
    /// Until the cut had passed everywhere, and what it cut off was handed over: state is written meanwhile.
    #[serde(rename = "cut_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub cut: Duration,
    /// For the rest of the state, and the manifest.
    #[serde(rename = "write_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub write: Duration,
    /// For what sinks prepare and commit.
    #[serde(rename = "commit_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub commit: Duration,
    /// Bytes that it has written.
    pub written_bytes: u64,
    /// Bytes that it consists of, some of them written by earlier ones.
    pub state_bytes: u64,
}

/// What is known of the checkpoints of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointSnapshot {
    /// Begun so far.
    pub begun: u64,
    /// Complete so far.
    pub complete: u64,
    /// Number of the last complete one; 0 if there is none.
    pub last: u64,
    /// Bytes that all of them have written.
    #[serde(rename = "written_bytes")]
    pub bytes_written: u64,
    /// Bytes that the last one consists of, some of them written by earlier ones.
    pub state_bytes: u64,
    /// Since the last one was complete; `None` if there is none.
    #[serde(rename = "age_s", serialize_with = "optional_seconds", deserialize_with = "from_optional_seconds")]
    pub age: Option<Duration>,
    /// From the cut to the commit of sinks.
    pub duration: Times,
    /// The last ones, in order.
    pub recent: Vec<CheckpointRecord>,
    /// How long threads that process rows were busy with what the cut takes.
    pub handing_over: Times,
    /// How long they had the processor for it: the rest is what other threads and processes did meanwhile.
    pub handing_over_processor: Times,
}

impl CheckpointStats {
    /// A checkpoint is complete.
    pub(crate) fn note(&self, number: u64, took: Duration) {
        self.counts.lock().last = number;
        *self.completed.lock() = Some(Instant::now());
        self.duration.record(took);
    }

    /// The first node has made one.
    pub(crate) fn record(&self, record: CheckpointRecord) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut counts = self.counts.lock();
        counts.bytes_written += record.written_bytes;
        counts.state_bytes = record.state_bytes;
        if counts.recent.len() == KEPT {
            counts.recent.remove(0);
        }
        counts.recent.push(CheckpointRecord { at_ms: now.as_millis() as u64, ..record });
    }

    /// A thread that processes rows has handed something over.
    pub(crate) fn note_handing_over(&self, watch: &Watch) {
        let (took, processor) = watch.elapsed();
        self.handing_over.record(took);
        self.handing_over_processor.record(processor);
    }

    /// The numbers so far.
    pub(crate) fn snapshot(&self) -> CheckpointSnapshot {
        let duration = self.duration.times();
        CheckpointSnapshot {
            complete: duration.count,
            age: self.completed.lock().map(|at| at.elapsed()),
            duration,
            handing_over: self.handing_over.times(),
            handing_over_processor: self.handing_over_processor.times(),
            ..self.counts.lock().clone()
        }
    }
}
