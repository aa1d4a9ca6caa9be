//! What the bytes of a record must satisfy before they count as values: every pattern is a number, but not every one is a
//! text, a truth value, a decimal of the declared precision or a time of day.

use millstream_types::{DataType, RecordField};

/// A check of one field of every record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    field: RecordField,
    kind: FieldKind,
}

#[derive(Debug, Clone, Copy)]
enum FieldKind {
    /// UTF-8 up to the first byte of 0.
    Text,
    /// 0 or 1.
    Boolean,
    /// Less than this, and more than its negation.
    Decimal(i128),
    /// Milliseconds of a day.
    Time,
}

impl Check {
    /// The check of a field of this type, if there is something to check.
    pub(super) fn new(data_type: &DataType, field: RecordField) -> Option<Check> {
        let kind = match data_type {
            DataType::Char(_) | DataType::Varchar(_) => FieldKind::Text,
            DataType::Boolean => FieldKind::Boolean,
            DataType::Decimal { precision, .. } => FieldKind::Decimal(10i128.pow(u32::from(*precision))),
            DataType::Time(_) => FieldKind::Time,
            _ => return None,
        };
        Some(Check { field, kind })
    }

    /// Calls `failed` with the number of each record of `length` bytes in `data` that does not satisfy it.
    pub(super) fn failures(&self, data: &[u8], length: usize, failed: impl FnMut(usize)) {
        match self.kind {
            FieldKind::Text => self.each(data, length, is_text, failed),
            FieldKind::Boolean => self.each(data, length, |bytes| bytes[0] <= 1, failed),
            FieldKind::Decimal(bound) => {
                let fits = |bytes: &[u8]| i128::from_le_bytes(array(bytes)).unsigned_abs() < bound.unsigned_abs();
                self.each(data, length, fits, failed);
            }
            FieldKind::Time => {
                let fits = |bytes: &[u8]| (0..86_400_000).contains(&i32::from_le_bytes(array(bytes)));
                self.each(data, length, fits, failed);
            }
        }
    }

    /// Inlined for each kind, so that a loop has no branch on it.
    #[inline(always)]
    fn each(&self, data: &[u8], length: usize, holds: impl Fn(&[u8]) -> bool, mut failed: impl FnMut(usize)) {
        let RecordField { offset, width } = self.field;
        for (number, record) in data.chunks_exact(length).enumerate() {
            if !holds(&record[offset..offset + width]) {
                failed(number);
            }
        }
    }

    /// What is wrong with a record that does not satisfy it.
    pub(super) fn complaint(&self, record: &[u8]) -> String {
        let bytes = &record[self.field.offset..self.field.offset + self.field.width];
        match self.kind {
            FieldKind::Text => "the text is not UTF-8".into(),
            FieldKind::Boolean => format!("the byte {} is no BOOLEAN, which is 0 or 1", bytes[0]),
            FieldKind::Decimal(bound) => {
                format!(
                    "the unscaled number {} has more than {} digits",
                    i128::from_le_bytes(array(bytes)),
                    bound.ilog10()
                )
            }
            FieldKind::Time => format!("{} is no time of day in milliseconds", i32::from_le_bytes(array(bytes))),
        }
    }
}

/// The bytes of a field whose width is that of its type.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the field of a type has its width")
}

/// The text of a field: its bytes before the first 0.
pub(super) fn text(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// Mostly text is ASCII, and then it does not matter where it ends.
fn is_text(bytes: &[u8]) -> bool {
    bytes.is_ascii() || simdutf8::basic::from_utf8(text(bytes)).is_ok()
}
