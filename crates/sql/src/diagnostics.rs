//! Errors of parsing as diagnostics, and diagnostics as the text that a user reads.
//!
//! sqlparser reports a message that ends in a line and a column. The message is put into our words, the place is
//! widened to the whole token, and `syntax_advice` says what to do. A message that says that something `is not supported` gets the code for that.

use millstream_types::{Diagnostic, Place, code, secret};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError};
use std::borrow::Cow;
use std::fmt::Write;

use crate::dialect::{FlinkDialect, unquoted_word};
use crate::foreign::{clause_failure, element_failure};
pub(crate) use crate::placed::{abbreviated, at_span, error_at, shown};
pub use crate::placed::{nearest, place_of};
use crate::syntax_advice::{Advice, advice};

/// Lines longer than this are shown in part.
const MAX_LINE_SHOWN: usize = 160;

/// Why a statement could not be parsed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// sqlparser, or a parser of ours that speaks its error language, met an unexpected token.
    Syntax(ParserError),
    /// Anything that deserves its own words.
    Diagnostic(Box<Diagnostic>),
}

impl Failure {
    /// What is wrong with the statement of these tokens.
    pub(crate) fn into_diagnostic(self, tokens: &[TokenWithSpan]) -> Diagnostic {
        match self {
            Failure::Syntax(error) => from_parser_error(&error, tokens),
            Failure::Diagnostic(diagnostic) => *diagnostic,
        }
    }
}

impl From<ParserError> for Failure {
    fn from(error: ParserError) -> Failure {
        Failure::Syntax(error)
    }
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Failure {
        Failure::Diagnostic(Box::new(diagnostic))
    }
}

/// With advice, if there is one.
pub(crate) fn advised(diagnostic: Diagnostic, advice: &str) -> Diagnostic {
    if advice.is_empty() { diagnostic } else { diagnostic.advise(advice) }
}

/// An unterminated string, comment or the like.
pub(crate) fn from_tokenizer_error(error: &TokenizerError) -> Diagnostic {
    let (message, advice) = match error.message.as_str() {
        m if m.starts_with("Unterminated string") => {
            ("the string is not closed", "end it with a single quote; write '' for a quote within")
        }
        m if m.contains("multi-line comment") => ("the comment is not closed", "end it with */"),
        m if m.contains("Expected close delimiter") => ("the quoted name is not closed", "end it with a backtick"),
        m => (m, ""),
    };
    advised(error_at(code::SYNTAX, Span::new(error.location, error.location), message), advice)
}

/// An error of the parser over `tokens`, the tokens of one statement.
pub(crate) fn from_parser_error(error: &ParserError, tokens: &[TokenWithSpan]) -> Diagnostic {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            let span = tokens.first().map_or(Span::empty(), |token| token.span);
            return error_at(code::SYNTAX, span, "the statement is nested too deeply")
                .advise("split it into views, or remove parentheses");
        }
    };
    let (message, location) = split_location(text);
    let found = location.and_then(|at| tokens.iter().position(|t| t.span.start == at));
    if let Some(diagnostic) = missing_aggregate(tokens, found) {
        return diagnostic;
    }
    if let Some(diagnostic) = clause_failure(tokens, found).or_else(|| element_failure(tokens, found)) {
        return diagnostic;
    }
    let (message, own_advice) = match message.split_once("; ") {
        Some((message, advice)) if !message.starts_with("Expected: ") => (message, Some(advice)),
        _ => (message, None),
    };
    let code = if message.contains("not supported") { code::UNSUPPORTED } else { code::SYNTAX };
    let advice = own_advice.map_or_else(|| advice(message, tokens, found), Advice::from);
    if let Some(misspelt) = advice.about.map(|about| &tokens[about]) {
        let message = format!("unexpected word {}", shown(misspelt));
        return error_at(code, misspelt.span, message).advise(advice.text);
    }
    let diagnostic = Diagnostic::new(code, in_our_words(message, found.map(|i| &tokens[i]))).advise(advice.text);
    match (found, location) {
        (Some(i), _) => at_span(diagnostic, tokens[i].span),
        (None, Some(Location { line, column })) => diagnostic.at(Place::Sql { line, column, length: 1 }),
        (None, None) => match end_place(tokens) {
            Some(place) => diagnostic.at(place),
            None => diagnostic,
        },
    }
}

/// Flink's aggregates with special syntax that the parser does not know: `JSON_OBJECTAGG(KEY k VALUE v)`.
fn missing_aggregate(tokens: &[TokenWithSpan], found: Option<usize>) -> Option<Diagnostic> {
    const NAMES: [&str; 2] = ["JSON_OBJECTAGG", "JSON_ARRAYAGG"];
    let before = &tokens[..found?];
    let call = before.windows(2).rposition(|pair| {
        let name = unquoted_word(&pair[0]).map(str::to_ascii_uppercase);
        pair[1].token == Token::LParen && name.is_some_and(|name| NAMES.contains(&name.as_str()))
    })?;
    if open_parentheses(&before[call..]) <= 0 {
        return None;
    }
    let name = unquoted_word(&tokens[call])?.to_ascii_uppercase();
    let message = format!("the aggregate function {name} is not supported yet");
    let advice = match name.as_str() {
        "JSON_OBJECTAGG" => "JSON_STRING(COLLECT(x)) counts values; ARRAY_AGG(ROW(k, v)) keeps keys and values",
        _ => "write JSON_STRING(ARRAY_AGG(x))",
    };
    Some(error_at(code::UNSUPPORTED, tokens[call].span, message).advise(advice))
}

/// Parentheses that are still open behind the tokens.
fn open_parentheses(tokens: &[TokenWithSpan]) -> i64 {
    tokens.iter().map(|t| (t.token == Token::LParen) as i64 - (t.token == Token::RParen) as i64).sum()
}

/// Just behind the last token: where the statement ended too early.
fn end_place(tokens: &[TokenWithSpan]) -> Option<Place> {
    let Location { line, column } = tokens.last()?.span.end;
    (line > 0).then_some(Place::Sql { line, column: column.max(1), length: 1 })
}

/// Cuts ` at Line: 3, Column: 8` off a message.
fn split_location(text: &str) -> (&str, Option<Location>) {
    let Some((message, place)) = text.rsplit_once(" at Line: ") else { return (text, None) };
    let location = place.split_once(", Column: ").and_then(|(line, column)| {
        Some(Location { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? })
    });
    match location {
        Some(_) => (message, location),
        None => (text, None),
    }
}

/// `Expected: x, found: y` as a sentence.
fn in_our_words(message: &str, found: Option<&TokenWithSpan>) -> String {
    let Some((expected, rest)) = message.strip_prefix("Expected: ").and_then(|m| m.rsplit_once(", found: ")) else {
        let mut sentence = message.trim_start_matches("sql parser error: ").trim_end_matches('.').to_owned();
        if sentence.is_empty() {
            sentence.push_str("the statement cannot be understood");
        }
        return sentence;
    };
    let expected = match expected.trim_end_matches('.') {
        "identifier" => "a name",
        "end of statement" => "the end of the statement",
        "joined table" => "a table after JOIN",
        "SELECT, VALUES, or a subquery in the query body" => "a query (SELECT …)",
        "a list of columns in parentheses" => "a list of columns in parentheses",
        e if e.len() == 1 && !e.chars().all(char::is_alphanumeric) => &format!("'{e}'"),
        e => e,
    };
    match found {
        Some(token) => format!("expected {expected}, found {}", shown(token)),
        None if rest == "EOF" => format!("expected {expected}, found the end of the statement"),
        None => format!("expected {expected}, found '{}'", abbreviated(rest)),
    }
}

/// Renders a diagnostic over several lines, with the line of `sql` that it is about and a caret under the place.
/// `origin` is the name of the SQL text, such as a file's.
///
/// ```text
/// error[MS2003]: unknown column 'prize'
///   --> query.sql:3:8
///    |
///  3 | SELECT prize FROM bid
///    |        ^^^^^
///    = help: did you mean 'price'?
/// ```
pub fn render(diagnostic: &Diagnostic, sql: Option<&str>, origin: &str) -> String {
    let Diagnostic { code, message, place, .. } = diagnostic;
    let mut out = format!("error[{code}]: {message}\n");
    let mut gutter = 2;
    let option = match (place, sql) {
        (Some(Place::Option(key)), Some(sql)) => place_of_option(sql, key, message),
        _ => None,
    };
    // Writing to a String cannot fail, so the results of write! are not looked at.
    match option.as_ref().or(place.as_ref()) {
        Some(Place::Sql { line, column, length }) => {
            gutter = line.to_string().len() + 1;
            let _ = writeln!(out, "{:gutter$}--> {origin}:{line}:{column}", "");
            let source = sql.and_then(|sql| sql.split('\n').nth((*line as usize).checked_sub(1)?));
            if let Some(source) = source {
                let (source, column) = concealed(source.trim_end_matches('\r'), *column as usize);
                let (shown, column) = window(&source, column);
                let before: String =
                    shown.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                let room = shown.chars().count().saturating_sub(column - 1).max(1);
                let carets = "^".repeat((*length as usize).clamp(1, room));
                let _ = writeln!(out, "{:gutter$} |", "");
                let _ = writeln!(out, "{line:>gutter$} | {shown}");
                let _ = writeln!(out, "{:gutter$} | {before}{carets}", "");
            }
        }
        Some(place) => {
            let _ = writeln!(out, "{:gutter$}--> {place}", "");
        }
        None => {}
    }
    if let Some(help) = diagnostic.help() {
        let _ = writeln!(out, "{:gutter$} = help: {help}", "");
    }
    out
}

/// Where the value of an option stands in a script, if that is certain: in one place only, or in one only with a value that the message
/// names.
fn place_of_option(sql: &str, key: &str, message: &str) -> Option<Place> {
    let tokens = Tokenizer::new(&FlinkDialect, sql).tokenize_with_location().ok()?;
    let tokens: Vec<TokenWithSpan> = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_))).collect();
    let is_key = |t: &TokenWithSpan| matches!(&t.token, Token::SingleQuotedString(text) if text == key);
    let found: Vec<&[TokenWithSpan]> =
        tokens.windows(3).filter(|three| is_key(&three[0]) && three[1].token == Token::Eq).collect();
    let value = |three: &&[TokenWithSpan]| match &three[2].token {
        Token::SingleQuotedString(value) => Some(value.clone()).filter(|value| !value.is_empty()),
        _ => None,
    };
    let is_named =
        |three: &&&[TokenWithSpan]| value(three).is_some_and(|value| message.contains(&format!("'{value}'")));
    let named: Vec<_> = found.iter().filter(is_named).collect();
    let quoted = |text: &str| !text.is_empty() && message.contains(&format!("'{text}'"));
    match (found.as_slice(), named.as_slice()) {
        (_, [one]) => return place_of(one[2].span),
        ([one], _) => return place_of(one[0].span),
        ([], _) => {}
        _ => return None,
    }
    // The path of a file in FROM.
    let is_path = |t: &&TokenWithSpan| matches!(&t.token, Token::SingleQuotedString(text) if quoted(text));
    if let [path] = tokens.iter().filter(is_path).collect::<Vec<_>>().as_slice() {
        return place_of(path.span);
    }
    // The last mention of a table, which is where it is used.
    let is_table =
        |t: &&TokenWithSpan| unquoted_word(t).is_some_and(|word| message.starts_with(&format!("table '{word}'")));
    if let Some(table) = tokens.iter().rfind(is_table) {
        return place_of(table.span);
    }
    // The only WITH (…) that lacks a key.
    let is_with = |pair: &&[TokenWithSpan]| {
        unquoted_word(&pair[0]).is_some_and(|word| word.eq_ignore_ascii_case("WITH")) && pair[1].token == Token::LParen
    };
    match tokens.windows(2).filter(is_with).collect::<Vec<_>>().as_slice() {
        [with] if message.ends_with("is missing") => place_of(with[0].span),
        _ => None,
    }
}

/// A line without secrets, and the column (from 1) where what stood in `column` stands in it.
fn concealed(line: &str, column: usize) -> (Cow<'_, str>, usize) {
    let at = line.char_indices().nth(column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    let (mut hidden, mut mask) = (0, 0);
    for range in secret::hidden(line).into_iter().take_while(|range| range.start < at) {
        hidden += line[range.start..range.end.min(at)].chars().count();
        mask += if range.end <= at { secret::MASK.len() } else { 0 };
    }
    (secret::conceal(line), column - hidden + mask)
}

/// The part of a long line around `column` (from 1), and the column within that part.
fn window(line: &str, column: usize) -> (String, usize) {
    let column = column.max(1);
    let length = line.chars().count();
    if length <= MAX_LINE_SHOWN {
        return (line.to_owned(), column.min(length + 1));
    }
    let from = column.saturating_sub(MAX_LINE_SHOWN / 2).min(length.saturating_sub(MAX_LINE_SHOWN));
    let part: String = line.chars().skip(from).take(MAX_LINE_SHOWN).collect();
    let head = if from > 0 { "…" } else { "" };
    let tail = if from + MAX_LINE_SHOWN < length { "…" } else { "" };
    let within = (column.min(length + 1) - from) + head.chars().count();
    (format!("{head}{part}{tail}"), within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_line_and_caret() {
        let diagnostic = Diagnostic::new(code::UNKNOWN_COLUMN, "unknown column 'prize'")
            .at(Place::Sql { line: 3, column: 8, length: 5 })
            .advise("did you mean 'price'?");
        let expected = "error[MS2003]: unknown column 'prize'\n  --> query.sql:3:8\n   |\n 3 | SELECT prize FROM bid\n   \
                        |        ^^^^^\n   = help: did you mean 'price'?\n";
        assert_eq!(render(&diagnostic, Some("\n\nSELECT prize FROM bid\n"), "query.sql"), expected);
    }

    #[test]
    fn renders_places_outside_the_text_and_without_one() {
        let beyond = Diagnostic::new(code::SYNTAX, "m").at(Place::Sql { line: 1, column: 99, length: 7 }).advise("a");
        let expected = "error[MS2001]: m\n  --> -:1:99\n   |\n 1 | ab\n   |   ^\n   = help: a\n";
        assert_eq!(render(&beyond, Some("ab"), "-"), expected);
        let option = Diagnostic::new(code::MISSING_OPTION, "m").at(Place::Option("path".into())).advise("a");
        assert_eq!(render(&option, Some("ab"), "-"), "error[MS1003]: m\n  --> option 'path'\n   = help: a\n");
        let nowhere = Diagnostic::new(code::SYNTAX, "m").advise("a");
        assert_eq!(render(&nowhere, None, "-"), "error[MS2001]: m\n   = help: a\n");
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let sql = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let text = render(
            &Diagnostic::new(code::SYNTAX, "m").at(Place::Sql { line: 1, column: 501, length: 1 }),
            Some(&sql),
            "q",
        );
        let lines: Vec<&str> = text.lines().collect();
        let caret = lines[4].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[3].chars().nth(caret), Some('X'));
        assert!(lines[3].chars().count() < 200);
    }

    #[test]
    fn suggests_only_what_is_near() {
        assert_eq!(nearest("prize", ["price", "channel"]), Some("price"));
        assert_eq!(nearest("FORM", ["FROM", "WHERE"]), Some("FROM"));
        assert_eq!(nearest("x", ["channel"]), None);
    }
}
