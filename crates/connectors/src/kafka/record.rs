//! Rows → messages, as columns of their parts: key, value, time and headers.
//!
//! The changes of a result become messages in one of two ways. Where the last message of a key counts, a row is a message that replaces
//! that of its key, and a deletion is a message without a value. Otherwise the format of the values says what became of a row.

use super::fields::{MessagePart, MessageParts};
use super::metadata::Headers;
use crate::changes::{Change, paired, parted};
use crate::messages::{ChangeEncoder, MessageEncoder, Messages};
use crate::{Encoded, Encoder, SinkRequest, casts};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeBinaryArray, MapArray, TimestampMillisecondArray, UInt32Array, new_null_array,
};
use arrow_schema::{DataType as ArrowType, TimeUnit};
use millstream_types::{DataType, Diagnostic, RowKind, Schema, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Encodes the rows of a table.
pub(super) struct RecordEncoder {
    value: ValueEncoder,
    /// Whether the last column is the kind of change.
    is_changing: bool,
    key: Option<PartEncoder>,
    /// Positions of the columns that are metadata.
    timestamp: Option<usize>,
    headers: Option<usize>,
}

/// An encoder, and the positions of its columns.
type PartEncoder = (Box<dyn MessageEncoder>, Vec<usize>);

/// How values say what rows do.
enum ValueEncoder {
    /// Rows are only added, or the last message of a key counts.
    Rows(PartEncoder),
    /// By their format.
    Changes(Box<dyn ChangeEncoder>, Vec<usize>),
}

/// Of a piece in which the last message of a key counts: a row as it was is replaced by the message of its key.
fn upserts(kinds: &[RowKind]) -> Vec<Change> {
    let change = |(row, kind): (usize, &RowKind)| match kind {
        RowKind::UpdateBefore => None,
        RowKind::Delete => Some(Change { before: Some(row), after: None }),
        RowKind::Insert | RowKind::UpdateAfter => Some(Change { before: None, after: Some(row) }),
    };
    kinds.iter().enumerate().filter_map(change).collect()
}

impl RecordEncoder {
    /// The encoder of a table; `is_upserted` says that the last message of a key counts.
    pub(super) fn open(request: &SinkRequest, is_upserted: bool) -> Result<RecordEncoder, Diagnostic> {
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
        let positions = |part: &MessagePart| part.columns.iter().map(|at| physical[*at]).collect();
        let of_part = |part: &MessagePart| SinkRequest {
            table: request.table.clone(),
            options: part.options.clone(),
            schema: part.schema.clone(),
            metadata: vec![],
            primary_key: vec![],
            changes: None,
        };
        let encoder = |part: &MessagePart| -> Result<PartEncoder, Diagnostic> {
            Ok(((part.format.encoder)(&of_part(part))?, positions(part)))
        };
        let is_changing = request.changes.is_some();
        let value = match parts.value.format.changes {
            Some(open) if is_changing && !is_upserted => {
                ValueEncoder::Changes(open(&of_part(&parts.value))?, positions(&parts.value))
            }
            _ => ValueEncoder::Rows(encoder(&parts.value)?),
        };
        let key = parts.key.as_ref().map(encoder).transpose()?;
        Ok(RecordEncoder { value, is_changing, key, timestamp, headers })
    }
}

impl Encoder for RecordEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (columns, kinds) = parted(columns, self.is_changing)?;
        // Without changes each row is a message; of changes, some are.
        let changes = kinds.as_deref().map(|kinds| match self.value {
            ValueEncoder::Rows(_) => upserts(kinds),
            ValueEncoder::Changes(..) => paired(kinds),
        });
        let places =
            changes.as_ref().map(|changes| UInt32Array::from_iter_values(changes.iter().map(|c| c.row() as u32)));
        let count = changes.as_ref().map_or(rows, Vec::len);
        let column = |at: usize| match &places {
            Some(places) => arrow_select::take::take(&columns[at], places, None)
                .map_err(|e| Diagnostic::bug(format!("rows of changes are not there: {e}"))),
            None => Ok(columns[at].clone()),
        };
        let encode = |(encoder, positions): &PartEncoder| {
            let own = positions.iter().map(|at| column(*at)).collect::<Result<Vec<_>, _>>()?;
            encoder.encode(&own, count)
        };
        let values = match (&self.value, &changes) {
            (ValueEncoder::Rows(part), None) => encode(part)?,
            (ValueEncoder::Rows(part), Some(changes)) => without_deleted(encode(part)?, changes)?,
            (ValueEncoder::Changes(encoder, positions), changes) => {
                let own: Vec<ArrayRef> = positions.iter().map(|at| columns[*at].clone()).collect();
                encoder.encode(&own, rows, changes.as_deref().unwrap_or_default())?
            }
        };
        let absent = |data_type| new_null_array(&data_type, count);
        let keys = match &self.key {
            Some(key) => Arc::new(encode(key)?.0),
            None => absent(ArrowType::LargeBinary),
        };
        let times = match self.timestamp {
            Some(at) => milliseconds(&column(at)?)?,
            None => absent(ArrowType::Timestamp(TimeUnit::Millisecond, None)),
        };
        let headers = self.headers.map_or_else(|| Ok(absent(ArrowType::Null)), column)?;
        Ok(Encoded::Columns { columns: vec![keys, Arc::new(values.0), times, headers], rows: count })
    }
}

/// Values of which those of deletions are not there.
fn without_deleted(values: Messages, changes: &[Change]) -> Result<Messages, Diagnostic> {
    let deleted: BooleanArray = changes.iter().map(|change| Some(change.after.is_none())).collect();
    let left = arrow_select::nullif::nullif(&values.0, &deleted);
    let left = left.map_err(|e| Diagnostic::bug(format!("values cannot be taken out: {e}")))?;
    Ok(Messages(left.as_binary().clone()))
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
