//! Finding and splitting: POSITION, SPLIT_INDEX, STARTSWITH, ENDSWITH.

use crate::strings::{byte_offset, count_chars, part};
use memchr::{memchr_iter, memmem};
use millstream_abi::Str;

/// `LOCATE(search, s, from)`: position from 1 of the first occurrence at or after position `from`; 0 when there is
/// none; 1 for an empty `search`.
pub(crate) fn position(search: &str, s: &str, from: i32) -> i32 {
    if search.is_empty() {
        return 1;
    }
    let start = byte_offset(s, from.saturating_sub(1).max(0) as usize);
    match memmem::find(&s.as_bytes()[start..], search.as_bytes()) {
        Some(offset) => count_chars(&s[..start + offset]) as i32 + 1,
        None => 0,
    }
}

/// Part `index` (from 0) of `s` cut at `separator`, given where the separators start.
fn nth_part(s: &str, separator: usize, mut starts: impl Iterator<Item = usize>, index: usize) -> Option<Str> {
    let begin = match index {
        0 => 0,
        _ => starts.nth(index - 1)? + separator,
    };
    let end = starts.next().unwrap_or(s.len());
    Some(part(&s[begin..end]))
}

/// `SPLIT_INDEX(s, separator, index)`: part `index` from 0, NULL beyond the last one and for an empty `s`; an empty
/// separator cuts at every white space character.
pub(crate) fn split_index(s: &str, separator: &str, index: i32) -> Option<Str> {
    let index = usize::try_from(index).ok()?;
    if s.is_empty() {
        return None;
    }
    match separator.as_bytes() {
        [] => s.split(char::is_whitespace).nth(index).map(part),
        [byte] => nth_part(s, 1, memchr_iter(*byte, s.as_bytes()), index),
        bytes => nth_part(s, bytes.len(), memmem::find_iter(s.as_bytes(), bytes), index),
    }
}

/// `SPLIT_INDEX(s, code, index)`: the separator is the character of a code from 1 to 255.
pub(crate) fn split_index_code(s: &str, code: i32, index: i32) -> Option<Str> {
    let code = u8::try_from(code).ok().filter(|code| *code > 0)?;
    split_index(s, char::from(code).encode_utf8(&mut [0; 4]), index)
}

/// `STARTSWITH(s, start)`
pub(crate) fn starts_with(s: &[u8], start: &[u8]) -> bool {
    s.starts_with(start)
}

/// `ENDSWITH(s, end)`
pub(crate) fn ends_with(s: &[u8], end: &[u8]) -> bool {
    s.ends_with(end)
}
