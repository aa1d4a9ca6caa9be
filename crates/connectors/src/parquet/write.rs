//! Writes the columns of a sink as one Parquet file.

use super::{COMPRESSION, ROW_GROUP_BYTES};
use crate::filesystem::{Output, PartWriter};
use crate::{Encoded, SinkRequest};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use millstream_types::{Diagnostic, Options, code};
use std::io::{self, Write};

/// A Parquet file being written.
pub(crate) struct ParquetWriter {
    writer: ArrowWriter<Output>,
    schema: SchemaRef,
    row_group_bytes: usize,
}

/// Compression and size of row groups, as the options say.
pub(super) fn properties(options: &Options) -> Result<(WriterProperties, usize), Diagnostic> {
    let compression = match COMPRESSION.text(options).to_ascii_uppercase().as_str() {
        "SNAPPY" => Compression::SNAPPY,
        "ZSTD" => Compression::ZSTD(ZstdLevel::default()),
        "GZIP" => Compression::GZIP(Default::default()),
        "UNCOMPRESSED" | "NONE" => Compression::UNCOMPRESSED,
        _ => return Err(options.invalid(COMPRESSION.key, "SNAPPY, ZSTD, GZIP or UNCOMPRESSED")),
    };
    let row_group_bytes = ROW_GROUP_BYTES.memory_bytes(options)?.max(1 << 16);
    let properties = WriterProperties::builder().set_compression(compression).build();
    Ok((properties, usize::try_from(row_group_bytes).unwrap_or(usize::MAX)))
}

impl ParquetWriter {
    /// Starts a file.
    pub(crate) fn new(output: Output, request: &SinkRequest) -> Result<ParquetWriter, Diagnostic> {
        let (properties, row_group_bytes) = properties(&request.options)?;
        let schema = request.schema.to_arrow();
        let writer = ArrowWriter::try_new(output, schema.clone(), Some(properties)).map_err(|e| {
            Diagnostic::new(code::UNSUPPORTED, format!("table '{}' cannot be Parquet: {e}", request.table))
        })?;
        Ok(ParquetWriter { writer, schema, row_group_bytes })
    }
}

impl PartWriter for ParquetWriter {
    fn write(&mut self, piece: Encoded) -> io::Result<()> {
        let Encoded::Columns { columns, rows } = piece else {
            return Err(io::Error::other("a Parquet file got bytes"));
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io_error)?;
        if self.writer.in_progress_size() >= self.row_group_bytes {
            self.writer.flush().map_err(io_error)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        // A Parquet file cannot be read before its end is written.
        Ok(())
    }

    fn size(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    fn finish(mut self: Box<Self>) -> io::Result<Output> {
        // `into_inner` would write the footer again, and says an error of the last write as text only.
        self.writer.finish().map_err(io_error)?;
        let mut output = self.writer.inner_mut().take()?;
        output.flush()?;
        Ok(output)
    }
}

/// The operating system's error behind an error of the library, so that its reason is shown.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
