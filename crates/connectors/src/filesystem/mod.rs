//! The `filesystem` connector: local files, directories, globs, standard input and output.

mod arriving;
mod checksum;
mod directory;
mod discover;
mod fingerprint;
mod finished;
mod growing;
mod infer;
mod metadata;
mod monitor;
mod partition;
mod read;
mod sink;
mod source;
mod standard_input;
mod target;
#[cfg(test)]
mod tests;
mod writer;

use crate::declaration::{Connector, TakesFormats};
use crate::format::Format;
use crate::option_table::{option_fault, option_list};
use crate::{Sink, SinkRequest, Source, SourceRequest};
use arriving::{ArrivingFiles, FileReading};
use discover::InputFile;
use millstream_types::{Diagnostic, Options, TakesChanges, code};
use source::StreamSource;
use std::time::Duration;

pub(crate) use directory::removed;
pub(crate) use discover::{input_changed, read_error};
pub(crate) use fingerprint::{Extent, FileWitness};
pub use infer::file_options;
pub(crate) use metadata::{check as check_metadata, insert as insert_metadata};
pub(crate) use source::RecordsOfStreams;
pub use standard_input::{release_standard_input, take_standard_input};
pub use target::stdout_error;
pub(crate) use target::{Output, sync_directory, write_error};
pub(crate) use writer::PartWriter;

/// The connector's entry in the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "filesystem",
    summary: "Local files. Files whose names end in `.gz`, `.zst` or `.zstd` are decompressed and compressed. \
        Each file is a split, read in order, its chunks decoded by all workers. \
        Metadata columns: `file.path`, `file.name`, `file.size`, `file.modification-time`.",
    options: OPTIONS,
    formats: TakesFormats::OfStreams,
    source: Some(open_source),
    sink: Some(open_sink),
    written_path: sink::written_path,
    // A directory gets files of all.
    is_on_every_node: |request| {
        request.changes.is_none()
            && request.options.get("path").is_some_and(|path| path != "-" && sink::is_directory(path).unwrap_or(false))
    },
    changes: |options| Format::of(options).map_or(TakesChanges::Nothing, Format::takes_changes),
    gives_changes: |options| Format::of(options).is_ok_and(Format::gives_changes),
    split_front: Some(Format::split_front),
    require: |options| monitor_interval(options).map(drop),
    is_bounded: |options| options.get(MONITOR.key).is_none(),
    infer: Some(infer::infer),
    ..Connector::NEITHER
};

option_list! {
    OPTIONS;
    "path": Required(&Path), "",
        "A file, a directory (all files below it, except names that start with `.` or `_`), a glob such as `/logs/*.json`, `file://…`, or `-` \
         for standard input and output.";
    "format": Required(&Format("")), "", "Format of the records.";
    MONITOR = "source.monitor-interval": Duration, "",
        "How often a source looks for new files in its directory or glob: it never ends then. Without it the files are read that are there at the start.";
    OVERWRITE = "sink.overwrite": Bool, "false", "Whether a sink may replace the single file that is there; `INSERT OVERWRITE` sets it. A directory gets more files.";
    PART_BYTES = "sink.rolling-policy.file-size": Size, "128MB", "Size at which a sink that writes a directory starts the next file.";
    PART_AGE = "sink.rolling-policy.rollover-interval": Duration, "30 min", "Age at which a sink that writes a directory starts the next file.";
}

fn open_source(request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
    let path = request.options.require("path")?;
    let format = Format::of(&request.options)?;
    if let Some(interval) = monitor_interval(&request.options)? {
        if discover::is_one_file(path)? {
            return Err(nothing_to_look_for(&format!("'{path}' is a file")));
        }
        return Ok(Box::new(ArrivingFiles::new(path, interval, reading(request, format)?)?));
    }
    let files = discover::discover(path)?;
    Ok(match (format.stream)(request)? {
        Some(records) => Box::new(source::open(request, (records, format.gives_changes()), files)?),
        None => {
            let files = files.into_iter().map(|file| (file.path, file.info)).collect();
            Box::new((format.files()?.open)(request, files)?)
        }
    })
}

/// How often new files are looked for, if they are.
fn monitor_interval(options: &Options) -> Result<Option<Duration>, Diagnostic> {
    if options.get(MONITOR.key).is_none() {
        return Ok(None);
    }
    let interval = MONITOR.duration(options)?;
    if interval.is_zero() {
        return Err(options.invalid(MONITOR.key, "a duration longer than 0, such as '10 s'"));
    }
    if options.get("path").is_some_and(discover::is_standard_input) {
        return Err(nothing_to_look_for("standard input is no directory"));
    }
    Ok(Some(interval))
}

fn nothing_to_look_for(why: &str) -> Diagnostic {
    let message = format!("no new files can be looked for: {why}");
    option_fault(
        code::INVALID_OPTION,
        MONITOR.key,
        message,
        "give the path of a directory or a glob, or leave the option out",
    )
}

/// How each file of a table is read.
fn reading(request: &SourceRequest, format: &'static Format) -> Result<FileReading, Diagnostic> {
    if let Some(records) = (format.stream)(request)? {
        let StreamSource { decoder, open } = source::stream(request, (records, format.gives_changes()))?;
        return Ok(FileReading { open: Box::new(move |file| Ok(open(file))), decoder, extent: Extent::Bytes });
    }
    let (files, request) = (format.files()?, request.clone());
    let decoder = (files.open)(&request, Vec::new())?.decoder;
    let open = move |file: InputFile| {
        let mut opened = (files.open)(&request, vec![(file.path, file.info)])?;
        opened.splits.pop().ok_or_else(|| Diagnostic::bug("a file has no split"))
    };
    Ok(FileReading { open: Box::new(open), decoder, extent: Extent::Whole })
}

fn open_sink(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    sink::open(request)
}
