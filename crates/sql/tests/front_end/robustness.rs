//! No text makes the front end panic, overflow the stack or take long.

use crate::{NEXMARK, NEXMARK_FLAT};
use millstream_sql::{
    BindSettings, Catalog, Statement, is_complete, parse_script, parse_statement, render, substitute_variables,
};
use millstream_types::Diagnostic;

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

/// The middle within `depth` levels, each of which is `before`, the level within, and `after`.
fn nested(depth: usize, before: &str, middle: &str, after: &str) -> String {
    format!("{}{middle}{}", before.repeat(depth), after.repeat(depth))
}

/// Binds a text in a thread with the smallest stack that one of the engine has.
fn bound_in_a_small_thread(text: String) -> Result<(), String> {
    let bind = move || {
        let statement = parse_statement(&text)?;
        let Statement::Query(query) = &statement else { panic!("no query") };
        let copy = statement.clone();
        millstream_sql::bind_query(&Catalog::new(), &BindSettings::default(), query)?;
        assert_eq!(millstream_sql::unknown_table(&Catalog::new(), &BindSettings::default(), &copy), None);
        Ok::<_, Diagnostic>(())
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(bind).expect("a thread starts");
    thread.join().expect("the stack is enough").map_err(|error| {
        assert!(error.place.is_some() && error.advice.is_some(), "{error}");
        error.message
    })
}

#[test]
fn depth_is_bounded_over_brackets_together() {
    let operators = |operator: &str, operand: &str, count: usize| format!("{operator}{operand}").repeat(count);
    for (before, operator, operand) in [
        ("(", " + ", "1"),
        ("(", " || ", "'a'"),
        ("(", " IS NOT DISTINCT FROM ", "TRUE"),
        ("ABS(", " * ", "1"),
        ("CASE 1 WHEN ", " + ", "1"),
        ("CAST(", " - ", "1"),
        ("COALESCE(", " + ", "1"),
        ("MAP['a', ", " + ", "1"),
        ("(SELECT * FROM (SELECT ", " + ", "1"),
    ] {
        let after = |count| {
            let chain = operators(operator, operand, count);
            match before {
                "CASE 1 WHEN " => format!("{chain} THEN 1 ELSE 2 END"),
                "CAST(" => format!("{chain} AS BIGINT)"),
                "MAP['a', " => format!("{chain}]['a']"),
                "(SELECT * FROM (SELECT " => format!("{chain}) AS s)"),
                _ => format!("{chain})"),
            }
        };
        let select = |depth, count| format!("SELECT {}", nested(depth, before, operand, &after(count)));
        for (depth, count) in [(40, 300), (12, 240), (4, 320)] {
            let error = bound_in_a_small_thread(select(depth, count)).expect_err("too deep");
            assert!(error.contains("operators are within each other"), "{before} {operator} {depth}: {error}");
        }
        let shallow = bound_in_a_small_thread(select(8, 35));
        assert!(!shallow.is_err_and(|error| error.contains("operators")), "{before}");
    }
    for operator in [" AND ", " OR ", " OVERLAPS ", " REGEXP ", " SIMILAR TO ", " DIV ", " COLLATE ", " MEMBER OF "] {
        let text = format!("SELECT {}", nested(20, "(", "TRUE", &(operators(operator, "TRUE", 400) + ")")));
        let error = bound_in_a_small_thread(text).expect_err("too deep");
        assert!(error.contains("operators are within each other"), "{operator}: {error}");
        let chain = format!("SELECT TRUE{}", operators(operator, "TRUE", 10_000));
        let error = bound_in_a_small_thread(chain).expect_err("too long");
        assert!(error.contains("more than 1000 operators"), "{operator}: {error}");
    }
    let group = format!("SELECT 1{}", " + LISTAGG('a') WITHIN GROUP (ORDER BY 1)".repeat(10_000));
    assert!(bound_in_a_small_thread(group).expect_err("too long").contains("more than 1000 operators"));
}

#[test]
fn deep_queries_are_bounded() {
    let all = " UNION ALL SELECT 1";
    assert_eq!(bound_in_a_small_thread(format!("SELECT 1{}", all.repeat(1_000))), Ok(()));
    assert_eq!(bound_in_a_small_thread(nested(5, "(", "SELECT 1", &format!(") {}", all.repeat(150)))), Ok(()));
    let from = |text: String| format!("SELECT * FROM ({text}) AS t WHERE 1 IN ({text})");
    assert_eq!(bound_in_a_small_thread(from(format!("SELECT 1{}", all.repeat(900)))), Ok(()));
    for text in [
        nested(30, "(", "SELECT 1", &format!("){}", all.repeat(900))),
        from(nested(10, "(", "SELECT 1", &format!("){}", all.repeat(900)))),
        format!("SELECT 1{}", " MINUS SELECT 1".repeat(10_000)),
    ] {
        let error = bound_in_a_small_thread(text).expect_err("too many");
        assert!(error.contains("queries are united"), "{error}");
    }
    let alternating = format!("SELECT 1{}", " UNION ALL SELECT 1 UNION SELECT 1".repeat(400));
    let error = bound_in_a_small_thread(alternating).expect_err("too deep");
    assert!(error.contains("more than 300 joins and set operations"), "{error}");
    for join in [" JOIN (VALUES (1)) AS u(b) ON TRUE", ", (VALUES (1)) AS u(b)"] {
        let text = |depth| nested(depth, "SELECT 1 FROM (", "VALUES (1)", &format!(") AS t(a){}", join.repeat(90)));
        let error = bound_in_a_small_thread(text(20)).expect_err("too deep");
        assert!(error.contains("more than 300 joins") || error.contains("operators are within"), "{error}");
        assert_eq!(bound_in_a_small_thread(text(2)), Ok(()));
    }
}

#[test]
fn operands_that_are_repeated_do_not_multiply_without_end() {
    for (before, after) in [
        ("(", " BETWEEN TRUE AND FALSE)"),
        ("(", " IS DISTINCT FROM a)"),
        ("NULLIF(", ", a)"),
        ("COALESCE(", ", a)"),
        ("CASE ", " WHEN a THEN FALSE WHEN FALSE THEN a END"),
    ] {
        let text = format!("SELECT {} FROM (VALUES (TRUE), (NULL)) AS t(a)", nested(40, before, "a", after));
        let error = bound_in_a_small_thread(text).expect_err(before);
        assert!(error.contains("more than 200000 operations"), "{before}: {error}");
    }
}
