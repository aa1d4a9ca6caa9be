//! Clauses that are not there, within a statement that could not be parsed.

use super::{Words, is, text_of};
use crate::placed::error_at;
use millstream_types::{Diagnostic, code};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The words of a clause, what is wrong with it, and what to write instead, given the tokens before it and those from it on.
type Clause = (&'static [&'static str], &'static str, fn(&[TokenWithSpan], Words<'_>) -> String);

const ROWS: &[Clause] = &[
    (&["EMIT", "CHANGES"], "Flink SQL has no EMIT CHANGES", |before, _| {
        format!("leave it out: rows come as soon as they are final: {}", text_of(before))
    }),
    (&["EMIT", "FINAL"], "Flink SQL has no EMIT FINAL", |before, _| {
        format!("leave it out: rows come as soon as they are final: {}", text_of(before))
    }),
    (&["EMIT", "ON", "WINDOW", "CLOSE"], "Flink SQL has no EMIT ON WINDOW CLOSE", |before, _| {
        format!("leave it out: the rows of a window come when it is complete: {}", text_of(before))
    }),
    (&["EMIT"], "Flink SQL has no EMIT", |before, _| {
        format!("leave it out: rows come as soon as they are final: {}", text_of(before))
    }),
    (&["WINDOW", "TUMBLING"], "Flink SQL has no WINDOW TUMBLING (…)", |before, window| {
        windowed("TUMBLE", before, window)
    }),
    (&["WINDOW", "HOPPING"], "Flink SQL has no WINDOW HOPPING (…)", |before, window| windowed("HOP", before, window)),
    (&["WINDOW", "SESSION"], "Flink SQL has no WINDOW SESSION (…)", |before, window| {
        windowed("SESSION", before, window)
    }),
    (&["ON", "CONFLICT"], "Flink SQL has no ON CONFLICT", |before, _| {
        format!("leave it out: INSERT INTO adds rows, and does not change those that are there: {}", text_of(before))
    }),
    (&["ON", "DUPLICATE", "KEY"], "Flink SQL has no ON DUPLICATE KEY", |before, _| {
        format!("leave it out: INSERT INTO adds rows, and does not change those that are there: {}", text_of(before))
    }),
    (&["RETURNING"], "INSERT returns no rows", |before, _| {
        format!("leave RETURNING out, and SELECT what you want to see: {}", text_of(before))
    }),
    (&["ASOF", "JOIN"], "Flink SQL has no ASOF JOIN", |_, _| {
        "write a JOIN b FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k, where b has PRIMARY KEY (k) NOT ENFORCED and a watermark".into()
    }),
    (&["FORMAT", "PLAIN"], "Flink SQL has no FORMAT … ENCODE …", |_, _| {
        "write 'format' = 'json' into WITH (…)".into()
    }),
    (&["ENGINE"], "Flink SQL has no ENGINE", |_, _| {
        "write where the rows are: WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'json')".into()
    }),
    (&["STORED", "AS"], "Flink SQL has no STORED AS", |_, _| {
        "write where the rows are: WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'parquet')".into()
    }),
    (&["USING", "PARQUET"], "Flink SQL has no USING", |_, _| {
        "write where the rows are: WITH ('connector' = 'filesystem', 'path' = '…', 'format' = 'parquet')".into()
    }),
    (&["FOR", "UPDATE"], "Flink SQL has no FOR UPDATE", |before, _| {
        format!("leave it out: there are no locks: {}", text_of(before))
    }),
    (&["START", "WITH"], "Flink SQL has no START WITH … CONNECT BY", |_, _| {
        "join the table with itself once for each level".into()
    }),
    (&["SETTINGS"], "Flink SQL has no SETTINGS", |_, _| "write SET 'key' = 'value'; before the query".into()),
];

/// `FROM t WINDOW TUMBLING (SIZE 1 MINUTE)`, as a window table function over the table before the clause.
fn windowed(function: &str, before: &[TokenWithSpan], window: Words<'_>) -> String {
    let whole = Words { tokens: before, matched: 0 };
    let table = whole.between("FROM", &["WHERE", "WITHIN"]).unwrap_or_else(|| "t".into());
    let inside = window.parenthesized("SIZE 1 MINUTE");
    // Of `SIZE 30 SECONDS, ADVANCE BY 10 SECONDS`, or `30 SECONDS`: a number, and the unit behind it.
    let mut intervals = vec![];
    let words: Vec<&str> = inside.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    for pair in words.windows(2) {
        if pair[0].chars().all(|c| c.is_ascii_digit()) {
            intervals.push(format!("INTERVAL '{}' {}", pair[0], pair[1].to_uppercase().trim_end_matches('S')));
        }
    }
    intervals.truncate(if function == "HOP" { 2 } else { 1 });
    // The slide comes first.
    intervals.reverse();
    let key = window.between("BY", &["EMIT", "HAVING"]).map_or_else(String::new, |keys| format!("{keys}, "));
    format!(
        "write FROM {function}(TABLE {table}, DESCRIPTOR(ts), {}) … GROUP BY {key}window_start, window_end, where ts is the column with the watermark",
        intervals.join(", ")
    )
}

/// What to write instead of a clause that the parser knows, but that is not there.
pub(crate) fn known_clause_failure(tokens: &[TokenWithSpan]) -> Option<Diagnostic> {
    for (at, token) in tokens.iter().enumerate() {
        let words = |words| Words::start(&tokens[at..], words);
        let next = tokens.get(at + 1).map(|t| &t.token);
        if is(token, "TOP")
            && at > 0
            && is(&tokens[at - 1], "SELECT")
            && let Some(Token::Number(count, _)) = next
        {
            let advice = format!("write SELECT {} LIMIT {count}", text_of(&tokens[at + 2..]));
            return Some(error_at(code::SYNTAX, token.span, "Flink SQL has no SELECT TOP").advise(advice));
        }
        if let Some(clause) = words(&["DISTINCT", "ON"]) {
            let (keys, query) = (clause.parenthesized("k"), Words { tokens, matched: 0 });
            let from = query.between("FROM", &["ORDER", "LIMIT"]).unwrap_or_else(|| "t".into());
            let order = query.between("ORDER", &["LIMIT"]).unwrap_or_else(|| "BY x".into());
            let order = order.trim_start_matches("BY ").trim_start_matches(&keys).trim_start_matches([',', ' ']);
            let advice = format!(
                "take the first row of each key: SELECT * FROM {from} QUALIFY ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) = 1"
            );
            return Some(error_at(code::SYNTAX, clause.span(), "Flink SQL has no DISTINCT ON").advise(advice));
        }
        if is(token, "MATCH_RECOGNIZE") && next == Some(&Token::LParen) && at > 0 {
            let clause = Words { tokens: &tokens[at..], matched: 1 };
            let table = tokens[at - 1].token.to_string();
            let by = |word, until: &[&str]| {
                clause.between(word, until).map(|text| text.trim_start_matches("BY ").to_owned())
            };
            let key = by("PARTITION", &["ORDER", "MEASURES", "PATTERN"]).unwrap_or_else(|| "k".into());
            let time = by("ORDER", &["MEASURES", "ONE", "ALL", "AFTER", "PATTERN"]).unwrap_or_else(|| "ts".into());
            let advice = format!(
                "for one event behind another, join the table with itself: FROM {table} AS a JOIN {table} AS b ON a.{key} = b.{key} AND \
                 b.{time} BETWEEN a.{time} AND a.{time} + INTERVAL '10' MINUTE; for a row and the one before it, LAG(x) OVER (PARTITION \
                 BY {key} ORDER BY {time})"
            );
            return Some(
                error_at(code::UNSUPPORTED, token.span, "MATCH_RECOGNIZE is not supported yet").advise(advice),
            );
        }
        if let Some(clause) = words(&["LATERAL", "VIEW"]) {
            let list = clause.parenthesized("list");
            let element = clause.between("AS", &[]).unwrap_or_else(|| "element".into());
            let advice = format!("write CROSS JOIN UNNEST({list}) AS u ({element})");
            return Some(error_at(code::SYNTAX, clause.span(), "Flink SQL has no LATERAL VIEW").advise(advice));
        }
    }
    None
}

/// What to write instead of a clause that is not there, if one stands at `found`, where the parser stopped, or right before it.
pub(crate) fn clause_failure(tokens: &[TokenWithSpan], found: Option<usize>) -> Option<Diagnostic> {
    let found = found.unwrap_or(tokens.len());
    let near = found.saturating_sub(3)..(found + 1).min(tokens.len());
    for at in near {
        for (words, message, cure) in ROWS {
            if let Some(clause) = Words::start(&tokens[at..], words)
                && at > 0
                && at + words.len() >= found
            {
                return Some(error_at(code::SYNTAX, clause.span(), *message).advise(cure(&tokens[..at], clause)));
            }
        }
    }
    let token = tokens.get(found)?;
    let before = &tokens[..found];
    if is(token, "WITHIN") || found > 0 && is(&tokens[found - 1], "WITHIN") {
        let at = if is(token, "WITHIN") { found } else { found - 1 };
        let word = |at: usize| tokens.get(at).map(|t| t.token.to_string().to_uppercase()).unwrap_or_default();
        let (number, unit) = (word(at + 1), word(at + 2));
        let unit = unit.trim_end_matches('S');
        let is_known = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
        let interval = match is_known && ["SECOND", "MINUTE", "HOUR", "DAY"].contains(&unit) {
            true => format!("INTERVAL '{number}' {unit}"),
            false => "INTERVAL '5' MINUTE".into(),
        };
        let whole = Words { tokens: &tokens[..at], matched: 0 };
        let tables = whole.between("FROM", &["WHERE"]).unwrap_or_else(|| "t".into());
        let advice = if tables.contains(',') || tokens[..at].iter().any(|token| is(token, "JOIN")) {
            format!(
                "bound the times in the condition of the join: ON a.k = b.k AND b.ts BETWEEN a.ts - {interval} AND a.ts + {interval}"
            )
        } else {
            let table = tables.split_whitespace().next().unwrap_or("t");
            format!(
                "name the window in FROM, and group by it as well: FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), {interval})) GROUP BY \
                 window_start, window_end, …"
            )
        };
        return Some(error_at(code::SYNTAX, tokens[at].span, "Flink SQL has no WITHIN").advise(advice));
    }
    if token.token == Token::Comma && found >= 2 && is(&tokens[found - 2], "LIMIT") {
        let count = tokens.get(found + 1).map(|t| t.token.to_string()).unwrap_or_else(|| "10".into());
        let advice = format!("write LIMIT {count} OFFSET {}", tokens[found - 1].token);
        return Some(error_at(code::SYNTAX, token.span, "LIMIT takes one number").advise(advice));
    }
    let plus = |nth: usize| tokens.get(found + nth).map(|t| &t.token);
    if plus(0) == Some(&Token::LParen) && plus(1) == Some(&Token::Plus) && plus(2) == Some(&Token::RParen) {
        let span = token.span.union(&tokens[found + 2].span);
        let advice = "write an outer join: FROM a LEFT JOIN b ON a.k = b.k";
        return Some(error_at(code::SYNTAX, span, "Flink SQL has no outer join by (+)").advise(advice));
    }
    if token.token == Token::DuckIntDiv
        || token.token == Token::Div && before.last().is_some_and(|t| t.token == Token::Div)
    {
        let advice = "write a / b: the quotient of integers is an integer";
        return Some(error_at(code::SYNTAX, token.span, "Flink SQL has no operator `//`").advise(advice));
    }
    None
}

/// Constraints of columns that are not there, and what to do without.
const ELEMENTS: &[(&[&str], &str)] = &[
    (&["AUTO_INCREMENT"], "leave it out, and have the rows bring their numbers"),
    (&["AUTOINCREMENT"], "leave it out, and have the rows bring their numbers"),
    (&["IDENTITY"], "leave it out, and have the rows bring their numbers"),
    (&["GENERATED"], "write a computed column: name AS expression"),
    (&["REFERENCES"], "leave it out: rows are not checked"),
    (&["FOREIGN", "KEY"], "leave it out: rows are not checked"),
    (&["CHECK"], "leave it out, and filter with WHERE"),
    (&["INDEX"], "leave it out: joins and aggregations find rows by their keys without an index"),
    (&["COLLATE"], "leave it out: text is compared by its code points"),
    (&["ENCODE"], "leave it out"),
];

/// A constraint that is not there, in the definition of a table, if one stands at `found`, where the parser stopped.
pub(crate) fn element_failure(tokens: &[TokenWithSpan], found: Option<usize>) -> Option<Diagnostic> {
    Words::start(tokens, &["CREATE"])?;
    let found = found?;
    for at in found.saturating_sub(1)..(found + 1).min(tokens.len()) {
        for (words, advice) in ELEMENTS {
            if let Some(element) = Words::start(&tokens[at..], words) {
                let message = format!("{} is not supported yet", words.join(" "));
                return Some(error_at(code::UNSUPPORTED, element.span(), message).advise(*advice));
            }
        }
    }
    None
}
