//! Which columns CSV has: delimiter, header, names and types, found in the first records.

use super::{COMMENTS, DELIMITER, HEADER, NULL_LITERAL, QUOTE, WITHOUT_QUOTES, character};
use crate::infer::{Enough, FormatInput, RECORDS, ScalarKind, Scalars, event_time};
use crate::records::{Framer, TextFramer};
use crate::text_chunk::Framing;
use crate::times;
use millstream_types::{DataType, Diagnostic, Field, Inferred, code};
use std::collections::HashSet;

/// What may stand between fields, the likeliest first.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Records by which delimiters are compared.
const COMPARED: usize = 1_000;

/// A field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    text: String,
    is_quoted: bool,
}

/// What ends fields and records.
#[derive(Debug, Clone, Copy)]
struct Marks {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
}

/// The columns of the first records.
pub(super) fn infer(input: &FormatInput<'_>) -> Result<Inferred, Diagnostic> {
    let options = input.options;
    let quote =
        if WITHOUT_QUOTES.boolean(options)? { None } else { Some(character(options, QUOTE.key)?.unwrap_or(b'"')) };
    let escape = character(options, super::ESCAPE.key)?;
    let given = character(options, DELIMITER.key)?;
    let mut text = Vec::new();
    // One file says it: the header of the next one would be a record.
    let framer = |info| Box::new(TextFramer::new(info, Framing::default())) as Box<dyn Framer>;
    input.each_text(framer, |piece| {
        text.extend_from_slice(&piece.text);
        Ok(if piece.is_last { Enough::Yes } else { Enough::No })
    })?;
    let has_comments = options.get(COMMENTS.key).is_none() && text.starts_with(b"#") || COMMENTS.boolean(options)?;
    let marks = |delimiter| Marks { delimiter, quote, escape, comment: has_comments.then_some(b'#') };
    let delimiter = match given {
        Some(delimiter) => delimiter,
        None => likeliest(&text, marks),
    };
    let mut records = split(&text, marks(delimiter), RECORDS + 1);
    let Some(width) = usual_width(&records) else {
        return Err(input.without_records());
    };
    records.retain(|record| record.len() == width);
    let null_literal = options.get(NULL_LITERAL.key);
    let is_null = |cell: &Cell| !cell.is_quoted && (cell.text.is_empty() || null_literal == Some(cell.text.as_str()));
    let style = times::timestamp_style(options, "csv")?;
    let kinds = |records: &[Vec<Cell>], column: usize| {
        let mut scalars = Scalars::default();
        let mut nulls = 0;
        for cell in records.iter().map(|record| &record[column]) {
            if is_null(cell) { nulls += 1 } else { count_in(&mut scalars, cell) }
        }
        (scalars, nulls)
    };
    let has_header = match options.get(HEADER.key) {
        Some(_) => HEADER.boolean(options)?,
        None => is_header(&records, |column| kinds(&records[1..], column).0.data_type()),
    };
    let names = if has_header { names(&records.remove(0)) } else { (0..width).map(|i| format!("column{i}")).collect() };
    let found: Vec<(Scalars, usize)> = (0..width).map(|column| kinds(&records, column)).collect();
    let columns: Vec<Field> = names
        .into_iter()
        .zip(&found)
        .map(|(name, (scalars, _))| Field::new(name, scalars.data_type_in(style), true))
        .collect();
    let event_time = event_time(&columns, |i| {
        let (scalars, nulls) = &found[i];
        (*nulls == 0).then(|| scalars.delay())
    });
    let mut needed = Vec::new();
    if given.is_none() && delimiter != b',' {
        let text = if delimiter == b'\t' { "\\t".to_string() } else { char::from(delimiter).to_string() };
        needed.push((DELIMITER.key.to_string(), text));
    }
    if has_header && options.get(HEADER.key).is_none() {
        needed.push((HEADER.key.to_string(), "true".into()));
    }
    if has_comments && options.get(COMMENTS.key).is_none() {
        needed.push((COMMENTS.key.to_string(), "true".into()));
    }
    Ok(Inferred { options: needed, event_time, ..Inferred::of_columns(columns) })
}

/// A quoted field may be a time or a number as well: many programs quote all.
fn count_in(scalars: &mut Scalars, cell: &Cell) {
    match ScalarKind::of_text(&cell.text) {
        ScalarKind::Integer => match cell.text.parse() {
            Ok(value) => scalars.add_integer(value),
            Err(_) => scalars.add(ScalarKind::Text),
        },
        ScalarKind::Fraction => match cell.text.parse() {
            Ok(value) => scalars.add_fraction(value),
            Err(_) => scalars.add(ScalarKind::Text),
        },
        kind => scalars.add(kind),
    }
}

/// The delimiter by which most records have the same number of fields, more than one.
fn likeliest(text: &[u8], marks: impl Fn(u8) -> Marks) -> u8 {
    let score = |delimiter: u8| {
        let records = split(text, marks(delimiter), COMPARED);
        let width = usual_width(&records).unwrap_or(0);
        let alike = records.iter().filter(|record| record.len() == width).count();
        if width > 1 { (alike * 1_000 / records.len().max(1), width) } else { (0, 0) }
    };
    // Of equals the first: `max_by_key` would take the last.
    DELIMITERS.into_iter().rev().max_by_key(|delimiter| score(*delimiter)).unwrap_or(b',')
}

/// How many fields most records have.
fn usual_width(records: &[Vec<Cell>]) -> Option<usize> {
    let mut widths: Vec<usize> = records.iter().map(Vec::len).collect();
    widths.sort_unstable();
    widths.chunk_by(|a, b| a == b).max_by_key(|alike| (alike.len(), alike[0])).map(|alike| alike[0])
}

/// Whether the first record names the columns: it has names where the others have values of a type. Where all are texts nothing tells,
/// and most files have a header.
fn is_header(records: &[Vec<Cell>], type_of_rest: impl Fn(usize) -> DataType) -> bool {
    let Some(first) = records.first() else { return false };
    let mut seen = HashSet::new();
    let are_names = first.iter().all(|cell| {
        let is_text = matches!(ScalarKind::of_text(&cell.text), ScalarKind::Text);
        is_text && !cell.text.trim().is_empty() && seen.insert(cell.text.trim())
    });
    if are_names {
        return true;
    }
    // A column without a name, as that of the row numbers that pandas writes.
    let types: Vec<DataType> = (0..first.len()).map(type_of_rest).collect();
    let differs = |cell: &Cell, data_type: &DataType| {
        !data_type.is_string() && !cell.text.is_empty() && matches!(ScalarKind::of_text(&cell.text), ScalarKind::Text)
    };
    records.len() > 1 && first.iter().zip(&types).any(|(cell, data_type)| differs(cell, data_type))
}

/// Fails if a header has a column's name at another place than the table: columns go by place.
pub(super) fn check_header(header: &[u8], framing: &Framing, columns: &[String]) -> Result<(), Diagnostic> {
    let Framing { delimiter, quote, escape, .. } = *framing;
    let Some((cells, _)) = record(header, 0, Marks { delimiter, quote, escape, comment: None }) else { return Ok(()) };
    let names: Vec<&str> = cells.iter().map(|cell| cell.text.trim()).collect();
    let is_elsewhere = |(i, name): (usize, &&str)| {
        let is_unique = names.iter().filter(|other| other == &name).count() == 1;
        is_unique && columns.get(i).is_none_or(|column| column != name) && columns.iter().any(|column| column == name)
    };
    match names.iter().enumerate().find(|(i, name)| is_elsewhere((*i, name))) {
        None => Ok(()),
        Some((i, name)) => {
            let message = format!("the header has `{name}` as column {}, where the table has another", i + 1);
            let advice = format!(
                "columns of CSV go by their place: list those of the table as the header does: {}",
                names.join(", ")
            );
            Err(Diagnostic::new(code::MALFORMED_RECORD, message).advise(advice))
        }
    }
}

/// The names in a header, without those that occur twice or are empty.
fn names(header: &[Cell]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(header.len());
    for (i, cell) in header.iter().enumerate() {
        let name = match cell.text.trim() {
            "" => format!("column{i}"),
            name => name.to_string(),
        };
        let mut unique = name.clone();
        let mut number = 1;
        while !taken.insert(unique.clone()) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        names.push(unique);
    }
    names
}

/// The first records, blank and comment lines left out. One that is not closed where the text ends is left out, too.
fn split(text: &[u8], marks: Marks, most: usize) -> Vec<Vec<Cell>> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < text.len() && records.len() < most {
        let line_end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |feed| at + feed);
        if text[at..line_end].trim_ascii().is_empty() || marks.comment == Some(text[at]) {
            at = line_end + 1;
            continue;
        }
        let Some((record, next)) = record(text, at, marks) else { break };
        records.push(record);
        at = next;
    }
    records
}

fn record(text: &[u8], mut at: usize, marks: Marks) -> Option<(Vec<Cell>, usize)> {
    let mut cells = Vec::new();
    loop {
        let is_quoted = marks.quote.is_some() && text.get(at).copied() == marks.quote;
        at += usize::from(is_quoted);
        let mut cell = Vec::new();
        let mut is_open = is_quoted;
        while let Some(&byte) = text.get(at) {
            if is_open && marks.quote == Some(byte) {
                if text.get(at + 1).copied() == marks.quote {
                    cell.push(byte);
                    at += 2;
                    continue;
                }
                is_open = false;
            } else if marks.escape == Some(byte) && at + 1 < text.len() {
                at += 1;
                cell.push(text[at]);
            } else if !is_open && (byte == marks.delimiter || byte == b'\n') {
                break;
            } else {
                cell.push(byte);
            }
            at += 1;
        }
        if is_open {
            return None;
        }
        let is_last = text.get(at).copied() != Some(marks.delimiter);
        if is_last && cell.last() == Some(&b'\r') {
            cell.pop();
        }
        cells.push(Cell { text: String::from_utf8_lossy(&cell).into_owned(), is_quoted });
        at += 1;
        if is_last {
            return Some((cells, at));
        }
    }
}
