//! The `WITH ('key' = 'value', …)` options of a table and the `SET` options of a session.

use crate::{Diagnostic, Place, code, secret};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

/// Options by key, in key order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    entries: BTreeMap<String, String>,
}

/// A value that an option may have.
fn example(key: &str) -> &'static str {
    match key.rsplit_once("value.").map_or(key, |(_, rest)| rest) {
        "format" | "key.format" => "json",
        "path" => "data/bids.jsonl",
        "topic" => "bids",
        "port" => "9000",
        "hostname" => "localhost",
        "properties.bootstrap.servers" => "localhost:9092",
        "properties.group.id" => "my-group",
        "url" => "jdbc:postgresql://localhost:5432/database",
        "table-name" => "public.bids",
        "avro-confluent.url" => "http://localhost:8081",
        _ => "…",
    }
}

impl Options {
    /// No options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Sets `key`, replacing what it had.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.entries.insert(key.into(), value.into());
    }

    /// Removes `key`.
    pub fn remove(&mut self, key: &str) {
        self.entries.remove(key);
    }

    /// The text of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(String::as_str)
    }

    /// The text of `key`, which must be there.
    pub fn require(&self, key: &str) -> Result<&str, Diagnostic> {
        self.get(key).ok_or_else(|| {
            Diagnostic::new(code::MISSING_OPTION, format!("option '{key}' is missing"))
                .at(Place::Option(key.into()))
                .advise(format!("add '{key}' = '{}' to WITH (…)", example(key)))
        })
    }

    /// The value of `key` parsed as `T`, or `default`.
    pub fn parse<T: FromStr>(&self, key: &str, default: T) -> Result<T, Diagnostic> {
        match self.get(key) {
            None => Ok(default),
            Some(text) => text.trim().parse().map_err(|_| self.invalid(key, "a value of the right kind")),
        }
    }

    /// `true` or `false` under `key`, or `default`.
    pub fn boolean(&self, key: &str, default: bool) -> Result<bool, Diagnostic> {
        match self.get(key).map(|v| v.trim().to_ascii_lowercase()) {
            None => Ok(default),
            Some(v) if v == "true" => Ok(true),
            Some(v) if v == "false" => Ok(false),
            Some(_) => Err(self.invalid(key, "true or false")),
        }
    }

    /// A duration in Flink's notation (`10 s`, `500ms`, `1 min`), or `default`.
    pub fn duration(&self, key: &str, default: Duration) -> Result<Duration, Diagnostic> {
        let Some(text) = self.get(key) else { return Ok(default) };
        let text = text.trim();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = text[..digits].parse().map_err(|_| self.invalid(key, "a duration such as '10 s'"))?;
        let nanos: u64 = match text[digits..].trim() {
            "d" | "day" | "days" => 86_400_000_000_000,
            "h" | "hour" | "hours" => 3_600_000_000_000,
            "m" | "min" | "minute" | "minutes" => 60_000_000_000,
            "s" | "sec" | "second" | "seconds" => 1_000_000_000,
            "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "µs" | "us" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            _ => return Err(self.invalid(key, "a duration such as '10 s', '500 ms' or '1 min'")),
        };
        let total = number.checked_mul(nanos).ok_or_else(|| self.invalid(key, "a shorter duration"))?;
        Ok(Duration::from_nanos(total))
    }

    /// A size in Flink's notation (`128MB`, `64 kb`, `1 gb`, bare bytes), in bytes, or `default`.
    pub fn memory_bytes(&self, key: &str, default: u64) -> Result<u64, Diagnostic> {
        let Some(text) = self.get(key) else { return Ok(default) };
        let text = text.trim().to_ascii_lowercase();
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let expected = "a size such as '128 mb'";
        let number: u64 = text[..digits].parse().map_err(|_| self.invalid(key, expected))?;
        let shift = match text[digits..].trim() {
            "" | "b" | "bytes" => 0,
            "k" | "kb" | "kibibytes" => 10,
            "m" | "mb" | "mebibytes" => 20,
            "g" | "gb" | "gibibytes" => 30,
            "t" | "tb" | "tebibytes" => 40,
            _ => return Err(self.invalid(key, expected)),
        };
        number.checked_mul(1 << shift).ok_or_else(|| self.invalid(key, "a smaller size"))
    }

    /// The error for a value of `key` that is not `expected`.
    pub fn invalid(&self, key: &str, expected: &str) -> Diagnostic {
        let value = secret::shown(key, self.get(key).unwrap_or_default());
        Diagnostic::new(
            code::INVALID_OPTION,
            format!("option '{key}' has the value '{value}', which is not {expected}"),
        )
        .at(Place::Option(key.into()))
        .advise(match expected {
            "a whole number" => format!("write '{key}' = '1000'"),
            "true or false" => format!("write '{key}' = 'true' or 'false'"),
            _ => format!("give {expected}"),
        })
    }

    /// All entries, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl FromIterator<(String, String)> for Options {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(entries: I) -> Options {
        Options { entries: entries.into_iter().collect() }
    }
}
