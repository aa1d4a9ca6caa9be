//! Packed records: the columns of a row one after the other, without padding, little-endian, each of a fixed width.
//!
//! This is how the engines of the papers keep their input. Generated code reads such records in place, so their layout is
//! known here, below everything that reads or writes them.

use crate::{DataType, Diagnostic, Schema, code};

/// Where the columns of a schema are in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLayout {
    /// Bytes of a record; not 0.
    pub length: usize,
    /// For each column its place.
    pub fields: Vec<RecordField>,
}

/// The place of a column in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordField {
    /// Its first byte.
    pub offset: usize,
    /// Its bytes.
    pub width: usize,
}

/// A field of records of a length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlace {
    /// Bytes of a record.
    pub length: usize,
    /// The field.
    pub field: RecordField,
}

impl RecordPlace {
    /// The Arrow type of a column of whole records.
    pub fn to_arrow(self) -> arrow_schema::DataType {
        arrow_schema::DataType::FixedSizeBinary(self.length as i32)
    }
}

impl RecordLayout {
    /// The place of a column.
    pub fn place(&self, column: usize) -> Option<RecordPlace> {
        self.fields.get(column).map(|&field| RecordPlace { length: self.length, field })
    }

    /// Longest record.
    pub const MOST_BYTES: usize = 1 << 20;

    /// The layout of records of all columns of `schema`, in order. Fails if a column can be NULL or has no fixed width, and
    /// if there are no columns.
    pub fn of(schema: &Schema) -> Result<RecordLayout, Diagnostic> {
        let mut length = 0;
        let mut fields = Vec::with_capacity(schema.fields.len());
        for field in &schema.fields {
            let (name, data_type) = (&field.name, &field.data_type);
            let refused = |why: &str, advice: &str| {
                let message =
                    format!("column {name} of type {data_type} {why}, which records of fixed width have no form for");
                Diagnostic::new(code::INVALID_TABLE, message).advise(advice)
            };
            let width = data_type.record_width().ok_or_else(|| {
                let advice = match data_type {
                    DataType::Varchar(_) => "declare it as CHAR(n) or VARCHAR(n) with the number of its bytes",
                    DataType::Varbinary(_) => "declare it as BINARY(n) with the number of its bytes",
                    _ => "declare its parts as separate columns, or use another format",
                };
                refused("has no fixed width", advice)
            })?;
            if field.nullable {
                return Err(refused("can be NULL", "declare it NOT NULL"));
            }
            fields.push(RecordField { offset: length, width });
            length += width;
            if length > RecordLayout::MOST_BYTES {
                return Err(refused("makes the record longer than 1 MiB", "declare shorter columns"));
            }
        }
        if length == 0 {
            return Err(Diagnostic::new(code::INVALID_TABLE, "records without columns have no length")
                .advise("declare the columns of a record in CREATE TABLE"));
        }
        Ok(RecordLayout { length, fields })
    }
}

impl DataType {
    /// Bytes of a value in a packed record; `None` for types without a fixed width. Numbers, dates and times are as in Arrow
    /// columns of the type, BOOLEAN is a byte of 0 or 1, text has a byte for each declared character and ends at the first
    /// byte of 0, if there is one.
    pub fn record_width(&self) -> Option<usize> {
        Some(match self {
            DataType::Boolean | DataType::TinyInt => 1,
            DataType::SmallInt => 2,
            DataType::Int | DataType::Date | DataType::Time(_) | DataType::Float => 4,
            DataType::BigInt | DataType::Double | DataType::Timestamp(_) | DataType::TimestampLtz(_) => 8,
            DataType::Decimal { .. } => 16,
            DataType::Char(n) | DataType::Varchar(n) | DataType::Binary(n) if (1..i32::MAX as u32).contains(n) => {
                *n as usize
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    fn layout(types: &[DataType]) -> Result<RecordLayout, Diagnostic> {
        let field = |(i, t): (usize, &DataType)| Field::new(format!("c{i}"), t.clone(), false);
        RecordLayout::of(&Schema::new(types.iter().enumerate().map(field).collect()))
    }

    #[test]
    fn fields_follow_each_other_without_padding() {
        let decimal = DataType::decimal(10, 2);
        let types =
            [DataType::Boolean, DataType::Char(5), DataType::BigInt, DataType::SmallInt, decimal, DataType::Time(3)];
        let layout = layout(&types).unwrap();
        assert_eq!(layout.fields.iter().map(|f| f.offset).collect::<Vec<_>>(), [0, 1, 6, 14, 16, 32]);
        assert_eq!(layout.length, 36);
    }

    #[test]
    fn what_has_no_fixed_width_is_refused_with_advice() {
        let refused = |types: &[DataType]| layout(types).unwrap_err();
        assert!(refused(&[DataType::STRING]).advice.unwrap().contains("CHAR(n)"));
        assert!(refused(&[DataType::BYTES]).advice.unwrap().contains("BINARY(n)"));
        assert!(refused(&[DataType::Array(DataType::Int.into())]).message.contains("no fixed width"));
        assert!(refused(&[]).message.contains("no length"));
        assert!(refused(&[DataType::Char(600_000), DataType::Char(600_000)]).message.contains("1 MiB"));
        let nullable = Schema::new(vec![Field::new("a", DataType::Int, true)]);
        let diagnostic = RecordLayout::of(&nullable).unwrap_err();
        assert!(diagnostic.message.contains("can be NULL") && diagnostic.advice.unwrap().contains("NOT NULL"));
    }
}
