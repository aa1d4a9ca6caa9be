//! The `filesystem` sink: one file, standard output, or a directory of part files.
//!
//! `-` is standard output; a path with an extension, or of a file that exists, is that single file; any other is a
//! directory that gets files `part-<run>-<n>.<extension>`, each visible when it is complete.

use super::discover::local_path;
use super::read::Compression;
use super::target::{Output, Target, write_error};
use crate::format::{Format, StreamOutput};
use crate::parquet::ParquetWriter;
use crate::{Encoded, Encoder, Sink, SinkRequest};
use flate2::write::GzEncoder;
use millstream_types::Diagnostic;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Writes the pieces of one file.
pub(crate) trait PartWriter: Send {
    /// Writes a piece.
    fn write(&mut self, piece: Encoded) -> io::Result<()>;
    /// Passes on what is buffered, as far as the format allows.
    fn flush(&mut self) -> io::Result<()>;
    /// Bytes that the file has, about.
    fn size(&self) -> u64;
    /// Writes what is buffered and gives the output back.
    fn finish(self: Box<Self>) -> io::Result<Output>;
}

/// Opens the sink.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let options = &request.options;
    let format = Format::of(options)?;
    let stream = format.stream_output(request)?;
    let encoder = match &stream {
        Some(stream) => stream.encoder.clone(),
        None => crate::parquet::encoder(request)?,
    };
    let rolling = Rolling {
        size: options.memory_bytes("sink.rolling-policy.file-size", 128 << 20)?,
        age: options.duration("sink.rolling-policy.rollover-interval", Duration::from_secs(30 * 60))?,
    };
    let files = Files { request: request.clone(), stream, extension: format.extension() };
    let path = options.require("path")?;
    let place = if path == "-" { Destination::Single(files.open(None)?) } else { destination(path, &files)? };
    Ok(Box::new(FileSink { encoder, files, rolling, place }))
}

fn destination(path: &str, files: &Files) -> Result<Destination, Diagnostic> {
    let local = Path::new(local_path(path)?);
    let existing = fs::metadata(local).ok();
    let directory = match &existing {
        Some(metadata) => metadata.is_dir(),
        None => local.extension().is_none() || path.ends_with('/'),
    };
    if !directory {
        return Ok(Destination::Single(files.open(Some(local))?));
    }
    fs::create_dir_all(local).map_err(|e| write_error(path, &e))?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = format!("{:x}{:x}", since_epoch.as_nanos(), std::process::id());
    Ok(Destination::Directory { path: local.to_path_buf(), run, next: 0, part: None })
}

struct Rolling {
    size: u64,
    age: Duration,
}

/// How the files of a sink are made.
struct Files {
    request: SinkRequest,
    /// `None` for Parquet.
    stream: Option<StreamOutput>,
    extension: &'static str,
}

struct Part {
    target: Target,
    writer: Box<dyn PartWriter>,
    opened: Instant,
}

enum Destination {
    Single(Part),
    Directory {
        path: PathBuf,
        /// Tells the files of this run from those of others.
        run: String,
        next: u64,
        part: Option<Part>,
    },
}

struct FileSink {
    encoder: Arc<dyn Encoder>,
    files: Files,
    rolling: Rolling,
    place: Destination,
}

impl Files {
    /// Opens a file, or standard output.
    fn open(&self, path: Option<&Path>) -> Result<Part, Diagnostic> {
        let (target, output) = match path {
            Some(path) => Target::file(path)?,
            None => Target::stdout(),
        };
        let failed = |e: io::Error| write_error(&target.name, &e);
        let writer: Box<dyn PartWriter> = match &self.stream {
            None => Box::new(ParquetWriter::new(output, &self.request)?),
            Some(stream) => {
                let compression = Compression::of(&target.name);
                let mut writer = StreamWriter::new(output, compression, stream.trailer).map_err(failed)?;
                writer.put(&stream.header).map_err(failed)?;
                Box::new(writer)
            }
        };
        Ok(Part { target, writer, opened: Instant::now() })
    }
}

impl Part {
    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.writer.write(piece).map_err(|e| write_error(&self.target.name, &e))
    }

    fn publish(self) -> Result<(), Diagnostic> {
        let output = self.writer.finish().map_err(|e| write_error(&self.target.name, &e))?;
        self.target.publish(output)
    }
}

impl FileSink {
    /// Publishes the part of a directory that is large or old enough.
    fn roll(&mut self) -> Result<(), Diagnostic> {
        if let Destination::Directory { part, .. } = &mut self.place {
            let due =
                |part: &mut Part| part.writer.size() >= self.rolling.size || part.opened.elapsed() >= self.rolling.age;
            if let Some(full) = part.take_if(due) {
                full.publish()?;
            }
        }
        Ok(())
    }
}

impl Sink for FileSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn file(&self) -> Option<&Path> {
        match &self.place {
            Destination::Single(part) => part.target.path(),
            Destination::Directory { .. } => None,
        }
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        match &mut self.place {
            Destination::Single(part) => part.write(piece),
            Destination::Directory { path, run, next, part } => {
                let open = match part {
                    Some(part) => part,
                    None => {
                        let name = format!("part-{run}-{next}.{}", self.files.extension);
                        *next += 1;
                        part.insert(self.files.open(Some(&path.join(name)))?)
                    }
                };
                open.write(piece)?;
                self.roll()
            }
        }
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        if let Destination::Single(part) = &mut self.place {
            part.writer.flush().map_err(|e| write_error(&part.target.name, &e))?;
        }
        self.roll()
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        match self.place {
            Destination::Single(part) => part.publish(),
            Destination::Directory { part: Some(part), .. } => part.publish(),
            Destination::Directory { part: None, .. } => Ok(()),
        }
    }
}

/// A file of records, compressed or not.
struct StreamWriter {
    encoder: Compressor,
    written: u64,
    trailer: &'static [u8],
}

enum Compressor {
    None(BufWriter<Output>),
    Gzip(GzEncoder<BufWriter<Output>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Output>>),
}

impl StreamWriter {
    fn new(output: Output, compression: Compression, trailer: &'static [u8]) -> io::Result<StreamWriter> {
        let buffered = BufWriter::with_capacity(1 << 16, output);
        let encoder = match compression {
            Compression::None => Compressor::None(buffered),
            Compression::Gzip => Compressor::Gzip(GzEncoder::new(buffered, flate2::Compression::default())),
            Compression::Zstd => Compressor::Zstd(zstd::stream::write::Encoder::new(buffered, 3)?),
        };
        Ok(StreamWriter { encoder, written: 0, trailer })
    }

    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        self.written += data.len() as u64;
        match &mut self.encoder {
            Compressor::None(out) => out.write_all(data),
            Compressor::Gzip(out) => out.write_all(data),
            Compressor::Zstd(out) => out.write_all(data),
        }
    }
}

impl PartWriter for StreamWriter {
    fn write(&mut self, piece: Encoded) -> io::Result<()> {
        match piece {
            Encoded::Bytes { data, .. } => self.put(&data),
            Encoded::Columns { .. } => Err(io::Error::other("a file of records got columns")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Compressor::None(out) => out.flush(),
            // A compressed file is hidden until its end; flushing it would only spoil the compression.
            Compressor::Gzip(_) | Compressor::Zstd(_) => Ok(()),
        }
    }

    fn size(&self) -> u64 {
        self.written
    }

    fn finish(mut self: Box<Self>) -> io::Result<Output> {
        let trailer = self.trailer;
        self.put(trailer)?;
        let buffered = match self.encoder {
            Compressor::None(out) => out,
            Compressor::Gzip(out) => out.finish()?,
            Compressor::Zstd(out) => out.finish()?,
        };
        buffered.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
