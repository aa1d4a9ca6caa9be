//! Writes the bytes of one output file, compressed or not.
//!
//! A compressed file may be *cut*: its gzip member or zstd frame ends, and the next one begins with what is written next.
//! Readers take such members one after the other for one file.

use super::read::Compression;
use super::target::Output;
use crate::Encoded;
use crate::format::StreamOutput;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};

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

/// A file of records, compressed or not.
pub(super) struct StreamWriter {
    /// `None` after an error that has left the file in an unknown state.
    stream: Option<Stream<Output>>,
    compression: Compression,
    written: u64,
    trailer: &'static [u8],
}

/// Where bytes go.
enum Stream<W: Write> {
    /// Into the file as they are: nothing is compressed, or no member is open.
    Plain(BufWriter<W>),
    Gzip(GzEncoder<BufWriter<W>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> Stream<W> {
    fn begin(out: BufWriter<W>, compression: Compression) -> io::Result<Stream<W>> {
        Ok(match compression {
            Compression::None => Stream::Plain(out),
            Compression::Gzip => Stream::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            Compression::Zstd => Stream::Zstd(zstd::stream::write::Encoder::new(out, 3)?),
        })
    }

    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(out) => out.write_all(data),
            Stream::Gzip(out) => out.write_all(data),
            Stream::Zstd(out) => out.write_all(data),
        }
    }

    fn end(self) -> io::Result<BufWriter<W>> {
        match self {
            Stream::Plain(out) => Ok(out),
            Stream::Gzip(out) => out.finish(),
            Stream::Zstd(out) => out.finish(),
        }
    }
}

/// The bytes that a trailer has in a file that was cut before it.
pub(super) fn trailer_length(trailer: &[u8], compression: Compression) -> io::Result<u64> {
    if trailer.is_empty() {
        return Ok(0);
    }
    let mut stream = Stream::begin(BufWriter::new(Vec::new()), compression)?;
    stream.put(trailer)?;
    let bytes = stream.end()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(bytes.len() as u64)
}

impl StreamWriter {
    /// A writer at the start of a file.
    pub(super) fn new(output: Output, compression: Compression, format: &StreamOutput) -> io::Result<StreamWriter> {
        let mut writer = StreamWriter::resumed(output, compression, format);
        let stream = writer.take()?.end()?;
        writer.stream = Some(Stream::begin(stream, compression)?);
        writer.put(&format.header)?;
        Ok(writer)
    }

    /// A writer that resumes a file where it was cut.
    pub(super) fn resumed(output: Output, compression: Compression, format: &StreamOutput) -> StreamWriter {
        let stream = Stream::Plain(BufWriter::with_capacity(1 << 16, output));
        StreamWriter { stream: Some(stream), compression, written: 0, trailer: format.trailer }
    }

    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.written += data.len() as u64;
        let mut stream = match self.take()? {
            Stream::Plain(out) => Stream::begin(out, self.compression)?,
            open => open,
        };
        stream.put(data)?;
        self.stream = Some(stream);
        Ok(())
    }

    fn take(&mut self) -> io::Result<Stream<Output>> {
        self.stream.take().ok_or_else(|| io::Error::other("the file was given up after an earlier error"))
    }

    /// Flushes everything, so that the file can be read up to here and resumed. Returns the file.
    pub(super) fn cut(&mut self) -> io::Result<&Output> {
        let mut out = self.take()?.end()?;
        out.flush()?;
        match self.stream.insert(Stream::Plain(out)) {
            Stream::Plain(out) => Ok(out.get_ref()),
            Stream::Gzip(_) | Stream::Zstd(_) => Err(io::Error::other("a member is open behind a cut")),
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
        match &mut self.stream {
            Some(Stream::Plain(out)) => out.flush(),
            // A compressed file is hidden until its end; flushing it would only spoil the compression.
            Some(Stream::Gzip(_) | Stream::Zstd(_)) | None => Ok(()),
        }
    }

    fn size(&self) -> u64 {
        self.written
    }

    fn finish(mut self: Box<Self>) -> io::Result<Output> {
        let trailer = self.trailer;
        self.put(trailer)?;
        self.take()?.end()?.into_inner().map_err(io::IntoInnerError::into_error)
    }
}
