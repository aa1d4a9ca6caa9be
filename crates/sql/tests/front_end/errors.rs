//! What a user reads when a statement is wrong.

use expect_test::{Expect, expect};
use millstream_sql::{parse_script, render};
use millstream_types::code;

fn check(sql: &str, expected: Expect) {
    let diagnostic = parse_script(sql).map(|s| panic!("{sql}: {s:?}")).unwrap_err();
    expected.assert_eq(&render(&diagnostic, Some(sql), "query.sql"));
}

#[test]
fn missing_comma_between_columns() {
    check(
        "CREATE TABLE t (\n  a INT\n  b STRING\n)",
        expect![[r#"
        error[MS2001]: expected ',' or ')', found b
          --> query.sql:3:3
           |
         3 |   b STRING
           |   ^
           = help: is a comma missing before b?
    "#]],
    );
}

#[test]
fn comma_before_from() {
    check(
        "SELECT a,\n  b,\nFROM t;",
        expect![[r#"
        error[MS2001]: expected an expression, found FROM
          --> query.sql:3:1
           |
         3 | FROM t;
           | ^^^^
           = help: remove the comma before FROM
    "#]],
    );
}

#[test]
fn comma_before_the_end_of_the_columns() {
    check(
        "CREATE TABLE t (\n  a INT,\n)",
        expect![[r#"
        error[MS2001]: expected the name of a column, found ')'
          --> query.sql:3:1
           |
         3 | )
           | ^
           = help: remove the comma before ')'
    "#]],
    );
}

#[test]
fn reserved_word_as_a_name() {
    check(
        "CREATE TABLE t (order INT)",
        expect![[r#"
        error[MS2001]: expected the name of a column, found order
          --> query.sql:1:17
           |
         1 | CREATE TABLE t (order INT)
           |                 ^^^^^
           = help: ORDER is a reserved word; write `order` in backticks if it is a name
    "#]],
    );
    check(
        "SELECT group FROM t",
        expect![[r#"
            error[MS2001]: expected an expression, found group
              --> query.sql:1:8
               |
             1 | SELECT group FROM t
               |        ^^^^^
               = help: GROUP is a reserved word; write `group` in backticks if it is a name
        "#]],
    );
}

#[test]
fn missing_semicolon() {
    check(
        "SELECT 1\nCREATE TABLE t (a INT);",
        expect![[r#"
        error[MS2001]: expected the end of the statement, found CREATE
          --> query.sql:2:1
           |
         2 | CREATE TABLE t (a INT);
           | ^^^^^^
           = help: is a semicolon missing before CREATE?
    "#]],
    );
    check(
        "CREATE TABLE t (a INT)\nINSERT INTO t SELECT 1;",
        expect![[r#"
        error[MS2001]: expected the end of the statement, found INSERT
          --> query.sql:2:1
           |
         2 | INSERT INTO t SELECT 1;
           | ^^^^^^
           = help: is a semicolon missing before INSERT?
    "#]],
    );
}

#[test]
fn double_quotes() {
    check(
        "SELECT a\nFROM t WHERE b = \"x\"",
        expect![[r#"
            error[MS2001]: double quotes are not used in Flink SQL
              --> query.sql:2:18
               |
             2 | FROM t WHERE b = "x"
               |                  ^^^
               = help: write 'x' for a text, `x` for a name
        "#]],
    );
}

#[test]
fn misspelt_words() {
    check(
        "SELCT 1",
        expect![[r#"
        error[MS2001]: expected a statement (SELECT, INSERT, CREATE, …), found SELCT
          --> query.sql:1:1
           |
         1 | SELCT 1
           | ^^^^^
           = help: did you mean SELECT?
    "#]],
    );
    check(
        "SELECT a FORM t",
        expect![[r#"
            error[MS2001]: unexpected word FORM
              --> query.sql:1:10
               |
             1 | SELECT a FORM t
               |          ^^^^
               = help: did you mean FROM instead of FORM?
        "#]],
    );
    check(
        "SELECT a FROM t WERE a > 1",
        expect![[r#"
            error[MS2001]: unexpected word WERE
              --> query.sql:1:17
               |
             1 | SELECT a FROM t WERE a > 1
               |                 ^^^^
               = help: did you mean WHERE instead of WERE?
        "#]],
    );
    check(
        "SELECT a FROM t GRUOP BY a",
        expect![[r#"
            error[MS2001]: unexpected word GRUOP
              --> query.sql:1:17
               |
             1 | SELECT a FROM t GRUOP BY a
               |                 ^^^^^
               = help: did you mean GROUP instead of GRUOP?
        "#]],
    );
    check(
        "CREATE TABLE t (a TIMESTMP(3))",
        expect![[r#"
        error[MS2001]: unknown data type TIMESTMP
          --> query.sql:1:19
           |
         1 | CREATE TABLE t (a TIMESTMP(3))
           |                   ^^^^^^^^
           = help: did you mean TIMESTAMP?
    "#]],
    );
    check(
        "CREATE TABLE t (a TEXT)",
        expect![[r#"
            error[MS2001]: unknown data type TEXT
              --> query.sql:1:19
               |
             1 | CREATE TABLE t (a TEXT)
               |                   ^^^^
               = help: write STRING
        "#]],
    );
}

#[test]
fn unfinished_statements() {
    check(
        "SELECT (1 + 2",
        expect![[r#"
            error[MS2001]: expected ')', found the end of the statement
              --> query.sql:1:14
               |
             1 | SELECT (1 + 2
               |              ^
               = help: a closing parenthesis is missing: the '(' in line 1, column 8 is open
        "#]],
    );
    check(
        "SELECT 'abc\nFROM t",
        expect![[r#"
            error[MS2001]: the string is not closed
              --> query.sql:1:8
               |
             1 | SELECT 'abc
               |        ^
               = help: end it with a single quote; write '' for a quote within
        "#]],
    );
    check(
        "CREATE TABLE t (a INT) WITH ('a' = 'b'",
        expect![[r#"
            error[MS2001]: expected ',' or ')', found the end of the statement
              --> query.sql:1:39
               |
             1 | CREATE TABLE t (a INT) WITH ('a' = 'b'
               |                                       ^
               = help: a closing parenthesis is missing: the '(' in line 1, column 29 is open
        "#]],
    );
    check(
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO a SELECT 1;",
        expect![[r#"
            error[MS2001]: expected INSERT INTO or END, found the end of the statement
              --> query.sql:2:24
               |
             2 | INSERT INTO a SELECT 1;
               |                        ^
               = help: write END; behind the last INSERT
        "#]],
    );
    check(
        "SELECT",
        expect![[r#"
            error[MS2001]: expected an expression, found the end of the statement
              --> query.sql:1:7
               |
             1 | SELECT
               |       ^
               = help: write an expression behind SELECT; or is a semicolon in the wrong place?
        "#]],
    );
    check(
        "SELECT * FROM",
        expect![[r#"
            error[MS2001]: expected a name, found the end of the statement
              --> query.sql:1:14
               |
             1 | SELECT * FROM
               |              ^
               = help: write a name behind FROM; or is a semicolon in the wrong place?
        "#]],
    );
}

#[test]
fn features_that_are_not_there() {
    for (sql, what) in [
        ("CREATE FUNCTION f AS 'x.Y'", "CREATE FUNCTION … AS 'class' is not supported yet"),
        (
            "CREATE FUNCTION f(x INT) RETURNS INT LANGUAGE PYTHON RETURN 1",
            "a language other than SQL is not supported yet",
        ),
        ("ALTER TABLE t RENAME TO u", "ALTER TABLE is not supported yet"),
        ("USE CATALOG c", "USE is not supported yet"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY (a)", "DISTRIBUTED BY is not supported yet"),
        ("CREATE TABLE IF NOT EXISTS t AS SELECT 1", "IF NOT EXISTS together with AS SELECT is not supported yet"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE OR REPLACE is not supported yet"),
        ("CREATE TABLE t (a MULTISET<INT>)", "the data type MULTISET is not supported"),
        ("CREATE TABLE t (a TIMESTAMP WITH TIME ZONE)", "TIMESTAMP WITH TIME ZONE is not supported"),
        ("SHOW CATALOGS", "SHOW CATALOGS is not supported yet"),
        ("EXPLAIN ESTIMATED_COST SELECT 1", "EXPLAIN ESTIMATED_COST is not supported yet"),
    ] {
        let diagnostic = parse_script(sql).unwrap_err();
        assert_eq!((diagnostic.code, diagnostic.message.as_str()), (code::UNSUPPORTED, what), "{sql}");
        assert!(diagnostic.place.is_some(), "{sql}");
    }
}

#[test]
fn wrong_definitions() {
    check(
        "CREATE TABLE t (a INT, PRIMARY KEY (a))",
        expect![[r#"
            error[MS2010]: a PRIMARY KEY must be NOT ENFORCED: keys are not checked
              --> query.sql:1:24
               |
             1 | CREATE TABLE t (a INT, PRIMARY KEY (a))
               |                        ^^^^^^^
               = help: write PRIMARY KEY (a) NOT ENFORCED
        "#]],
    );
    check(
        "CREATE TABLE t (a INT) WITH ('k' = '1',\n 'k' = '2')",
        expect![[r#"
        error[MS2010]: option 'k' is given twice
          --> query.sql:2:2
           |
         2 |  'k' = '2')
           |  ^^^
           = help: remove one of them
    "#]],
    );
    check(
        "CREATE TABLE t (a DECIMAL(39, 2))",
        expect![[r#"
            error[MS2001]: expected a precision from 1 to 38, found 39
              --> query.sql:1:27
               |
             1 | CREATE TABLE t (a DECIMAL(39, 2))
               |                           ^^
               = help: write a precision from 1 to 38 instead of 39
        "#]],
    );
    check(
        "CREATE TABLE t (a ROW<b INT, b INT>)",
        expect![[r#"
            error[MS2001]: field 'b' occurs twice in a ROW type
              --> query.sql:1:30
               |
             1 | CREATE TABLE t (a ROW<b INT, b INT>)
               |                              ^
               = help: give one of them another name, such as b_2
        "#]],
    );
    check(
        "CREATE TABLE t (a INT) WITH (connector = 'x')",
        expect![[r#"
            error[MS2001]: expected an option as 'key' = 'value', found connector
              --> query.sql:1:30
               |
             1 | CREATE TABLE t (a INT) WITH (connector = 'x')
               |                              ^^^^^^^^^
               = help: write keys and values in single quotes: 'connector' = 'x'
        "#]],
    );
}

#[test]
fn places_are_those_of_the_whole_script() {
    check(
        "SELECT 1;\n\n-- comment\n  SELECT a b c;\n",
        expect![[r#"
        error[MS2001]: expected the end of the statement, found c
          --> query.sql:4:14
           |
         4 |   SELECT a b c;
           |              ^
           = help: is a comma missing before c?
    "#]],
    );
    check(
        "CREATE TABLE t (\n  a AS b +,\n  c INT);",
        expect![[r#"
            error[MS2001]: expected an expression, found ','
              --> query.sql:2:11
               |
             2 |   a AS b +,
               |           ^
               = help: write a value, a column or a call before ','
        "#]],
    );
}
