//! Rows → messages, in one piece of bytes: before each record its time and the lengths of its parts.
//!
//! ```text
//! time i64 | length of key, value and headers u32 | key | value | headers: (length u32 | name | length u32 | value)…
//! ```

use super::fields::{MessagePart, MessageParts};
use crate::messages::{MessageEncoder, Messages};
use crate::values::{ColumnView, Kind};
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millstream_types::{DataType, Diagnostic, Schema, code};
use std::collections::BTreeMap;

/// The length of what is not there.
const ABSENT: u32 = u32::MAX;
/// The time of a message that has none of its own.
const NO_TIME: i64 = i64::MIN;

/// Encodes the rows of a table.
pub(super) struct RecordEncoder {
    value: PartEncoder,
    key: Option<PartEncoder>,
    /// Positions of the columns that are metadata.
    timestamp: Option<usize>,
    headers: Option<(usize, DataType)>,
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
                ("headers", DataType::Map(name, value)) if name.is_string() && value.is_binary() => {
                    headers = Some((*at, data_type.clone()));
                }
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
            let encoder =
                (part.format.encoder)(&SinkRequest { table, options, schema, metadata: vec![], primary_key: vec![] })?;
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
        let values = encode(&self.value)?;
        let keys = self.key.as_ref().map(encode).transpose()?;
        let times = self.timestamp.map(|at| milliseconds(&columns[at])).transpose()?;
        let headers = self.headers.as_ref().map(|(at, data_type)| ColumnView::new(data_type, &columns[*at]));
        let headers = headers.transpose()?;
        let bytes = values.bytes_of_all() + keys.as_ref().map_or(0, Messages::bytes_of_all);
        let mut data = Vec::with_capacity(bytes + 20 * rows);
        let mut own_headers = Vec::new();
        for row in 0..rows {
            let time = times.as_ref().filter(|times| times.is_valid(row));
            data.extend(
                time.map_or(NO_TIME, |times| times.as_primitive::<TimestampMillisecondType>().value(row)).to_le_bytes(),
            );
            own_headers.clear();
            headers.iter().for_each(|headers| write_headers(headers, row, &mut own_headers));
            let parts = [keys.as_ref().and_then(|keys| keys.bytes(row)), values.bytes(row), Some(&own_headers[..])];
            for part in parts {
                data.extend(length_of(part)?.to_le_bytes());
            }
            parts.into_iter().flatten().for_each(|part| data.extend_from_slice(part));
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

fn length_of(part: Option<&[u8]>) -> Result<u32, Diagnostic> {
    let length = part.map_or(Ok(ABSENT), |part| u32::try_from(part.len()));
    length.map_err(|_| Diagnostic::new(code::OVERFLOW, "a message is larger than 4 GiB"))
}

/// A column of timestamps in milliseconds.
fn milliseconds(column: &ArrayRef) -> Result<ArrayRef, Diagnostic> {
    let zone = if let ArrowType::Timestamp(_, zone) = column.data_type() { zone.clone() } else { None };
    arrow_cast::cast(column, &ArrowType::Timestamp(TimeUnit::Millisecond, zone))
        .map_err(|e| Diagnostic::bug(format!("timestamps have no milliseconds: {e}")))
}

fn write_headers(headers: &ColumnView<'_>, row: usize, out: &mut Vec<u8>) {
    let Kind::Map(map, names, values) = &headers.kind else { return };
    if headers.is_null(row) {
        return;
    }
    let (Kind::String(names), Kind::Bytes(bytes)) = (&names.kind, &values.kind) else { return };
    let offsets = map.value_offsets();
    for entry in offsets[row] as usize..offsets[row + 1] as usize {
        let value = (!values.is_null(entry)).then(|| bytes.value(entry));
        for part in [Some(names.value(entry).as_bytes()), value] {
            // What would not fit is found when the length of the whole is taken.
            out.extend(part.map_or(ABSENT, |part| part.len() as u32).to_le_bytes());
            out.extend_from_slice(part.unwrap_or_default());
        }
    }
}

/// A message to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// Milliseconds since the epoch.
    pub timestamp: Option<i64>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// The records of a piece.
pub(super) fn records(mut data: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (time, rest) = data.split_first_chunk::<8>()?;
        let mut lengths = [0; 3];
        data = rest;
        for length in &mut lengths {
            *length = number(&mut data)?;
        }
        let [key, value, headers] = lengths.map(|length| part(&mut data, length));
        let time = i64::from_le_bytes(*time);
        let timestamp = (time != NO_TIME).then_some(time);
        Some(Record { key, value, timestamp, headers: self::headers(headers.unwrap_or_default()) })
    })
}

fn headers(mut data: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let header = || {
        let length = number(&mut data)?;
        let name = part(&mut data, length)?;
        let length = number(&mut data)?;
        let value = part(&mut data, length).map(<[u8]>::to_vec);
        Some((String::from_utf8_lossy(name).into_owned(), value))
    };
    std::iter::from_fn(header).collect()
}

fn number(data: &mut &[u8]) -> Option<u32> {
    let (number, rest) = data.split_first_chunk::<4>()?;
    *data = rest;
    Some(u32::from_le_bytes(*number))
}

/// The next bytes; `None` if they are absent.
fn part<'a>(data: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    let (part, rest) = data.split_at_checked(length as usize).filter(|_| length != ABSENT)?;
    *data = rest;
    Some(part)
}
