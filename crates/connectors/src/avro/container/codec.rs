//! How the blocks of a file are compressed.

use crate::records::MAX_RECORD_BYTES;
use flate2::Crc;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use std::io::{self, Read};

/// A compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::avro) enum Codec {
    Null,
    /// Without a header or checksum.
    Deflate,
    /// One block without framing, and behind it the CRC-32 of what it stands for, big-endian.
    Snappy,
    Zstandard,
}

/// By their names in files and in the option `avro.codec`.
pub(in crate::avro) const CODECS: &[(&str, Codec)] =
    &[("snappy", Codec::Snappy), ("null", Codec::Null), ("deflate", Codec::Deflate), ("zstandard", Codec::Zstandard)];

/// A byte of Snappy's stands for less than this many.
const SNAPPY_RATIO: usize = 32;
/// Bytes of the checksum behind a block of Snappy's.
const CRC_BYTES: usize = 4;

impl Codec {
    /// By the name that a file gives.
    pub(super) fn named(name: &[u8]) -> Option<Codec> {
        CODECS.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, codec)| *codec)
    }

    pub(super) fn name(self) -> &'static str {
        CODECS.iter().find(|(_, codec)| *codec == self).map_or("", |(name, _)| *name)
    }

    /// Appends what a block stands for.
    pub(super) fn decompress(self, block: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let damaged = |e: &dyn std::fmt::Display| format!("its {} data are damaged: {e}", self.name());
        match self {
            Codec::Null => out.extend_from_slice(block),
            Codec::Deflate => bounded(DeflateDecoder::new(block), MAX_RECORD_BYTES, out).map_err(|e| damaged(&e))?,
            Codec::Zstandard => {
                let decoder = zstd::stream::read::Decoder::with_buffer(block).map_err(|e| damaged(&e))?;
                bounded(decoder, MAX_RECORD_BYTES, out).map_err(|e| damaged(&e))?;
            }
            Codec::Snappy => {
                let at = block.len().checked_sub(CRC_BYTES).ok_or_else(|| damaged(&"there is no checksum"))?;
                let (block, crc) = block.split_at(at);
                let length = snap::raw::decompress_len(block).map_err(|e| damaged(&e))?;
                if length > MAX_RECORD_BYTES || length > block.len().saturating_mul(SNAPPY_RATIO) {
                    return Err(damaged(&"their length is impossible"));
                }
                let start = out.len();
                out.resize(start + length, 0);
                snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(|e| damaged(&e))?;
                if checksum(&out[start..]) != crc {
                    return Err(damaged(&"the checksum is another"));
                }
            }
        }
        Ok(())
    }

    /// Appends the compressed form of a block.
    pub(super) fn compress(self, block: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Codec::Null => out.extend_from_slice(block),
            Codec::Deflate => {
                DeflateEncoder::new(block, flate2::Compression::default()).read_to_end(out)?;
            }
            Codec::Zstandard => zstd::stream::copy_encode(block, out, 3)?,
            Codec::Snappy => {
                out.extend(snap::raw::Encoder::new().compress_vec(block)?);
                out.extend(checksum(block));
            }
        }
        Ok(())
    }
}

fn checksum(bytes: &[u8]) -> [u8; CRC_BYTES] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_be_bytes()
}

/// Appends all that a decompressor gives, unless that is more than `most` bytes.
pub(super) fn bounded(decoder: impl Read, most: usize, out: &mut Vec<u8>) -> io::Result<()> {
    if decoder.take(most as u64 + 1).read_to_end(out)? > most {
        return Err(io::Error::other(format!("a block becomes longer than {} MiB", most >> 20)));
    }
    Ok(())
}
