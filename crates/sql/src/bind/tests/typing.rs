//! Types and nullability of expressions.

use super::{Session, tables};

/// The type of an expression over table `t`.
fn type_of(session: &Session, expression: &str) -> String {
    let schema = session.schema(&format!("SELECT {expression} AS x FROM t"));
    schema.strip_prefix("x ").expect("the column is named x").to_owned()
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let session = tables();
    for (expression, expected) in cases {
        assert_eq!(type_of(&session, expression), *expected, "{expression}");
    }
}

#[test]
fn literals() {
    check(&[
        ("1", "INT NOT NULL"),
        ("2147483647", "INT NOT NULL"),
        ("2147483648", "BIGINT NOT NULL"),
        ("-2147483648", "INT NOT NULL"),
        ("-9223372036854775808", "BIGINT NOT NULL"),
        ("9223372036854775808", "DECIMAL(19, 0) NOT NULL"),
        ("0.908", "DECIMAL(4, 3) NOT NULL"),
        ("12.5", "DECIMAL(3, 1) NOT NULL"),
        (".5", "DECIMAL(1, 1) NOT NULL"),
        ("1e3", "DOUBLE NOT NULL"),
        ("'abc'", "CHAR(3) NOT NULL"),
        ("''", "CHAR(0) NOT NULL"),
        ("X'0aFF'", "BINARY(2) NOT NULL"),
        ("TRUE", "BOOLEAN NOT NULL"),
        ("DATE '2020-02-29'", "DATE NOT NULL"),
        ("TIME '23:59:59'", "TIME(0) NOT NULL"),
        ("TIMESTAMP '2020-01-01 00:00:00'", "TIMESTAMP(0) NOT NULL"),
        ("TIMESTAMP '2020-01-01 00:00:00.123456'", "TIMESTAMP(6) NOT NULL"),
        ("INTERVAL '10' SECOND", "INTERVAL DAY TO SECOND NOT NULL"),
        ("INTERVAL '1-6' YEAR TO MONTH", "INTERVAL YEAR TO MONTH NOT NULL"),
    ]);
}

#[test]
fn arithmetic() {
    check(&[
        ("i + 1", "INT"),
        ("nn + 1", "INT NOT NULL"),
        ("ti + si", "SMALLINT"),
        ("i * l", "BIGINT"),
        ("i / 2", "INT"),
        ("MOD(l, 123)", "INT"),
        ("l % 123", "INT"),
        ("i + f", "FLOAT"),
        ("l + d", "DOUBLE"),
        ("f * d", "DOUBLE"),
        ("dec + f", "DOUBLE"),
        ("0.908 * l", "DECIMAL(24, 3)"),
        ("0.908 * nn", "DECIMAL(15, 3) NOT NULL"),
        ("dec + 1", "DECIMAL(13, 2)"),
        ("dec * dec", "DECIMAL(21, 4)"),
        ("dec / dec", "DECIMAL(23, 13)"),
        ("dec / 3", "DECIMAL(21, 13)"),
        ("dec % 7", "DECIMAL(10, 2)"),
        // Overlong results give up digits after the point, but not below six.
        ("wide * wide", "DECIMAL(38, 6)"),
        ("wide + 1.5", "DECIMAL(38, 9)"),
        ("-dec", "DECIMAL(10, 2)"),
        ("i + NULL", "INT"),
        ("s || 'x'", "STRING"),
    ]);
}

#[test]
fn times_and_intervals() {
    check(&[
        ("ts + INTERVAL '1' DAY", "TIMESTAMP(3)"),
        ("INTERVAL '1' DAY + ts", "TIMESTAMP(3)"),
        ("ts - INTERVAL '1' MONTH", "TIMESTAMP(3)"),
        ("ltz + INTERVAL '1' HOUR", "TIMESTAMP_LTZ(3)"),
        ("day + INTERVAL '1' DAY", "DATE"),
        ("day + INTERVAL '1' HOUR", "TIMESTAMP(3)"),
        ("clock + INTERVAL '1' HOUR", "TIME(0)"),
        ("INTERVAL '1' DAY + INTERVAL '2' HOUR", "INTERVAL DAY TO SECOND NOT NULL"),
        ("INTERVAL '1' SECOND * i", "INTERVAL DAY TO SECOND"),
        ("2 * INTERVAL '1' SECOND", "INTERVAL DAY TO SECOND NOT NULL"),
    ]);
}

#[test]
fn comparisons_and_logic() {
    check(&[
        ("i = 1", "BOOLEAN"),
        ("nn = 1", "BOOLEAN NOT NULL"),
        ("dec > l", "BOOLEAN"),
        ("ts > '2020-01-01 00:00:00'", "BOOLEAN"),
        ("day < ts", "BOOLEAN"),
        ("s = c", "BOOLEAN"),
        ("s > 5", "BOOLEAN"),
        ("i IS NULL", "BOOLEAN NOT NULL"),
        ("b IS NOT TRUE", "BOOLEAN NOT NULL"),
        ("b IS UNKNOWN", "BOOLEAN NOT NULL"),
        ("i IS DISTINCT FROM l", "BOOLEAN NOT NULL"),
        ("i IN (1, 2, NULL)", "BOOLEAN"),
        ("nn IN (1, 2)", "BOOLEAN NOT NULL"),
        ("nn BETWEEN 1 AND 2 AND ns LIKE 'a%'", "BOOLEAN NOT NULL"),
        ("NOT (b OR nn = 1)", "BOOLEAN"),
    ]);
}

#[test]
fn conditions_and_casts() {
    check(&[
        ("CASE WHEN b THEN 'dayTime' WHEN nn = 1 THEN 'nightTime' ELSE 'x' END", "VARCHAR(9) NOT NULL"),
        ("CASE WHEN b THEN 'abc' ELSE 'xyz' END", "CHAR(3) NOT NULL"),
        ("CASE i WHEN 1 THEN 1 WHEN 2 THEN 2.5 END", "DECIMAL(11, 1)"),
        ("CASE WHEN b THEN nn ELSE l END", "BIGINT"),
        ("CASE WHEN b THEN NULL ELSE s END", "STRING"),
        ("COALESCE(i, l, 0)", "BIGINT NOT NULL"),
        ("COALESCE(i, l)", "BIGINT"),
        ("NULLIF(nn, 0)", "INT"),
        ("IF(b, nn, 0)", "INT NOT NULL"),
        ("CAST(s AS INT)", "INT"),
        ("CAST(ns AS INT)", "INT NOT NULL"),
        ("TRY_CAST(ns AS INT)", "INT"),
        ("CAST(nn AS DECIMAL(5, 2))", "DECIMAL(5, 2)"),
        ("CAST(nn AS DECIMAL(12, 2))", "DECIMAL(12, 2) NOT NULL"),
        ("CAST(ltz AS TIMESTAMP(3))", "TIMESTAMP(3)"),
        ("CAST(NULL AS ROW<a INT>)", "ROW<`a` INT>"),
        ("CAST(ns AS VARCHAR(2))", "VARCHAR(2) NOT NULL"),
    ]);
}

#[test]
fn rows() {
    check(&[
        ("r.x", "INT"),
        ("t.r.x", "INT"),
        ("(t.r).y", "ROW<`z` STRING NOT NULL> NOT NULL"),
        ("r.y.z", "STRING NOT NULL"),
        ("r.t", "INT"),
    ]);
}

#[test]
fn interval_literals() {
    let session = tables();
    for (text, millis) in [
        ("INTERVAL '1' WEEK", 604_800_000),
        ("INTERVAL '2' DAYS", 172_800_000),
        ("INTERVAL '-1.5' SECOND", -1_500),
        ("INTERVAL -'3' MINUTE", -180_000),
        ("INTERVAL '1:30' HOUR TO MINUTE", 5_400_000),
        ("INTERVAL '1 02:03:04.005' DAY TO SECOND", 93_784_005),
        ("INTERVAL '01:02' MINUTE TO SECOND", 62_000),
        ("INTERVAL '1-2' YEAR TO MONTH", 14),
        ("INTERVAL '1' QUARTER", 3),
    ] {
        let plan = session.query(&format!("SELECT {text}"));
        let millstream_plan::logical::Rel::Values { rows, .. } = plan else { panic!("a row of constants") };
        let expected = millstream_plan::expr::ExprKind::Literal(millstream_types::Value::Int(millis));
        assert_eq!(rows[0][0].kind, expected, "{text}");
    }
}

#[test]
fn functions_with_a_syntax_of_their_own() {
    check(&[
        ("SUBSTRING(s FROM 2 FOR 3)", "STRING"),
        ("SUBSTRING(ns, 2)", "STRING NOT NULL"),
        ("TRIM(ns)", "STRING NOT NULL"),
        ("TRIM(LEADING 'x' FROM s)", "STRING"),
        ("TRIM('x' FROM s)", "STRING"),
        ("POSITION('a' IN ns)", "INT NOT NULL"),
        ("OVERLAY(s PLACING 'x' FROM 2 FOR 1)", "STRING"),
        ("EXTRACT(YEAR FROM ts)", "BIGINT"),
        ("FLOOR(ts TO DAY)", "TIMESTAMP(3)"),
        ("CEIL(d)", "DOUBLE"),
        ("TIMESTAMPDIFF(DAY, ts, ltz)", "INT"),
        ("TIMESTAMPADD(HOUR, 1, ts)", "TIMESTAMP(3)"),
        ("ns LIKE 'a!%' ESCAPE '!'", "BOOLEAN NOT NULL"),
        ("ns NOT LIKE 'a%'", "BOOLEAN NOT NULL"),
        ("ns SIMILAR TO 'a|b'", "BOOLEAN NOT NULL"),
        ("CURRENT_DATE", "DATE NOT NULL"),
        ("CURRENT_TIMESTAMP", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("LOCALTIMESTAMP", "TIMESTAMP(3) NOT NULL"),
        ("UPPER(c)", "CHAR(3)"),
    ]);
}

/// Flink's rules for decimals, from the documentation of `LogicalTypeMerging`.
#[test]
fn decimal_results() {
    use crate::bind::coercion::decimal_arithmetic;
    use millstream_plan::expr::ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};
    for (op, left, right, expected, may_overflow) in [
        (Add, (4, 3), (19, 0), "DECIMAL(23, 3)", false),
        (Subtract, (5, 2), (5, 4), "DECIMAL(8, 4)", false),
        (Multiply, (4, 3), (19, 0), "DECIMAL(24, 3)", false),
        (Multiply, (38, 18), (38, 18), "DECIMAL(38, 6)", true),
        (Divide, (5, 2), (3, 1), "DECIMAL(10, 6)", false),
        (Divide, (38, 2), (38, 2), "DECIMAL(38, 6)", true),
        (Modulo, (10, 4), (5, 1), "DECIMAL(8, 4)", false),
        (Add, (38, 0), (38, 38), "DECIMAL(38, 6)", true),
    ] {
        let result = decimal_arithmetic(op, left, right);
        assert_eq!((result.data_type.to_string().as_str(), result.may_overflow), (expected, may_overflow), "{op:?}");
    }
}
