//! Which columns the records of files have, and which their directories give.

use super::discover::{InputFile, discover};
use super::partition;
use super::read::sample_reader;
use super::standard_input;
use crate::format::Format;
use crate::infer::{self, FormatInput, InferredFile, ScalarKind, Scalars};
use crate::option_table::option_fault;
use crate::records::TextFramer;
use crate::text_chunk::{Framing, TextChunk};
use millstream_types::{Diagnostic, Field, Inferred, Options, code};
use std::sync::Arc;

/// The columns of a table with these options.
pub(super) fn infer(options: &Options) -> Result<Inferred, Diagnostic> {
    let path = options.require("path")?;
    let format = Format::of(options)?;
    let files = discover(path)?;
    let sample: Vec<InferredFile> =
        files.iter().map(|file| InferredFile { path: file.path.clone(), info: file.info.clone() }).collect();
    let open = |number: usize, framer| sample_reader(&files[number], framer);
    let mut inferred = format.columns(&FormatInput { options, files: &sample, open: &open })?;
    inferred.partitions = partitions(&files);
    // What stands in the path and in the records is in both.
    inferred.columns.retain(|column| inferred.partitions.iter().all(|partition| partition.name != column.name));
    Ok(inferred)
}

/// The options of the table that the rows of a file, a directory or a glob are: connector, path and format.
///
/// Fails when there is no such file, and when its format is none that is known.
pub fn file_options(path: &str) -> Result<Options, Diagnostic> {
    let files = discover(path)?;
    let no_file = || {
        let advice = "check the path; names that start with `.` or `_` are left out";
        option_fault(code::FILE_NOT_FOUND, "path", format!("there is no file in '{path}'"), advice)
    };
    let first = files.first().ok_or_else(no_file)?;
    if first.path.is_none() && standard_input::is_terminal() {
        let advice = "send rows into it: command | millstream run query.sql; or name a file";
        let message = "standard input is the terminal, so no rows come from it";
        return Err(option_fault(code::INVALID_OPTION, "path", message, advice));
    }
    let format = match infer::format_of(&first.info.name, b"") {
        Some(format) => format,
        None => {
            let head = head(first)?;
            // What comes through a pipe has no name that could say it, and is text in most cases.
            let is_text = first.path.is_none() && !head.is_empty() && !head.contains(&0);
            let guess = infer::format_of(&first.info.name, &head).or(is_text.then_some("csv"));
            guess.ok_or_else(|| without_format(first, &head))?
        }
    };
    let options = [("connector", "filesystem"), ("path", path), ("format", format)];
    Ok(options.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

/// The error for a file that is of no format that is known.
fn without_format(file: &InputFile, head: &[u8]) -> Diagnostic {
    let compressed = match head {
        [0x1f, 0x8b, ..] => Some(("gzip", "zcat")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", "zstdcat")),
        _ => None,
    };
    let (message, advice) = match (&file.path, compressed) {
        (None, _) if head.is_empty() => (
            "standard input has ended, and no row has come from it".into(),
            "see what the command before the pipe prints".into(),
        ),
        (None, Some((format, command))) => (
            format!("standard input is compressed with {format}"),
            format!("decompress it: {command} FILE | millstream …; or name the file in the query"),
        ),
        _ => (
            format!("neither the name nor the start of '{}' says which format it has", file.info.path),
            "names that end in .csv, .tsv, .json, .jsonl, .ndjson, .parquet, .arrow or .avro do; or name the format: \
             CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'csv')"
                .to_string(),
        ),
    };
    option_fault(code::UNKNOWN_FORMAT, "path", message, advice)
}

/// The first bytes of a file, decompressed.
fn head(file: &InputFile) -> Result<Vec<u8>, Diagnostic> {
    // Records of four bytes: all that begins as nothing else does.
    let framing = Framing { record_bytes: Some(4), ..Framing::default() };
    let mut reader = sample_reader(file, Box::new(TextFramer::new(Arc::new(file.info.clone()), framing)));
    reader.aim(64);
    let Some(chunk) = reader.next()? else { return Ok(Vec::new()) };
    let data = chunk.content::<TextChunk>()?.data;
    Ok(data[..data.len().min(64)].to_vec())
}

/// The columns that directories such as `day=2026-01-01` give: those that all files have.
fn partitions(files: &[InputFile]) -> Vec<Field> {
    let Some(first) = files.first() else { return Vec::new() };
    let names: Vec<String> = partition::pairs(&first.info.path).map(|(name, _)| name.to_string()).collect();
    let column = |name: &String| {
        let mut scalars = Scalars::default();
        for file in files {
            if let Some(value) = partition::value(&file.info.path, name)? {
                scalars.add(ScalarKind::of_text(&value));
            }
        }
        Some(Field::new(name, scalars.data_type(), true))
    };
    names.iter().filter_map(column).collect()
}
