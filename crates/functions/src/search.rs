//! Finding and splitting: POSITION, SPLIT_INDEX, STARTSWITH, ENDSWITH.

use crate::context::FunctionContext;
use crate::places::nth_part;
use crate::strings::{byte_offset, count_chars, part};
use crate::text::{Text, part_of};
use memchr::{memchr, memchr_iter, memmem::Finder};
use millstream_abi::Str;

/// The prepared form of a text of more than one byte that is looked for.
fn finder<'c>(context: &'c mut FunctionContext, search: Text<'_>) -> &'c Finder<'static> {
    context.caches.finders.get(search, |search| Finder::new(search).into_owned())
}

/// `LOCATE(search, s, from)`: position from 1 of the first occurrence at or after position `from`; 0 when there is
/// none; 1 for an empty `search`.
pub(crate) fn position(context: &mut FunctionContext, search: Text<'_>, s: &str, from: i32) -> i32 {
    let start = if from <= 1 { 0 } else { byte_offset(s, from as usize - 1) };
    let rest = &s.as_bytes()[start..];
    let found = match search.as_bytes() {
        [] => return 1,
        [byte] => memchr(*byte, rest),
        _ => finder(context, search).find(rest),
    };
    found.map_or(0, |offset| count_chars(&s[..start + offset]) as i32 + 1)
}

/// How often a text occurs in `s` without overlap; an empty one does not.
pub(crate) fn occurrences(context: &mut FunctionContext, s: &str, search: Text<'_>) -> i32 {
    let count = match search.as_bytes() {
        [] => 0,
        [byte] => memchr_iter(*byte, s.as_bytes()).count(),
        _ => finder(context, search).find_iter(s.as_bytes()).count(),
    };
    count as i32
}

/// Part `index` (from 0) of `s` cut at `separator`, given where the separators start.
fn nth_part_of(s: &str, separator: usize, mut starts: impl Iterator<Item = usize>, index: usize) -> Option<Str> {
    let begin = match index {
        0 => 0,
        _ => starts.nth(index - 1)? + separator,
    };
    let end = starts.next().unwrap_or(s.len());
    Some(part(&s[begin..end]))
}

/// `SPLIT_INDEX(s, separator, index)`: part `index` from 0, NULL beyond the last one and for an empty `s`; an empty
/// separator cuts at every white space character.
///
/// Inlined into the call, so that a part goes to its slot from registers: from memory, where it is written in two halves, reading it
/// at once waits for both.
#[inline(always)]
pub(crate) fn split_index(context: &mut FunctionContext, s: &str, separator: Text<'_>, index: i32) -> Option<Str> {
    let index = usize::try_from(index).ok()?;
    match separator.as_bytes() {
        _ if s.is_empty() => None,
        [byte] => nth_part(*byte, s.as_bytes(), index).map(|range| part_of(s.as_bytes(), range)),
        _ => split_anywhere(context, s, separator, index),
    }
}

/// The same at white space, or at a separator of several bytes.
#[inline(never)]
fn split_anywhere(context: &mut FunctionContext, s: &str, separator: Text<'_>, index: usize) -> Option<Str> {
    match separator.as_bytes() {
        [] => s.split(char::is_whitespace).nth(index).map(part),
        bytes => nth_part_of(s, bytes.len(), finder(context, separator).find_iter(s.as_bytes()), index),
    }
}

/// `SPLIT_INDEX(s, code, index)`: the separator is the character of a code from 1 to 255.
pub(crate) fn split_index_code(context: &mut FunctionContext, s: &str, code: i32, index: i32) -> Option<Str> {
    let code = u8::try_from(code).ok().filter(|code| *code > 0)?;
    split_index(context, s, (&*char::from(code).encode_utf8(&mut [0; 4])).into(), index)
}

/// `STARTSWITH(s, start)`
pub(crate) fn starts_with(s: &[u8], start: &[u8]) -> bool {
    s.starts_with(start)
}

/// `ENDSWITH(s, end)`
pub(crate) fn ends_with(s: &[u8], end: &[u8]) -> bool {
    s.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    #[test]
    fn texts_are_split_as_the_library_does() {
        let mut context = FunctionContext::default();
        let mut below = draws(1);
        let separators = ["/", "\u{1}", "é", "aa", "/a/", "漢字", "😀", "a"];
        let letters = ["/", "a", "\u{1}", "é", "漢", "字", "😀", "some text between", "x"];
        for _ in 0..20_000 {
            let s: String = (0..1 + below(60)).map(|_| letters[below(9)]).collect();
            let separator = separators[below(8)];
            let index = below(12) as i32;
            let got = split_index(&mut context, &s, separator.into(), index);
            let expected = s.split(separator).nth(index as usize).map(part);
            // A part points into the text, or is short.
            assert_eq!(got, expected, "{s} {separator} {index}");
            let from = below(20) as i32;
            let start = s.char_indices().nth((from - 1).max(0) as usize).map_or(s.len(), |(at, _)| at);
            let found = s[start..].find(separator).map_or(0, |at| s[..start + at].chars().count() as i32 + 1);
            assert_eq!(position(&mut context, separator.into(), &s, from), found, "{s} {separator} {from}");
        }
    }
}
