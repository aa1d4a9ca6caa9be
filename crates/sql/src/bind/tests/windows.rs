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
