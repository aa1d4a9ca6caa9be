//! Parts of a checkpoint: what a station hands over where the cut passes.

use millstream_connectors::Commit;
use millstream_storage::{BlobRef, Manifest, PackWriter, store_failed};
use millstream_types::{Diagnostic, code};
use std::io;

/// What a station keeps. It shares memory with the station, and is called by the checkpointing thread, later: it writes what no
/// checkpoint has, and enters where it is; whether nothing more comes of its station.
pub(crate) type Part = Box<dyn FnOnce(&mut Gathering) -> Result<bool, Diagnostic> + Send>;

/// A checkpoint whose parts are coming.
pub(crate) struct Gathering {
    /// Its files.
    pub(crate) pack: PackWriter,
    /// Where they are.
    pub(crate) place: String,
    /// What it will say; of each station at first that it has ended.
    pub(crate) manifest: Manifest,
    /// By sink: what makes visible what it has written since the last checkpoint.
    pub(crate) commits: Vec<Option<Box<dyn Commit>>>,
}

impl Gathering {
    /// Writes state to its files.
    pub(crate) fn write(&mut self, state: &[u8]) -> Result<BlobRef, Diagnostic> {
        let written = self.pack.write(state);
        written.map_err(|e| not_written(self.manifest.checkpoint, &self.place, &e))
    }
}

/// The error for a checkpoint that cannot be written to a place.
pub(crate) fn not_written(checkpoint: u64, place: &str, error: &io::Error) -> Diagnostic {
    let what = format!("checkpoint {checkpoint} could not be written to {place}");
    store_failed(code::CHECKPOINT_FAILED, &what, error)
}
