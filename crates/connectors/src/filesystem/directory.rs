//! A directory that gets part files, and its spans under checkpoints.
//!
//! ```text
//! part-<time and process>-<n>.<extension>              without checkpoints: visible when it is complete
//! .part-<job>-<sink>-<checkpoint>-<writer>-<n>.<ext…>  in a span that is not committed
//!  part-<job>-<sink>-<checkpoint>-<writer>-<n>.<ext…>  in a span that is
//! ```
//! `<checkpoint>` is the one before the span, 0 at the start: the one that will end it is not known when its files are
//! begun. So a recovery from checkpoint *c* removes the files with *c* or more in their names.
//!
//! An earlier process of the job may still be at work, and several nodes write into the directory: each has its own names
//! ([`SinkJob::writer`]), so none writes into a file of another.
//!
//! [`EndedSpans`] has the files of the spans that have ended.

use super::sink::{Files, Part};
use super::target::{Contents, Sealed, Target, VERIFIED_BYTES, hidden_name, sync_directory, write_error};
use crate::spans::EndedSpans;
use crate::text_chunk::whole;
use crate::{Commit, Encoded, LostSink, RestoredSink, SharedPlace, SinkJob, SinkWriter};
use millstream_types::{Diagnostic, Place, code};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What the names of files start with that other nodes look for.
const SHARED: &str = ".millstream-nodes-";
/// How long they look.
const PATIENCE: Duration = Duration::from_secs(3);

/// See the module.
pub(super) struct PartDirectory {
    path: PathBuf,
    /// What the names of new files start with.
    prefix: String,
    /// Number of the next file.
    next: u64,
    open: Option<Part>,
    spans: Option<DirectorySpans>,
}

/// Output falls into spans.
struct DirectorySpans {
    job: SinkJob,
    /// Complete files of the span that is being written.
    sealed: Vec<Sealed>,
    ended: Arc<EndedSpans<EndedSpan, DurableFile>>,
}

/// Files of a span.
struct EndedSpan {
    open: Option<Part>,
    sealed: Vec<Sealed>,
}

/// A file that is on disk but not visible.
#[derive(Clone, Serialize, Deserialize)]
struct DurableFile {
    name: String,
    contents: Contents,
}

fn prefix(job: &SinkJob, checkpoint: u64) -> String {
    format!("part-{}-{}-{checkpoint}-{}", job.job, job.sink, job.writer)
}

impl PartDirectory {
    /// Makes the directory, if it is not there.
    pub(super) fn open(path: &Path) -> Result<PartDirectory, Diagnostic> {
        fs::create_dir_all(path).map_err(|e| write_error(path, &e))?;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Tells the files of this run from those of others.
        let prefix = format!("part-{:x}{:x}", since_epoch.as_nanos(), std::process::id());
        Ok(PartDirectory { path: path.to_path_buf(), prefix, next: 0, open: None, spans: None })
    }

    pub(super) fn write(&mut self, piece: Encoded, files: &Files) -> Result<(), Diagnostic> {
        let part = match &mut self.open {
            Some(part) => part,
            None => {
                let name = format!("{}-{}.{}", self.prefix, self.next, files.extension());
                self.next += 1;
                let (target, output) = match &self.spans {
                    Some(_) => Target::part(&self.path, &name)?,
                    None => Target::file(&self.path.join(name))?,
                };
                self.open.insert(files.begin(target, output)?)
            }
        };
        part.write(piece)?;
        self.roll(files)
    }

    /// Closes the file that is large or old enough.
    pub(super) fn roll(&mut self, files: &Files) -> Result<(), Diagnostic> {
        let Some(full) = self.open.take_if(|part| part.is_complete(files)) else { return Ok(()) };
        match &mut self.spans {
            Some(spans) => spans.sealed.push(full.seal()?),
            None => full.publish()?,
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), Diagnostic> {
        if let Some(spans) = &self.spans {
            let ended = spans.ended.clone();
            self.end_span(u64::MAX);
            let mut span: Box<dyn Commit> = Box::new(DirectoryCommit { path: self.path, checkpoint: u64::MAX, ended });
            span.prepare()?;
            return span.commit();
        }
        self.open.map_or(Ok(()), Part::publish)
    }

    /// Begins the spans of a job: commits those of its checkpoint and takes away what was written behind it.
    pub(super) fn begin(&mut self, job: &SinkJob, restored: Option<&RestoredSink>) -> Result<(), Diagnostic> {
        let checkpoint = match job.writer.is_first() {
            true => restored.map_or(0, |restored| restored.checkpoint),
            false => job.resumes.unwrap_or(0),
        };
        if job.writer.is_first() {
            let mut unverified = VERIFIED_BYTES;
            for token in restored.iter().flat_map(|restored| &restored.tokens) {
                for file in files_of(&self.path, token)? {
                    let is_verified = file.contents.bytes <= unverified;
                    self.recover(&file, checkpoint, is_verified)?;
                    unverified = unverified.saturating_sub(file.contents.bytes);
                }
            }
            self.remove_later(job, checkpoint)?;
            sync_directory(&self.path);
        }
        self.prefix = prefix(job, checkpoint);
        self.next = 0;
        self.spans = Some(DirectorySpans { job: job.clone(), sealed: Vec::new(), ended: Arc::default() });
        Ok(())
    }

    /// Gives the files of spans of other nodes their names.
    pub(super) fn commit(&self, tokens: &[Value]) -> Result<(), Diagnostic> {
        for token in tokens {
            commit(&self.path, &files_of(&self.path, token)?)?;
        }
        Ok(())
    }

    /// Gives the files of a span that a lost node has prepared their names, unless they have them, and removes those that it has written behind it.
    pub(super) fn succeed(&self, lost: &LostSink<'_>) -> Result<(), Diagnostic> {
        let Some(spans) = &self.spans else { return Ok(()) };
        let mut unverified = VERIFIED_BYTES;
        for file in lost.token.map_or(Ok(Vec::new()), |token| files_of(&self.path, token))? {
            let checkpoint = span_of(&file.name, &spans.job).map_or(0, |(checkpoint, _)| checkpoint);
            self.recover(&file, checkpoint, file.contents.bytes <= unverified)?;
            unverified = unverified.saturating_sub(file.contents.bytes);
        }
        sync_directory(&self.path);
        self.remove(|is_hidden, name| {
            is_hidden && span_of(name, &spans.job).is_some_and(|(_, writer)| writer.node == lost.node)
        })
    }

    /// Puts a file there for other nodes to find.
    pub(super) fn share(&self) -> Result<SharedPlace, Diagnostic> {
        let file = tempfile::Builder::new().prefix(SHARED).tempfile_in(&self.path);
        let file = file.map_err(|e| write_error(&self.path, &e))?.into_temp_path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(SharedPlace { name, held: Box::new(file) })
    }

    /// Looks for a file of [`PartDirectory::share`]. File systems of a network may show it a moment later.
    pub(super) fn meet(&self, name: &str) -> Result<(), Diagnostic> {
        if !name.starts_with(SHARED) || name.contains('/') {
            return Err(Diagnostic::bug(format!("'{name}' is no file of a shared directory")));
        }
        let until = Instant::now() + PATIENCE;
        while !fs::exists(self.path.join(name)).unwrap_or(false) {
            if Instant::now() > until {
                let message =
                    format!("the directory '{}' of the output is another one on this node", self.path.display());
                return Err(Diagnostic::new(code::OUTPUT_NOT_SHARED, message)
                    .at(Place::Option("path".into()))
                    .advise("give a path of a file system that all nodes share; or set 'sink.parallelism' = '1': the first node writes all rows"));
            }
            std::thread::sleep(PATIENCE / 50);
        }
        Ok(())
    }

    /// Gives a file of the restored checkpoint its name, if it does not have it yet, and it is as it was left.
    fn recover(&self, file: &DurableFile, checkpoint: u64, is_verified: bool) -> Result<(), Diagnostic> {
        let (hidden, path) = (self.path.join(hidden_name(&file.name)), self.path.join(&file.name));
        for candidate in [&hidden, &path] {
            let metadata = match fs::symlink_metadata(candidate) {
                Ok(metadata) => metadata,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(write_error(candidate, &e)),
            };
            if !metadata.is_file() {
                let what = format!("belongs to checkpoint {checkpoint} as a file, but {}", kind_of(&metadata));
                return Err(not_as_left(candidate, &what));
            }
            let Contents { bytes, .. } = file.contents;
            if metadata.len() != bytes {
                let what = format!("has {} bytes, but {bytes} belong to checkpoint {checkpoint}", metadata.len());
                return Err(not_as_left(candidate, &what));
            }
            let begins = || file.contents.begin(&fs::File::open(candidate)?);
            let is_gone = |e: &io::Error| candidate == &hidden && e.kind() == io::ErrorKind::NotFound;
            match if is_verified { begins() } else { Ok(true) } {
                Ok(true) => {}
                Ok(false) => {
                    let what = format!("has its {bytes} bytes, but other ones than checkpoint {checkpoint} has left");
                    return Err(not_as_left(candidate, &what));
                }
                // The process that has written it has given it its name meanwhile.
                Err(e) if is_gone(&e) => continue,
                Err(e) => return Err(write_error(candidate, &e)),
            }
            match if candidate == &hidden { fs::rename(&hidden, &path) } else { Ok(()) } {
                Err(e) if is_gone(&e) => continue,
                renamed => return renamed.map_err(|e| write_error(&path, &e)),
            }
        }
        let what = format!("belongs to checkpoint {checkpoint}, but is not there, nor is '{}'", hidden.display());
        Err(not_as_left(&path, &what))
    }

    /// Removes what the job's sink has written behind a checkpoint, visible or not, and what it has not committed.
    fn remove_later(&self, job: &SinkJob, checkpoint: u64) -> Result<(), Diagnostic> {
        self.remove(|is_hidden, name| span_of(name, job).is_some_and(|(span, _)| is_hidden || span >= checkpoint))
    }

    /// Removes files: by whether they are hidden, and the name that they have or will have.
    fn remove(&self, is_left: impl Fn(bool, &str) -> bool) -> Result<(), Diagnostic> {
        let unreadable = |e: io::Error| write_error(&self.path, &e);
        for entry in fs::read_dir(&self.path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let (is_hidden, plain) = name.strip_prefix('.').map_or((false, name), |plain| (true, plain));
            if is_left(is_hidden, plain) {
                removed(fs::remove_file(entry.path())).map_err(|e| write_error(entry.path(), &e))?;
            }
        }
        Ok(())
    }

    /// Ends the span of a checkpoint; `None` when there are no spans.
    pub(super) fn cut(&mut self, checkpoint: u64) -> Option<Box<dyn Commit>> {
        let spans = self.spans.as_ref()?;
        let (ended, path) = (spans.ended.clone(), self.path.clone());
        (self.prefix, self.next) = (prefix(&spans.job, checkpoint), 0);
        self.end_span(checkpoint);
        Some(Box::new(DirectoryCommit { path, checkpoint, ended }))
    }

    fn end_span(&mut self, checkpoint: u64) {
        if let Some(spans) = &mut self.spans {
            let (open, sealed) = (self.open.take(), std::mem::take(&mut spans.sealed));
            spans.ended.end(checkpoint, EndedSpan { open, sealed });
        }
    }
}

struct DirectoryCommit {
    path: PathBuf,
    checkpoint: u64,
    ended: Arc<EndedSpans<EndedSpan, DurableFile>>,
}

impl EndedSpan {
    /// Forces the files to disk.
    fn keep(self) -> Result<Vec<DurableFile>, Diagnostic> {
        let mut sealed = self.sealed;
        sealed.extend(self.open.map(Part::seal).transpose()?);
        let kept = sealed.into_iter().map(|file| file.keep().map(|(name, contents)| DurableFile { name, contents }));
        kept.collect()
    }
}

impl Commit for DirectoryCommit {
    fn prepare(&mut self) -> Result<Value, Diagnostic> {
        let files = self.ended.prepare(self.checkpoint, |ended| {
            let mut durable = Vec::new();
            let kept = ended.into_iter().try_for_each(|(checkpoint, span)| {
                durable.extend(span.keep()?.into_iter().map(|file| (checkpoint, file)));
                Ok(())
            });
            sync_directory(&self.path);
            kept.map(|()| durable)
        })?;
        Ok(json!({ "files": files }))
    }

    fn commit(self: Box<Self>) -> Result<(), Diagnostic> {
        self.ended.commit(self.checkpoint, |files| commit(&self.path, files))
    }
}

/// Gives durable files their names.
fn commit(directory: &Path, files: &[DurableFile]) -> Result<(), Diagnostic> {
    for file in files {
        let path = directory.join(&file.name);
        fs::rename(directory.join(hidden_name(&file.name)), &path).map_err(|e| write_error(&path, &e))?;
    }
    sync_directory(directory);
    Ok(())
}

/// The files that a token of a directory lists.
fn files_of(directory: &Path, token: &Value) -> Result<Vec<DurableFile>, Diagnostic> {
    let files = token.get("files").and_then(|files| Vec::<DurableFile>::deserialize(files).ok());
    let is_file = |file: &DurableFile| file.name.starts_with("part-") && !file.name.contains('/');
    files.filter(|files| files.iter().all(is_file)).ok_or_else(|| damaged_token(directory, token))
}

/// The checkpoint behind which a file was written, and who has written it, if it is a file of this sink: numbers follow the job's name, so that
/// a job is not taken for one whose name begins alike.
fn span_of(name: &str, job: &SinkJob) -> Option<(u64, SinkWriter)> {
    let rest = name.strip_prefix(&format!("part-{}-{}-", job.job, job.sink))?;
    let (numbers, _) = rest.split_once('.')?;
    let numbers: Vec<&str> = numbers.split('-').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match numbers[..] {
        [checkpoint, writer, file] if is_number(checkpoint) && is_number(file) => {
            Some((checkpoint.parse().ok()?, writer.parse().ok()?))
        }
        _ => None,
    }
}

/// The result of removing a file, which another process may have done.
pub(crate) fn removed(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
}

/// The error for a token that another sink has made, or a damaged one.
pub(super) fn damaged_token(path: &Path, token: &Value) -> Diagnostic {
    let message = format!("the checkpoint says '{token}' of the output '{}', which makes no sense", path.display());
    Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
}

/// What something that is not a file is.
pub(super) fn kind_of(metadata: &fs::Metadata) -> &'static str {
    if metadata.is_symlink() { "is a symbolic link now" } else { "is not a file any more" }
}

/// The error for output that is not what a checkpoint has left.
pub(super) fn not_as_left(path: &Path, what: &str) -> Diagnostic {
    Diagnostic::new(code::NOT_RECOVERABLE, format!("the output file '{}' {what}", path.display()))
        .at(whole(path.to_string_lossy()))
        .advise("put the file back as the query has left it, or start from the beginning with another state directory and output")
}
