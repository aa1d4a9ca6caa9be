//! Grouping and windows.

use super::{nexmark, tables};

const TUMBLE: &str = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))";

#[test]
fn nexmark_counts_bids_in_windows() {
    let q12 = "SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end;";
    let session = nexmark();
    assert_eq!(
        session.schema(q12),
        "bidder BIGINT, bid_count BIGINT NOT NULL, starttime TIMESTAMP(3) NOT NULL, endtime TIMESTAMP(3) NOT NULL"
    );
    let plan = session.plan(q12);
    let lines: Vec<&str> = plan.lines().map(str::trim).collect();
    assert_eq!(lines[0], "Project [bidder, aggregate0 AS bid_count, window_start AS starttime, window_end AS endtime]");
    assert_eq!(
        lines[1],
        "Aggregate window=TUMBLE(dateTime, 10000 ms) keys=[bidder] aggregates=[COUNT(*) AS aggregate0]"
    );
}

#[test]
fn group_windows() {
    let sql = "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS s, TUMBLE_END(ts, INTERVAL '1' MINUTE) AS e,
        TUMBLE_ROWTIME(ts, INTERVAL '1' MINUTE) AS w, i, SUM(nn) AS total
        FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), i HAVING COUNT(*) > 1 AND SUM(nn) > 5";
    let session = tables();
    assert_eq!(
        session.schema(sql),
        "s TIMESTAMP(3) NOT NULL, e TIMESTAMP(3) NOT NULL, w TIMESTAMP(3) NOT NULL, i INT, total INT NOT NULL"
    );
    let plan = session.plan(sql);
    assert!(
        plan.contains(
            "Aggregate window=TUMBLE(ts, 60000 ms) keys=[i] aggregates=[SUM(nn) AS aggregate0, COUNT(*) AS aggregate1]"
        ),
        "{plan}"
    );
    // The time of a window is event time again.
    let outer = format!("SELECT COUNT(*) AS n FROM ({sql}) GROUP BY TUMBLE(w, INTERVAL '1' HOUR)");
    assert_eq!(session.schema(&outer), "n BIGINT NOT NULL");
}

#[test]
fn window_columns_without_aggregation() {
    let session = tables();
    let sql = format!("SELECT nn, window_start, window_end, window_time FROM {TUMBLE}");
    assert_eq!(
        session.schema(&sql),
        "nn INT NOT NULL, window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3)"
    );
    let zoned = "SELECT * FROM TUMBLE(TABLE z, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '-1' HOUR)";
    assert_eq!(
        session.schema(zoned),
        "k INT, ts TIMESTAMP_LTZ(3), window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP_LTZ(3)"
    );
}

#[test]
fn windows_are_found_through_subqueries() {
    let session = tables();
    let sql = format!(
        "SELECT s, e, MAX(n) AS n FROM (
            SELECT window_start AS s, window_end AS e, nn + 1 AS n FROM {TUMBLE} WHERE nn > 3
        ) GROUP BY s, e"
    );
    assert_eq!(session.schema(&sql), "s TIMESTAMP(3) NOT NULL, e TIMESTAMP(3) NOT NULL, n INT NOT NULL");
    // Also after an aggregation over the same windows.
    let again = format!("SELECT COUNT(*) AS c, s FROM ({sql}) GROUP BY e, s");
    assert_eq!(session.schema(&again), "c BIGINT NOT NULL, s TIMESTAMP(3) NOT NULL");
    // And through a union whose sides have the same windows.
    let union = format!(
        "SELECT window_start, COUNT(*) AS c FROM (SELECT window_start, window_end FROM {TUMBLE}
         UNION ALL SELECT window_start, window_end FROM {TUMBLE}) GROUP BY window_start, window_end"
    );
    assert_eq!(session.schema(&union), "window_start TIMESTAMP(3) NOT NULL, c BIGINT NOT NULL");
}

#[test]
fn windows_over_windows() {
    let session = tables();
    let sql = format!(
        "WITH small AS (
            SELECT window_start, window_end, window_time AS w, COUNT(*) AS n FROM {TUMBLE}
            GROUP BY window_start, window_end, window_time
        )
        SELECT window_start, SUM(n) AS n FROM TABLE(TUMBLE(DATA => TABLE small, TIMECOL => DESCRIPTOR(w),
            SIZE => INTERVAL '1' MINUTE)) GROUP BY window_start, window_end"
    );
    // The name window_start is taken by the column of the small windows.
    let (error, _) = session.error(&sql);
    assert!(error.starts_with("MS2004"), "{error}");
    let renamed = sql.replace("SELECT window_start, window_end, window_time AS w", "SELECT window_time AS w");
    assert_eq!(session.schema(&renamed), "window_start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
}

#[test]
fn aggregates() {
    let session = tables();
    let sql = format!(
        "SELECT COUNT(i) AS c, SUM(i) AS si, SUM(l) AS sl, SUM(dec) AS sd, AVG(l) AS al, AVG(nn) AS an, AVG(dec) AS ad,
            AVG(f) AS af, MIN(s) AS ms, MAX(ts) AS mt, SUM(nn) FILTER (WHERE i > 1) AS f, MAX(nn) + 1 AS m
        FROM {TUMBLE} GROUP BY window_start, window_end"
    );
    assert_eq!(
        session.schema(&sql),
        "c BIGINT NOT NULL, si INT, sl BIGINT, sd DECIMAL(38, 2), al BIGINT, an INT NOT NULL, ad DECIMAL(38, 6), \
         af FLOAT, ms STRING, mt TIMESTAMP(3), f INT, m INT NOT NULL"
    );
}

#[test]
fn expressions_over_keys() {
    let session = tables();
    let sql = format!(
        "SELECT i % 2 + 1 AS a, UPPER(s), r.y.z, COUNT(*) FROM {TUMBLE}
         GROUP BY i % 2, window_start, window_end, UPPER(s), r.y.z"
    );
    assert_eq!(session.schema(&sql), "a INT, EXPR$1 STRING, z STRING NOT NULL, EXPR$3 BIGINT NOT NULL");
}

#[test]
fn batch_groups_without_windows() {
    let session = tables().batch();
    assert_eq!(session.schema("SELECT i, COUNT(*) AS c FROM t GROUP BY i"), "i INT, c BIGINT NOT NULL");
    // Without keys there is a group even of no rows.
    assert_eq!(session.schema("SELECT COUNT(*) AS c, SUM(nn) AS s FROM t"), "c BIGINT NOT NULL, s INT");
    assert_eq!(session.schema("SELECT DISTINCT nn, s FROM t"), "nn INT NOT NULL, s STRING");
    assert_eq!(session.schema("SELECT i FROM t UNION SELECT l FROM t"), "i BIGINT");
    let plan = session.plan("SELECT DISTINCT i FROM t");
    assert_eq!(
        plan,
        "Project [i]\n  Aggregate window=whole input keys=[i] aggregates=[]\n    Project [i]\n      Scan t\n"
    );
}

#[test]
fn distinct_within_windows() {
    let session = tables();
    let sql = format!("SELECT DISTINCT window_start, i, window_end FROM {TUMBLE}");
    assert_eq!(session.schema(&sql), "window_start TIMESTAMP(3) NOT NULL, i INT, window_end TIMESTAMP(3) NOT NULL");
    let counted = format!("SELECT window_start, COUNT(i) AS n FROM ({sql}) GROUP BY window_start, window_end");
    assert_eq!(session.schema(&counted), "window_start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
}

#[test]
fn table_functions() {
    let session = tables();
    let columns = "window_start TIMESTAMP(3) NOT NULL, window_end TIMESTAMP(3) NOT NULL, window_time";
    for (call, plan) in [
        (
            "HOP(TABLE z, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND, INTERVAL '-1' SECOND)",
            "Windowed HOP(ts, 10000 ms every 3000 ms, offset 2000 ms)",
        ),
        (
            "HOP(DATA => TABLE z, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' SECOND, SLIDE => INTERVAL '1' MINUTE)",
            "Windowed HOP(ts, 1000 ms every 60000 ms)",
        ),
        (
            "CUMULATE(TABLE z, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)",
            "Windowed CUMULATE(ts, 86400000 ms in steps of 3600000 ms)",
        ),
        (
            "SESSION(TABLE z PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)",
            "Windowed SESSION(ts, gap 5000 ms) partition=[k]",
        ),
        ("SESSION(TABLE z, DESCRIPTOR(ts), GAP => INTERVAL '5' SECOND)", "Windowed SESSION(ts, gap 5000 ms)"),
        ("COUNT_TUMBLE(TABLE z PARTITION BY (k), DESCRIPTOR(ts), 10)", "Windowed COUNT_TUMBLE(10 rows) partition=[k]"),
        ("COUNT_HOP(TABLE z, DESCRIPTOR(ts), SIZE => 10, SLIDE => 3)", "Windowed COUNT_HOP(10 rows every 3 rows)"),
    ] {
        let sql = format!("SELECT * FROM TABLE({call})");
        assert_eq!(session.schema(&sql), format!("k INT, ts TIMESTAMP_LTZ(3), {columns} TIMESTAMP_LTZ(3) NOT NULL"));
        let shown = session.plan(&sql);
        assert!(shown.contains(plan), "{call}\n{shown}");
    }
}

#[test]
fn windows_that_do_not_overlap_are_tumbling() {
    let session = tables();
    for call in ["HOP", "CUMULATE"] {
        let sql = format!("SELECT * FROM {call}(TABLE z, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' HOUR)");
        assert!(session.plan(&sql).contains("WINDOW_START(ts, 3600000 ms)"), "{}", session.plan(&sql));
    }
}

#[test]
fn groups_of_attached_windows() {
    let session = tables();
    let hop = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)";
    let sql = format!(
        "SELECT i, COUNT(*) AS n, window_end AS e, window_start AS s FROM {hop} GROUP BY i, window_start, window_end"
    );
    let plan = session.plan(&sql);
    assert!(plan.contains("window=of each row (until window_time) keys=[i]"), "{plan}");
    // The windows keep their meaning through subqueries, new names and UNION ALL.
    let again = format!("SELECT s, MAX(n) AS most FROM (SELECT * FROM ({sql}) UNION ALL {sql}) GROUP BY s, e");
    assert_eq!(session.schema(&again), "s TIMESTAMP(3) NOT NULL, most BIGINT NOT NULL");
    // Where window_time is not selected, it is computed from the end.
    let projected =
        format!("SELECT COUNT(*) AS n FROM (SELECT window_start AS s, window_end AS e FROM {hop}) GROUP BY s, e");
    let plan = session.plan(&projected);
    assert!(plan.contains("(e + INTERVAL -1 ms)"), "{plan}");
    // Of two windows only the last counts, though both are the same.
    let twice = format!(
        "SELECT window_start0, COUNT(*) AS n FROM HOP((SELECT window_time, window_start AS s, window_end AS e FROM {hop}), \
         DESCRIPTOR(window_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY s, e"
    );
    assert!(session.error(&twice).0.starts_with("MS2003"), "{:?}", session.error(&twice));
    let twice = twice.replace("window_start0", "s");
    assert!(session.plan(&twice).contains("window=all rows so far"), "{}", session.plan(&twice));
    let twice = twice.replace("s, COUNT", "window_start, COUNT").replace("BY s, e", "BY window_start, window_end");
    assert_eq!(session.schema(&twice), "window_start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
    let session_window = "SELECT i, window_start, COUNT(*) AS n FROM SESSION(TABLE t PARTITION BY i, DESCRIPTOR(ts), \
        INTERVAL '2' SECOND) GROUP BY i, window_start, window_end";
    assert_eq!(session.schema(session_window), "i INT, window_start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
    let count_window = session_window.replace("SESSION(", "COUNT_HOP(").replace("INTERVAL '2' SECOND", "1, 10");
    assert_eq!(session.schema(&count_window), "i INT, window_start TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
}

#[test]
fn windows_in_group_by() {
    let session = tables();
    let hop = "ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND";
    let sql = format!(
        "SELECT HOP_START({hop}) AS s, HOP_END({hop}) AS e, HOP_ROWTIME({hop}) AS w, COUNT(*) AS n FROM t GROUP BY HOP({hop})"
    );
    assert!(
        session.plan(&sql).contains("Aggregate window=HOP(ts, 10000 ms every 2000 ms) keys=[]"),
        "{}",
        session.plan(&sql)
    );
    let over = format!("SELECT SUM(n) AS n FROM ({sql}) GROUP BY SESSION(w, INTERVAL '1' HOUR)");
    assert_eq!(session.schema(&over), "n BIGINT NOT NULL");
    let sql = "SELECT i, SESSION_START(ts, INTERVAL '1' HOUR) AS s, SESSION_ROWTIME(ts, INTERVAL '1' HOUR) AS w
        FROM t GROUP BY SESSION(ts, INTERVAL '1' HOUR), i";
    assert!(
        session.plan(sql).contains("Aggregate window=SESSION(ts, gap 3600000 ms) keys=[i]"),
        "{}",
        session.plan(sql)
    );
}

#[test]
fn processing_time() {
    let session = super::Session::new(
        "CREATE TABLE p (k INT, at AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen')",
    );
    assert_eq!(session.schema("SELECT at FROM p"), "at TIMESTAMP_LTZ(3) NOT NULL");
    let tumble = "at, INTERVAL '1' SECOND";
    let sql = format!("SELECT TUMBLE_PROCTIME({tumble}) AS w, COUNT(*) AS n FROM p GROUP BY TUMBLE({tumble})");
    assert_eq!(session.schema(&sql), "w TIMESTAMP_LTZ(3) NOT NULL, n BIGINT NOT NULL");
    let sql = "SELECT window_start, COUNT(*) AS n FROM HOP(TABLE p, DESCRIPTOR(at), INTERVAL '1' SECOND, INTERVAL '2' \
        SECOND) GROUP BY window_start, window_end";
    assert!(session.plan(sql).contains("Windowed HOP(at, 2000 ms every 1000 ms)"), "{}", session.plan(sql));
    // The attribute may also be made in the query, and lasts through a subquery.
    let sql = "SELECT COUNT(*) AS n FROM (SELECT k, PROCTIME() AS q FROM p) GROUP BY SESSION(q, INTERVAL '1' SECOND)";
    let plan = session.plan(sql);
    assert!(plan.contains("SESSION(q, gap 1000 ms)") && plan.contains("PROCTIME() AS q"), "{plan}");
    assert_eq!(session.schema("SELECT CURRENT_WATERMARK(ts) AS w FROM p"), "w TIMESTAMP(3)");
    let (error, _) = session.error("SELECT CURRENT_WATERMARK(at) FROM p");
    assert_eq!(error, "MS2006 1:26+2 the argument of CURRENT_WATERMARK is not an event time");
}

#[test]
fn grouping_sets() {
    let session = tables();
    let sql = format!(
        "SELECT window_start AS s, window_end AS e, nn, ns, GROUPING(nn, ns) AS g, UPPER(ns) AS u, COUNT(nn) AS c, SUM(nn) AS t
         FROM {TUMBLE} GROUP BY window_start, window_end, ROLLUP (nn, ns) HAVING COUNT(*) > 1"
    );
    assert_eq!(
        session.schema(&sql),
        "s TIMESTAMP(3) NOT NULL, e TIMESTAMP(3) NOT NULL, nn INT, ns STRING, g BIGINT NOT NULL, u STRING, \
         c BIGINT NOT NULL, t INT"
    );
    let plan = session.plan(&sql);
    let keys: Vec<&str> =
        plan.lines().filter_map(|l| l.split_once("keys=")?.1.split_once(" aggregates")).map(|(k, _)| k).collect();
    assert_eq!(keys, ["[nn, ns]", "[nn]", "[]"], "{plan}");
    let constants: Vec<&str> =
        plan.lines().filter(|l| l.contains("Project [window_start AS c0")).map(str::trim).collect();
    assert_eq!(
        constants[2],
        "Project [window_start AS c0, window_end AS c1, NULL AS c2, NULL AS c3, 3 AS c4, UPPER(NULL) AS c5, \
         aggregate0 AS c6, aggregate1 AS c7, (aggregate2 > 1) AS c8]"
    );
    // The result is grouped by its windows.
    let outer = format!("SELECT s, COUNT(*) AS n FROM ({sql}) GROUP BY s, e");
    assert_eq!(session.schema(&outer), "s TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL");
    let sets = |group_by: &str| {
        let sql = format!("SELECT COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, {group_by}");
        let plan = session.plan(&sql);
        let keys = plan.lines().filter_map(|l| l.split_once("keys=")?.1.split_once(" aggregates"));
        keys.map(|(k, _)| k.to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(sets("CUBE (i, l)"), "[i, l] [i] [l] []");
    assert_eq!(sets("ROLLUP ((i, l), s)"), "[i, l, s] [i, l] []");
    assert_eq!(sets("GROUPING SETS ((i, l), s, ())"), "[i, l] [s] []");
    assert_eq!(sets("GROUPING SETS (i, l), ROLLUP (s)"), "[i, s] [i] [l, s] [l]");
    let batch = tables().batch();
    assert_eq!(batch.schema("SELECT i, SUM(nn) AS s FROM t GROUP BY GROUPING SETS (i, ())"), "i INT, s INT");
}

#[test]
fn late_rows_go_to_a_table() {
    let ddl = |columns: &str| {
        super::Session::new(&format!(
            "CREATE TABLE e (k INT, s STRING, c AS k + 1, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
                WITH ('connector' = 'datagen', 'late.table' = 'late');
             CREATE TABLE late ({columns}) WITH ('connector' = 'print')"
        ))
    };
    let session = ddl("k INT, s VARCHAR(10), twice AS k * 2, c INT, ts TIMESTAMP(3)");
    assert_eq!(session.plan("SELECT k FROM e"), "Project [k]\n  Scan e, late rows into late\n");
    let (error, advice) = ddl("k INT, s STRING, c BIGINT, ts TIMESTAMP(3)").error("SELECT k FROM e");
    assert_eq!(error, "MS2013 1:15+1 'late.table': the columns of `late` are not those of `e`");
    assert!(advice.contains("c INT") && advice.contains("c BIGINT"), "{advice}");
    let lost = super::Session::new(
        "CREATE TABLE e (k INT) WITH ('connector' = 'datagen', 'late.table' = 'lost');
         CREATE TABLE own (k INT) WITH ('connector' = 'datagen', 'late.table' = 'own')",
    );
    let (error, advice) = lost.error("SELECT k FROM e");
    assert!(error.starts_with("MS2002 1:15+1 'late.table' of `e`: unknown table") && !advice.is_empty(), "{error}");
    assert!(lost.error("SELECT k FROM own").0.starts_with("MS2013 1:15+3"));
}
