//! Tasks: what workers do.

use crate::buffer::Buffer;
use crate::ids::{SplitId, StationId, StreamId};
use crate::schedule::flow::Permit;
use crate::source::open_split::Pulled;
use millstream_connectors::Chunk;
use millstream_sync::tasks::Urgency;
use millstream_types::Diagnostic;
use std::any::Any;
use std::sync::Arc;

/// A piece of work for one worker. It runs to its end without waiting for another task. It is small: a watermark may complete a
/// million windows, each with a task.
pub(crate) enum Task {
    /// Reads the next chunk of a split, and decodes it.
    Read(Pulled),
    /// Turns a chunk into a unit of its split.
    Decode(Box<DecodeTask>),
    /// Runs a pipeline over a buffer, into the station at its end.
    Process(ProcessTask),
    /// A job of a station.
    Perform(StationId, Urgency, Job),
}

/// What a station has a worker do. Only the station that made it knows what it is.
pub(crate) struct Job(Box<dyn Any + Send>);

impl Job {
    /// A job of a station whose jobs have this type.
    pub(crate) fn new<T: Send + 'static>(job: T) -> Job {
        Job(Box::new(job))
    }

    /// What [`Job::new`] got.
    ///
    /// # Errors
    /// A bug, when it was made by another kind of station.
    pub(crate) fn take<T: 'static>(self) -> Result<T, Diagnostic> {
        let job = self.0.downcast().map_err(|_| Diagnostic::bug("a station got the job of another"))?;
        Ok(*job)
    }
}

impl Task {
    /// A job that makes output and frees memory: of the oldest window first, that ends at a time.
    pub(crate) fn output<T: Send + 'static>(station: StationId, end: i64, job: T) -> Task {
        Task::Perform(station, Urgency { class: 0, time: end }, Job::new(job))
    }

    /// A job that holds back all that comes behind it.
    pub(crate) fn awaited<T: Send + 'static>(station: StationId, job: T) -> Task {
        Task::output(station, i64::MIN, job)
    }

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
    pub(crate) split: SplitId,
    /// Its stream.
    pub(crate) stream: StreamId,
    /// The chunk's number in the split.
    pub(crate) unit: u64,
    /// Undecoded input.
    pub(crate) chunk: Chunk,
    /// Small chunks that had come behind it, which are of the same unit.
    pub(crate) more: Vec<Chunk>,
    /// Whether its rows do not raise the watermark.
    pub(crate) is_held: bool,
    /// Counts the chunk as in flight.
    pub(crate) permit: Permit,
}

/// See [`Task::Process`].
pub(crate) struct ProcessTask {
    /// Which buffer of which pipeline.
    pub(crate) place: BufferPlace,
    /// The rows.
    pub(crate) buffer: Arc<Buffer>,
}

/// A buffer on its way through one of the pipelines that read its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferPlace {
    /// The stream of the buffer.
    pub(crate) stream: StreamId,
    /// Which of the stream's pipelines.
    pub(crate) channel: usize,
    /// The buffer's epoch in the channel's ring.
    pub(crate) epoch: u64,
}
