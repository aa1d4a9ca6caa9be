//! Rows that wait for their transaction, as text of `COPY`: in memory while they are few, then in a file without a name, which goes
//! with the process.

use crate::filesystem::write_error;
use millstream_types::{Diagnostic, code};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Bytes of rows that are kept in memory, but for the last piece.
pub(super) const MEMORY_BYTES: usize = 8 << 20;

/// See the module.
#[derive(Default)]
pub(super) struct WaitingRows {
    /// The first of them, if not all are in memory.
    file: Option<File>,
    memory: Vec<u8>,
    rows: usize,
}

impl WaitingRows {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether they are as many as memory is for.
    pub(super) fn is_large(&self) -> bool {
        self.file.is_some() || self.memory.len() >= MEMORY_BYTES
    }

    /// Whether these and others fit into memory together.
    pub(super) fn fits(&self, other: &WaitingRows) -> bool {
        self.file.is_none() && other.file.is_none() && self.memory.len() + other.memory.len() <= MEMORY_BYTES
    }

    pub(super) fn write(&mut self, data: &[u8], rows: usize) -> Result<(), Diagnostic> {
        if self.memory.len() >= MEMORY_BYTES {
            self.spill().map_err(|e| write_error(std::env::temp_dir(), &e))?;
        }
        self.memory.extend_from_slice(data);
        self.rows += rows;
        Ok(())
    }

    /// Takes rows that [fit](WaitingRows::fits), or any if there are none yet.
    pub(super) fn append(&mut self, other: WaitingRows) {
        if self.rows == 0 {
            *self = other;
        } else {
            self.memory.extend_from_slice(&other.memory);
            self.rows += other.rows;
        }
    }

    /// Forgets them; there is room for as many.
    pub(super) fn clear(&mut self) {
        self.file = None;
        self.memory.clear();
        self.rows = 0;
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(tempfile::tempfile()?),
        };
        file.write_all(&self.memory)?;
        self.memory.clear();
        Ok(())
    }

    /// All of them, from the first.
    pub(super) fn reader(&self) -> Result<Box<dyn Read + '_>, Diagnostic> {
        let Some(mut file) = self.file.as_ref() else { return Ok(Box::new(self.memory.as_slice())) };
        file.rewind().map_err(|e| Diagnostic::new(code::READ_FAILED, format!("rows that wait for PostgreSQL: {e}")))?;
        Ok(Box::new(file.chain(self.memory.as_slice())))
    }
}
