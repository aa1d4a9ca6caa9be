//! The columns of a sink → a container file.

use super::super::encode::AvroEncoder;
use super::super::{CODEC, ENCODING, LEGACY_TIMESTAMPS};
use super::codec::{CODECS, Codec};
use super::{MAGIC, MARKER_BYTES};
use crate::avro::encode::{bytes, long};
use crate::format::StreamOutput;
use crate::messages::MessageEncoder;
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::{Diagnostic, code};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes at which a block ends, before compression: small enough for readers that take a file apart at its markers.
const BLOCK_BYTES: usize = 256 << 10;

/// How files are written. Their marker follows from the header, so that a job that is resumed continues a file with the same.
pub(in crate::avro) fn output(request: &SinkRequest) -> Result<StreamOutput, Diagnostic> {
    let options = &request.options;
    ENCODING.only(options)?;
    let (records, schema) = AvroEncoder::new(&request.schema, LEGACY_TIMESTAMPS.boolean(options)?)?;
    let codec = CODEC.choice(options, CODECS)?;
    let mut header = MAGIC.to_vec();
    long(2, &mut header);
    for (key, value) in [("avro.schema", &*schema.to_string()), ("avro.codec", codec.name())] {
        bytes(key.as_bytes(), &mut header);
        bytes(value.as_bytes(), &mut header);
    }
    long(0, &mut header);
    let marker = xxh3_128(&header).to_be_bytes();
    header.extend(marker);
    Ok(StreamOutput { encoder: Arc::new(AvroFileEncoder { records, codec, marker }), header, trailer: b"" })
}

/// Makes blocks of each piece.
struct AvroFileEncoder {
    records: AvroEncoder,
    codec: Codec,
    marker: [u8; MARKER_BYTES],
}

impl AvroFileEncoder {
    fn block(&self, count: usize, records: &[u8], out: &mut Vec<u8>) -> Result<(), Diagnostic> {
        let failed = |e| Diagnostic::new(code::WRITE_FAILED, format!("rows cannot be compressed: {e}"));
        let mut compressed = Vec::new();
        self.codec.compress(records, &mut compressed).map_err(failed)?;
        long(count as i64, out);
        bytes(&compressed, out);
        out.extend(self.marker);
        Ok(())
    }
}

impl Encoder for AvroFileEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let records = self.records.encode(columns, rows)?;
        let mut data = Vec::with_capacity(records.bytes_of_all() / 2);
        let (mut first, mut start) = (0, 0);
        for number in 0..rows {
            let end = records.range(number).map_or(start, |range| range.end);
            if end - start >= BLOCK_BYTES || number + 1 == rows {
                self.block(number + 1 - first, &records.data()[start..end], &mut data)?;
                (first, start) = (number + 1, end);
            }
        }
        Ok(Encoded::Bytes { data, rows })
    }
}
