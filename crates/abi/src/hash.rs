//! The hash of grouping keys: the same in the interpreter, in generated code, in the state crate and on every node.
//!
//! A key of several columns is folded column by column, starting from [`HASH_SEED`], and finished once. The result
//! is never 0 or 1, which mark an empty table entry and one that is being written. Partials are persisted and exchanged with these hashes, so the
//! function is part of their format: no random seed.

use crate::Str;

/// Start of every hash.
pub const HASH_SEED: u64 = 0x9E37_79B9_7F4A_7C15;
/// Odd multiplier of [`hash_word`] (from the splitmix64 finaliser).
const MULTIPLIER: u64 = 0xBF58_476D_1CE4_E5B9;

/// Folds one 64-bit word into `hash`: xor, multiply, rotate by 32. Emitted inline by generated code.
///
/// Integers are sign-extended to 64 bits, booleans are 0 or 1, floats go by their bits as f64 with -0.0 as 0.0
/// and one NaN. A NULL key column folds the word [`HASH_SEED`].
#[inline]
pub fn hash_word(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(32)
}

/// Folds a 128-bit value as two words, low first.
#[inline]
pub fn hash_wide(hash: u64, wide: u128) -> u64 {
    hash_word(hash_word(hash, wide as u64), (wide >> 64) as u64)
}

/// Folds a string: an inline one as its two words, a long one as the XXH3 of its bytes.
///
/// # Safety
/// The bytes of a long string are alive.
#[inline]
pub unsafe fn hash_str(hash: u64, s: Str) -> u64 {
    if s.is_inline() {
        hash_wide(hash, s.bits())
    } else {
        // SAFETY: promised by the caller.
        hash_word(hash, hash_bytes(unsafe { s.as_bytes() }))
    }
}

/// XXH3 of the bytes of a string of more than 12 bytes.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Hash word of an empty entry.
pub const HASH_EMPTY: u64 = 0;
/// Hash word of an entry of a shared table that some worker is just writing: equal to no hash.
pub const HASH_BUSY: u64 = 1;

/// Ends a hash: mixes the high bits down (`h ^ h >> 29`, times the multiplier, `^ >> 32`) and sets bit 1 of what would be
/// [`HASH_EMPTY`] or [`HASH_BUSY`].
#[inline]
pub fn hash_finish(hash: u64) -> u64 {
    let h = (hash ^ (hash >> 29)).wrapping_mul(MULTIPLIER);
    let h = h ^ (h >> 32);
    if h <= HASH_BUSY { h | 2 } else { h }
}
