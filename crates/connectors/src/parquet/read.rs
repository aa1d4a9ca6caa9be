//! The source of Parquet files: a split per file, a chunk per row group or part of one, decoded by workers.

use super::late_materialisation::{policy, selection};
use crate::declaration::ReadySource;
use crate::filesystem::{Extent, FileWitness, check_metadata, input_changed, insert_metadata, read_error};
use crate::fit::{self, Wanted, guarded};
use crate::infer::{FormatInput, columns_of, event_time, not_known};
use crate::option_table::option_fault;
use crate::survivors::Survivors;
use crate::text_chunk::FileInfo;
use crate::unfit::sniffed;
use crate::{Chunk, ColumnRequest, Decoded, Decoder, HeadFilter, Position, SourceRequest, SplitReader, Witness};
use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use ::parquet::file::reader::{ChunkReader, Length};
use arrow_array::{RecordBatch, RecordBatchReader as _};
use millstream_types::{Diagnostic, Inferred, Place, code};
use serde_json::Value;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Rows of a chunk when the query asks for no number: few enough that a large row group occupies all workers.
const ROWS: usize = 64 << 10;
/// Fewer rows make decoding wasteful, because each chunk decodes its row group from the start of a page.
const FEWEST_ROWS: usize = 1024;

pub(super) struct Plan {
    /// The columns that come from files.
    pub(super) columns: Vec<Wanted>,
    /// All columns.
    pub(super) requests: Vec<ColumnRequest>,
}

/// Opens Parquet files; `None` instead of a path is standard input.
pub(crate) fn open(
    request: &SourceRequest,
    files: Vec<(Option<PathBuf>, FileInfo)>,
) -> Result<ReadySource, Diagnostic> {
    check_metadata(request, false)?;
    let rows = if request.buffer_rows == 0 { ROWS } else { request.buffer_rows.max(FEWEST_ROWS) };
    let plan = Arc::new(Plan { columns: Wanted::of(request)?, requests: request.columns.clone() });
    let reader = |(path, info): (Option<PathBuf>, FileInfo)| {
        let path = path.ok_or_else(|| {
            let message = "a Parquet file cannot be read from standard input";
            option_fault(code::INVALID_OPTION, "path", message, "give the path of a file")
        })?;
        Ok(Box::new(FileReader {
            witness: FileWitness::new(path.clone(), Extent::Whole),
            path,
            info: Arc::new(info),
            plan: plan.clone(),
            rows,
            open: None,
            group: 0,
            row: 0,
            before: 0,
            resumed: 0,
        }) as Box<dyn SplitReader>)
    };
    let splits = files.into_iter().map(reader).collect::<Result<_, Diagnostic>>()?;
    Ok(ReadySource { splits, decoder: Arc::new(ParquetDecoder { plan }), is_bounded: true, is_replayable: true })
}

/// A file that several threads read at once, each at its own position.
#[derive(Clone)]
struct SharedFile {
    file: Arc<File>,
    length: u64,
}

struct FileAt {
    file: SharedFile,
    position: u64,
}

impl Read for FileAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Length for SharedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for SharedFile {
    type T = BufReader<FileAt>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(FileAt { file: self.clone(), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<bytes::Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} are beyond the end of the file")));
        }
        let mut data = vec![0; length];
        self.file.read_exact_at(&mut data, start)?;
        Ok(data.into())
    }
}

/// A file whose footer was read.
#[derive(Clone)]
pub(super) struct OpenFile {
    file: SharedFile,
    pub(super) metadata: ArrowReaderMetadata,
    /// The leaves of all columns.
    mask: ProjectionMask,
    pub(super) info: Arc<FileInfo>,
}

impl OpenFile {
    /// The leaves of some columns.
    pub(super) fn leaves<'a>(&self, columns: &'a [&Wanted]) -> impl Iterator<Item = usize> + use<'_, 'a> {
        let schema = self.metadata.parquet_schema();
        (0..schema.num_columns()).filter(move |leaf| {
            let leaf = schema.column(*leaf);
            columns.iter().any(|column| leaf.path().parts().starts_with(&column.names))
        })
    }
}

struct FileReader {
    path: PathBuf,
    witness: Arc<FileWitness>,
    info: Arc<FileInfo>,
    plan: Arc<Plan>,
    rows: usize,
    open: Option<OpenFile>,
    group: usize,
    row: usize,
    /// Rows before the group.
    before: u64,
    /// Rows of the file that were read before.
    resumed: u64,
}

/// Rows of one row group.
pub(super) struct ParquetChunk {
    pub(super) open: OpenFile,
    pub(super) group: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
}

/// Opens a file and reads its footer.
fn load(path: &Path, info: &FileInfo) -> Result<(SharedFile, Metadata, ArrowReaderMetadata), Diagnostic> {
    let failed = |e: io::Error| read_error(&info.path, &e);
    let file = File::open(path).map_err(failed)?;
    let stat = file.metadata().map_err(failed)?;
    let file = SharedFile { file: Arc::new(file), length: stat.len() };
    let metadata = guarded(|| ArrowReaderMetadata::load(&file, ArrowReaderOptions::new()).map_err(|e| e.to_string()));
    Ok((file, stat, metadata.map_err(|e| damaged(info, &e))?))
}

/// The columns of the first file.
pub(super) fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    let file = input.first()?;
    let path = file.path.as_deref().ok_or_else(|| not_known("a Parquet file cannot be read from standard input"))?;
    let (_, _, metadata) = load(path, &file.info)?;
    let columns = columns_of(metadata.schema())?;
    let groups = metadata.metadata().row_groups();
    let schema = metadata.parquet_schema();
    let has_nulls = |column: usize| {
        let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == column);
        leaf.is_none_or(|leaf| {
            groups.iter().any(|group| group.column(leaf).statistics().and_then(|s| s.null_count_opt()) != Some(0))
        })
    };
    let event_time = event_time(&columns, |i| (!has_nulls(i)).then_some(Duration::ZERO));
    Ok(Inferred { event_time, ..Inferred::of_columns(columns) })
}

impl FileReader {
    fn open(&self) -> Result<OpenFile, Diagnostic> {
        let (file, stat, metadata) = load(&self.path, &self.info)?;
        self.witness.opened(&stat);
        let has = u64::try_from(metadata.metadata().file_metadata().num_rows()).unwrap_or(0);
        check_lengths(metadata.metadata()).map_err(|e| damaged(&self.info, &e))?;
        if has < self.resumed {
            return Err(input_changed(&self.info.path, has, self.resumed, "rows"));
        }
        let mask = ProjectionMask::none(metadata.parquet_schema().num_columns());
        let mut open = OpenFile { file, metadata, mask, info: self.info.clone() };
        let columns: Vec<&Wanted> = self.plan.columns.iter().collect();
        open.mask = ProjectionMask::leaves(open.metadata.parquet_schema(), open.leaves(&columns));
        Ok(open)
    }
}

/// Whether row groups have as many rows as their columns have values. Nobody else looks when no column is wanted.
fn check_lengths(metadata: &ParquetMetaData) -> Result<(), String> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        // A row has one value at least, if only a NULL.
        let values = group.columns().iter().map(ColumnChunkMetaData::num_values).min();
        if group.num_rows() < 0 || values.is_some_and(|values| values < group.num_rows()) {
            return Err(format!("row group {number} cannot have {} rows", group.num_rows()));
        }
    }
    Ok(())
}

impl SplitReader for FileReader {
    fn name(&self) -> &str {
        self.info.path.as_str()
    }

    /// Of a local disk, and chunks are read where they are decoded.
    fn never_waits(&self) -> bool {
        true
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.resumed = from.map_or(0, |position| position.at);
        Ok(())
    }

    fn witness(&self) -> Option<Arc<dyn Witness>> {
        Some(self.witness.clone())
    }

    fn verify(&self, described: &Value, has_ended: bool) -> Result<(), Diagnostic> {
        self.witness.verify(described, has_ended)
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if self.open.is_none() {
            self.open = Some(self.open()?);
        }
        let open = self.open.as_ref().expect("opened above");
        loop {
            let groups = open.metadata.metadata().row_groups();
            let Some(group) = groups.get(self.group) else {
                self.witness.ended(Some(open.file.length));
                return Ok(None);
            };
            let total = usize::try_from(group.num_rows()).unwrap_or(0);
            self.row = self.row.max(usize::try_from(self.resumed.saturating_sub(self.before)).unwrap_or(total));
            if self.row >= total {
                self.group += 1;
                self.row = 0;
                self.before += total as u64;
                continue;
            }
            let rows = self.rows.min(total - self.row);
            let read = group.columns().iter().enumerate().filter(|(leaf, _)| open.mask.leaf_included(*leaf));
            let size: i64 = read.map(|(_, column)| column.compressed_size()).sum();
            let bytes = (size.max(0) as u128 * rows as u128 / total as u128) as u64;
            let chunk = ParquetChunk { open: open.clone(), group: self.group, first: self.row, rows };
            self.row += rows;
            let after = Some(Position { at: self.before + self.row as u64, line: 0 });
            return Ok(Some(Chunk { payload: Box::new(chunk), bytes, after }));
        }
    }
}

/// Cuts the first rows off a chunk of this source; `None` for those of others.
pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<Option<(Chunk, u64)>> {
    let whole = chunk.payload.downcast_mut::<ParquetChunk>()?;
    if whole.rows == 0 {
        return Some(None);
    }
    let rows = whole.rows.min(usize::try_from(rows).unwrap_or(usize::MAX));
    let front = ParquetChunk { open: whole.open.clone(), group: whole.group, first: whole.first, rows };
    let bytes = chunk.bytes * rows as u64 / whole.rows as u64;
    whole.first += rows;
    whole.rows -= rows;
    chunk.bytes -= bytes;
    let after = chunk.after.map(|end| Position { at: end.at - whole.rows as u64, line: 0 });
    Some(Some((Chunk { payload: Box::new(front), bytes, after }, rows as u64)))
}

pub(super) struct ParquetDecoder {
    pub(super) plan: Arc<Plan>,
}

impl Decoder for ParquetDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        decoded(chunk, |chunk| self.all(chunk))
    }

    fn decode_survivors(&self, chunk: Chunk, filter: &mut dyn HeadFilter) -> Decoded {
        decoded(chunk, |chunk| self.survivors(chunk, filter))
    }

    fn can_skip(&self) -> bool {
        true
    }
}

/// What `decode` makes of a chunk of this source.
fn decoded(chunk: Chunk, decode: impl FnOnce(&ParquetChunk) -> Result<Decoded, Diagnostic>) -> Decoded {
    chunk.content().and_then(|chunk| decode(&chunk)).unwrap_or_else(Decoded::failed)
}

impl ParquetDecoder {
    /// All columns of all rows.
    pub(super) fn all(&self, chunk: &ParquetChunk) -> Result<Decoded, Diagnostic> {
        let columns: Vec<&Wanted> = self.plan.columns.iter().collect();
        let decoded = self.columns(chunk, &columns, None)?;
        Ok(insert_metadata(&self.plan.requests, &chunk.open.info, decoded))
    }

    /// Some columns, of all rows or of those that are left.
    pub(super) fn columns(
        &self,
        chunk: &ParquetChunk,
        columns: &[&Wanted],
        left: Option<&Survivors>,
    ) -> Result<Decoded, Diagnostic> {
        let info = &chunk.open.info;
        let rows = left.map_or(chunk.rows, Survivors::count);
        if columns.is_empty() {
            return Ok(Decoded { rows, ..Decoded::default() });
        }
        let batch = guarded(|| read(chunk, columns, left)).map_err(|e| damaged(info, &e))?;
        if let Some(batch) = &batch
            && batch.num_rows() != rows
        {
            return Err(damaged(info, &format!("a row group has {} rows less than it says", rows - batch.num_rows())));
        }
        // All leaves of the batch are wanted, so a row that is only there for its parts has no others.
        let at = |column| place(info, column);
        let row_name = |row: usize| {
            let row = left.map_or(row, |left| left.row(row));
            format!("row {} of row group {}", chunk.first + row, chunk.group)
        };
        fit::columns(columns.iter().copied(), batch.as_ref(), rows, &at, &row_name)
    }
}

/// Columns of a chunk in one batch; `None` if the file has none of them.
fn read(chunk: &ParquetChunk, columns: &[&Wanted], left: Option<&Survivors>) -> Result<Option<RecordBatch>, String> {
    let OpenFile { file, metadata, .. } = &chunk.open;
    let leaves: Vec<usize> = chunk.open.leaves(columns).collect();
    if leaves.is_empty() {
        return Ok(None);
    }
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone())
        .with_row_groups(vec![chunk.group])
        .with_projection(ProjectionMask::leaves(metadata.parquet_schema(), leaves))
        .with_batch_size(chunk.rows);
    let builder = match left {
        None => builder.with_offset(chunk.first).with_limit(chunk.rows),
        Some(left) => builder
            .with_row_selection(selection(chunk.first, left.rows()))
            .with_row_selection_policy(policy(left.rows())),
    };
    let reader = builder.build().map_err(|e| e.to_string())?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    arrow_select::concat::concat_batches(&schema, &batches).map(Some).map_err(|e| e.to_string())
}

fn place(info: &FileInfo, column: Option<String>) -> Place {
    Place::Data { resource: info.path.clone(), offset: None, line: None, column }
}

fn damaged(info: &FileInfo, error: &str) -> Diagnostic {
    let error = error.trim_start_matches("Parquet error: ");
    let diagnostic = Diagnostic::new(code::MALFORMED_FILE, format!("the file is damaged or not Parquet: {error}"))
        .at(place(info, None));
    match sniffed(&info.path) {
        Some(advice) => diagnostic.advise(advice),
        None => diagnostic,
    }
}
