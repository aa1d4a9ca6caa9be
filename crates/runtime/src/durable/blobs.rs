//! State in files: of the run, or of the checkpoint that the query was recovered from, whence it is read when it is needed.

use crate::durable::part::Gathering;
use millstream_storage::{BlobRef, Damaged, PendingBlob, SpilledBlob, Store, store_failed};
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// A blob of the checkpoint that a query was recovered from.
#[derive(Debug)]
pub(crate) struct CheckpointedBlob {
    /// Where it is.
    pub(crate) store: Arc<dyn Store>,
    /// Which it is.
    pub(crate) blob: BlobRef,
}

/// Encoded state in a file.
#[derive(Debug, Clone)]
pub(crate) enum StateBlob {
    /// Of the run.
    Spilled(SpilledBlob),
    /// Of a checkpoint.
    Checkpointed(Arc<CheckpointedBlob>),
}

impl StateBlob {
    /// Reads it and checks it.
    ///
    /// # Errors
    /// `SPILL_FAILED`, or those of [`finish_checkpointed`].
    pub(crate) fn read(&self) -> Result<Vec<u8>, Diagnostic> {
        match self {
            StateBlob::Spilled(blob) => blob.read().map_err(unreadable),
            StateBlob::Checkpointed(stored) => finish_checkpointed(stored.blob.begin(&*stored.store), &*stored.store),
        }
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            StateBlob::Spilled(blob) => blob.bytes(),
            StateBlob::Checkpointed(stored) => stored.blob.bytes,
        }
    }

    /// The error for bytes of it that are not what they should be.
    pub(crate) fn invalid(&self, what: Damaged) -> Diagnostic {
        match self {
            StateBlob::Spilled(_) => unreadable(what),
            StateBlob::Checkpointed(_) => damaged(what),
        }
    }
}

/// Waits for a blob of a checkpoint and checks it.
///
/// # Errors
/// `CHECKPOINT_DAMAGED` when it is not what was written, `CHECKPOINT_FAILED` when the store cannot be asked.
pub(crate) fn finish_checkpointed(pending: PendingBlob, store: &dyn Store) -> Result<Vec<u8>, Diagnostic> {
    match pending.try_finish(store) {
        Ok(read) => read.map_err(damaged),
        Err(e) => {
            let what = format!("state of the checkpoint cannot be read from {}", store.place());
            Err(store_failed(code::CHECKPOINT_FAILED, &what, &e))
        }
    }
}

/// Where something is.
#[derive(Clone)]
pub(crate) enum Place<T> {
    Memory(T),
    /// Encoded, in a file.
    File(StateBlob),
}

/// Encoded state that a checkpoint keeps. What is in a file of a checkpoint is named again.
pub(crate) type Saved = Place<Vec<u8>>;

impl Saved {
    /// Where it is in files of checkpoints, written if need be.
    pub(crate) fn store(self, into: &mut Gathering) -> Result<BlobRef, Diagnostic> {
        match self {
            Place::Memory(bytes) => into.write(&bytes),
            Place::File(StateBlob::Checkpointed(stored)) => Ok(stored.blob.clone()),
            Place::File(StateBlob::Spilled(blob)) => into.write(&blob.read().map_err(unreadable)?),
        }
    }
}

/// The error for state of a checkpoint that is not what was written.
pub(crate) fn damaged(what: Damaged) -> Diagnostic {
    Diagnostic::new(code::CHECKPOINT_DAMAGED, format!("stored state is damaged: {what}"))
}

/// The error for spilled state that is not what was written.
pub(crate) fn unreadable(what: Damaged) -> Diagnostic {
    Diagnostic::new(code::SPILL_FAILED, format!("spilled state cannot be read back: {what}"))
}
