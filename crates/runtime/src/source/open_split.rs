//! Splits that are being read, and who reads them: what is handed from one thread to another.

use crate::ids::SplitId;
use millstream_connectors::{Chunk, Position, SplitReader};

/// A split that workers read, or the place of one: when it has been read to its end the next one of its source takes it.
pub(crate) struct Pulled {
    pub(crate) source: usize,
    pub(super) open: Option<Box<OpenSplit>>,
}

/// A split that is being read.
pub(super) struct OpenSplit {
    pub(super) id: SplitId,
    pub(super) reader: Box<dyn SplitReader>,
    /// The place behind the last chunk.
    pub(super) after: Option<Position>,
    pub(super) told: Told,
    /// A chunk that has been read, and there was no room for.
    pub(super) kept: Option<ReadChunk>,
}

/// A chunk that has been read.
pub(super) struct ReadChunk {
    pub(super) chunk: Chunk,
    /// Whether its rows do not raise the watermark.
    pub(super) is_held: bool,
}

/// What a query has been told of a reader's outlook.
#[derive(Default)]
pub(super) struct Told {
    /// The watermark is that of all rows.
    pub(super) is_settled: bool,
    pub(super) is_silent: bool,
}

impl Pulled {
    /// The place of one more split of a source.
    pub(crate) fn new(source: usize) -> Pulled {
        Pulled { source, open: None }
    }
}
