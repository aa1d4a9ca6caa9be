//! The `filesystem` sink: one file, standard output, or a directory of part files.
//!
//! `-` is standard output; a path with an extension, or of a file that exists, is that single file; any other is a
//! directory that gets part files, each visible when it is complete.

use super::directory::PartDirectory;
use super::discover::local_path;
use super::growing::GrowingFile;
use super::read::Compression;
use super::target::{Output, Sealed, Target, write_error};
use super::writer::{PartWriter, StreamWriter};
use super::{OVERWRITE, PART_AGE, PART_BYTES};
use crate::format::{Format, StreamOutput};
use crate::{Commit, Delivery, Encoded, Encoder, LostSink, RestoredSink, SharedPlace, Sink, SinkJob, SinkRequest};
use millstream_types::{Diagnostic, Options};
use serde_json::Value;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens the sink.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let options = &request.options;
    let format = Format::of(options)?;
    let stream = (format.stream_output)(request)?;
    let encoder = match &stream {
        Some(stream) => stream.encoder.clone(),
        None => (format.files()?.encoder)(request)?,
    };
    let files = Files {
        request: request.clone(),
        stream,
        format,
        part_bytes: PART_BYTES.memory_bytes(options)?,
        part_age: PART_AGE.duration(options)?,
    };
    let path = options.require("path")?;
    let overwrites = OVERWRITE.boolean(options)?;
    let place = if path == "-" {
        let (target, output) = Target::stdout()?;
        Destination::Single(files.begin(target, output)?)
    } else {
        destination(path, &files)?
    };
    if overwrites && matches!(place, Destination::Directory(_)) {
        let advice = "remove its files first; a directory gets more files with each INSERT INTO";
        return Err(options.invalid(OVERWRITE.key, "false for a directory").advise(advice));
    }
    Ok(Box::new(FileSink { encoder, files, place, overwrites }))
}

/// Whether a path is that of a directory, which gets part files.
pub(super) fn is_directory(path: &str) -> Result<bool, Diagnostic> {
    let local = Path::new(local_path(path)?);
    Ok(match fs::metadata(local) {
        Ok(metadata) => metadata.is_dir(),
        Err(_) => local.extension().is_none() || path.ends_with('/'),
    })
}

/// What a sink with these options writes.
pub(super) fn written_path(options: &Options) -> Option<PathBuf> {
    let path = options.get("path").filter(|path| *path != "-")?;
    let local = Path::new(local_path(path).ok()?);
    let is_device = fs::metadata(local).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
    (!is_device).then(|| one_name(local))
}

/// A path without links and detours. What is not there yet has none.
fn one_name(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let there = absolute.ancestors().find_map(|there| Some((there, fs::canonicalize(there).ok()?)));
    let Some((there, mut name)) = there else { return absolute };
    for component in absolute.strip_prefix(there).into_iter().flat_map(Path::components) {
        match component {
            Component::ParentDir => drop(name.pop()),
            component => name.push(component),
        }
    }
    name
}

fn destination(path: &str, files: &Files) -> Result<Destination, Diagnostic> {
    let local = Path::new(local_path(path)?);
    if is_directory(path)? {
        return PartDirectory::open(local).map(Destination::Directory);
    }
    let (target, output) = Target::file(local)?;
    files.begin(target, output).map(Destination::Single)
}

/// How the files of a sink are made.
pub(super) struct Files {
    request: SinkRequest,
    format: &'static Format,
    /// `None` for a format that is no stream.
    pub(super) stream: Option<StreamOutput>,
    /// When a file of a directory is complete.
    part_bytes: u64,
    part_age: Duration,
}

/// A file being written.
pub(super) struct Part {
    target: Target,
    writer: Box<dyn PartWriter>,
    opened: Instant,
}

enum Destination {
    /// A file that is not seen before its end, or a device.
    Single(Part),
    /// A file under checkpoints.
    Growing(GrowingFile),
    Directory(PartDirectory),
}

struct FileSink {
    encoder: Arc<dyn Encoder>,
    files: Files,
    place: Destination,
    /// Whether a file that is there may be replaced.
    overwrites: bool,
}

impl Files {
    /// The extension of files that the sink names.
    pub(super) fn extension(&self) -> &'static str {
        self.format.extension.unwrap_or(self.format.name)
    }

    /// Begins a file.
    pub(super) fn begin(&self, target: Target, output: Output) -> Result<Part, Diagnostic> {
        let writer: Box<dyn PartWriter> = match &self.stream {
            None => (self.format.files()?.writer)(output, &self.request)?,
            Some(stream) => {
                let compression = Compression::of(&target.name);
                let writer = StreamWriter::new(output, compression, stream);
                Box::new(writer.map_err(|e| write_error(&target.name, &e))?)
            }
        };
        Ok(Part { target, writer, opened: Instant::now() })
    }
}

impl Part {
    /// Whether it is large or old enough.
    pub(super) fn is_complete(&self, files: &Files) -> bool {
        self.writer.size() >= files.part_bytes || self.opened.elapsed() >= files.part_age
    }

    pub(super) fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.writer.write(piece).map_err(|e| write_error(&self.target.name, &e))
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.writer.flush().map_err(|e| write_error(&self.target.name, &e))
    }

    /// Makes the complete file visible.
    pub(super) fn publish(self) -> Result<(), Diagnostic> {
        let output = self.writer.finish().map_err(|e| write_error(&self.target.name, &e))?;
        self.target.publish(output)
    }

    /// Forces the complete file to disk, but does not show it.
    pub(super) fn seal(self) -> Result<Sealed, Diagnostic> {
        let output = self.writer.finish().map_err(|e| write_error(&self.target.name, &e))?;
        self.target.seal(output)
    }
}

impl Sink for FileSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn file(&self) -> Option<&Path> {
        match &self.place {
            Destination::Single(part) => part.target.path(),
            Destination::Growing(file) => Some(file.target()),
            Destination::Directory(_) => None,
        }
    }

    fn replaces(&self) -> Option<&Path> {
        let has_rows = |path: &&Path| fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
        self.file().filter(|_| !self.overwrites).filter(has_rows)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        match &mut self.place {
            Destination::Single(part) => part.write(piece),
            Destination::Growing(file) => file.write(piece),
            Destination::Directory(parts) => parts.write(piece, &self.files),
        }
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        match &mut self.place {
            Destination::Single(part) => part.flush(),
            Destination::Growing(file) => file.flush(),
            Destination::Directory(parts) => parts.roll(&self.files),
        }
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        match self.place {
            Destination::Single(part) => part.publish(),
            Destination::Growing(file) => file.finish(),
            Destination::Directory(parts) => parts.finish(),
        }
    }

    fn delivery(&self) -> Delivery {
        match &self.place {
            Destination::Single(part) if part.target.path().is_none() => Delivery::AtLeastOnce,
            _ => Delivery::ExactlyOnce,
        }
    }

    fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        match &mut self.place {
            Destination::Single(part) => {
                let Some(path) = part.target.path() else { return Ok(()) };
                let growing = GrowingFile::begin(&self.files, &part.target.name, path, job, restored)?;
                self.place = Destination::Growing(growing);
                Ok(())
            }
            Destination::Growing(_) => Err(Diagnostic::bug("the spans of a sink were begun twice")),
            Destination::Directory(parts) => parts.begin(job, restored),
        }
    }

    fn share(&self) -> Result<Option<SharedPlace>, Diagnostic> {
        match &self.place {
            Destination::Directory(parts) => parts.share().map(Some),
            Destination::Single(_) | Destination::Growing(_) => Ok(None),
        }
    }

    fn meet(&self, name: &str) -> Result<(), Diagnostic> {
        match &self.place {
            Destination::Directory(parts) => parts.meet(name),
            Destination::Single(_) | Destination::Growing(_) => Err(Diagnostic::bug("a single file is not shared")),
        }
    }

    fn commit_of_others(&mut self, tokens: &[Value]) -> Result<(), Diagnostic> {
        match &self.place {
            Destination::Directory(parts) => parts.commit(tokens),
            Destination::Single(_) | Destination::Growing(_) => Err(Diagnostic::bug("a single file is not shared")),
        }
    }

    fn succeed(&mut self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        match &self.place {
            Destination::Directory(parts) => parts.succeed(lost),
            Destination::Single(_) | Destination::Growing(_) => Err(Diagnostic::bug("a single file is not shared")),
        }
    }

    fn cut(&mut self, checkpoint: u64) -> Result<Option<Box<dyn Commit>>, Diagnostic> {
        match &mut self.place {
            Destination::Single(part) => part.flush().map(|()| None),
            Destination::Growing(file) => file.cut().map(Some),
            Destination::Directory(parts) => Ok(parts.cut(checkpoint)),
        }
    }
}
