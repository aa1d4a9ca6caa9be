//! The `filesystem` source of text formats: a split per file, in order of their names.

use super::discover::InputFile;
use super::metadata;
use super::read::TextReader;
use crate::format::{RecordDecoder, TextFormat};
use crate::text_chunk::{Framing, TextChunk};
use crate::{Chunk, ColumnRequest, Decoded, Decoder, Source, SourceRequest, SplitReader};
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Files of a text format.
pub(super) struct TextSource {
    files: Vec<InputFile>,
    framing: Framing,
    decoder: Arc<TextDecoder>,
}

impl TextSource {
    pub(super) fn open(
        request: &SourceRequest,
        format: &TextFormat,
        files: Vec<InputFile>,
    ) -> Result<TextSource, Diagnostic> {
        metadata::check(&request.columns)?;
        let records = (format.decoder)(request)?;
        let decoder = Arc::new(TextDecoder { records, columns: request.columns.clone() });
        Ok(TextSource { files, framing: (format.framing)(&request.options)?, decoder })
    }
}

impl Source for TextSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let framing = self.framing;
        let reader = |file| Box::new(TextReader::new(file, framing)) as Box<dyn SplitReader>;
        Ok(std::mem::take(&mut self.files).into_iter().map(reader).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

struct TextDecoder {
    records: Box<dyn RecordDecoder>,
    columns: Vec<ColumnRequest>,
}

impl Decoder for TextDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let Ok(chunk) = chunk.payload.downcast::<TextChunk>() else {
            let error = Diagnostic::bug("the filesystem source got a chunk of another source");
            return Decoded { error: Some(error), ..Decoded::default() };
        };
        metadata::insert(&self.columns, &chunk.file, self.records.decode(&chunk))
    }
}
