//! The decoder of packed records: checks, and columns that are gathered or left where they are.

use super::check::{Check, array, text};
use crate::format::RecordDecoder;
use crate::text_chunk::TextChunk;
use crate::values::{ColumnBuilder, Values};
use crate::{Decoded, RequestOrigin, SourceRequest};
use arrow_array::{ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::Buffer;
use millstream_types::{DataType, Diagnostic, RecordField, RecordLayout, code};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A decoder for one table and the columns that a query wants of it.
#[derive(Debug)]
pub struct RowDecoder {
    length: usize,
    /// Those of the request that are in the records, in order.
    columns: Vec<RecordColumn>,
    /// With the names of their columns.
    checks: Vec<(Check, String)>,
    /// Whether malformed records are skipped and counted.
    pub(super) ignore_errors: bool,
}

#[derive(Debug)]
struct RecordColumn {
    data_type: DataType,
    field: RecordField,
    in_place: bool,
}

impl RowDecoder {
    /// Fails if the table's columns cannot be in packed records.
    pub fn new(request: &SourceRequest) -> Result<RowDecoder, Diagnostic> {
        let layout = RecordLayout::of(&request.schema)?;
        let (mut columns, mut checks) = (Vec::new(), Vec::new());
        for column in &request.columns {
            let (number, in_place) = match &column.origin {
                RequestOrigin::Path(path) => (path.first().copied(), false),
                RequestOrigin::Record(number) => (Some(*number), true),
                RequestOrigin::Metadata(_) => continue,
            };
            let field = number.and_then(|n| layout.fields.get(n).copied());
            let field = field.ok_or_else(|| Diagnostic::bug(format!("column {} is in no record", column.name)))?;
            checks.extend(Check::new(&column.data_type, field).map(|check| (check, column.name.clone())));
            columns.push(RecordColumn { data_type: column.data_type.clone(), field, in_place });
        }
        Ok(RowDecoder { length: layout.length, columns, checks, ignore_errors: false })
    }

    /// Takes every record for well-formed, as blocks are that [`RowDecoder::decode`] has decoded before without an error.
    pub fn trusting(self) -> RowDecoder {
        RowDecoder { checks: Vec::new(), ..self }
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.length
    }

    /// Decodes a chunk.
    pub fn decode(&self, chunk: &TextChunk) -> Decoded {
        let whole = chunk.data.len() / self.length;
        let complete = chunk.data.slice_with_length(0, whole * self.length);
        let mut bad: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        for (number, (check, _)) in self.checks.iter().enumerate() {
            check.failures(&complete, self.length, |record| {
                bad.entry(record).or_insert(Some(number));
            });
        }
        if complete.len() < chunk.data.len() {
            bad.insert(whole, None);
        }
        let first = bad.first_key_value().map(|(&record, &check)| (record, self.malformed(chunk, record, check)));
        let (data, skipped, skipped_for, error) = match first {
            None => (complete, 0, None, None),
            Some((_, first)) if self.ignore_errors => {
                (self.without(&complete, &bad), bad.len() as u64, Some(first), None)
            }
            Some((record, first)) => (complete.slice_with_length(0, record * self.length), 0, None, Some(first)),
        };
        let rows = data.len() / self.length;
        Decoded::of(self.columns(&data, rows), rows, skipped, error).because(skipped_for)
    }

    /// The records that are not bad.
    fn without(&self, data: &Buffer, bad: &BTreeMap<usize, Option<usize>>) -> Buffer {
        let records = data.chunks_exact(self.length).enumerate();
        let good: Vec<u8> =
            records.filter(|(n, _)| !bad.contains_key(n)).flat_map(|(_, record)| record).copied().collect();
        Buffer::from_vec(good)
    }

    /// What is wrong with a record: a check, or that it ends too early.
    fn malformed(&self, chunk: &TextChunk, record: usize, check: Option<usize>) -> Diagnostic {
        let at = record * self.length;
        let number = (chunk.offset + at as u64) / self.length as u64 + 1;
        let bytes = &chunk.data[at..chunk.data.len().min(at + self.length)];
        let (what, column) = match check.and_then(|check| self.checks.get(check)) {
            Some((check, name)) => (check.complaint(bytes), Some(name.clone())),
            None => (format!("it ends after {} of {} bytes", bytes.len(), self.length), None),
        };
        Diagnostic::new(code::MALFORMED_RECORD, format!("record {number} is malformed: {what}"))
            .at(chunk.place(at, column))
            .advise(
                "correct the record, or declare the columns that it has; 'row.ignore-parse-errors' = 'true' leaves such records out",
            )
    }

    /// The columns of well-formed records.
    fn columns(&self, data: &Buffer, rows: usize) -> Result<Vec<ArrayRef>, Diagnostic> {
        let mut records: Option<ArrayRef> = None;
        let column = |column: &RecordColumn| {
            if column.in_place {
                let whole = || Arc::new(FixedSizeBinaryArray::new(self.length as i32, data.clone(), None)) as ArrayRef;
                return Ok(records.get_or_insert_with(whole).clone());
            }
            self.gathered(column, data, rows)
        };
        self.columns.iter().map(column).collect()
    }

    /// The values of a field of every record as an array.
    fn gathered(&self, column: &RecordColumn, data: &Buffer, rows: usize) -> Result<ArrayRef, Diagnostic> {
        let RecordField { offset, width } = column.field;
        let fields = data.chunks_exact(self.length).map(|record| &record[offset..offset + width]);
        let places = (offset..).step_by(self.length);
        let mut builder = ColumnBuilder::new(&column.data_type, rows)?;
        match &mut builder.values {
            Values::Boolean(v) => v.extend(fields.map(|f| f[0] != 0)),
            Values::Int8(v) => v.extend(fields.map(|f| i8::from_le_bytes(array(f)))),
            Values::Int16(v) => v.extend(fields.map(|f| i16::from_le_bytes(array(f)))),
            Values::Int32(v) => v.extend(fields.map(|f| i32::from_le_bytes(array(f)))),
            Values::Int64(v) => v.extend(fields.map(|f| i64::from_le_bytes(array(f)))),
            Values::Float32(v) => v.extend(fields.map(|f| f32::from_le_bytes(array(f)))),
            Values::Float64(v) => v.extend(fields.map(|f| f64::from_le_bytes(array(f)))),
            Values::Decimal(v) => v.extend(fields.map(|f| i128::from_le_bytes(array(f)))),
            Values::String(v) => fields.zip(places).for_each(|(f, place)| v.push_in_chunk(text(f), place)),
            Values::Bytes(v) => fields.zip(places).for_each(|(f, place)| v.push_in_chunk(f, place)),
            Values::List(..) | Values::Row(_) | Values::Map(..) => {
                return Err(Diagnostic::bug("a nested column is in a packed record"));
            }
        }
        builder.mark_all_valid(rows);
        builder.finish(data)
    }
}

impl RecordDecoder for RowDecoder {
    fn decode(&self, chunk: &TextChunk) -> Decoded {
        RowDecoder::decode(self, chunk)
    }
}
