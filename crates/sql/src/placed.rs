//! Errors at tokens: the place of a token, its text, the name that was meant. What the parsers of this crate stand on.

use millstream_types::{Code, Diagnostic, Place};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Words that start a statement.
pub(crate) const STATEMENT_WORDS: &[&str] = &[
    "ALTER", "BEGIN", "CREATE", "DESC", "DESCRIBE", "DROP", "EXECUTE", "EXPLAIN", "INSERT", "RESET", "SELECT", "SET",
    "SHOW", "USE", "VALUES", "WITH",
];

/// The name of `candidates` that `name` was probably meant to be.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let allowed = (wanted.chars().count() / 3).clamp(1, 3);
    let distance = |candidate: &str| strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase());
    candidates.into_iter().map(|c| (distance(c), c)).filter(|(d, _)| *d <= allowed).min().map(|(_, c)| c)
}

/// The place of a token or of an identifier.
pub fn place_of(span: Span) -> Option<Place> {
    let (start, end) = (span.start, span.end);
    if start.line == 0 {
        return None;
    }
    let length = if end.line == start.line { end.column.saturating_sub(start.column) } else { 1 };
    Some(Place::Sql { line: start.line, column: start.column, length: length.max(1) })
}

/// Adds the place of `span` unless the diagnostic has one.
pub(crate) fn at_span(diagnostic: Diagnostic, span: Span) -> Diagnostic {
    match place_of(span) {
        Some(place) => diagnostic.at(place),
        None => diagnostic,
    }
}

/// An error at `span`.
pub(crate) fn error_at(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
    at_span(Diagnostic::new(code, message), span)
}

/// A token as a message shows it.
pub(crate) fn shown(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::SingleQuotedString(_) | Token::Word(_) | Token::Number(..) => abbreviated(&token.token.to_string()),
        other => format!("'{}'", abbreviated(&other.to_string())),
    }
}

/// The first part of a long text.
pub(crate) fn abbreviated(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
