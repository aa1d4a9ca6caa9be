//! Timestamps in data formats: how a table says that they are written, and what to declare for one that cannot be read.

use crate::option_table::choice;
use millstream_types::text::{EpochUnit, TimestampStyle, parse_timestamp, parse_timestamp_ltz};
use millstream_types::{DataType, Diagnostic, Options};

/// The values of `<format>.timestamp-format.standard`.
const STYLES: &[(&str, TimestampStyle)] = &[
    ("SQL", TimestampStyle::Sql),
    ("ISO-8601", TimestampStyle::Iso),
    ("epoch-seconds", TimestampStyle::Epoch(EpochUnit::Second)),
    ("epoch-millis", TimestampStyle::Epoch(EpochUnit::Milli)),
    ("epoch-micros", TimestampStyle::Epoch(EpochUnit::Micro)),
    ("epoch-nanos", TimestampStyle::Epoch(EpochUnit::Nano)),
];

/// `<format>.timestamp-format.standard`
pub(crate) fn timestamp_style(options: &Options, format: &str) -> Result<TimestampStyle, Diagnostic> {
    choice(options, &style_key(format), STYLES)
}

fn style_key(format: &str) -> String {
    format!("{format}.timestamp-format.standard")
}

/// How the option names a unit.
pub(crate) fn epoch_name(unit: EpochUnit) -> &'static str {
    STYLES.iter().find(|(_, style)| *style == TimestampStyle::Epoch(unit)).map_or("", |(name, _)| name)
}

/// The precision of a TIMESTAMP_LTZ that has the moments of a unit.
pub(crate) fn digits(unit: EpochUnit) -> u8 {
    match unit {
        EpochUnit::Second | EpochUnit::Milli => 3,
        EpochUnit::Micro => 6,
        EpochUnit::Nano => 9,
    }
}

/// TIMESTAMP or TIMESTAMP_LTZ of any precision.
pub(crate) fn is_timestamp(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_) | DataType::TimestampLtz(_))
}

/// What to write in CREATE TABLE for a text that is no timestamp of the column's type; `None` if the text is none of a kind that is known.
pub(crate) fn remedy(text: &str, data_type: &DataType, column: &str, format: &str) -> Option<String> {
    let (precision, is_instant) = match data_type {
        DataType::Timestamp(precision) => (*precision, false),
        DataType::TimestampLtz(precision) => (*precision, true),
        _ => return None,
    };
    if is_instant && parse_timestamp(text, precision).is_some() {
        return Some(format!("the time has no zone: declare the column as `{column} TIMESTAMP({precision})`"));
    }
    if !is_instant && parse_timestamp_ltz(text, precision).is_some() {
        return Some(format!("the time has a zone: declare the column as `{column} TIMESTAMP_LTZ({precision})`"));
    }
    let whole = text.split('.').next().unwrap_or_default();
    if let (Ok(_), Ok(number)) = (text.parse::<f64>(), whole.parse::<i64>()) {
        let name = epoch_name(EpochUnit::likely(number));
        return Some(format!("write '{}' = '{name}' in the WITH of the table", style_key(format)));
    }
    let (pattern, function) = pattern(text)?;
    let name = column.rsplit('.').next().unwrap_or(column);
    Some(format!(
        "declare the column as `{name} STRING`, and add the column `{name}_time AS {function}({name}, '{pattern}')`"
    ))
}

/// The pattern that reads a text like one of those that servers and spreadsheets write, and the function that takes it.
fn pattern(text: &str) -> Option<(&'static str, &'static str)> {
    // 9 stands for a digit, a for a letter.
    let shape: String = text
        .chars()
        .map(|c| match c {
            '0'..='9' => '9',
            c if c.is_ascii_alphabetic() => 'a',
            c => c,
        })
        .collect();
    const LOCAL: &str = "TO_TIMESTAMP";
    const INSTANT: &str = "TO_TIMESTAMP_LTZ";
    Some(match shape.as_str() {
        "99/aaa/9999:99:99:99 +9999" | "99/aaa/9999:99:99:99 -9999" => ("dd/MMM/yyyy:HH:mm:ss X", INSTANT),
        "aaa, 99 aaa 9999 99:99:99 +9999" | "aaa, 99 aaa 9999 99:99:99 -9999" => {
            ("EEE, dd MMM yyyy HH:mm:ss X", INSTANT)
        }
        "9999/99/99 99:99:99" => ("yyyy/MM/dd HH:mm:ss", LOCAL),
        "99.99.9999 99:99:99" => ("dd.MM.yyyy HH:mm:ss", LOCAL),
        "99.99.9999 99:99" => ("dd.MM.yyyy HH:mm", LOCAL),
        // Americans put the month first: only a day past the twelfth tells.
        "99/99/9999 99:99:99" if text[..2] > *"12" => ("dd/MM/yyyy HH:mm:ss", LOCAL),
        "99/99/9999 99:99:99" => ("MM/dd/yyyy HH:mm:ss", LOCAL),
        "99/99/9999 99:99" if text[..2] > *"12" => ("dd/MM/yyyy HH:mm", LOCAL),
        "99/99/9999 99:99" => ("MM/dd/yyyy HH:mm", LOCAL),
        "99/99/9999" if text[..2] > *"12" => ("dd/MM/yyyy", LOCAL),
        "99/99/9999" => ("MM/dd/yyyy", LOCAL),
        "99.99.9999" => ("dd.MM.yyyy", LOCAL),
        "9999/99/99" => ("yyyy/MM/dd", LOCAL),
        "99999999 999999" => ("yyyyMMdd HHmmss", LOCAL),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_the_line_to_write() {
        let local = |text| remedy(text, &DataType::Timestamp(3), "ts", "json").unwrap_or_default();
        let instant = |text| remedy(text, &DataType::TimestampLtz(3), "ts", "csv").unwrap_or_default();
        assert!(local("2026-01-01T12:00:00Z").contains("`ts TIMESTAMP_LTZ(3)`"));
        assert!(instant("2026-01-01 12:00:00").contains("`ts TIMESTAMP(3)`"));
        assert!(local("1700000000").contains("'json.timestamp-format.standard' = 'epoch-seconds'"));
        assert!(instant("1700000000000").contains("'csv.timestamp-format.standard' = 'epoch-millis'"));
        assert!(local("14/Nov/2023:23:59:21 +0000").contains("TO_TIMESTAMP_LTZ(ts, 'dd/MMM/yyyy:HH:mm:ss X')"));
        assert!(local("31/01/2023 10:00:00").contains("dd/MM/yyyy"));
        assert_eq!(local("tomorrow"), "");
        assert_eq!(remedy("x", &DataType::BigInt, "ts", "json"), None);
    }
}
