//! Runs: sorted rows in memory, or in a file of the run of the query.

use super::merge::Merge;
use crate::durable::blobs::unreadable;
use crate::durable::spilling::Spilling;
use crate::keyed::batch::Batch;
use millstream_storage::{BlobRef, ByteReader, ByteWriter, PendingBlob, SpillFiles, SpillWriter};
use millstream_types::{Diagnostic, Schema};
use std::collections::VecDeque;
use std::sync::Arc;

/// Sorted rows, batch by batch.
pub(super) enum Run {
    /// In memory.
    Memory(VecDeque<Batch>),
    /// In a file.
    File(FileRun),
}

/// Sorted rows in a file. The batch that is read next is on its way while the one before is used.
pub(super) struct FileRun {
    files: Arc<SpillFiles>,
    blobs: VecDeque<BlobRef>,
    ahead: Option<PendingBlob>,
}

impl Run {
    /// The next rows; `None` behind the last.
    pub(super) fn next(&mut self, schema: &Schema) -> Result<Option<Batch>, Diagnostic> {
        match self {
            Run::Memory(batches) => Ok(batches.pop_front()),
            Run::File(run) => run.next(schema),
        }
    }

    /// Bytes of the rows that are in memory.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Run::Memory(batches) => batches.iter().map(Batch::bytes).sum(),
            Run::File(_) => 0,
        }
    }
}

impl FileRun {
    fn next(&mut self, schema: &Schema) -> Result<Option<Batch>, Diagnostic> {
        let Some(pending) = self.ahead.take().or_else(|| self.begin()) else { return Ok(None) };
        self.ahead = self.begin();
        let bytes = self.files.finish(pending).map_err(unreadable)?;
        Ok(Some(Batch::restore(schema, &mut ByteReader::new(&bytes)).map_err(unreadable)?))
    }

    fn begin(&mut self) -> Option<PendingBlob> {
        self.blobs.pop_front().map(|blob| self.files.begin(&blob))
    }
}

/// Writes what a merge gives to a file, piece by piece.
pub(super) struct RunWriter {
    merge: Merge,
    writer: SpillWriter,
    blobs: VecDeque<BlobRef>,
    /// Rows that are still wanted.
    left: usize,
}

impl RunWriter {
    /// Of at most `most` rows.
    pub(super) fn new(merge: Merge, most: usize, spilling: &Spilling) -> Result<RunWriter, Diagnostic> {
        Ok(RunWriter { merge, writer: spilling.writer()?, blobs: VecDeque::new(), left: most })
    }

    /// Writes the next `rows` rows; whether there may be more.
    pub(super) fn step(&mut self, rows: usize, spilling: &Spilling) -> Result<bool, Diagnostic> {
        let Some(batch) = self.merge.next(rows.min(self.left))? else { return Ok(false) };
        self.left -= batch.rows();
        let mut out = ByteWriter::new();
        batch.save(&mut out)?;
        let blob = self.writer.write(&out.into_bytes()).map_err(|e| spilling.failed(&e))?;
        self.blobs.push_back(blob);
        Ok(self.left > 0)
    }

    /// The run.
    pub(super) fn finish(self, spilling: &Spilling) -> Result<FileRun, Diagnostic> {
        let files = self.writer.finish().map_err(|e| spilling.failed(&e))?;
        Ok(FileRun { files, blobs: self.blobs, ahead: None })
    }
}
