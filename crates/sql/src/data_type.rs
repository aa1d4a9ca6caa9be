//! The text of Flink's data types: in column definitions and in `CAST(x AS type)`.
//!
//! sqlparser's own type parser knows neither `ROW<…>` nor `TIMESTAMP_LTZ`, so every type goes through the one here. In
//! sqlparser's AST a type of ours travels as `DataType::Custom` whose only name part is the type's text; [`from_ast`]
//! reads it back, and reads sqlparser's own variants (`DATE '…'`, `x::INT`) as well.
//!
//! Defaults are Flink's: `DECIMAL` is DECIMAL(10, 0), `TIMESTAMP` is TIMESTAMP(6), `TIME` is TIME(0), `CHAR` is CHAR(1),
//! and `VARCHAR` without a length is unbounded, as Flink's planner takes it.

use crate::dialect::{FlinkDialect, unquoted_word};
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::collections::HashSet;

/// Types may be nested this deep.
const MAX_DEPTH: usize = 32;

/// Names that a type can start with, for suggestions.
const TYPE_NAMES: &str = "ARRAY BIGINT BINARY BOOLEAN BYTES CHAR DATE DEC DECIMAL DOUBLE FLOAT INT INTEGER \
    INTERVAL MAP NUMERIC ROW SMALLINT STRING TIME TIMESTAMP TIMESTAMP_LTZ TINYINT VARBINARY VARCHAR";

/// Types of other systems and what to write instead.
const SYNONYMS: &[(&str, &str)] = &[
    ("TEXT", "STRING"),
    ("DATETIME", "TIMESTAMP(3)"),
    ("DATETIME2", "TIMESTAMP(3)"),
    ("TIMESTAMPTZ", "TIMESTAMP_LTZ(3)"),
    ("TIMESTAMP_NTZ", "TIMESTAMP(3)"),
    ("TIMESTAMP_TZ", "TIMESTAMP_LTZ(3)"),
    ("BOOL", "BOOLEAN"),
    ("BIT", "BOOLEAN"),
    ("REAL", "FLOAT"),
    ("LONG", "BIGINT"),
    ("INT64", "BIGINT"),
    ("INT32", "INT"),
    ("INT16", "SMALLINT"),
    ("INT8", "BIGINT"),
    ("INT4", "INT"),
    ("INT2", "SMALLINT"),
    ("UBIGINT", "DECIMAL(20, 0)"),
    ("UINTEGER", "BIGINT"),
    ("HUGEINT", "DECIMAL(38, 0)"),
    ("MEDIUMINT", "INT"),
    ("FLOAT64", "DOUBLE"),
    ("FLOAT32", "FLOAT"),
    ("FLOAT8", "DOUBLE"),
    ("FLOAT4", "FLOAT"),
    ("NUMBER", "DECIMAL(10, 0), with the precision and scale that are needed, or BIGINT"),
    ("MONEY", "DECIMAL(19, 4)"),
    ("BLOB", "BYTES"),
    ("BYTEA", "BYTES"),
    ("STRUCT", "ROW<name type, …>, as in ROW<lat DOUBLE, lon DOUBLE>"),
    ("LIST", "ARRAY<type>, as in ARRAY<STRING>"),
    ("NVARCHAR", "STRING"),
    ("VARCHAR2", "VARCHAR(n) or STRING"),
    ("NVARCHAR2", "VARCHAR(n) or STRING"),
    ("CLOB", "STRING"),
    ("LONGTEXT", "STRING"),
    ("CITEXT", "STRING"),
    ("UUID", "STRING"),
    ("ENUM", "STRING"),
    ("INET", "STRING"),
    ("JSON", "STRING, and read parts with JSON_VALUE(x, '$.a')"),
    ("JSONB", "STRING, and read parts with JSON_VALUE(x, '$.a')"),
];

/// Types that are more than a name.
const FOREIGN_NAMES: &[(&str, &str)] =
    &[("SERIAL", NUMBERED), ("BIGSERIAL", NUMBERED), ("SMALLSERIAL", NUMBERED), ("AUTOINCREMENT", NUMBERED)];

const NUMBERED: &str = "rows are not numbered as they are written: declare BIGINT, and have the query give the numbers";

/// Types that Flink has and we lack.
const UNSUPPORTED_NAMES: &[&str] = &["MULTISET", "RAW", "VARIANT", "NULL", "BITMAP", "DESCRIPTOR"];

/// A type and whether `NOT NULL` follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct NullableType {
    /// The type.
    pub data_type: DataType,
    /// `false` after `NOT NULL`.
    pub nullable: bool,
}

/// A parsed type, and whether its last `>>` also closed the bracket around it.
struct Parsed {
    result: NullableType,
    closed_outer: bool,
}

/// Parses a type at the parser's position.
pub(crate) fn parse(parser: &mut Parser) -> Result<NullableType, ParserError> {
    let start = parser.peek_token();
    let parsed = parse_nested(parser, 0)?;
    if parsed.closed_outer {
        return parser.expected("a type with as many '<' as '>'", start);
    }
    Ok(parsed.result)
}

/// Parses a type at the parser's position into the AST form that [`from_ast`] reads.
pub(crate) fn parse_to_ast(parser: &mut Parser) -> Result<ast::DataType, ParserError> {
    let span = parser.peek_token_ref().span;
    let parsed = parse(parser)?;
    let text = ast::Ident { value: parsed.data_type.to_string(), quote_style: None, span };
    Ok(ast::DataType::Custom(ast::ObjectName::from(vec![text]), vec![]))
}

/// The type that a type of sqlparser's AST stands for.
pub fn from_ast(data_type: &ast::DataType) -> Result<DataType, Diagnostic> {
    let text = match data_type {
        ast::DataType::Custom(name, arguments) if arguments.is_empty() && name.0.len() == 1 => {
            name.0[0].as_ident().map(|ident| ident.value.clone()).unwrap_or_default()
        }
        other => other.to_string(),
    };
    from_text(&text)
}

/// The type of this text, such as `ROW<a INT, b STRING>`.
pub fn from_text(text: &str) -> Result<DataType, Diagnostic> {
    let wrong = || Diagnostic::new(code::SYNTAX, format!("'{text}' is not a data type of Flink SQL"));
    let mut parser = Parser::new(&FlinkDialect).try_with_sql(text).map_err(|_| wrong())?;
    let parsed = parse(&mut parser).map_err(|_| wrong())?;
    match parser.peek_token_ref().token {
        Token::EOF => Ok(parsed.data_type),
        _ => Err(wrong()),
    }
}

fn parse_nested(parser: &mut Parser, depth: usize) -> Result<Parsed, ParserError> {
    if depth > MAX_DEPTH {
        return Err(ParserError::RecursionLimitExceeded);
    }
    let start = parser.next_token();
    let Some(word) = unquoted_word(&start) else {
        return parser.expected("a data type", start);
    };
    let name = word.to_ascii_uppercase();
    let mut closed_outer = false;
    let data_type = match name.as_str() {
        "BOOLEAN" => DataType::Boolean,
        "TINYINT" => DataType::TinyInt,
        "SMALLINT" => DataType::SmallInt,
        "INT" | "INTEGER" => DataType::Int,
        "BIGINT" => DataType::BigInt,
        "FLOAT" => DataType::Float,
        "DOUBLE" => {
            let _ = take_word(parser, "PRECISION");
            DataType::Double
        }
        "DECIMAL" | "DEC" | "NUMERIC" => parse_decimal(parser)?,
        "CHAR" | "CHARACTER" if take_word(parser, "VARYING") => DataType::Varchar(length(parser, i32::MAX as u32)?),
        "CHAR" | "CHARACTER" => DataType::Char(length(parser, 1)?),
        "VARCHAR" => DataType::Varchar(length(parser, i32::MAX as u32)?),
        "STRING" => DataType::STRING,
        "BINARY" if take_word(parser, "VARYING") => DataType::Varbinary(length(parser, i32::MAX as u32)?),
        "BINARY" => DataType::Binary(length(parser, 1)?),
        "VARBINARY" => DataType::Varbinary(length(parser, i32::MAX as u32)?),
        "BYTES" => DataType::BYTES,
        "DATE" => DataType::Date,
        "TIME" => {
            let precision = time_precision(parser, 0)?;
            is_local(parser)?;
            DataType::Time(precision)
        }
        "TIMESTAMP" => {
            let precision = time_precision(parser, 6)?;
            if is_local(parser)? { DataType::TimestampLtz(precision) } else { DataType::Timestamp(precision) }
        }
        "TIMESTAMP_LTZ" => DataType::TimestampLtz(time_precision(parser, 6)?),
        "INTERVAL" => parse_interval(parser)?,
        "ROW" => {
            let (fields, closed) = parse_row(parser, depth)?;
            closed_outer = closed;
            DataType::Row(fields.into())
        }
        "ARRAY" => {
            parser.expect_token(&Token::Lt)?;
            let element = parse_nested(parser, depth + 1)?;
            closed_outer = close(parser, element.closed_outer)?;
            DataType::Array(element.result.data_type.into())
        }
        "MAP" => {
            parser.expect_token(&Token::Lt)?;
            let key = parse_nested(parser, depth + 1)?;
            if key.closed_outer {
                return parser.expected("a key type and a value type", start);
            }
            parser.expect_token(&Token::Comma)?;
            let value = parse_nested(parser, depth + 1)?;
            closed_outer = close(parser, value.closed_outer)?;
            DataType::Map(key.result.data_type.into(), value.result.data_type.into())
        }
        _ => {
            let is_list = parser.peek_token_ref().token == Token::LBracket;
            return Err(unknown_type(&name, &start, is_list));
        }
    };
    parse_suffixes(parser, data_type, closed_outer)
}

/// `NOT NULL`, `NULL` and `ARRAY` after a type; nothing can follow a type whose bracket closed the outer one.
fn parse_suffixes(parser: &mut Parser, mut data_type: DataType, closed_outer: bool) -> Result<Parsed, ParserError> {
    let mut nullable = true;
    if closed_outer {
        return Ok(Parsed { result: NullableType { data_type, nullable }, closed_outer });
    }
    loop {
        if take_words(parser, &["NOT", "NULL"]) {
            nullable = false;
        } else if take_word(parser, "NULL") {
            nullable = true;
        } else if take_word(parser, "ARRAY") {
            data_type = DataType::Array(data_type.into());
            nullable = true;
        } else if peek_word(parser, 0, "MULTISET") {
            let token = parser.peek_token();
            return Err(unknown_type("MULTISET", &token, false));
        } else {
            break;
        }
    }
    Ok(Parsed { result: NullableType { data_type, nullable }, closed_outer })
}

/// `<a INT, b STRING 'comment'>` or the same in parentheses, after `ROW`.
fn parse_row(parser: &mut Parser, depth: usize) -> Result<(Vec<Field>, bool), ParserError> {
    let angle = parser.consume_token(&Token::Lt);
    if !angle {
        parser.expect_token(&Token::LParen)?;
    }
    let mut fields: Vec<Field> = vec![];
    let mut names = HashSet::new();
    loop {
        let token = parser.next_token();
        let Token::Word(name) = &token.token else {
            return parser.expected("the name of a field", token);
        };
        if !names.insert(name.value.clone()) {
            let text = format!(
                "field '{0}' occurs twice in a ROW type; give one of them another name, such as {0}_2",
                name.value
            );
            return Err(ParserError::ParserError(format!("{text}{}", token.span.start)));
        }
        let field = parse_nested(parser, depth + 1)?;
        fields.push(Field::new(&name.value, field.result.data_type, field.result.nullable));
        if field.closed_outer {
            if !angle {
                return parser.expected("')'", token);
            }
            return Ok((fields, false));
        }
        if matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_)) {
            parser.advance_token();
        }
        if parser.consume_token(&Token::Comma) {
            continue;
        }
        if !angle {
            parser.expect_token(&Token::RParen)?;
            return Ok((fields, false));
        }
        return close(parser, false).map(|closed_outer| (fields, closed_outer));
    }
}

/// Consumes `>`, or `>>` which also closes the outer bracket; `already` when the inner type has done it.
fn close(parser: &mut Parser, already: bool) -> Result<bool, ParserError> {
    if already {
        return Ok(false);
    }
    let token = parser.next_token();
    match token.token {
        Token::Gt => Ok(false),
        Token::ShiftRight => Ok(true),
        _ => parser.expected("',' or '>'", token),
    }
}

fn parse_decimal(parser: &mut Parser) -> Result<DataType, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(DataType::decimal(10, 0));
    }
    let precision = number(parser, 1, 38, "a precision from 1 to 38")?;
    let scale = match parser.consume_token(&Token::Comma) {
        true => number(parser, 0, precision, "a scale from 0 to the precision")?,
        false => 0,
    };
    parser.expect_token(&Token::RParen)?;
    Ok(DataType::decimal(precision as u8, scale as u8))
}

/// The unit fields after `INTERVAL`.
fn parse_interval(parser: &mut Parser) -> Result<DataType, ParserError> {
    const UNITS: [&str; 6] = ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"];
    let unit = |parser: &mut Parser| -> Result<usize, ParserError> {
        let token = parser.next_token();
        let found = unquoted_word(&token).and_then(|w| UNITS.iter().position(|u| w.eq_ignore_ascii_case(u)));
        let Some(position) = found else { return parser.expected("YEAR, MONTH, DAY, HOUR, MINUTE or SECOND", token) };
        if parser.consume_token(&Token::LParen) {
            number(parser, 0, 9, "a precision from 0 to 9")?;
            if parser.consume_token(&Token::Comma) {
                number(parser, 0, 9, "a precision from 0 to 9")?;
            }
            parser.expect_token(&Token::RParen)?;
        }
        Ok(position)
    };
    let first_token = parser.peek_token();
    let first = unit(parser)?;
    let last = if take_word(parser, "TO") { unit(parser)? } else { first };
    match (first, last) {
        (0..=1, 0..=1) if first <= last => Ok(DataType::IntervalMonth),
        (2.., 2..) if first <= last => Ok(DataType::IntervalMilli),
        _ => parser.expected("YEAR TO MONTH or DAY TO SECOND", first_token),
    }
}

/// Precision in parentheses after TIME and TIMESTAMP.
fn time_precision(parser: &mut Parser, default: u8) -> Result<u8, ParserError> {
    Ok(parenthesized(parser, 0, 9, "a precision from 0 to 9")?.map_or(default, |precision| precision as u8))
}

/// `WITHOUT TIME ZONE` (false) or `WITH LOCAL TIME ZONE` (true); false when neither is there.
fn is_local(parser: &mut Parser) -> Result<bool, ParserError> {
    if peek_word(parser, 0, "WITH") && peek_word(parser, 1, "TIME") {
        let at = parser.peek_token_ref().span.start;
        let text = "TIMESTAMP WITH TIME ZONE is not supported; use TIMESTAMP_LTZ";
        return Err(ParserError::ParserError(format!("{text}{at}")));
    }
    let is_local = take_words(parser, &["WITH", "LOCAL"]);
    if is_local || peek_word(parser, 1, "TIME") && take_word(parser, "WITHOUT") {
        expect_word(parser, "TIME")?;
        expect_word(parser, "ZONE")?;
    }
    Ok(is_local)
}

/// Length in parentheses after CHAR, VARCHAR and their binary kin.
fn length(parser: &mut Parser, default: u32) -> Result<u32, ParserError> {
    Ok(parenthesized(parser, 1, i32::MAX as u32, "a length from 1 to 2147483647")?.unwrap_or(default))
}

/// A number in parentheses, if there is one.
fn parenthesized(parser: &mut Parser, least: u32, most: u32, expected: &str) -> Result<Option<u32>, ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(None);
    }
    let number = number(parser, least, most, expected)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Some(number))
}

fn number(parser: &mut Parser, least: u32, most: u32, expected: &str) -> Result<u32, ParserError> {
    let token = parser.next_token();
    let number = match &token.token {
        Token::Number(digits, _) => digits.parse().ok(),
        _ => None,
    };
    match number {
        Some(value) if (least..=most).contains(&value) => Ok(value),
        _ => parser.expected(expected, token),
    }
}

/// The error for a type that is not there; `is_list` if brackets follow it.
fn unknown_type(name: &str, token: &sqlparser::tokenizer::TokenWithSpan, is_list: bool) -> ParserError {
    const LISTED: &str = "the types are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BYTES, DATE, \
        TIME, TIMESTAMP(3), TIMESTAMP_LTZ(3), INTERVAL, ARRAY<…>, MAP<…, …> and ROW<…>";
    let at = token.span.start;
    let text = if UNSUPPORTED_NAMES.contains(&name) {
        let instead = match name {
            "MULTISET" => "declare MAP<type, INT>, which COLLECT gives, too",
            "VARIANT" => "declare STRING, and read parts with JSON_VALUE(x, '$.a')",
            "BITMAP" | "RAW" => "declare BYTES",
            _ => LISTED,
        };
        format!("the data type {name} is not supported; {instead}")
    } else if let Some((_, ours)) = FOREIGN_NAMES.iter().find(|(foreign, _)| *foreign == name) {
        format!("unknown data type {name}; {ours}")
    } else if let Some((_, ours)) = SYNONYMS.iter().find(|(foreign, _)| *foreign == name) {
        match is_list {
            true => format!("unknown data type {name}; write ARRAY<{ours}>"),
            false => format!("unknown data type {name}; write {ours}"),
        }
    } else if let Some(near) = crate::placed::nearest(name, TYPE_NAMES.split(' ')) {
        format!("unknown data type {name}; did you mean {near}?")
    } else {
        format!("unknown data type {name}; {LISTED}")
    };
    ParserError::ParserError(format!("{text}{at}"))
}

/// Whether the `nth` token ahead is this unquoted word.
pub(crate) fn peek_word(parser: &Parser, nth: usize, word: &str) -> bool {
    unquoted_word(parser.peek_nth_token_ref(nth)).is_some_and(|w| w.eq_ignore_ascii_case(word))
}

/// Consumes this unquoted word if it is next.
pub(crate) fn take_word(parser: &mut Parser, word: &str) -> bool {
    take_words(parser, &[word])
}

/// Consumes these unquoted words if they are next.
pub(crate) fn take_words(parser: &mut Parser, words: &[&str]) -> bool {
    let found = words.iter().enumerate().all(|(nth, word)| peek_word(parser, nth, word));
    if found {
        words.iter().for_each(|_| parser.advance_token());
    }
    found
}

/// Consumes this unquoted word or fails.
pub(crate) fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    match take_word(parser, word) {
        true => Ok(()),
        false => parser.expected_ref(word, parser.peek_token_ref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        from_text(text).map(|t| t.to_string()).unwrap_or_else(|e| e.message)
    }

    #[test]
    fn reads_every_type_of_flink() {
        for (text, canonical) in [
            ("boolean", "BOOLEAN"),
            ("INTEGER", "INT"),
            ("DOUBLE PRECISION", "DOUBLE"),
            ("DEC", "DECIMAL(10, 0)"),
            ("NUMERIC(5)", "DECIMAL(5, 0)"),
            ("DECIMAL(38, 18)", "DECIMAL(38, 18)"),
            ("CHAR", "CHAR(1)"),
            ("VARCHAR", "STRING"),
            ("VARCHAR(7)", "VARCHAR(7)"),
            ("VARBINARY(3)", "VARBINARY(3)"),
            ("BYTES", "BYTES"),
            ("TIME", "TIME(0)"),
            ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
            ("TIMESTAMP", "TIMESTAMP(6)"),
            ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
            ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP_LTZ(3)"),
            ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ(6)"),
            ("INTERVAL DAY(3) TO SECOND(3)", "INTERVAL DAY TO SECOND"),
            ("INTERVAL YEAR", "INTERVAL YEAR TO MONTH"),
            ("INT ARRAY", "ARRAY<INT>"),
            ("ARRAY<ARRAY<ARRAY<INT>>>", "ARRAY<ARRAY<ARRAY<INT>>>"),
            ("MAP<STRING, ARRAY<INT NOT NULL>>", "MAP<STRING, ARRAY<INT>>"),
            ("ROW(a INT, `b c` STRING 'words')", "ROW<`a` INT, `b c` STRING>"),
            ("ROW<a ROW<b ROW<c INT NOT NULL>>, d INT>", "ROW<`a` ROW<`b` ROW<`c` INT NOT NULL>>, `d` INT>"),
        ] {
            assert_eq!(shown(text), canonical, "{text}");
        }
    }

    #[test]
    fn rejects_what_is_no_type() {
        for text in [
            "DECIMAL(39)",
            "DECIMAL(3,4)",
            "TIMESTAMP(10)",
            "VARCHAR(0)",
            "ROW<>",
            "ARRAY<INT>>",
            "INT INT",
            "MAP<INT>",
            "",
        ] {
            assert!(shown(text).contains("is not a data type"), "{text}");
        }
        assert!(shown(&"ARRAY<".repeat(1000)).contains("is not a data type"));
    }
}
