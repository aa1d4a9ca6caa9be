//! The values of any column as words that can be compared: what profiles of columns count.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, BooleanArray, StringViewArray};
use arrow_buffer::Buffer;
use arrow_schema::DataType;
use millstream_abi::hash_bytes;

/// Strings of up to this many bytes are stored inline.
const INLINE_BYTES: u32 = 12;

/// The values of a column.
pub(crate) enum Cells<'a> {
    /// Fixed width, in bytes; at most 16.
    Fixed(Buffer, usize),
    Booleans(&'a BooleanArray),
    Strings(&'a StringViewArray),
    Bytes(&'a BinaryViewArray),
}

impl Cells<'_> {
    /// The values of a column; `None` for nested ones and packed records.
    pub(crate) fn of(column: &ArrayRef) -> Option<Cells<'_>> {
        match column.data_type() {
            DataType::Boolean => Some(Cells::Booleans(column.as_boolean())),
            DataType::Utf8View => Some(Cells::Strings(column.as_string_view())),
            DataType::BinaryView => Some(Cells::Bytes(column.as_binary_view())),
            other => {
                let width = other.primitive_width().filter(|&width| width <= 16)?;
                let data = column.to_data();
                Some(Cells::Fixed(data.buffers()[0].slice(data.offset() * width), width))
            }
        }
    }

    /// The value of a row as a word: equal for equal values, and different for different ones but for strings of more than
    /// 12 bytes, where two hashes may be alike. Of a NULL: whatever is there.
    pub(crate) fn word(&self, row: usize) -> u128 {
        match self {
            Cells::Fixed(bytes, width) => {
                let mut word = [0; 16];
                word[..*width].copy_from_slice(&bytes[row * width..(row + 1) * width]);
                u128::from_le_bytes(word)
            }
            Cells::Booleans(values) => u128::from(values.value(row)),
            Cells::Strings(values) => text_word(values.views()[row], || values.value(row).as_bytes()),
            Cells::Bytes(values) => text_word(values.views()[row], || values.value(row)),
        }
    }

    /// The length of a row's string in bytes; `None` for other types.
    pub(crate) fn length(&self, row: usize) -> Option<u32> {
        match self {
            Cells::Strings(values) => Some(values.views()[row] as u32),
            Cells::Bytes(values) => Some(values.views()[row] as u32),
            Cells::Fixed(..) | Cells::Booleans(_) => None,
        }
    }

    /// Whether strings of such a length are held in place.
    pub(crate) fn is_inline(length: u32) -> bool {
        length <= INLINE_BYTES
    }
}

/// The view of a string that is held in place is the string; of a longer one, its length and hash.
fn text_word<'a>(view: u128, bytes: impl FnOnce() -> &'a [u8]) -> u128 {
    let length = view as u32;
    match Cells::is_inline(length) {
        true => view,
        false => u128::from(hash_bytes(bytes())) << 32 | u128::from(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, FixedSizeBinaryArray, Int16Array, Int64Array};
    use std::sync::Arc;

    fn words(column: ArrayRef) -> Vec<u128> {
        let cells = Cells::of(&column).expect("a column of simple values");
        (0..column.len()).map(|row| cells.word(row)).collect()
    }

    #[test]
    fn values_are_equal_when_their_words_are() {
        assert_eq!(words(Arc::new(Int64Array::from(vec![9, 7, 7, 0]).slice(1, 3))), [7, 7, 0]);
        assert_eq!(words(Arc::new(Int16Array::from(vec![1, 256]))), [1, 256]);
        assert_eq!(words(Arc::new(Decimal128Array::from(vec![1 << 90]))), [1 << 90]);
        assert_eq!(words(Arc::new(BooleanArray::from(vec![true, false]))), [1, 0]);
        let long = "a string that is not held in place";
        let found = words(Arc::new(StringViewArray::from(vec!["view", "view", "click", long, long, ""])));
        assert_eq!((found[0] == found[1], found[1] == found[2], found[3] == found[4]), (true, false, true));
        assert_ne!(found[3], found[5]);
    }

    #[test]
    fn strings_have_lengths() {
        let column: ArrayRef = Arc::new(BinaryViewArray::from_iter_values([&b"abc"[..], b"0123456789abc"]));
        let cells = Cells::of(&column).expect("a column of simple values");
        assert_eq!((cells.length(0), cells.length(1)), (Some(3), Some(13)));
        assert!(Cells::is_inline(12) && !Cells::is_inline(13));
    }

    #[test]
    fn records_are_not_looked_into() {
        let column: ArrayRef = Arc::new(
            FixedSizeBinaryArray::try_from_iter([[1u8; 78], [2; 78]].into_iter()).expect("records of equal length"),
        );
        assert!(Cells::of(&column).is_none());
    }
}
