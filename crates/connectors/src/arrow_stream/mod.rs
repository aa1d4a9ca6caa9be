//! The `arrow` format: record batches as an Arrow IPC stream, or an Arrow IPC file, which has a stream in it.
//!
//! Columns of the table's types are read where they lie in the block that was received; only those that a query wants are
//! looked at. Decoding checks offsets, lengths and UTF-8, so that bytes from outside cannot do harm.

mod decode;
mod encode;
mod framer;
#[cfg(test)]
mod tests;

use crate::Chunk;
use crate::format::{Format, StreamFormat};
use crate::infer::{FormatInput, columns_of, event_time, not_known};
use crate::records::Framer;
use millstream_types::{Diagnostic, Inferred};
use std::sync::Arc;
use std::time::Duration;

/// Cuts about the first `rows` rows off a chunk of this format; `None` for those of others.
pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<Option<(Chunk, u64)>> {
    framer::ArrowChunk::split_front(chunk, rows)
}

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "arrow",
    summary: "Apache Arrow: an IPC stream, in a file or over a connection; files of the IPC file format \
        (Feather 2) can be read, too. Columns are found by name; one that a stream does not have is NULL. Compressed record \
        batches cannot be read. A sink writes a stream.",
    extension: Some("arrows"),
    stream: |request| {
        let framer = |info| Box::new(framer::ArrowFramer::new(info)) as Box<dyn Framer>;
        Ok(Some(StreamFormat { framer: Box::new(framer), decoder: Arc::new(decode::ArrowDecoder::new(request)?) }))
    },
    stream_output: |request| encode::output(request).map(Some),
    infer: Some(infer),
    ..Format::NONE
};

/// The columns of the first stream.
fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    let file = input.first()?;
    let mut reader = (input.open)(0, Box::new(framer::ArrowFramer::new(Arc::new(file.info.clone()))));
    let chunk = reader.next()?.map(|chunk| chunk.content::<framer::ArrowChunk>()).transpose()?;
    let batch = chunk.as_ref().and_then(|chunk| chunk.blocks.first());
    let batch = batch.ok_or_else(|| not_known("there is no record batch yet that says which columns the table has"))?;
    let columns = columns_of(&batch.context.schema)?;
    let has_nulls = |i: usize| batch.context.schema.field(i).is_nullable();
    let event_time = event_time(&columns, |i| (!has_nulls(i)).then_some(Duration::ZERO));
    Ok(Inferred { event_time, ..Inferred::of_columns(columns) })
}
