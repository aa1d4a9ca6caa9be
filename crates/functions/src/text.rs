//! A string as a body gets it: as text, and as the value that it came as.
//!
//! A short value has all of its bytes in two words, so that comparing it or changing its case takes some instructions on
//! registers instead of a loop whose length the processor cannot foresee.

use millstream_abi::Str;
use std::ops::{Deref, Range};

/// A one in every byte.
pub(crate) const ONES: u64 = u64::MAX / 255;
/// The highest bit of every byte, which no byte of ASCII text has.
pub(crate) const HIGH: u64 = ONES << 7;

/// The highest bit of each byte of a word that is `byte`.
#[inline]
pub(crate) fn equal_bytes(word: u64, byte: u8) -> u64 {
    let differing = word ^ (ONES * u64::from(byte));
    !(((differing & !HIGH) + !HIGH) | differing) & HIGH
}

/// `Str::new`, with a short string put together in registers.
#[inline]
pub(crate) fn value_of(bytes: &[u8]) -> Str {
    let length = bytes.len();
    // The ends may overlap, where they agree.
    let ends = |first: u64, last: u64, width: usize| u128::from(first) | u128::from(last) << (8 * (length - width));
    let text = if length > Str::INLINE {
        return Str::new(bytes);
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        ends(u64::from_le_bytes(*first), u64::from_le_bytes(*last), 8)
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        ends(u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into(), 4)
    } else if let [first, .., last] = bytes {
        // Of two or three bytes the one in the middle is the first or another.
        ends((*first).into(), (*last).into(), 1) | u128::from(bytes[length / 2]) << (8 * (length / 2))
    } else {
        bytes.first().map_or(0, |byte| u128::from(*byte))
    };
    Str::from_bits(length as u128 | text << 32)
}

/// A part of a text as a value.
#[inline]
pub(crate) fn part_of(text: &[u8], range: Range<usize>) -> Str {
    let length = range.len();
    match text[range.start..].first_chunk::<{ Str::INLINE }>() {
        // As many bytes as a short value has, and those that are not its own cut off: no branch depends on the length.
        Some(bytes) if length <= Str::INLINE => {
            let mut value = [0; 16];
            value[4..].copy_from_slice(bytes);
            let own = u128::MAX >> (8 * (Str::INLINE - length));
            Str::from_bits(u128::from_le_bytes(value) & own | length as u128)
        }
        _ => value_of(&text[range]),
    }
}

/// A string argument. The value is one over the bytes of the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    value: Str,
    text: &'a str,
}

impl<'a> Text<'a> {
    /// A text with a value over its bytes.
    #[inline]
    pub(crate) fn over(value: Str, text: &'a str) -> Text<'a> {
        debug_assert!(value.len() == text.len());
        Text { value, text }
    }

    /// The value, which is the whole text without copying.
    #[inline]
    pub(crate) fn value(self) -> Str {
        self.value
    }

    /// The value of a short text that is ASCII.
    #[inline]
    pub(crate) fn short_ascii(self) -> Option<Str> {
        // The length of a short text is in the lowest bytes, and less than 0x80.
        (self.value.is_inline() && (self.value.low | self.value.high) & HIGH == 0).then_some(self.value)
    }

    /// Whether the two are the same text.
    #[inline]
    pub(crate) fn is(self, other: Text<'_>) -> bool {
        // Length and first bytes, which are most of what tells texts apart.
        self.value.low == other.value.low
            && match self.value.is_inline() {
                true => self.value.high == other.value.high,
                false => self.text == other.text,
            }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    #[inline]
    fn from(text: &'a str) -> Text<'a> {
        Text { value: value_of(text.as_bytes()), text }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        self.text
    }
}

/// `str::is_ascii` without its loop over the last bytes.
#[inline]
pub(crate) fn is_ascii(s: &str) -> bool {
    let bytes = s.as_bytes();
    let any = |words: &[u8]| {
        let (words, _) = words.as_chunks::<8>();
        words.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) & HIGH != 0
    };
    let Some(last) = bytes.last_chunk::<8>() else { return bytes.iter().fold(0, |all, byte| all | byte) < 0x80 };
    let (blocks, rest) = bytes.as_chunks::<64>();
    !blocks.iter().any(|block| any(block)) && !any(rest) && !any(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_whole() {
        let texts = ["", "a", "b", "aa", "abcdefghijkl", "abcdefghijkm", "abcdefghijklm", "abcdefghijkln", "abcd"];
        for (i, a) in texts.into_iter().enumerate() {
            for (j, b) in texts.into_iter().enumerate() {
                assert_eq!(Text::from(a).is(Text::from(b)), i == j, "{a} {b}");
            }
        }
    }

    #[test]
    fn values_are_those_of_the_bytes() {
        let bytes: Vec<u8> = (1..=40).map(|byte| byte * 5).collect();
        for start in 0..20 {
            for end in start..bytes.len() {
                assert_eq!(value_of(&bytes[start..end]), Str::new(&bytes[start..end]), "{start} {end}");
                assert_eq!(part_of(&bytes, start..end), Str::new(&bytes[start..end]), "{start} {end}");
            }
        }
    }

    #[test]
    fn ascii_is_what_it_is() {
        for length in 0..200 {
            let text = "x".repeat(length);
            assert!(is_ascii(&text) && Text::from(&*text).short_ascii().is_some() == (length <= 12), "{length}");
            for at in 0..length {
                let text = format!("{}é{}", &text[..at], &text[at..]);
                assert!(!is_ascii(&text) && Text::from(&*text).short_ascii().is_none(), "{text}");
            }
        }
    }
}
