//! Habits of other dialects, each with what to write here instead.
//!
//! | file | what |
//! | --- | --- |
//! | `statements` | statements: `COPY`, `UPDATE`, `CREATE STREAM`, `PRAGMA` |
//! | `clauses` | clauses within a statement: `EMIT CHANGES`, `ON CONFLICT`, `TABLESAMPLE` |
//! | `calls` | functions and table functions: `date_diff(…)`, `read_csv(…)` |
//! | `operators` | operators: `->>`, `~` |
//!
//! Each is a table of rows. A row has the words it is known by and a function that writes the cure with the names of the statement
//! at hand, so that it can be pasted.

mod calls;
mod clauses;
mod operators;
mod statements;

pub(crate) use calls::{call_cure, name_cure, table_call_cure};
pub(crate) use clauses::{clause_failure, element_failure, known_clause_failure};
pub(crate) use operators::operator_cure;
pub(crate) use statements::{kinds, statement_failure};

use crate::dialect::is_word as is;
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// The tokens of a statement, as the rows look at them.
#[derive(Clone, Copy)]
struct Words<'a> {
    tokens: &'a [TokenWithSpan],
    /// How many of them the row's words are.
    matched: usize,
}

impl<'a> Words<'a> {
    /// Whether the statement starts with these words.
    fn start(tokens: &'a [TokenWithSpan], words: &[&str]) -> Option<Words<'a>> {
        let found = words.len() <= tokens.len() && words.iter().zip(tokens).all(|(word, token)| is(token, word));
        found.then_some(Words { tokens, matched: words.len() })
    }

    /// The place of the row's words.
    fn span(&self) -> Span {
        let first = self.tokens.first().map_or(Span::empty(), |token| token.span);
        self.tokens[..self.matched].iter().fold(first, |span, token| span.union(&token.span))
    }

    /// The first name behind the row's words, which may be qualified or in backticks; else `otherwise`.
    fn name(&self, otherwise: &str) -> String {
        const FILLERS: [&str; 9] = ["IF", "NOT", "EXISTS", "TABLE", "VIEW", "INTO", "FROM", "TO", "ONLY"];
        let is_filler = |t: &&TokenWithSpan| FILLERS.iter().any(|word| is(t, word));
        let mut rest = self.tokens[self.matched..].iter().skip_while(is_filler);
        match rest.next().map(|t| &t.token) {
            Some(Token::Word(word)) => word.to_string(),
            _ => otherwise.to_owned(),
        }
    }

    /// The `nth` string of the statement; else `otherwise`.
    fn string(&self, nth: usize, otherwise: &str) -> String {
        let mut strings = self.tokens.iter().filter_map(|t| match &t.token {
            Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(text.as_str()),
            _ => None,
        });
        strings.nth(nth).unwrap_or(otherwise).to_owned()
    }

    /// The text from behind the first `word` up to `until`, which is one of these words or the end; nothing without the word.
    fn between(&self, word: &str, until: &[&str]) -> Option<String> {
        let start = self.tokens.iter().position(|t| is(t, word))? + 1;
        let rest = &self.tokens[start..];
        let end = rest.iter().position(|t| until.iter().any(|u| is(t, u))).unwrap_or(rest.len());
        Some(text_of(&rest[..end])).filter(|text| !text.is_empty())
    }

    /// The text behind the row's words.
    fn rest(&self) -> String {
        text_of(&self.tokens[self.matched..])
    }

    /// The query of the statement, from its first SELECT or WITH in the outermost parentheses; else `otherwise`.
    fn query(&self, otherwise: &str) -> String {
        let start = self.tokens.iter().position(|t| is(t, "SELECT"));
        start.map_or_else(|| otherwise.to_owned(), |start| text_of(&self.tokens[start..]))
    }

    /// What the statement has in its first parentheses; else `otherwise`.
    fn parenthesized(&self, otherwise: &str) -> String {
        let mut depth = 0;
        let Some(start) = self.tokens.iter().position(|t| t.token == Token::LParen) else {
            return otherwise.to_owned();
        };
        for (i, token) in self.tokens.iter().enumerate().skip(start) {
            depth += i32::from(token.token == Token::LParen) - i32::from(token.token == Token::RParen);
            if depth == 0 {
                return text_of(&self.tokens[start + 1..i]);
            }
        }
        otherwise.to_owned()
    }

    /// The string that follows `word =`.
    fn option(&self, word: &str) -> Option<String> {
        let key = |t: &TokenWithSpan| match &t.token {
            Token::SingleQuotedString(text) => text.eq_ignore_ascii_case(word),
            _ => is(t, word),
        };
        self.tokens.windows(3).find_map(|three| match &three[2].token {
            Token::SingleQuotedString(text) if key(&three[0]) && three[1].token == Token::Eq => Some(text.clone()),
            _ => None,
        })
    }
}

/// Most characters of a statement that a cure repeats.
const MAX_REPEATED: usize = 160;

/// Tokens as they were written, on one line, up to a length.
pub(crate) fn text_of(tokens: &[TokenWithSpan]) -> String {
    let mut text = String::new();
    for (i, token) in tokens.iter().enumerate() {
        if i > 0 && tokens[i - 1].span.end != token.span.start {
            text.push(' ');
        }
        text.push_str(&token.token.to_string());
    }
    match text.char_indices().nth(MAX_REPEATED) {
        Some((cut, _)) => format!("{} …", text[..cut].trim_end()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_script;

    #[test]
    fn every_row_is_found_and_answered() {
        for words in super::statements::rows() {
            let sql = words.join(" ");
            let failure = parse_script(&format!("{sql} x")).unwrap_err();
            assert!(failure.advice.is_some_and(|advice| advice.len() > 10), "{sql}");
            assert!(failure.place.is_some(), "{sql}");
        }
    }
}
