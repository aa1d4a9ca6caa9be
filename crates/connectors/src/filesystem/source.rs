//! The `filesystem` source of formats that are read from the start to the end: a split per file, in order of their names.

use super::discover::InputFile;
use super::metadata;
use super::read::RecordReader;
use crate::declaration::ReadySource;
use crate::format::{StreamDecoder, StreamFormat};
use crate::{Chunk, ColumnRequest, Decoded, Decoder, SourceRequest, SplitReader};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// How files of records are read.
pub(super) struct StreamSource {
    pub(super) decoder: Arc<dyn Decoder>,
    /// Makes the reader of a file.
    pub(super) open: Box<dyn Fn(InputFile) -> Box<dyn SplitReader> + Send + Sync>,
}

/// How the records of a format, which may be changes, are read.
pub(super) fn stream(
    request: &SourceRequest,
    (format, gives_changes): (StreamFormat, bool),
) -> Result<StreamSource, Diagnostic> {
    metadata::check(request, gives_changes)?;
    let StreamFormat { framer, decoder: records } = format;
    let open = move |file: InputFile| {
        let framer = framer(Arc::new(file.info.clone()));
        Box::new(RecordReader::new(file, framer)) as Box<dyn SplitReader>
    };
    let decoder = Arc::new(RecordsOfStreams { records, columns: request.columns.clone() });
    Ok(StreamSource { decoder, open: Box::new(open) })
}

/// Files of records.
pub(super) fn open(
    request: &SourceRequest,
    format: (StreamFormat, bool),
    files: Vec<InputFile>,
) -> Result<ReadySource, Diagnostic> {
    let StreamSource { decoder, open } = stream(request, format)?;
    // All files are there to stay: none is a pipe.
    let is_replayable = files.iter().all(|file| !file.stream);
    let splits = files.into_iter().map(open).collect();
    Ok(ReadySource { splits, decoder, is_bounded: true, is_replayable })
}

/// Decodes the chunks of streams, and adds what is known of each stream.
pub(crate) struct RecordsOfStreams {
    pub(crate) records: Arc<dyn StreamDecoder>,
    /// All columns.
    pub(crate) columns: Vec<ColumnRequest>,
}

impl Decoder for RecordsOfStreams {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let (decoded, file) = self.records.decode(chunk);
        metadata::insert(&self.columns, &file, decoded)
    }
}
