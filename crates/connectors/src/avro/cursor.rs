//! The bytes of Avro's binary form, value by value.

use super::schema::{AvroSchema, AvroType, MOST_LEVELS};
use std::ops::Range;

/// Bytes of a message, or of a block of a file, that were not read yet.
pub(super) struct Cursor<'a> {
    data: &'a [u8],
    /// Place of the next byte in the buffer of all messages.
    pub at: usize,
    /// Where the message ends there.
    pub end: usize,
    /// Elements that arrays and maps may still have: each has a byte at least, but for those of types without any content, of which
    /// few bytes could announce very many.
    elements: usize,
}

/// Why a message cannot be used.
pub(super) type Fault = &'static str;

/// More bytes may put it right.
pub(super) const ENDS: Fault = "it ends too early";
/// So it is with this.
pub(super) const MORE_ELEMENTS: Fault = "a block has more elements than bytes";

impl<'a> Cursor<'a> {
    /// At the start of what lies at `range` of the buffer.
    pub(super) fn new(data: &'a [u8], range: Range<usize>) -> Cursor<'a> {
        Cursor { data, at: range.start, end: range.end, elements: range.len() }
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.end).ok_or(ENDS)?;
        let bytes = &self.data[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.take(N)?.try_into().map_err(|_| ENDS)
    }

    /// A number of variable length.
    pub(super) fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err("a number is too long")
    }

    /// Bytes with their length before them.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.long()?).map_err(|_| "a length is negative")?;
        self.take(length)
    }

    /// Has the elements of an array or map read, block by block.
    pub(super) fn blocks(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                element(self)?;
            }
        }
    }

    /// The number of elements of the next block of an array or map; 0 at its end.
    fn block(&mut self) -> Result<usize, Fault> {
        let mut count = self.long()?;
        if count < 0 {
            self.long()?;
            count = count.checked_neg().ok_or("a block has too many elements")?;
        }
        let count = usize::try_from(count).map_err(|_| MORE_ELEMENTS)?;
        self.elements = self.elements.checked_sub(count).ok_or(MORE_ELEMENTS)?;
        if count > self.end - self.at { Err(MORE_ELEMENTS) } else { Ok(count) }
    }
}

/// The number of a big-endian two's complement.
pub(super) fn decimal(bytes: &[u8]) -> Option<i128> {
    let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
    let (extra, last) = bytes.split_at(bytes.len().saturating_sub(16));
    if extra.iter().any(|byte| *byte != sign) {
        return None;
    }
    let mut number = [sign; 16];
    number[16 - last.len()..].copy_from_slice(last);
    let number = i128::from_be_bytes(number);
    ((number < 0) == (sign != 0)).then_some(number)
}

/// Skips a value.
pub(super) fn skip(schema: &AvroSchema, number: usize, cursor: &mut Cursor<'_>, level: usize) -> Result<(), Fault> {
    if level > MOST_LEVELS {
        return Err("its values are nested too deeply");
    }
    match schema.of(number) {
        AvroType::Null => {}
        AvroType::Boolean => _ = cursor.take(1)?,
        AvroType::Int | AvroType::Long | AvroType::Enum(_) => _ = cursor.long()?,
        AvroType::Float => _ = cursor.take(4)?,
        AvroType::Double => _ = cursor.take(8)?,
        AvroType::Bytes | AvroType::String => _ = cursor.bytes()?,
        AvroType::Fixed(size) => _ = cursor.take(*size)?,
        AvroType::Logical(_, base) => skip(schema, *base, cursor, level + 1)?,
        AvroType::Union(branches) => {
            let branch = usize::try_from(cursor.long()?).ok().and_then(|branch| branches.get(branch));
            skip(schema, *branch.ok_or("a union has no such branch")?, cursor, level + 1)?;
        }
        AvroType::Record(fields) => {
            fields.iter().try_for_each(|(_, field)| skip(schema, *field, cursor, level + 1))?;
        }
        AvroType::Array(elements) => cursor.blocks(|cursor| skip(schema, *elements, cursor, level + 1))?,
        AvroType::Map(values) => cursor.blocks(|cursor| {
            cursor.bytes()?;
            skip(schema, *values, cursor, level + 1)
        })?,
    }
    Ok(())
}
