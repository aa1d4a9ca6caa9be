//! Rows → messages, as columns of their parts: key, value, time and headers.

use super::fields::{MessagePart, MessageParts};
use super::metadata::Headers;
use crate::messages::MessageEncoder;
use crate::{Encoded, Encoder, SinkRequest, casts};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, MapArray, TimestampMillisecondArray, new_null_array};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millstream_types::{DataType, Diagnostic, Schema, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Encodes the rows of a table.
pub(super) struct RecordEncoder {
    value: PartEncoder,
    key: Option<PartEncoder>,
    /// Positions of the columns that are metadata.
    timestamp: Option<usize>,
    headers: Option<usize>,
}

/// An encoder, and the positions of its columns.
type PartEncoder = (Box<dyn MessageEncoder>, Vec<usize>);

impl RecordEncoder {
    /// The encoder of a table.
    pub(super) fn open(request: &SinkRequest) -> Result<RecordEncoder, Diagnostic> {
        let metadata: BTreeMap<usize, &str> = request.metadata.iter().map(|(at, key)| (*at, key.as_str())).collect();
        let fields = &request.schema.fields;
        let (mut timestamp, mut headers) = (None, None);
        for (at, key) in &metadata {
            let data_type = &fields[*at].data_type;
            match (*key, data_type) {
                ("timestamp", DataType::TimestampLtz(_) | DataType::Timestamp(_)) => timestamp = Some(*at),
                ("headers", DataType::Map(name, value)) if name.is_string() && value.is_binary() => headers = Some(*at),
                _ => {
                    let message = format!("the metadata '{key}' cannot be written as {data_type}");
                    return Err(Diagnostic::new(code::INVALID_TABLE, message).advise(
                        "timestamp TIMESTAMP_LTZ(3) and headers MAP<STRING, BYTES> can be written; let others be VIRTUAL",
                    ));
                }
            }
        }
        let physical: Vec<usize> = (0..fields.len()).filter(|at| !metadata.contains_key(at)).collect();
        let schema = Schema::new(physical.iter().map(|at| fields[*at].clone()).collect());
        let parts = MessageParts::of(&request.options, &schema)?;
        let encoder = |part: &MessagePart| -> Result<PartEncoder, Diagnostic> {
            let (options, schema, table) = (part.options.clone(), part.schema.clone(), request.table.clone());
            let encoder = (part.format.encoder)(&SinkRequest {
                table,
                options,
                schema,
                metadata: vec![],
                primary_key: vec![],
                changes: None,
            })?;
            Ok((encoder, part.columns.iter().map(|at| physical[*at]).collect()))
        };
        let (value, key) = (encoder(&parts.value)?, parts.key.as_ref().map(encoder).transpose()?);
        Ok(RecordEncoder { value, key, timestamp, headers })
    }
}

impl Encoder for RecordEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let encode = |(encoder, positions): &PartEncoder| {
            let own: Vec<ArrayRef> = positions.iter().map(|at| columns[*at].clone()).collect();
            encoder.encode(&own, rows)
        };
        let absent = |data_type| new_null_array(&data_type, rows);
        let values = Arc::new(encode(&self.value)?.0);
        let keys = match &self.key {
            Some(key) => Arc::new(encode(key)?.0),
            None => absent(ArrowType::LargeBinary),
        };
        let times = match self.timestamp {
            Some(at) => milliseconds(&columns[at])?,
            None => absent(ArrowType::Timestamp(TimeUnit::Millisecond, None)),
        };
        let headers = self.headers.map_or_else(|| absent(ArrowType::Null), |at| columns[at].clone());
        Ok(Encoded::Columns { columns: vec![keys, values, times, headers], rows })
    }
}

/// A column of timestamps in milliseconds.
fn milliseconds(column: &ArrayRef) -> Result<ArrayRef, Diagnostic> {
    let zone = if let ArrowType::Timestamp(_, zone) = column.data_type() { zone.clone() } else { None };
    casts::cast(column, &ArrowType::Timestamp(TimeUnit::Millisecond, zone), true)
        .map_err(|e| Diagnostic::bug(format!("timestamps have no milliseconds: {e}")))
}

/// A message to be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// Milliseconds since the epoch; `None`: now.
    pub timestamp: Option<i64>,
    pub headers: Headers,
}

/// The records of a piece.
pub(super) fn records(piece: &Encoded) -> Result<impl Iterator<Item = Record<'_>>, Diagnostic> {
    let no_messages = || Diagnostic::bug("a topic got other columns than those of messages");
    let Encoded::Columns { columns, rows } = piece else { return Err(no_messages()) };
    let [keys, values, times, headers] = &columns[..] else { return Err(no_messages()) };
    let (keys, values): (&LargeBinaryArray, &LargeBinaryArray) = (keys.as_binary(), values.as_binary());
    let times: &TimestampMillisecondArray = times.as_primitive();
    let headers = headers.as_map_opt();
    Ok((0..*rows).map(move |row| Record {
        key: keys.is_valid(row).then(|| keys.value(row)),
        value: values.is_valid(row).then(|| values.value(row)),
        timestamp: times.is_valid(row).then(|| times.value(row)),
        headers: headers.map_or_else(Headers::new, |headers| headers_of(headers, row)),
    }))
}

fn headers_of(headers: &MapArray, row: usize) -> Headers {
    if headers.is_null(row) {
        return Headers::new();
    }
    let (names, values) = (headers.keys().as_string_view(), headers.values().as_binary_view());
    let entries = headers.value_offsets()[row] as usize..headers.value_offsets()[row + 1] as usize;
    let value = |entry| values.is_valid(entry).then(|| values.value(entry).to_vec());
    entries.map(|entry| (names.value(entry).to_string(), value(entry))).collect()
}
