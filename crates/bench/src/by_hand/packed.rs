//! Packed records: fields one after the other without gaps, as the papers' engines read them.

use arrow_buffer::Buffer;

/// Records of `SIZE` bytes each.
#[derive(Debug)]
pub(crate) struct Records<const SIZE: usize> {
    bytes: Buffer,
}

impl<const SIZE: usize> Records<SIZE> {
    /// Makes `rows` records.
    pub(crate) fn new(rows: usize, mut make: impl FnMut(usize, &mut [u8; SIZE])) -> Records<SIZE> {
        let mut bytes = vec![0; rows * SIZE];
        let (records, _) = bytes.as_chunks_mut::<SIZE>();
        records.iter_mut().enumerate().for_each(|(row, record)| make(row, record));
        Records { bytes: Buffer::from_vec(bytes) }
    }

    /// Records of a chunk of `rows` records.
    #[inline(always)]
    pub(crate) fn chunk(&self, chunk: usize, rows: usize) -> &[[u8; SIZE]] {
        let (records, _) = self.bytes.as_chunks::<SIZE>();
        &records[(chunk * rows).min(records.len())..((chunk + 1) * rows).min(records.len())]
    }

    /// All of them, shared.
    pub(crate) fn buffer(&self) -> Buffer {
        self.bytes.clone()
    }

    /// How many there are.
    pub(crate) fn rows(&self) -> usize {
        self.bytes.len() / SIZE
    }
}

/// The eight bytes at an offset, as a number.
#[inline(always)]
pub(crate) fn read_i64<const SIZE: usize>(record: &[u8; SIZE], at: usize) -> i64 {
    i64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes a number.
pub(crate) fn write_i64<const SIZE: usize>(record: &mut [u8; SIZE], at: usize, value: i64) {
    record[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The double at an offset.
#[inline(always)]
pub(crate) fn read_f64<const SIZE: usize>(record: &[u8; SIZE], at: usize) -> f64 {
    f64::from_bits(read_i64(record, at) as u64)
}

/// The number of four bytes at an offset.
#[inline(always)]
pub(crate) fn read_i32<const SIZE: usize>(record: &[u8; SIZE], at: usize) -> i32 {
    i32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}
