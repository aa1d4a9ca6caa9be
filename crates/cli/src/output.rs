//! Where the rows of a SELECT go: to standard output, in the form that was asked for.

use crate::arguments::OutputArgument;
use crate::table::TableSink;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use millstream::connectors::{ColumnEncoder, Encoded, Encoder, Sink, SinkRequest, open_sink, stdout_error};
use millstream::{Diagnostic, Options, ResultTarget, Schema, code};
use std::io::{IsTerminal, Stdout, Write, stdout};
use std::sync::Arc;

/// Standard output in one of the forms.
pub(crate) struct StandardOutput {
    form: OutputArgument,
}

impl StandardOutput {
    /// The form asked for, else text on a terminal and JSON lines elsewhere.
    pub(crate) fn new(form: Option<OutputArgument>) -> StandardOutput {
        let default = if stdout().is_terminal() { OutputArgument::Text } else { OutputArgument::Json };
        StandardOutput { form: form.unwrap_or(default) }
    }

    /// Whether what is printed is for people.
    pub(crate) fn is_text(&self) -> bool {
        self.form == OutputArgument::Text
    }
}

impl ResultTarget for StandardOutput {
    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        let format = match self.form {
            OutputArgument::Text => return Ok(Box::new(TableSink::new(schema))),
            OutputArgument::Arrow => return Ok(Box::new(ArrowSink::new(schema)?)),
            OutputArgument::Json => "json",
            OutputArgument::Csv => "csv",
            OutputArgument::Parquet => "parquet",
        };
        let mut options = Options::new();
        options.set("connector", "filesystem");
        options.set("path", "-");
        options.set("format", format);
        if self.form == OutputArgument::Csv {
            options.set("csv.header", "true");
        }
        open_sink(&SinkRequest { table: "result".into(), options, schema: schema.clone() })
    }
}

/// An Arrow IPC stream.
struct ArrowSink {
    schema: SchemaRef,
    writer: StreamWriter<Stdout>,
}

impl ArrowSink {
    fn new(schema: &Schema) -> Result<ArrowSink, Diagnostic> {
        let schema = schema.to_arrow();
        let writer = StreamWriter::try_new(stdout(), &schema).map_err(failed)?;
        Ok(ArrowSink { schema, writer })
    }
}

impl Sink for ArrowSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        let Encoded::Columns { columns, rows } = piece else {
            return Err(Diagnostic::bug("encoded bytes reached the Arrow stream"));
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(failed)?;
        self.writer.write(&batch).map_err(failed)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.writer.get_mut().flush().map_err(|e| failed(ArrowError::from(e)))
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        self.writer.finish().map_err(failed)?;
        self.flush()
    }
}

fn failed(error: ArrowError) -> Diagnostic {
    match error {
        ArrowError::IoError(_, error) => stdout_error(&error),
        other => Diagnostic::new(code::WRITE_FAILED, format!("the Arrow stream cannot be written: {other}")),
    }
}
