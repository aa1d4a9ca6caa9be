//! REPLACE: one pass over the text, without an intermediate copy.
//!
//! What is replaced is found by `memchr`; a search text of more bytes has a prepared finder in the cache. One byte that is
//! left out of a text of ordinary length is the exception: it occurs every few bytes, at places that the processor cannot
//! foresee, and so the text is packed eight bytes at a time instead of being copied from place to place.

use crate::context::{Failure, FunctionContext};
use crate::strings::{MAX_RESULT_BYTES, too_long};
use crate::text::{HIGH, Text, equal_bytes};
use memchr::{memchr, memchr_iter, memmem::Finder};
use millstream_abi::Str;

/// Longest text that is packed; in longer ones long copies win.
const PACKED_BYTES: usize = 1 << 10;

/// `REPLACE(s, search, replacement)`
pub(crate) fn replace(context: &mut FunctionContext, s: Text<'_>, search: Text<'_>, by: &str) -> Result<Str, Failure> {
    match (search.as_bytes(), by.as_bytes()) {
        ([], _) => before_every_char(context, &s, by),
        ([left_out], []) if s.len() <= PACKED_BYTES => Ok(pack(context, s, *left_out)),
        ([old], [new]) if s.len() <= MAX_RESULT_BYTES => Ok(substitute(context, s, *old, *new)),
        ([byte], _) => {
            let mut replaced = Ok(false);
            let starts = memchr_iter(*byte, s.as_bytes());
            let kept = context.keep_written(|out| replaced = replace_at(out, &s, starts, 1, by));
            Ok(if replaced? { kept } else { s.value() })
        }
        (bytes, _) => {
            let finder = context.caches.finders.get(search, |search| Finder::new(search).into_owned());
            let mut replaced = Ok(false);
            let starts = finder.find_iter(s.as_bytes());
            let kept = context.arena.keep_written(|out| replaced = replace_at(out, &s, starts, bytes.len(), by));
            Ok(if replaced? { kept } else { s.value() })
        }
    }
}

/// An empty search text is found before every character and at the end.
fn before_every_char(context: &mut FunctionContext, s: &str, by: &str) -> Result<Str, Failure> {
    if (s.len() + 1).saturating_mul(by.len()) > MAX_RESULT_BYTES {
        return Err(too_long("REPLACE"));
    }
    Ok(context.keep(s.replace("", by).as_bytes()))
}

/// Appends `s` with what starts at `starts`, each of `length` bytes, replaced; nothing when there is none. Whether there is.
fn replace_at(
    out: &mut Vec<u8>,
    s: &str,
    starts: impl Iterator<Item = usize>,
    length: usize,
    by: &str,
) -> Result<bool, Failure> {
    let s = s.as_bytes();
    let mut left = MAX_RESULT_BYTES.checked_div(by.len()).unwrap_or(usize::MAX);
    let mut end = None;
    for start in starts {
        if left == 0 {
            out.clear();
            return Err(too_long("REPLACE"));
        }
        left -= 1;
        out.extend_from_slice(&s[end.unwrap_or(0)..start]);
        out.extend_from_slice(by.as_bytes());
        end = Some(start + length);
    }
    out.extend_from_slice(end.map_or(&[], |end| &s[end..]));
    Ok(end.is_some())
}

/// `s` with another byte in place of `old`.
fn substitute(context: &mut FunctionContext, s: Text<'_>, old: u8, new: u8) -> Str {
    if memchr(old, s.as_bytes()).is_none() {
        return s.value();
    }
    context.keep_with(s.len(), |out| {
        out.copy_from_slice(s.as_bytes());
        for byte in out {
            *byte = if *byte == old { new } else { *byte };
        }
    })
}

/// `s` without one byte.
fn pack(context: &mut FunctionContext, s: Text<'_>, left_out: u8) -> Str {
    if memchr(left_out, s.as_bytes()).is_none() {
        return s.value();
    }
    let (words, rest) = s.as_bytes().as_chunks::<8>();
    // The bytes behind the last whole word, as a word of which only they count.
    let last = match s.as_bytes().last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (7 - rest.len())) >> 8,
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    // Every word is written whole; what is too much of it is overwritten by the next one.
    context.arena.keep_some(s.len() + 8, |out| {
        let mut length = 0;
        for word in words {
            let (packed, bytes) = pack_word(u64::from_le_bytes(*word), left_out, HIGH);
            out[length..length + 8].copy_from_slice(&packed.to_le_bytes());
            length += bytes;
        }
        let (packed, bytes) = pack_word(last, left_out, HIGH & !(u64::MAX << (8 * rest.len())));
        out[length..length + 8].copy_from_slice(&packed.to_le_bytes());
        length + bytes + rest.len() - 8
    })
}

/// A word without the bytes that equal `left_out` and have their highest bit in `places`; how many bytes are left.
#[inline]
fn pack_word(word: u64, left_out: u8, places: u64) -> (u64, usize) {
    let mut found = equal_bytes(word, left_out) & places;
    let (mut word, mut left) = (word, 8);
    loop {
        // All ones when nothing was found: then the word stays.
        let below = ((found & found.wrapping_neg()) >> 7).wrapping_sub(1);
        word = (word & below) | (word >> 8 & !below);
        left -= usize::from(found != 0);
        // The bytes behind have moved by one.
        found = (found & found.wrapping_sub(1)) >> 8;
        if found == 0 {
            return (word, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    fn replaced(context: &mut FunctionContext, s: &str, search: &str, by: &str) -> String {
        let result = replace(context, s.into(), search.into(), by).unwrap();
        // SAFETY: the arguments and the context are alive.
        let bytes = unsafe { result.as_bytes() };
        assert!(!result.is_inline() || result == Str::new(bytes), "no bytes behind a short string");
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn replaces_as_the_library_does() {
        let mut context = FunctionContext::default();
        let mut below = draws(1);
        let letters = ["a", "b", "c", "\0", "é", "ß", "漢", "😀", "aa", "ab", "x"];
        for round in 0..30_000 {
            let mut text =
                |most: usize, kinds: usize| -> String { (0..below(most)).map(|_| letters[below(kinds)]).collect() };
            // Few kinds of letters make many, adjacent and overlapping occurrences.
            let kinds = [2, 4, 11][round % 3];
            let s = text(if round % 500 == 0 { 3_000 } else { 90 }, kinds);
            let (search, by) = (text(if round % 2 == 0 { 2 } else { 4 }, kinds), text(4, kinds));
            for by in [&*by, ""] {
                assert_eq!(replaced(&mut context, &s, &search, by), s.replace(&search, by), "{s} {search} {by}");
            }
            if round % 100 == 0 {
                context.reset();
            }
        }
    }

    #[test]
    fn texts_of_every_length_are_packed() {
        let mut context = FunctionContext::default();
        for length in (0..40).chain(PACKED_BYTES - 10..PACKED_BYTES + 10) {
            for (step, byte) in [(1, "\0"), (2, "y"), (7, "\0"), (9, "y"), (2_000, "y")] {
                let s: String = (0..length).map(|at| if at % step == step - 1 { byte } else { "x" }).collect();
                assert_eq!(replaced(&mut context, &s, byte, ""), s.replace(byte, ""), "{length} {step}");
                assert_eq!(replaced(&mut context, &s, byte, "z"), s.replace(byte, "z"), "{length} {step}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_not_copied() {
        let mut context = FunctionContext::default();
        let s = "a text that is longer than a short one";
        for (search, by) in [("z", ""), ("z", "y"), ("z", "--"), ("zz", "")] {
            assert_eq!(replace(&mut context, s.into(), search.into(), by).unwrap(), Str::new(s.as_bytes()));
        }
        assert_eq!(context.bytes(), 0);
    }

    #[test]
    fn results_are_bounded() {
        let mut context = FunctionContext::default();
        let by = "b".repeat(1 << 20);
        for search in ["", "a", "aa"] {
            let most = if search.is_empty() { 63 } else { 64 * search.len() };
            for (length, is_bad) in [(most, false), (most + search.len().max(1), true)] {
                let got = replace(&mut context, (&*"a".repeat(length)).into(), search.into(), &by);
                assert_eq!(got.is_err(), is_bad, "{search} {length}");
                context.reset();
            }
        }
    }
}
