//! Hints: `SELECT /*+ STATE_TTL('orders' = '1 d', 'payments' = '12 h') */ …` says how long the state of a join or of groups keeps what comes of
//! a table, in processing time.

use super::place::{error, from_parser};
use super::scope::Column;
use crate::dialect::FlinkDialect;
use crate::script::STATE_TTL;
use millstream_types::{Diagnostic, Options, code};
use sqlparser::ast;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::time::Duration;

/// How long what comes of tables is kept, by the names that they have in FROM. 0: for good.
#[derive(Debug, Clone, Default)]
pub(crate) struct StateTtl(Vec<(String, u64)>);

impl StateTtl {
    /// That of the hints of a SELECT.
    pub fn of(select: &ast::Select) -> Result<StateTtl, Diagnostic> {
        let span = from_parser(select.select_token.0.span);
        let mut all = Vec::new();
        for hint in &select.optimizer_hints {
            all.extend(entries(&hint.text).map_err(|wrong| error(code::SYNTAX, span, wrong).advise(USAGE))?);
        }
        Ok(StateTtl(all))
    }

    /// Fails for a name that is none of the columns' tables.
    pub fn check(&self, columns: &[Column], select: &ast::Select) -> Result<(), Diagnostic> {
        let is_known = |name: &str| columns.iter().any(|column| column.qualifier.last().is_some_and(|of| of == name));
        let Some((unknown, _)) = self.0.iter().find(|(name, _)| !is_known(name)) else { return Ok(()) };
        let message = format!("the hint STATE_TTL names '{unknown}', which is not in FROM");
        Err(error(code::UNKNOWN_TABLE, from_parser(select.select_token.0.span), message)
            .advise("name tables as FROM does: by their aliases, if they have any"))
    }

    /// What is said of the rows of some columns, if they are of one table.
    pub fn of_columns(&self, columns: &[Column]) -> Option<u64> {
        let mut names = columns.iter().filter_map(|column| column.qualifier.last());
        let name = names.next()?;
        let is_one = names.all(|other| other == name);
        self.0.iter().find(|(of, _)| of == name && is_one).map(|(_, ms)| *ms)
    }
}

const USAGE: &str = "write SELECT /*+ STATE_TTL('t' = '1 d', 'u' = '12 h') */ …, with the names of tables in FROM; '0 s' keeps for good";

/// The tables and times of a hint.
fn entries(hint: &str) -> Result<Vec<(String, u64)>, String> {
    let tokens = Tokenizer::new(&FlinkDialect, hint).tokenize().map_err(|e| e.to_string())?;
    let tokens: Vec<Token> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    match tokens.split_first() {
        Some((Token::Word(word), [Token::LParen, list @ .., Token::RParen]))
            if word.value.eq_ignore_ascii_case(STATE_TTL) =>
        {
            list.split(|token| *token == Token::Comma).map(entry).collect()
        }
        Some((Token::Word(word), _)) if word.value.eq_ignore_ascii_case(STATE_TTL) => {
            Err("the hint STATE_TTL has no list of tables".into())
        }
        Some((other, _)) => Err(format!("the hint {other} is not supported: only STATE_TTL is")),
        None => Err("a hint is empty".into()),
    }
}

fn entry(tokens: &[Token]) -> Result<(String, u64), String> {
    let [key, Token::Eq, Token::SingleQuotedString(time)] = tokens else {
        return Err("the hint STATE_TTL is a list of 'table' = 'time'".into());
    };
    let name = match key {
        Token::SingleQuotedString(name) => name.clone(),
        Token::Word(word) => word.value.clone(),
        _ => return Err("the hint STATE_TTL is a list of 'table' = 'time'".into()),
    };
    let mut options = Options::new();
    options.set("time", time);
    let duration = options.duration("time", Duration::ZERO).map_err(|_| format!("'{time}' is no time"))?;
    Ok((name, u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)))
}

/// A time to live, where a hint may say another: 0 is for good.
pub(crate) fn with_hint(all: Option<u64>, hint: Option<u64>) -> Option<u64> {
    hint.map_or(all, |ms| Some(ms).filter(|&ms| ms > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_a_list_of_tables_and_times() {
        let list = entries(" STATE_TTL('o' = '1 d', p='12h','q'='0 s') ").unwrap();
        let (hour, of) = (3_600_000, |name: &str, ms| (name.to_string(), ms));
        assert_eq!(list, [of("o", 24 * hour), of("p", 12 * hour), of("q", 0)]);
        for wrong in ["", "STATE_TTL", "STATE_TTL()", "STATE_TTL('o')", "STATE_TTL('o' = 'soon')", "BROADCAST(o)", "'"]
        {
            assert!(entries(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            [with_hint(Some(5), None), with_hint(Some(5), Some(0)), with_hint(None, Some(7))],
            [Some(5), None, Some(7)]
        );
    }
}
