//! Plans and schemas of queries.

use super::{Session, nexmark, tables};

#[test]
fn nexmark_passes_bids_through() {
    let session = nexmark();
    let q0 = "SELECT b.auction, b.bidder, b.price, b.`dateTime`, b.extra FROM bid AS b;";
    let bids = "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra STRING";
    assert_eq!(session.schema(q0), bids);
    assert_eq!(
        session.plan(q0),
        "Project [auction, bidder, price, dateTime, extra]\n  \
           Project [bid.auction AS auction, bid.bidder AS bidder, bid.price AS price, bid.channel AS channel, \
         bid.url AS url, dateTime, bid.extra AS extra]\n    \
             Filter [(event_type = 2)]\n      \
               Scan events\n"
    );
    let q1 = "SELECT b.auction, b.bidder, 0.908 * b.price AS price, b.`dateTime`, b.extra FROM bid AS b";
    assert_eq!(
        session.schema(q1),
        "auction BIGINT, bidder BIGINT, price DECIMAL(24, 3), dateTime TIMESTAMP(3), extra STRING"
    );
    let q2 = "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;";
    assert_eq!(session.schema(q2), "auction BIGINT, price BIGINT");
}

#[test]
fn nexmark_functions() {
    let session = nexmark();
    let q10 = "SELECT auction, bidder, price, `dateTime`, extra,
        DATE_FORMAT(`dateTime`, 'yyyy-MM-dd') AS `day`, DATE_FORMAT(`dateTime`, 'HH:mm') AS `minute` FROM bid;";
    assert_eq!(
        session.schema(q10),
        "auction BIGINT, bidder BIGINT, price BIGINT, dateTime TIMESTAMP(3), extra STRING, day STRING, minute STRING"
    );
    let q21 = "SELECT auction, bidder, price, channel,
       CASE LOWER(channel)
           WHEN 'apple' THEN '0'
           WHEN 'google' THEN '1'
           WHEN 'facebook' THEN '2'
           WHEN 'baidu' THEN '3'
           ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
       END AS channel_id
FROM bid
WHERE LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')
   OR REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL;";
    assert_eq!(session.schema(q21), "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING");
    let q22 = "SELECT auction, bidder, price, channel,
       SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
FROM bid;";
    assert_eq!(
        session.schema(q22),
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING"
    );
}

#[test]
fn an_unknown_function_of_q14_is_named() {
    let q14 = "SELECT auction, bidder, 0.908 * price AS price,
       CASE
           WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'dayTime'
           WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime'
           ELSE 'otherTime'
       END AS bidTimeType,
       `dateTime`, extra, count_char(extra, 'c') AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;";
    let session = nexmark();
    let (error, _) = session.error(q14);
    assert_eq!(error, "MS2005 7:27+10 unknown function `count_char`");
    let without = q14.replace(", count_char(extra, 'c') AS c_counts", "");
    assert_eq!(
        session.schema(&without),
        "auction BIGINT, bidder BIGINT, price DECIMAL(24, 3), bidTimeType VARCHAR(9) NOT NULL, \
         dateTime TIMESTAMP(3), extra STRING"
    );
}

#[test]
fn names_of_result_columns() {
    let session = tables();
    assert_eq!(session.schema("SELECT i, i, i AS i FROM t"), "i INT, i0 INT, i1 INT");
    assert_eq!(
        session.schema("SELECT i + 1, 2, r.x, nn AS n FROM t"),
        "EXPR$0 INT, EXPR$1 INT NOT NULL, x INT, n INT NOT NULL"
    );
    assert_eq!(session.schema("SELECT k, z.* FROM z"), "k INT, k0 INT, ts TIMESTAMP_LTZ(3)");
    assert_eq!(session.schema("SELECT r.* FROM t"), "x INT, y ROW<`z` STRING NOT NULL> NOT NULL, t INT");
    assert_eq!(session.schema("SELECT q.a FROM (SELECT k FROM z) AS q(a)"), "a INT");
    assert_eq!(session.schema("SELECT NULL AS n"), "n STRING");
}

#[test]
fn qualified_names() {
    let session = tables();
    assert_eq!(session.schema("SELECT z.k FROM z"), "k INT");
    assert_eq!(session.schema("SELECT default_database.z.k FROM default_catalog.default_database.z"), "k INT");
    assert_eq!(session.schema("SELECT e.r.y.z FROM t AS e"), "z STRING NOT NULL");
    // The table t has no column x, but its column r.t is not meant by t.r.t.
    assert_eq!(session.schema("SELECT t.r.t FROM t"), "t INT");
    // A column of the name of its table.
    let session = nexmark();
    assert_eq!(session.schema("SELECT bid.price, events.bid.bidder FROM events"), "price BIGINT, bidder BIGINT");
}

/// A query of WITH for each of `count` steps from the one before.
fn chain(count: usize, next: impl Fn(&str) -> String) -> String {
    let step = |i: usize| format!("a{i} AS ({})", next(&format!("a{}", i - 1)));
    let steps: Vec<String> = (1..count).map(step).collect();
    format!("WITH a0 AS (SELECT i FROM t), {} SELECT i FROM a{}", steps.join(", "), count - 1)
}

#[test]
fn only_large_queries_are_shared() {
    let session = tables();
    let filtered = |count| session.plan(&chain(count, |before| format!("SELECT i + 1 AS i FROM {before} WHERE i > 1")));
    assert!(!filtered(100).contains("Common"), "long, but each is named once");
    assert!(filtered(400).contains("Common"));
    let united = |count| {
        session.plan(&chain(count, |before| format!("SELECT i FROM {before} UNION ALL SELECT i FROM {before}")))
    };
    assert!(!united(6).contains("Common"));
    assert!(united(12).contains("(see above)"));
}

#[test]
fn subqueries_and_with() {
    let session = tables();
    let sql = "WITH a AS (SELECT i, s FROM t WHERE i > 1), b AS (SELECT i AS j FROM a) SELECT j + 1 AS k FROM b";
    assert_eq!(
        session.plan(sql),
        "Project [(j + 1) AS k]\n  Project [i AS j]\n    Project [i, s]\n      Filter [(i > 1)]\n        Scan t\n"
    );
    assert_eq!(session.schema("SELECT x FROM (SELECT i AS x FROM t)"), "x INT");
    assert_eq!(session.plan("SELECT k FROM z LIMIT 5"), "Limit 5\n  Project [k]\n    Scan z\n");
}

#[test]
fn unions_and_values() {
    let session = tables();
    let sql = "SELECT i, s FROM t UNION ALL SELECT l, c FROM t UNION ALL SELECT 1, NULL FROM z";
    assert_eq!(session.schema(sql), "i BIGINT, s STRING");
    assert_eq!(
        session.schema("SELECT * FROM (VALUES (1, 'a'), (2, 'bcd'), (NULL, 'x')) AS v(n, w)"),
        "n INT, w VARCHAR(3) NOT NULL"
    );
    assert_eq!(session.schema("VALUES (1), (2.5)"), "EXPR$0 DECIMAL(11, 1) NOT NULL");
    assert_eq!(session.plan("SELECT 1, 'a' AS b"), "Values [1 row of 2]\n");
}

#[test]
fn long_chains_do_not_recurse() {
    let session = tables();
    let sum = vec!["i"; 900].join(" + ");
    assert_eq!(session.schema(&format!("SELECT {sum} AS x FROM t")), "x INT");
    let any = vec!["i = 1"; 400].join(" OR ");
    assert_eq!(session.schema(&format!("SELECT {any} AS x FROM t")), "x BOOLEAN");
}

#[test]
fn views_rename_their_columns() {
    let session = Session::new(&format!("{}CREATE VIEW w (a, b) AS SELECT k, ts FROM z;", super::TABLES));
    assert_eq!(session.schema("SELECT * FROM w"), "a INT, b TIMESTAMP_LTZ(3)");
    assert_eq!(session.schema("SELECT w.a FROM w"), "a INT");
    let (error, _) = session.error("SELECT k FROM w");
    assert_eq!(error, "MS2003 1:8+1 unknown column `k`");
}

#[test]
fn each_place_of_a_query_has_its_own_range_of_ranks() {
    let (query, rank) =
        ("SELECT window_start, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY nn) AS n", "n");
    let windows = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))";
    let text = tables().plan(&format!(
        "WITH r AS ({query} {windows}), s AS (SELECT * FROM r WHERE {rank} < 9) \
         SELECT * FROM s WHERE {rank} <= 1 UNION ALL SELECT * FROM r WHERE {rank} <= 3 UNION ALL SELECT * FROM s"
    ));
    let ranges: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("Rank ROW_NUMBER ")).collect();
    let rest = "partition=[window_start, window_end] order=[nn]";
    assert_eq!(ranges, ["1 to 1", "1 to 3", "1 to 8"].map(|range| format!("{range} {rest}")));
}
