//! Formats whose messages are changes of a database's rows, each in an envelope that says what became of its row.
//!
//! A change inserts a row, updates it, or deletes it. A table with a PRIMARY KEY has the rows that are there: an update replaces the row
//! of its key, a deletion takes it back. What was there is read for its key alone, as databases often say no more of it; an update is
//! two rows only if its key is another. Without a PRIMARY KEY insertions are rows, and other changes bad messages.
//!
//! How tools write that is their [`EnvelopeFormat`].

#[cfg(feature = "kafka")]
pub(crate) mod avro;
pub(crate) mod canal;
pub(crate) mod debezium;
pub(crate) mod lines;
pub(crate) mod maxwell;
#[cfg(test)]
mod tests;

use crate::changes::without_nulls;
use crate::format::{MessageFormat, OpenMessageDecoder};
use crate::json::JsonDecoder;
use crate::messages::{DecodedMessages, MessageDecoder, MessageEncoder, Messages, failure, missing};
use crate::option_table::option_fault;
use crate::{ColumnRequest, RequestOrigin, SinkRequest, SourceRequest};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, UInt32Array, make_array};
use arrow_buffer::NullBuffer;
use arrow_schema::ArrowError;
use arrow_select::take::take;
use millstream_types::{DataType, Diagnostic, Field, Options, Schema, code};
use std::sync::Arc;

/// What becomes of the row of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Comes,
    Replaces,
    Goes,
}

/// Where an envelope has its rows.
#[derive(Debug, Clone, Copy)]
enum RowsOf {
    /// The row as it was and as it is.
    Both { before: &'static str, after: &'static str },
    /// The row as it is, or, of a deletion, was; and what was otherwise before an update.
    Changed { old: &'static str, data: &'static str },
    /// Lists of these.
    ChangedLists { old: &'static str, data: &'static str },
}

/// How a tool writes changes.
struct EnvelopeFormat {
    /// The format, as its options begin.
    format: &'static str,
    /// The field that says what became of the row.
    operation: &'static str,
    rows: RowsOf,
    /// What an operation does; `None`: nothing to rows. Fails for what cannot be applied.
    deed: fn(&str) -> Result<Option<Deed>, Diagnostic>,
    /// The option by which envelopes lie in a field `payload`.
    in_payload: fn(&Options) -> Result<bool, Diagnostic>,
    /// Decodes envelopes as records.
    records: OpenMessageDecoder,
}

/// The error of an operation that a tool does not know.
fn unknown(operation: &str, tool: &str) -> Diagnostic {
    let message = match operation {
        "" => format!("a change of {tool} does not say which operation it is"),
        _ => format!("'{operation}' is no operation of {tool}"),
    };
    failure(code::MALFORMED_RECORD, message, None)
}

/// The error of an operation that takes back rows without saying which.
fn takes_unknown_rows(what: &str) -> Diagnostic {
    let message = format!("{what} cannot be applied: it does not say which rows are gone");
    failure(code::MALFORMED_RECORD, message, None)
}

/// A format that is only read.
const fn read_only(decoder: OpenMessageDecoder, change_decoder: OpenMessageDecoder) -> MessageFormat {
    MessageFormat {
        decoder,
        encoder: no_encoder,
        change_decoder: Some(change_decoder),
        changes: None,
        null_is_row: false,
    }
}

fn no_encoder(request: &SinkRequest) -> Result<Box<dyn MessageEncoder>, Diagnostic> {
    let key = if request.options.get("value.format").is_some() { "value.format" } else { "format" };
    let name = request.options.get(key).unwrap_or_default();
    let message = format!("the format '{name}' can be read, but not written");
    Err(option_fault(code::NOT_A_SINK, key, message, "write changes as 'debezium-json', and rows as 'json'"))
}

/// A decoder of insertions.
fn insertions(request: &SourceRequest, tool: &'static EnvelopeFormat) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    Ok(Box::new(InsertDecoder(Envelope::open(request, tool, false)?)))
}

/// A decoder of changes.
fn changes(request: &SourceRequest, tool: &'static EnvelopeFormat) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    Ok(Box::new(ChangeDecoder::open(request, tool)?))
}

/// Envelopes in JSON.
fn json_records(request: &SourceRequest, format: &'static str) -> Result<Box<dyn MessageDecoder>, Diagnostic> {
    Ok(Box::new(JsonDecoder::new(request, format)?))
}

/// Decodes the operation of a change, then the wanted columns of its rows.
struct Envelope {
    tool: &'static EnvelopeFormat,
    records: Box<dyn MessageDecoder>,
    /// The wanted columns.
    columns: Vec<ColumnRequest>,
    /// Whether what was there is decoded, too.
    has_before: bool,
    /// Of lists: for each column its place among the decoded fields of their rows, and the way on from there.
    in_lists: Vec<Vec<usize>>,
}

/// Changes as columns.
struct Changes {
    /// The messages that are none.
    failures: Vec<(usize, Diagnostic)>,
    /// The message of each change.
    messages: Vec<u32>,
    operations: ArrayRef,
    /// The wanted columns of what was there, if asked for: its key at least.
    before: Vec<ArrayRef>,
    /// Those of what is there.
    after: Vec<ArrayRef>,
}

impl Envelope {
    fn open(request: &SourceRequest, tool: &'static EnvelopeFormat, has_before: bool) -> Result<Envelope, Diagnostic> {
        let columns: Vec<ColumnRequest> =
            request.columns.iter().filter(|column| matches!(column.origin, RequestOrigin::Path(_))).cloned().collect();
        let path_of = |column: &ColumnRequest| match &column.origin {
            RequestOrigin::Path(path) => path.clone(),
            _ => Vec::new(),
        };
        // Of what was there often only the key is known.
        let nullable = |field: &Field| Field { nullable: true, ..field.clone() };
        let (is_list, before, after) = match tool.rows {
            RowsOf::Both { before, after } => (false, before, after),
            RowsOf::Changed { old, data } => (false, old, data),
            RowsOf::ChangedLists { old, data } => (true, old, data),
        };
        let mut used: Vec<usize> = columns.iter().filter_map(|column| path_of(column).first().copied()).collect();
        used.sort_unstable();
        used.dedup();
        // Of lists all that is named is decoded.
        let fields = request.schema.fields.iter().enumerate();
        let fields = fields.filter(|(at, _)| !is_list || used.binary_search(at).is_ok());
        let row = DataType::Row(fields.map(|(_, field)| nullable(field)).collect());
        let data_type = if is_list { DataType::Array(Arc::new(row)) } else { row };
        let names = if has_before { vec![before, after] } else { vec![after] };
        let rows = names.iter().map(|name| Field::new(*name, data_type.clone(), true));
        let change: Vec<Field> =
            std::iter::once(Field::new(tool.operation, DataType::STRING, true)).chain(rows).collect();
        let (fields, above) = match (tool.in_payload)(&request.options)? {
            true => (vec![Field::new("payload", DataType::Row(change.into()), true)], vec![0]),
            false => (change, Vec::new()),
        };
        let wanted = |name: &str, path: &[usize], data_type: &DataType| ColumnRequest {
            name: name.into(),
            origin: RequestOrigin::Path(above.iter().chain(path).copied().collect()),
            data_type: data_type.clone(),
            // A deletion has no row, which is not what is wrong with it.
            nullable: true,
        };
        let mut decoded = vec![wanted(tool.operation, &[0], &DataType::STRING)];
        for (row, name) in (1..).zip(&names) {
            match is_list {
                true => decoded.push(wanted(name, &[row], &data_type)),
                false => decoded.extend(columns.iter().map(|column| {
                    let path: Vec<usize> = std::iter::once(row).chain(path_of(column)).collect();
                    wanted(&column.name, &path, &column.data_type)
                })),
            }
        }
        let in_list = |column: &ColumnRequest| {
            let mut path = path_of(column);
            if let Some(first) = path.first_mut() {
                *first = used.partition_point(|at| at < first);
            }
            path
        };
        let in_lists = columns.iter().map(in_list).collect();
        let request = SourceRequest { schema: Schema::new(fields), columns: decoded, ..request.clone() };
        Ok(Envelope { tool, records: (tool.records)(&request)?, columns, has_before, in_lists })
    }

    fn decode(&self, messages: &Messages) -> Result<Changes, Diagnostic> {
        let DecodedMessages { mut columns, rows, failures, .. } = self.records.decode(messages)?;
        let operations = columns.remove(0);
        let of_row = if let RowsOf::ChangedLists { .. } = self.tool.rows { 1 } else { self.columns.len() };
        let (before, after) = match self.has_before {
            true => (columns[..of_row].to_vec(), columns[of_row..].to_vec()),
            false => (Vec::new(), columns),
        };
        let mut changes = Changes { failures, messages: rows, operations, before, after };
        if let RowsOf::ChangedLists { .. } = self.tool.rows {
            changes = self.of_lists(changes)?;
        }
        if let RowsOf::Changed { .. } | RowsOf::ChangedLists { .. } = self.tool.rows {
            // What is not said of what was there is as in what is there.
            for (old, new) in changes.before.iter_mut().zip(&changes.after) {
                *old = or_else(old, new).map_err(no_rows)?;
            }
        }
        Ok(changes)
    }

    /// The rows of changes that are lists of them.
    fn of_lists(&self, lists: Changes) -> Result<Changes, Diagnostic> {
        let list = |column: &ArrayRef| {
            let list = column.as_list_opt::<i32>().cloned();
            list.ok_or_else(|| Diagnostic::bug("rows of changes are in no list"))
        };
        let (data, old) = (list(&lists.after[0])?, lists.before.first().map(list).transpose()?);
        let (mut changes, mut of_data, mut of_old) = (Vec::new(), Vec::new(), Vec::new());
        for change in 0..lists.messages.len() {
            let place = |list: &ListArray, item: usize| {
                let bounds = list.value_offsets();
                let place = bounds[change] as usize + item;
                (list.is_valid(change) && place < bounds[change + 1] as usize).then_some(place as u32)
            };
            let items = if data.is_valid(change) { data.value_length(change) as usize } else { 0 };
            // One without rows is a change as well: its operation may have none.
            for item in 0..items.max(1) {
                changes.push(change as u32);
                of_data.push(place(&data, item));
                of_old.push(old.as_ref().and_then(|old| place(old, item)));
            }
        }
        let columns = |list: &ListArray, places: Vec<Option<u32>>| -> Result<Vec<ArrayRef>, Diagnostic> {
            let places = UInt32Array::from(places);
            let column = |path: &Vec<usize>| take(&field_of(list.values(), path), &places, None);
            self.in_lists.iter().map(column).collect::<Result<_, _>>().map_err(no_rows)
        };
        Ok(Changes {
            failures: lists.failures,
            messages: changes.iter().map(|change| lists.messages[*change as usize]).collect(),
            before: old.map_or(Ok(Vec::new()), |old| columns(&old, of_old))?,
            after: columns(&data, of_data)?,
            operations: take(&lists.operations, &UInt32Array::from(changes), None).map_err(no_rows)?,
        })
    }

    /// A value that is missing in a row that is there.
    fn missing(&self, columns: &[ArrayRef], row: usize) -> Option<Diagnostic> {
        let is_missing = |(wanted, array): &(&ColumnRequest, &ArrayRef)| !wanted.nullable && array.is_null(row);
        self.columns.iter().zip(columns).find(is_missing).map(|(wanted, _)| missing(&wanted.name))
    }
}

impl Changes {
    fn operation(&self, change: usize) -> &str {
        let operations = self.operations.as_string_view();
        if operations.is_null(change) { "" } else { operations.value(change) }
    }
}

/// Columns that were decoded do not fit each other.
fn no_rows(e: ArrowError) -> Diagnostic {
    Diagnostic::bug(format!("rows of changes cannot be made: {e}"))
}

/// A field of rows, NULL where a row around it is.
fn field_of(rows: &ArrayRef, path: &[usize]) -> ArrayRef {
    path.iter().fold(Arc::clone(rows), |rows, &field| {
        let Some(row) = rows.as_struct_opt() else { return rows };
        let field = row.column(field);
        let nulls = NullBuffer::union(row.nulls(), field.nulls());
        let with_nulls = field.to_data().into_builder().nulls(nulls).build();
        with_nulls.map_or_else(|_| Arc::clone(field), make_array)
    })
}

/// The values of one column, where it has some, and else those of another.
fn or_else(one: &ArrayRef, other: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match one.nulls() {
        None => Ok(Arc::clone(one)),
        Some(nulls) => arrow_select::zip::zip(&BooleanArray::new(nulls.inner().clone(), None), one, other),
    }
}

/// Reads insertions.
struct InsertDecoder(Envelope);

impl MessageDecoder for InsertDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let envelope = &self.0;
        let changes = envelope.decode(messages)?;
        let mut is_row = vec![true; changes.messages.len()];
        let fault = |change: usize| -> Result<bool, Diagnostic> {
            let operation = changes.operation(change);
            let what = match (envelope.tool.deed)(operation)? {
                None => return Ok(false),
                Some(Deed::Comes) => {
                    return envelope.missing(&changes.after, change).map_or(Ok(true), Err);
                }
                Some(Deed::Replaces) => "an update",
                Some(Deed::Goes) => "a deletion",
            };
            let (field, format) = (envelope.tool.operation, envelope.tool.format);
            let message = format!(
                "{what} ({field} '{operation}') cannot be applied: the table has no PRIMARY KEY, by which its row would be found"
            );
            Err(failure(code::MALFORMED_RECORD, message, None).advise(format!(
                "add PRIMARY KEY (k) NOT ENFORCED to CREATE TABLE; or set '{format}.ignore-parse-errors' = 'true' or a dead-letter topic to \
                 skip such messages"
            )))
        };
        let mut faults = Vec::new();
        for (change, is_row) in is_row.iter_mut().enumerate() {
            *is_row = fault(change).unwrap_or_else(|diagnostic| {
                faults.push((changes.messages[change] as usize, diagnostic));
                false
            });
        }
        let Changes { failures, messages: rows, after: columns, .. } = changes;
        let mut decoded = DecodedMessages { columns, rows, failures, ..DecodedMessages::default() };
        decoded.retain(|row, _| is_row[row])?;
        decoded.fail(faults);
        Ok(decoded)
    }
}

/// Reads changes.
struct ChangeDecoder {
    envelope: Envelope,
    /// Positions of the primary key among the wanted columns.
    key: Vec<usize>,
}

impl ChangeDecoder {
    fn open(request: &SourceRequest, tool: &'static EnvelopeFormat) -> Result<ChangeDecoder, Diagnostic> {
        let envelope = Envelope::open(request, tool, true)?;
        let is_key = |column: &ColumnRequest| match &column.origin {
            RequestOrigin::Path(path) => path.first().is_some_and(|first| request.primary_key.contains(first)),
            _ => false,
        };
        let key = (0..envelope.columns.len()).filter(|&at| is_key(&envelope.columns[at])).collect();
        Ok(ChangeDecoder { envelope, key })
    }

    /// The rows of a change: whether what was there and what is there from now on are.
    fn rows(&self, changes: &Changes, change: usize) -> Result<(bool, bool), Diagnostic> {
        let (operation, before, after) = (changes.operation(change), &changes.before, &changes.after);
        let Some(deed) = (self.envelope.tool.deed)(operation)? else { return Ok((false, false)) };
        let comes = deed != Deed::Goes;
        if comes {
            self.envelope.missing(after, change).map_or(Ok(()), Err)?;
        }
        let is_known = self.key.iter().any(|&at| before[at].is_valid(change));
        // A row replaces that of its key; only one of another key is gone.
        let is_replaced = || self.key.iter().all(|&at| is_equal(&before[at], &after[at], change));
        let goes = is_known && (deed == Deed::Goes || (deed == Deed::Replaces && !is_replaced()));
        if !comes && !goes {
            let (RowsOf::Both { before: gone, .. }
            | RowsOf::Changed { data: gone, .. }
            | RowsOf::ChangedLists { data: gone, .. }) = self.envelope.tool.rows;
            let field = self.envelope.tool.operation;
            let message =
                format!("a deletion ({field} '{operation}') does not say which row is gone: it has no `{gone}`");
            return Err(failure(code::MALFORMED_RECORD, message, None)
                .advise("in PostgreSQL, give the table a primary key, or ALTER TABLE t REPLICA IDENTITY FULL"));
        }
        Ok((goes, comes))
    }
}

impl MessageDecoder for ChangeDecoder {
    fn decode(&self, messages: &Messages) -> Result<DecodedMessages, Diagnostic> {
        let mut changes = self.envelope.decode(messages)?;
        let mut decoded =
            DecodedMessages { failures: std::mem::take(&mut changes.failures), ..DecodedMessages::default() };
        // A row of what was there is one of the first half, one of what is there of the second.
        let (mut places, mut faults, all) = (Vec::new(), Vec::new(), changes.messages.len() as u32);
        for (change, &message) in changes.messages.iter().enumerate() {
            let (goes, comes) = match self.rows(&changes, change) {
                Ok(rows) => rows,
                Err(fault) => {
                    faults.push((message as usize, fault));
                    continue;
                }
            };
            for (_, comes) in [(goes, false), (comes, true)].into_iter().filter(|(is_there, _)| *is_there) {
                places.push(change as u32 + if comes { all } else { 0 });
                decoded.rows.push(message);
                decoded.comes.push(comes);
            }
        }
        let places = UInt32Array::from(places);
        let column = |((before, after), wanted): ((&ArrayRef, &ArrayRef), &ColumnRequest)| {
            let both = arrow_select::concat::concat(&[before, after])?;
            let column = take(&both, &places, None)?;
            // Of what was there often only the key is known.
            Ok(if wanted.nullable { column } else { without_nulls(&column) })
        };
        let columns = changes.before.iter().zip(&changes.after).zip(&self.envelope.columns).map(column);
        let columns: Result<Vec<ArrayRef>, ArrowError> = columns.collect();
        decoded.columns = columns.map_err(no_rows)?;
        decoded.fail(faults);
        Ok(decoded)
    }
}

/// Whether two columns have the same value in a row.
fn is_equal(a: &ArrayRef, b: &ArrayRef, row: usize) -> bool {
    if a.is_null(row) || b.is_null(row) {
        return a.is_null(row) == b.is_null(row);
    }
    if let (Some(a), Some(b)) = (a.as_primitive_opt::<Int64Type>(), b.as_primitive_opt::<Int64Type>()) {
        return a.value(row) == b.value(row);
    }
    if let (Some(a), Some(b)) = (a.as_string_view_opt(), b.as_string_view_opt()) {
        return a.value(row) == b.value(row);
    }
    a.slice(row, 1).to_data() == b.slice(row, 1).to_data()
}
