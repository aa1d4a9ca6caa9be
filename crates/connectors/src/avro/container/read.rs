//! The blocks of a container file → the columns of a query.

use super::super::cursor::Cursor;
use super::super::decode::{AvroRecordReader, WantedFields};
use super::super::infer::columns;
use super::super::{ENCODING, IGNORE_ERRORS};
use super::codec::Codec;
use super::framer::{AvroBlock, AvroFramer, Header, damaged, place};
use crate::format::{StreamDecoder, StreamFormat};
use crate::infer::{FormatInput, event_time, not_known, nullable};
use crate::records::{Framer, RowBlock, RowBlocks};
use crate::text_chunk::FileInfo;
use crate::values::ColumnBuilder;
use crate::{Chunk, Decoded, SourceRequest};
use arrow_buffer::Buffer;
use millstream_types::{Diagnostic, Field, Inferred, Place, code};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that the blocks of one chunk may become when they are decompressed.
const MOST_BYTES: usize = 1 << 30;
/// A block may have as many records without any byte.
const MOST_EMPTY_RECORDS: usize = 1 << 20;

/// How files are read.
pub(in crate::avro) fn stream(request: &SourceRequest) -> Result<StreamFormat, Diagnostic> {
    ENCODING.only(&request.options)?;
    if IGNORE_ERRORS.boolean(&request.options)? {
        let wanted = "possible with files: behind a malformed record the next one cannot be found";
        return Err(request.options.invalid(IGNORE_ERRORS.key, wanted));
    }
    let framer = |info| Box::new(AvroFramer::new(info)) as Box<dyn Framer>;
    let decoder = AvroFileDecoder { wanted: WantedFields::of(request)? };
    Ok(StreamFormat { framer: Box::new(framer), decoder: Arc::new(decoder) })
}

/// The columns of the first file.
pub(in crate::avro) fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    let framer = AvroFramer::new(Arc::new(input.first()?.info.clone()));
    let found = framer.header();
    (input.open)(0, Box::new(framer)).next()?;
    let header =
        found.get().ok_or_else(|| not_known("the file is empty, so it does not say which columns the table has"))?;
    let fields = columns(&header.text).map_err(|why| not_known(format!("the file's schema says no columns: {why}")))?;
    // The next file may have NULLs where this one has none.
    let columns: Vec<Field> = fields.iter().map(nullable).collect();
    let event_time = event_time(&columns, |i| (!fields[i].nullable).then_some(Duration::ZERO));
    Ok(Inferred { event_time, ..Inferred::of_columns(columns) })
}

/// Decodes the blocks of every file.
struct AvroFileDecoder {
    wanted: WantedFields,
}

/// The records of a block, decompressed.
struct Records {
    /// Where they lie in the bytes of all blocks of the chunk.
    bytes: Range<usize>,
    count: usize,
    wanted: Range<usize>,
    place: RecordsPlace,
}

/// Where the bytes of records are in the file.
enum RecordsPlace {
    /// This far behind where they are in memory.
    Plain(u64),
    /// Within a compressed block that begins there.
    Compressed(u64),
}

impl StreamDecoder for AvroFileDecoder {
    fn decode(&self, chunk: Chunk) -> (Decoded, Arc<FileInfo>) {
        match chunk.content::<RowBlocks<AvroBlock>>() {
            Ok(chunk) => (self.blocks(&chunk).unwrap_or_else(Decoded::failed), chunk.file),
            Err(bug) => (Decoded::failed(bug), Arc::default()),
        }
    }
}

impl AvroFileDecoder {
    fn blocks(&self, chunk: &RowBlocks<AvroBlock>) -> Result<Decoded, Diagnostic> {
        let Some(first) = chunk.blocks.first() else { return Ok(Decoded::default()) };
        let reader = self.reader(&first.header, &chunk.file)?;
        let mut error = None;
        let (data, blocks) = decompressed(&chunk.blocks, &chunk.file, &mut error);
        let expected = blocks.iter().map(|block| block.wanted.len().min(block.bytes.len())).sum();
        let mut builders = self.wanted.builders(expected)?;
        let mut rows = 0;
        for block in &blocks {
            if let Err(fault) = block.read(reader, &data, &mut builders, &mut rows, &chunk.file) {
                builders.iter_mut().for_each(|builder| builder.truncate(rows));
                error = Some(fault);
                break;
            }
        }
        let columns = self.wanted.finish(builders, &data)?;
        if let Some((row, column)) = self.wanted.first_missing(&columns) {
            error = Some(missing_value(column, row, &blocks, &chunk.file));
            rows = row;
        }
        let columns = columns.into_iter().map(|column| column.slice(0, rows)).collect();
        Ok(Decoded { columns, rows, error, ..Decoded::default() })
    }

    /// The reader of a file's records.
    fn reader<'h>(&self, header: &'h Header, file: &FileInfo) -> Result<&'h AvroRecordReader, Diagnostic> {
        let reader = header.reader.get_or_init(|| AvroRecordReader::new(header.schema.clone(), &self.wanted));
        reader.as_ref().map_err(|why| {
            Diagnostic::new(code::WRONG_TYPE, format!("the file's schema does not fit the table: {why}"))
                .at(place(file, 0))
                .advise("give the columns the types of the file; DESCRIBE of the file's name in quotes lists them")
        })
    }
}

/// The records of all blocks in one buffer: the chunk itself, if nothing is compressed. What comes behind an error is left out.
fn decompressed(blocks: &[AvroBlock], file: &FileInfo, error: &mut Option<Diagnostic>) -> (Buffer, Vec<Records>) {
    let mut records = Vec::with_capacity(blocks.len());
    let mut data = Vec::new();
    for block in blocks {
        let (count, wanted) = (block.count, block.rows().clone());
        if block.header.codec == Codec::Null {
            let place = RecordsPlace::Plain(block.offset - block.bytes.start as u64);
            records.push(Records { bytes: block.bytes.clone(), count, wanted, place });
            continue;
        }
        let start = data.len();
        let outcome = block.header.codec.decompress(&block.chunk[block.bytes.clone()], &mut data);
        let outcome = outcome.and_then(|()| match data.len() > MOST_BYTES {
            true => {
                Err("blocks that follow each other become longer than 1 GiB when they are decompressed".to_string())
            }
            false => Ok(()),
        });
        if let Err(what) = outcome {
            *error = Some(damaged(file, block.offset, &what));
            break;
        }
        let place = RecordsPlace::Compressed(block.offset);
        records.push(Records { bytes: start..data.len(), count, wanted, place });
    }
    match blocks {
        [first, ..] if first.header.codec == Codec::Null => (first.chunk.clone(), records),
        _ => (Buffer::from_vec(data), records),
    }
}

impl Records {
    /// Reads the wanted records; counts those that have been read as a whole.
    fn read(
        &self,
        reader: &AvroRecordReader,
        data: &[u8],
        builders: &mut [ColumnBuilder],
        rows: &mut usize,
        file: &FileInfo,
    ) -> Result<(), Diagnostic> {
        let mut cursor = Cursor::new(data, self.bytes.clone());
        if self.count > self.bytes.len().max(MOST_EMPTY_RECORDS) {
            return Err(self.malformed("the block has more records than bytes", &cursor, 0, file));
        }
        for number in 0..self.wanted.end {
            let outcome =
                if number < self.wanted.start { reader.skip(&mut cursor) } else { reader.read(&mut cursor, builders) };
            outcome.map_err(|fault| self.malformed(fault, &cursor, number, file))?;
            *rows += usize::from(number >= self.wanted.start);
        }
        if self.wanted.end == self.count && cursor.at < cursor.end {
            return Err(self.malformed("something follows the last record of the block", &cursor, self.count, file));
        }
        Ok(())
    }

    /// The error at the place of the cursor, in the record of a number from 0.
    fn malformed(&self, what: &str, cursor: &Cursor<'_>, number: usize, file: &FileInfo) -> Diagnostic {
        let (at, byte) = match self.place {
            RecordsPlace::Plain(behind) => (behind + cursor.at as u64, String::new()),
            RecordsPlace::Compressed(block) => {
                (block, format!(", byte {} when decompressed", cursor.at - self.bytes.start))
            }
        };
        let message = format!("malformed Avro: {what} (record {} of {} in its block{byte})", number + 1, self.count);
        let advice = "write or fetch the file again; the records before it can be read";
        Diagnostic::new(code::MALFORMED_RECORD, message).at(place(file, at)).advise(advice)
    }
}

/// The error for a row without a value in a NOT NULL column.
fn missing_value(column: &str, row: usize, blocks: &[Records], file: &FileInfo) -> Diagnostic {
    let mut before = 0;
    for block in blocks {
        if row < before + block.wanted.len() {
            let number = block.wanted.start + row - before + 1;
            let start = match block.place {
                RecordsPlace::Plain(behind) => behind + block.bytes.start as u64,
                RecordsPlace::Compressed(start) => start,
            };
            let message = format!("a NOT NULL column has no value in record {number} of the block");
            let (resource, column) = (file.path.clone(), Some(column.to_string()));
            let place = Place::Data { resource, offset: Some(start), line: None, column };
            return Diagnostic::new(code::NULL_IN_NOT_NULL, message).at(place);
        }
        before += block.wanted.len();
    }
    Diagnostic::bug("a row that was decoded is in no block")
}
