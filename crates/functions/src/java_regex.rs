//! Regular expressions with Java's syntax, compiled, and patterns of SIMILAR TO.
//!
//! A pattern is translated where Java and Rust write the same thing differently, then compiled once per worker. Plain
//! patterns run in linear time: what is a chain without an engine ([`RegexChain`]), all else on the `regex` engine; those with look-around, back references or possessive
//! quantifiers run on the backtracking engine, whose steps are bounded.
//!
//! Two differences remain: `$` matches at the very end only, not before a final line break, and `(?i)` folds all of
//! Unicode instead of ASCII.

use crate::regex_chain::{Find, RegexChain};
use std::fmt;
use std::ops::Range;

/// A pattern of the engine of linear time.
pub(crate) struct PlainRegex {
    regex: ::regex::Regex,
    /// Of groups; reused from row to row.
    locations: ::regex::CaptureLocations,
    /// For patterns that need no engine.
    chain: Option<RegexChain>,
}

impl PlainRegex {
    fn new(regex: ::regex::Regex, pattern: &str) -> PlainRegex {
        let locations = regex.capture_locations();
        PlainRegex { regex, locations, chain: RegexChain::of(pattern) }
    }

    /// What the chain finds, if there is one.
    #[inline]
    fn follow_chain(&self, s: &str, from: usize, group: usize) -> Find {
        self.chain.as_ref().map_or(Find::GaveUp, |chain| chain.find_at(s, from, group))
    }
}

/// A compiled pattern.
pub(crate) enum CompiledRegex {
    /// Linear time.
    Plain(Box<PlainRegex>),
    /// Backtracking.
    Fancy(Box<fancy_regex::Regex>),
}

impl fmt::Debug for CompiledRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompiledRegex::Plain(plain) => plain.regex.fmt(f),
            CompiledRegex::Fancy(fancy) => fancy.fmt(f),
        }
    }
}

impl CompiledRegex {
    /// Compiles a pattern in Java's syntax; `None` when it is not one.
    pub(crate) fn compile(pattern: &str) -> Option<CompiledRegex> {
        let Translation { pattern, is_possessive } = translate(pattern);
        if is_possessive { Self::compile_fancy(&pattern) } else { Self::compile_translated(&pattern) }
    }

    /// Compiles a pattern of SIMILAR TO; an error says what is wrong with it.
    pub(crate) fn compile_similar(pattern: &str, escape: Option<char>) -> Result<CompiledRegex, String> {
        Self::compile_translated(&translate_similar(pattern, escape)?)
            .ok_or_else(|| format!("'{pattern}' is not a valid pattern of SIMILAR TO"))
    }

    fn compile_translated(pattern: &str) -> Option<CompiledRegex> {
        if let Ok(plain) = ::regex::Regex::new(pattern) {
            return Some(CompiledRegex::Plain(Box::new(PlainRegex::new(plain, pattern))));
        }
        Self::compile_fancy(pattern)
    }

    fn compile_fancy(pattern: &str) -> Option<CompiledRegex> {
        fancy_regex::Regex::new(pattern).ok().map(|fancy| CompiledRegex::Fancy(Box::new(fancy)))
    }

    /// Whether some part of `s` matches.
    pub(crate) fn is_match(&self, s: &str) -> bool {
        match self {
            CompiledRegex::Plain(plain) => match plain.follow_chain(s, 0, 0) {
                Find::GaveUp => plain.regex.is_match(s),
                found => found != Find::Nothing,
            },
            CompiledRegex::Fancy(fancy) => fancy.is_match(s).unwrap_or(false),
        }
    }

    /// Where group `group` of the first match lies; `None` without match, group, or part of the match in the group.
    pub(crate) fn find_group(&mut self, s: &str, group: usize) -> Option<Range<usize>> {
        match self {
            CompiledRegex::Plain(plain) => {
                if group >= plain.locations.len() {
                    return None;
                }
                match plain.follow_chain(s, 0, group) {
                    Find::Match { group, .. } => return Some(group),
                    Find::Nothing => return None,
                    Find::GaveUp => {}
                }
                let PlainRegex { regex, locations, .. } = &mut **plain;
                if group == 0 {
                    return regex.find(s).map(|found| found.range());
                }
                regex.captures_read(locations, s)?;
                locations.get(group).map(|(start, end)| start..end)
            }
            CompiledRegex::Fancy(fancy) => fancy.captures(s).ok()??.get(group).map(|found| found.range()),
        }
    }

    /// Where group `group` of every match lies, from left to right; `None` when there is no such group, or when the
    /// backtracking engine gives up.
    pub(crate) fn find_groups(&self, s: &str, group: usize) -> Option<Vec<Option<Range<usize>>>> {
        match self {
            CompiledRegex::Plain(plain) if group < plain.regex.captures_len() => {
                let mut found = Vec::new();
                let mut locations = plain.regex.capture_locations();
                each_match(s, |from| {
                    let all = plain.regex.captures_read_at(&mut locations, s, from).map(|all| all.range());
                    found.extend(all.as_ref().map(|_| locations.get(group).map(|(start, end)| start..end)));
                    Some(all)
                })?;
                Some(found)
            }
            CompiledRegex::Fancy(fancy) if group < fancy.captures_len() => {
                let mut found = Vec::new();
                each_match(s, |from| {
                    let captures = fancy.captures_from_pos(s, from).ok()?;
                    found.extend(captures.as_ref().map(|all| all.get(group).map(|group| group.range())));
                    Some(captures.and_then(|all| all.get(0).map(|all| all.range())))
                })?;
                Some(found)
            }
            CompiledRegex::Plain(_) | CompiledRegex::Fancy(_) => None,
        }
    }

    /// Every match from left to right; `None` when the backtracking engine gives up.
    pub(crate) fn find_all(&self, s: &str) -> Option<Vec<Range<usize>>> {
        let mut all = Vec::new();
        each_match(s, |from| {
            let found = match self {
                CompiledRegex::Plain(plain) => match plain.follow_chain(s, from, 0) {
                    Find::Match { whole, .. } => Some(whole),
                    Find::Nothing => None,
                    Find::GaveUp => plain.regex.find_at(s, from).map(|found| found.range()),
                },
                CompiledRegex::Fancy(fancy) => fancy.find_from_pos(s, from).ok()?.map(|found| found.range()),
            };
            all.extend(found.clone());
            Some(found)
        })?;
        Some(all)
    }
}

/// Goes from match to match as Java does: `find` looks for the next one from where the last one ended, so that an empty one
/// may follow another one at once, and one character further behind an empty one. `None` when `find` gives up.
fn each_match(s: &str, mut find: impl FnMut(usize) -> Option<Option<Range<usize>>>) -> Option<()> {
    let mut from = 0;
    while let Some(found) = find(from)? {
        from = found.end;
        if found.is_empty() {
            let Some(next) = s[from..].chars().next() else { break };
            from += next.len_utf8();
        }
    }
    Some(())
}

/// A SIMILAR TO pattern as an anchored regular expression: `%` and `_` are wildcards, `| * + ? { } ( ) [ ]` mean what
/// they mean in regular expressions, everything else is text.
fn translate_similar(pattern: &str, escape: Option<char>) -> Result<String, String> {
    let mut out = String::from("(?s)^(?:");
    let mut within_class = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            let next = chars.next().ok_or_else(|| format!("the pattern '{pattern}' ends with the escape character"))?;
            out.push_str(&::regex::escape(next.encode_utf8(&mut [0; 4])));
            continue;
        }
        match c {
            // `[:ALPHA:]` and its kind stand within a class.
            '[' if within_class && chars.peek() == Some(&':') => {
                let name: String = chars.by_ref().take_while(|c| *c != ']').collect();
                out.push_str(&format!("[{}]", name.to_ascii_lowercase()));
            }
            '[' | ']' => {
                within_class = c == '[';
                out.push(c);
            }
            _ if within_class => match c {
                '\\' | '&' | '~' => out.extend(['\\', c]),
                _ => out.push(c),
            },
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '|' | '*' | '+' | '?' | '{' | '}' | '(' | ')' => out.push(c),
            _ => out.push_str(&::regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    out.push_str(")$");
    Ok(out)
}

/// A pattern in the syntax of Rust's engines.
struct Translation {
    pattern: String,
    /// Whether it has a possessive quantifier, which the plain engine would read as a repeated repetition.
    is_possessive: bool,
}

/// Rewrites Java's syntax where Rust's engines read it otherwise: ASCII classes (`\d`, `\w`, `\s`, `\p{Alpha}`), `.`
/// (which in Java excludes every line terminator), quotations and superfluous escapes.
fn translate(pattern: &str) -> Translation {
    let mut out = String::with_capacity(pattern.len() + 16);
    let dot_matches_all = pattern.contains("(?s");
    let mut class_depth = 0_usize;
    let (mut is_possessive, mut after_quantifier) = (false, false);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        is_possessive |= after_quantifier && c == '+';
        after_quantifier = class_depth == 0 && !after_quantifier && matches!(c, '*' | '+' | '?' | '}');
        match c {
            '\\' => translate_escape(&mut chars, class_depth > 0, &mut out),
            '[' => {
                class_depth += 1;
                out.push(c);
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                // A bracket right at the start of a class is itself.
                if chars.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            ']' if class_depth > 0 => {
                class_depth -= 1;
                out.push(c);
            }
            // `--` and `~~` would be set operations.
            '-' | '~' if class_depth > 0 && chars.peek() == Some(&c) => out.extend(['\\', c]),
            '.' if class_depth == 0 && !dot_matches_all => out.push_str("[^\\n\\r\\x{85}\\x{2028}\\x{2029}]"),
            _ => out.push(c),
        }
    }
    Translation { pattern: out, is_possessive }
}

/// Translates what follows a backslash.
fn translate_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, within_class: bool, out: &mut String) {
    let Some(c) = chars.next() else {
        out.push('\\');
        return;
    };
    let class = match c {
        'd' => "0-9",
        'D' => "^0-9",
        'w' => "a-zA-Z0-9_",
        'W' => "^a-zA-Z0-9_",
        's' => "\\t\\n\\x0B\\f\\r ",
        'S' => "^\\t\\n\\x0B\\f\\r ",
        'h' => "\\t \\x{A0}\\x{1680}\\x{180E}\\x{2000}-\\x{200A}\\x{202F}\\x{205F}\\x{3000}",
        'Q' => return translate_quotation(chars, out),
        'p' | 'P' => return translate_property(c, chars, out),
        'e' => return out.push_str("\\x1B"),
        'R' => return out.push_str("(?:\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])"),
        'Z' => return out.push_str("\\n?\\z"),
        // An escaped `<` or `>` would be a word boundary.
        '<' | '>' => return out.push(c),
        _ if c.is_ascii_alphanumeric() || c.is_ascii_punctuation() => return out.extend(['\\', c]),
        _ => return out.push(c),
    };
    match (within_class, class.strip_prefix('^')) {
        (true, None) => out.push_str(class),
        _ => out.extend(["[", class, "]"]),
    }
}

/// `\Q…\E`: text as it stands.
fn translate_quotation(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    let mut text = String::new();
    for c in chars.by_ref() {
        text.push(c);
        if text.ends_with("\\E") {
            text.truncate(text.len() - 2);
            break;
        }
    }
    out.push_str(&::regex::escape(&text));
}

/// `\p{…}`: POSIX names are ASCII classes, `Is…` names a script or a property.
fn translate_property(p: char, chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) {
    if chars.next_if_eq(&'{').is_none() {
        out.extend(['\\', p]);
        return;
    }
    let name: String = chars.by_ref().take_while(|c| *c != '}').collect();
    const POSIX: [&str; 12] =
        ["Lower", "Upper", "ASCII", "Alpha", "Digit", "Alnum", "Punct", "Graph", "Print", "Blank", "Cntrl", "XDigit"];
    let not = if p == 'P' { "^" } else { "" };
    if POSIX.contains(&&*name) || name == "Space" {
        out.push_str(&format!("[[:{not}{}:]]", name.to_ascii_lowercase()));
    } else {
        let property = name.strip_prefix("Is").unwrap_or(&name);
        out.push_str(&format!("\\{p}{{{property}}}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::draws;

    #[test]
    fn patterns_match_with_and_without_a_chain_as_the_engine_does() {
        let pieces = ["abc", "ab", "c", "&", "id=", "é", "1", "\n", "ABC", "x"];
        let patterns = [
            "(&|^)abc([^&]*)",
            "x?é{0,2}(abc)1*",
            ".*id=(.)",
            "(abc|id=)x",
            "(?i)abc",
            "\\babc\\b",
            "^abc$",
            "(x|éé)(ab)+id=$",
            "abc|x",
            "((?:é|1)id=abc)",
            "(?m)^id=(c?)$",
            "[a-c]{3}",
            "(x*)(id=)?abc",
        ];
        let mut below = draws(7);
        for pattern in patterns {
            let Some(mut compiled) = CompiledRegex::compile(pattern) else { panic!("{pattern}") };
            let CompiledRegex::Plain(plain) = &compiled else { panic!("{pattern}") };
            let reference = plain.regex.clone();
            for _ in 0..3_000 {
                let s: String = (0..below(12)).map(|_| pieces[below(pieces.len())]).collect();
                assert_eq!(compiled.is_match(&s), reference.is_match(&s), "{pattern} {s}");
                let expected = reference.captures(&s);
                for group in 0..4 {
                    let expected = expected.as_ref().and_then(|all| all.get(group)).map(|found| found.range());
                    assert_eq!(compiled.find_group(&s, group), expected, "{pattern} {s} {group}");
                }
            }
        }
    }

    #[test]
    fn plain_patterns_run_in_linear_time() {
        for plain in ["(&|^)channel_id=([^&]*)", "a.c", "\\d+\\s*[\\w-]", "\\Qa.b\\E", "(?<n>x)"] {
            assert!(matches!(CompiledRegex::compile(plain), Some(CompiledRegex::Plain(_))), "{plain}");
        }
        for fancy in ["a(?=b)", "(a)\\1", "a++b"] {
            assert!(matches!(CompiledRegex::compile(fancy), Some(CompiledRegex::Fancy(_))), "{fancy}");
        }
        assert!(CompiledRegex::compile("(a").is_none());
    }

    #[test]
    fn classes_are_ascii() {
        assert_eq!(translate("\\d[\\w.]\\S").pattern, "[0-9][a-zA-Z0-9_.][^\\t\\n\\x0B\\f\\r ]");
        assert_eq!(translate("\\<a\\>\\/\\p{Alpha}\\p{IsLatin}").pattern, "<a>\\/[[:alpha:]]\\p{Latin}");
        assert_eq!(translate_similar("a%[[:ALPHA:]_]_.", None).as_deref(), Ok("(?s)^(?:a.*[[:alpha:]_].\\.)$"));
    }
}
