//! The `filesystem` source of a directory or glob that is looked at again and again: files are read as they appear.
//!
//! Its splits are *shares*: each reads the files that a hash of their names says ([`Monitor`]), one after the other. So which split reads a
//! file follows from its name alone, on any number of nodes, and there are no more splits than there were at the start.
//!
//! A position counts on over the files of a share: it is that in the file, behind where the one before has ended. What a checkpoint says of
//! a share's input has the rest: the file that is being read and where it begins, and all files before it.

use super::discover::{InputFile, file_at, local_path};
use super::fingerprint::{Extent, FileWitness};
use super::finished::FinishedFiles;
use super::monitor::{Ahead, FIRST_LOOK, FoundFile, Monitor, SHARES};
use crate::{Chunk, Decoder, Outlook, Position, Source, SplitReader, Witness, locked};
use millstream_types::{Diagnostic, code};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Makes the reader of one file.
pub(super) type OpenOne = Box<dyn Fn(InputFile) -> Result<Box<dyn SplitReader>, Diagnostic> + Send + Sync>;

/// How files are read.
pub(super) struct FileReading {
    pub(super) open: OpenOne,
    pub(super) decoder: Arc<dyn Decoder>,
    /// What has been read of a file that was read to its end.
    pub(super) extent: Extent,
}

/// See the module.
pub(super) struct ArrivingFiles {
    path: String,
    interval: Duration,
    reading: Arc<FileReading>,
    nodes: usize,
    /// Names of splits that a checkpoint has of the table, when it was read file by file.
    before: Vec<String>,
}

impl ArrivingFiles {
    /// The files that the option `path` means, now and later.
    pub(super) fn new(path: &str, interval: Duration, reading: FileReading) -> Result<ArrivingFiles, Diagnostic> {
        let path = local_path(path)?.to_string();
        Ok(ArrivingFiles { path, interval, reading: Arc::new(reading), nodes: 1, before: Vec::new() })
    }

    fn name_of(&self, share: usize) -> String {
        format!("{}, share {} of {SHARES}", self.path, share + 1)
    }
}

impl Source for ArrivingFiles {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let monitor = Arc::new(Monitor::new(&self.path, self.interval, self.nodes));
        let mut splits: Vec<Box<dyn SplitReader>> = Vec::new();
        for name in &self.before {
            monitor.know(name);
            if let Some(file) = file_at(name)? {
                splits.push((self.reading.open)(file)?);
            }
        }
        for number in 0..SHARES {
            splits.push(Box::new(ShareReader {
                name: self.name_of(number),
                number,
                monitor: monitor.clone(),
                reading: self.reading.clone(),
                current: None,
                look: 0,
                next: 0,
                ready: None,
                record_limit: None,
                aim: None,
                witness: OnceLock::new(),
                restored: Mutex::default(),
            }));
        }
        Ok(splits)
    }

    fn share(&mut self, _: usize, nodes: usize) {
        self.nodes = nodes;
    }

    fn resumes(&mut self, splits: &[&str]) {
        let shares: Vec<String> = (0..SHARES).map(|share| self.name_of(share)).collect();
        let is_file = |name: &&&str| !shares.iter().any(|share| share == **name);
        self.before = splits.iter().filter(is_file).map(|name| name.to_string()).collect();
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.reading.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        false
    }

    fn is_replayable(&self) -> bool {
        true
    }
}

/// Reads the files of a share.
struct ShareReader {
    name: String,
    number: usize,
    monitor: Arc<Monitor>,
    reading: Arc<FileReading>,
    current: Option<Current>,
    /// The number of the look that has found the last file.
    look: u64,
    /// The position at which the next file begins.
    next: u64,
    ready: Option<Chunk>,
    record_limit: Option<usize>,
    aim: Option<usize>,
    /// Kept when there are checkpoints.
    witness: OnceLock<Arc<ShareWitness>>,
    /// What the checkpoint says, until reading begins.
    restored: Mutex<Option<Restored>>,
}

/// A file that is being read.
struct Current {
    name: String,
    reader: Box<dyn SplitReader>,
    /// The position at which it begins.
    from: u64,
    /// The position behind what was read of it.
    reached: u64,
}

struct Restored {
    finished: FinishedFiles,
    current: Option<Current>,
}

impl ShareReader {
    fn begin(&mut self, found: FoundFile) -> Result<(), Diagnostic> {
        let name = found.file.info.path.clone();
        let mut reader = (self.reading.open)(found.file)?;
        self.record_limit.into_iter().for_each(|bytes| reader.limit_records(bytes));
        self.look = found.look;
        self.go_on(Current { name, reader, from: self.next, reached: self.next });
        Ok(())
    }

    fn go_on(&mut self, current: Current) {
        if let Some(witness) = self.witness.get() {
            let Current { name, from, reader, .. } = &current;
            let begun = Begun { name: name.clone(), from: *from, input: reader.witness(), end: None };
            locked(&witness.begun).push_back(begun);
            witness.has_begun.store(true, Release);
        }
        self.current = Some(current);
    }

    /// The file has been read to its end.
    fn finish(&mut self, current: &Current) {
        // Behind it, so that the end of this file and the start of the next are two positions.
        self.next = current.reached + 1;
        if let Some(witness) = self.witness.get()
            && let Some(begun) = locked(&witness.begun).back_mut()
        {
            begun.end = Some(current.reached);
        }
    }
}

impl SplitReader for ShareReader {
    fn name(&self) -> &str {
        &self.name
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        let Some(from) = from else { return Ok(()) };
        let restored = locked(&self.restored).take();
        let Restored { finished, current } = restored.ok_or_else(|| damaged(&self.name, &Value::Null))?;
        if let Some(witness) = self.witness.get() {
            *locked(&witness.finished) = finished;
        }
        // What the job has found with the last file is found again by the first look.
        (self.look, self.next) = (FIRST_LOOK, from.at + 1);
        if let (None, Some(witness)) = (&current, self.witness.get()) {
            witness.has_begun.store(true, Release);
        }
        if let Some(mut current) = current {
            current.reader.resume(Some(Position { at: from.at - current.from, line: from.line }))?;
            current.reached = from.at;
            self.go_on(current);
        }
        Ok(())
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        Some(self.witness.get_or_init(Arc::default).clone())
    }

    fn verify(&self, described: &Value, _: bool) -> Result<(), Diagnostic> {
        let damaged = || damaged(&self.name, described);
        let state = ShareState::deserialize(described).map_err(|_| damaged())?;
        let (finished, files) = FinishedFiles::of_text(&state.read).ok_or_else(damaged)?;
        for (name, known) in files {
            self.monitor.know(&name);
            // One that is gone has been read; nobody needs it any more.
            if let Some(known) = known.filter(|_| fs::exists(&name).unwrap_or(true)) {
                FileWitness::new(PathBuf::from(name), self.reading.extent).verify(&known.described(), true)?;
            }
        }
        let current = state.current.map(|FileState { name, from, input }| {
            self.monitor.know(&name);
            let gone = || {
                let message = format!("'{name}' is gone, but had not been read to its end");
                Diagnostic::new(code::INPUT_CHANGED, message)
                    .advise("put the file back, or start from the beginning with another state directory and output")
            };
            let reader = (self.reading.open)(file_at(&name)?.ok_or_else(gone)?)?;
            input.iter().try_for_each(|input| reader.verify(input, false))?;
            self.monitor.goes_on(self.number);
            Ok(Current { name, reader, from, reached: from })
        });
        *locked(&self.restored) = Some(Restored { finished, current: current.transpose()? });
        Ok(())
    }

    fn limit_records(&mut self, bytes: usize) {
        self.record_limit = Some(bytes);
        if let Some(current) = &mut self.current {
            current.reader.limit_records(bytes);
        }
    }

    fn aim(&mut self, bytes: usize) {
        self.aim = Some(bytes);
    }

    /// Reads ahead: whether there is anything in a file shows when it is read. Files do not keep anybody waiting.
    fn wait(&mut self) -> Result<bool, Diagnostic> {
        if self.ready.is_some() {
            return Ok(true);
        }
        let Some(mut current) = self.current.take() else {
            return match self.monitor.turn(self.number)? {
                Some(found) => self.begin(found).map(|()| false),
                None => Ok(false),
            };
        };
        self.aim.into_iter().for_each(|bytes| current.reader.aim(bytes));
        let Some(chunk) = current.reader.next()? else {
            self.finish(&current);
            return Ok(false);
        };
        let after = chunk.after.ok_or_else(|| Diagnostic::bug("a chunk of a file has no position"))?;
        current.reached = current.from + after.at;
        self.ready = Some(Chunk { after: Some(Position { at: current.reached, line: after.line }), ..chunk });
        self.current = Some(current);
        Ok(true)
    }

    fn outlook(&self) -> Outlook {
        match self.monitor.ahead(self.number, self.look) {
            Ahead::SameLook => Outlook::Holds,
            _ if self.current.is_some() => Outlook::Rows,
            Ahead::Silence => Outlook::Silent,
            Ahead::Nothing => Outlook::Settled,
        }
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        while !self.wait()? {}
        Ok(self.ready.take())
    }
}

impl Drop for ShareReader {
    fn drop(&mut self) {
        self.monitor.leave(self.number);
    }
}

/// What a checkpoint says of the files of a share.
#[derive(Serialize, Deserialize)]
struct ShareState {
    /// [`FinishedFiles`].
    read: String,
    /// The file that is being read.
    current: Option<FileState>,
}

#[derive(Serialize, Deserialize)]
struct FileState {
    name: String,
    /// The position at which it begins.
    from: u64,
    input: Option<Value>,
}

/// The files of a share, as long as a checkpoint may want them.
#[derive(Debug, Default)]
struct ShareWitness {
    /// Whether the rest says what has been read: not before the share resumes. What the last checkpoint says still holds until then.
    has_begun: AtomicBool,
    /// Read before the last checkpoint.
    finished: Mutex<FinishedFiles>,
    /// In the order of their positions.
    begun: Mutex<VecDeque<Begun>>,
}

#[derive(Debug, Clone)]
struct Begun {
    name: String,
    /// The position at which it begins.
    from: u64,
    input: Option<Arc<dyn Witness>>,
    /// The position of its end, once that is known.
    end: Option<u64>,
}

impl ShareWitness {
    /// The next file, if a position is behind its end. Checkpoints come in order: none asks for an earlier position.
    fn behind(&self, at: u64) -> Option<Begun> {
        let mut begun = locked(&self.begun);
        begun.pop_front_if(|file| file.end.is_some_and(|end| end <= at))
    }
}

impl Witness for ShareWitness {
    fn describe(&self, at: Option<Position>, _: bool) -> Option<Value> {
        let at = at.filter(|_| self.has_begun.load(Acquire))?;
        // The reader does not wait for the disk: what is said of a file is asked for without the lock that it needs.
        while let Some(file) = self.behind(at.at) {
            let input = file.input.and_then(|input| input.describe(None, true));
            locked(&self.finished).push(&file.name, input.as_ref());
        }
        let current = locked(&self.begun).front().filter(|file| file.from < at.at).cloned();
        let current = current.map(|Begun { name, from, input, .. }| {
            let position = Position { at: at.at - from, line: at.line };
            FileState { name, from, input: input.and_then(|input| input.describe(Some(position), false)) }
        });
        serde_json::to_value(ShareState { read: locked(&self.finished).to_text(), current }).ok()
    }
}

fn damaged(share: &str, described: &Value) -> Diagnostic {
    let message = format!("the checkpoint says '{described}' of the input '{share}', which makes no sense");
    Diagnostic::new(code::CHECKPOINT_DAMAGED, message)
}
