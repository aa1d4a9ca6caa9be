//! Metadata columns: what a broker says of a message.

use super::topics::Partition;
use crate::{ColumnRequest, RequestOrigin, fit};
use arrow_array::builder::{BinaryViewBuilder, MapBuilder, MapFieldNames, StringViewBuilder};
use arrow_array::{ArrayRef, Int32Array, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow_schema::DataType as ArrowType;
use millstream_types::{DataType, Diagnostic, code};
use rdkafka::Timestamp;
use std::sync::Arc;

/// The keys of metadata columns.
const KEYS: &[&str] = &["topic", "partition", "offset", "timestamp", "timestamp-type", "leader-epoch", "headers"];
/// The keys and their types, for messages.
const TYPES: &str = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP_LTZ(3), timestamp-type STRING, \
    leader-epoch INT, headers MAP<STRING, BYTES>";

/// Headers of a message.
pub(super) type Headers = Vec<(String, Option<Vec<u8>>)>;

/// What is known of messages beside key and value.
#[derive(Debug, Clone, Default)]
pub(super) struct Envelopes {
    pub offsets: Vec<i64>,
    /// When each was made or came to its broker, if that is known.
    pub timestamps: Vec<Timestamp>,
    /// Empty unless asked for.
    pub leader_epochs: Vec<i32>,
    /// Empty unless asked for.
    pub headers: Vec<Headers>,
}

impl Envelopes {
    /// Some of them.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> Envelopes {
        fn part<T: Clone>(all: &[T], range: &std::ops::Range<usize>) -> Vec<T> {
            if all.is_empty() { Vec::new() } else { all[range.clone()].to_vec() }
        }
        Envelopes {
            offsets: part(&self.offsets, &range),
            timestamps: part(&self.timestamps, &range),
            leader_epochs: part(&self.leader_epochs, &range),
            headers: part(&self.headers, &range),
        }
    }
}

/// The key of the metadata that a column asks for, if it does.
pub(super) fn requested(column: &ColumnRequest) -> Result<Option<&str>, Diagnostic> {
    let RequestOrigin::Metadata(key) = &column.origin else { return Ok(None) };
    if !KEYS.contains(&key.as_str()) {
        let message = format!("the kafka connector has no metadata '{key}'");
        return Err(Diagnostic::new(code::INVALID_TABLE, message).advise(format!("known metadata: {TYPES}")));
    }
    let none = Partition { topic: "".into(), number: 0 };
    self::column(key, &none, &Envelopes::default(), &[], &column.data_type).map_err(|_| {
        let message = format!("the metadata '{key}' cannot be read as {}", column.data_type);
        Diagnostic::new(code::TYPE_MISMATCH, message).advise(format!("the types are: {TYPES}"))
    })?;
    Ok(Some(key))
}

/// The column of some messages of a partition.
pub(super) fn column(
    key: &str,
    partition: &Partition,
    envelopes: &Envelopes,
    rows: &[u32],
    data_type: &DataType,
) -> Result<ArrayRef, Diagnostic> {
    let count = rows.len();
    let rows = || rows.iter().map(|row| *row as usize);
    let natural: ArrayRef = match key {
        "topic" => Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(&partition.topic, count))),
        "partition" => Arc::new(Int32Array::from_value(partition.number, count)),
        "offset" => Arc::new(Int64Array::from_iter_values(rows().map(|row| envelopes.offsets[row]))),
        "leader-epoch" => {
            let epoch = |row: usize| envelopes.leader_epochs.get(row).copied().filter(|epoch| *epoch >= 0);
            Arc::new(Int32Array::from_iter(rows().map(epoch)))
        }
        "timestamp" => {
            let times = rows().map(|row| envelopes.timestamps[row].to_millis());
            Arc::new(TimestampMillisecondArray::from_iter(times))
        }
        "timestamp-type" => {
            let kind = |row: usize| match envelopes.timestamps[row] {
                Timestamp::NotAvailable => "NoTimestampType",
                Timestamp::CreateTime(_) => "CreateTime",
                Timestamp::LogAppendTime(_) => "LogAppendTime",
            };
            Arc::new(StringViewArray::from_iter_values(rows().map(kind)))
        }
        _ => return headers(rows().map(|row| envelopes.headers.get(row)), data_type),
    };
    fit::metadata(&natural, data_type)
        .map_err(|e| Diagnostic::new(code::TYPE_MISMATCH, format!("metadata cannot be read as {data_type}: {e}")))
}

fn headers<'a>(rows: impl Iterator<Item = Option<&'a Headers>>, data_type: &DataType) -> Result<ArrayRef, Diagnostic> {
    let mismatch = || Diagnostic::new(code::TYPE_MISMATCH, format!("headers cannot be read as {data_type}"));
    let DataType::Map(key, value) = data_type else { return Err(mismatch()) };
    let ArrowType::Map(entries, _) = data_type.to_arrow() else { return Err(mismatch()) };
    let ArrowType::Struct(fields) = entries.data_type() else { return Err(mismatch()) };
    if !key.is_string() || !value.is_binary() || fields.len() != 2 {
        return Err(mismatch());
    }
    let names =
        MapFieldNames { entry: entries.name().clone(), key: fields[0].name().clone(), value: fields[1].name().clone() };
    let mut builder = MapBuilder::new(Some(names), StringViewBuilder::new(), BinaryViewBuilder::new())
        .with_keys_field(fields[0].clone())
        .with_values_field(fields[1].clone());
    for headers in rows {
        for (name, value) in headers.into_iter().flatten() {
            builder.keys().append_value(name);
            builder.values().append_option(value.as_deref());
        }
        builder.append(true).map_err(|e| Diagnostic::bug(format!("headers make no map: {e}")))?;
    }
    Ok(Arc::new(builder.finish()))
}
