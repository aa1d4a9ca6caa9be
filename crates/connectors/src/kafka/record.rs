//! Rows → keys and values, in one piece of bytes: before each record its lengths.

use super::fields::{Part, Parts};
use crate::messages::{MessageEncoder, Messages};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::ArrayRef;
use millstream_types::Diagnostic;

/// The length of what is not there.
const ABSENT: u32 = u32::MAX;

/// Encodes the rows of a table.
pub(super) struct RecordEncoder {
    value: (Box<dyn MessageEncoder>, Vec<usize>),
    key: Option<(Box<dyn MessageEncoder>, Vec<usize>)>,
}

impl RecordEncoder {
    /// The encoder of a table.
    pub(super) fn open(request: &SinkRequest) -> Result<RecordEncoder, Diagnostic> {
        let parts = Parts::of(&request.options, &request.schema)?;
        let encoder = |part: &Part| -> Result<_, Diagnostic> {
            let (options, schema) = (part.options.clone(), part.schema.clone());
            let encoder = (part.format.encoder)(&SinkRequest { options, schema, ..request.clone() })?;
            Ok((encoder, part.columns.clone()))
        };
        Ok(RecordEncoder { value: encoder(&parts.value)?, key: parts.key.as_ref().map(encoder).transpose()? })
    }
}

impl Encoder for RecordEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let encode = |(encoder, positions): &(Box<dyn MessageEncoder>, Vec<usize>)| {
            let own: Vec<ArrayRef> = positions.iter().map(|at| columns[*at].clone()).collect();
            encoder.encode(&own, rows)
        };
        let values = encode(&self.value)?;
        let keys = self.key.as_ref().map(encode).transpose()?;
        let bytes = values.bytes_of_all() + keys.as_ref().map_or(0, Messages::bytes_of_all);
        let mut data = Vec::with_capacity(bytes + 8 * rows);
        for row in 0..rows {
            let parts = [keys.as_ref().and_then(|keys| keys.bytes(row)), values.bytes(row)];
            for part in parts {
                let length = part.map_or(Ok(ABSENT), |part| u32::try_from(part.len()));
                let length = length.map_err(|_| Diagnostic::bug("a message is larger than 4 GiB"))?;
                data.extend(length.to_le_bytes());
            }
            parts.into_iter().flatten().for_each(|part| data.extend_from_slice(part));
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

/// A record: its key and its value.
pub(super) type Record<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// The records of a piece.
pub(super) fn records(mut data: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (key, rest) = data.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_first_chunk::<4>()?;
        data = rest;
        let mut take = |length: u32| {
            let (part, rest) = data.split_at_checked(length as usize).filter(|_| length != ABSENT)?;
            data = rest;
            Some(part)
        };
        let (key, value) = (take(u32::from_le_bytes(*key)), take(u32::from_le_bytes(*value)));
        Some((key, value))
    })
}
