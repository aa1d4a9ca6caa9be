//! Where a byte occurs for the n-th time, in texts in which it occurs every few bytes.
//!
//! `memchr` starts afresh for each occurrence, which costs more than to pass over a dozen bytes. Here 64 bytes become a word with a bit
//! for each, and the occurrences in them are its lowest bits: no branch depends on where they are, only on how many are passed over.
//! Behind the first [`NEAR`] bytes `memchr` takes over, which is faster where nothing is found for long.

use memchr::memchr_iter;
use std::ops::Range;

/// Bytes that are looked at by blocks.
const NEAR: usize = 256;

/// Bytes of a block.
const BLOCK: usize = 64;
/// Bytes that are compared at once.
const STEP: usize = 16;

/// The bytes between occurrence `index - 1` of a byte, or the start, and occurrence `index`, or the end: part `index`, from 0, of what
/// the byte separates. `None` behind the last part.
#[inline]
pub(crate) fn nth_part(separator: u8, text: &[u8], index: usize) -> Option<Range<usize>> {
    let (mut before, mut begin) = (index, 0);
    let near = text.len().min(NEAR);
    for (number, block) in text[..near].chunks(BLOCK).enumerate() {
        let (first, mut found) = (number * BLOCK, places(separator, block));
        while before > 0 && found != 0 {
            begin = first + found.trailing_zeros() as usize + 1;
            found &= found - 1;
            before -= 1;
        }
        if before == 0 && found != 0 {
            return Some(begin..first + found.trailing_zeros() as usize);
        }
    }
    let mut far = memchr_iter(separator, &text[near..]).map(|place| near + place);
    if before > 0 {
        begin = far.nth(before - 1)? + 1;
    }
    Some(begin..far.next().unwrap_or(text.len()))
}

/// A bit for each byte of a block, which is set where it is `byte`.
#[inline]
fn places(byte: u8, block: &[u8]) -> u64 {
    let (steps, rest) = block.as_chunks::<STEP>();
    let mut found = 0;
    for (number, step) in steps.iter().enumerate() {
        found |= u64::from(step_places(byte, *step)) << (number * STEP);
    }
    if rest.is_empty() {
        return found;
    }
    let end = match block.last_chunk() {
        // With bytes that were compared already.
        Some(last) => u64::from(step_places(byte, *last)) << (block.len() - STEP),
        None => {
            let mut padded = [!byte; STEP];
            padded[..rest.len()].copy_from_slice(rest);
            u64::from(step_places(byte, padded))
        }
    };
    found | end
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn step_places(byte: u8, step: [u8; STEP]) -> u16 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let value = u128::from_le_bytes(step);
    // SAFETY: every processor of this architecture has SSE2.
    unsafe {
        let step = _mm_set_epi64x((value >> 64) as i64, value as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(step, _mm_set1_epi8(byte as i8))) as u16
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn step_places(byte: u8, step: [u8; STEP]) -> u16 {
    portable_places(byte, step)
}

/// The same without instructions of an architecture: the highest bits of eight bytes, next to each other by a product.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn portable_places(byte: u8, step: [u8; STEP]) -> u16 {
    use crate::text::equal_bytes;
    let half = |word: u128| (equal_bytes(word as u64, byte) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    let value = u128::from_le_bytes(step);
    (half(value) | half(value >> 64) << 8) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    #[test]
    fn every_part_is_found() {
        let mut below = draws(3);
        for length in (0..200).chain(NEAR - 3..NEAR + 20).chain([1000]) {
            for rarity in [1, 2, 3, 7, 16, 40, 300] {
                for (separator, other) in [(b'/', b'.'), (0, 0x80), (0xff, 0x7f)] {
                    let byte = |_| if below(rarity) == 0 { separator } else { other };
                    let text: Vec<u8> = (0..length).map(byte).collect();
                    let mut begin = 0;
                    for (index, part) in text.split(|byte| *byte == separator).enumerate() {
                        assert_eq!(nth_part(separator, &text, index), Some(begin..begin + part.len()), "{text:?}");
                        begin += part.len() + 1;
                    }
                    let parts = text.split(|byte| *byte == separator).count();
                    assert_eq!(
                        (nth_part(separator, &text, parts), nth_part(separator, &text, usize::MAX)),
                        (None, None)
                    );
                }
            }
        }
    }

    #[test]
    fn both_ways_to_compare_agree() {
        let mut below = draws(5);
        for _ in 0..10_000 {
            let step = [(); STEP].map(|()| [b'/', b'.', 0, 0x80, 0xff, b'0'][below(6)]);
            for byte in [b'/', b'.', 0, 0x80, 0xff] {
                assert_eq!(step_places(byte, step), portable_places(byte, step), "{byte} in {step:?}");
            }
        }
    }
}
