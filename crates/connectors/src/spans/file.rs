//! The rows of a span, as bytes of whatever form: in memory while they are few, then in a file, which is there for good once the span
//! is prepared.

use crate::filesystem::{sync_directory, write_error};
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use tempfile::TempPath;
use xxhash_rust::xxh3::Xxh3;

/// Rows that are kept in memory.
const MEMORY_BYTES: usize = 4 << 20;

/// A span that is being written.
#[derive(Default)]
pub(crate) struct SpanRows {
    directory: PathBuf,
    /// What the names of files start with.
    prefix: String,
    memory: Vec<u8>,
    file: Option<(File, TempPath)>,
    rows: u64,
    bytes: u64,
    checksum: Xxh3,
}

/// A span in a file of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DurableSpan {
    /// The checkpoint that has ended it.
    pub(crate) checkpoint: u64,
    pub(crate) rows: u64,
    /// Name of its file.
    pub(crate) file: String,
    bytes: u64,
    /// XXH3 of the file, in hexadecimal.
    checksum: String,
    /// The node that has written it.
    #[serde(default)]
    pub(crate) node: usize,
}

impl SpanRows {
    /// No rows yet; files get names that start with `prefix`.
    pub(crate) fn new(directory: &Path, prefix: &str) -> SpanRows {
        SpanRows { directory: directory.to_path_buf(), prefix: prefix.to_string(), ..SpanRows::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    pub(crate) fn write(&mut self, data: &[u8], rows: usize) -> Result<(), Diagnostic> {
        self.rows += rows as u64;
        self.bytes += data.len() as u64;
        self.checksum.update(data);
        self.memory.extend_from_slice(data);
        if self.memory.len() >= MEMORY_BYTES { self.spill().map_err(|e| self.failed(&e)) } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some((file, _)) => file,
            None => {
                let hidden = format!(".{}", self.prefix);
                let created = tempfile::Builder::new().prefix(&hidden).tempfile_in(&self.directory)?;
                &mut self.file.insert(created.into_parts()).0
            }
        };
        file.write_all(&self.memory)?;
        self.memory.clear();
        Ok(())
    }

    /// Forces the rows to disk, in a file that stays.
    pub(crate) fn keep(mut self, checkpoint: u64) -> Result<DurableSpan, Diagnostic> {
        let name = format!("{}{checkpoint}.rows", self.prefix);
        let kept = self.spill().and_then(|()| {
            let Some((file, temporary)) = self.file.take() else { return Ok(()) };
            file.sync_all()?;
            temporary.persist(self.directory.join(&name)).map_err(|e| e.error)
        });
        kept.map_err(|e| self.failed(&e))?;
        sync_directory(&self.directory);
        let (rows, bytes, checksum) = (self.rows, self.bytes, hexadecimal(&self.checksum));
        Ok(DurableSpan { checkpoint, rows, file: name, bytes, checksum, node: 0 })
    }

    fn failed(&self, error: &io::Error) -> Diagnostic {
        write_error(&self.directory, error)
    }
}

fn hexadecimal(checksum: &Xxh3) -> String {
    format!("{:016x}", checksum.digest())
}

impl DurableSpan {
    /// From a token; `None` if it makes no sense.
    pub(crate) fn of_json(value: &Value) -> Option<DurableSpan> {
        let is_name = |name: &str| !name.contains('/') && !name.starts_with('.');
        DurableSpan::deserialize(value).ok().filter(|span| is_name(&span.file))
    }

    /// Opens the file in a directory, to be read once and checked behind the end.
    pub(super) fn open(&self, directory: &Path) -> Result<CheckedReader<'_>, Diagnostic> {
        let path = directory.join(&self.file);
        let file = File::open(&path).map_err(|e| self.damaged(&path, &format!("cannot be read: {e}")))?;
        Ok(CheckedReader { span: self, path, reader: BufReader::new(file), read: 0, checksum: Xxh3::new() })
    }

    fn damaged(&self, path: &Path, what: &str) -> Diagnostic {
        let rows = self.rows;
        let message = format!("the file with {rows} rows of checkpoint {} {what}", self.checkpoint);
        Diagnostic::new(code::CHECKPOINT_DAMAGED, message).at(whole(path.to_string_lossy()))
    }
}

/// Reads the file of a span.
pub(crate) struct CheckedReader<'a> {
    span: &'a DurableSpan,
    path: PathBuf,
    reader: BufReader<File>,
    read: u64,
    checksum: Xxh3,
}

impl Read for CheckedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.read += read as u64;
        self.checksum.update(&buffer[..read]);
        Ok(read)
    }
}

impl CheckedReader<'_> {
    /// How much there is to read, if the file is whole.
    pub(crate) fn left(&self) -> u64 {
        self.span.bytes.saturating_sub(self.read)
    }

    /// The error for content that makes no sense.
    pub(crate) fn damaged(&self, what: &str) -> Diagnostic {
        self.span.damaged(&self.path, what)
    }

    /// Fails if what was read, to the end, is not what was written.
    pub(crate) fn check(&self) -> Result<(), Diagnostic> {
        let span = self.span;
        if self.read != span.bytes {
            return Err(span.damaged(&self.path, &format!("has {} bytes instead of {}", self.read, span.bytes)));
        }
        if hexadecimal(&self.checksum) != span.checksum {
            return Err(span.damaged(&self.path, "has another checksum than when it was written"));
        }
        Ok(())
    }
}
