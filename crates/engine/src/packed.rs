//! Tables of packed records in memory: blocks of bytes, of which the columns are read in place.
//!
//! The values are checked when the table is made, so that queries need not.

use crate::memory::TableProvider;
use arrow_buffer::Buffer;
use millstream_connectors::{
    CHUNK_BYTES, Chunk, ColumnRequest, Decoded, Decoder, FileInfo, Framing, RequestOrigin, RowDecoder, Source,
    SourceRequest, SplitReader, TextChunk,
};
use millstream_types::{Diagnostic, Field, Options, RecordLayout, Schema};
use std::sync::Arc;

/// The records of a table.
#[derive(Debug, Clone)]
pub(crate) struct PackedTable {
    blocks: Arc<[Buffer]>,
    layout: RecordLayout,
    file: Arc<FileInfo>,
}

impl PackedTable {
    /// Fails if the columns of `schema` cannot be in packed records, or a block is not made of well-formed ones.
    pub(crate) fn new(name: &str, schema: &Schema, blocks: Vec<Buffer>) -> Result<PackedTable, Diagnostic> {
        let column = |(number, field): (usize, &Field)| ColumnRequest {
            name: field.name.clone(),
            origin: RequestOrigin::Record(number),
            data_type: field.data_type.clone(),
            nullable: field.nullable,
        };
        let columns = schema.fields.iter().enumerate().map(column).collect();
        let (table, options, schema) = (name.to_string(), Options::new(), schema.clone());
        let layout = RecordLayout::of(&schema)?;
        let decoder = RowDecoder::new(&SourceRequest { table, options, schema, columns, ..SourceRequest::default() })?;
        let file = Arc::new(FileInfo { path: format!("table {name}"), ..FileInfo::default() });
        let table = PackedTable { blocks: blocks.into(), layout, file };
        let mut offset = 0;
        for block in &*table.blocks {
            if let Some(error) = decoder.decode(&table.chunk(block.clone(), offset)).error {
                return Err(Diagnostic { advice: None, ..error }.advise("give blocks of whole, well-formed records"));
            }
            offset += block.len() as u64;
        }
        Ok(table)
    }

    fn chunk(&self, data: Buffer, offset: u64) -> TextChunk {
        let framing = Framing { record_bytes: Some(self.layout.length), ..Framing::default() };
        TextChunk { data, offset, line: 1, file: self.file.clone(), framing }
    }
}

impl TableProvider for PackedTable {
    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, Diagnostic> {
        let decoder = RowDecoder::new(request)?.trusting();
        Ok(Box::new(PackedSource {
            table: self.clone(),
            decoder: Arc::new(Trusting(decoder)),
            rows: request.buffer_rows,
        }))
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn record_layout(&self) -> Option<&RecordLayout> {
        Some(&self.layout)
    }
}

struct PackedSource {
    table: PackedTable,
    decoder: Arc<Trusting>,
    /// Of a chunk; 0: as many as suit.
    rows: usize,
}

impl Source for PackedSource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let length = self.table.layout.length;
        let rows = if self.rows == 0 { (CHUNK_BYTES / length).max(1) } else { self.rows };
        Ok(vec![Box::new(Blocks { table: self.table.clone(), block: 0, start: 0, bytes: rows * length, offset: 0 })])
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        self.decoder.clone()
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// Cuts blocks into chunks.
struct Blocks {
    table: PackedTable,
    block: usize,
    /// Bytes of the block that are handed out.
    start: usize,
    /// Of a chunk; whole records.
    bytes: usize,
    /// Of the next chunk in the table.
    offset: u64,
}

impl SplitReader for Blocks {
    fn name(&self) -> &str {
        self.table.file.path.as_str()
    }

    fn never_waits(&self) -> bool {
        true
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        while let Some(block) = self.table.blocks.get(self.block) {
            let length = self.bytes.min(block.len() - self.start);
            if length > 0 {
                let chunk = self.table.chunk(block.slice_with_length(self.start, length), self.offset);
                self.start += length;
                self.offset += length as u64;
                return Ok(Some(Chunk { payload: Box::new(chunk), bytes: 0, after: None }));
            }
            (self.block, self.start) = (self.block + 1, 0);
        }
        Ok(None)
    }
}

/// Decodes records that have been checked.
struct Trusting(RowDecoder);

impl Decoder for Trusting {
    fn decode(&self, chunk: Chunk) -> Decoded {
        match chunk.payload.downcast::<TextChunk>() {
            Ok(chunk) => self.0.decode(&chunk),
            Err(_) => {
                let error = Diagnostic::bug("a chunk of another source reached a table in memory");
                Decoded { error: Some(error), ..Decoded::default() }
            }
        }
    }
}
