//! From the text of a script to the tokens of its statements.
//!
//! The text is tokenized once, so that every token, and with it every diagnostic, has its line and column in the whole
//! script. Statements end at `;` outside strings, quoted names and comments. A statement set is one statement, although
//! it has semicolons within: `EXECUTE STATEMENT SET BEGIN …; …; END` and `BEGIN STATEMENT SET; …; …; END`.
//!
//! Before that, `${NAME}` is replaced outside comments ([`substitute_variables`]); and an interactive shell asks whether
//! a text is a statement yet ([`is_complete`]).

use crate::diagnostics::{self, error_at};
use crate::dialect::{FlinkDialect, is_word, unquoted_word};
use crate::parameter::Parameters;
use millstream_types::{Diagnostic, Place, code, secret};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Whitespace};
use std::ops::Range;

/// The tokens of one statement.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    /// Its text, from the first token to the last, without the semicolon.
    pub text: &'a str,
    /// Its tokens, without white space and the final semicolon; never empty.
    pub tokens: Vec<TokenWithSpan>,
    /// Line of the first token, from 1.
    pub line: u64,
}

/// Tokens without white space and comments, and with values for placeholders. Double-quoted strings and stray characters are errors here already.
/// From here on, the secrets of the text are masked in all that is shown.
pub(crate) fn tokenize(text: &str, parameters: &Parameters) -> Result<Vec<TokenWithSpan>, Diagnostic> {
    secret::remember_statement(text);
    let mut tokens = Tokenizer::new(&FlinkDialect, text).tokenize_with_location().map_err(|error| {
        let diagnostic = diagnostics::from_tokenizer_error(&error);
        let start = LineIndex::new(text).offset(error.location);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        // The quote that opens the string may be one that was meant to be within the one before.
        if text[line_start..start].contains("\\'") {
            let advice = "a backslash does not escape a quote: write '' for a quote within a string, as in 'it''s'";
            return diagnostic.advise(advice);
        }
        diagnostic
    })?;
    if let Some(at) = (0..tokens.len()).find(|&at| hint_of(&tokens[at]).is_some() && !is_ttl(&tokens, at)) {
        let message = "a hint (/*+ … */) other than STATE_TTL behind SELECT is not supported";
        return Err(error_at(code::UNSUPPORTED, tokens[at].span, message).advise(hint_cure(&tokens[..at], &tokens[at])));
    }
    tokens.retain(|t| hint_of(t).is_some() || !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    for token in &tokens {
        let (message, advice) = match &token.token {
            Token::DoubleQuotedString(text) => (
                "double quotes are not used in Flink SQL".to_owned(),
                format!("write '{}' for a text, `{text}` for a name", text.replace('\'', "''")),
            ),
            Token::Char('“' | '”' | '„' | '‘' | '’') => {
                ("typographic quotes are not used in SQL".to_owned(), "write 'text' in straight single quotes".into())
            }
            Token::Char(c) => (
                format!("unexpected character '{}'", c.escape_default()),
                "remove it, or put it between single quotes if it is text".into(),
            ),
            Token::Backslash => {
                let line = text.lines().nth(token.span.start.line as usize - 1).unwrap_or_default();
                ("unexpected character '\\'".to_owned(), backslash_cure(line))
            }
            Token::Placeholder(p) if *parameters == Parameters::None => (
                format!("unexpected '{p}'"),
                "variables are written ${NAME}; parameters have values in programs only".into(),
            ),
            _ => continue,
        };
        return Err(error_at(code::SYNTAX, token.span, message).advise(advice));
    }
    parameters.replace(tokens)
}

/// The text of a hint.
fn hint_of(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Whitespace(Whitespace::MultiLineComment(text)) => text.strip_prefix('+'),
        _ => None,
    }
}

/// Whether the hint at a place is one that is understood there.
fn is_ttl(tokens: &[TokenWithSpan], at: usize) -> bool {
    let is_named = hint_of(&tokens[at]).is_some_and(|hint| {
        hint.trim_start().get(..STATE_TTL.len()).is_some_and(|name| name.eq_ignore_ascii_case(STATE_TTL))
    });
    let before = tokens[..at].iter().rev().find(|token| !matches!(token.token, Token::Whitespace(_)));
    is_named && before.is_some_and(|token| is_word(token, "SELECT"))
}

/// The hint that is understood.
pub(crate) const STATE_TTL: &str = "STATE_TTL";

/// What to write instead of a hint, which stands behind the tokens `before`.
fn hint_cure(before: &[TokenWithSpan], hint: &TokenWithSpan) -> String {
    let Token::Whitespace(Whitespace::MultiLineComment(text)) = &hint.token else { return String::new() };
    let options =
        text.split_once('(').filter(|(name, _)| name.trim_start_matches('+').trim().eq_ignore_ascii_case("OPTIONS"));
    let table = before.iter().rev().find_map(unquoted_word);
    match (options.and_then(|(_, rest)| rest.rsplit_once(')')), table) {
        (Some((options, _)), Some(table)) => format!(
            "give a table of its own the options, and select from it: CREATE TABLE {table}_2 WITH ({options}) LIKE {table}"
        ),
        _ => "leave it out: how to execute a query is decided as it runs".into(),
    }
}

/// What to write instead of a line that starts with a backslash, as commands of psql do.
fn backslash_cure(line: &str) -> String {
    let mut words = line.trim().trim_end_matches(';').split_whitespace();
    let (command, table) = (words.next().unwrap_or_default(), words.next());
    match (command, table) {
        ("\\d" | "\\d+" | "\\dt" | "\\dv", Some(table)) => format!("write DESCRIBE {table};"),
        ("\\d" | "\\dt" | "\\dt+" | "\\dv" | "\\l" | "\\dn", _) => "write SHOW TABLES;".into(),
        ("\\df", _) => "write SHOW FUNCTIONS;".into(),
        ("\\q", _) => "leave it out: a script ends with its last statement".into(),
        ("\\copy" | "\\o" | "\\g", _) => {
            "from the operating system's shell: millstream run -e 'SELECT * FROM t' --output csv > file.csv".into()
        }
        ("\\i" | "\\ir", Some(file)) => {
            format!("give the script as the first argument: millstream run {file} -e 'SELECT 1'")
        }
        ("\\set", Some(name)) => format!("write ${{{name}}} where the value belongs, and pass --var {name}=value"),
        ("\\timing" | "\\x" | "\\pset" | "\\?" | "\\h" | "\\c" | "\\watch", _) => {
            "that is a command of psql; the shell `millstream sql` has commands of its own: help; lists them".into()
        }
        _ => "within a string, '' stands for a quote, and \\ for itself".into(),
    }
}

/// Splits a script into statements. Empty statements are left out.
pub(crate) fn split<'a>(text: &'a str, parameters: &Parameters) -> Result<Vec<Piece<'a>>, Diagnostic> {
    let tokens = tokenize(text, parameters)?;
    let lines = LineIndex::new(text);
    let piece = |range: Range<usize>| {
        let tokens = tokens[range].to_vec();
        let (first, last) = (tokens.first()?.span.start, tokens.last()?.span.end);
        let text = text.get(lines.offset(first)..lines.offset(last)).unwrap_or_default();
        Some(Piece { text, line: first.line, tokens })
    };
    Ok(cuts(&tokens).0.into_iter().filter_map(piece).collect())
}

/// Ranges of the tokens of each statement, and whether the last ended with a semicolon outside a statement set.
fn cuts(tokens: &[TokenWithSpan]) -> (Vec<Range<usize>>, bool) {
    let mut ranges = vec![];
    // Start of the statement, and within a statement set the start of the inner statement.
    let (mut start, mut inner) = (0, None);
    for (i, token) in tokens.iter().enumerate() {
        if token.token != Token::SemiColon {
            continue;
        }
        let from = match inner {
            Some(from) => Some(from),
            None => opens_set(&tokens[start..i]).map(|offset| start + offset),
        };
        let ends = from.is_none_or(|from| i == from + 1 && is_word(&tokens[from], "END"));
        if ends {
            ranges.push(start..i);
            (start, inner) = (i + 1, None);
        } else {
            inner = Some(i + 1);
        }
    }
    let closed = start == tokens.len();
    if !closed {
        ranges.push(start..tokens.len());
    }
    (ranges, closed)
}

/// If these tokens start a statement set (the words `STATEMENT SET` with `BEGIN` before or behind them), where its first
/// inner statement starts.
fn opens_set(tokens: &[TokenWithSpan]) -> Option<usize> {
    let words: Vec<String> =
        tokens.iter().take(6).map_while(|t| unquoted_word(t).map(str::to_ascii_uppercase)).collect();
    let at = words.windows(2).position(|w| w[0] == "STATEMENT" && w[1] == "SET")?;
    match words.get(at + 2) {
        Some(word) if word == "BEGIN" => Some(at + 3),
        _ => (at > 0 && words[at - 1] == "BEGIN").then_some(at + 2),
    }
}

/// Whether an interactive shell should run `text` now: it holds no open string, quoted name, comment or statement set,
/// and it ends with a semicolon, or it holds nothing at all.
pub fn is_complete(text: &str) -> bool {
    let mut regions = Regions::new(text);
    while regions.next().is_some() {}
    if regions.unterminated() {
        return false;
    }
    // A text that cannot be tokenized for another reason is passed to the parser, which says what is wrong.
    match tokenize(text, &Parameters::None) {
        Ok(tokens) => cuts(&tokens).1,
        Err(_) => true,
    }
}

/// Replaces every `${NAME}` outside comments by what `lookup` gives; inside strings too. What is put in is not looked
/// at again. A `${` that no name and `}` follow stays as it is, and `$${NAME}` is the text `${NAME}`.
pub fn substitute_variables(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, Diagnostic> {
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut skip_until = 0;
    for (at, region) in Regions::new(text) {
        if at < skip_until || matches!(region, Region::LineComment | Region::BlockComment) {
            continue;
        }
        if let Some(name) = text[at..].strip_prefix('$').and_then(variable_at) {
            out.push_str(&text[copied..at]);
            copied = at + 1;
            skip_until = at + name.len() + 4;
            continue;
        }
        let Some(name) = variable_at(&text[at..]) else { continue };
        let Some(value) = lookup(name) else {
            let before = &text[..at];
            let line_start = before.rfind('\n').map_or(0, |i| i + 1);
            return Err(Diagnostic::new(code::MISSING_VARIABLE, format!("the variable ${{{name}}} has no value"))
                .at(Place::Sql {
                    line: before.matches('\n').count() as u64 + 1,
                    column: before[line_start..].chars().count() as u64 + 1,
                    length: name.chars().count() as u64 + 3,
                })
                .advise(format!(
                    "pass --var {name}=value, or set the environment variable {name}; for the text itself write $${{{name}}}"
                )));
        };
        out.push_str(&text[copied..at]);
        out.push_str(&value);
        copied = at + name.len() + 3;
        skip_until = copied;
    }
    out.push_str(&text[copied..]);
    Ok(out)
}

/// The NAME of a `${NAME}` at the start of `text`.
fn variable_at(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix("${")?.split_once('}')?;
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// What a character of a script belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Region {
    Code,
    String,
    Name,
    LineComment,
    BlockComment,
}

/// Walks over the characters of a text with the region of each; delimiters belong to what they delimit. A doubled quote
/// closes and reopens, with the same effect.
struct Regions<'a> {
    text: &'a str,
    at: usize,
    region: Region,
    /// Bytes of a delimiter whose characters are still to be given out, and the region after it.
    delimiter: Option<(usize, Region)>,
}

impl<'a> Regions<'a> {
    fn new(text: &'a str) -> Regions<'a> {
        Regions { text, at: 0, region: Region::Code, delimiter: None }
    }

    /// Whether the text ended within a string, a quoted name or a comment that needs an end.
    fn unterminated(&self) -> bool {
        !matches!(self.region, Region::Code | Region::LineComment)
    }
}

impl Iterator for Regions<'_> {
    type Item = (usize, Region);

    fn next(&mut self) -> Option<(usize, Region)> {
        let at = self.at;
        let rest = &self.text[at..];
        let c = rest.chars().next()?;
        self.at += c.len_utf8();
        if let Some((end, after)) = self.delimiter {
            let region = if self.region == Region::Code { after } else { self.region };
            if self.at >= end {
                (self.region, self.delimiter) = (after, None);
            }
            return Some((at, region));
        }
        let (region, after) = match (self.region, c) {
            (Region::Code, '\'') => (Region::String, Region::String),
            (Region::Code, '`') => (Region::Name, Region::Name),
            (Region::Code, '-') if rest.starts_with("--") => {
                self.delimiter = Some((at + 2, Region::LineComment));
                return Some((at, Region::LineComment));
            }
            (Region::Code, '/') if rest.starts_with("/*") => {
                self.delimiter = Some((at + 2, Region::BlockComment));
                return Some((at, Region::BlockComment));
            }
            (Region::String, '\'') => (Region::String, Region::Code),
            (Region::Name, '`') => (Region::Name, Region::Code),
            (Region::LineComment, '\n') => (Region::Code, Region::Code),
            (Region::BlockComment, '*') if rest.starts_with("*/") => {
                self.delimiter = Some((at + 2, Region::Code));
                return Some((at, Region::BlockComment));
            }
            (region, _) => (region, region),
        };
        self.region = after;
        Some((at, region))
    }
}

/// Byte offsets of the starts of lines.
struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str) -> LineIndex<'a> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        LineIndex { text, starts }
    }

    /// Byte offset of a line and column, both from 1; the end of the text when it has no such place.
    fn offset(&self, location: Location) -> usize {
        let Some(&start) = self.starts.get((location.line as usize).saturating_sub(1)) else { return self.text.len() };
        let column = (location.column as usize).saturating_sub(1);
        self.text[start..].char_indices().nth(column).map_or(self.text.len(), |(i, _)| start + i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        split(script, &Parameters::None).unwrap().into_iter().map(|p| p.text).collect()
    }

    #[test]
    fn splits_outside_strings_names_and_comments() {
        assert_eq!(
            texts("SELECT ';' ;-- a; b\n\n SELECT `a;b` /* ; */ FROM t;;\n SELECT 'it''s;' "),
            ["SELECT ';'", "SELECT `a;b` /* ; */ FROM t", "SELECT 'it''s;'"]
        );
        assert_eq!(texts(" -- nothing\n ; /* ; */"), Vec::<&str>::new());
        let pieces = split("SELECT 1;\n\n  SELECT\n'ä;' ; SET;", &Parameters::None).unwrap();
        assert_eq!(
            pieces.iter().map(|p| (p.line, p.text)).collect::<Vec<_>>(),
            [(1, "SELECT 1"), (3, "SELECT\n'ä;'"), (4, "SET")]
        );
    }

    #[test]
    fn keeps_statement_sets_together() {
        let execute =
            "EXECUTE STATEMENT SET BEGIN\nINSERT INTO a SELECT CASE x WHEN 1 THEN 2 END; INSERT INTO b SELECT 1; END";
        let begin = "begin statement set; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; end";
        assert_eq!(texts(&format!("SELECT 1; {execute}; {begin}; SELECT 2")), ["SELECT 1", execute, begin, "SELECT 2"]);
        let explain = "EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END";
        assert_eq!(texts(&format!("{explain};SELECT 1;")), [explain, "SELECT 1"]);
    }

    #[test]
    fn a_shell_knows_when_a_statement_is_complete() {
        for complete in [
            "",
            "  -- x",
            "SELECT 1;",
            "SELECT 1; -- more",
            "SELECT \"a",
            "SELECT 1;\n/* ; */",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; END;",
        ] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in [
            "SELECT 1",
            "SELECT ';",
            "SELECT `a;",
            "SELECT 1 /* ;",
            "SELECT 1 -- ;",
            "SELECT 1; SELECT",
            "BEGIN STATEMENT SET;",
            "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }

    #[test]
    fn variables_are_replaced_outside_comments() {
        let lookup = |name: &str| (name == "DATA").then(|| "/tmp/${X}".to_owned());
        let replaced =
            substitute_variables("-- ${A}\n'file://${DATA}/x' ${DATA} /* ${B} */ ${ ${1} $", &lookup).unwrap();
        assert_eq!(replaced, "-- ${A}\n'file:///tmp/${X}/x' /tmp/${X} /* ${B} */ ${ ${1} $");
        let escaped = substitute_variables("'$${DATA}' $${NOPE} $$${DATA} $$ $${1}", &lookup).unwrap();
        assert_eq!(escaped, "'${DATA}' ${NOPE} $${DATA} $$ $${1}");
        let missing = substitute_variables("SELECT\n 'ä${NOPE}'", &lookup).unwrap_err();
        assert_eq!(missing.code, code::MISSING_VARIABLE);
        assert_eq!(missing.place, Some(Place::Sql { line: 2, column: 4, length: 7 }));
        // The quote within the comment opens no string, and the one that -- stands in is one.
        assert_eq!(
            substitute_variables("-- it's\n${DATA}'--${DATA}'", &|_| Some("v".into())).unwrap(),
            "-- it's\nv'--v'"
        );
    }

    #[test]
    fn broken_tokens_say_where() {
        let error = |text| split(text, &Parameters::None).unwrap_err();
        assert_eq!(error("SELECT\n  'abc").place, Some(Place::Sql { line: 2, column: 3, length: 1 }));
        assert_eq!(error("SELECT `abc").message, "the quoted name is not closed");
        assert_eq!(error("SELECT /* abc").message, "the comment is not closed");
        let quoted = error("SELECT \"abc\"");
        assert_eq!(quoted.place, Some(Place::Sql { line: 1, column: 8, length: 5 }));
    }
}
