//! Strings and bytes as Arrow views, most of them pointing into the chunk they were found in.
//!
//! A view array built through Arrow's checked constructor would validate every string again, which costs more than
//! finding it. [`ViewValues`] only takes `&str` for strings, so each is known to be UTF-8, and its views are made here,
//! so each lies within its buffer; this is the one place of the crate with unsafe code for that.

use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, ScalarBuffer};
use std::sync::Arc;

/// Longest value that is stored within its view.
const INLINE_BYTES: usize = 12;

/// Views under construction. Buffer 0 is the chunk, buffer 1 holds the values that had to be copied.
#[derive(Debug, Default)]
pub(crate) struct ViewValues {
    views: Vec<u128>,
    copied: Vec<u8>,
    /// End of the chunk's last byte that a view points to.
    chunk_end: usize,
}

impl ViewValues {
    /// Appends `value`, which lies at `offset` of the chunk that [`Self::finish_strings`] will get.
    #[inline]
    pub(crate) fn push_in_chunk(&mut self, value: &[u8], offset: usize) {
        self.chunk_end = self.chunk_end.max(offset + value.len());
        self.views.push(view(value, 0, offset));
    }

    /// Appends a copy of `value`.
    pub(crate) fn push_copy(&mut self, value: &[u8]) {
        let offset = self.copied.len();
        if value.len() > INLINE_BYTES {
            self.copied.extend_from_slice(value);
        }
        self.views.push(view(value, 1, offset));
    }

    /// Appends the value that stands under a NULL.
    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.views.push(0);
    }

    /// Forgets all values from `length` on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.views.truncate(length);
    }

    fn into_parts(self, chunk: &Buffer) -> (ScalarBuffer<u128>, Vec<Buffer>) {
        assert!(self.chunk_end <= chunk.len(), "views were made from this chunk");
        let mut buffers = Vec::new();
        if self.chunk_end > 0 || !self.copied.is_empty() {
            buffers.push(chunk.clone());
        }
        if !self.copied.is_empty() {
            buffers.push(Buffer::from_vec(self.copied));
        }
        (ScalarBuffer::from(self.views), buffers)
    }

    /// The array of strings. All values must have been pushed as the bytes of a `&str`, those in the chunk as they
    /// stand in `chunk`.
    pub(crate) fn finish_strings(self, chunk: &Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
        let (views, buffers) = self.into_parts(chunk);
        if cfg!(debug_assertions) {
            return Arc::new(StringViewArray::new(views, buffers, nulls));
        }
        // SAFETY: `view` gives each view the length, prefix, buffer and offset of a value that lies in the chunk (its
        // end was compared with the chunk's length in `into_parts`) or in `copied`, and the pushers pass UTF-8 only:
        // slices of a chunk that was validated as a whole, or a `String` decoded from it.
        Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
    }

    /// The array of bytes.
    pub(crate) fn finish_bytes(self, chunk: &Buffer, nulls: Option<NullBuffer>) -> ArrayRef {
        let (views, buffers) = self.into_parts(chunk);
        Arc::new(BinaryViewArray::new(views, buffers, nulls))
    }
}

/// The 16-byte Arrow view of `value`: length, then the value itself or its first four bytes, buffer and offset.
#[inline]
fn view(value: &[u8], buffer: u32, offset: usize) -> u128 {
    let length = value.len() as u128;
    if value.len() <= INLINE_BYTES {
        let mut bytes = [0u8; 16];
        bytes[4..4 + value.len()].copy_from_slice(value);
        return u128::from_le_bytes(bytes) | length;
    }
    let prefix = u32::from_le_bytes([value[0], value[1], value[2], value[3]]);
    // Chunks are bounded far below 4 GiB, see `MAX_RECORD_BYTES`.
    length | u128::from(prefix) << 32 | u128::from(buffer) << 64 | (offset as u128) << 96
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    #[test]
    fn views_read_back_from_chunk_and_copies() {
        let chunk = Buffer::from(b"a string in the chunk, short".as_slice());
        let mut values = ViewValues::default();
        values.push_in_chunk(&chunk[0..21], 0);
        values.push_in_chunk(&chunk[23..28], 23);
        values.push_copy("copied because it had escapes".as_bytes());
        values.push_copy(b"");
        values.push_null();
        values.push_copy(b"forgotten");
        values.truncate(5);
        let nulls = NullBuffer::from(vec![true, true, true, true, false]);
        let array = values.finish_strings(&chunk, Some(nulls));
        let strings: Vec<_> = array.as_string_view().iter().collect();
        let expected = ["a string in the chunk", "short", "copied because it had escapes", ""];
        assert_eq!(strings[..4], expected.map(Some));
        assert!(array.is_null(4));
    }
}
