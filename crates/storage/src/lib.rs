//! Where state is kept outside of memory: how it is encoded, in which files, in which stores.
//!
//! ```text
//! <state directory>/lock                              held by the process that runs the job
//! <state directory>/run-00000003                      the process that is the owner is the third
//! <state directory>/<job>/checkpoint-00000042r3.json  manifest: what checkpoint 42 of run 3 consists of, and its checksum
//! <state directory>/<job>/state-00000042r3-0.bin      blobs that this checkpoint has written; later ones may name them, too
//! <state directory>/<job>/state-00000042r3-n1a7-0.bin the same by node 1 of several in attempt 7, with its manifest as the last blob
//! <state directory>/<job>/from-00000003-00000042      run 3 has resumed from checkpoint 42
//! <spill directory>/query-<process>-<number>/          what a running query has no memory for (see `spill`)
//! ```
//!
//! Invariants: everything that is read is checked before it is trusted; a file is written once, as a whole, and never
//! changed; a manifest is written after all that it names; nothing here knows what the bytes of state mean.

#![forbid(unsafe_code)]

mod bytes;
mod checkpoints;
mod local;
mod manifest;
mod nodes;
mod objects;
mod pack;
mod place;
mod private;
mod run;
mod spill;
mod store;

pub use bytes::{ByteReader, ByteWriter, Damaged};
pub use checkpoints::{Checkpoints, Listed, Savepoint, is_savepoint_name};
pub use local::{DirectoryLock, LocalStore};
pub use manifest::{
    AggregationState, BlobRef, FORMAT, JobPartitions, Manifest, OperatorState, PartitionState, RunState, SinkState,
    SourceState, SplitState, TableState, WaitingRows, WaitingState, is_of_other_format,
};
pub use nodes::{NodeFiles, NodeManifest};
pub use objects::store_failed;
pub use pack::{PackWriter, PendingBlob};
pub use place::{PlaceLock, StatePlace};
pub use private::{check_own, make_private, user_directory};
pub use run::Run;
pub use spill::{Compression, SpillCounters, SpillDirectory, SpillFiles, SpillFormat, SpillWriter, SpilledBlob};
pub use store::{Store, StoreWriter, StoredFile};
