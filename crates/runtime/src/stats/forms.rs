//! Forms of values in serialised statistics: times in seconds, and pairs that are two fields.

use serde::de::Error;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt::Display;
use std::time::Duration;

pub(crate) fn seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(time.as_secs_f64())
}

/// What another node has written: no number of seconds that is no time.
pub(super) fn from_seconds<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
}

/// The same of what may be null.
pub(super) fn from_optional_seconds<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Duration>, D::Error> {
    let seconds: Option<f64> = Option::deserialize(from)?;
    seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
}

/// Null where there is none.
pub(super) fn optional_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.serialize_some(&time.as_secs_f64()),
        None => to.serialize_none(),
    }
}

pub(super) fn seconds_of_nanos<S: Serializer>(nanos: &u64, to: S) -> Result<S::Ok, S::Error> {
    seconds(&Duration::from_nanos(*nanos), to)
}

pub(super) fn text<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// `least` and `greatest`.
pub(super) fn range<S: Serializer>(range: &Option<(i64, i64)>, to: S) -> Result<S::Ok, S::Error> {
    pair(range, ["least", "greatest"], to)
}

/// `nanos_per_row_before` and `nanos_per_row_after`.
pub(crate) fn gain<S: Serializer>(gain: &Option<(f64, f64)>, to: S) -> Result<S::Ok, S::Error> {
    pair(gain, ["nanos_per_row_before", "nanos_per_row_after"], to)
}

fn pair<T: serde::Serialize + Copy, S: Serializer>(
    of: &Option<(T, T)>,
    names: [&str; 2],
    to: S,
) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry(names[0], &of.map(|pair| pair.0))?;
    map.serialize_entry(names[1], &of.map(|pair| pair.1))?;
    map.end()
}
