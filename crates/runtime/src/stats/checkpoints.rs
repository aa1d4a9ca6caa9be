//! Counters of checkpoints.

use super::forms::{from_optional_seconds, optional_seconds};
use super::histogram::{Histogram, Times};
use crate::schedule::threads::Watch;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

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
