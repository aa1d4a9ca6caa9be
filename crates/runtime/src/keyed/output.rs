//! What a job of a partition puts out.
//!
//! A job can put out a million times what it takes in: a join of a key that many rows of both sides have. It cannot stop in
//! between, so output beyond a part of the budget goes to files of the run as it is made. When the job is done, a
//! separate task (`spooled`) reads it back and delivers it piece by piece; it pauses while what it has delivered is not
//! consumed. Queries that may not spill keep all of it in memory.

use super::encoding::save_columns;
use crate::buffer::Rows;
use crate::durable::spilling::Spilling;
use millstream_storage::{BlobRef, ByteWriter, SpillFiles, SpillWriter};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// The output of a job while it runs, in order of windows.
#[derive(Default)]
pub(crate) struct Output<'a> {
    /// Behind what is in files.
    rows: Vec<(i64, Rows)>,
    /// Bytes of `rows`, about.
    bytes: u64,
    /// Where it goes beyond this many bytes; without it, all stays in memory.
    spilling: Option<(&'a Spilling, u64)>,
    spooled: Vec<(i64, Item)>,
    writer: Option<SpillWriter>,
    failure: Option<Diagnostic>,
}

/// Rows of the output of a job.
#[expect(clippy::large_enum_variant, reason = "rows in memory are the rule, and a box for each would be an allocation")]
pub(crate) enum Item {
    /// In memory.
    Rows(Rows),
    /// Rows in files, and their number.
    Spooled(BlobRef, usize),
}

impl Item {
    /// Its rows, if they are there.
    pub(super) fn in_memory(self) -> Option<Rows> {
        match self {
            Item::Rows(rows) => Some(rows),
            Item::Spooled(..) => None,
        }
    }

    fn rows(&self) -> usize {
        match self {
            Item::Rows(rows) => rows.rows,
            Item::Spooled(_, rows) => *rows,
        }
    }
}

/// The output of a job that is done, by window.
pub(crate) struct Finished {
    pub(crate) items: Vec<(i64, Item)>,
    /// Those of the spooled items, if there are any.
    pub(super) files: Option<Arc<SpillFiles>>,
}

impl Finished {
    /// Rows of all items.
    pub(crate) fn rows(&self) -> usize {
        self.items.iter().map(|(_, item)| item.rows()).sum()
    }
}

impl<'a> Output<'a> {
    /// Nothing yet; what exceeds the bytes of `spilling` goes to files, if any may.
    pub(super) fn new(spilling: Option<(&'a Spilling, u64)>) -> Output<'a> {
        Output { spilling, ..Output::default() }
    }

    /// Adds rows of a window, with about `bytes` bytes.
    pub(crate) fn push(&mut self, window: i64, rows: Rows, bytes: usize) {
        self.rows.push((window, rows));
        self.bytes += bytes as u64;
        if let Some((spilling, most)) = self.spilling
            && self.bytes > most
            && self.failure.is_none()
        {
            self.failure = self.spool(spilling).err();
        }
    }

    fn spool(&mut self, spilling: &Spilling) -> Result<(), Diagnostic> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(spilling.writer()?),
        };
        for (window, rows) in self.rows.drain(..) {
            let mut out = ByteWriter::new();
            save_columns(&rows.columns, rows.rows, &mut out);
            out.i64s(rows.watermarks.as_deref().unwrap_or(&[]));
            let blob = writer.write(&out.into_bytes()).map_err(|e| spilling.failed(&e))?;
            self.spooled.push((window, Item::Spooled(blob, rows.rows)));
        }
        self.bytes = 0;
        Ok(())
    }

    /// All of it, complete.
    pub(crate) fn finish(mut self) -> Result<Finished, Diagnostic> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if let (Some(_), Some((spilling, _))) = (&self.writer, self.spilling) {
            // The rest, too: many jobs may be done long before their output is next.
            self.spool(spilling)?;
        }
        let files = match (self.writer, self.spilling) {
            (Some(writer), Some((spilling, _))) => Some(writer.finish().map_err(|e| spilling.failed(&e))?),
            _ => None,
        };
        let mut items = self.spooled;
        items.extend(self.rows.into_iter().map(|(window, rows)| (window, Item::Rows(rows))));
        Ok(Finished { items, files })
    }
}
