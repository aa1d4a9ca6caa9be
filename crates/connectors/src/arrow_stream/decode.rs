//! Record batches → the columns of a query.

use super::framer::{ArrowChunk, Batch, damaged, place};
use crate::fit::{self, Wanted, guarded};
use crate::format::StreamDecoder;
use crate::text_chunk::FileInfo;
use crate::{Chunk, Decoded, SourceRequest};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::root_as_message;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Decodes the chunks of Arrow streams.
pub(crate) struct ArrowDecoder {
    wanted: Vec<Wanted>,
}

impl ArrowDecoder {
    /// A decoder of what is wanted from a table.
    pub(crate) fn new(request: &SourceRequest) -> Result<ArrowDecoder, Diagnostic> {
        Ok(ArrowDecoder { wanted: Wanted::of(request)? })
    }

    fn batch(&self, batch: &Batch, file: &FileInfo) -> Decoded {
        let rows = batch.rows.len();
        if self.wanted.is_empty() {
            return Decoded { rows, ..Decoded::default() };
        }
        let columns = guarded(|| self.read(batch)).map_err(|e| damaged(file, batch.offset, &e));
        let at = |column| place(file, Some(batch.offset), column);
        let row_name = |row| format!("row {row} of the record batch");
        let columns = columns.and_then(|read| fit::columns(self.wanted.iter(), read.as_ref(), rows, &at, &row_name));
        columns.unwrap_or_else(Decoded::failed)
    }

    /// The columns of a batch in which something is wanted; `None` if there are none.
    fn read(&self, batch: &Batch) -> Result<Option<RecordBatch>, String> {
        let schema = &batch.context.schema;
        let is_wanted = |name: &str| self.wanted.iter().any(|w| w.names.first().is_some_and(|first| first == name));
        let fields = schema.fields().iter().enumerate();
        let projection: Vec<usize> = fields.filter(|(_, field)| is_wanted(field.name())).map(|(i, _)| i).collect();
        if projection.is_empty() {
            return Ok(None);
        }
        let message = root_as_message(&batch.header).map_err(|e| e.to_string())?;
        let header = message.header_as_record_batch().ok_or("a record batch has no contents")?;
        if header.compression().is_some() {
            return Err("its record batches are compressed; write them without compression".into());
        }
        let (dictionaries, version) = (&batch.context.dictionaries, message.version());
        let decoder = RecordBatchDecoder::try_new(&batch.body, header, schema.clone(), dictionaries, &version);
        let read = decoder.and_then(|d| d.with_projection(Some(&projection)).read_record_batch());
        let read = read.map_err(|e| e.to_string())?;
        if read.num_rows() < batch.rows.end {
            return Err("a record batch has less rows than it says".into());
        }
        Ok(Some(read.slice(batch.rows.start, batch.rows.len())))
    }
}

impl StreamDecoder for ArrowDecoder {
    fn decode(&self, chunk: Chunk) -> (Decoded, Arc<FileInfo>) {
        let chunk = match chunk.content::<ArrowChunk>() {
            Ok(chunk) => chunk,
            Err(bug) => return (Decoded::failed(bug), Arc::default()),
        };
        let mut parts = Vec::with_capacity(chunk.blocks.len());
        for batch in &chunk.blocks {
            let part = self.batch(batch, &chunk.file);
            let failed = part.error.is_some();
            parts.push(part);
            if failed {
                break;
            }
        }
        (joined(parts), chunk.file)
    }
}

/// The rows of all parts; only the last may have an error.
fn joined(mut parts: Vec<Decoded>) -> Decoded {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let error = parts.last_mut().and_then(|part| part.error.take());
    parts.retain(|part| part.rows > 0);
    let width = parts.first().map_or(0, |part| part.columns.len());
    let column = |i: usize| -> Result<ArrayRef, Diagnostic> {
        let arrays: Vec<&dyn Array> = parts.iter().map(|part| part.columns[i].as_ref()).collect();
        arrow_select::concat::concat(&arrays).map_err(|e| Diagnostic::bug(format!("batches do not fit: {e}")))
    };
    match (0..width).map(column).collect() {
        Ok(columns) => Decoded { columns, rows: parts.iter().map(|part| part.rows).sum(), error, ..Decoded::default() },
        Err(bug) => Decoded::failed(bug),
    }
}
