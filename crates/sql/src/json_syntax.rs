//! The clauses within calls of JSON functions, which sqlparser does not know.
//!
//! A call becomes an ordinary one whose further arguments stand for the clauses, words as string constants:
//!
//! | SQL | arguments |
//! | --- | --- |
//! | `JSON_EXISTS(j, p … ON ERROR)` | j, p, word |
//! | `JSON_VALUE(j, p RETURNING t … ON EMPTY … ON ERROR)` | j, p, type or `''`, word, value, word, value |
//! | `JSON_QUERY(j, p RETURNING t … WRAPPER … ON EMPTY … ON ERROR)` | j, p, type or `''`, three words |
//! | `JSON_OBJECT(KEY k VALUE v, … ON NULL)` | word, k, v, … |
//! | `JSON_ARRAY(v, … ON NULL)` | word, v, … |

use crate::data_type::{expect_word, parse as parse_type, peek_word, take_word};
use sqlparser::ast::{Expr, Value};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token};

type Arguments = Result<Vec<Expr>, ParserError>;

/// Reads the arguments of a call up to the closing parenthesis.
pub(crate) type ArgumentParser = fn(&mut Parser) -> Arguments;

/// How the arguments of a JSON function are read, if `name` is one with clauses.
pub(crate) fn parser_of(name: &str) -> Option<(&'static str, ArgumentParser)> {
    const PARSERS: &[(&str, ArgumentParser)] = &[
        ("JSON_EXISTS", exists),
        ("JSON_VALUE", value),
        ("JSON_QUERY", query),
        ("JSON_OBJECT", object),
        ("JSON_ARRAY", array),
    ];
    PARSERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

fn constant(text: impl Into<String>, span: Span) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).with_span(span))
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// `json, path`
fn document(parser: &mut Parser) -> Arguments {
    let json = parser.parse_expr()?;
    parser.expect_token(&Token::Comma)?;
    Ok(vec![json, parser.parse_expr()?])
}

/// `RETURNING type`, as the type's text.
fn returning(parser: &mut Parser) -> Result<Expr, ParserError> {
    let span = parser.peek_token_ref().span;
    if !take_word(parser, "RETURNING") {
        return Ok(constant("", span));
    }
    Ok(constant(parse_type(parser)?.data_type.to_string(), span))
}

/// One of these clauses of one or two words.
fn choice(parser: &mut Parser, choices: &[&str]) -> Option<String> {
    let found =
        choices.iter().find(|choice| choice.split(' ').enumerate().all(|(i, word)| peek_word(parser, i, word)))?;
    found.split(' ').for_each(|_| parser.advance_token());
    Some((*found).to_owned())
}

fn exists(parser: &mut Parser) -> Arguments {
    let mut arguments = document(parser)?;
    let span = parser.peek_token_ref().span;
    let on_error = choice(parser, &["TRUE", "FALSE", "UNKNOWN", "ERROR"]);
    if on_error.is_some() {
        expect_word(parser, "ON")?;
        expect_word(parser, "ERROR")?;
    }
    arguments.push(constant(on_error.unwrap_or_default(), span));
    Ok(arguments)
}

/// `… ON EMPTY … ON ERROR`, each a word of `choices` with the value of DEFAULT; `otherwise` for what is not said.
fn outcomes(parser: &mut Parser, choices: &[&str], otherwise: &str) -> Result<[(String, Expr); 2], ParserError> {
    let mut empty = (otherwise.to_owned(), null());
    let mut error = empty.clone();
    while let Some(word) = choice(parser, choices) {
        let value = if word == "DEFAULT" { parser.parse_expr()? } else { null() };
        expect_word(parser, "ON")?;
        if take_word(parser, "EMPTY") {
            empty = (word, value);
        } else {
            expect_word(parser, "ERROR")?;
            error = (word, value);
            break;
        }
    }
    Ok([empty, error])
}

fn value(parser: &mut Parser) -> Arguments {
    let mut arguments = document(parser)?;
    arguments.push(returning(parser)?);
    let span = parser.peek_token_ref().span;
    let outcomes = outcomes(parser, &["NULL", "ERROR", "DEFAULT"], "NULL")?;
    arguments.extend(outcomes.into_iter().flat_map(|(word, value)| [constant(word, span), value]));
    Ok(arguments)
}

fn query(parser: &mut Parser) -> Arguments {
    let mut arguments = document(parser)?;
    arguments.push(returning(parser)?);
    let span = parser.peek_token_ref().span;
    let mut wrapper = String::new();
    if take_word(parser, "WITHOUT") {
        let _ = take_word(parser, "ARRAY");
        expect_word(parser, "WRAPPER")?;
    } else if take_word(parser, "WITH") {
        wrapper = choice(parser, &["CONDITIONAL", "UNCONDITIONAL"]).unwrap_or_else(|| "UNCONDITIONAL".to_owned());
        let _ = take_word(parser, "ARRAY");
        expect_word(parser, "WRAPPER")?;
    }
    let outcomes = outcomes(parser, &["NULL", "EMPTY ARRAY", "EMPTY OBJECT", "ERROR"], "")?;
    arguments.push(constant(wrapper, span));
    arguments.extend(outcomes.map(|(word, _)| constant(word, span)));
    Ok(arguments)
}

/// `NULL ON NULL` or `ABSENT ON NULL`, if it is next.
fn on_null(parser: &mut Parser) -> Result<Option<String>, ParserError> {
    if !peek_word(parser, 1, "ON") {
        return Ok(None);
    }
    let word = choice(parser, &["NULL", "ABSENT"]);
    if word.is_some() {
        expect_word(parser, "ON")?;
        expect_word(parser, "NULL")?;
    }
    Ok(word)
}

/// The members up to the closing parenthesis, after the word of ON NULL.
fn members(parser: &mut Parser, mut member: impl FnMut(&mut Parser) -> Arguments) -> Arguments {
    let span = parser.peek_token_ref().span;
    let mut arguments = Vec::new();
    let mut word = on_null(parser)?;
    if word.is_none() && parser.peek_token_ref().token != Token::RParen {
        loop {
            arguments.extend(member(parser)?);
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        word = on_null(parser)?;
    }
    arguments.insert(0, constant(word.unwrap_or_default(), span));
    Ok(arguments)
}

fn object(parser: &mut Parser) -> Arguments {
    members(parser, |parser| {
        let _ = take_word(parser, "KEY");
        let key = parser.parse_expr()?;
        if !parser.consume_token(&Token::Colon) {
            expect_word(parser, "VALUE")?;
        }
        Ok(vec![key, parser.parse_expr()?])
    })
}

fn array(parser: &mut Parser) -> Arguments {
    members(parser, |parser| Ok(vec![parser.parse_expr()?]))
}
