//! The `filesystem` source of formats that are read from the start to the end: a split per file, in order of their names.

use super::discover::InputFile;
use super::metadata;
use super::read::RecordReader;
use crate::format::{StreamDecoder, StreamFormat};
use crate::{Chunk, ColumnRequest, Decoded, Decoder, Source, SourceRequest, SplitReader};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Files of records.
pub(super) struct RecordSource {
    files: Vec<InputFile>,
    format: StreamFormat,
    columns: Vec<ColumnRequest>,
    /// Whether all files are there to stay: none is a pipe.
    is_replayable: bool,
}

impl RecordSource {
    pub(super) fn open(
        request: &SourceRequest,
        format: StreamFormat,
        files: Vec<InputFile>,
    ) -> Result<RecordSource, Diagnostic> {
        metadata::check(&request.columns)?;
        let is_replayable = files.iter().all(|file| !file.stream);
        Ok(RecordSource { files, format, columns: request.columns.clone(), is_replayable })
    }
}

impl Source for RecordSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let reader = |file: InputFile| {
            let framer = (self.format.framer)(Arc::new(file.info.clone()));
            Box::new(RecordReader::new(file, framer)) as Box<dyn SplitReader>
        };
        Ok(std::mem::take(&mut self.files).into_iter().map(reader).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(FileDecoder { records: self.format.decoder.clone(), columns: self.columns.clone() })
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn is_replayable(&self) -> bool {
        self.is_replayable
    }
}

struct FileDecoder {
    records: Arc<dyn StreamDecoder>,
    columns: Vec<ColumnRequest>,
}

impl Decoder for FileDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let (decoded, file) = self.records.decode(chunk);
        metadata::insert(&self.columns, &file, decoded)
    }
}
