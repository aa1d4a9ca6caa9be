//! The `parquet` format: only the columns (and nested leaves) that a query reads are fetched and decoded.

mod late_materialisation;
mod read;
#[cfg(test)]
mod tests;
mod write;

use crate::format::{FileFormat, Format};
use crate::option_table::option_list;
use crate::{ColumnEncoder, Encoder, SinkRequest};
use millstream_types::Diagnostic;
use std::sync::Arc;

pub(crate) use read::split_front;
use write::ParquetWriter;

/// The format's entry in the table of all formats.
pub(crate) const FORMAT: Format = Format {
    name: "parquet",
    summary: "Apache Parquet. Columns are found by name; one that a file does not have is NULL.",
    options: OPTIONS,
    extension: Some("parquet"),
    files: Some(FileFormat {
        open: read::open,
        encoder,
        writer: |output, request| Ok(Box::new(ParquetWriter::new(output, request)?)),
    }),
    infer: Some(read::infer),
    ..Format::NONE
};

option_list! {
    OPTIONS;
    COMPRESSION = "parquet.compression": Choice(&["SNAPPY", "ZSTD", "GZIP", "UNCOMPRESSED", "NONE"]), "SNAPPY", "Compression of a sink's pages: `SNAPPY`, `ZSTD`, `GZIP`, or `UNCOMPRESSED`, which is `NONE`.";
    ROW_GROUP_BYTES = "parquet.block.size": Size, "128MB", "Size at which a sink ends a row group.";
}

/// The encoder of a sink: columns stay columns.
fn encoder(request: &SinkRequest) -> Result<Arc<dyn Encoder>, Diagnostic> {
    write::properties(&request.options)?;
    Ok(Arc::new(ColumnEncoder))
}
