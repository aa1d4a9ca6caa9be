//! Strings as values: 16 bytes, short ones inline, long ones by pointer.

/// A string or byte string.
///
/// ```text
/// byte   0      4                    8                  16
///        ┌──────┬────────────────────┬────────────────────┐
/// ≤ 12   │ len  │ bytes 0–3          │ bytes 4–11         │  unused bytes are zero
/// > 12   │ len  │ bytes 0–3          │ address of byte 0  │
///        └──────┴────────────────────┴────────────────────┘
/// ```
///
/// It is Arrow's `Utf8View` with the address in place of buffer number and offset; for strings of up to 12 bytes
/// the two are the same bits. Two strings of which one has at most 12 bytes are equal iff their 16 bytes are.
/// The address stays valid as long as the buffer, arena or table that owns the bytes: producers state which.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Str {
    /// Low word: length and the first four bytes (little endian).
    pub low: u64,
    /// High word: bytes 4 to 11, or the address.
    pub high: u64,
}

impl Str {
    /// Longest string that is stored inline.
    pub const INLINE: usize = 12;
    /// The empty string.
    pub const EMPTY: Str = Str { low: 0, high: 0 };
    /// A bit pattern that no string has: "no value yet" in MIN and MAX accumulators.
    pub const NONE: Str = Str { low: u32::MAX as u64, high: 0 };

    /// Length in bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.low as u32 as usize
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes are in the value itself.
    #[inline]
    pub fn is_inline(self) -> bool {
        self.len() <= Str::INLINE
    }

    /// A string over `bytes`: inline when short, else pointing at them, so `bytes` must outlive the value.
    #[inline]
    pub fn new(bytes: &[u8]) -> Str {
        debug_assert!(bytes.len() < u32::MAX as usize, "strings are shorter than 4 GiB");
        let mut raw = [0u8; 16];
        raw[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        if bytes.len() <= Str::INLINE {
            raw[4..4 + bytes.len()].copy_from_slice(bytes);
        } else {
            raw[4..8].copy_from_slice(&bytes[..4]);
            raw[8..].copy_from_slice(&(bytes.as_ptr() as u64).to_le_bytes());
        }
        Str::from_bits(u128::from_le_bytes(raw))
    }

    /// The value of an Arrow view; `buffers` holds the addresses of the column's data buffers.
    ///
    /// # Safety
    /// `view` is a valid view of a column whose data buffers start at `buffers[0]`, `buffers[1]`, ….
    #[inline]
    pub unsafe fn from_view(view: u128, buffers: *const *const u8) -> Str {
        let mut s = Str::from_bits(view);
        if !s.is_inline() {
            let buffer = s.high as u32 as usize;
            let offset = (s.high >> 32) as usize;
            // SAFETY: the caller promises that the view's buffer number and offset are in range.
            s.high = unsafe { (*buffers.add(buffer)).add(offset) } as u64;
        }
        s
    }

    /// The 16 bytes as one number.
    #[inline]
    pub fn bits(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// The inverse of [`Str::bits`].
    #[inline]
    pub fn from_bits(bits: u128) -> Str {
        Str { low: bits as u64, high: (bits >> 64) as u64 }
    }

    /// The bytes.
    ///
    /// # Safety
    /// The owner of the bytes of a long string is alive and does not change them while the slice is in use.
    #[inline]
    pub unsafe fn as_bytes(&self) -> &[u8] {
        if self.is_inline() {
            let start = (&raw const *self).cast::<u8>();
            // SAFETY: an inline string has its at most 12 bytes at offset 4 of the value itself.
            unsafe { std::slice::from_raw_parts(start.add(4), self.len()) }
        } else {
            // SAFETY: the caller promises that the owner is alive; `high` is the address of `len` bytes.
            unsafe { std::slice::from_raw_parts(self.high as *const u8, self.len()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_round_trip() {
        for text in ["", "a", "abcd", "abcdefghijkl", "abcdefghijklm", "a long string of many bytes"] {
            let s = Str::new(text.as_bytes());
            // SAFETY: `text` is static.
            assert_eq!(unsafe { s.as_bytes() }, text.as_bytes());
            assert_eq!(s.is_inline(), text.len() <= 12);
        }
        assert_eq!(Str::new(b"view"), Str::new(b"view"));
    }
}
