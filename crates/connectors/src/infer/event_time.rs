//! Which column says when a row happened.

use millstream_types::{DataType, Field, InferredTime};
use std::time::Duration;

/// What such columns are called, the likeliest first.
const NAMES: &[&str] = &[
    "event_time",
    "eventtime",
    "event_timestamp",
    "event_ts",
    "ts",
    "timestamp",
    "@timestamp",
    "time",
    "datetime",
    "date_time",
    "created_at",
    "occurred_at",
];

/// The event time among columns; `delay` says of each how late its values are, if none was missing.
pub(crate) fn event_time(columns: &[Field], delay: impl Fn(usize) -> Option<Duration>) -> Option<InferredTime> {
    let rank = |field: &Field| {
        let name = field.name.to_ascii_lowercase();
        NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len())
    };
    let candidates = columns.iter().enumerate().filter_map(|(i, field)| {
        let is_time = matches!(field.data_type, DataType::Timestamp(_) | DataType::TimestampLtz(_));
        Some((rank(field), i, delay(i).filter(|_| is_time)?))
    });
    let (_, column, delay) = candidates.min_by_key(|(rank, column, _)| (*rank, *column))?;
    Some(InferredTime { column: columns[column].name.clone(), delay })
}
