//! Metadata columns of files: `file.path`, `file.name`, `file.size`, `file.modification-time`.

use crate::text_chunk::FileInfo;
use crate::{ColumnRequest, Decoded, RequestOrigin, fit};
use arrow_array::{ArrayRef, Int64Array, StringViewArray, TimestampMillisecondArray};
use millstream_types::{DataType, Diagnostic, code};
use std::sync::Arc;

/// The keys, for messages and documentation.
pub(super) const KEYS: &[&str] = &["file.path", "file.name", "file.size", "file.modification-time"];

/// Fails if a requested metadata column does not exist or has a type that it cannot be cast to.
pub(crate) fn check(columns: &[ColumnRequest]) -> Result<(), Diagnostic> {
    for column in columns {
        let RequestOrigin::Metadata(key) = &column.origin else { continue };
        if !KEYS.contains(&key.as_str()) {
            return Err(Diagnostic::new(
                code::INVALID_TABLE,
                format!("the filesystem connector has no metadata '{key}'"),
            )
            .advise(format!("known metadata: {}", KEYS.join(", "))));
        }
        value(key, &FileInfo::default(), &column.data_type, 0)?;
    }
    Ok(())
}

/// Puts metadata columns between the decoded ones, in the order of the request.
pub(crate) fn insert(columns: &[ColumnRequest], file: &FileInfo, mut decoded: Decoded) -> Decoded {
    if !columns.iter().any(|column| matches!(column.origin, RequestOrigin::Metadata(_))) {
        return decoded;
    }
    let mut from_records = std::mem::take(&mut decoded.columns).into_iter();
    for column in columns {
        let array = match &column.origin {
            RequestOrigin::Path(_) | RequestOrigin::Record(_) => from_records.next(),
            RequestOrigin::Metadata(key) => value(key, file, &column.data_type, decoded.rows).ok(),
        };
        match array {
            Some(array) => decoded.columns.push(array),
            // The decoder failed before it made columns; its error says why.
            None => return Decoded { columns: Vec::new(), rows: 0, ..decoded },
        }
    }
    decoded
}

fn value(key: &str, file: &FileInfo, data_type: &DataType, rows: usize) -> Result<ArrayRef, Diagnostic> {
    let repeated =
        |text: &str| Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows))) as ArrayRef;
    let natural: ArrayRef = match key {
        "file.path" => repeated(&file.path),
        "file.name" => repeated(&file.name),
        "file.size" => Arc::new(Int64Array::from_value(file.size as i64, rows)),
        _ => Arc::new(TimestampMillisecondArray::from_value(file.modified_ms, rows)),
    };
    fit::metadata(&natural, data_type).map_err(|_| {
        Diagnostic::new(code::TYPE_MISMATCH, format!("the metadata '{key}' cannot be read as {data_type}")).advise(
            "file.path and file.name are STRING, file.size is BIGINT, file.modification-time is TIMESTAMP_LTZ(3)",
        )
    })
}
