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
use crate::unfit::compression;
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
    if let Some(pipe) = files.iter().find(|file| file.stream && file.path.is_some()) {
        let message = format!("'{}' is a pipe, which is read once, so its columns cannot be found", pipe.info.path);
        return Err(infer::not_known(message)
            .advise("list the columns in parentheses after the name of the table, or send the rows into standard input: FROM '-'"));
    }
    let columns = || format.columns(&FormatInput { options, files: &sample, open: &open });
    let mut inferred = columns();
    // What has come through standard input may end within the first record.
    while inferred.is_err() && files.iter().any(|file| file.path.is_none()) && standard_input::grow()? {
        inferred = columns();
    }
    let mut inferred = inferred?;
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
    let format = match infer::format_of(&first.info.name, b"") {
        Some(format) => format,
        None if first.path.is_none() => format_of_standard_input()?,
        None => infer::format_of(&first.info.name, &head(first)?).ok_or_else(|| without_format(&first.info.path))?,
    };
    let options = [("connector", "filesystem"), ("path", path), ("format", format)];
    Ok(options.into_iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
}

/// What standard input begins with. It has no name that could say its format, and is text in most cases.
fn format_of_standard_input() -> Result<&'static str, Diagnostic> {
    let mut sample = standard_input::sample()?;
    // Blank lines and the bracket of an array say nothing.
    while matches!(sample.trim_ascii(), [] | [b'[']) && standard_input::grow()? {
        sample = standard_input::sample()?;
    }
    let fault = |message: String, advice: String| Err(option_fault(code::UNKNOWN_FORMAT, "path", message, advice));
    if let Some((format, _)) = compression(&sample) {
        let command = if format == "gzip" { "zcat" } else { "zstdcat" };
        let advice = format!("decompress it: {command} FILE | millstream …; or name the file in the query");
        return fault(format!("standard input is compressed with {format}"), advice);
    }
    match (infer::format_of("", &sample), &*sample) {
        (Some(format), _) => Ok(format),
        (None, []) if standard_input::is_empty() => fault(
            "standard input has ended, and no row has come from it".into(),
            "see what the command before the pipe prints".into(),
        ),
        // The last character may be cut.
        (None, text)
            if std::str::from_utf8(text).map_or_else(|e| e.error_len().is_none(), |_| true) && !text.contains(&0) =>
        {
            Ok("csv")
        }
        _ => Err(without_format(super::discover::STDIN)),
    }
}

/// The error for a file that is of no format that is known.
fn without_format(path: &str) -> Diagnostic {
    let message = format!("neither the name nor the start of '{path}' says which format it has");
    let advice = "names that end in .csv, .tsv, .json, .jsonl, .ndjson, .parquet, .arrow or .avro do; or name the format: \
                  CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'csv')";
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
