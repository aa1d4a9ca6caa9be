//! The `print` connector: rows on standard output as Flink prints them, `+I[1, a, NULL]`.
//!
//! Of a result that changes each row is printed with what it does: `-U[1, a]` is replaced by the `+U[1, b]` behind it, `-D[1, b]` is gone.

use crate::changes::parted;
use crate::declaration::Connector;
use crate::option_table::option_list;
use crate::{Encoded, Encoder, Sink, SinkRequest, display, stdout_error};
use arrow_array::ArrayRef;
use millstream_types::{Diagnostic, RowKind, Schema, TakesChanges};
use std::io::{Write, stderr, stdout};
use std::sync::Arc;

option_list! {
    OPTIONS;
    IDENTIFIER = "print-identifier": Text, "", "Text before each line, followed by `> `";
    TO_STDERR = "standard-error": Bool, "false", "Print to standard error instead";
    BEATS = "print-beats": Bool, "false",
        "Print the line `-- beat 3` behind the changes of each beat: what stands before it is the result for a prefix of the input. For queries whose \
         results change";
}

/// The entry of the registry.
pub(crate) const CONNECTOR: Connector = Connector {
    name: "print",
    summary: "Prints rows as Flink does: `+I[1, a, NULL]`.",
    options: OPTIONS,
    sink: Some(open_sink),
    changes: |_| TakesChanges::Anything,
    ..Connector::NEITHER
};

fn open_sink(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let prefix = match IDENTIFIER.text(&request.options) {
        "" => String::new(),
        identifier => format!("{identifier}> "),
    };
    let output: Box<dyn Write + Send> =
        if TO_STDERR.boolean(&request.options)? { Box::new(stderr()) } else { Box::new(stdout()) };
    Ok(Box::new(Print::new(request, prefix, output)?))
}

struct Print {
    output: Box<dyn Write + Send>,
    encoder: Arc<RowText>,
    shows_beats: bool,
    /// Those that have ended.
    beats: u64,
}

impl Print {
    fn new(request: &SinkRequest, prefix: String, output: Box<dyn Write + Send>) -> Result<Print, Diagnostic> {
        let shows_beats = BEATS.boolean(&request.options)?;
        let row = RowText { prefix, schema: request.schema.clone(), changes: request.changes.is_some() };
        Ok(Print { output, encoder: Arc::new(row), shows_beats, beats: 0 })
    }
}

struct RowText {
    prefix: String,
    schema: Schema,
    /// Whether the last column is the kind of change.
    changes: bool,
}

impl Encoder for RowText {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        let (columns, kinds) = parted(columns, self.changes)?;
        let mut data = Vec::new();
        for row in 0..rows {
            let kind = kinds.as_ref().map_or(RowKind::Insert, |kinds| kinds[row]);
            data.extend_from_slice(self.prefix.as_bytes());
            data.extend_from_slice(kind.text().as_bytes());
            data.push(b'[');
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

    fn end_beat(&mut self) -> Result<(), Diagnostic> {
        if self.shows_beats {
            self.beats += 1;
            let (prefix, beat) = (&self.encoder.prefix, self.beats);
            writeln!(self.output, "{prefix}-- beat {beat}").map_err(|e| stdout_error(&e))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        self.output.flush().map_err(|e| stdout_error(&e))
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChangedBy, locked};
    use arrow_array::{Int8Array, Int64Array, StringViewArray};
    use millstream_types::{DataType, Field};
    use std::io;
    use std::sync::Mutex;

    /// What was printed.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            locked(&self.0).write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const KINDS: [&[RowKind]; 4] =
        [&[RowKind::Insert, RowKind::Insert], &[], &[RowKind::UpdateBefore, RowKind::UpdateAfter], &[RowKind::Delete]];

    /// What is printed of the changes of some beats, each in one piece.
    fn printed(options: &[(&str, &str)], changes: bool) -> String {
        let fields = vec![Field::new("k", DataType::STRING, true), Field::new("n", DataType::BigInt, true)];
        let request = SinkRequest {
            table: "t".into(),
            options: options.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            schema: Schema::new(fields),
            metadata: vec![],
            primary_key: vec![],
            changes: changes.then(|| ChangedBy { key: Some(vec![0]) }),
        };
        let paper = Paper::default();
        let mut sink = Print::new(&request, "p> ".into(), Box::new(paper.clone())).unwrap();
        for kinds in KINDS {
            let keys = (0..kinds.len()).map(|row| (row > 0).then_some("a"));
            let mut columns: Vec<ArrayRef> = vec![
                Arc::new(StringViewArray::from_iter(keys)),
                Arc::new(Int64Array::from_iter_values((0..).take(kinds.len()))),
            ];
            if changes {
                columns.push(Arc::new(Int8Array::from_iter_values(kinds.iter().map(|kind| *kind as i8))));
            }
            sink.write(sink.encoder().encode(&columns, kinds.len()).unwrap()).unwrap();
            if changes {
                sink.end_beat().unwrap();
            }
        }
        String::from_utf8(locked(&paper.0).clone()).unwrap()
    }

    #[test]
    fn changes_are_printed_with_what_they_do() {
        let lines = ["p> +I[NULL, 0]", "p> +I[a, 1]", "p> -U[NULL, 0]", "p> +U[a, 1]", "p> -D[NULL, 0]"];
        assert_eq!(printed(&[], true).lines().collect::<Vec<_>>(), lines);
        let added = ["p> +I[NULL, 0]", "p> +I[a, 1]", "p> +I[NULL, 0]", "p> +I[a, 1]", "p> +I[NULL, 0]"];
        assert_eq!(printed(&[("print-beats", "true")], false).lines().collect::<Vec<_>>(), added);
    }

    #[test]
    fn beats_end_with_a_line() {
        let text = printed(&[("print-beats", "true")], true);
        let beats = [(2, "p> -- beat 1"), (3, "p> -- beat 2"), (6, "p> -- beat 3"), (8, "p> -- beat 4")];
        let lines: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, line)| line.contains("--")).collect();
        assert_eq!(lines, beats);
        assert_eq!(text.lines().count(), 9);
    }
}
