//! Avro's binary form → columns. What the writer's schema has and nobody wants is skipped.
//!
//! A [`AvroRecordReader`] is made once for a writer's schema and a table: it knows for each field of the writer where its values
//! go. Fields are found by name; numbers become wider ones; what the writer does not have is NULL.

use super::cursor::{Cursor, Fault, decimal, skip};
use super::schema::{AvroSchema, AvroType, Logical, MOST_LEVELS};
use crate::SourceRequest;
use crate::fit::{self, Wanted};
use crate::messages::{DecodedMessages, Messages, failure, missing};
use crate::values::{ColumnBuilder, Values};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::Buffer;
use millstream_types::{DataType, Diagnostic, Field, code};
use std::sync::Arc;

/// How a value of the writer gets into a column.
#[derive(Debug)]
enum Reader {
    Null,
    /// A scalar of this type.
    Scalar(AvroType),
    /// Timestamps: factor, then divisor, of the writer's unit to the column's.
    Timestamp(i64, i64),
    /// Microseconds of a day.
    TimeMicros,
    /// With this number of bytes, if it is always the same.
    Decimal(Option<usize>),
    Enum(Vec<String>),
    /// By number of the branch; `None` for branches that do not fit.
    Union(Vec<Option<Reader>>),
    Array(Box<Reader>),
    Map(Box<Reader>),
    Record(RecordFields),
}

/// What becomes of a writer's field.
#[derive(Debug)]
enum FieldReader {
    Skip(usize),
    /// Goes to a column or child.
    Read(usize, Reader),
}

/// How a record gets into columns or children.
#[derive(Debug)]
struct RecordFields {
    fields: Vec<FieldReader>,
    /// Those that the writer does not have.
    absent: Vec<usize>,
}

/// Reads records of one writer's schema into the columns of a table.
#[derive(Debug)]
pub(super) struct AvroRecordReader {
    schema: AvroSchema,
    record: RecordFields,
}

/// The columns that a query wants.
pub(super) struct WantedFields {
    /// The fields of the table that any of them lies in.
    fields: Vec<Field>,
    columns: Vec<Wanted>,
}

impl WantedFields {
    /// Those with a path.
    pub(super) fn of(request: &SourceRequest) -> Result<WantedFields, Diagnostic> {
        let columns = Wanted::of(request)?;
        let is_wanted = |field: &&Field| columns.iter().any(|column| column.names.first() == Some(&field.name));
        Ok(WantedFields { fields: request.schema.fields.iter().filter(is_wanted).cloned().collect(), columns })
    }

    /// Decodes messages; `open` says how one is read, and where its record begins.
    pub(super) fn decode(
        &self,
        messages: &Messages,
        open: impl Fn(&[u8]) -> Result<(Arc<AvroRecordReader>, usize), Diagnostic>,
    ) -> Result<DecodedMessages, Diagnostic> {
        let mut builders = self.builders(messages.len())?;
        let mut rows = 0;
        let mut decoded = DecodedMessages::of(messages, |range| {
            let Some(range) = range else {
                builders.iter_mut().for_each(ColumnBuilder::push_null);
                rows += 1;
                return Ok(());
            };
            let outcome = open(&messages.data()[range.clone()]).and_then(|(reader, skip)| {
                let mut cursor = Cursor::new(messages.data(), range.start + skip..range.end);
                reader.read_message(&mut cursor, &mut builders).map_err(|fault| malformed(fault, &cursor, range.start))
            });
            match &outcome {
                Ok(()) => rows += 1,
                Err(_) => builders.iter_mut().for_each(|builder| builder.truncate(rows)),
            }
            outcome
        })?;
        decoded.columns = self.finish(builders, messages.data())?;
        decoded.check(|columns, row| self.missing(columns, row).map(missing))?;
        Ok(decoded)
    }

    /// A builder for each field, with room for some rows.
    pub(super) fn builders(&self, rows: usize) -> Result<Vec<ColumnBuilder>, Diagnostic> {
        self.fields.iter().map(|field| ColumnBuilder::new(&field.data_type, rows)).collect()
    }

    /// The wanted columns. `data` is what the records lie in.
    pub(super) fn finish(&self, builders: Vec<ColumnBuilder>, data: &Buffer) -> Result<Vec<ArrayRef>, Diagnostic> {
        let fields = builders.into_iter().map(|builder| builder.finish(data));
        let fields = fields.collect::<Result<Vec<ArrayRef>, _>>()?;
        let column = |wanted: &Wanted| {
            let lost = || Diagnostic::bug("a field that was decoded is not there");
            let (first, below) = wanted.names.split_first().ok_or_else(lost)?;
            let field = self.fields.iter().position(|field| field.name == *first).ok_or_else(lost)?;
            fit::field_below(&fields[field], below).map_err(Diagnostic::bug)?.ok_or_else(lost)
        };
        self.columns.iter().map(column).collect()
    }

    /// The first row without a value in a NOT NULL column, and that column.
    pub(super) fn first_missing(&self, columns: &[ArrayRef]) -> Option<(usize, &str)> {
        let required =
            columns.iter().zip(&self.columns).filter(|(array, wanted)| !wanted.nullable && array.null_count() > 0);
        let first = required.filter_map(|(array, wanted)| {
            let row = (0..array.len()).find(|row| array.is_null(*row))?;
            Some((row, wanted.name.as_str()))
        });
        first.min_by_key(|(row, _)| *row)
    }

    /// The NOT NULL column that has no value in a row, if there is one.
    pub(super) fn missing(&self, columns: &[ArrayRef], row: usize) -> Option<&str> {
        let is_missing = |(array, wanted): &(&ArrayRef, &Wanted)| !wanted.nullable && array.is_null(row);
        columns.iter().zip(&self.columns).find(is_missing).map(|(_, wanted)| wanted.name.as_str())
    }
}

fn malformed(fault: Fault, cursor: &Cursor<'_>, start: usize) -> Diagnostic {
    let message = format!("malformed Avro: {fault} (byte {} of the message)", cursor.at - start + 1);
    failure(code::MALFORMED_RECORD, message, None).advise(
        "see that the writer's schema is the one of the table, or skip such messages with 'ignore-parse-errors'",
    )
}

impl AvroRecordReader {
    /// Of a writer's schema.
    pub(super) fn new(schema: AvroSchema, wanted: &WantedFields) -> Result<AvroRecordReader, String> {
        let AvroType::Record(fields) = schema.of(schema.root).clone() else {
            return Err("it is not that of a record".into());
        };
        let record = record_fields(&schema, &fields, &wanted.fields, 0)?;
        Ok(AvroRecordReader { schema, record })
    }

    /// Reads the next record. After an error the columns may have a value of it, or not.
    pub(super) fn read(&self, cursor: &mut Cursor<'_>, builders: &mut [ColumnBuilder]) -> Result<(), Fault> {
        self.record.read(&self.schema, cursor, builders)
    }

    /// Passes over the next record.
    pub(super) fn skip(&self, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        skip(&self.schema, self.schema.root, cursor, 0)
    }

    fn read_message(&self, cursor: &mut Cursor<'_>, builders: &mut [ColumnBuilder]) -> Result<(), Fault> {
        self.read(cursor, builders)?;
        if cursor.at < cursor.end { Err("something follows the record in its message") } else { Ok(()) }
    }
}

fn record_fields(
    schema: &AvroSchema,
    writer: &[(String, usize)],
    fields: &[Field],
    level: usize,
) -> Result<RecordFields, String> {
    let mut readers = Vec::with_capacity(writer.len());
    for (name, number) in writer {
        readers.push(match fields.iter().position(|field| field.name == *name) {
            None => FieldReader::Skip(*number),
            Some(child) => {
                let reader = reader(schema, *number, &fields[child].data_type, level + 1);
                FieldReader::Read(child, reader.map_err(|e| format!("its field '{name}' {e}"))?)
            }
        });
    }
    let has = |field: &Field| writer.iter().any(|(name, _)| *name == field.name);
    let absent: Vec<usize> = (0..fields.len()).filter(|child| !has(&fields[*child])).collect();
    Ok(RecordFields { fields: readers, absent })
}

fn reader(schema: &AvroSchema, number: usize, data_type: &DataType, level: usize) -> Result<Reader, String> {
    use DataType as D;
    if level > MOST_LEVELS {
        return Err("is nested too deeply".into());
    }
    let kind = schema.of(number);
    let mismatch = || Err(format!("is {kind:?}, which cannot be read as {data_type}"));
    Ok(match (kind, data_type) {
        (AvroType::Union(branches), _) => {
            let branches: Vec<_> = branches.iter().map(|b| reader(schema, *b, data_type, level + 1)).collect();
            let fits = |b: &Result<Reader, String>| matches!(b, Ok(reader) if !matches!(reader, Reader::Null));
            if !branches.iter().any(fits) && branches.iter().any(Result::is_err) {
                return mismatch();
            }
            Reader::Union(branches.into_iter().map(Result::ok).collect())
        }
        (AvroType::Null, _) => Reader::Null,
        (AvroType::Record(writer), D::Row(fields)) => Reader::Record(record_fields(schema, writer, fields, level)?),
        (AvroType::Array(items), D::Array(element)) => {
            Reader::Array(Box::new(reader(schema, *items, element, level + 1)?))
        }
        (AvroType::Map(values), D::Map(key, value)) if key.is_string() => {
            Reader::Map(Box::new(reader(schema, *values, value, level + 1)?))
        }
        (AvroType::Enum(symbols), D::Char(_) | D::Varchar(_)) => Reader::Enum(symbols.clone()),
        (AvroType::Logical(Logical::Timestamp(per_second), _), D::Timestamp(_) | D::TimestampLtz(_)) => {
            let target = data_type.time_unit().per_second();
            Reader::Timestamp((target / per_second).max(1), (per_second / target).max(1))
        }
        (AvroType::Logical(Logical::TimeMicros, _), D::Time(_)) => Reader::TimeMicros,
        (AvroType::Logical(Logical::TimeMillis, _), D::Time(_)) => Reader::Scalar(AvroType::Int),
        (AvroType::Logical(Logical::Date, _), D::Date) => Reader::Scalar(AvroType::Int),
        (AvroType::Logical(Logical::Decimal(writer), base), D::Decimal { scale, .. }) if writer == scale => {
            match schema.of(*base) {
                AvroType::Fixed(size) => Reader::Decimal(Some(*size)),
                _ => Reader::Decimal(None),
            }
        }
        // Without its meaning a number is still a number.
        (AvroType::Logical(logical, base), _) if !matches!(logical, Logical::Decimal(_)) => {
            reader(schema, *base, data_type, level + 1)?
        }
        (AvroType::Boolean, D::Boolean)
        | (AvroType::Int | AvroType::Long, D::TinyInt | D::SmallInt | D::Int | D::BigInt | D::Float | D::Double)
        | (AvroType::Float, D::Float | D::Double)
        | (AvroType::Double, D::Double)
        | (AvroType::String | AvroType::Bytes, D::Char(_) | D::Varchar(_) | D::Binary(_) | D::Varbinary(_))
        | (AvroType::Fixed(_), D::Binary(_) | D::Varbinary(_)) => Reader::Scalar(kind.clone()),
        _ => return mismatch(),
    })
}

impl RecordFields {
    fn read(&self, schema: &AvroSchema, cursor: &mut Cursor<'_>, children: &mut [ColumnBuilder]) -> Result<(), Fault> {
        for field in &self.fields {
            match field {
                FieldReader::Skip(number) => skip(schema, *number, cursor, 0)?,
                FieldReader::Read(child, reader) => reader.read(schema, cursor, &mut children[*child])?,
            }
        }
        self.absent.iter().for_each(|child| children[*child].push_null());
        Ok(())
    }
}

impl Reader {
    fn read(&self, schema: &AvroSchema, cursor: &mut Cursor<'_>, builder: &mut ColumnBuilder) -> Result<(), Fault> {
        match self {
            Reader::Null => builder.push_null(),
            Reader::Scalar(kind) => scalar(kind, cursor, builder)?,
            Reader::Timestamp(factor, divisor) => {
                let value = cursor.long()?.div_euclid(*divisor).checked_mul(*factor);
                integer(builder, value.ok_or("a timestamp is out of range")?)?;
            }
            Reader::TimeMicros => {
                let value = cursor.long()? / 1000;
                integer(builder, value)?;
            }
            Reader::Decimal(size) => {
                let bytes = if let Some(size) = size { cursor.take(*size)? } else { cursor.bytes()? };
                let value = decimal(bytes).ok_or("a decimal is out of range")?;
                let fits = match &builder.data_type {
                    DataType::Decimal { precision, .. } => {
                        value.unsigned_abs() < 10u128.checked_pow(u32::from(*precision)).unwrap_or(u128::MAX)
                    }
                    _ => false,
                };
                let Values::Decimal(values) = &mut builder.values else { return Err("a decimal is out of place") };
                if !fits {
                    return Err("a decimal has too many digits");
                }
                values.push(value);
                builder.mark_valid();
            }
            Reader::Enum(symbols) => {
                let symbol = usize::try_from(cursor.long()?).ok().and_then(|symbol| symbols.get(symbol));
                let symbol = symbol.ok_or("an enum has no such symbol")?;
                let Values::String(values) = &mut builder.values else { return Err("an enum is out of place") };
                values.push_copy(symbol.as_bytes());
                builder.mark_valid();
            }
            Reader::Union(branches) => {
                let branch = usize::try_from(cursor.long()?).ok().and_then(|branch| branches.get(branch));
                match branch.ok_or("a union has no such branch")? {
                    Some(reader) => reader.read(schema, cursor, builder)?,
                    None => return Err("a value has a type that does not fit the column"),
                }
            }
            Reader::Array(items) => {
                let Values::List(ends, elements) = &mut builder.values else { return Err("an array is out of place") };
                cursor.blocks(|cursor| items.read(schema, cursor, elements))?;
                ends.push(elements.len() as i32);
                builder.mark_valid();
            }
            Reader::Map(reader) => {
                let Values::Map(ends, keys, values) = &mut builder.values else { return Err("a map is out of place") };
                cursor.blocks(|cursor| {
                    scalar(&AvroType::String, cursor, keys)?;
                    reader.read(schema, cursor, values)
                })?;
                ends.push(keys.len() as i32);
                builder.mark_valid();
            }
            Reader::Record(record) => {
                let Values::Row(children) = &mut builder.values else { return Err("a record is out of place") };
                record.read(schema, cursor, children)?;
                builder.mark_valid();
            }
        }
        Ok(())
    }
}

fn integer(builder: &mut ColumnBuilder, value: i64) -> Result<(), Fault> {
    builder.push_integer(value).ok_or("a number is out of range")
}

fn scalar(kind: &AvroType, cursor: &mut Cursor<'_>, builder: &mut ColumnBuilder) -> Result<(), Fault> {
    match (kind, &mut builder.values) {
        (AvroType::Boolean, Values::Boolean(values)) => values.push(cursor.array::<1>()? != [0]),
        (AvroType::Int | AvroType::Long, Values::Float32(values)) => values.push(cursor.long()? as f32),
        (AvroType::Int | AvroType::Long, Values::Float64(values)) => values.push(cursor.long()? as f64),
        (AvroType::Int | AvroType::Long, _) => {
            let value = cursor.long()?;
            return integer(builder, value);
        }
        (AvroType::Float, Values::Float32(values)) => values.push(f32::from_le_bytes(cursor.array()?)),
        (AvroType::Float, Values::Float64(values)) => values.push(f32::from_le_bytes(cursor.array()?).into()),
        (AvroType::Double, Values::Float64(values)) => values.push(f64::from_le_bytes(cursor.array()?)),
        (AvroType::String | AvroType::Bytes, Values::String(values)) => {
            let text = cursor.bytes()?;
            std::str::from_utf8(text).map_err(|_| "a string is not UTF-8")?;
            values.push_in_chunk(text, cursor.at - text.len());
        }
        (AvroType::String | AvroType::Bytes, Values::Bytes(values)) => {
            let bytes = cursor.bytes()?;
            values.push_in_chunk(bytes, cursor.at - bytes.len());
        }
        (AvroType::Fixed(size), Values::Bytes(values)) => {
            let bytes = cursor.take(*size)?;
            values.push_in_chunk(bytes, cursor.at - bytes.len());
        }
        _ => return Err("a value has a type that does not fit the column"),
    }
    builder.mark_valid();
    Ok(())
}
