//! Object container files: records of Avro behind the schema they were written with.
//!
//! ```text
//! file:    "Obj" 1 | map: avro.schema, avro.codec, … | marker, 16 bytes | blocks
//! block:   number of records | number of bytes | the records, compressed by the codec | marker
//! ```
//! [`framer`] finds the blocks, [`codec`] decompresses them, [`read`] makes columns of them, [`write`] makes them of columns. Sizes and
//! counts come from the file, so each is compared with what there is before memory is asked for.

mod codec;
mod framer;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub(super) use framer::AvroBlock;
pub(super) use read::{infer, stream};
pub(super) use write::output;

/// What a file begins with.
const MAGIC: &[u8; 4] = b"Obj\x01";
/// Bytes of the marker behind the header and each block.
const MARKER_BYTES: usize = 16;
