//! `docs/compatibility.md`: what it says is done is there and has a test, and what it leaves out is not there.

use super::super::is_builtin_function;
use super::tables;
use millstream_types::{Diagnostic, code};
use std::path::Path;

const PAGE: &str = include_str!("../../../../../docs/compatibility.md");

/// A row of a table: its cells.
fn rows(part: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = part.lines().filter(|line| line.starts_with('|') && !line.starts_with("| ---"));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// Whether a name is that of a function, or of syntax, and no call of it is refused as unknown or unsupported.
fn exists(name: &str) -> bool {
    let session = tables();
    let failure = |call: &str| session.bind(&format!("SELECT {call} FROM t")).err();
    let is_there = |e: &Diagnostic| match e.code {
        code::UNSUPPORTED => false,
        // Table functions stand in FROM.
        code::UNKNOWN_FUNCTION => is_builtin_function(name),
        _ => true,
    };
    match failure(&format!("{name}()")) {
        Some(e) if e.message.contains("needs OVER") => {
            failure(&format!("{name}() OVER (ORDER BY ts)")).is_none_or(|e| is_there(&e))
        }
        other => other.is_none_or(|e| is_there(&e)),
    }
}

/// The text of the script that a cell names.
fn script(cell: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(cell.trim_matches('`'));
    assert!(cell.starts_with("`tests/sql/") && cell.ends_with(".slt`"), "{cell}");
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{cell}: {e}"))
}

#[test]
fn functions_are_there_and_tested_or_left_out() {
    let (_, functions) = PAGE.split_once("## Flink's functions").expect("the page has the section");
    let (mut done, mut wrong) = (0, vec![]);
    for row in rows(functions).filter(|row| row[0] != "function") {
        let [name, state, what] = row[..] else { panic!("{row:?}") };
        let name = name.trim_matches('`');
        if exists(name) != (state == "done") {
            wrong.push(name);
        }
        if state == "done" {
            assert!(script(what).to_ascii_uppercase().contains(name), "{what} does not call {name}");
            done += 1;
        } else {
            assert!(state == "left out" && what.len() > 10, "{row:?}");
        }
    }
    assert!(wrong.is_empty(), "the page is wrong about {wrong:?}");
    assert!(done > 200, "{done} functions");
}

#[test]
fn clauses_name_their_tests_or_why_not() {
    let (clauses, _) = PAGE.split_once("## Flink's functions").expect("the page has the section");
    let mut done = 0;
    for row in rows(clauses).filter(|row| row[0] != "clause") {
        let [_, of, state, what] = row[..] else { panic!("{row:?}") };
        assert!(["Flink", "DuckDB", "both"].contains(&of), "{row:?}");
        match state {
            "done" => {
                script(what);
                done += 1;
            }
            _ => assert!(state == "left out" && what.len() > 10, "{row:?}"),
        }
    }
    assert!(done > 20, "{done} clauses");
}
