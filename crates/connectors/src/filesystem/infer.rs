//! Which columns the records of files have, and which their directories give.

use super::discover::{InputFile, discover};
use super::partition;
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
    if path == "-" {
        let message = "standard input is read once, so its columns must be known before";
        return Err(infer::not_known(message));
    }
    let files = discover(path)?;
    let sample: Vec<InferredFile> =
        files.iter().map(|file| InferredFile { path: file.path.clone(), info: file.info.clone() }).collect();
    let open = |number: usize, framer| super::reader(&files[number], framer);
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
    if path == "-" {
        let advice = "save it as a file; or create a table with columns, with 'path' = '-'";
        let message = "standard input is read once, so it cannot be looked at before";
        return Err(option_fault(code::INVALID_OPTION, "path", message, advice));
    }
    let files = discover(path)?;
    let no_file = || {
        let advice = "check the path; names that start with `.` or `_` are left out";
        option_fault(code::FILE_NOT_FOUND, "path", format!("there is no file in '{path}'"), advice)
    };
    let first = files.first().ok_or_else(no_file)?;
    let format = match infer::format_of(&first.info.name, b"") {
        Some(format) => format,
        None => infer::format_of(&first.info.name, &head(first)?).ok_or_else(|| {
            let message = format!("neither the name nor the start of '{}' says which format it has", first.info.path);
            let advice = "names that end in .csv, .tsv, .json, .jsonl, .ndjson, .parquet, .arrow or .avro do; or name the format: \
                          CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'csv')";
            option_fault(code::UNKNOWN_FORMAT, "path", message, advice)
        })?,
    };
    let options = [("connector", "filesystem"), ("path", path), ("format", format)];
    Ok(options.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

/// The first bytes of a file, decompressed.
fn head(file: &InputFile) -> Result<Vec<u8>, Diagnostic> {
    // Records of four bytes: all that begins as nothing else does.
    let framing = Framing { record_bytes: Some(4), ..Framing::default() };
    let mut reader = super::reader(file, Box::new(TextFramer::new(Arc::new(file.info.clone()), framing)));
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
