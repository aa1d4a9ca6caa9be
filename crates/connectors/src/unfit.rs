//! What to declare for a value of a file or a message that is not of its column's type, and for a file that is not of its format.

use std::io::Read;

/// What to write in CREATE TABLE or in the query for `text`, as it stands in the data, which is no `wanted`, a type. Without advice that
/// loses rows.
pub(crate) fn remedy(text: &str, wanted: &str, column: &str) -> String {
    let name = column.rsplit('.').next().unwrap_or(column);
    let kind = wanted.split(['(', '<', ' ']).next().unwrap_or_default();
    let as_text = || format!("declare the column as `{name} STRING`");
    if text.starts_with('{') {
        return format!(
            "declare the column as `{name} ROW<{}>`, with the fields that are needed, or as `{name} STRING` for the object as text",
            fields(text)
        );
    }
    if text.starts_with('[') {
        return format!("declare the column as `{name} ARRAY<STRING>`, or as `{name} STRING` for the list as text");
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match kind {
        "TINYINT" | "SMALLINT" | "INT" if is_whole && text.parse::<i64>().is_ok() => {
            return format!("the number is too large: declare the column as `{name} BIGINT`");
        }
        "TINYINT" | "SMALLINT" | "INT" | "BIGINT" if is_whole => {
            return format!("the number is too large: declare the column as `{name} DECIMAL(38, 0)`");
        }
        "TINYINT" | "SMALLINT" | "INT" | "BIGINT" if text.parse::<f64>().is_ok() => {
            return format!("the number has a fraction: declare the column as `{name} DOUBLE`");
        }
        "DECIMAL" | "DOUBLE" | "FLOAT" if text.replacen(',', ".", 1).parse::<f64>().is_ok() && text.contains(',') => {
            return format!(
                "{}, and add the column `{name}_number AS CAST(REPLACE({name}, ',', '.') AS {wanted})`",
                as_text()
            );
        }
        "TIMESTAMP" | "TIMESTAMP_LTZ" | "DATE" | "TIME" => {
            let function = match kind {
                "TIMESTAMP_LTZ" => "TO_TIMESTAMP_LTZ",
                "DATE" => "TO_DATE",
                _ => "TO_TIMESTAMP",
            };
            return format!(
                "{}, and add the column `{name}_time AS {function}({name}, 'dd/MM/yyyy HH:mm')`, with the pattern that the texts have",
                as_text()
            );
        }
        "BOOLEAN" => {
            return format!("{}, and add the column `{name}_flag AS {name} IN ('1', 'yes', 'Y')`", as_text());
        }
        _ => {}
    }
    format!("{}, and convert it in the query: TRY_CAST({name} AS {wanted}) gives NULL for what does not fit", as_text())
}

/// The fields of a JSON object as those of a ROW: the first few, as text.
fn fields(object: &str) -> String {
    let names = object.split('"').skip(1).step_by(2);
    let followed = |name: &&str| object.contains(&format!("\"{name}\":"));
    let fields: Vec<String> = names.filter(followed).take(3).map(|name| format!("`{name}` STRING")).collect();
    if fields.is_empty() { "a STRING".into() } else { fields.join(", ") }
}

/// The same for a column of a file that has types itself, which has the type `found`.
pub(crate) fn typed_remedy(found: &str, wanted: &str, column: &str) -> String {
    let name = column.rsplit('.').next().unwrap_or(column);
    let declared = format!("declare the column as the file has it, `{name} {found}`");
    match (found, wanted.split('(').next().unwrap_or_default()) {
        ("BIGINT" | "INT", "TIMESTAMP" | "TIMESTAMP_LTZ") => {
            format!(
                "{declared}, and add the column `{name}_time AS TO_TIMESTAMP_LTZ({name}, 3)` for milliseconds, or (…, 0) for seconds"
            )
        }
        ("STRING", _) => format!("{declared}, and convert it in the query: TRY_CAST({name} AS {wanted})"),
        _ => format!("{declared}, and convert it in the query: CAST({name} AS {wanted})"),
    }
}

/// What to do about a record without a value for a column that is NOT NULL.
pub(crate) fn null_remedy(column: &str) -> String {
    let name = column.rsplit('.').next().unwrap_or(column);
    format!(
        "declare `{name}` without NOT NULL, and leave such rows out with WHERE {name} IS NOT NULL if need be; or correct the record"
    )
}

/// What bytes are compressed with, and how names of such files end.
pub(crate) fn compression(start: &[u8]) -> Option<(&'static str, &'static str)> {
    match start {
        [0x1f, 0x8b, ..] => Some(("gzip", "gz")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", "zst")),
        _ => None,
    }
}

/// What a file looks like that is not of the format it should be of, and what to do.
pub(crate) fn sniffed(path: &str) -> Option<String> {
    // A pipe would wait for somebody who writes.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut start = [0; 64];
    let length = std::fs::File::open(path).ok()?.read(&mut start).ok()?;
    let start = &start[..length];
    if let Some((format, extension)) = compression(start) {
        return Some(format!("it is compressed with {format}: give it a name that ends in .{extension}"));
    }
    let looks = |what: &str, format: &str| {
        format!("it looks like {what}: give it a name that ends in .{format}, or a table with 'format' = '{format}'")
    };
    let text = start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || *byte >= 0x80);
    Some(match start {
        [] => "it is empty: write it again".into(),
        [b'P', b'A', b'R', b'1', ..] => {
            "it begins as Parquet does, and its end is missing or damaged: copy or write it again, and read it when it is complete".into()
        }
        [b'O', b'b', b'j', 1, ..] => looks("Avro", "avro"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => looks("Arrow", "arrow"),
        [b'{' | b'[', ..] => looks("JSON", "json"),
        _ if text && (start.contains(&b',') || start.contains(&b';')) => looks("CSV", "csv"),
        _ if text => "it is a text file, and neither JSON nor CSV".into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_keeps_every_row() {
        for (text, wanted, expected) in [
            ("3000000000", "INT", "`id BIGINT`"),
            ("99999999999999999999", "BIGINT", "`id DECIMAL(38, 0)`"),
            ("1.5e0", "INT", "`id DOUBLE`"),
            ("2,50", "DECIMAL(10, 2)", "`id_number AS CAST(REPLACE(id, ',', '.') AS DECIMAL(10, 2))`"),
            ("\"two\"", "INT", "TRY_CAST(id AS INT)"),
            ("{\"first\":\"Ada\"}", "INT", "`id ROW<`first` STRING>`"),
            ("[1]", "INT", "`id ARRAY<STRING>`"),
            ("soon", "TIMESTAMP(3)", "`id_time AS TO_TIMESTAMP(id, "),
        ] {
            let remedy = remedy(text, wanted, "r.id");
            assert!(remedy.contains(expected) && !remedy.contains("ignore"), "{text}: {remedy}");
        }
        assert!(typed_remedy("BIGINT", "TIMESTAMP(3)", "ts").contains("`ts_time AS TO_TIMESTAMP_LTZ(ts, 3)`"));
    }
}
