//! The `filesystem` source of formats that are read from the start to the end: a split per file, in order of their names.

use super::discover::InputFile;
use super::metadata;
use super::read::RecordReader;
use crate::declaration::ReadySource;
use crate::format::{StreamDecoder, StreamFormat};
use crate::{Chunk, ColumnRequest, Decoded, Decoder, SourceRequest, SplitReader};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Files of records.
pub(super) fn open(
    request: &SourceRequest,
    (format, gives_changes): (StreamFormat, bool),
    files: Vec<InputFile>,
) -> Result<ReadySource, Diagnostic> {
    metadata::check(request, gives_changes)?;
    // All files are there to stay: none is a pipe.
    let is_replayable = files.iter().all(|file| !file.stream);
    let reader = |file: InputFile| {
        let framer = (format.framer)(Arc::new(file.info.clone()));
        Box::new(RecordReader::new(file, framer)) as Box<dyn SplitReader>
    };
    let splits = files.into_iter().map(reader).collect();
    let decoder = Arc::new(RecordsOfStreams { records: format.decoder, columns: request.columns.clone() });
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
