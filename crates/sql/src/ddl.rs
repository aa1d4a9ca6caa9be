//! `CREATE TABLE`, `CREATE VIEW` and `CREATE FUNCTION`: a small parser on sqlparser's tokens.
//!
//! It only reads; names are resolved, expressions bound and the definition checked when the [`crate::catalog`] takes it.

use crate::data_type::{self, expect_word, peek_word, take_word, take_words};
use crate::diagnostics::{Failure, error_at};
use crate::dialect::is_reserved;
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast::{Expr, Ident, Query};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use std::sync::Arc;

/// What `CREATE TABLE` says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TableDefinition {
    /// Name, perhaps qualified.
    pub name: Vec<Ident>,
    /// `CREATE TEMPORARY TABLE`; every table lives as long as the session anyway.
    pub temporary: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// `WATERMARK FOR … AS …`.
    pub watermark: Option<WatermarkDefinition>,
    /// `PRIMARY KEY … NOT ENFORCED`.
    pub primary_key: Vec<Ident>,
    /// `COMMENT '…'` of the table.
    pub comment: Option<String>,
    /// `PARTITIONED BY (…)`: columns whose values stand in the names of directories.
    pub partitioned_by: Vec<Ident>,
    /// `WITH (…)`, in order.
    pub options: Vec<(String, String)>,
    /// `LIKE other (…)`.
    pub like: Option<LikeClause>,
    /// `AS SELECT …`: the query whose columns it has. The INSERT of its rows is a statement of its own.
    pub query: Option<Arc<Query>>,
}

/// A column of `CREATE TABLE`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDefinition {
    /// Name.
    pub name: Ident,
    /// Where its value comes from.
    pub source: ColumnSource,
    /// `COMMENT '…'`.
    pub comment: Option<String>,
}

impl ColumnDefinition {
    /// The column, unless it is computed.
    pub(crate) fn typed(&self) -> Option<Field> {
        match &self.source {
            ColumnSource::Physical { data_type, nullable } | ColumnSource::Metadata { data_type, nullable, .. } => {
                Some(Field::new(&self.name.value, data_type.clone(), *nullable))
            }
            ColumnSource::Computed(_) => None,
        }
    }
}

/// Where the value of a column comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnSource {
    /// The record.
    Physical {
        /// Type.
        data_type: DataType,
        /// Without NOT NULL.
        nullable: bool,
    },
    /// The connector.
    Metadata {
        /// Type.
        data_type: DataType,
        /// Without NOT NULL.
        nullable: bool,
        /// `FROM 'key'`.
        key: Option<String>,
        /// `VIRTUAL`.
        is_virtual: bool,
    },
    /// `AS expression`.
    Computed(Box<Expr>),
}

/// `WATERMARK FOR column AS expression`.
#[derive(Debug, Clone, PartialEq)]
pub struct WatermarkDefinition {
    /// The event-time column.
    pub column: Ident,
    /// The watermark of a row.
    pub expression: Expr,
}

/// `LIKE other (INCLUDING …, EXCLUDING …)`: which parts of the other table are taken over.
#[derive(Debug, Clone, PartialEq)]
pub struct LikeClause {
    /// The other table.
    pub name: Vec<Ident>,
    /// Whether its computed columns are taken.
    pub generated: bool,
    /// Whether its metadata columns are taken.
    pub metadata: bool,
    /// Whether its options are taken.
    pub options: bool,
    /// Whether its watermark is taken.
    pub watermarks: bool,
    /// Whether its primary key is taken.
    pub constraints: bool,
}

/// What `CREATE VIEW` says.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewDefinition {
    /// Name, perhaps qualified.
    pub name: Vec<Ident>,
    /// `CREATE TEMPORARY VIEW`.
    pub temporary: bool,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Names of the columns, if given.
    pub columns: Vec<Ident>,
    /// `COMMENT '…'`.
    pub comment: Option<String>,
    /// The query.
    pub query: Arc<Query>,
    /// Text of the whole statement, for SHOW CREATE VIEW.
    pub text: String,
}

/// What `CREATE FUNCTION` says.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionDefinition {
    /// Name, perhaps qualified.
    pub name: Vec<Ident>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// Names and types of the parameters.
    pub parameters: Vec<(Ident, DataType)>,
    /// Type of the result.
    pub returns: DataType,
    /// What it computes, over the parameters.
    pub body: Expr,
}

/// The rest of `CREATE TABLE` after the word `TABLE`.
pub(crate) fn parse_create_table(parser: &mut Parser, temporary: bool) -> Result<TableDefinition, Failure> {
    let if_not_exists = take_if_not_exists(parser)?;
    let mut table = TableDefinition {
        name: parse_name(parser, "the name of the table")?,
        temporary,
        if_not_exists,
        ..TableDefinition::default()
    };
    if parser.consume_token(&Token::LParen) {
        loop {
            parse_element(parser, &mut table)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        expect_close(parser)?;
    }
    table.comment = parse_comment(parser)?;
    if peek_word(parser, 0, "DISTRIBUTED") {
        let advice = "leave the clause out; the sink writes all rows under one path";
        return Err(unsupported(parser.peek_token(), "DISTRIBUTED BY", advice).into());
    }
    if take_word(parser, "PARTITIONED") {
        expect_word(parser, "BY")?;
        parser.expect_token(&Token::LParen)?;
        table.partitioned_by =
            parser.parse_comma_separated(|parser| parse_identifier(parser, "the name of a column"))?;
        parser.expect_token(&Token::RParen)?;
    }
    if take_word(parser, "WITH") {
        table.options = parse_options(parser)?;
    }
    if take_word(parser, "LIKE") {
        table.like = Some(parse_like(parser)?);
    }
    let start = parser.peek_token();
    if take_word(parser, "AS") {
        if table.like.is_some() || !table.columns.is_empty() {
            let advice = "leave the list of columns and LIKE out, or CREATE the table and INSERT INTO it";
            return Err(invalid(start, "the columns of CREATE TABLE … AS are those of its query", advice).into());
        }
        if table.if_not_exists {
            let advice = "DROP TABLE IF EXISTS it before, or leave IF NOT EXISTS out";
            return Err(unsupported(start, "IF NOT EXISTS together with AS SELECT", advice).into());
        }
        table.query = Some(parser.parse_query()?.into());
    }
    Ok(table)
}

/// The rest of `CREATE VIEW` after the word `VIEW`.
pub(crate) fn parse_create_view(parser: &mut Parser, temporary: bool) -> Result<ViewDefinition, Failure> {
    let if_not_exists = take_if_not_exists(parser)?;
    let name = parse_name(parser, "the name of the view")?;
    let mut columns = vec![];
    if parser.consume_token(&Token::LParen) {
        columns = parser.parse_comma_separated(|parser| {
            let column = parse_identifier(parser, "the name of a column")?;
            parse_comment(parser)?;
            Ok(column)
        })?;
        parser.expect_token(&Token::RParen)?;
    }
    let comment = parse_comment(parser)?;
    expect_word(parser, "AS")?;
    let query = parser.parse_query()?.into();
    Ok(ViewDefinition { name, temporary, if_not_exists, columns, comment, query, text: String::new() })
}

/// The rest of `CREATE FUNCTION` after the word `FUNCTION`.
pub(crate) fn parse_create_function(parser: &mut Parser) -> Result<FunctionDefinition, Failure> {
    let if_not_exists = take_if_not_exists(parser)?;
    let name = parse_name(parser, "the name of the function")?;
    let next = parser.peek_token();
    if take_word(parser, "AS") {
        let function = name.last().map_or("f", |name| name.value.as_str());
        let advice = format!(
            "write the function in SQL, such as CREATE FUNCTION {function}(x STRING) RETURNS BIGINT RETURN CHAR_LENGTH(x)"
        );
        return Err(unsupported(next, "CREATE FUNCTION … AS 'class'", &advice).into());
    }
    parser.expect_token(&Token::LParen)?;
    let mut parameters = vec![];
    while !parser.consume_token(&Token::RParen) {
        if !parameters.is_empty() {
            parser.expect_token(&Token::Comma)?;
        }
        let parameter = parse_identifier(parser, "the name of a parameter")?;
        parameters.push((parameter, parse_type(parser)?));
    }
    expect_word(parser, "RETURNS")?;
    let returns = parse_type(parser)?;
    if take_word(parser, "LANGUAGE") {
        let language = parser.peek_token();
        if !take_word(parser, "SQL") {
            return Err(unsupported(language, "a language other than SQL", "write the function in SQL").into());
        }
    }
    expect_word(parser, "RETURN")?;
    let body = parser.parse_expr()?;
    Ok(FunctionDefinition { name, if_not_exists, parameters, returns, body })
}

fn parse_type(parser: &mut Parser) -> Result<DataType, Failure> {
    let start = parser.peek_token();
    let parsed = data_type::parse(parser)?;
    if parsed.nullable {
        return Ok(parsed.data_type);
    }
    let text = "parameters and results of SQL functions can always be NULL";
    Err(error_at(code::SYNTAX, start.span, text).advise("leave NOT NULL out").into())
}

pub(crate) fn take_if_not_exists(parser: &mut Parser) -> Result<bool, ParserError> {
    let found = take_words(parser, &["IF", "NOT"]);
    if found {
        expect_word(parser, "EXISTS")?;
    }
    Ok(found)
}

/// One element of the list in parentheses: a column, the watermark or a constraint.
fn parse_element(parser: &mut Parser, table: &mut TableDefinition) -> Result<(), Failure> {
    let start = parser.peek_token();
    if take_words(parser, &["WATERMARK", "FOR"]) {
        let column = parse_identifier(parser, "the name of the event-time column")?;
        if parser.peek_token_ref().token == Token::Period {
            let advice = "add a computed column for the field, and declare the watermark for that column";
            return Err(unsupported(start, "a watermark for a nested field", advice).into());
        }
        expect_word(parser, "AS")?;
        let expression = parser.parse_expr()?;
        if table.watermark.replace(WatermarkDefinition { column, expression }).is_some() {
            return Err(invalid(start, "a table has only one WATERMARK", "remove one of them").into());
        }
        return Ok(());
    }
    if take_word(parser, "CONSTRAINT") {
        parse_identifier(parser, "the name of the constraint")?;
    }
    if take_words(parser, &["PRIMARY", "KEY"]) {
        parser.expect_token(&Token::LParen)?;
        let names = parser.parse_comma_separated(|parser| parse_identifier(parser, "the name of a column"))?;
        parser.expect_token(&Token::RParen)?;
        return set_primary_key(parser, table, names, start, false);
    }
    if peek_word(parser, 0, "UNIQUE") && parser.peek_nth_token_ref(1).token == Token::LParen {
        return Err(unsupported(start, "UNIQUE", "leave the constraint out").into());
    }
    parse_column(parser, table)
}

fn set_primary_key(
    parser: &mut Parser,
    table: &mut TableDefinition,
    names: Vec<Ident>,
    start: TokenWithSpan,
    is_inline: bool,
) -> Result<(), Failure> {
    if !take_words(parser, &["NOT", "ENFORCED"]) {
        let columns = names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(", ");
        let text = "a PRIMARY KEY must be NOT ENFORCED: keys are not checked";
        let advice = match is_inline {
            true => "write PRIMARY KEY NOT ENFORCED".to_owned(),
            false => format!("write PRIMARY KEY ({columns}) NOT ENFORCED"),
        };
        return Err(invalid(start, text, &advice).into());
    }
    if !table.primary_key.is_empty() {
        return Err(
            invalid(start, "a table has only one PRIMARY KEY", "list all its columns in one PRIMARY KEY (…)").into()
        );
    }
    table.primary_key = names;
    Ok(())
}

fn parse_column(parser: &mut Parser, table: &mut TableDefinition) -> Result<(), Failure> {
    let name = parse_identifier(parser, "the name of a column")?;
    let mut comment = None;
    let source = if take_word(parser, "AS") {
        ColumnSource::Computed(Box::new(parser.parse_expr()?))
    } else {
        let parsed = data_type::parse(parser)?;
        let (data_type, mut nullable) = (parsed.data_type, parsed.nullable);
        let next = parser.peek_token();
        if next.token == Token::LBracket {
            let advice = format!("write ARRAY<{data_type}>");
            return Err(error_at(code::SYNTAX, next.span, "a type has no brackets").advise(advice).into());
        }
        if take_word(parser, "METADATA") {
            let key = match take_word(parser, "FROM") {
                true => Some(parse_string(parser, "the key of the metadata as a string")?),
                false => None,
            };
            ColumnSource::Metadata { data_type, nullable, key, is_virtual: take_word(parser, "VIRTUAL") }
        } else {
            parse_constraints(parser, table, &name, &mut nullable, &mut comment)?;
            ColumnSource::Physical { data_type, nullable }
        }
    };
    if comment.is_none() {
        comment = parse_comment(parser)?;
    }
    table.columns.push(ColumnDefinition { name, source, comment });
    Ok(())
}

/// What may follow the type of a physical column, in any order.
fn parse_constraints(
    parser: &mut Parser,
    table: &mut TableDefinition,
    name: &Ident,
    nullable: &mut bool,
    comment: &mut Option<String>,
) -> Result<(), Failure> {
    loop {
        let start = parser.peek_token();
        if take_word(parser, "CONSTRAINT") {
            parse_identifier(parser, "the name of the constraint")?;
        } else if take_words(parser, &["PRIMARY", "KEY"]) {
            set_primary_key(parser, table, vec![name.clone()], start, true)?;
        } else if take_words(parser, &["NOT", "NULL"]) {
            *nullable = false;
        } else if peek_word(parser, 0, "COMMENT") {
            *comment = parse_comment(parser)?;
        } else if peek_word(parser, 0, "DEFAULT") {
            return Err(unsupported(
                start,
                "DEFAULT",
                "leave it out, and select the value in the INSERT: INSERT INTO t SELECT id, CURRENT_TIMESTAMP FROM …",
            )
            .into());
        } else if peek_word(parser, 0, "UNIQUE") {
            return Err(unsupported(start, "UNIQUE", "leave the constraint out").into());
        } else {
            return Ok(());
        }
    }
}

/// The parenthesis that closes the columns. What stands there instead is most often a missing comma.
fn expect_close(parser: &mut Parser) -> Result<(), ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::RParen => Ok(()),
        _ => parser.expected("',' or ')'", token),
    }
}

/// `('key' = 'value', …)`; a repeated key is an error.
pub(crate) fn parse_options(parser: &mut Parser) -> Result<Vec<(String, String)>, Failure> {
    parser.expect_token(&Token::LParen)?;
    let mut options: Vec<(String, String)> = vec![];
    if parser.consume_token(&Token::RParen) {
        return Ok(options);
    }
    loop {
        let token = parser.peek_token();
        let key = parse_string(parser, "an option as 'key' = 'value'")?;
        parser.expect_token(&Token::Eq)?;
        let value = parse_string(parser, "the value as a string in single quotes")?;
        if options.iter().any(|(k, _)| *k == key) {
            return Err(invalid(token, format!("option '{key}' is given twice"), "remove one of them").into());
        }
        options.push((key, value));
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    expect_close(parser)?;
    Ok(options)
}

/// After `LIKE`: the other table and what to take over. Flink's defaults: everything is included.
fn parse_like(parser: &mut Parser) -> Result<LikeClause, ParserError> {
    let name = parse_source_name(parser, "the name of a table")?;
    let mut like =
        LikeClause { name, generated: true, metadata: true, options: true, watermarks: true, constraints: true };
    if !parser.consume_token(&Token::LParen) {
        return Ok(like);
    }
    while !parser.consume_token(&Token::RParen) {
        let included = take_word(parser, "INCLUDING") || take_word(parser, "OVERWRITING");
        if !included {
            expect_word(parser, "EXCLUDING")?;
        }
        let token = parser.next_token();
        let word = crate::dialect::unquoted_word(&token).unwrap_or_default().to_ascii_uppercase();
        match word.as_str() {
            "GENERATED" => like.generated = included,
            "METADATA" => like.metadata = included,
            "OPTIONS" => like.options = included,
            "WATERMARKS" => like.watermarks = included,
            "CONSTRAINTS" => like.constraints = included,
            "PARTITIONS" | "DISTRIBUTION" => {}
            "ALL" => {
                (like.generated, like.metadata, like.options) = (included, included, included);
                (like.watermarks, like.constraints) = (included, included);
            }
            _ => {
                let words = "GENERATED, METADATA, OPTIONS, WATERMARKS, CONSTRAINTS, PARTITIONS or ALL";
                return parser.expected(words, token);
            }
        }
        let _ = parser.consume_token(&Token::Comma);
    }
    Ok(like)
}

/// `COMMENT 'text'`, if it is there.
fn parse_comment(parser: &mut Parser) -> Result<Option<String>, ParserError> {
    match take_word(parser, "COMMENT") {
        true => Ok(Some(parse_string(parser, "the comment as a string")?)),
        false => Ok(None),
    }
}

/// A string in single quotes.
pub(crate) fn parse_string(parser: &mut Parser, expected: &str) -> Result<String, ParserError> {
    let token = parser.next_token();
    match token.token {
        Token::SingleQuotedString(text) => Ok(text),
        _ => parser.expected(expected, token),
    }
}

/// `a`, `a.b` or `a.b.c`, or the path of a file in single quotes.
pub(crate) fn parse_source_name(parser: &mut Parser, expected: &str) -> Result<Vec<Ident>, ParserError> {
    if let TokenWithSpan { token: Token::SingleQuotedString(path), span } = parser.peek_token() {
        parser.advance_token();
        return Ok(vec![Ident { value: path, quote_style: Some('\''), span }]);
    }
    parse_name(parser, expected)
}

/// `a`, `a.b` or `a.b.c`.
pub(crate) fn parse_name(parser: &mut Parser, expected: &str) -> Result<Vec<Ident>, ParserError> {
    let mut parts = vec![parse_identifier(parser, expected)?];
    while parser.consume_token(&Token::Period) {
        parts.push(parse_identifier(parser, expected)?);
    }
    Ok(parts)
}

/// A quoted name, or a word that is not reserved.
pub(crate) fn parse_identifier(parser: &mut Parser, expected: &str) -> Result<Ident, ParserError> {
    let token = parser.next_token();
    match &token.token {
        Token::Word(word) if word.quote_style.is_some() || !is_reserved(word.keyword) => {
            Ok(word.clone().into_ident(token.span))
        }
        _ => parser.expected(expected, token),
    }
}

/// The span of a name.
pub(crate) fn span_of(name: &[Ident]) -> Span {
    let first = name.first().map_or(Span::empty(), |i| i.span);
    name.iter().fold(first, |span, ident| span.union(&ident.span))
}

fn invalid(token: TokenWithSpan, message: impl Into<String>, advice: &str) -> Diagnostic {
    error_at(code::INVALID_TABLE, token.span, message).advise(advice)
}

/// The error for a feature of Flink SQL that is not there yet.
pub(crate) fn unsupported(token: TokenWithSpan, what: &str, advice: &str) -> Diagnostic {
    error_at(code::UNSUPPORTED, token.span, format!("{what} is not supported yet")).advise(advice)
}
