//! Where state is kept outside of memory: how it is encoded, in which files, in which stores.
//!
//! Invariants: everything that is read is checked before it is trusted; a file is written once, as a whole, and never
//! changed; nothing here knows what the bytes mean.

#![forbid(unsafe_code)]

mod bytes;

pub use bytes::{ByteReader, ByteWriter, Damaged};
