//! The sqlparser dialect of Flink SQL.
//!
//! sqlparser does the queries and expressions; this dialect tells it where Flink differs. What Flink has and sqlparser
//! lacks becomes an ordinary node, so that the binder only ever matches sqlparser's AST:
//!
//! | SQL | AST |
//! | --- | --- |
//! | `TABLE a.b` as an argument | `Expr::Function` named `TABLE`; its first argument is the `Identifier`/`CompoundIdentifier` |
//! | `TABLE a PARTITION BY x, y` | the same; the arguments after the first are `x` and `y` |
//! | `(SELECT …) PARTITION BY x, y` | the same; its first argument is the `Subquery` |
//! | `DESCRIPTOR(c)` | `Expr::Function` named `DESCRIPTOR` |
//! | `DATA => …` | `FunctionArg::Named` with `FunctionArgOperator::RightArrow` |
//! | `FROM TABLE(TUMBLE(…))` | `TableFactor::TableFunction` |
//! | `FROM TUMBLE(…)` | `TableFactor::Table` with `args` |
//! | `LATERAL TABLE(f(x))` | `TableFactor::Function` named `TABLE`, `lateral` |
//! | `MAP[k, v, …]` | `Expr::Function` named `MAP` |
//! | `JSON_VALUE(…)` and its kind | `Expr::Function` with the arguments of `json_syntax` |
//! | `x BETWEEN SYMMETRIC a AND b` | `Expr::Function` named `BETWEEN SYMMETRIC`, of x, a and b |
//! | `ARRAY[…]`, `a[1]` | `Expr::Array`, `Expr::CompoundFieldAccess` |
//! | `CAST(x AS type)`, `x::type` | `Expr::Cast` whose type is read by [`crate::data_type::from_ast`], whatever the variant |
//! | `FOR SYSTEM_TIME AS OF …` | `TableFactor::Table` with `version` |
//!
//! Identifiers are never folded: `Ident::value` is the name. Keywords and function names come as written.
//!
//! Invariants: words that can never start an expression (`FROM`, `WHERE`, …) are rejected where an expression is
//! expected, because sqlparser would take `SELECT a, FROM t` for a column named `FROM`.

use crate::{data_type, json_syntax};
use sqlparser::ast::{
    CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    UnaryOperator,
};
use sqlparser::dialect::Dialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

/// Flink SQL for sqlparser.
#[derive(Debug, Default, Clone, Copy)]
pub struct FlinkDialect;

/// Words that cannot be used as names without backticks: an expression or a name never starts with one.
const RESERVED: &[Keyword] = {
    use Keyword::*;
    &[
        ALTER, AND, AS, BETWEEN, BY, CREATE, DISTINCT, DROP, ELSE, END, EXCEPT, FOR, FROM, FULL, GROUP, HAVING, IN,
        INNER, INSERT, INTERSECT, INTO, IS, JOIN, LIKE, LIMIT, NATURAL, OFFSET, ON, OR, ORDER, OUTER, SELECT, THEN,
        UNION, USING, WHEN, WHERE, WITH,
    ]
};

/// Whether `keyword` needs backticks to be a name.
pub fn is_reserved(keyword: Keyword) -> bool {
    RESERVED.contains(&keyword)
}

impl Dialect for FlinkDialect {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    /// `STATE_TTL` is one.
    fn supports_comment_optimizer_hint(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn supports_window_function_null_treatment_arg(&self) -> bool {
        true
    }

    fn supports_window_clause_named_window_reference(&self) -> bool {
        true
    }

    fn supports_select_wildcard_except(&self) -> bool {
        true
    }

    fn supports_select_wildcard_exclude(&self) -> bool {
        true
    }

    fn supports_select_wildcard_replace(&self) -> bool {
        true
    }

    fn supports_parens_around_table_factor(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn allow_extract_custom(&self) -> bool {
        true
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        is_reserved(kw) || matches!(kw, Keyword::EXISTS | Keyword::INTERVAL | Keyword::CASE | Keyword::CAST)
    }

    fn is_column_alias(&self, kw: &Keyword, _parser: &mut Parser) -> bool {
        !is_reserved(*kw) && !sqlparser::keywords::RESERVED_FOR_COLUMN_ALIAS.contains(kw)
    }

    fn is_table_factor(&self, kw: &Keyword, _parser: &mut Parser) -> bool {
        !is_reserved(*kw)
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let token = parser.peek_token_ref();
        let is_query = |parser: &Parser| ["SELECT", "WITH"].iter().any(|word| data_type::peek_word(parser, 1, word));
        if token.token == Token::LParen && is_query(parser) {
            return Some(parse_query_argument(parser));
        }
        let Token::Word(word) = &token.token else { return None };
        if word.quote_style.is_some() {
            return None;
        }
        let (keyword, span) = (word.keyword, token.span);
        if is_reserved(keyword) {
            let found = parser.peek_token();
            return Some(parser.expected("an expression", found));
        }
        if parser.peek_nth_token_ref(1).token == Token::LParen
            && let Some((name, arguments)) = json_syntax::parser_of(&word.value)
        {
            return Some(parse_json_call(parser, name, span, arguments));
        }
        let is_try = word.value.eq_ignore_ascii_case("TRY_CAST");
        let next = &parser.peek_nth_token_ref(1).token;
        match (keyword, next) {
            (Keyword::TABLE, Token::Word(_) | Token::SingleQuotedString(_)) => Some(parse_table_argument(parser, span)),
            (Keyword::MAP, Token::LBracket) => Some(parse_map(parser, span)),
            (Keyword::CAST, Token::LParen) => Some(parse_cast(parser, CastKind::Cast)),
            (_, Token::LParen) if is_try => Some(parse_cast(parser, CastKind::TryCast)),
            _ => None,
        }
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _precedence: u8) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token == Token::DoubleColon {
            return Some(parse_postfix_cast(parser, expr));
        }
        let negated = data_type::peek_word(parser, 0, "NOT");
        let between = usize::from(negated);
        if !data_type::peek_word(parser, between, "BETWEEN") {
            return None;
        }
        // SYMMETRIC may also be the name of a column: then AND follows.
        let kind =
            |word| data_type::peek_word(parser, between + 1, word) && !data_type::peek_word(parser, between + 2, "AND");
        let (symmetric, asymmetric) = (kind("SYMMETRIC"), kind("ASYMMETRIC"));
        (symmetric || asymmetric).then(|| parse_between(parser, expr, negated, symmetric))
    }
}

/// `[NOT] BETWEEN [A]SYMMETRIC a AND b`, after `expr`.
fn parse_between(parser: &mut Parser, expr: &Expr, negated: bool, symmetric: bool) -> Result<Expr, ParserError> {
    let span = parser.peek_nth_token_ref(usize::from(negated) + 1).span;
    for _ in 0..usize::from(negated) + 2 {
        parser.advance_token();
    }
    let between = parser.parse_between(expr.clone(), negated)?;
    let Expr::Between { expr, negated, low, high } = between else { return Ok(between) };
    if !symmetric {
        return Ok(Expr::Between { expr, negated, low, high });
    }
    let call = call("BETWEEN SYMMETRIC", span, vec![*expr, *low, *high]);
    Ok(if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(call) } } else { call })
}

/// A JSON function, at its name.
fn parse_json_call(
    parser: &mut Parser,
    name: &str,
    span: Span,
    arguments: json_syntax::ArgumentParser,
) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let arguments = arguments(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(call(name, span, arguments))
}

/// `TABLE a.b [PARTITION BY x, …]`, also with the partitioning in parentheses, at the word `TABLE`.
fn parse_table_argument(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    let mut parts = vec![parse_name_part(parser)?];
    while parser.consume_token(&Token::Period) {
        parts.push(parse_name_part(parser)?);
    }
    let name = match parts.len() {
        1 => Expr::Identifier(parts.remove(0)),
        _ => Expr::CompoundIdentifier(parts),
    };
    let mut arguments = vec![name];
    parse_partitioning(parser, &mut arguments)?;
    Ok(call("TABLE", span, arguments))
}

/// `(SELECT …)`, anywhere in an expression, or `(SELECT …) PARTITION BY x, …` as an argument, at the parenthesis.
fn parse_query_argument(parser: &mut Parser) -> Result<Expr, ParserError> {
    let span = parser.peek_token_ref().span;
    parser.expect_token(&Token::LParen)?;
    let mut arguments = vec![Expr::Subquery(parser.parse_query()?)];
    parser.expect_token(&Token::RParen)?;
    parse_partitioning(parser, &mut arguments)?;
    Ok(if arguments.len() == 1 { arguments.remove(0) } else { call("TABLE", span, arguments) })
}

/// Appends the keys of `PARTITION BY x, …`, if that follows.
fn parse_partitioning(parser: &mut Parser, arguments: &mut Vec<Expr>) -> Result<(), ParserError> {
    if parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
        let parenthesized = parser.consume_token(&Token::LParen);
        // After an unparenthesized key, `, DESCRIPTOR(…)` is the next argument of the function, not another key.
        loop {
            arguments.push(parser.parse_expr()?);
            if parser.peek_token_ref().token != Token::Comma || (!parenthesized && next_argument_follows(parser)) {
                break;
            }
            parser.advance_token();
        }
        if parenthesized {
            parser.expect_token(&Token::RParen)?;
        }
    }
    Ok(())
}

/// Whether what follows the comma is `DESCRIPTOR(…)` or `NAME => …`.
fn next_argument_follows(parser: &Parser) -> bool {
    let word = matches!(&parser.peek_nth_token_ref(1).token,
        Token::Word(w) if w.value.eq_ignore_ascii_case("DESCRIPTOR"));
    word || parser.peek_nth_token_ref(2).token == Token::RArrow
}

fn parse_name_part(parser: &mut Parser) -> Result<Ident, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::Word(word) => Ok(word.into_ident(token.span)),
        Token::SingleQuotedString(path) => Ok(Ident { value: path, quote_style: Some('\''), span: token.span }),
        _ => parser.expected("the name of a table", token),
    }
}

/// `MAP[k, v, …]`, at the word `MAP`.
fn parse_map(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LBracket)?;
    let entries = match parser.peek_token_ref().token {
        Token::RBracket => vec![],
        _ => parser.parse_comma_separated(Parser::parse_expr)?,
    };
    parser.expect_token(&Token::RBracket)?;
    Ok(call("MAP", span, entries))
}

/// `CAST(x AS type)` with a type of Flink's, at the word `CAST`.
fn parse_cast(parser: &mut Parser, kind: CastKind) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let operand = parser.parse_expr()?;
    parser.expect_keyword(Keyword::AS)?;
    let data_type = data_type::parse_to_ast(parser)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Cast { kind, expr: Box::new(operand), data_type, format: None })
}

/// `x::type` with a type of Flink's, at the colons.
fn parse_postfix_cast(parser: &mut Parser, operand: &Expr) -> Result<Expr, ParserError> {
    parser.advance_token();
    let data_type = data_type::parse_to_ast(parser)?;
    let next = parser.peek_token_ref();
    if next.token == Token::LBracket {
        let text = format!("a type has no brackets; write ARRAY<{data_type}>, or (x::{data_type})[1] for an element");
        return Err(ParserError::ParserError(format!("{text}{}", next.span.start)));
    }
    Ok(Expr::Cast { kind: CastKind::DoubleColon, expr: Box::new(operand.clone()), data_type, format: None })
}

/// A call of `name` with plain arguments.
fn call(name: &str, span: Span, arguments: Vec<Expr>) -> Expr {
    let args = arguments.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(span, name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: vec![] }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Whether `token` is this word, in any letter case and without quotes.
pub(crate) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    unquoted_word(token).is_some_and(|w| w.eq_ignore_ascii_case(word))
}

/// The unquoted word of `token`, or nothing.
pub(crate) fn unquoted_word(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(&word.value),
        _ => None,
    }
}
