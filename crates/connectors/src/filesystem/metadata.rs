//! Metadata columns of files: `file.path`, `file.name`, `file.size`, `file.modification-time`.

use crate::text_chunk::FileInfo;
use crate::values::ColumnBuilder;
use crate::{ColumnRequest, Decoded, RequestOrigin, SourceRequest, fit};
use arrow_array::{ArrayRef, Int64Array, StringViewArray, TimestampMillisecondArray, UInt32Array, new_null_array};
use arrow_buffer::Buffer;
use millstream_types::text::TimestampStyle;
use millstream_types::{CHANGE_COLUMN, DataType, Diagnostic, code};
use std::sync::Arc;

/// The keys, for messages and documentation.
pub(super) const KEYS: &[&str] = &["file.path", "file.name", "file.size", "file.modification-time"];
/// What a key of a value in the name of a directory begins with; the name follows.
const PARTITION: &str = "file.partition.";

/// Fails if a requested metadata column does not exist or has a type that it cannot be cast to; `gives_changes` says that records say what
/// becomes of their rows.
pub(crate) fn check(request: &SourceRequest, gives_changes: bool) -> Result<(), Diagnostic> {
    for column in &request.columns {
        let RequestOrigin::Metadata(key) = &column.origin else { continue };
        if gives_changes && request.says_changes(column) {
            continue;
        }
        if key.starts_with(PARTITION) {
            partition("", &column.data_type, 0)?;
            continue;
        }
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
            // What a row does is said by its record.
            RequestOrigin::Metadata(key) if key == CHANGE_COLUMN => from_records.next(),
            RequestOrigin::Metadata(key) => match value(key, file, &column.data_type, decoded.rows) {
                Ok(array) => Some(array),
                Err(error) => return Decoded { skipped: decoded.skipped, ..Decoded::failed(error) },
            },
        };
        match array {
            Some(array) => decoded.columns.push(array),
            // The decoder failed before it made columns; its error says why.
            None => return Decoded { columns: Vec::new(), rows: 0, ..decoded },
        }
    }
    decoded
}

/// The value in the name of a directory, as often as there are rows.
fn partition(text: &str, data_type: &DataType, rows: usize) -> Result<ArrayRef, Diagnostic> {
    let mut builder = ColumnBuilder::new(data_type, 1)?;
    if rows == 0 {
        return builder.finish(&Buffer::from_vec(Vec::<u8>::new()));
    }
    builder.push_text(text, TimestampStyle::Sql).ok_or_else(|| {
        Diagnostic::new(code::WRONG_TYPE, format!("the partition '{text}' cannot be read as {data_type}"))
            .advise("declare the column of the partition as STRING")
    })?;
    let one = builder.finish(&Buffer::from_vec(Vec::<u8>::new()))?;
    arrow_select::take::take(&one, &UInt32Array::from_value(0, rows), None)
        .map_err(|e| Diagnostic::bug(format!("a value that was read is not there: {e}")))
}

fn value(key: &str, file: &FileInfo, data_type: &DataType, rows: usize) -> Result<ArrayRef, Diagnostic> {
    if let Some(name) = key.strip_prefix(PARTITION) {
        return match super::partition::value(&file.path, name) {
            Some(Some(text)) => partition(&text, data_type, rows),
            Some(None) => Ok(new_null_array(&data_type.to_arrow(), rows)),
            None => Err(Diagnostic::new(
                code::MALFORMED_FILE,
                format!("'{}' lies in no directory `{name}=…`, which the table is partitioned by", file.path),
            )
            .advise("move the file, or leave the column out")),
        };
    }
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
