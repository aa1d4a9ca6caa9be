//! What of a program can be on other nodes of a cluster.

use arrow_array::RecordBatch;
use millstream_types::Diagnostic;
use std::fmt;

/// Code of the program that can be on another node.
pub trait Portable: Send + Sync + fmt::Debug {
    /// What the [`Loader`](crate::cluster::Loader) there makes it from.
    ///
    /// # Errors
    /// When it cannot leave this process.
    fn to_bytes(&self) -> Result<Vec<u8>, Diagnostic>;
}

/// What other nodes of a cluster have of a table of the program.
#[derive(Debug)]
pub enum OtherNodes<'a> {
    /// It is in this process only.
    Nothing,
    /// The same rows.
    Batches(&'a [RecordBatch]),
    /// What its code makes there.
    Object(&'a dyn Portable),
}
