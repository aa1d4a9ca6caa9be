//! Parts of a checkpoint: what a station hands over where the cut comes by.

use millstream_connectors::Commit;
use millstream_storage::{Manifest, PackWriter};
use millstream_types::Diagnostic;
use std::io;

/// What a station keeps. It shares memory with the station and is written by the checkpointing thread, later.
pub(crate) trait Part: Send {
    /// Writes what no checkpoint has, and enters where it is; whether nothing more comes of its station.
    fn store(self: Box<Self>, into: &mut Gathering) -> Result<bool, StoreFault>;
}

/// A checkpoint whose parts are coming.
pub(crate) struct Gathering {
    /// Its files.
    pub(crate) pack: PackWriter,
    /// What it will say; of each station at first that it has ended.
    pub(crate) manifest: Manifest,
    /// By sink: what makes visible what it has written since the last checkpoint.
    pub(crate) commits: Vec<Option<Box<dyn Commit>>>,
}

/// Why a part could not be stored.
pub(crate) enum StoreFault {
    Diagnostic(Diagnostic),
    Store(io::Error),
}

impl From<Diagnostic> for StoreFault {
    fn from(diagnostic: Diagnostic) -> StoreFault {
        StoreFault::Diagnostic(diagnostic)
    }
}

impl From<io::Error> for StoreFault {
    fn from(error: io::Error) -> StoreFault {
        StoreFault::Store(error)
    }
}
