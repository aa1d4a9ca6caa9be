//! OVER, and window Top-N.

use super::errors::check;
use super::{Session, TABLES, tables};

const WINDOWED: &str = "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)";

/// The Top-N of `rank` with this condition, as a plan.
fn top(session: &Session, rank: &str, condition: &str) -> String {
    session.plan(&format!(
        "SELECT i, n FROM (SELECT *, {rank}() OVER (PARTITION BY window_start, window_end, i ORDER BY l DESC, s) AS n
         FROM {WINDOWED}) WHERE {condition}"
    ))
}

#[test]
fn top_n_keeps_a_range_of_ranks() {
    let session = tables();
    for (condition, range) in [
        ("n <= 3", "1 to 3"),
        ("n < 3", "1 to 2"),
        ("3 >= n", "1 to 3"),
        ("n = 1", "1 to 1"),
        ("n BETWEEN 2 AND 4", "2 to 4"),
        ("n > 1 AND n <= 5 AND 4 > n", "2 to 3"),
        ("n >= -2 AND n <= 1", "1 to 1"),
    ] {
        let plan = top(&session, "ROW_NUMBER", condition);
        let line = plan.lines().find(|l| l.contains("Rank ")).expect("there is a rank");
        assert!(
            line.contains(&format!("Rank ROW_NUMBER {range} partition=[window_start, window_end, i] order=[l DESC")),
            "{line}"
        );
        assert!(!plan.contains("Filter"), "{plan}");
    }
    let plan = top(&session, "DENSE_RANK", "n <= 2 AND i > 1 AND n <> 2");
    assert!(plan.contains("Filter [((i > 1) AND (n <> 2))]") && plan.contains("Rank DENSE_RANK 1 to 2"), "{plan}");
    // A range of no ranks stays a condition.
    assert!(top(&session, "RANK", "n < 1").contains("Filter [(n < 1)]"));
    // Without a condition all rows are numbered.
    let plan = top(&session, "RANK", "TRUE");
    assert!(plan.contains("Rank RANK"), "{plan}");
}

#[test]
fn qualify_is_where_around_a_subquery() {
    let session = tables();
    let rank = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end, i ORDER BY l DESC, s)";
    for (condition, range) in [("<= 3", "1 to 3"), ("= 1", "1 to 1"), ("BETWEEN 2 AND 4", "2 to 4")] {
        let within = format!("SELECT i, n FROM (SELECT *, {rank} AS n FROM {WINDOWED}) WHERE n {condition}");
        for qualify in [
            format!("SELECT i, {rank} AS n FROM {WINDOWED} QUALIFY n {condition}"),
            format!("SELECT i, {rank} AS n FROM {WINDOWED} QUALIFY {rank} {condition}"),
        ] {
            assert_eq!(session.pipelines(&qualify), session.pipelines(&within), "{qualify}");
        }
        let plan = session.plan(&format!("SELECT i FROM {WINDOWED} QUALIFY {rank} {condition}"));
        assert!(plan.contains(&format!("Rank ROW_NUMBER {range} ")) && !plan.contains("Filter"), "{plan}");
    }
    let plan = session.plan(&format!("SELECT i FROM {WINDOWED} QUALIFY {rank} <= 2 AND i > 1"));
    assert!(plan.contains("Filter [(i > 1)]") && plan.contains("Rank ROW_NUMBER 1 to 2"), "{plan}");
    check(&[
        (
            "SELECT i FROM t QUALIFY i > 1",
            "MS2001 1:25+5 QUALIFY is for results of OVER, and there is none here",
            "WHERE",
        ),
        (
            "SELECT COUNT(*) OVER (ORDER BY ts) AS n FROM t QUALIFY n",
            "MS2006 1:56+1 QUALIFY needs a BOOLEAN, not BIGINT",
            "n <> 0",
        ),
        ("SELECT COUNT(*) OVER (ORDER BY ts) AS n FROM t QUALIFY m = 1", "MS2003 1:56+1 unknown column `m`", "columns"),
        (
            "SELECT i FROM t WHERE COUNT(*) OVER (ORDER BY ts) = 1",
            "MS2012 1:23+5 COUNT … OVER stands only in SELECT and QUALIFY, not in WHERE",
            "QUALIFY",
        ),
    ]);
}

#[test]
fn windows_are_found_after_top_n() {
    let session = tables();
    let sql = format!(
        "SELECT window_start, MAX(l) AS m FROM (SELECT * FROM (SELECT window_start, window_end, l, ROW_NUMBER() OVER \
         (PARTITION BY window_start, window_end ORDER BY l NULLS LAST) AS n FROM {WINDOWED}) WHERE n = 1) \
         GROUP BY window_start, window_end"
    );
    assert_eq!(session.schema(&sql), "window_start TIMESTAMP(3) NOT NULL, m BIGINT");
    assert!(session.plan(&sql).contains("order=[l NULLS LAST]"), "{}", session.plan(&sql));
    // Ranks of aggregates, in one SELECT.
    let sql = format!(
        "SELECT i, SUM(nn) AS s, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY SUM(nn) DESC) AS n \
         FROM {WINDOWED} GROUP BY window_start, window_end, i HAVING SUM(nn) > 0"
    );
    let plan = session.plan(&sql);
    assert!(plan.contains("partition=[window_start, window_end] order=[aggregate0 DESC"), "{plan}");
    assert_eq!(session.schema(&sql), "i INT, s INT NOT NULL, n BIGINT NOT NULL");
}

#[test]
fn aggregates_over_time() {
    let session = tables();
    let sql = "SELECT i, SUM(nn) OVER w AS s, COUNT(*) OVER w + 1 AS c, AVG(nn) OVER (PARTITION BY i ORDER BY ts) AS a,
        MAX(nn) OVER (w RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS m,
        MIN(nn) OVER (PARTITION BY s ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS l,
        ROW_NUMBER() OVER (ORDER BY ts) AS n
        FROM t WINDOW w AS (PARTITION BY i ORDER BY ts)";
    assert_eq!(
        session.schema(sql),
        "i INT, s INT NOT NULL, c BIGINT NOT NULL, a INT NOT NULL, m INT NOT NULL, l INT NOT NULL, n BIGINT NOT NULL"
    );
    let plan = session.plan(sql);
    let overs: Vec<&str> = plan.lines().map(str::trim).filter(|l| l.starts_with("Over ")).collect();
    assert_eq!(overs.len(), 4, "{plan}");
    assert!(overs[3].contains("SUM(nn)") && overs[3].contains("COUNT(*)") && overs[3].contains("AVG(nn)"), "{plan}");
    // Event time lasts: windows can follow.
    let outer = format!(
        "SELECT COUNT(*) AS n FROM (SELECT ts, COUNT(*) OVER (ORDER BY ts) AS c FROM ({})) GROUP BY TUMBLE(ts, INTERVAL '1' DAY)",
        "SELECT * FROM t"
    );
    assert_eq!(session.schema(&outer), "n BIGINT NOT NULL");
    let session = Session::new("CREATE TABLE p (k INT, at AS PROCTIME()) WITH ('connector' = 'datagen')");
    let plan = session.plan("SELECT COUNT(*) OVER (PARTITION BY k ORDER BY at) AS n FROM p");
    assert!(plan.contains("partition=[k] order=arrival"), "{plan}");
    // The first row of each key, as it arrives.
    let first = "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY at) AS n FROM p) WHERE n = 1";
    assert!(session.plan(first).contains("Filter [(n = 1)]"), "{}", session.plan(first));
}

#[test]
fn errors() {
    let ranked = |over: &str| format!("SELECT ROW_NUMBER() OVER ({over}) FROM {WINDOWED}");
    check(&[
        (
            &ranked("PARTITION BY window_start ORDER BY l"),
            "MS2009 1:8+10 the partitions are not those of a window",
            "add window_end to PARTITION BY",
        ),
        (&ranked("PARTITION BY window_start, window_end"), "MS2009 1:8+10 a rank needs ORDER BY", "ORDER BY x DESC"),
        ("SELECT SUM(i) OVER (PARTITION BY l) FROM t", "MS2009 1:8+3 OVER needs ORDER BY one time attribute", "`ts`"),
        ("SELECT SUM(i) OVER (ORDER BY l) FROM t", "MS2009 1:30+1 OVER must be ordered by a time attribute", "`ts`"),
        (
            "SELECT SUM(i) OVER (ORDER BY ts DESC) FROM t",
            "MS2009 1:30+2 OVER must be ordered by ascending time",
            "DESC",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t",
            "MS2007 1:8+3 a frame that ends after the current row is not supported yet",
            "ROWS BETWEEN",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND INTERVAL '1' DAY PRECEDING) FROM t",
            "MS2007 1:8+3 a RANGE that ends before the current row is not supported yet",
            "ROWS BETWEEN",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) FROM t",
            "MS2009 1:8+3 the frame ends before it begins",
            "the larger number first",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND -1 PRECEDING) FROM t",
            "MS2009 1:63+1 the frame has a constant number of rows PRECEDING",
            "ROWS BETWEEN",
        ),
        (
            "SELECT ARRAY_AGG(i) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) FROM t",
            "MS2007 1:8+9 a frame of ARRAY that ends before the current row is not supported yet",
            "CURRENT ROW",
        ),
        (
            "SELECT SUM(i) OVER (ORDER BY ts RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) FROM t",
            "MS2009 1:47+1 the frame has a constant INTERVAL of days to seconds PRECEDING",
            "RANGE BETWEEN",
        ),
        ("SELECT SUM(i) OVER w FROM t", "MS2009 1:20+1 there is no window `w` in the WINDOW clause", "WINDOW w AS"),
        (
            "SELECT SUM(i) OVER v FROM t WINDOW w AS (v), v AS (w)",
            "MS2009 1:8+3 the windows of the WINDOW clause refer to one another",
            "define",
        ),
        (
            "SELECT SUM(i) OVER (w ORDER BY i) FROM t WINDOW w AS (ORDER BY ts)",
            "MS2009 1:21+1 OVER repeats what the window `w` says already",
            "one place",
        ),
        (
            "SELECT i FROM t WHERE ROW_NUMBER() OVER (ORDER BY ts) = 1",
            "MS2012 1:23+10 ROW_NUMBER … OVER stands only in",
            "around",
        ),
        ("SELECT UPPER(s) OVER (ORDER BY ts) FROM t", "MS2005 1:8+5 UPPER is not an aggregate function", "remove OVER"),
        ("SELECT RANK() FROM t", "MS2001 1:8+4 RANK needs OVER (…)", "PARTITION BY"),
        (
            "SELECT SUM(SUM(i) OVER (ORDER BY ts)) OVER (ORDER BY ts) FROM t",
            "MS2012 1:12+3 SUM … OVER stands only in SELECT",
            "",
        ),
    ]);
}

#[test]
fn frames_that_end_before_the_row_are_those_of_an_earlier_one() {
    let session = tables();
    let sql = "SELECT SUM(i) OVER w AS s, COUNT(*) OVER w AS n, AVG(i) OVER (ORDER BY ts) AS a FROM t
        WINDOW w AS (ORDER BY ts ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING)";
    let plan = session.plan(sql);
    // The aggregates, what is kept of them, and the other frame.
    assert!(plan.contains("3 rows before") && plan.contains("2 rows before"), "{plan}");
    assert_eq!(plan.matches("Over ").count(), 3, "{plan}");
    assert_eq!(session.schema(sql), "s INT, n BIGINT, a INT");
}

#[test]
fn bounded_input_is_put_in_any_order() {
    let session = tables().batch();
    let plan = session.plan("SELECT i FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s ORDER BY l DESC) = 1");
    assert!(plan.contains("Rank ROW_NUMBER 1 to 1 partition=[s] order=[l DESC"), "{plan}");
    // One order is sorted once, and once more from its end.
    let sql = "SELECT LAG(i) OVER w, LEAD(i) OVER w, NTILE(4) OVER w, SUM(l) OVER (w ROWS UNBOUNDED PRECEDING) FROM t
        WINDOW w AS (PARTITION BY s ORDER BY l, d)";
    let plan = session.plan(sql);
    assert_eq!((plan.matches("Rank ").count(), plan.matches("Over ").count()), (2, 3), "{plan}");
    assert_eq!(
        session.schema("SELECT LAG(nn, 1, 0) OVER (ORDER BY ts) AS a, NTILE(2) OVER (ORDER BY i) AS b FROM t"),
        "a INT, b BIGINT NOT NULL"
    );
    // In the order of time rows need not be sorted.
    let plan = tables().plan("SELECT LAG(i, 2) OVER (PARTITION BY s ORDER BY ts) AS a FROM t");
    assert!(!plan.contains("Rank") && plan.contains("order=ts 2 rows before"), "{plan}");
    check(&[
        ("SELECT LEAD(i) OVER (ORDER BY ts) FROM t", "MS2008 1:8+4 LEAD depends on later rows", "batch"),
        ("SELECT LAG(i, -1) OVER (ORDER BY ts) FROM t", "MS2006 1:16+1 the number of rows of LAG", "LAG(x"),
        ("SELECT LAG(i, 1, s) OVER (ORDER BY ts) FROM t", "MS2006 1:8+3 the value of LAG is INT", "cast"),
        ("SELECT LAG(a) OVER (ORDER BY ts) FROM t", "MS2007 1:8+3 LAG of ARRAY is not supported yet", "single fields"),
    ]);
}

#[test]
fn what_has_an_end_needs_no_order_of_time() {
    let session = Session::new(
        "CREATE TABLE f (k INT, n INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json')",
    );
    let has = |sql: &str, parts: &[&str]| {
        let plan = session.plan(sql);
        parts.iter().for_each(|part| assert!(plan.contains(part), "{part} is not in\n{plan}"));
    };
    has("SELECT SUM(n) OVER (PARTITION BY k) FROM f", &["partition=[k] order=none all times before\n    Scan f"]);
    has(
        "SELECT RANK() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM f",
        &["Rank RANK 1 to 18446744073709551615 partition=[k] order=[n DESC]\n    Scan f"],
    );
    has(
        "SELECT * FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY n) AS r FROM f) WHERE r < 3",
        &["Rank ROW_NUMBER 1 to 2 partition=[] order=[n]"],
    );
    let ordered = "Rank DENSE_RANK 1 to 18446744073709551615 partition=[k] order=[n]";
    has("SELECT SUM(n) OVER (PARTITION BY k ORDER BY n) FROM f", &[ordered, "Over [SUM(n)", "all times before"]);
    let rows = "SELECT SUM(n) OVER (ORDER BY n ROWS 2 PRECEDING) FROM f";
    has(rows, &["Rank ROW_NUMBER", "2 rows before"]);
}

#[test]
fn ranks_of_a_stream_change() {
    let sinks = "CREATE TABLE files (i INT, n BIGINT) WITH ('connector' = 'filesystem');
CREATE TABLE first (i INT, n BIGINT, PRIMARY KEY (i) NOT ENFORCED) WITH ('connector' = 'jdbc');
CREATE TABLE ranked (i INT, n BIGINT, PRIMARY KEY (i, n) NOT ENFORCED) WITH ('connector' = 'jdbc');";
    let session = Session::new(&(TABLES.to_string() + sinks));
    let top = |n: &str| {
        format!(
            "SELECT i, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY i ORDER BY l DESC) AS n FROM t) WHERE n {n}"
        )
    };
    let pipelines = session.pipelines(&top("<= 3"));
    assert!(
        pipelines.contains("ROW_NUMBER 1 to 3 of all rows by [column1 DESC], ties first, partitioned by [column0]"),
        "{pipelines}"
    );
    // What keeps the last row of each key keeps that which came last.
    let last = "SELECT i FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY i ORDER BY ts DESC) AS n FROM t) WHERE n = 1";
    assert!(session.pipelines(last).contains("DESC], ties last"), "{}", session.pipelines(last));
    session.pipelines("SELECT RANK() OVER (PARTITION BY i ORDER BY ts) FROM t");
    // One row of a key is told apart by the key, others by their rank, too.
    session.bind(&format!("INSERT INTO first {}", top("= 1"))).unwrap();
    session.bind(&format!("INSERT INTO ranked {}", top("< 4"))).unwrap();
    let (error, _) = session.error(&format!("INSERT INTO first {}", top("< 4")));
    assert!(error.starts_with("MS2017 1:13+5 two rows of the result can have the same PRIMARY KEY (i)"), "{error}");
    let (error, advice) = session.error(&format!("INSERT INTO files {}", top("= 1")));
    assert!(error.starts_with("MS2008 1:13+5 the result of a ranking without a window changes"), "{error}");
    assert!(advice.contains("rank within windows"), "{advice}");
    // Counts are ranked by all of their values, since they come in no order.
    let counts = "SELECT i, RANK() OVER (ORDER BY n) FROM (SELECT i, COUNT(*) AS n FROM t GROUP BY i)";
    assert!(
        session.pipelines(counts).contains("RANK 1 to 18446744073709551615 of all rows by [column1], ties by value"),
        "{}",
        session.pipelines(counts)
    );
}
