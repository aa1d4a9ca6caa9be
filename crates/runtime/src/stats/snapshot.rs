//! The statistics of a query at one moment: data without a way back into the query.
//!
//! Serialised they are the object that `docs/statistics.md` describes.

use super::beats::BeatSnapshot;
use super::checkpoints::CheckpointSnapshot;
use super::compilation::Compilation;
use super::forms::{from_seconds, optional_seconds, seconds};
use super::histogram::Times;
use super::program_snapshot::ProgramSnapshot;
use super::samples::RowSample;
use super::sent::SentSnapshot;
use super::spill::SpillSnapshot;
use super::waits::WaitSnapshot;
use crate::adaptive::Event;
use crate::adaptive::signals::hardware_counters::HardwareSnapshot;
use millstream_state::MemorySnapshot;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The number of the form of [`StatsSnapshot`]. It is raised when a field is renamed, changes its meaning or is dropped, and stays
/// when one is added.
pub const STATS_VERSION: u32 = 1;

/// The counters at one moment. Counts and sums only grow; what waits or is in flight goes up and down, and is 0 after
/// the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StatsSnapshot {
    /// [`STATS_VERSION`].
    pub version: u32,
    /// Checkpoints.
    pub checkpoints: CheckpointSnapshot,
    /// State that was spilled.
    pub spill: SpillSnapshot,
    /// Beats, if results change.
    pub beats: BeatSnapshot,
    /// Since the statistics were made, until the end of the run; of several nodes that of the first.
    #[serde(rename = "elapsed_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub elapsed: Duration,
    /// Rows decoded from all sources.
    pub rows_in: u64,
    /// Bytes read from all sources, after decompression.
    pub bytes_in: u64,
    /// Rows written to all sinks.
    pub rows_out: u64,
    /// Rows that came too late: dropped, or joined with what was still kept.
    #[serde(rename = "records_late_total")]
    pub late_rows: u64,
    /// Malformed records that the format's options skipped.
    #[serde(rename = "records_malformed_total")]
    pub skipped_rows: u64,
    /// Rows dropped by [`crate::ErrorPolicy::Skip`].
    #[serde(rename = "records_failed_total")]
    pub error_rows: u64,
    /// Windows written (a window without rows is none).
    #[serde(rename = "windows")]
    pub windows_fired: u64,
    /// Buffers processed by all pipelines.
    pub buffers: u64,
    /// Tasks that wait for a worker: chunks to be decoded, buffers to be processed, windows to be written.
    pub queued: u64,
    /// Workers that wait for a task.
    pub workers_idle: u64,
    /// The lowest source watermark in milliseconds; `None` before the first and after the end of input.
    pub watermark_ms: Option<i64>,
    /// Trigger delays of all aggregations and keyed operators.
    pub trigger_delay: Times,
    /// The error of one of the rows in `error_rows`.
    pub first_error: Option<String>,
    /// Rows that came too late, malformed records and failed rows, the last ones.
    pub samples: Vec<RowSample>,
    /// The programs for which there is machine code, in order of its making.
    #[serde(skip_deserializing)]
    pub compilations: Vec<Compilation>,
    /// What was adapted to the data, in order; the last thousand.
    #[serde(skip_deserializing)]
    pub events: Vec<Event>,
    /// The programs that have processed rows, with their variants.
    #[serde(skip_deserializing)]
    pub programs: Vec<ProgramSnapshot>,
    /// What the query holds of its memory budget; zeroes before it is built.
    pub memory: MemorySnapshot,
    /// One for each source of the plan.
    pub sources: Vec<SourceSnapshot>,
    /// One for each pipeline of the plan.
    pub pipelines: Vec<PipelineSnapshot>,
    /// One for each windowed aggregation of the plan.
    pub aggregations: Vec<TriggerSnapshot>,
    /// One for each keyed operator of the plan.
    pub operators: Vec<TriggerSnapshot>,
    /// One for each sink of the plan.
    pub sinks: Vec<SinkSnapshot>,
    /// One for each node of a run on a cluster: how the work is spread.
    #[serde(skip_deserializing)]
    pub nodes: Vec<NodeSnapshot>,
    /// One for each worker of this node; empty before the start.
    #[serde(skip_deserializing)]
    pub workers: Vec<WorkerSnapshot>,
    /// Cycles of the processor's reference clock (x86-64: the time-stamp counter, of a fixed frequency) per nanosecond;
    /// `None` where programs cannot read it.
    pub cycles_per_nano: Option<f64>,
    /// What hardware counters say; `None` where the machine has none or does not let programs use them.
    #[serde(skip_deserializing)]
    pub hardware: Option<HardwareSnapshot>,
}

/// Counters of a source at one moment: sums over its splits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSnapshot {
    /// Number and table, as EXPLAIN says: `source 0: table bid`.
    pub name: String,
    /// Rows decoded.
    pub rows: u64,
    /// Columns that are read and that no row so far had a value in.
    pub empty_columns: Vec<String>,
    /// Bytes read.
    pub bytes: u64,
    /// Chunks decoded.
    pub chunks: u64,
    /// Chunks that wait for being decoded.
    pub queued: u64,
    /// Time that workers spent on each chunk: decoding, event times, and the stamping of buffers.
    pub decode_time: Times,
    /// Records that are there and have not been read, of the splits that know it; `None` if none does.
    #[serde(rename = "lag_records")]
    pub lag: Option<u64>,
    /// The source watermark in milliseconds: the minimum over its splits that are not idle.
    pub watermark_ms: Option<i64>,
    /// How many splits there are; 0 before the start.
    pub split_count: u64,
    /// Those that are silent for so long that they do not hold the watermark back.
    pub idle_splits: u64,
    /// Backpressure: how long the readers of all its splits have waited.
    pub waits: WaitSnapshot,
    /// One for each split, but only some hundreds of each other node; empty before the start.
    pub splits: Vec<SplitSnapshot>,
}

/// Counters of a split at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitSnapshot {
    /// What its connector calls it: a file's path, a shard.
    pub name: String,
    /// Rows decoded.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Chunks decoded.
    pub chunks: u64,
    /// Chunks that wait for being decoded.
    pub queued: u64,
    /// Up to where all its rows have been processed, in milliseconds; `None` before the first watermark and after the end.
    pub watermark_ms: Option<i64>,
    /// Whether it has been silent for this long that it does not hold the watermark back.
    #[serde(rename = "idle")]
    pub is_idle: bool,
    /// Whether it has been read to its end.
    #[serde(rename = "ended")]
    pub has_ended: bool,
    /// Records that are there and have not been read; `None` where the connector does not know it.
    #[serde(rename = "lag_records")]
    pub lag: Option<u64>,
    /// The number of the node that reads it.
    pub node: usize,
    /// Why its server does not answer, while it does not; only of connectors that wait for it to come back.
    pub trouble: Option<String>,
    /// Since the last chunk was read, or since the start.
    #[serde(rename = "silent_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub silent: Duration,
    /// Backpressure: how long its reader has waited, by the rule that it waited for.
    pub waits: WaitSnapshot,
}

/// Counters of a pipeline at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineSnapshot {
    /// As EXPLAIN calls it: `pipeline 0`.
    pub name: String,
    /// Rows that came in.
    pub rows_in: u64,
    /// Rows that reached a sink, a lookup table or a keyed operator; 0 for pipelines that end in an aggregation.
    pub rows_out: u64,
    /// Buffers whose processing has begun: one task each.
    pub buffers: u64,
    /// Buffers that wait.
    pub queued: u64,
    /// The most buffers that have waited at a time.
    pub queued_max: u64,
    /// Epochs, over all splits of its input, that are not released; the open one of each is among them.
    pub epochs_in_flight: u64,
    /// Up to where all its input has been processed, in milliseconds; `None` before the first watermark and after the end.
    pub watermark_ms: Option<i64>,
    /// Time that workers spent on each buffer; of rows that are partitioned, also on each part of one in its lane.
    pub task_time: Times,
}

/// Counters of an aggregation or a keyed operator at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerSnapshot {
    /// As EXPLAIN calls it: `aggregation 0`, `operator 0`.
    pub name: String,
    /// What watermarks have called for.
    #[serde(flatten)]
    pub begun: Begun,
    /// Those of `begun` whose rows have not all been delivered.
    pub in_flight: u64,
    /// Rows delivered.
    pub rows_out: u64,
    /// Time that workers have spent on it: sealing and merging tables, combining windows, doing jobs.
    #[serde(rename = "busy_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub busy: Duration,
    /// The time of each from the watermark that completed it until its rows were all buffers of the next pipeline.
    #[serde(rename = "trigger_delay")]
    pub delay: Times,
    /// Bytes of its state in memory.
    pub state_bytes: u64,
    /// What it has sent to other nodes.
    #[serde(flatten)]
    pub sent: SentSnapshot,
}

/// What the watermarks of a station have called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begun {
    /// Windows that are complete.
    Windows(u64),
    /// Jobs of a partition of a keyed operator.
    Jobs(u64),
}

impl Begun {
    /// How many.
    pub fn count(self) -> u64 {
        match self {
            Begun::Windows(count) | Begun::Jobs(count) => count,
        }
    }
}

/// Counters of a sink at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkSnapshot {
    /// Number and table, as EXPLAIN says: `sink 0: results`.
    pub name: String,
    /// Rows written.
    pub rows: u64,
    /// Time spent on writing. (Rows are encoded before, in the pipeline's tasks.)
    #[serde(rename = "busy_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub busy: Duration,
    /// How long the write that is under way has taken; 0 between writes.
    #[serde(rename = "writing_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub writing: Duration,
    /// How long the commit of a checkpoint's rows that is under way has taken; 0 between commits.
    #[serde(rename = "committing_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub committing: Duration,
    /// What other nodes have sent to it.
    #[serde(flatten)]
    pub sent: SentSnapshot,
}

/// What one of several nodes has done, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeSnapshot {
    /// Its number: 0 is the first.
    pub node: usize,
    /// Since it has told this; 0 of the first, and `None` if it has told nothing so far.
    #[serde(rename = "age_s", serialize_with = "optional_seconds")]
    pub age: Option<Duration>,
    /// Since its statistics were made.
    #[serde(rename = "elapsed_s", serialize_with = "seconds")]
    pub elapsed: Duration,
    /// How often another process has taken its place while the run went on.
    pub replaced: u64,
    /// Rows decoded from the splits that it reads.
    pub rows_in: u64,
    /// Those of about the last second, and after the end of the run of all its time.
    pub rows_per_second: f64,
    /// Rows that it has written to sinks.
    pub rows_out: u64,
    /// The lowest watermark of its splits in milliseconds; `None` before the first and after the end of its input.
    pub watermark_ms: Option<i64>,
    /// Bytes of its state, in memory and in spilled files.
    pub state_bytes: u64,
    /// Bytes of rows and partials that it has sent to other nodes.
    pub sent_bytes: u64,
    /// Its lanes to the other nodes: what each still has of the credit of that node.
    pub lanes: Vec<LaneSnapshot>,
    /// Why it is gone, as long as no other process is in its place.
    pub lost: Option<String>,
}

/// What is under way from a node to another one at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneSnapshot {
    /// The other node.
    pub to: usize,
    /// The credit: so many bytes may be unfinished there, so that no node is sent more than it can hold.
    pub credit_bytes: u64,
    /// Bytes that are on their way, or that the other node has not finished.
    pub unfinished_bytes: u64,
    /// Bytes that wait at this node, for credit or for the network.
    pub unsent_bytes: u64,
}

/// Counters of a worker at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WorkerSnapshot {
    /// Tasks done.
    pub tasks: u64,
    /// Time spent on tasks that are done.
    #[serde(rename = "busy_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub busy: Duration,
    /// The rest of the time: asleep, looking for work, or in a task that is not done.
    #[serde(rename = "idle_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub idle: Duration,
}
