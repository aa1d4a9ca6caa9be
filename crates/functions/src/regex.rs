//! Functions with regular expressions ([`crate::java_regex`]), with Flink's rules for bad ones.

use crate::context::{Failure, FunctionContext};
use crate::java_regex::CompiledRegex;
use crate::json::array_of_strings;
use crate::like::escape_character;
use crate::strings::{count_chars, part};
use crate::text::Text;
use millstream_abi::Str;

/// The compiled form of a pattern, from the cache.
fn compiled<'c>(context: &'c mut FunctionContext, pattern: Text<'_>) -> Option<&'c mut CompiledRegex> {
    context.caches.regexes.get(pattern, CompiledRegex::compile).as_mut()
}

/// `REGEXP(s, pattern)`: whether some part of `s` matches; FALSE for an empty or malformed pattern.
pub(crate) fn matches(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> bool {
    !pattern.is_empty() && compiled(context, pattern).is_some_and(|regex| regex.is_match(s))
}

/// `REGEXP_EXTRACT(s, pattern, group)`: NULL without a match, for a group that took no part in it or does not exist,
/// and for a malformed pattern.
pub(crate) fn extract(context: &mut FunctionContext, s: &str, pattern: Text<'_>, group: i32) -> Option<Str> {
    let group = usize::try_from(group).ok()?;
    compiled(context, pattern)?.find_group(s, group).map(|range| part(&s[range]))
}

/// `REGEXP_REPLACE(s, pattern, replacement)`: the replacement is taken literally; NULL for a malformed pattern.
pub(crate) fn replace(context: &mut FunctionContext, s: &str, pattern: Text<'_>, replacement: &str) -> Option<Str> {
    let found = compiled(context, pattern)?.find_all(s)?;
    if found.is_empty() {
        return Some(part(s));
    }
    let mut out = String::with_capacity(s.len() + found.len() * replacement.len());
    let mut end = 0;
    for range in found {
        out.push_str(&s[end..range.start]);
        out.push_str(replacement);
        end = range.end;
    }
    out.push_str(&s[end..]);
    Some(context.keep(out.as_bytes()))
}

/// `REGEXP_COUNT(s, pattern)`: NULL for a malformed pattern.
pub(crate) fn count(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> Option<i32> {
    Some(compiled(context, pattern)?.find_all(s)?.len() as i32)
}

/// `REGEXP_INSTR(s, pattern)`: position from 1 of the first match, 0 without one; NULL for a malformed pattern.
pub(crate) fn instr(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> Option<i32> {
    let found = compiled(context, pattern)?.find_group(s, 0);
    Some(found.map_or(0, |range| count_chars(&s[..range.start]) as i32 + 1))
}

/// `REGEXP_SUBSTR(s, pattern)`: the first match; NULL without one and for a malformed pattern.
pub(crate) fn substr(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> Option<Str> {
    extract(context, s, pattern, 0)
}

/// `REGEXP_EXTRACT_ALL(s, pattern, group)` as a JSON array: NULL for a malformed pattern and for a group that does not
/// exist.
pub(crate) fn extract_all(context: &mut FunctionContext, s: &str, pattern: Text<'_>, group: i32) -> Option<String> {
    let groups = compiled(context, pattern)?.find_groups(s, usize::try_from(group).ok()?)?;
    Some(array_of_strings(groups.into_iter().map(|range| range.map(|range| &s[range]))))
}

/// The parts of `s` between the matches.
fn parts<'s>(s: &'s str, regex: &CompiledRegex) -> Option<Vec<&'s str>> {
    let mut parts = Vec::new();
    let mut end = 0;
    for range in regex.find_all(s)? {
        // An empty match cuts between two characters, but not off the start or the end.
        if range.is_empty() && (range.start == 0 || range.start == s.len()) {
            continue;
        }
        parts.push(&s[end..range.start]);
        end = range.end;
    }
    parts.push(&s[end..]);
    Some(parts)
}

/// `REGEXP_SPLIT(s, pattern)` as a JSON array; NULL for a malformed pattern.
pub(crate) fn split(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> Option<String> {
    let parts = parts(s, compiled(context, pattern)?)?;
    Some(array_of_strings(parts.into_iter().map(Some)))
}

/// `STR_TO_MAP(s, pair, key_value)` as a JSON array of keys and values in turn; both separators are regular
/// expressions. NULL for malformed ones.
pub(crate) fn str_to_map(
    context: &mut FunctionContext,
    s: &str,
    pair: Text<'_>,
    key_value: Text<'_>,
) -> Option<String> {
    if s.is_empty() {
        return Some("[]".to_owned());
    }
    let mut pairs = parts(s, compiled(context, pair)?)?;
    // As Java splits: what is empty at the end does not count.
    while pairs.last().is_some_and(|last| last.is_empty()) {
        pairs.pop();
    }
    let separator = compiled(context, key_value)?;
    let halves = pairs.into_iter().flat_map(|pair| match separator.find_group(pair, 0) {
        Some(range) => [Some(&pair[..range.start]), Some(&pair[range.end..])],
        None => [Some(pair), None],
    });
    Some(array_of_strings(halves))
}

/// `s SIMILAR TO pattern`
pub(crate) fn similar_to(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> Result<bool, Failure> {
    similar_to_escape(context, s, &pattern, "")
}

/// `s SIMILAR TO pattern ESCAPE escape`
pub(crate) fn similar_to_escape(
    context: &mut FunctionContext,
    s: &str,
    pattern: &str,
    escape: &str,
) -> Result<bool, Failure> {
    let character = escape_character(escape)?;
    let caches = &mut context.caches;
    caches.key.clear();
    caches.key.push(character.unwrap_or('\0'));
    caches.key.push_str(pattern);
    let regex = caches.similar.get(&*caches.key, |_| CompiledRegex::compile_similar(pattern, character));
    regex.as_ref().map(|regex| regex.is_match(s)).map_err(|message| Failure::argument(message.clone()))
}
