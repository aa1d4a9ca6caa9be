//! What to do about a statement that could not be parsed, from what the parser expected and what stands around the place.

use crate::dialect::{self, is_reserved, unquoted_word};
use crate::foreign::{kinds, text_of};
use crate::placed::{STATEMENT_WORDS, nearest, shown};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Words that start a clause of a query, which people misspell.
const CLAUSE_WORDS: &[&str] =
    &["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "JOIN", "BETWEEN", "LIKE", "WATERMARK", "WITH"];

/// The clauses of a query in their order.
const CLAUSE_ORDER: [&str; 7] = ["FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT"];

/// What to do, and which token it is about if that is not the one at which the parser stopped.
pub(crate) struct Advice {
    pub text: String,
    pub about: Option<usize>,
}

impl From<String> for Advice {
    fn from(text: String) -> Advice {
        Advice { text, about: None }
    }
}

impl From<&str> for Advice {
    fn from(text: &str) -> Advice {
        Advice::from(text.to_owned())
    }
}

/// What to do about a parser's `message` (`Expected: x, found: y`, or free text), whose token is `tokens[found]`, or the end of the
/// statement.
pub(crate) fn advice(message: &str, tokens: &[TokenWithSpan], found: Option<usize>) -> Advice {
    let expected = message.strip_prefix("Expected: ").and_then(|m| m.rsplit_once(", found: ")).map_or("", |(e, _)| e);
    match found {
        Some(i) => at_token(expected, message, tokens, i),
        None => at_end(expected, tokens),
    }
}

/// The statement stops too early.
fn at_end(expected: &str, tokens: &[TokenWithSpan]) -> Advice {
    if let Some(open) = open_parenthesis(tokens) {
        return format!("a closing parenthesis is missing: {} is open", place_text(&tokens[open])).into();
    }
    let last = tokens.last().map(shown).unwrap_or_default();
    if let Some(text) = of_expected(expected, tokens, tokens.len()) {
        return text.into();
    }
    match expected.trim_end_matches('.') {
        "" => format!("the statement stops too early, behind {last}; is a semicolon in the wrong place?").into(),
        expected => format!("write {} behind {last}; or is a semicolon in the wrong place?", in_words(expected)).into(),
    }
}

fn at_token(expected: &str, message: &str, tokens: &[TokenWithSpan], i: usize) -> Advice {
    let token = &tokens[i];
    let previous = i.checked_sub(1).map(|p| &tokens[p]);
    let word = unquoted_word(token);
    let ends = expected.starts_with("end of statement") || expected == "the end of the statement";
    if let Some(word) = word
        && is_one_of(word, STATEMENT_WORDS)
        && previous.is_some_and(|p| p.span.end.line < token.span.start.line || ends)
        && !(is_word(previous, "ON") || word.eq_ignore_ascii_case("SET"))
    {
        return format!("is a semicolon missing before {word}?").into();
    }
    match &token.token {
        Token::DoubleEq => return "compare with a single =".into(),
        Token::RParen if previous.is_some_and(|p| p.token == Token::Comma) => return "remove the comma before ')'".into(),
        Token::RParen if ends && open_parenthesis(&tokens[..i]).is_none() => {
            return "remove ')': no parenthesis is open here".into();
        }
        Token::LBrace => return "write ROW(1, 'x') for a row, MAP['key', value] for a map, ARRAY[1, 2] for a list".into(),
        Token::Sharp => return "a comment starts with --, or stands between /* and */".into(),
        Token::Period if i == 0 => return "commands with a point are for `sqlite3` and `duckdb`: write SHOW TABLES, DESCRIBE t or SHOW CREATE TABLE t".into(),
        Token::Div if i == 0 => return "a comment starts with --, or stands between /* and */".into(),
        Token::Word(w) if w.quote_style.is_none() && is_reserved(w.keyword) => {
            if previous.is_some_and(|p| p.token == Token::Comma) && w.keyword == Keyword::FROM {
                return "remove the comma before FROM".into();
            }
            if let Some(text) = out_of_order(tokens, i).filter(|_| ends) {
                return text.into();
            }
            let names = expected.contains("name") || expected.contains("identifier");
            let by = tokens.get(i + 1).is_some_and(|next| is_word(Some(next), "BY"));
            let is_clause = by || is_one_of(&w.value, &["FROM", "WHERE", "HAVING"]);
            if names || expected.starts_with("an expression") && !is_clause {
                let text = format!("{} is a reserved word; write `{}` in backticks if it is a name", w.value.to_uppercase(), w.value);
                return text.into();
            }
        }
        _ => {}
    }
    if let Some(text) = of_expected(expected, tokens, i) {
        return text.into();
    }
    let misspelt = |at: usize| {
        let word = unquoted_word(&tokens[at])?;
        let near = nearest(word, CLAUSE_WORDS.iter().copied())?;
        let text = || format!("did you mean {near} instead of {word}?");
        (!near.eq_ignore_ascii_case(word) && word.len() > 3).then(text)
    };
    if let Some(text) = misspelt(i) {
        return text.into();
    }
    if let Some((before, text)) = i.checked_sub(1).and_then(|before| Some((before, misspelt(before)?))) {
        return Advice { text, about: Some(before) };
    }
    let is_operand = |t: &TokenWithSpan| match &t.token {
        Token::Word(w) => w.quote_style.is_some() || !is_reserved(w.keyword),
        other => matches!(other, Token::Number(..) | Token::SingleQuotedString(_)),
    };
    let after_operand = previous.is_some_and(|p| is_operand(p) || p.token == Token::RParen);
    if is_operand(token) && after_operand && (ends || expected.contains("','") || expected.is_empty()) {
        return format!("is a comma missing before {}?", shown(token)).into();
    }
    if ends {
        return format!("the statement is complete before {0}: write ; there, or remove {0}", shown(token)).into();
    }
    if expected.starts_with("an expression") {
        return format!("write a value, a column or a call before {}", shown(token)).into();
    }
    let is_literal = matches!(token.token, Token::Number(..) | Token::SingleQuotedString(_));
    match in_words(expected) {
        wanted if wanted.is_empty() => {
            format!("{message}: leave {} out, or write it as the message says", shown(token)).into()
        }
        wanted if is_literal => format!("write {wanted} instead of {}", shown(token)).into(),
        wanted => format!("write {wanted} before {0}, or instead of {0}", shown(token)).into(),
    }
}

/// What to do where the parser expected one certain thing.
fn of_expected(expected: &str, tokens: &[TokenWithSpan], i: usize) -> Option<String> {
    let token = tokens.get(i);
    let found = token.map(shown).unwrap_or_else(|| "the end".into());
    let previous = i.checked_sub(1).and_then(|p| tokens.get(p));
    let expected = expected.trim_end_matches('.');
    Some(match expected {
        "an option as 'key' = 'value'" => {
            // `properties.bootstrap.servers` is five tokens.
            let end = (i..tokens.len()).find(|&at| tokens[at].token == Token::Eq).unwrap_or(i + 1);
            let value = tokens.get(end + 1).map_or_else(|| "'…'".into(), |t| quoted(&t.token));
            format!("write keys and values in single quotes: '{}' = {value}", text_of(&tokens[i..end]).to_lowercase())
        }
        "the value as a string in single quotes" => format!("write {}", quoted(&token?.token)),
        ")" | "')'" => {
            let open = open_parenthesis(&tokens[..i])?;
            format!("write ')' before {found}: {} is open", place_text(&tokens[open]))
        }
        "END" | "WHEN" | "THEN" if tokens[..i].iter().any(|t| is_word(Some(t), "CASE")) => {
            format!("write {expected} before {found}: CASE WHEN condition THEN value ELSE other END")
        }
        "AND" => {
            let (low, high) = (previous.map(shown)?, tokens.get(i + 1).map(shown)?);
            format!("write BETWEEN {low} AND {high}")
        }
        "INTO" if i == 1 => format!("write INSERT INTO {found}"),
        "SELECT or VALUES" => {
            format!("write INSERT INTO {} SELECT … or VALUES (…)", tokens.get(2).map(shown).unwrap_or_default())
        }
        "INSERT INTO or END" => match token {
            Some(_) => format!("a statement set has INSERTs only: remove {found}, or end the set before it with END;"),
            None => "write END; behind the last INSERT".into(),
        },
        "STATEMENT" | "SET" if i <= 2 => {
            "write EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT …; INSERT INTO b SELECT …; END".into()
        }
        "TABLES, VIEWS, FUNCTIONS or CREATE TABLE" => {
            choice(token?, "SHOW", ["TABLES", "VIEWS", "FUNCTIONS", "USER FUNCTIONS", "CREATE TABLE t"].into_iter())
        }
        "TABLE, VIEW or FUNCTION" => {
            let verb = tokens.first().and_then(unquoted_word)?.to_uppercase();
            choice(token?, &verb, ["TABLE", "VIEW", "FUNCTION"].into_iter())
        }
        "a query, INSERT or STATEMENT SET after EXPLAIN" => {
            let start =
                tokens[i..].iter().position(|t| ["SELECT", "INSERT", "VALUES"].iter().any(|w| is_word(Some(t), w)));
            match start {
                Some(start) => format!("write EXPLAIN {}", text_of(&tokens[i + start..])),
                None => "write EXPLAIN SELECT … or EXPLAIN INSERT INTO … SELECT …".into(),
            }
        }
        e if e.starts_with("a statement (") => {
            let verbs =
                "SELECT, INSERT INTO, CREATE TABLE, CREATE VIEW, DROP TABLE, SHOW TABLES, DESCRIBE, EXPLAIN, SET";
            match token.and_then(unquoted_word).and_then(|word| nearest(word, STATEMENT_WORDS.iter().copied())) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("statements start with {verbs} and the like"),
            }
        }
        "joined table" | "a table after JOIN" => {
            "write the table behind JOIN, and its condition: JOIN t ON a.k = t.k".into()
        }
        "AS" if is_word(previous, "WINDOW") || tokens[..i].iter().any(|t| is_word(Some(t), "WINDOW")) => {
            "write WINDOW w AS (PARTITION BY … ORDER BY …)".into()
        }
        _ => return None,
    })
}

/// The nearest of what can stand behind `verb`, else all of it.
fn choice(token: &TokenWithSpan, verb: &str, known: impl Iterator<Item = &'static str> + Clone) -> String {
    let word = unquoted_word(token).unwrap_or_default();
    let listed: Vec<String> = known.clone().map(|what| format!("{verb} {what}")).collect();
    match nearest(word, known.chain(kinds(verb))) {
        Some(near) => format!("did you mean {verb} {near}?"),
        None => format!("write {}", listed.join(", ")),
    }
}

/// What a word must come before, if clauses are in the wrong order.
fn out_of_order(tokens: &[TokenWithSpan], i: usize) -> Option<String> {
    let rank = |word: &str| CLAUSE_ORDER.iter().position(|clause| clause.eq_ignore_ascii_case(word));
    let clause = |position: usize| match CLAUSE_ORDER[position] {
        "GROUP" => "GROUP BY",
        "ORDER" => "ORDER BY",
        other => other,
    };
    let mine = rank(unquoted_word(&tokens[i])?)?;
    let later = tokens[..i].iter().rev().take_while(|t| !is_word(Some(t), "SELECT")).filter_map(unquoted_word);
    let later = later.filter_map(rank).filter(|&other| other > mine).min()?;
    Some(format!("write {} before {}", clause(mine), clause(later)))
}

/// The innermost parenthesis that is still open behind the tokens.
fn open_parenthesis(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut open = vec![];
    for (i, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push(i),
            Token::RParen => {
                open.pop();
            }
            _ => {}
        }
    }
    open.pop()
}

fn place_text(token: &TokenWithSpan) -> String {
    format!("the '(' in line {}, column {}", token.span.start.line, token.span.start.column)
}

/// What the parser expected, as something that can be written.
fn in_words(expected: &str) -> String {
    match expected.trim_end_matches('.') {
        "identifier" => "a name".into(),
        e if e.len() == 1 && !e.chars().all(char::is_alphanumeric) => format!("'{e}'"),
        e => e.to_owned(),
    }
}

fn quoted(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => format!("'{text}'"),
        Token::Word(word) => format!("'{}'", word.value),
        other => format!("'{other}'"),
    }
}

fn is_word(token: Option<&TokenWithSpan>, word: &str) -> bool {
    token.is_some_and(|token| dialect::is_word(token, word))
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}
