//! Errors: code, place, message, advice.

use super::tables;

#[track_caller]
pub(super) fn check(cases: &[(&str, &str, &str)]) {
    let session = tables();
    for (sql, error, advice) in cases {
        let found = session.error(sql);
        assert!(found.0.starts_with(error), "{sql}: {}", found.0);
        assert!(found.1.contains(advice), "{sql}: {}", found.1);
    }
}

#[test]
fn names() {
    check(&[
        ("SELECT nnn FROM t", "MS2003 1:8+3 unknown column `nnn`", "did you mean `nn`?"),
        ("SELECT I FROM z", "MS2003 1:8+1 unknown column `I`", "columns: k, ts"),
        ("SELECT\n  z.ks\nFROM z", "MS2003 2:5+2 table `z` has no column `ks`", "`k`"),
        ("SELECT r.xx FROM t", "MS2003 1:10+2 the ROW has no field `xx`", "`x`"),
        ("SELECT i.x FROM t", "MS2003 1:10+1 `x` cannot be a field: the value before it is INT", "ROW"),
        ("SELECT a FROM (SELECT i AS a, l AS a FROM t)", "MS2004 1:8+1 the input has more than one column `a`", "AS"),
        ("SELECT UPER(s) FROM t", "MS2005 1:8+4 unknown function `UPER`", "UPPER"),
        ("SELECT COUTN(*) FROM t", "MS2005 1:8+5 unknown function `COUTN`", "COUNT"),
        ("SELECT z.* FROM t", "MS2003 1:8+1 unknown column `z`", ""),
    ]);
    let (error, _) = tables().error("SELECT 1 FROM tt");
    assert!(error.starts_with("MS2002 1:15+2"), "{error}");
}

#[test]
fn types() {
    check(&[
        ("SELECT s + 1 FROM t", "MS2006 1:8+5 `+` cannot combine STRING and INT", "||"),
        ("SELECT -s FROM t", "MS2006 1:9+1 `-` cannot be applied to STRING", "cast"),
        ("SELECT i FROM t WHERE i", "MS2006 1:23+1 WHERE needs a BOOLEAN, not INT", "i <> 0"),
        ("SELECT i FROM t WHERE b AND i", "MS2006 1:29+1 AND needs a BOOLEAN, not INT", ""),
        ("SELECT b = i FROM t", "MS2006 1:8+5 BOOLEAN and INT cannot be compared", "CAST("),
        ("SELECT r < r FROM t", "MS2006 1:8+5 ROW and ROW cannot be compared this way", "single fields"),
        ("SELECT CAST(r AS INT) FROM t", "MS2006 1:13+1 ROW", ""),
        (
            "SELECT CAST(i AS TIMESTAMP(3)) FROM t",
            "MS2006 1:13+1 INT cannot be cast to TIMESTAMP(3)",
            "TO_TIMESTAMP_LTZ",
        ),
        ("SELECT ts - ts FROM t", "MS2006 1:8+7 TIMESTAMP(3) - TIMESTAMP(3) needs a unit", "TIMESTAMPDIFF"),
        (
            "SELECT CASE WHEN b THEN 1 ELSE 'a' END FROM t",
            "MS2006 1:8+31 the values have types that do not fit together: INT, CHAR(1)",
            "cast",
        ),
        ("SELECT i FROM t UNION ALL SELECT s FROM t", "MS2006 1:1+41 column `i` of UNION is INT and STRING", "cast"),
        (
            "SELECT i FROM t UNION ALL SELECT i, l FROM t",
            "MS2006 1:1+44 query 2 of UNION has 2 columns, the first has 1",
            "",
        ),
        ("SELECT DATE '2021-02-29'", "MS2014 1:13+12 '2021-02-29' is not a date", "DATE '"),
        ("SELECT INTERVAL '1:70' HOUR TO MINUTE", "MS2014 1:17+6 '1:70' does not have the form", "INTERVAL"),
    ]);
}

#[test]
fn grouping() {
    let from = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))";
    let with = |head: &str, tail: &str| format!("{head} {from} {tail}");
    check(&[
        (
            &with("SELECT i, COUNT(*)", "GROUP BY window_start, window_end"),
            "MS2012 1:8+1 column `i` is neither in GROUP BY nor in an aggregate function",
            "add `i` to GROUP BY",
        ),
        (
            &with("SELECT COUNT(*)", "GROUP BY window_start"),
            "MS2009 1:92+12 the groups are not those of a window: both its start and its end are needed",
            "add window_end to GROUP BY",
        ),
        (
            &with("SELECT i, COUNT(*) AS many", "GROUP BY many, window_start, window_end"),
            "MS2012 1:11+5 the aggregate function COUNT cannot stand in GROUP BY",
            "HAVING",
        ),
        (
            "SELECT i FROM t WHERE COUNT(*) > 1",
            "MS2012 1:23+5 the aggregate function COUNT cannot stand in WHERE",
            "HAVING",
        ),
        (
            "SELECT SUM(MAX(i)) FROM t",
            "MS2012 1:12+3 the aggregate function MAX cannot stand in an aggregate function",
            "",
        ),
        ("SELECT SUM(s) FROM t", "MS2006 1:12+1 SUM needs a number, not STRING", "cast"),
        ("SELECT i FROM t GROUP BY 2", "MS2003 1:26+1 GROUP BY 2, but the select list has 1 column", "from 1 to 1"),
        ("SELECT i FROM t GROUP BY 1.5", "MS2003 1:26+3 GROUP BY 1.5, but the select list has 1 column", "from 1 to 1"),
        (
            "SELECT i AS j, l AS j FROM t GROUP BY j",
            "MS2004 1:39+1 SELECT gives the name `j` more than once",
            "different names",
        ),
        (
            "SELECT a, COUNT(*) FROM t GROUP BY ALL",
            "MS2007 1:8+1 GROUP BY a ARRAY is not supported yet",
            "single fields",
        ),
    ]);
}

#[test]
fn windows() {
    check(&[
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(i), INTERVAL '10' SECOND))",
            "MS2009 1:37+12 column `i` is not a time attribute",
            "use `ts`",
        ),
        (
            "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH))",
            "MS2009 1:62+3 the size of a window cannot be counted in months, which differ in length",
            "INTERVAL",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY TUMBLE(ts, INTERVAL '0' SECOND)",
            "MS2009 1:53+3 the size of a window must be positive",
            "INTERVAL",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY TUMBLE(CAST(ts AS TIMESTAMP(2)), INTERVAL '1' SECOND)",
            "MS2009 1:45+2 the expression is not a time attribute",
            "use `ts`",
        ),
        (
            "SELECT TUMBLE_START(ts, INTERVAL '2' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "MS2009 1:8+12 TUMBLE_START must have the arguments of GROUP BY's TUMBLE",
            "repeat",
        ),
    ]);
}

#[test]
fn features_to_come_are_named() {
    check(&[
        ("SELECT i FROM t OFFSET 2", "MS2007 1:24+1 OFFSET of an endless input without LIMIT", "WHERE"),
        ("SELECT * FROM (SELECT i FROM t OFFSET 1)", "MS2007 1:39+1 OFFSET within a subquery or a view", ""),
        ("SELECT STDDEV_POP(DISTINCT i) FROM t", "MS2007 1:8+10 STDDEV_POP(DISTINCT …) is not supported yet", ""),
        ("SELECT CUME_DIST() OVER (ORDER BY ts) FROM t", "MS2007 1:8+9 CUME_DIST … OVER is not supported yet", ""),
        ("SELECT JSON_OBJECTAGG(s) FROM t", "MS2007 1:8+14 the aggregate function JSON_OBJECTAGG is not", ""),
        ("SELECT i IN (SELECT k FROM z) FROM t", "MS2007 1:8+21 IN (subquery) within an expression", "AND"),
        ("SELECT i FROM t EXCEPT SELECT k FROM z", "MS2007 1:1+38 EXCEPT is not supported yet", ""),
    ]);
}

/// Statements at the edges of what can be written: each binds or is refused with a place.
#[test]
fn odd_statements_do_not_panic() {
    let sessions = [tables(), tables().batch()];
    for sql in [
        "SELECT * FROM t GROUP BY i",
        "SELECT t.* FROM t",
        "SELECT COUNT(*) FROM (VALUES (1), (2)) AS v(x)",
        "SELECT SUM(x) FROM (VALUES (1, 2)) AS v(x)",
        "SELECT -(-9223372036854775808), 99999999999999999999999999999999999999",
        "SELECT 999999999999999999999999999999999999999",
        "SELECT INTERVAL '99999999999999999' DAY, INTERVAL '9999999999' YEAR",
        "SELECT INTERVAL '' DAY",
        "SELECT DATE '0000-00-00'",
        "SELECT TIMESTAMP '9999-12-31 23:59:59.999999999'",
        "SELECT X'abc'",
        "SELECT 'a' || 1",
        "SELECT NULL + NULL, NULL = NULL, NULL IN (NULL), NOT NULL, -NULL, NULL IS NULL, CASE WHEN NULL THEN NULL END",
        "SELECT n + 1, n IS NULL FROM (SELECT NULL AS n FROM t)",
        "SELECT n, COUNT(*) FROM (SELECT NULL AS n FROM t) GROUP BY n",
        "SELECT 1 FROM t HAVING COUNT(*) > 1",
        "SELECT HOUR(TUMBLE_START(ts, INTERVAL '1' DAY)) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
        "SELECT 1 FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY), TUMBLE(ts, INTERVAL '2' DAY)",
        "SELECT 1 FROM t GROUP BY ()",
        "SELECT 1 FROM t GROUP BY GROUPING SETS ((i), (l))",
        "SELECT COUNT() FROM t",
        "SELECT COUNT(i, l), SUM(*) FROM t",
        "SELECT SUM(i, l) FROM t",
        "SELECT MAX(r) FROM t",
        "SELECT COUNT(r), COUNT(a) FROM t",
        "SELECT TUMBLE(ts, INTERVAL '1' DAY) FROM t",
        "SELECT * FROM TABLE(TUMBLE(TABLE t))",
        "SELECT * FROM TABLE(TUMBLE(t, ts, 1))",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts, i), INTERVAL '1' DAY))",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), i))",
        "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' MONTH))",
        "SELECT * FROM TABLE(TUMBLE(TABLE nothing, DESCRIPTOR(ts), INTERVAL '1' DAY))",
        "SELECT * FROM TABLE(nothing(1))",
        "SELECT * FROM LATERAL TABLE(nothing(1))",
        "SELECT * FROM (SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) AS x(a, b)",
        "SELECT i FROM t LIMIT 99999999999999999999",
        "SELECT i FROM t LIMIT -1",
        "SELECT i FROM t LIMIT i",
        "SELECT i FROM t FETCH FIRST 3 ROWS ONLY",
        "SELECT i IN (1, 'a', TRUE) FROM t",
        "SELECT r IN (1) FROM t",
        "SELECT r IS NULL, a IS NOT NULL, r IS DISTINCT FROM r FROM t",
        "SELECT CASE WHEN b THEN r END FROM t",
        "SELECT CASE r WHEN 1 THEN 1 END FROM t",
        "SELECT TRY_CAST(r AS STRING), CAST(s AS ROW<a INT>) FROM t",
        "SELECT f(x) FROM t",
        "SELECT f.g(x) FROM t",
        "SELECT UPPER(s => 'a') FROM t",
        "SELECT UPPER(DISTINCT s) FROM t",
        "SELECT UPPER(s) FILTER (WHERE b) FROM t",
        "SELECT IF(1, 2, 3), COALESCE(), NULLIF(1) FROM t",
        "SELECT r.y.z.w FROM t",
        "SELECT r.* , r.y.*, i.* FROM t",
        "SELECT * FROM t UNION SELECT * FROM t",
        "(SELECT i FROM t LIMIT 3)",
        "WITH a AS (SELECT 1) SELECT * FROM a, a",
        "WITH a(x, y) AS (SELECT 1) SELECT * FROM a",
        "VALUES (1, 2), (3)",
        "VALUES (1), ('a')",
        "INSERT INTO nothing SELECT 1",
        "INSERT INTO sink VALUES (1, 'abc', 2.5), (NULL, NULL, NULL)",
        "INSERT INTO sink SELECT NULL, NULL, NULL",
    ] {
        for session in &sessions {
            if session.bind(sql).is_err() {
                let (_, advice) = session.error(sql);
                assert!(!advice.is_empty(), "no advice for {sql}");
            }
        }
    }
}
