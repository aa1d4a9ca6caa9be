//! String functions: case, length, parts, padding, putting together.
//!
//! Positions and lengths count code points. A result that is a part of an argument points into the argument's bytes
//! instead of copying them: those bytes live as long as the task, as does the result. (A part of an inline argument
//! is itself inline.) ASCII text, found by one vectorised scan, takes paths where a code point is a byte.

use crate::context::{Failure, FunctionContext};
pub(crate) use crate::replacement::replace;
use crate::text::{HIGH, ONES, Text, is_ascii, value_of};
use millstream_abi::Str;
use std::cmp::Ordering;

/// Longest string that a function makes, in bytes: a row that asks for more is bad rather than fatal.
pub(crate) const MAX_RESULT_BYTES: usize = 64 << 20;

/// A part of an argument, without copying.
#[inline]
pub(crate) fn part(s: &str) -> Str {
    value_of(s.as_bytes())
}

/// The failure of a result longer than [`MAX_RESULT_BYTES`].
pub(crate) fn too_long(function: &str) -> Failure {
    Failure::argument(format!("the result of {function} would exceed {} MiB", MAX_RESULT_BYTES >> 20))
}

/// Byte order, which for UTF-8 is code point order.
pub(crate) fn compare(left: &[u8], right: &[u8]) -> i32 {
    match left.cmp(right) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }
}

/// The bit that tells upper from lower case, in each byte of an ASCII word that is one of the 26 letters from `first` on.
#[inline]
fn case_bits(word: u64, first: u8) -> u64 {
    let (from, past) = (word + ONES * u64::from(0x80 - first), word + ONES * u64::from(0x80 - first - 26));
    (from & !past & HIGH) >> 2
}

/// Changes the case of the ASCII letters from `first` to the 25th behind it in a short string.
#[inline]
fn short_case(s: Str, first: u8) -> Str {
    // The length of a short string is in the lowest bytes, and less than any letter.
    Str { low: s.low ^ case_bits(s.low, first), high: s.high ^ case_bits(s.high, first) }
}

/// Changes the case of the ASCII letters from `first` on: no copy when nothing changes, no allocation otherwise.
fn ascii_case(context: &mut FunctionContext, s: Text<'_>, first: u8) -> Str {
    let changes = |byte: &u8| byte.wrapping_sub(first) < 26;
    if !s.as_bytes().iter().fold(false, |any, byte| any | changes(byte)) {
        return s.value();
    }
    context.keep_with(s.len(), |out| {
        out.copy_from_slice(s.as_bytes());
        for byte in out {
            *byte ^= u8::from(changes(byte)) << 5;
        }
    })
}

/// `UPPER(s)`
pub(crate) fn upper(context: &mut FunctionContext, s: Text<'_>) -> Str {
    match s.short_ascii() {
        Some(short) => short_case(short, b'a'),
        None if is_ascii(&s) => ascii_case(context, s, b'a'),
        None => context.keep(s.to_uppercase().as_bytes()),
    }
}

/// `LOWER(s)`
pub(crate) fn lower(context: &mut FunctionContext, s: Text<'_>) -> Str {
    match s.short_ascii() {
        Some(short) => short_case(short, b'A'),
        None if is_ascii(&s) => ascii_case(context, s, b'A'),
        None => context.keep(s.to_lowercase().as_bytes()),
    }
}

/// Code points of a string.
pub(crate) fn count_chars(s: &str) -> usize {
    if is_ascii(s) { s.len() } else { s.chars().count() }
}

/// `CHAR_LENGTH(s)`
pub(crate) fn char_length(s: Text<'_>) -> i32 {
    s.short_ascii().map_or_else(|| count_chars(&s), Str::len) as i32
}

/// `OCTET_LENGTH(s)`
pub(crate) fn octet_length(s: &[u8]) -> i32 {
    s.len() as i32
}

/// `TRIM(BOTH chars FROM s)`: removes every leading and trailing character that occurs in `chars`.
pub(crate) fn trim_both(s: &str, chars: &str) -> Str {
    part(s.trim_matches(|c| chars.contains(c)))
}

/// `TRIM(LEADING chars FROM s)`
pub(crate) fn trim_leading(s: &str, chars: &str) -> Str {
    part(s.trim_start_matches(|c| chars.contains(c)))
}

/// `TRIM(TRAILING chars FROM s)`
pub(crate) fn trim_trailing(s: &str, chars: &str) -> Str {
    part(s.trim_end_matches(|c| chars.contains(c)))
}

/// Byte offset of code point `index`; the length when there are fewer.
pub(crate) fn byte_offset(s: &str, index: usize) -> usize {
    if is_ascii(s) { index.min(s.len()) } else { s.char_indices().nth(index).map_or(s.len(), |(offset, _)| offset) }
}

/// The first `length` code points from code point `start` on.
fn slice_chars(s: &str, start: usize, length: usize) -> &str {
    let tail = &s[byte_offset(s, start)..];
    &tail[..byte_offset(tail, length)]
}

/// `SUBSTRING(s FROM position FOR length)`: position 0 means 1, a negative one counts from the end; NULL for a
/// negative length; empty when the position is outside the string.
pub(crate) fn substring(s: &str, position: i32, length: i32) -> Option<Str> {
    let length = usize::try_from(length).ok()?;
    let start = match position {
        1.. => position as usize - 1,
        0 => 0,
        _ => match count_chars(s).checked_sub(position.unsigned_abs() as usize) {
            Some(start) => start,
            None => return Some(Str::EMPTY),
        },
    };
    Some(part(slice_chars(s, start, length)))
}

/// `LEFT(s, n)`: empty for a negative `n`.
pub(crate) fn left(s: &str, n: i32) -> Str {
    part(slice_chars(s, 0, n.max(0) as usize))
}

/// `RIGHT(s, n)`: empty for a negative `n`.
pub(crate) fn right(s: &str, n: i32) -> Str {
    let start = count_chars(s).saturating_sub(n.max(0) as usize);
    part(&s[byte_offset(s, start)..])
}

/// The characters that LPAD and RPAD add, and how much of `s` stays; `None` where Flink gives NULL.
fn padding<'a>(function: &str, s: &'a str, length: i32, pad: &str) -> Result<Option<(String, &'a str)>, Failure> {
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    if pad.is_empty() {
        return Ok(None);
    }
    let missing = length.saturating_sub(count_chars(s));
    if missing > MAX_RESULT_BYTES / 4 {
        return Err(too_long(function));
    }
    let added = pad.chars().cycle().take(missing).collect();
    Ok(Some((added, slice_chars(s, 0, length))))
}

/// `LPAD(s, length, pad)`: NULL for a negative length or an empty `pad`; shortens a longer `s`.
pub(crate) fn lpad(s: &str, length: i32, pad: &str) -> Result<Option<String>, Failure> {
    Ok(padding("LPAD", s, length, pad)?.map(|(added, kept)| added + kept))
}

/// `RPAD(s, length, pad)`: as LPAD, on the other side.
pub(crate) fn rpad(s: &str, length: i32, pad: &str) -> Result<Option<String>, Failure> {
    Ok(padding("RPAD", s, length, pad)?.map(|(added, kept)| format!("{kept}{added}")))
}

/// `REPEAT(s, n)`: empty for `n` ≤ 0.
pub(crate) fn repeat(s: &str, n: i32) -> Result<String, Failure> {
    let n = n.max(0) as usize;
    match s.len().checked_mul(n) {
        Some(length) if length <= MAX_RESULT_BYTES => Ok(s.repeat(n)),
        _ => Err(too_long("REPEAT")),
    }
}

/// `REVERSE(s)`
pub(crate) fn reverse(context: &mut FunctionContext, s: &str) -> Str {
    if is_ascii(s) {
        context.keep_with(s.len(), |out| {
            out.copy_from_slice(s.as_bytes());
            out.reverse();
        })
    } else {
        context.keep(s.chars().rev().collect::<String>().as_bytes())
    }
}

/// `INITCAP(s)`: words are runs of ASCII letters and digits, as in Flink.
pub(crate) fn initcap(context: &mut FunctionContext, s: &str) -> Str {
    context.keep_with(s.len(), |out| {
        out.copy_from_slice(s.as_bytes());
        let mut within_word = false;
        for byte in out {
            *byte = if within_word { byte.to_ascii_lowercase() } else { byte.to_ascii_uppercase() };
            within_word = byte.is_ascii_alphanumeric();
        }
    })
}

/// Puts strings together in the arena.
fn concat(context: &mut FunctionContext, parts: &[&[u8]]) -> Result<Str, Failure> {
    let length = parts.iter().map(|p| p.len()).sum();
    if length > MAX_RESULT_BYTES {
        return Err(too_long("CONCAT"));
    }
    Ok(context.keep_with(length, |mut out| {
        for part in parts {
            let (head, tail) = std::mem::take(&mut out).split_at_mut(part.len());
            head.copy_from_slice(part);
            out = tail;
        }
    }))
}

/// `a || b`
pub(crate) fn concat2(context: &mut FunctionContext, a: &[u8], b: &[u8]) -> Result<Str, Failure> {
    concat(context, &[a, b])
}

/// `CONCAT(a, b, c)`
pub(crate) fn concat3(context: &mut FunctionContext, a: &[u8], b: &[u8], c: &[u8]) -> Result<Str, Failure> {
    concat(context, &[a, b, c])
}

/// `CONCAT(a, b, c, d)`
pub(crate) fn concat4(context: &mut FunctionContext, a: &[u8], b: &[u8], c: &[u8], d: &[u8]) -> Result<Str, Failure> {
    concat(context, &[a, b, c, d])
}

/// The last step of `CONCAT_WS(separator, …)`, whose parts each have the separator in front: `s` without the first.
pub(crate) fn drop_prefix(s: &str, prefix: &str) -> Str {
    part(s.strip_prefix(prefix).unwrap_or(s))
}

/// `OVERLAY(s PLACING replacement FROM position FOR length)`: `s` itself when the position is outside it. Where the
/// replaced part reaches the end or the length is not positive, nothing of `s` follows the replacement.
pub(crate) fn overlay(s: &str, replacement: &str, position: i32, length: i32) -> String {
    let count = count_chars(s) as i64;
    let (position, length) = (i64::from(position), i64::from(length));
    if position <= 0 || position > count {
        return s.to_owned();
    }
    let head = slice_chars(s, 0, position as usize - 1);
    let has_tail = length > 0 && position + length <= count;
    let tail = if has_tail { &s[byte_offset(s, (position - 1 + length) as usize)..] } else { "" };
    [head, replacement, tail].concat()
}

/// `TRANSLATE(s, from, to)`: each character of `from` becomes the one at its place in `to`, or disappears when `to`
/// is shorter; the first occurrence in `from` counts.
pub(crate) fn translate(s: &str, from: &str, to: &str) -> String {
    s.chars()
        .filter_map(|c| match from.chars().position(|f| f == c) {
            Some(place) => to.chars().nth(place),
            None => Some(c),
        })
        .collect()
}

/// `ASCII(s)`: the first byte as a signed number, 0 for the empty string.
pub(crate) fn ascii(s: &[u8]) -> i32 {
    s.first().map_or(0, |&byte| i32::from(byte as i8))
}

/// `CHR(n)`: the Latin-1 character of the lowest byte; empty for negative numbers.
pub(crate) fn chr(n: i64) -> Str {
    if n < 0 {
        return Str::EMPTY;
    }
    part(char::from(n as u8).encode_utf8(&mut [0; 4]))
}

/// `IS_ALPHA(s)`: all characters are letters, and there is one.
pub(crate) fn is_alpha(s: &str) -> bool {
    !s.is_empty() && s.chars().all(char::is_alphabetic)
}

/// `IS_DIGIT(s)`: all characters are digits, and there is one.
pub(crate) fn is_digit(s: &str) -> bool {
    !s.is_empty() && s.chars().all(|c| c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric()))
}

/// `IS_DECIMAL(s)`: a number as Java reads it: sign, digits with at most one point, exponent.
pub(crate) fn is_decimal(s: &str) -> bool {
    let s = s.strip_prefix(['+', '-']).unwrap_or(s);
    s.starts_with(|c: char| c.is_ascii_digit() || c == '.') && s.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_of_every_length_and_byte() {
        let mut context = FunctionContext::default();
        let mut check = |s: &str| {
            let (lower, upper) = (lower(&mut context, s.into()), upper(&mut context, s.into()));
            let expected = [s.to_lowercase(), s.to_uppercase()];
            for (got, expected) in [lower, upper].iter().zip(&expected) {
                // SAFETY: the context and the text are alive.
                assert_eq!(unsafe { got.as_bytes() }, expected.as_bytes(), "{s}");
                assert!(!got.is_inline() || *got == Str::new(expected.as_bytes()), "no bytes behind a short string");
            }
            assert_eq!(char_length(s.into()), s.chars().count() as i32, "{s}");
        };
        for c in (0..0x250).filter_map(char::from_u32) {
            for length in [0, 1, 3, 8, 10, 11, 12, 20, 63, 64, 65, 100] {
                check(&format!("{}{c}", "-".repeat(length)));
                check(&format!("{c}{}", "aZ".repeat(length / 2)));
            }
        }
    }
}
