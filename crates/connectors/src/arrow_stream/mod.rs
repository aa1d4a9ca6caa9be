//! The `arrow` format: record batches as an Arrow IPC stream, or an Arrow IPC file, which has a stream in it.
//!
//! Columns of the table's types are read where they lie in the block that was received; only those that a query wants are
//! looked at. Decoding checks offsets, lengths and UTF-8, so that bytes from outside cannot do harm.

mod decode;
mod encode;
mod framer;
#[cfg(test)]
mod tests;

use crate::format::{Format, StreamFormat};
use crate::records::Framer;
use std::sync::Arc;

pub(crate) use decode::split_front;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "arrow",
    summary: "Apache Arrow: an IPC stream, in a file or over a connection; files of the IPC file format \
        (Feather 2) can be read, too. Columns are found by name; one that a stream does not have is NULL. Compressed record \
        batches cannot be read. A sink writes a stream.",
    extension: Some("arrows"),
    stream: |request| {
        let framer = |info| Box::new(framer::ArrowFramer::new(info)) as Box<dyn Framer>;
        Ok(Some(StreamFormat { framer: Box::new(framer), decoder: Arc::new(decode::ArrowDecoder::new(request)?) }))
    },
    stream_output: |request| encode::output(request).map(Some),
    ..Format::NONE
};
