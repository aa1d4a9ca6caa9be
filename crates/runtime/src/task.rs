//! Tasks: what workers do.

use crate::buffer::Buffer;
use crate::flow::Permit;
use crate::keyed::{KeyedTask, SpooledOutput};
use crate::lanes::LaneTask;
use crate::spill::StoredMerge;
use crate::stream::StreamId;
use crate::trigger::Firing;
use millstream_connectors::Chunk;
use std::sync::Arc;

/// A piece of work for one worker. It runs to its end without waiting for another task.
pub(crate) enum Task {
    /// Turns a chunk into a unit of its split.
    Decode(DecodeTask),
    /// Runs a pipeline over a buffer.
    Process(ProcessTask),
    /// Puts the rows that wait in a lane into its tables.
    Fold(LaneTask),
    /// Seals a table of a fired window.
    Seal(Arc<Firing>),
    /// Merges one range of partitions of a fired window.
    Merge(Arc<Firing>, usize),
    /// Goes on merging one range of partitions of a fired window with tables in files.
    MergeStored(Box<StoredMerge>),
    /// Makes overlapping windows of an aggregation in a range of partitions.
    Combine {
        /// The aggregation.
        aggregation: usize,
        /// The range.
        lane: usize,
        /// End of the first window that is made.
        end: i64,
    },
    /// Makes a lookup table of its rows.
    Build(usize),
    /// Does the jobs of a partition of a keyed operator.
    Keyed(KeyedTask),
    /// Goes on delivering what such a job has put out by files.
    PutOut(Box<SpooledOutput>),
}

impl Task {
    /// Rows that it takes through a pipeline.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Task::Process(task) => task.buffer.rows,
            _ => 0,
        }
    }
}

/// See [`Task::Decode`].
pub(crate) struct DecodeTask {
    /// The split.
    pub(crate) stream: StreamId,
    /// The chunk's number in the split.
    pub(crate) unit: u64,
    /// Undecoded input.
    pub(crate) chunk: Chunk,
    /// Counts the chunk as in flight.
    pub(crate) permit: Permit,
}

/// See [`Task::Process`].
pub(crate) struct ProcessTask {
    /// The stream of the buffer.
    pub(crate) stream: StreamId,
    /// Which of the stream's pipelines.
    pub(crate) channel: usize,
    /// The buffer's epoch in the channel's ring.
    pub(crate) epoch: u64,
    /// The rows.
    pub(crate) buffer: Arc<Buffer>,
}
