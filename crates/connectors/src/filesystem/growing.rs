//! A single file under checkpoints: it grows span by span under a hidden name, and appears in the end.
//!
//! The hidden name has job and sink in it, so that a later process finds the file. The token of a span is the file's
//! length at its end, and its checksum; a recovery truncates the file to that length and continues. Where an earlier
//! process may still be at work ([`SinkJob::remote`]), it continues with a copy, so that the other one writes where
//! nobody looks. On one machine the lock of the file says whether there is one.

use super::checksum::Checksum;
use super::directory::{damaged_token, kind_of, not_as_left};
use super::read::Compression;
use super::sink::Files;
use super::target::{Contents, Output, VERIFIED_BYTES, sync_directory, write_error};
use super::writer::{PartWriter, StreamWriter, trailer_length};
use crate::format::StreamOutput;
use crate::option_table::option_fault;
use crate::{Commit, Encoded, RestoredSink, SinkJob, locked};
use millstream_types::{Diagnostic, code};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempPath;

/// See the module.
pub(super) struct GrowingFile {
    place: HiddenFile,
    writer: StreamWriter,
    fate: Arc<Mutex<Fate>>,
}

/// A file and the name that it has until it is complete.
#[derive(Clone)]
struct HiddenFile {
    directory: PathBuf,
    target: PathBuf,
    hidden: PathBuf,
}

/// What becomes of the hidden file.
struct Fate {
    /// Removes it when the query is aborted; `None` once a checkpoint refers to it.
    abandoned: Option<TempPath>,
    /// It could not be forced to disk: no later span is whole.
    failure: Option<Diagnostic>,
}

impl GrowingFile {
    /// Begins or resumes the spans of a job that writes the file `target`; `name` is that of the option `path`.
    pub(super) fn begin(
        files: &Files,
        name: &str,
        target: &Path,
        job: &SinkJob,
        restored: Option<&RestoredSink>,
    ) -> Result<GrowingFile, Diagnostic> {
        let stream = files.stream.as_ref().ok_or_else(|| cannot_grow(name))?;
        let place = HiddenFile::of(target, job);
        let compression = Compression::of(name);
        let Some(restored) = restored else { return place.begin(stream, compression) };
        let token = restored.tokens.first().unwrap_or(&Value::Null);
        let contents = Contents::deserialize(token).map_err(|_| damaged_token(target, token))?;
        if job.remote.is_some() && place.size(&place.hidden)?.is_some_and(|size| size >= contents.bytes) {
            place.copy(&place.hidden).map_err(|e| place.failed(&e))?;
        }
        let output = place.restore(contents, restored.checkpoint, stream, compression)?;
        let writer = StreamWriter::resumed(output, compression, stream);
        Ok(GrowingFile { place, writer, fate: Fate::shared(None) })
    }

    /// The file that appears in the end.
    pub(super) fn target(&self) -> &Path {
        &self.place.target
    }

    pub(super) fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.writer.write(piece).map_err(|e| self.place.failed(&e))
    }

    pub(super) fn flush(&mut self) -> Result<(), Diagnostic> {
        self.writer.flush().map_err(|e| self.place.failed(&e))
    }

    /// Ends the span of a checkpoint.
    pub(super) fn cut(&mut self) -> Result<Box<dyn Commit>, Diagnostic> {
        let failed = |e: io::Error| self.place.failed(&e);
        let output = self.writer.cut().map_err(failed)?;
        let contents = output.contents().map_err(failed)?;
        let file = output.file.try_clone().map_err(failed)?;
        Ok(Box::new(GrowingCommit { file, contents, place: self.place.clone(), fate: self.fate.clone() }))
    }

    pub(super) fn finish(self) -> Result<(), Diagnostic> {
        let failed = |e: io::Error| self.place.failed(&e);
        Box::new(self.writer).finish().and_then(|output| output.file.sync_all()).map_err(failed)?;
        locked(&self.fate).keep();
        fs::rename(&self.place.hidden, &self.place.target).map_err(failed)?;
        sync_directory(&self.place.directory);
        Ok(())
    }
}

impl HiddenFile {
    fn of(target: &Path, job: &SinkJob) -> HiddenFile {
        let directory = target.parent().unwrap_or(Path::new(".")).to_path_buf();
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let hidden = directory.join(format!(".millstream-{}-{}-{name}", job.job, job.sink));
        HiddenFile { directory, target: target.to_path_buf(), hidden }
    }

    fn failed(&self, error: &io::Error) -> Diagnostic {
        write_error(&self.target, error)
    }

    /// Begins an empty file, in place of what an earlier start of the job may have left.
    fn begin(self, stream: &StreamOutput, compression: Compression) -> Result<GrowingFile, Diagnostic> {
        let failed = |e: io::Error| self.failed(&e);
        if let Ok(earlier) = File::open(&self.hidden) {
            self.lock(&earlier)?;
        }
        match fs::remove_file(&self.hidden) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let file = File::create(&self.hidden).map_err(failed)?;
        self.lock(&file)?;
        let fate = Fate::shared(Some(TempPath::try_from_path(&self.hidden).map_err(failed)?));
        let output = Output { file, checksum: Some(Checksum::new()) };
        let writer = StreamWriter::new(output, compression, stream).map_err(failed)?;
        Ok(GrowingFile { place: self, writer, fate })
    }

    /// The file as a checkpoint has left it.
    fn restore(
        &self,
        contents: Contents,
        checkpoint: u64,
        stream: &StreamOutput,
        compression: Compression,
    ) -> Result<Output, Diagnostic> {
        let failed = |e: io::Error| self.failed(&e);
        let length = contents.bytes;
        if self.size(&self.hidden)?.is_none_or(|size| size < length) {
            // A query that had ended has given the file its name.
            let trailer = trailer_length(stream.trailer, compression).map_err(failed)?;
            let complete = self.size(&self.target)?;
            if complete.is_none_or(|size| size != length && size != length + trailer) {
                return Err(self.lost(length, checkpoint));
            }
            self.copy(&self.target).map_err(failed)?;
        }
        let mut file = File::options().read(true).write(true).open(&self.hidden).map_err(failed)?;
        self.lock(&file)?;
        // What is not read as a whole is taken for what it was.
        let checksum = match length <= VERIFIED_BYTES {
            true => Checksum::of_file(&file, length),
            false => Checksum::resumed(&file, length, contents.checksum),
        };
        let checksum = checksum.map_err(failed)?;
        if checksum.value() != contents.checksum {
            let what = format!("has other bytes than the {length} that checkpoint {checkpoint} has left");
            return Err(not_as_left(&self.target, &what));
        }
        if compression == Compression::None && !begins_with(&mut file, &stream.header).map_err(failed)? {
            let what = "begins otherwise than this query would begin it: with another header, schema or codec";
            return Err(not_as_left(&self.target, what));
        }
        file.set_len(length).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Output { file, checksum: Some(checksum) })
    }

    /// Takes the lock of the file, where the file system has any. It goes with the process.
    fn lock(&self, file: &File) -> Result<(), Diagnostic> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let message = format!("another process still writes the output file '{}'", self.target.display());
                let advice = "end that process first; each output file belongs to one job";
                Err(Diagnostic::new(code::STATE_IN_USE, message).advise(advice))
            }
            _ => Ok(()),
        }
    }

    /// The size of a file, if it is there.
    ///
    /// # Errors
    /// When it is there but not a file: what it points to is not ours.
    fn size(&self, path: &Path) -> Result<Option<u64>, Diagnostic> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(metadata) => Err(not_as_left(path, kind_of(&metadata))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// Makes a copy of a file to continue with, which is whole or not there.
    fn copy(&self, source: &Path) -> io::Result<()> {
        let mut copy = tempfile::NamedTempFile::new_in(&self.directory)?;
        io::copy(&mut File::open(source)?, &mut copy)?;
        copy.as_file().set_permissions(fs::metadata(source)?.permissions())?;
        copy.as_file().sync_all()?;
        copy.persist(&self.hidden).map_err(|e| e.error)?;
        Ok(())
    }

    fn lost(&self, length: u64, checkpoint: u64) -> Diagnostic {
        let said = |path: &Path| match self.size(path) {
            Ok(Some(size)) => format!("'{}' has {size}", path.display()),
            _ => format!("'{}' is not there", path.display()),
        };
        let (hidden, target) = (said(&self.hidden), said(&self.target));
        let what = format!("had {length} bytes at checkpoint {checkpoint}, but {hidden}, and {target}");
        not_as_left(&self.target, &what)
    }
}

/// Whether a file begins with a header; what it is continued with would not fit another.
fn begins_with(file: &mut File, header: &[u8]) -> io::Result<bool> {
    let mut begin = Vec::with_capacity(header.len());
    file.rewind()?;
    file.take(header.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == header)
}

fn cannot_grow(name: &str) -> Diagnostic {
    let message =
        format!("a single Parquet file ('{name}') cannot be written under checkpoints: it cannot be continued");
    let advice = "give a directory as 'path': it gets a file for each checkpoint; or use another format";
    option_fault(code::INVALID_OPTION, "path", message, advice)
}

impl Fate {
    fn shared(abandoned: Option<TempPath>) -> Arc<Mutex<Fate>> {
        Arc::new(Mutex::new(Fate { abandoned, failure: None }))
    }

    /// The file stays from now on, whatever happens.
    fn keep(&mut self) {
        if let Some(mut path) = self.abandoned.take() {
            path.disable_cleanup(true);
        }
    }
}

struct GrowingCommit {
    file: File,
    contents: Contents,
    place: HiddenFile,
    fate: Arc<Mutex<Fate>>,
}

impl Commit for GrowingCommit {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let synced = self.file.sync_all();
        sync_directory(&self.place.directory);
        let mut fate = locked(&self.fate);
        if let Err(e) = synced {
            fate.failure = Some(self.place.failed(&e));
        }
        if let Some(failure) = &fate.failure {
            return Err(failure.clone());
        }
        fate.keep();
        Ok(json!(self.contents))
    }

    /// The file appears at the end of the query.
    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
