//! What a table is made of whose definition names no columns: read from the head of its input, or from the schema that comes with it.
//!
//! A connector that can say so has a function `infer`, and so has a format, which is given a [`FormatInput`].

mod event_time;
mod scalars;
#[cfg(test)]
mod tests;

use crate::SplitReader;
use crate::records::Framer;
use crate::text_chunk::{FileInfo, TextChunk};
use millstream_types::{DataType, Diagnostic, Field, Options, Place, code};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use event_time::event_time;
pub(crate) use scalars::{ScalarKind, Scalars};

/// Records that are looked at.
pub(crate) const RECORDS: usize = 10_000;
/// Bytes of text that are looked at.
pub(crate) const BYTES: usize = 8 << 20;
/// Bytes of text that are looked at in one go.
const PIECE: usize = 1 << 20;

/// The error for a table whose columns cannot be found out.
pub(crate) fn not_known(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code::INVALID_TABLE, message).advise("list the columns in parentheses after the name of the table")
}

/// The input of a format that is to say which columns it has.
pub(crate) struct FormatInput<'a> {
    pub options: &'a Options,
    pub files: &'a [InferredFile],
    /// Opens a reader of the file of a number.
    pub open: &'a dyn Fn(usize, Box<dyn Framer>) -> Box<dyn SplitReader>,
}

/// A file that is looked at.
pub(crate) struct InferredFile {
    /// `None` for standard input.
    pub path: Option<PathBuf>,
    pub info: FileInfo,
}

/// A piece of text: whole records.
pub(crate) struct TextPiece {
    pub text: Vec<u8>,
    pub file: Arc<FileInfo>,
    /// Whether its lines are those of the file.
    pub has_lines: bool,
    /// Whether the file ends with it.
    pub is_last: bool,
}

impl FormatInput<'_> {
    /// Calls `each` with pieces of text from the start of the files, until it has seen enough or has been given 8 MB. `framer` tells
    /// the records of a file apart.
    pub(crate) fn each_text(
        &self,
        framer: impl Fn(Arc<FileInfo>) -> Box<dyn Framer>,
        mut each: impl FnMut(TextPiece) -> Result<Enough, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let mut left = BYTES;
        for (number, file) in self.files.iter().enumerate() {
            let info = Arc::new(file.info.clone());
            let mut reader = (self.open)(number, framer(info.clone()));
            reader.aim(PIECE);
            let mut next = text_of(&mut *reader)?;
            while let Some((text, has_lines)) = next {
                next = match text.len() < left {
                    // The start of standard input may end within a record.
                    true if file.path.is_none() => text_of(&mut *reader).unwrap_or_default(),
                    true => text_of(&mut *reader)?,
                    false => None,
                };
                left = left.saturating_sub(text.len());
                if each(TextPiece { text, file: info.clone(), has_lines, is_last: next.is_none() && left > 0 })?
                    == Enough::Yes
                    || left == 0
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The error for an input that has no records to find columns in.
    pub(crate) fn without_records(&self) -> Diagnostic {
        let diagnostic = not_known("there is no record yet that says which columns the table has");
        match self.files {
            [file] => {
                let resource = file.info.path.clone();
                let advice = "the file has no records: wait until it has some, or declare the columns: CREATE TABLE t (a STRING, …) WITH (…)";
                diagnostic.advise(advice).at(Place::Data { resource, offset: None, line: None, column: None })
            }
            _ => diagnostic,
        }
    }

    /// The first file.
    pub(crate) fn first(&self) -> Result<&InferredFile, Diagnostic> {
        self.files.first().ok_or_else(|| not_known("there is no file yet that says which columns the table has"))
    }
}

/// Whether a sample is large enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enough {
    Yes,
    No,
}

fn text_of(reader: &mut dyn SplitReader) -> Result<Option<(Vec<u8>, bool)>, Diagnostic> {
    let Some(chunk) = reader.next()? else { return Ok(None) };
    let chunk = chunk.content::<TextChunk>()?;
    Ok(Some((chunk.data.to_vec(), !chunk.framing.is_rewritten)))
}

/// What is wrong with a line of a sample, by its number if the sample has lines.
pub(crate) fn unreadable(piece: &TextPiece, line: u64, message: impl Into<String>) -> Diagnostic {
    let line = piece.has_lines.then_some(line);
    let place = Place::Data { resource: piece.file.path.clone(), offset: None, line, column: None };
    Diagnostic::new(code::MALFORMED_RECORD, message).at(place)
}

/// The format that a file's name, or what it begins with, stands for.
pub(crate) fn format_of(name: &str, head: &[u8]) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let plain = [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|end| lower.strip_suffix(end)).unwrap_or(&lower);
    let extension = Path::new(plain).extension().and_then(|extension| extension.to_str());
    match extension {
        Some("json" | "jsonl" | "ndjson") => return Some("json"),
        Some("csv" | "tsv" | "psv") => return Some("csv"),
        Some("parquet" | "pq") => return Some("parquet"),
        Some("arrow" | "arrows" | "feather" | "ipc") => return Some("arrow"),
        Some("avro") => return Some("avro"),
        _ => {}
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    match head {
        [b'P', b'A', b'R', b'1', ..] => Some("parquet"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => Some("arrow"),
        [b'O', b'b', b'j', 1, ..] => Some("avro"),
        _ => match head.trim_ascii_start() {
            [b'{', ..] => Some("json"),
            [b'[', rest @ ..] if rest.trim_ascii_start().first() == Some(&b'{') => Some("json"),
            _ => None,
        },
    }
}

/// The columns of an Arrow schema, all of which may be NULL: the next file may have NULLs where this one has none.
pub(crate) fn columns_of(schema: &arrow_schema::Schema) -> Result<Vec<Field>, Diagnostic> {
    let column = |field: &arrow_schema::FieldRef| {
        let column = Field::from_arrow(field).ok_or_else(|| {
            let message =
                format!("SQL has no type for column `{}`, which is {} in the file", field.name(), field.data_type());
            Diagnostic::new(code::TYPE_MISMATCH, message)
                .advise("create a table with the columns that you need, in parentheses after its name")
        })?;
        Ok(nullable(&column))
    };
    schema.fields().iter().map(column).collect()
}

/// The column if it and all in it may be NULL.
pub(crate) fn nullable(field: &Field) -> Field {
    Field::new(&field.name, with_nulls(&field.data_type), true)
}

fn with_nulls(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Row(fields) => DataType::Row(fields.iter().map(nullable).collect()),
        DataType::Array(element) => DataType::Array(Arc::new(with_nulls(element))),
        DataType::Map(key, value) => DataType::Map(key.clone(), Arc::new(with_nulls(value))),
        other => other.clone(),
    }
}
