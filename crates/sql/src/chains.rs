//! A bound on how deep the tree of a statement is.
//!
//! The parser makes chains such as `a + b + …` and `… UNION ALL …` trees as deep as they are long, and everything later walks
//! them recursively. The depth is found in the tokens, so that no such tree is ever made: it is that of the operators of a chain and of the
//! deepest brackets in it together, which is at least what the parser makes of them.
//!
//! Words that end a chain are reserved ([`crate::dialect`]): none of them is the name of a column in the middle of one.

use crate::diagnostics::error_at;
use millstream_types::{Diagnostic, code};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Operators on top of each other, and likewise queries of UNION.
const MAX_CHAIN: usize = 1_000;

/// Words that the parser makes a node of a chain of.
const OPERATORS: &[Keyword] = {
    use Keyword::*;
    &[
        AND, AT, BETWEEN, COLLATE, DIV, GLOB, ILIKE, IN, INTERVAL, IS, JOIN, LIKE, MATCH, MEMBER, NOT, NOTNULL,
        OPERATOR, OR, OVERLAPS, REGEXP, RLIKE, SIMILAR, XOR,
    ]
};

/// What is known between two brackets, or between CASE and END.
#[derive(Default)]
struct Level {
    /// Opened by CASE.
    is_case: bool,
    /// Opened behind an operand: a call or a subscript, of which there may be a chain.
    is_suffix: bool,
    /// The chain that is going on.
    operators: Chain,
    /// The deepest of the chains before.
    deepest: usize,
    unions: Chain,
}

#[derive(Default)]
struct Chain {
    /// Operators so far.
    length: usize,
    /// The deepest that is within it.
    below: usize,
}

impl Chain {
    fn depth(&self) -> usize {
        self.length + self.below
    }
}

impl Level {
    /// The next operator is of another expression.
    fn end_chain(&mut self) {
        self.deepest = self.deepest.max(std::mem::take(&mut self.operators).depth());
    }

    /// Takes in what has ended within.
    fn close(&mut self, mut inner: Level) {
        inner.end_chain();
        self.operators.length += usize::from(inner.is_suffix);
        self.operators.below = self.operators.below.max(inner.deepest + 1);
        self.unions.below = self.unions.below.max(inner.unions.depth());
    }
}

/// Refuses the tokens of a statement whose tree would be too deep.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<(), Diagnostic> {
    let (mut level, mut outer) = (Level::default(), Vec::<Level>::new());
    let (mut previous, mut is_behind_operand) = (Keyword::NoKeyword, false);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                let within = Level { is_suffix: is_behind_operand, ..Level::default() };
                outer.push(std::mem::replace(&mut level, within));
            }
            Token::RParen | Token::RBracket => {
                while let Some(around) = outer.pop() {
                    let inner = std::mem::replace(&mut level, around);
                    let is_case = inner.is_case;
                    level.close(inner);
                    if !is_case {
                        break;
                    }
                }
            }
            Token::Comma | Token::SemiColon => level.end_chain(),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::CASE => {
                    level.operators.length += 1;
                    outer.push(std::mem::replace(&mut level, Level { is_case: true, ..Level::default() }));
                }
                Keyword::END if level.is_case => {
                    if let Some(around) = outer.pop() {
                        let inner = std::mem::replace(&mut level, around);
                        level.close(inner);
                    }
                }
                // `IS DISTINCT FROM` and `WITHIN GROUP` are parts of an expression.
                Keyword::FROM if previous == Keyword::DISTINCT => {}
                Keyword::GROUP if previous == Keyword::WITHIN => {}
                Keyword::SELECT | Keyword::FROM | Keyword::WHERE | Keyword::GROUP | Keyword::HAVING => {
                    level.end_chain()
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => level.end_chain(),
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => level.unions.length += 1,
                keyword if OPERATORS.contains(&keyword) => level.operators.length += 1,
                _ => {}
            },
            Token::Word(_) | Token::Number(..) | Token::SingleQuotedString(_) => {}
            _ => level.operators.length += 1,
        }
        check_level(&level, token)?;
        previous = match &token.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        is_behind_operand = matches!(token.token, Token::Word(_) | Token::RParen | Token::RBracket);
    }
    Ok(())
}

fn check_level(Level { operators, unions, .. }: &Level, token: &TokenWithSpan) -> Result<(), Diagnostic> {
    let (text, advice) = if operators.length > MAX_CHAIN {
        (format!("an expression has more than {MAX_CHAIN} operators"), "split it, or use IN (…) instead of many ORs")
    } else if operators.depth() > MAX_CHAIN {
        let text = format!("more than {MAX_CHAIN} operators are within each other, with those in brackets");
        (text, "compute a part of it as a column of a query of WITH, or use IN (…) instead of many ORs")
    } else if unions.depth() > MAX_CHAIN {
        let text = format!("more than {MAX_CHAIN} queries are united, with those in brackets");
        (text, "unite some of them in a view, or in a query of WITH")
    } else {
        return Ok(());
    };
    Err(error_at(code::SYNTAX, token.span, text).advise(advice))
}
