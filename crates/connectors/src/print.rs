//! The `print` connector: rows on standard output as Flink prints them, `+I[1, a, NULL]`.

use crate::declaration::Connector;
use crate::option_table::option_list;
use crate::{Encoded, Encoder, Sink, SinkRequest, display, stdout_error};
use arrow_array::ArrayRef;
use millstream_types::{Diagnostic, Schema};
use std::io::{Write, stderr, stdout};
use std::sync::Arc;

option_list! {
    OPTIONS;
    "print-identifier": Text, "", "Text before each row, followed by `> `";
    TO_STDERR = "standard-error": Bool, "false", "Print to standard error instead";
}

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "print",
    summary: "Prints rows as Flink does: `+I[1, a, NULL]`.",
    options: OPTIONS,
    sink: Some(open_sink),
    ..Connector::NEITHER
};

fn open_sink(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let prefix = match request.options.get("print-identifier") {
        Some(identifier) if !identifier.is_empty() => format!("{identifier}> "),
        _ => String::new(),
    };
    let output: Box<dyn Write + Send> =
        if TO_STDERR.boolean(&request.options)? { Box::new(stderr()) } else { Box::new(stdout()) };
    Ok(Box::new(Print { output, encoder: Arc::new(RowText { prefix, schema: request.schema.clone() }) }))
}

struct Print {
    output: Box<dyn Write + Send>,
    encoder: Arc<RowText>,
}

struct RowText {
    prefix: String,
    schema: Schema,
}

impl Encoder for RowText {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let mut data = Vec::new();
        for row in 0..rows {
            data.extend_from_slice(self.prefix.as_bytes());
            data.extend_from_slice(b"+I[");
            for (i, (column, field)) in columns.iter().zip(&self.schema.fields).enumerate() {
                if i > 0 {
                    data.extend_from_slice(b", ");
                }
                display::write_value(&mut data, column.as_ref(), row, &field.data_type);
            }
            data.extend_from_slice(b"]\n");
        }
        Ok(Encoded::Bytes { data, rows })
    }
}

impl Sink for Print {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.output.write_all(&piece.into_bytes()?).map_err(|e| stdout_error(&e))
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.output.flush().map_err(|e| stdout_error(&e))
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        self.flush()
    }
}
