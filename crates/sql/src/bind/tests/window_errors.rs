//! What is wrong with a window, and where.

use super::errors::check;

#[test]
fn operands() {
    check(&[
        (
            "SELECT * FROM CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '5' SECOND)",
            "MS2009 1:79+3 the size of CUMULATE must be a multiple of its step",
            "divides the size",
        ),
        (
            "SELECT * FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '-1' SECOND, INTERVAL '5' SECOND)",
            "MS2009 1:53+4 the slide of a window must be positive",
            "INTERVAL",
        ),
        (
            "SELECT * FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.001' SECOND, INTERVAL '1' DAY)",
            "MS2009 1:53+7 each row would lie in 86400000 windows",
            "longer slide",
        ),
        (
            "SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' SECOND)",
            "MS2009 1:77+3 the offset of a window must be shorter than 1000 ms",
            "remainder",
        ),
        (
            "SELECT * FROM SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' YEAR)",
            "MS2009 1:57+3 the gap of a window cannot be counted in months",
            "INTERVAL",
        ),
        (
            "SELECT * FROM SESSION(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' SECOND)",
            "MS2009 1:67+4 SESSION has no operand SIZE",
            "DATA, TIMECOL, GAP",
        ),
        (
            "SELECT * FROM HOP(TABLE t, DESCRIPTOR(ts), SIZE => INTERVAL '1' SECOND)",
            "MS2009 1:15+3 HOP needs the operand SLIDE",
            "HOP(TABLE t",
        ),
        (
            "SELECT * FROM COUNT_TUMBLE(TABLE t, DESCRIPTOR(ts), 0)",
            "MS2009 1:53+1 the size of a count window must be a constant positive number of rows",
            "100",
        ),
        (
            "SELECT * FROM COUNT_HOP(TABLE t, DESCRIPTOR(ts), -1, 10)",
            "MS2009 1:51+1 the slide of a count window must be a constant positive number of rows",
            "100",
        ),
        (
            "SELECT * FROM COUNT_HOP(TABLE t, DESCRIPTOR(i), 1, 10)",
            "MS2009 1:34+12 column `i` is not a time attribute",
            "use `ts`",
        ),
        (
            "SELECT * FROM TUMBLE(TABLE t PARTITION BY i, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
            "MS2009 1:43+1 PARTITION BY changes nothing in TUMBLE",
            "GROUP BY",
        ),
        (
            "SELECT * FROM TUMBLE((SELECT * FROM t) PARTITION BY i, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
            "MS2009 1:53+1 PARTITION BY changes nothing in TUMBLE",
            "GROUP BY",
        ),
        (
            "SELECT * FROM SESSION(TABLE t PARTITION BY i + 1, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
            "MS2009 1:44+5 PARTITION BY of a window takes columns of simple types",
            "view",
        ),
    ]);
}

#[test]
fn windows_of_group_by() {
    check(&[
        (
            "SELECT COUNT(*) FROM t GROUP BY HOP(ts, INTERVAL '1' SECOND)",
            "MS2009 1:33+3 HOP in GROUP BY takes a time and a slide and a size",
            "HOP(ts",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY CUMULATE(ts, INTERVAL '1' SECOND, INTERVAL '2' SECOND)",
            "MS2009 1:33+8 CUMULATE cannot stand in GROUP BY",
            "FROM TABLE(CUMULATE(",
        ),
        (
            "SELECT HOP_START(ts, INTERVAL '1' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "MS2009 1:8+9 HOP_START must have the arguments of GROUP BY's TUMBLE",
            "repeat",
        ),
        (
            "SELECT TUMBLE_PROCTIME(ts, INTERVAL '1' SECOND) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "MS2009 1:8+15 the windows of GROUP BY are of event time",
            "TUMBLE_ROWTIME",
        ),
        (
            "SELECT 1 FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY), SESSION(ts, INTERVAL '2' DAY)",
            "MS2009 1:56+24 GROUP BY has more than one window",
            "keep one",
        ),
        ("SELECT SESSION_START(ts) FROM t", "MS2009 1:8+13 SESSION_START needs a GROUP BY with the same SESSION", ""),
        ("SELECT CUMULATE_END(ts) FROM t", "MS2005 1:8+12 there is no CUMULATE_END", "window_end"),
        ("SELECT HOP(ts) FROM t", "MS2009 1:8+3 HOP stands in FROM TABLE(…) or in GROUP BY", "HOP_START"),
        ("SELECT COUNT_HOP(ts) FROM t", "MS2009 1:8+9 COUNT_HOP stands in FROM TABLE(…)", "10, 100"),
    ]);
}

#[test]
fn groups_of_count_windows() {
    check(&[
        (
            "SELECT COUNT(*) FROM COUNT_TUMBLE(TABLE t PARTITION BY i, DESCRIPTOR(ts), 5) GROUP BY window_start, window_end",
            "MS2009 1:87+12 rows of a count window must be grouped by all columns",
            "PARTITION BY",
        ),
        (
            "SELECT COUNT(*) FROM COUNT_TUMBLE(TABLE t, DESCRIPTOR(ts), 5) GROUP BY window_start, window_end, i",
            "MS2009 1:98+1 rows of a count window can only be grouped by what it is partitioned by",
            "PARTITION BY",
        ),
        (
            "SELECT COUNT(*) FROM COUNT_TUMBLE(TABLE t, DESCRIPTOR(ts), 5) WHERE i > 1 GROUP BY window_start, window_end",
            "MS2007 1:84",
            "FILTER",
        ),
        (
            "SELECT * FROM TUMBLE((SELECT window_time FROM COUNT_TUMBLE(TABLE t, DESCRIPTOR(ts), 5)), \
             DESCRIPTOR(window_time), INTERVAL '1' DAY)",
            "MS2009 1:90+22 column `window_time` is not a time attribute",
            "",
        ),
    ]);
}

#[test]
fn grouping_sets() {
    let from = "FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";
    let with = |head: &str, tail: &str| format!("{head} {from} {tail}");
    check(&[
        (
            &with("SELECT l", "GROUP BY window_start, window_end, ROLLUP (i)"),
            "MS2012 1:8+1 column `l` is neither",
            "GROUP BY",
        ),
        (
            &with("SELECT GROUPING(l)", "GROUP BY window_start, window_end, ROLLUP (i)"),
            "MS2012 1:88",
            "repeat the keys",
        ),
        (
            &with("SELECT 1", "GROUP BY window_start, window_end, CUBE (i, l, s, d, f, si, ti, b, v, c)"),
            "MS2007 1:110",
            "fewer columns",
        ),
    ]);
}
