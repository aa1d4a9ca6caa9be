//! Aggregate functions: types, nullability, errors.

use super::errors::check;
use super::tables;

const FROM: &str = "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end";

/// The type of each aggregate of the list.
fn types(list: &str) -> String {
    tables().schema(&format!("SELECT {list} {FROM}"))
}

#[test]
fn types_and_nullability() {
    assert_eq!(
        types(
            "STDDEV(nn) AS a, STDDEV_POP(dec) AS b, VARIANCE(f) AS c, VAR_POP(l) AS d, COVAR_POP(nn, l) AS e, CORR(d, f) AS g"
        ),
        "a DOUBLE, b DOUBLE, c DOUBLE, d DOUBLE, e DOUBLE, g DOUBLE"
    );
    assert_eq!(
        types("EVERY(b) AS a, SOME(nn > 1) AS o, BOOL_AND(nn > 1) AS p, FIRST_VALUE(nn) AS f, LAST_VALUE(s) AS l"),
        "a BOOLEAN, o BOOLEAN NOT NULL, p BOOLEAN NOT NULL, f INT, l STRING"
    );
    assert_eq!(
        types(
            "APPROX_COUNT_DISTINCT(s) AS a, MEDIAN(nn) AS m, PERCENTILE(dec, 0.9) AS p, APPROX_PERCENTILE(l, 1) AS q, MODE(day) AS o"
        ),
        "a BIGINT NOT NULL, m DOUBLE, p DOUBLE, q DOUBLE, o DATE"
    );
    assert_eq!(
        types("COLLECT(nn) AS c, LISTAGG(ns) AS l, LISTAGG(DISTINCT s, ';') AS m, ARRAY_AGG(nn) AS a"),
        "c MAP<INT, INT>, l STRING, m STRING, a ARRAY<INT>"
    );
    assert_eq!(
        types("COUNT(DISTINCT nn) AS a, SUM(DISTINCT nn) AS b, AVG(DISTINCT dec) AS c, MAX(DISTINCT nn) AS d"),
        "a BIGINT NOT NULL, b INT, c DECIMAL(38, 6), d INT NOT NULL"
    );
}

#[test]
fn calls_in_the_plan() {
    let plan = tables().plan(&format!(
        "SELECT COUNT(DISTINCT i) FILTER (WHERE b), MAX(DISTINCT i), STDDEV_SAMP(i) FILTER (WHERE i > 1),
         ARRAY_AGG(i IGNORE NULLS), ARRAY_AGG(i), LISTAGG(s, '|'), PERCENTILE(i, 0.25) {FROM}"
    ));
    for part in [
        "COUNT(DISTINCT i) FILTER (WHERE b)",
        "MAX(i)",
        "STDDEV_SAMP(i) FILTER (WHERE (i > 1))",
        "LISTAGG(s, '|')",
        "PERCENTILE(i, 0.25)",
    ] {
        assert!(plan.contains(part), "{part} in {plan}");
    }
    assert!(plan.contains("ARRAY_AGG(i, IGNORE NULLS)") && plan.contains("ARRAY_AGG(i, RESPECT NULLS)"), "{plan}");
}

#[test]
fn lists_are_put_in_order() {
    assert_eq!(
        types(
            "ARRAY_AGG(nn ORDER BY l DESC, s) AS a, STRING_AGG(ns, ';' ORDER BY nn) AS t, LISTAGG(s) WITHIN GROUP (ORDER BY s) AS w"
        ),
        "a ARRAY<INT>, t STRING, w STRING"
    );
    // Equal arrays are gathered once, and an argument that is its own key is one.
    let plan = tables().plan(&format!(
        "SELECT ARRAY_AGG(i ORDER BY l) AS a, ARRAY_AGG(i ORDER BY l DESC) AS b, ARRAY_AGG(l ORDER BY l) AS c {FROM}"
    ));
    assert_eq!(plan.matches("ARRAY_AGG(").count(), 2, "{plan}");
}

#[test]
fn errors() {
    let with = |call: &str| format!("SELECT {call} {FROM}");
    check(&[
        (&with("STDDEV(s)"), "MS2006 1:15+1 STDDEV_SAMP needs a number, not STRING", "cast"),
        (&with("EVERY(i)"), "MS2006 1:14+1 BOOL_AND needs a BOOLEAN, not INT", "compare"),
        (&with("LISTAGG(i)"), "MS2006 1:16+1 LISTAGG needs a string, not INT", "CAST"),
        (&with("LISTAGG(s, s)"), "MS2006 1:19+1 the separator must be a constant string", "LISTAGG"),
        (&with("PERCENTILE(i, 1.5)"), "MS2006 1:22+3 the fraction must be a constant from 0 to 1", "0.95"),
        (&with("PERCENTILE(i)"), "MS2006 1:8+10 PERCENTILE takes a value and a fraction", "PERCENTILE(x, fraction)"),
        (&with("CORR(i)"), "MS2006 1:8+4 CORR takes two arguments", "CORR(y, x)"),
        (&with("ARRAY_AGG(a)"), "MS2006 1:8+11 ARRAY_AGG cannot be applied to ARRAY", "field"),
        (&with("COUNT(DISTINCT r)"), "MS2006 1:8+16 COUNT cannot be applied to ROW", "field"),
        (&with("COUNT(DISTINCT *)"), "MS2001 1:8+5 COUNT(DISTINCT *) names no column", "name"),
        (&with("MEDIAN(DISTINCT i)"), "MS2007 1:8+6 MEDIAN(DISTINCT …) is not supported yet", "SELECT DISTINCT"),
        (&with("FIRST_VALUE(i RESPECT NULLS)"), "MS2007 1:8+11 RESPECT NULLS of FIRST_VALUE", "ignored"),
        (&with("SUM(i ORDER BY l)"), "MS2007 1:8+3 ORDER BY within SUM is not supported yet", "no difference"),
        (&with("MEDIAN(i) WITHIN GROUP (ORDER BY l)"), "MS2007 1:8+6 ORDER BY within MEDIAN", "no difference"),
        (&with("LAST_VALUE(i ORDER BY l)"), "MS2007 1:8+10 ORDER BY within LAST_VALUE", "ARRAY_AGG"),
        (
            &with("ARRAY_AGG(DISTINCT i ORDER BY l)"),
            "MS2006 1:38+1 distinct values can only be ordered by themselves",
            "DISTINCT",
        ),
        (&with("ARRAY_AGG(i ORDER BY a)"), "MS2006 1:29+1 ORDER BY of ARRAY is not possible", "single fields"),
        ("SELECT MEDIAM(i) FROM t", "MS2005 1:8+6 unknown function `MEDIAM`", "did you mean MEDIAN?"),
    ]);
}
