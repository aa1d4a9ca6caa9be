//! Finding the end of JSON values: RFC 8259, strictly, within one line.
//!
//! Whatever is skipped is still checked, so that a truncated or malformed record is noticed wherever the damage is. A
//! record must end on its line: a line feed, also within a string, ends it, so that a broken line cannot swallow the
//! next one.

/// Nesting that is accepted, so that hostile input cannot exhaust the stack.
pub(super) const MAX_DEPTH: usize = 256;

/// Bytes that are not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed {
    /// Where, in the scanned bytes.
    pub at: usize,
    /// What was expected or found, as the rest of a sentence.
    pub what: &'static str,
}

pub(super) type Scan<T> = Result<T, Malformed>;

/// The byte at `at`; behind the last one a line feed.
#[inline(always)]
pub(super) fn byte(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(b'\n')
}

/// The position of the first byte from `at` on that is not white space within a line.
#[inline(always)]
pub(super) fn skip_space(data: &[u8], mut at: usize) -> usize {
    while matches!(byte(data, at), b' ' | b'\t' | b'\r') {
        at += 1;
    }
    at
}

/// The error for the byte at `at`, which may not stand there.
#[cold]
pub(super) fn unexpected(data: &[u8], at: usize, what: &'static str) -> Malformed {
    let what = if byte(data, at) == b'\n' { "the record is incomplete at the end of the line" } else { what };
    Malformed { at, what }
}

/// Where a string ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StringEnd {
    /// Position of the closing quote.
    pub quote: usize,
    /// Whether there are escape sequences.
    pub escaped: bool,
}

/// Finds the end of the string whose first character (behind the quote) is at `at`.
#[inline]
pub(super) fn string_end(data: &[u8], at: usize) -> Scan<StringEnd> {
    let quote = find_special(data, at);
    if byte(data, quote) == b'"' {
        return Ok(StringEnd { quote, escaped: false });
    }
    escaped_string_end(data, quote)
}

fn escaped_string_end(data: &[u8], mut at: usize) -> Scan<StringEnd> {
    let mut escaped = false;
    loop {
        match byte(data, at) {
            b'"' => return Ok(StringEnd { quote: at, escaped }),
            b'\\' => match byte(data, at + 1) {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' if (2..6).all(|i| byte(data, at + i).is_ascii_hexdigit()) => at += 6,
                _ => return Err(unexpected(data, at + 1, "an invalid escape sequence in a string")),
            },
            b'\n' => return Err(Malformed { at, what: "a string does not end on its line" }),
            _ => return Err(Malformed { at, what: "a control character in a string must be escaped" }),
        }
        escaped = true;
        at = find_special(data, at);
    }
}

/// The position of the first quote, backslash or control character from `at` on, or the length of `data`.
#[inline(always)]
fn find_special(data: &[u8], mut at: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        while at + 16 <= data.len() {
            // SAFETY: the 16 bytes from `at` on lie within `data`, the load needs no alignment, and SSE2 is part of
            // every x86-64.
            let found = unsafe {
                let block = _mm_loadu_si128(data.as_ptr().add(at).cast());
                let quotes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'"' as i8));
                let backslashes = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'\\' as i8));
                let last_control = _mm_set1_epi8(0x1f);
                let controls = _mm_cmpeq_epi8(_mm_max_epu8(block, last_control), last_control);
                _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, backslashes), controls))
            };
            if found != 0 {
                return at + found.trailing_zeros() as usize;
            }
            at += 16;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    while let Some(block) = data.get(at..at + 8) {
        // The highest bit of each byte that is special; bits above the lowest set one may be false, which is harmless.
        const ONES: u64 = u64::MAX / 255;
        let word = u64::from_le_bytes(block.try_into().expect("eight bytes"));
        let zero = |w: u64| w.wrapping_sub(ONES) & !w;
        let quotes = zero(word ^ (ONES * u64::from(b'"')));
        let backslashes = zero(word ^ (ONES * u64::from(b'\\')));
        let controls = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (quotes | backslashes | controls) & (ONES << 7);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < data.len() && !matches!(data[at], b'"' | b'\\' | 0..0x20) {
        at += 1;
    }
    at
}

/// Where a number ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NumberEnd {
    /// Behind the last digit.
    pub end: usize,
    /// Whether it has neither fraction nor exponent.
    pub integer: bool,
}

/// Finds the end of the number that starts at `at`.
#[inline]
pub(super) fn number_end(data: &[u8], at: usize) -> Scan<NumberEnd> {
    let first = at + usize::from(byte(data, at) == b'-');
    let end = digits_end(data, first);
    if end == first {
        return Err(unexpected(data, first, "a digit was expected"));
    }
    if byte(data, first) == b'0' && end > first + 1 {
        return Err(Malformed { at: first, what: "a number must not start with zero" });
    }
    if matches!(byte(data, end), b'.' | b'e' | b'E') {
        fraction_end(data, end)
    } else {
        Ok(NumberEnd { end, integer: true })
    }
}

fn fraction_end(data: &[u8], mut end: usize) -> Scan<NumberEnd> {
    let digits = |from: usize| match digits_end(data, from) {
        end if end == from => Err(unexpected(data, from, "a digit was expected")),
        end => Ok(end),
    };
    if byte(data, end) == b'.' {
        end = digits(end + 1)?;
    }
    if matches!(byte(data, end), b'e' | b'E') {
        end = digits(end + 1 + usize::from(matches!(byte(data, end + 1), b'-' | b'+')))?;
    }
    Ok(NumberEnd { end, integer: false })
}

#[inline(always)]
fn digits_end(data: &[u8], at: usize) -> usize {
    digits(data, at).1
}

/// The number that the digits from `at` on stand for, modulo 2^64, and the position behind them.
#[inline(always)]
pub(super) fn digits(data: &[u8], mut at: usize) -> (u64, usize) {
    const ONES: u64 = u64::MAX / 255;
    /// 10 to the power of the index.
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let mut value = 0u64;
    while let Some(block) = data.get(at..at + 8) {
        let word = u64::from_le_bytes(block.try_into().expect("eight bytes"));
        // Digits become 0 to 9. Whatever else is there has a high bit itself, or gets one by adding 0x76.
        let values = word ^ (ONES * u64::from(b'0'));
        let others = (values | ((values & (ONES * 0x7f)) + ONES * 0x76)) & (ONES * 0x80);
        let count = (others.trailing_zeros() / 8) as usize;
        if count == 0 {
            return (value, at);
        }
        // The first digit is in the lowest byte; with zeros before them there are always eight.
        let mut eight = values << (64 - 8 * count);
        eight = eight.wrapping_mul(10).wrapping_add(eight >> 8) & 0x00ff_00ff_00ff_00ff;
        eight = eight.wrapping_mul(100).wrapping_add(eight >> 16) & 0x0000_ffff_0000_ffff;
        eight = eight.wrapping_mul(10_000).wrapping_add(eight >> 32) & 0xffff_ffff;
        value = value.wrapping_mul(POWERS[count]).wrapping_add(eight);
        at += count;
        if count < 8 {
            return (value, at);
        }
    }
    while byte(data, at).is_ascii_digit() {
        value = value.wrapping_mul(10).wrapping_add(u64::from(byte(data, at) - b'0'));
        at += 1;
    }
    (value, at)
}

/// Checks that `literal` stands at `at`; gives the position behind it.
#[inline]
pub(super) fn literal_end(data: &[u8], at: usize, literal: &'static [u8]) -> Scan<usize> {
    let end = at + literal.len();
    if data.get(at..end) == Some(literal) {
        return Ok(end);
    }
    let same = literal.iter().enumerate().take_while(|(i, b)| byte(data, at + i) == **b).count();
    Err(unexpected(data, at + same, "an unknown word, not true, false or null"))
}

/// The position behind the value that starts at `at`; `depth` is the nesting around it.
#[inline]
pub(super) fn skip_value(data: &[u8], at: usize, depth: usize) -> Scan<usize> {
    match byte(data, at) {
        b'"' => Ok(string_end(data, at + 1)?.quote + 1),
        b'-' | b'0'..=b'9' => Ok(number_end(data, at)?.end),
        b'{' => skip_object(data, at + 1, depth + 1),
        b'[' => skip_array(data, at + 1, depth + 1),
        b't' => literal_end(data, at, b"true"),
        b'f' => literal_end(data, at, b"false"),
        b'n' => literal_end(data, at, b"null"),
        _ => Err(unexpected(data, at, "a value was expected")),
    }
}

/// Checks a depth before going deeper.
#[inline]
pub(super) fn check_depth(at: usize, depth: usize) -> Scan<()> {
    if depth > MAX_DEPTH { Err(Malformed { at, what: "objects and arrays are nested too deeply" }) } else { Ok(()) }
}

fn skip_object(data: &[u8], at: usize, depth: usize) -> Scan<usize> {
    check_depth(at, depth)?;
    let mut at = skip_space(data, at);
    if byte(data, at) == b'}' {
        return Ok(at + 1);
    }
    loop {
        if byte(data, at) != b'"' {
            return Err(unexpected(data, at, "a key in quotes was expected"));
        }
        let colon = skip_space(data, string_end(data, at + 1)?.quote + 1);
        if byte(data, colon) != b':' {
            return Err(unexpected(data, colon, "a colon was expected"));
        }
        let end = skip_value(data, skip_space(data, colon + 1), depth)?;
        match member_end(data, end)? {
            (next, false) => at = next,
            (behind, true) => return Ok(behind),
        }
    }
}

/// What follows a member of an object: the position of the next key, or the position behind the object and `true`.
#[inline(always)]
pub(super) fn member_end(data: &[u8], at: usize) -> Scan<(usize, bool)> {
    let at = skip_space(data, at);
    match byte(data, at) {
        b',' => Ok((skip_space(data, at + 1), false)),
        b'}' => Ok((at + 1, true)),
        _ => Err(unexpected(data, at, "a comma or a closing brace was expected")),
    }
}

/// What follows an element of an array: the position of the next one, or the position behind the array and `true`.
#[inline(always)]
pub(super) fn element_end(data: &[u8], at: usize) -> Scan<(usize, bool)> {
    let at = skip_space(data, at);
    match byte(data, at) {
        b',' => Ok((skip_space(data, at + 1), false)),
        b']' => Ok((at + 1, true)),
        _ => Err(unexpected(data, at, "a comma or a closing bracket was expected")),
    }
}

fn skip_array(data: &[u8], at: usize, depth: usize) -> Scan<usize> {
    check_depth(at, depth)?;
    let mut at = skip_space(data, at);
    if byte(data, at) == b']' {
        return Ok(at + 1);
    }
    loop {
        match element_end(data, skip_value(data, at, depth)?)? {
            (next, false) => at = next,
            (behind, true) => return Ok(behind),
        }
    }
}

/// The characters that the escaped string `text` (without quotes) stands for; `text` was found by [`string_end`].
/// Half a surrogate pair becomes U+FFFD.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = byte(rest.as_bytes(), at + 1);
        let mut length = 2;
        match escape {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let (character, used) = unicode_escape(&rest[at..]);
                out.push(character);
                length = used;
            }
            other => out.push(char::from(other)),
        }
        rest = &rest[at + length..];
    }
    out.push_str(rest);
    out
}

/// The character of `\uXXXX` or `\uXXXX\uXXXX` at the start of `text`, and the length of the escape.
fn unicode_escape(text: &str) -> (char, usize) {
    let unit = |from: usize| {
        let marked = text.get(from..from + 2) == Some("\\u");
        let digits = if marked { text.get(from + 2..from + 6) } else { None };
        digits.and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let first = unit(0).unwrap_or(0xfffd);
    if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, unit(6)) {
        let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_eight_at_a_time() {
        for length in 0..=25 {
            for behind in ["", ",", "}", ":", "/", "e5", "x9999999999", "\u{fe}123", " 1"] {
                let number: String = "9081726354908172635490817".chars().take(length).collect();
                let (value, end) = digits(format!("-{number}{behind}").as_bytes(), 1);
                assert_eq!(end, 1 + length, "{number}{behind}");
                if length <= 19 {
                    assert_eq!(value, number.parse().unwrap_or(0), "{number}{behind}");
                }
            }
        }
    }

    #[test]
    fn skips_what_is_json_and_nothing_else() {
        for good in [
            "0",
            "-0",
            "12",
            "-1.5e+10",
            "1E5",
            "true",
            "false",
            "null",
            r#""""#,
            r#""a\"b\\""#,
            "[]",
            "[ 1 , [ ] ]",
            "{}",
            r#"{"a":1}"#,
            r#"{ "a" : [ { } ] , "b" : "long long long long long string" }"#,
            r#""\u00e9\/""#,
        ] {
            assert_eq!(skip_value(good.as_bytes(), 0, 0), Ok(good.len()), "{good}");
            assert!(serde_json::from_str::<serde_json::Value>(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-",
            "01",
            "1.",
            "1e",
            ".5",
            "tru",
            "nul",
            "\"",
            "\"a",
            r#""\x""#,
            r#""\u12g4""#,
            "[",
            "[1",
            "[1,]",
            "[,]",
            "{",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{a:1}",
            "\"\u{1}\"",
            "]",
            "{\"a\n\":1}",
            "[1\n,2]",
        ] {
            assert!(skip_value(bad.as_bytes(), 0, 0).is_err(), "{bad}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = "[".repeat(100_000);
        assert_eq!(skip_value(deep.as_bytes(), 0, 0).unwrap_err().what, "objects and arrays are nested too deeply");
    }

    #[test]
    fn finds_the_special_byte_at_every_offset() {
        for length in 0..70 {
            for special in [b'"', b'\\', b'\n', 0, 0x1f] {
                let mut data = vec![b'x'; length];
                data.extend_from_slice(&[special, b'"', b'y']);
                for from in 0..=length {
                    assert_eq!(find_special(&data, from), length);
                }
            }
            assert_eq!(find_special(&vec![0xe9; length], 0), length);
        }
    }

    #[test]
    fn escapes_decode_as_in_serde() {
        for text in [r"a\tb\n\\\/\b\f\r\u0041", r"\u00e9\u20ac", r"\ud83d\ude00!", "no escapes"] {
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(unescape(text), expected);
        }
        assert_eq!(unescape(r"\ud83dx\ude00"), "\u{fffd}x\u{fffd}");
        assert_eq!(unescape(r"\ud83d\u0041"), "\u{fffd}A");
    }
}
