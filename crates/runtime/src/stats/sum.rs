//! What several nodes have done, as one: their counters, part by part of the plan, which all have.
//!
//! Counts, bytes and times are added up. Of what all nodes see (windows that are complete, how long the slowest write takes) the highest counts.
//! What is sent by another process is not trusted: sums stay within their numbers.

use super::checkpoints::CheckpointSnapshot;
use super::histogram::Times;
use super::sent::SentSnapshot;
use super::snapshot::{
    Begun, PipelineSnapshot, SinkSnapshot, SourceSnapshot, SplitSnapshot, StatsSnapshot, TriggerSnapshot,
};
use super::spill::SpillSnapshot;
use millstream_state::MemorySnapshot;
use std::time::Duration;

/// Samples of bad rows that are shown of each node.
const MOST_SAMPLES: usize = 50;

/// Adds each to its sum.
fn add<const N: usize>(sums: [(&mut u64, u64); N]) {
    sums.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
}

impl StatsSnapshot {
    /// Adds what node `node` has done. Its watermarks are another matter.
    pub(super) fn add(&mut self, other: &StatsSnapshot, node: usize) {
        let windows = self.windows_of_keys().saturating_add(other.windows_of_keys());
        for (all, of) in self.sources.iter_mut().zip(&other.sources) {
            all.add(of, node);
        }
        self.pipelines.iter_mut().zip(&other.pipelines).for_each(|(all, of)| all.add(of));
        self.aggregations.iter_mut().zip(&other.aggregations).for_each(|(all, of)| all.add(of));
        self.operators.iter_mut().zip(&other.operators).for_each(|(all, of)| all.add(of));
        self.sinks.iter_mut().zip(&other.sinks).for_each(|(all, of)| all.add(of));
        self.windows_fired = windows.saturating_add(self.windows_of_all());
        add([
            (&mut self.rows_in, other.rows_in),
            (&mut self.bytes_in, other.bytes_in),
            (&mut self.rows_out, other.rows_out),
            (&mut self.late_rows, other.late_rows),
            (&mut self.skipped_rows, other.skipped_rows),
            (&mut self.error_rows, other.error_rows),
            (&mut self.buffers, other.buffers),
            (&mut self.queued, other.queued),
            (&mut self.beats.inserted, other.beats.inserted),
            (&mut self.beats.updated, other.beats.updated),
            (&mut self.beats.deleted, other.beats.deleted),
        ]);
        self.trigger_delay.add(&other.trigger_delay);
        self.samples.extend(other.samples.iter().take(MOST_SAMPLES).cloned());
        self.first_error = self.first_error.take().or_else(|| other.first_error.clone());
        self.memory.add(&other.memory);
        self.spill.add(&other.spill);
        self.checkpoints.add(&other.checkpoints);
    }

    /// What is left of what a node has done when another process has taken its place: counts and times, and nothing that is there now.
    pub(super) fn of_the_past(mut self) -> StatsSnapshot {
        for source in &mut self.sources {
            (source.queued, source.split_count, source.idle_splits) = (0, 0, 0);
            (source.lag, source.splits) = (None, Vec::new());
        }
        self.pipelines.iter_mut().for_each(|pipeline| (pipeline.queued, pipeline.epochs_in_flight) = (0, 0));
        self.aggregations
            .iter_mut()
            .chain(&mut self.operators)
            .for_each(|trigger| (trigger.in_flight, trigger.state_bytes) = (0, 0));
        for sink in &mut self.sinks {
            (sink.writing, sink.committing) = (Duration::ZERO, Duration::ZERO);
        }
        (self.queued, self.spill.bytes_held) = (0, 0);
        self.memory = MemorySnapshot::default();
        self
    }

    /// Windows that every node has a part of the keys of.
    fn windows_of_all(&self) -> u64 {
        self.aggregations.iter().fold(0, |sum, aggregation| sum.saturating_add(aggregation.begun.count()))
    }

    /// Windows that belong to one key, which one node has: sessions, and windows of so many rows.
    fn windows_of_keys(&self) -> u64 {
        self.windows_fired.saturating_sub(self.windows_of_all())
    }
}

impl SourceSnapshot {
    fn add(&mut self, other: &SourceSnapshot, node: usize) {
        // Of a column without values only those know something that have read rows.
        if self.rows == 0 {
            self.empty_columns.clone_from(&other.empty_columns);
        } else if other.rows > 0 {
            self.empty_columns.retain(|column| other.empty_columns.contains(column));
        }
        add([
            (&mut self.rows, other.rows),
            (&mut self.bytes, other.bytes),
            (&mut self.chunks, other.chunks),
            (&mut self.queued, other.queued),
            (&mut self.split_count, other.split_count),
            (&mut self.idle_splits, other.idle_splits),
        ]);
        self.lag = self.lag.into_iter().chain(other.lag).reduce(u64::saturating_add);
        self.decode_time.add(&other.decode_time);
        self.waits = self.waits.plus(&other.waits);
        self.splits.extend(other.splits.iter().map(|split| SplitSnapshot { node, ..split.clone() }));
    }
}

impl PipelineSnapshot {
    fn add(&mut self, other: &PipelineSnapshot) {
        add([
            (&mut self.rows_in, other.rows_in),
            (&mut self.rows_out, other.rows_out),
            (&mut self.buffers, other.buffers),
            (&mut self.queued, other.queued),
            (&mut self.epochs_in_flight, other.epochs_in_flight),
        ]);
        self.queued_max = self.queued_max.max(other.queued_max);
        self.task_time.add(&other.task_time);
    }
}

impl TriggerSnapshot {
    fn add(&mut self, other: &TriggerSnapshot) {
        match &mut self.begun {
            // A watermark completes a window on all nodes, for the keys that each has.
            Begun::Windows(all) => {
                *all = (*all).max(other.begun.count());
                self.in_flight = self.in_flight.max(other.in_flight);
            }
            Begun::Jobs(all) => add([(all, other.begun.count()), (&mut self.in_flight, other.in_flight)]),
        }
        add([(&mut self.rows_out, other.rows_out)]);
        self.busy = self.busy.saturating_add(other.busy);
        self.delay.add(&other.delay);
        add([(&mut self.state_bytes, other.state_bytes)]);
        self.sent.add(&other.sent);
    }
}

impl SinkSnapshot {
    fn add(&mut self, other: &SinkSnapshot) {
        add([(&mut self.rows, other.rows)]);
        self.busy = self.busy.saturating_add(other.busy);
        (self.writing, self.committing) = (self.writing.max(other.writing), self.committing.max(other.committing));
        self.sent.add(&other.sent);
    }
}

impl SentSnapshot {
    fn add(&mut self, other: &SentSnapshot) {
        add([(&mut self.frames, other.frames), (&mut self.bytes, other.bytes)]);
    }
}

impl SpillSnapshot {
    fn add(&mut self, other: &SpillSnapshot) {
        add([
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.files, other.files),
            (&mut self.bytes_held, other.bytes_held),
        ]);
    }
}

impl CheckpointSnapshot {
    /// The first node counts checkpoints and their bytes for all; threads are held on each.
    fn add(&mut self, other: &CheckpointSnapshot) {
        self.handing_over.add(&other.handing_over);
        self.handing_over_processor.add(&other.handing_over_processor);
    }
}

impl Times {
    /// Percentiles are the highest of the nodes: that of all is no higher.
    fn add(&mut self, other: &Times) {
        add([(&mut self.count, other.count)]);
        self.sum = self.sum.saturating_add(other.sum);
        let mean = self.sum.as_nanos() / u128::from(self.count.max(1));
        self.mean = Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX));
        (self.p50, self.p99) = (self.p50.max(other.p50), self.p99.max(other.p99));
        self.max = self.max.max(other.max);
    }
}
