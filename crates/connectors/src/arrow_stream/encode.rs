//! Columns of a sink → an Arrow stream.

use crate::format::StreamOutput;
use crate::{Encoded, Encoder, SinkRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use millstream_types::{Diagnostic, code};
use std::sync::Arc;

/// A header of length 0.
const END: &[u8] = b"\xff\xff\xff\xff\0\0\0\0";

/// How a sink's stream is written.
pub(crate) fn output(request: &SinkRequest) -> Result<StreamOutput, Diagnostic> {
    let schema = request.schema.to_arrow();
    let options = IpcWriteOptions::default();
    let mut tracker = DictionaryTracker::new(false);
    let message = IpcDataGenerator {}.schema_to_bytes_with_dictionary_tracker(&schema, &mut tracker, &options);
    let header = bytes(message).map_err(|e| {
        Diagnostic::new(code::UNSUPPORTED, format!("table '{}' cannot be written as Arrow: {e}", request.table))
    })?;
    Ok(StreamOutput { encoder: Arc::new(ArrowEncoder { schema }), header, trailer: END })
}

/// Makes a message of each piece.
struct ArrowEncoder {
    schema: SchemaRef,
}

impl Encoder for ArrowEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let message = || {
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let columns = columns.iter().map(compact).collect();
            let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
            let (mut tracker, options) = (DictionaryTracker::new(false), IpcWriteOptions::default());
            let mut context = IpcWriteContext::default();
            let (_, message) = IpcDataGenerator {}.encode(&batch, &mut tracker, &options, &mut context)?;
            bytes(message)
        };
        match message() {
            Ok(data) => Ok(Encoded::Bytes { data, rows }),
            Err(e) => Err(Diagnostic::new(code::WRITE_FAILED, format!("rows cannot be written as Arrow: {e}"))),
        }
    }
}

fn bytes(message: EncodedData) -> Result<Vec<u8>, ArrowError> {
    let mut out = Vec::with_capacity(message.ipc_message.len() + message.arrow_data.len() + 16);
    write_message(&mut out, message, &IpcWriteOptions::default())?;
    Ok(out)
}

fn compact(column: &ArrayRef) -> ArrayRef {
    let compacted = match column.data_type() {
        DataType::Utf8View => compacted(column.as_string_view()),
        DataType::BinaryView => compacted(column.as_binary_view()),
        _ => None,
    };
    compacted.unwrap_or_else(|| column.clone())
}

/// Views may point into blocks of which they use little; a stream would carry all of them.
fn compacted<T: ByteViewType>(views: &GenericByteViewArray<T>) -> Option<ArrayRef> {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.len()).sum();
    (held > 2 * views.total_buffer_bytes_used()).then(|| Arc::new(views.gc()) as ArrayRef)
}
