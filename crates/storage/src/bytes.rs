//! How state becomes bytes: numbers of fixed width (little endian), lengths before what they are of, columns as Arrow IPC
//! with a checksum.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{Field, Schema};
use millstream_types::{Diagnostic, code};
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes that are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged(pub String);

impl Damaged {
    /// An error that says what is wrong, unless all is right.
    ///
    /// # Errors
    /// Unless all is right.
    #[inline]
    pub fn unless(is_right: bool, wrong: impl fmt::Display) -> Result<(), Damaged> {
        if is_right { Ok(()) } else { Err(Damaged(wrong.to_string())) }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Damaged {}

impl From<Damaged> for Diagnostic {
    fn from(damaged: Damaged) -> Diagnostic {
        Diagnostic::new(code::CHECKPOINT_DAMAGED, format!("state cannot be read: {damaged}"))
    }
}

/// Encodes values one after the other.
#[derive(Debug, Default)]
pub struct ByteWriter {
    bytes: Vec<u8>,
}

impl ByteWriter {
    /// Nothing so far.
    pub fn new() -> ByteWriter {
        ByteWriter::default()
    }

    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// Eight bytes.
    pub fn i64(&mut self, value: i64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// A length or count.
    pub fn length(&mut self, value: usize) {
        self.u64(value as u64);
    }

    /// Bytes whose number the reader knows.
    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend(value);
    }

    /// Puts bytes in the place of others that are already there, `at` bytes from the start.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub fn replace(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Bytes with their number before them.
    pub fn bytes(&mut self, value: &[u8]) {
        self.length(value.len());
        self.raw(value);
    }

    /// Numbers of four bytes with their number before them.
    pub fn u32s(&mut self, values: &[u32]) {
        self.length(values.len());
        values.iter().for_each(|&value| self.u32(value));
    }

    /// Numbers of eight bytes with their number before them.
    pub fn i64s(&mut self, values: &[i64]) {
        self.length(values.len());
        values.iter().for_each(|&value| self.i64(value));
    }

    /// Columns of `rows` rows each, of any Arrow types.
    pub fn columns(&mut self, columns: &[ArrayRef], rows: usize) {
        let field = |(i, c): (usize, &ArrayRef)| Field::new(i.to_string(), c.data_type().clone(), true);
        let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns.to_vec(), &options)
            .expect("columns of one table have the same length");
        let mut encoded = Vec::new();
        let written = StreamWriter::try_new(&mut encoded, &schema).and_then(|mut writer| {
            writer.write(&batch)?;
            writer.finish()
        });
        written.expect("writing to memory does not fail, and Arrow IPC has all types");
        self.u64(xxh3_64(&encoded));
        self.bytes(&encoded);
    }

    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing so far.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Decodes what a [`ByteWriter`] has encoded; every read is checked.
#[derive(Debug, Clone)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// At the start of the bytes.
    pub fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest: bytes }
    }

    /// A byte.
    pub fn u8(&mut self) -> Result<u8, Damaged> {
        Ok(self.raw(1)?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.raw(4)?.try_into().expect("four bytes")))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.raw(8)?.try_into().expect("eight bytes")))
    }

    /// Eight bytes.
    pub fn i64(&mut self) -> Result<i64, Damaged> {
        Ok(i64::from_le_bytes(self.raw(8)?.try_into().expect("eight bytes")))
    }

    /// A number of items of at least `width` bytes each, all of which are still to come: no damage makes anybody reserve more
    /// memory than there are bytes.
    pub fn count(&mut self, width: usize) -> Result<usize, Damaged> {
        let count = self.u64()?;
        match usize::try_from(count).ok().filter(|n| n.checked_mul(width).is_some_and(|all| all <= self.rest.len())) {
            Some(count) => Ok(count),
            None => Err(Damaged(format!("{count} items cannot be in {} bytes", self.rest.len()))),
        }
    }

    /// `length` bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(Damaged(format!("{length} bytes are wanted where {} are left", self.rest.len())));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Bytes with their number before them.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// Numbers of four bytes with their number before them.
    pub fn u32s(&mut self) -> Result<Vec<u32>, Damaged> {
        let numbers = self.count(4).and_then(|count| self.raw(count * 4))?.as_chunks().0;
        Ok(numbers.iter().map(|&number| u32::from_le_bytes(number)).collect())
    }

    /// Numbers of eight bytes with their number before them.
    pub fn i64s(&mut self) -> Result<Vec<i64>, Damaged> {
        let numbers = self.count(8).and_then(|count| self.raw(count * 8))?.as_chunks().0;
        Ok(numbers.iter().map(|&number| i64::from_le_bytes(number)).collect())
    }

    /// Columns with their number of rows.
    pub fn columns(&mut self) -> Result<(Vec<ArrayRef>, usize), Damaged> {
        let failed = |e: arrow_schema::ArrowError| Damaged(format!("columns cannot be read: {e}"));
        let (checksum, encoded) = (self.u64()?, self.bytes()?);
        // The reader of Arrow believes what it reads, and panics.
        Damaged::unless(xxh3_64(encoded) == checksum, "columns have another checksum than they should")?;
        let mut reader = StreamReader::try_new(encoded, None).map_err(failed)?;
        let batch = reader.next().ok_or_else(|| Damaged("columns are missing".into()))?.map_err(failed)?;
        Ok((batch.columns().to_vec(), batch.num_rows()))
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), Damaged> {
        Damaged::unless(self.is_empty(), format_args!("{} bytes are left over", self.rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int64Array, StringViewArray};

    #[test]
    fn what_is_written_is_read_and_less_is_damage() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringViewArray::from(vec!["a text that is longer than twelve bytes", ""])),
        ];
        let mut writer = ByteWriter::new();
        writer.u8(7);
        writer.i64(-2);
        writer.bytes(b"some bytes");
        writer.u32s(&[u32::MAX, 3]);
        writer.i64s(&[i64::MIN]);
        writer.columns(&columns, 2);
        writer.columns(&[], 5);
        let bytes = writer.into_bytes();
        let read = |bytes: &[u8]| -> Result<(), Damaged> {
            let mut reader = ByteReader::new(bytes);
            assert_eq!((reader.u8()?, reader.i64()?, reader.bytes()?), (7, -2, &b"some bytes"[..]));
            assert_eq!((reader.u32s()?, reader.i64s()?), (vec![u32::MAX, 3], vec![i64::MIN]));
            assert_eq!(reader.columns()?, (columns.clone(), 2));
            assert_eq!(reader.columns()?, (vec![], 5));
            reader.end()
        };
        read(&bytes).unwrap();
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length}");
        }
        assert!(ByteReader::new(&u64::MAX.to_le_bytes()).count(8).is_err());
    }
}
