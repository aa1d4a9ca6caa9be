//! Times and amounts for people.

use millstream::{DataType, text};
use std::time::Duration;

/// A time with two digits or three and a unit: 12.3 ms.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 7200.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A number with three digits and a unit: 12.3 M.
pub(crate) fn amount(x: f64) -> String {
    match x {
        x if x >= 1e9 => format!("{:.2} G", x / 1e9),
        x if x >= 1e6 => format!("{:.2} M", x / 1e6),
        x if x >= 1e4 => format!("{:.1} k", x / 1e3),
        x => format!("{x:.0} "),
    }
    .trim_end()
    .to_string()
}

/// A number with its thousands apart: 1,200,000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

pub(crate) fn timestamp(ms: i64) -> String {
    let mut out = Vec::new();
    text::write_timestamp(&mut out, ms, DataType::Timestamp(3).time_unit(), 0);
    String::from_utf8_lossy(&out).into_owned()
}
