//! Standard output: text, and the rows of a SELECT in the form that was asked for.

use crate::arguments::OutputArgument;
use crate::config::text;
use crate::live::Live;
use crate::table::TableSink;
use millstream::connectors::{Sink, SinkRequest, open_sink, stdout_error};
use millstream::{Diagnostic, Options, ResultTarget, Schema, changelog};
use std::io::{IsTerminal, Write, stdout};
use std::sync::Arc;

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Diagnostic> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| stdout_error(&e))
}

/// Standard output in one of the forms.
pub(crate) struct StandardOutput {
    form: OutputArgument,
    /// Where rows are shown while they come, if they are.
    live: Option<Arc<Live>>,
}

impl StandardOutput {
    /// The form asked for, else text on a terminal and JSON lines elsewhere.
    pub(crate) fn new(form: Option<OutputArgument>) -> StandardOutput {
        let default = if stdout().is_terminal() { OutputArgument::Text } else { OutputArgument::Json };
        let form = form.unwrap_or(default);
        let live = (form == OutputArgument::Live && stdout().is_terminal()).then(Arc::<Live>::default);
        StandardOutput { form, live }
    }

    /// The table that stays where it is, if that is the form.
    pub(crate) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// Whether what is printed is for people.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.form, OutputArgument::Text | OutputArgument::Live)
    }
}

impl ResultTarget for StandardOutput {
    fn open_changing(&mut self, schema: &Schema, key: Option<&[usize]>) -> Result<Box<dyn Sink>, Diagnostic> {
        match &self.live {
            Some(live) => Ok(live.sink_of_changes(schema, key)),
            None => changelog(self, schema),
        }
    }

    fn open(&mut self, schema: &Schema) -> Result<Box<dyn Sink>, Diagnostic> {
        if let Some(live) = &self.live {
            return Ok(live.sink(schema));
        }
        if self.is_text() {
            return Ok(Box::new(TableSink::new(schema)));
        }
        let mut options = Options::new();
        options.set("connector", "filesystem");
        options.set("path", "-");
        // The other forms are called as the formats are.
        options.set("format", text(self.form));
        if self.form == OutputArgument::Csv {
            options.set("csv.header", "true");
        }
        open_sink(&SinkRequest {
            table: "result".into(),
            options,
            schema: schema.clone(),
            metadata: vec![],
            primary_key: vec![],
            changes: None,
        })
    }
}
