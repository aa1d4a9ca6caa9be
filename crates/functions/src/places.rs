//! Where a byte occurs for the n-th time, in texts in which it occurs every few bytes.
//!
//! `memchr` starts afresh for each occurrence, which costs more than to pass over a dozen bytes. Here the occurrences in
//! each eight bytes are counted, and only the last eight are looked into. Behind the first [`NEAR`] bytes `memchr` takes
//! over, which is faster where nothing is found for long.

use crate::text::{ONES, equal_bytes};
use memchr::memchr_iter;

/// Bytes that are counted by eights.
const NEAR: usize = 256;

/// The offset of occurrence `n`, from 0, of a byte.
#[inline]
pub(crate) fn nth_place(byte: u8, text: &[u8], mut n: usize) -> Option<usize> {
    let near = &text[..text.len().min(NEAR)];
    let (words, rest) = near.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let found = equal_bytes(u64::from_le_bytes(*word), byte);
        // The sum of the bytes, in the highest one.
        let count = ((found >> 7).wrapping_mul(ONES) >> 56) as usize;
        if n < count {
            return Some(number * 8 + nth_byte(found, n));
        }
        n -= count;
    }
    let rest = if text.len() > NEAR { &text[NEAR..] } else { rest };
    memchr_iter(byte, rest).nth(n).map(|place| text.len() - rest.len() + place)
}

/// The number of the byte whose highest bit is the n-th one set, from 0.
#[inline]
fn nth_byte(mut found: u64, n: usize) -> usize {
    for _ in 0..n {
        found &= found - 1;
    }
    found.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found() {
        for length in (0..70).chain(NEAR - 20..NEAR + 40) {
            for step in [1, 2, 3, 7, 16, 17, 100] {
                for (byte, other) in [(b'/', b'.'), (0, 0x80), (0xff, 0x7f)] {
                    let text: Vec<u8> = (0..length).map(|at| if at % step == 0 { byte } else { other }).collect();
                    for n in 0..length / step + 3 {
                        let place = Some(n * step).filter(|place| *place < length);
                        assert_eq!(nth_place(byte, &text, n), place, "{length} {step}");
                    }
                }
            }
        }
    }
}
