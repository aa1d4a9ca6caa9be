//! The `arrow` format: record batches as an Arrow IPC stream, or an Arrow IPC file, which has a stream in it.
//!
//! Columns of the table's types are read where they lie in the block that was received; only those that a query wants are
//! looked at. Decoding checks offsets, lengths and UTF-8, so that bytes from outside cannot do harm.

mod decode;
mod encode;
mod framer;
#[cfg(test)]
mod tests;

pub(crate) use decode::{ArrowDecoder, split_front};
pub(crate) use encode::output;
pub(crate) use framer::ArrowFramer;

/// For the documentation.
pub(crate) const SUMMARY: &str = "Apache Arrow: an IPC stream, in a file or over a connection; files of the IPC file format \
    (Feather 2) can be read, too. Columns are found by name; one that a stream does not have is NULL. Compressed record \
    batches cannot be read. A sink writes a stream.";
