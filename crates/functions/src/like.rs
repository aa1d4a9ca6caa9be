//! LIKE and ILIKE: whether a text matches a pattern, which is compiled once ([`LikePattern`]).
//!
//! There is no escape character unless ESCAPE names one (Flink: FLINK-39424).

use crate::context::{Failure, FunctionContext};
use crate::like_pattern::{LikePattern, folded};
use crate::text::Text;

/// The one character of an ESCAPE clause; `None` if it is empty.
pub(crate) fn escape_character(escape: &str) -> Result<Option<char>, Failure> {
    let mut chars = escape.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => Err(Failure::argument(format!("ESCAPE takes one character, not '{escape}'"))),
    }
}

/// Whether a text is LIKE a pattern; an error for a pattern that `escape` makes no sense in.
pub fn is_like(text: &str, pattern: &str, escape: char) -> Result<bool, String> {
    Ok(LikePattern::compile(pattern, Some(escape))?.matches(text.as_bytes()))
}

/// `s LIKE pattern`
pub(crate) fn like(context: &mut FunctionContext, s: &[u8], pattern: Text<'_>) -> bool {
    let compiled = context.caches.likes.get(pattern, |pattern| LikePattern::compile(pattern, None));
    compiled.as_ref().is_ok_and(|compiled| compiled.matches(s))
}

/// `s LIKE pattern ESCAPE escape`
pub(crate) fn like_escape(
    context: &mut FunctionContext,
    s: &[u8],
    pattern: Text<'_>,
    escape: &str,
) -> Result<bool, Failure> {
    let escape = escape_character(escape)?;
    let Some(character) = escape else { return Ok(like(context, s, pattern)) };
    let caches = &mut context.caches;
    caches.key.clear();
    caches.key.push(character);
    caches.key.push_str(&pattern);
    let compiled = caches.escaped_likes.get(&*caches.key, |_| LikePattern::compile(&pattern, escape));
    compiled.as_ref().map(|compiled| compiled.matches(s)).map_err(|message| Failure::argument(message.clone()))
}

/// `s ILIKE pattern`
pub(crate) fn ilike(context: &mut FunctionContext, s: &str, pattern: Text<'_>) -> bool {
    let caches = &mut context.caches;
    let compiled = caches.folded_likes.get(pattern, |pattern| LikePattern::compile_folded(pattern, None));
    fold(s, &mut caches.folded);
    compiled.as_ref().is_ok_and(|compiled| compiled.matches(caches.folded.as_bytes()))
}

/// `s ILIKE pattern ESCAPE escape`
pub(crate) fn ilike_escape(
    context: &mut FunctionContext,
    s: &str,
    pattern: Text<'_>,
    escape: &str,
) -> Result<bool, Failure> {
    let escape = escape_character(escape)?;
    let Some(character) = escape else { return Ok(ilike(context, s, pattern)) };
    let caches = &mut context.caches;
    caches.key.clear();
    caches.key.push(character);
    caches.key.push_str(&pattern);
    let compiled = caches.escaped_folded_likes.get(&*caches.key, |_| LikePattern::compile_folded(&pattern, escape));
    fold(s, &mut caches.folded);
    let text = caches.folded.as_bytes();
    compiled.as_ref().map(|compiled| compiled.matches(text)).map_err(|message| Failure::argument(message.clone()))
}

/// Puts `s` without its case into `into`.
fn fold(s: &str, into: &mut String) {
    into.clear();
    if s.is_ascii() {
        into.push_str(s);
        into.make_ascii_lowercase();
    } else {
        into.extend(s.chars().map(folded));
    }
}
