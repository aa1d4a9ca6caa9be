//! The CSV decoder: fields by position, only the wanted ones converted.
//!
//! A quote opens a quoted field only at the field's start, and after the closing quote only a delimiter may follow; so a
//! stray quote spoils its own record only. After a malformed record decoding continues at the next line.

use super::{Dialect, IGNORE_ERRORS};
use crate::format::RecordDecoder;
use crate::text_chunk::{Framing, TextChunk, excerpt};
use crate::values::{ColumnBuilder, Values};
use crate::{ColumnRequest, Decoded, RequestOrigin, SourceRequest};
use crate::{times, unfit};
use millstream_types::{Code, DataType, Diagnostic, Place, code, counted};
use std::borrow::Cow;

pub(super) struct CsvColumn {
    pub(super) name: String,
    data_type: DataType,
    pub(super) nullable: bool,
    /// Position of the field, then of parts within rows.
    path: Vec<usize>,
}

/// A decoder for one table and the columns that a query wants of it.
pub(super) struct CsvDecoder {
    fields: usize,
    pub(super) columns: Vec<CsvColumn>,
    /// For each field of a record the columns that read it.
    readers: Vec<Vec<usize>>,
    dialect: Dialect,
    ignore_errors: bool,
}

pub(super) struct CsvFailure {
    code: Code,
    message: String,
    column: Option<String>,
    /// What to write in the table instead.
    advice: Option<String>,
}

pub(super) fn malformed(message: impl Into<String>) -> CsvFailure {
    CsvFailure { code: code::MALFORMED_RECORD, message: message.into(), column: None, advice: None }
}

/// A field as it stands in the chunk.
struct RawField {
    start: usize,
    end: usize,
    quoted: bool,
    /// Whether quotes are doubled or characters escaped within.
    altered: bool,
}

impl CsvDecoder {
    pub(super) fn new(request: &SourceRequest) -> Result<CsvDecoder, Diagnostic> {
        let (dialect, fields) = (Dialect::of(&request.options)?, request.schema.fields.len());
        let ignore_errors = IGNORE_ERRORS.boolean(&request.options)?;
        let mut readers = vec![Vec::new(); fields];
        let mut columns = Vec::new();
        for request in &request.columns {
            let RequestOrigin::Path(path) = &request.origin else { continue };
            let ColumnRequest { name, data_type, nullable, .. } = request.clone();
            super::check_type(&data_type, &name)?;
            let reader = path.first().and_then(|field| readers.get_mut(*field));
            let reader = reader.ok_or_else(|| Diagnostic::bug(format!("column {name} is not in the schema")))?;
            reader.push(columns.len());
            columns.push(CsvColumn { name, data_type, nullable, path: path.clone() });
        }
        Ok(CsvDecoder { fields, columns, readers, dialect, ignore_errors })
    }
}

impl RecordDecoder for CsvDecoder {
    fn decode(&self, chunk: &TextChunk) -> Decoded {
        let text = simdutf8::basic::from_utf8(&chunk.data).ok();
        let mut state = match CsvDecoding::new(self, &chunk.data, text, chunk.data.len() / 64 + 16) {
            Ok(state) => state,
            Err(error) => return Decoded::failed(error),
        };
        let diagnostic = |(at, failure): (usize, CsvFailure)| {
            failure.diagnostic(&chunk.data[at..], |column| chunk.place(at, column))
        };
        let error = state.records().err().map(diagnostic);
        let columns = state.builders.into_iter().map(|builder| builder.finish(&chunk.data)).collect();
        let skipped_for = state.first_skipped.map(diagnostic);
        Decoded::of(columns, state.rows, state.skipped, error).because(skipped_for)
    }
}

impl CsvFailure {
    /// The failure of the record that `text` begins with, whose place is known by its column.
    pub(super) fn diagnostic(self, text: &[u8], place: impl Fn(Option<String>) -> Place) -> Diagnostic {
        let place = place(self.column);
        if self.code != code::MALFORMED_RECORD {
            let diagnostic = Diagnostic::new(self.code, self.message).at(place);
            return match self.advice {
                Some(advice) => diagnostic.advise(advice),
                None => diagnostic,
            };
        }
        let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
        let advice = match self.message.as_str() {
            m if m.contains("UTF-8") => "convert the file: iconv -f latin1 -t utf-8 old.csv > new.csv",
            m if m.contains("not closed") || m.contains("closing quote") => {
                "close the quote, or write 'csv.disable-quote-character' = 'true' in the WITH of the table if quotes are plain characters"
            }
            _ => {
                "correct the record, or declare the columns that the file has: `millstream schema FILE` prints them; \
                 'csv.ignore-parse-errors' = 'true' leaves such records out"
            }
        };
        Diagnostic::new(self.code, format!("malformed CSV: {} (in '{}')", self.message, excerpt(line)))
            .at(place)
            .advise(advice)
    }
}

pub(super) struct CsvDecoding<'a> {
    pub(super) plan: &'a CsvDecoder,
    /// The chunk, or as much of it as may be looked at.
    pub(super) data: &'a [u8],
    /// The chunk as text, unless some byte is not UTF-8.
    text: Option<&'a str>,
    pub(super) builders: Vec<ColumnBuilder>,
    pub(super) rows: usize,
    skipped: u64,
    /// The first of those, and where it is.
    first_skipped: Option<(usize, CsvFailure)>,
}

impl<'a> CsvDecoding<'a> {
    /// Nothing decoded yet, and room for some rows.
    pub(super) fn new(
        plan: &'a CsvDecoder,
        data: &'a [u8],
        text: Option<&'a str>,
        rows: usize,
    ) -> Result<CsvDecoding<'a>, Diagnostic> {
        let builders = plan.columns.iter().map(|c| ColumnBuilder::new(&c.data_type, rows));
        Ok(CsvDecoding {
            plan,
            data,
            text,
            builders: builders.collect::<Result<_, _>>()?,
            rows: 0,
            skipped: 0,
            first_skipped: None,
        })
    }

    fn records(&mut self) -> Result<(), (usize, CsvFailure)> {
        let mut at = 0;
        while at < self.data.len() {
            let byte = self.data[at];
            if byte == b'\n' || (byte == b'\r' && matches!(self.data.get(at + 1), None | Some(b'\n'))) {
                at += 1;
                continue;
            }
            if self.plan.dialect.framing.comment == Some(byte) {
                at = self.next_line(at);
                continue;
            }
            match self.record(at) {
                Ok(end) => {
                    self.rows += 1;
                    at = end;
                }
                Err(failure) => {
                    self.undo();
                    if !self.plan.ignore_errors {
                        return Err((at, failure));
                    }
                    self.skipped += 1;
                    self.first_skipped.get_or_insert((at, failure));
                    at = self.next_line(at);
                }
            }
        }
        Ok(())
    }

    /// Forgets what was decoded of a record that has failed.
    pub(super) fn undo(&mut self) {
        for builder in &mut self.builders {
            builder.truncate(self.rows);
        }
    }

    fn next_line(&self, at: usize) -> usize {
        memchr::memchr(b'\n', &self.data[at..]).map_or(self.data.len(), |feed| at + feed + 1)
    }

    /// Decodes the record at `at`; gives the position behind it.
    pub(super) fn record(&mut self, mut at: usize) -> Result<usize, CsvFailure> {
        let plan = self.plan;
        let mut count = 0;
        loop {
            let (field, next, last) = self.field(at)?;
            match plan.readers.get(count) {
                None => return Err(malformed(format!("there are more than the {} fields of the table", plan.fields))),
                Some(readers) => {
                    for &column in readers {
                        self.column(column, &field)?;
                    }
                }
            }
            count += 1;
            at = next;
            if last {
                break;
            }
        }
        if count < plan.fields {
            if !plan.ignore_errors {
                return Err(malformed(format!(
                    "the record has {}, but the table has {}",
                    counted(count, "field"),
                    plan.fields
                )));
            }
            for (builder, column) in self.builders.iter_mut().zip(&plan.columns) {
                if builder.len() == self.rows {
                    null(builder, column)?;
                }
            }
        }
        Ok(at)
    }

    /// Finds the field at `at`; gives it, the position of the next one, and whether it was the record's last.
    fn field(&self, at: usize) -> Result<(RawField, usize, bool), CsvFailure> {
        if self.data.get(at).copied() == self.plan.dialect.framing.quote && self.plan.dialect.framing.quote.is_some() {
            return self.quoted_field(at + 1);
        }
        let Framing { delimiter, escape, .. } = self.plan.dialect.framing;
        let mut end = at;
        let mut altered = false;
        loop {
            let rest = &self.data[end..];
            let found = match escape {
                Some(escape) => memchr::memchr3(delimiter, b'\n', escape, rest),
                None => memchr::memchr2(delimiter, b'\n', rest),
            };
            end = found.map_or(self.data.len(), |found| end + found);
            if end < self.data.len() && escape == Some(self.data[end]) {
                altered = true;
                end = (end + 2).min(self.data.len());
                continue;
            }
            break;
        }
        let last = self.data.get(end) != Some(&delimiter);
        let next = (end + 1).min(self.data.len());
        let end = if last && end > at && self.data[end - 1] == b'\r' { end - 1 } else { end };
        Ok((RawField { start: at, end, quoted: false, altered }, next, last))
    }

    fn quoted_field(&self, start: usize) -> Result<(RawField, usize, bool), CsvFailure> {
        let Framing { delimiter, escape, quote, .. } = self.plan.dialect.framing;
        let quote = quote.expect("called at a quote");
        let mut end = start;
        let mut altered = false;
        loop {
            let rest = &self.data[end..];
            let found = memchr::memchr2(quote, escape.unwrap_or(quote), rest);
            end += found.ok_or_else(|| malformed("a quoted field is not closed"))?;
            if escape == Some(self.data[end]) || self.data.get(end + 1) == Some(&quote) {
                altered = true;
                end = (end + 2).min(self.data.len());
            } else {
                break;
            }
        }
        let mut behind = end + 1;
        if self.data.get(behind) == Some(&b'\r') && matches!(self.data.get(behind + 1), None | Some(b'\n')) {
            behind += 1;
        }
        let field = RawField { start, end, quoted: true, altered };
        match self.data.get(behind) {
            None => Ok((field, behind, true)),
            Some(b'\n') => Ok((field, behind + 1, true)),
            Some(byte) if *byte == delimiter => Ok((field, behind + 1, false)),
            Some(_) => Err(malformed("text follows the closing quote of a field")),
        }
    }

    fn column(&mut self, position: usize, field: &RawField) -> Result<(), CsvFailure> {
        let column = &self.plan.columns[position];
        let raw = match self.text {
            Some(text) => &text[field.start..field.end],
            None => {
                std::str::from_utf8(&self.data[field.start..field.end]).map_err(|_| malformed("a byte is not UTF-8"))?
            }
        };
        let builder = &mut self.builders[position];
        if !field.quoted && is_null(raw, &self.plan.dialect, &self.plan.columns[position]) {
            return null(builder, column);
        }
        if let (Values::String(values), 1, false) = (&mut builder.values, column.path.len(), field.altered) {
            values.push_in_chunk(raw.as_bytes(), field.start);
            builder.mark_valid();
            return Ok(());
        }
        let text = if field.altered { unescaped(raw, &self.plan.dialect, field.quoted) } else { Cow::Borrowed(raw) };
        let part = part(&text, &column.path[1..], &self.plan.dialect.element_delimiter);
        let rows = builder.len();
        match part.map(|part| push(builder, part, &self.plan.dialect)) {
            None => null(builder, column),
            Some(Some(())) => Ok(()),
            Some(None) => {
                builder.truncate(rows);
                if self.plan.ignore_errors {
                    return null(builder, column);
                }
                let message = format!("'{}' cannot be read as {}", excerpt(text.as_bytes()), column.data_type);
                let advice = Some(unfit_advice(&text, column, &self.plan.dialect, self.plan.columns.len() == 1));
                Err(CsvFailure { code: code::WRONG_TYPE, message, column: Some(column.name.clone()), advice })
            }
        }
    }
}

/// What to declare for a field that is not of its column's type.
fn unfit_advice(text: &str, column: &CsvColumn, dialect: &Dialect, is_only: bool) -> String {
    let text = text.trim();
    if text.eq_ignore_ascii_case(&column.name) {
        return "the record looks like a header: add 'csv.header' = 'true' to the WITH of the table".into();
    }
    let other = [(";", ";"), ("\t", "\\t"), ("|", "|")].into_iter().find(|(other, _)| text.contains(other));
    if let (Some((_, other)), false) = (other, is_only)
        && dialect.framing.delimiter == b','
    {
        return format!(
            "the fields look separated by '{other}': add 'csv.field-delimiter' = '{other}' to the WITH of the table"
        );
    }
    times::remedy(text, &column.data_type, &column.name, "csv")
        .unwrap_or_else(|| unfit::remedy(text, &column.data_type.to_string(), &column.name))
}

/// Whether an unquoted field is NULL: the null literal, or nothing where a value of another type than STRING is due.
fn is_null(text: &str, dialect: &Dialect, column: &CsvColumn) -> bool {
    let string = column.path.len() == 1 && column.data_type.is_string();
    dialect.null_literal.as_deref() == Some(text) || (!string && text.is_empty())
}

pub(super) fn null(builder: &mut ColumnBuilder, column: &CsvColumn) -> Result<(), CsvFailure> {
    if !column.nullable {
        let message = "a NOT NULL column has no value in the record".to_string();
        let column = Some(column.name.clone());
        let advice = Some(unfit::null_remedy(column.as_deref().unwrap_or_default()));
        return Err(CsvFailure { code: code::NULL_IN_NOT_NULL, message, column, advice });
    }
    builder.push_null();
    Ok(())
}

/// The part of a nested row's text at `path`.
fn part<'t>(text: &'t str, path: &[usize], delimiter: &str) -> Option<&'t str> {
    path.iter().try_fold(text, |text, position| text.split(delimiter).nth(*position))
}

/// Appends a value; `None`, with the builder in disorder, if the text stands for none.
fn push(builder: &mut ColumnBuilder, text: &str, dialect: &Dialect) -> Option<()> {
    let parts = || text.split(dialect.element_delimiter.as_str());
    match &mut builder.values {
        Values::List(ends, elements) => {
            if !text.is_empty() {
                parts().try_for_each(|part| push_or_null(elements, part, dialect))?;
            }
            ends.push(elements.len() as i32);
            builder.mark_valid();
            Some(())
        }
        Values::Row(children) => {
            if parts().count() != children.len() {
                return None;
            }
            children.iter_mut().zip(parts()).try_for_each(|(child, part)| push_or_null(child, part, dialect))?;
            builder.mark_valid();
            Some(())
        }
        _ => builder.push_text(text, dialect.timestamps),
    }
}

fn push_or_null(builder: &mut ColumnBuilder, text: &str, dialect: &Dialect) -> Option<()> {
    let empty = text.is_empty() && !builder.data_type.is_string();
    if empty || dialect.null_literal.as_deref() == Some(text) {
        builder.push_null();
        return Some(());
    }
    push(builder, text, dialect)
}

/// The text of a field without doubled quotes and escape characters.
fn unescaped<'t>(text: &'t str, dialect: &Dialect, quoted: bool) -> Cow<'t, str> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    let special = |c: char, byte: Option<u8>| byte.is_some_and(|byte| char::from(byte) == c);
    while let Some(c) = characters.next() {
        if special(c, dialect.framing.escape) || (quoted && special(c, dialect.framing.quote)) {
            out.extend(characters.next());
        } else {
            out.push(c);
        }
    }
    out.into()
}
