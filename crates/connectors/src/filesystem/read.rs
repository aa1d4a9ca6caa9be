//! Reads a file of records, compressed or not, and cuts it into chunks.

use super::discover::{InputFile, input_changed, read_error};
use super::fingerprint::{Extent, FileWitness};
use super::standard_input;
use crate::records::{Framer, RecordCutter};
use crate::unfit::sniffed;
use crate::{Chunk, Position, SplitReader, Witness};
use millstream_types::{Diagnostic, Place, code};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;

/// Compression of a file, known by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Plain.
    None,
    /// `.gz`
    Gzip,
    /// `.zst` or `.zstd`
    Zstd,
}

impl Compression {
    /// By the end of a file's name.
    pub(crate) fn of(name: &str) -> Compression {
        match name.to_ascii_lowercase().rsplit_once('.') {
            Some((_, "gz" | "gzip")) => Compression::Gzip,
            Some((_, "zst" | "zstd")) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// The split of one file of records.
pub(super) struct RecordReader {
    file: InputFile,
    compression: Compression,
    state: ReadState,
    cutter: RecordCutter,
    /// The byte of the (decompressed) file at which reading begins.
    start: u64,
    /// `None` of pipes.
    witness: Option<Arc<FileWitness>>,
    /// Whether somebody else reads the rows.
    is_sample: bool,
}

/// A reader of the first records of a file, which leaves those of standard input to others.
pub(super) fn sample_reader(file: &InputFile, framer: Box<dyn Framer>) -> Box<dyn SplitReader> {
    Box::new(RecordReader { is_sample: true, ..RecordReader::new(file.clone(), framer) })
}

enum ReadState {
    /// Files are opened when their turn comes, so that a directory of many files needs few descriptors.
    Closed,
    Open(Box<dyn Read + Send>),
    Ended,
}

impl RecordReader {
    pub(super) fn new(file: InputFile, framer: Box<dyn Framer>) -> RecordReader {
        let compression = if file.path.is_some() { Compression::of(&file.info.name) } else { Compression::None };
        let extent = if compression == Compression::None { Extent::Bytes } else { Extent::Compressed };
        let path = file.path.clone().filter(|_| !file.stream);
        let witness = path.map(|path| FileWitness::new(path, extent));
        RecordReader {
            file,
            compression,
            state: ReadState::Closed,
            cutter: RecordCutter::new(framer),
            start: 0,
            witness,
            is_sample: false,
        }
    }

    fn open(&self) -> Result<Box<dyn Read + Send>, Diagnostic> {
        let failed = |e: io::Error| read_error(&self.file.info.path, &e);
        let Some(path) = &self.file.path else {
            return match self.is_sample {
                true => Ok(Box::new(io::Cursor::new(standard_input::sample()?))),
                false => standard_input::reader(),
            };
        };
        let mut file = File::open(path).map_err(failed)?;
        if let Some(witness) = &self.witness {
            witness.opened(&file.metadata().map_err(failed)?);
        }
        let mut reader: Box<dyn Read + Send> = match self.compression {
            Compression::None => {
                if self.start > 0 && !self.file.stream {
                    self.check_length(file.metadata().map_err(failed)?.len())?;
                    file.seek(io::SeekFrom::Start(self.start)).map_err(failed)?;
                }
                return Ok(Box::new(file));
            }
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, file)))
            }
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file).map_err(failed)?),
        };
        let skipped = io::copy(&mut reader.by_ref().take(self.start), &mut io::sink());
        self.check_length(skipped.map_err(|e| self.failed(&e))?)?;
        Ok(reader)
    }

    /// Checks that the file still has what was read of it before.
    fn check_length(&self, length: u64) -> Result<(), Diagnostic> {
        if length >= self.start {
            return Ok(());
        }
        Err(input_changed(&self.file.info.path, length, self.start, "bytes"))
    }

    /// An error of the operating system is a failed read; anything else was found by the decompressor.
    fn failed(&self, error: &io::Error) -> Diagnostic {
        if self.compression == Compression::None || error.raw_os_error().is_some() {
            return read_error(&self.file.info.path, error);
        }
        let kind = if self.compression == Compression::Gzip { "gzip" } else { "zstd" };
        let what = if error.kind() == io::ErrorKind::UnexpectedEof {
            "ends too early".to_string()
        } else {
            format!("is damaged: {error}")
        };
        let offset = Some(self.cutter.received());
        let place = Place::Data { resource: self.file.info.path.clone(), offset, line: None, column: None };
        // A file that begins otherwise was never compressed this way.
        let other =
            sniffed(&self.file.info.path).filter(|text| !text.contains("compressed with") && !text.contains("empty"));
        let extension = if kind == "gzip" { "gz" } else { "zst" };
        let (message, advice) = match other {
            Some(_) => (
                format!("the file is not compressed with {kind}, as its name says"),
                format!("rename it so that it does not end in .{extension}, or compress it: {kind} FILE"),
            ),
            None => (format!("the {kind} file {what}"), "fetch or compress the file again".into()),
        };
        Diagnostic::new(code::MALFORMED_FILE, message).at(place).advise(advice)
    }

    /// Reads until the cutter is full, or once if bytes come as they are written. `false` at the end of the file.
    fn fill(&mut self, reader: &mut dyn Read) -> Result<bool, Diagnostic> {
        loop {
            match reader.read(self.cutter.room()) {
                Ok(0) => {
                    if let Some(witness) = &self.witness {
                        witness.ended((self.compression == Compression::None).then(|| self.cutter.received()));
                    }
                    return Ok(false);
                }
                Ok(read) => self.cutter.advance(read),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.failed(&e)),
            }
            if self.cutter.is_full() || self.file.stream {
                return Ok(true);
            }
        }
    }
}

impl SplitReader for RecordReader {
    fn name(&self) -> &str {
        self.file.info.path.as_str()
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.start = from.map_or(0, |position| self.cutter.resume(position));
        Ok(())
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        self.witness.clone().map(|witness| witness as Arc<dyn Witness>)
    }

    fn verify(&self, described: &Value, has_ended: bool) -> Result<(), Diagnostic> {
        self.witness.as_ref().map_or(Ok(()), |witness| witness.verify(described, has_ended))
    }

    fn limit_records(&mut self, bytes: usize) {
        self.cutter.limit_records(bytes);
    }

    fn aim(&mut self, bytes: usize) {
        self.cutter.aim(bytes);
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        loop {
            let mut reader = match std::mem::replace(&mut self.state, ReadState::Ended) {
                ReadState::Ended => return self.cutter.finish(),
                ReadState::Open(reader) => reader,
                ReadState::Closed => self.open()?,
            };
            if self.fill(&mut *reader)? {
                self.state = ReadState::Open(reader);
                if let Some(chunk) = self.cutter.cut()? {
                    return Ok(Some(chunk));
                }
            }
        }
    }
}
