//! No text makes the front end panic, overflow the stack or take long.

use crate::{NEXMARK, NEXMARK_FLAT};
use millstream_sql::{
    BindSettings, Catalog, Statement, is_complete, parse_script, parse_statement, render, substitute_variables,
};

/// A fixed pseudo-random sequence, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Everything that takes a text, on this text.
fn try_all(text: &str) {
    let _ = is_complete(text);
    let _ = substitute_variables(text, &|name| (name.len() > 2).then(|| name.to_owned()));
    if let Err(diagnostic) = parse_script(text) {
        let shown = render(&diagnostic, Some(text), "fuzz");
        assert!(shown.starts_with("error[MS"), "{shown}");
    }
}

const PIECES: &[&str] = &[
    "'",
    "`",
    "\"",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    ">>",
    ",",
    ";",
    ".",
    "--",
    "/*",
    "*/",
    "=>",
    "::",
    "$",
    "${",
    "\\",
    "\0",
    "é",
    "\n",
    "SELECT",
    "FROM",
    "TABLE",
    "CAST(",
    "MAP[",
    "CASE",
    "INTERVAL",
    "ROW<",
    "BEGIN",
    "END",
    "STATEMENT SET",
    "UNION ALL",
    "NOT",
    "AS",
    "DESCRIPTOR(",
    "PARTITION BY",
    "WITH",
    "1e999",
    "99999999999999999999999",
    "X'",
    "U&'",
    "IN (",
    "OVER (",
    "EXISTS (",
];

#[test]
fn mutated_scripts() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let corpus: Vec<&str> = NEXMARK.split(";\n").chain(NEXMARK_FLAT.split(";\n")).collect();
    for _ in 0..3_000 {
        let mut text: Vec<char> = corpus[random.below(corpus.len())].chars().collect();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len() + 1);
            match random.below(4) {
                0 => text.truncate(at),
                1 => {
                    let end = (at + random.below(20)).min(text.len());
                    text.drain(at..end);
                }
                2 => drop(text.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
                _ => {
                    let from = random.below(text.len() + 1);
                    let part: Vec<char> = text[from..].iter().take(30).copied().collect();
                    drop(text.splice(at..at, part));
                }
            }
        }
        try_all(&text.into_iter().collect::<String>());
    }
}

#[test]
fn random_texts() {
    let mut random = Random(7);
    for _ in 0..3_000 {
        let mut text = String::new();
        for _ in 0..random.below(30) {
            match random.below(3) {
                0 => text.push(char::from_u32(random.below(0x300) as u32).unwrap_or('x')),
                _ => {
                    text.push_str(PIECES[random.below(PIECES.len())]);
                    text.push(' ');
                }
            }
        }
        try_all(&text);
    }
}

#[test]
fn deep_and_long_texts() {
    for open in [
        "(",
        "((",
        "CAST(",
        "CASE WHEN ",
        "ARRAY[",
        "MAP[",
        "NOT ",
        "- ",
        "f(",
        "(SELECT ",
        "EXISTS (SELECT ",
        "INTERVAL ",
        "IF(a, ",
    ] {
        try_all(&format!("SELECT {}", open.repeat(3_000)));
        try_all(&format!("SELECT {}1", open.repeat(40)));
    }
    for open in ["(SELECT * FROM ", "(", "TABLE(", "TABLE(f(TABLE t, ", "(t JOIN "] {
        try_all(&format!("SELECT * FROM {}", open.repeat(3_000)));
        try_all(&format!("SELECT * FROM {}", open.repeat(30)));
    }
    for (link, last) in [
        (" + 1", ""),
        (" UNION ALL SELECT 1", ""),
        ("[1]", ""),
        (" AND a", ""),
        ("::INT", ""),
        (".a", ""),
        (" IS NULL", ""),
    ] {
        try_all(&format!("SELECT a{}{last}", link.repeat(20_000)));
    }
    try_all(&format!("CREATE TABLE t (a {}", "ROW<a ".repeat(3_000)));
    try_all(&format!("CREATE TABLE t (a {}", "ARRAY<".repeat(3_000)));
    try_all(&"EXPLAIN ".repeat(10_000));
    try_all(&"EXECUTE ".repeat(10_000));
}

#[test]
fn wide_texts_are_fine() {
    let columns: Vec<String> = (0..5_000).map(|i| format!("a{i} + 1 AS b{i}")).collect();
    assert!(parse_script(&format!("SELECT {} FROM t", columns.join(", "))).is_ok());
    let values: Vec<String> = (0..5_000).map(|i| format!("({i}, 'x')")).collect();
    assert!(parse_script(&format!("INSERT INTO t VALUES {}", values.join(", "))).is_ok());
    let terms = vec!["a = 1"; 400].join(" OR ");
    assert!(parse_script(&format!("SELECT 1 FROM t WHERE {terms}")).is_ok());
}

/// The longest chains and deepest nesting that the parser lets through must not overflow the binder's stack.
#[test]
fn what_is_parsed_can_be_bound() {
    let catalog = Catalog::new();
    for text in [
        format!("1{}", " + 1".repeat(900)),
        format!("1 = 1{}", " AND 1 = 1".repeat(400)),
        format!("{}1{}", "(1 + ".repeat(25), ")".repeat(25)),
        format!("{}1{}", "CASE WHEN 1 = 1 THEN ".repeat(10), " END".repeat(10)),
        format!("1{}", " UNION ALL SELECT 1".repeat(900)),
    ] {
        let statement = parse_statement(&format!("SELECT {text}")).unwrap_or_else(|e| panic!("{e}"));
        let Statement::Query(query) = statement else { panic!("{text}") };
        millstream_sql::bind_query(&catalog, &BindSettings::default(), &query).unwrap_or_else(|e| panic!("{e}"));
    }
}
