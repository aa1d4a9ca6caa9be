//! Regular and lookup joins, USING and NATURAL, and where conditions go.

use super::{Session, nexmark, tables};

/// Two endless streams and two files.
pub(super) const DDL: &str = "
CREATE TABLE l (id BIGINT NOT NULL, k INT, v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE r (id BIGINT, k BIGINT, w STRING, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'datagen');
CREATE TABLE side (k BIGINT NOT NULL, name VARCHAR(10)) WITH ('connector' = 'filesystem');
CREATE TABLE side2 (k INT, name VARCHAR(10), x DOUBLE) WITH ('connector' = 'filesystem');
";

pub(super) fn streams() -> Session {
    Session::new(DDL)
}

/// The lines of a plan without indentation.
pub(super) fn lines(session: &Session, sql: &str) -> Vec<String> {
    session.plan(sql).lines().map(|l| l.trim().to_owned()).collect()
}

/// Codes, messages and advice of what cannot be.
#[track_caller]
pub(super) fn refused(session: &Session, cases: &[(&str, &str, &str)]) {
    for (sql, error, advice) in cases {
        let found = session.error(sql);
        assert!(found.0.starts_with(error), "{sql}: {}", found.0);
        assert!(found.1.contains(advice), "{sql}: {}", found.1);
    }
}

#[test]
fn nexmark_queries() {
    let session = nexmark();
    let q3 = "SELECT p.name, p.city, p.state, a.id FROM auction AS a JOIN person AS p ON p.id = a.seller
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')";
    let plan = session.plan(q3);
    assert!(plan.contains("Join inner regular on [seller = id]\n"), "{plan}");
    // Each conjunct of WHERE over one side is below the join.
    assert!(plan.lines().nth(2).unwrap().contains("Filter [(category = 10)]"), "{plan}");
    assert!(plan.contains("Filter [state IN ('OR', 'ID', 'CA')]"), "{plan}");
    let q7 = "SELECT b.auction, b.price, b.bidder FROM bid AS b JOIN (
            SELECT window_end AS `until`, MAX(price) AS maxprice
            FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
        ) AS m ON b.price = m.maxprice
        WHERE b.`dateTime` BETWEEN m.`until` - INTERVAL '10' SECOND AND m.`until`";
    let plan = session.plan(q7);
    assert!(plan.contains("Join inner regular on [price = maxprice] and "), "{plan}");
    let q13 = "SELECT b.auction, s.`value` FROM bid AS b JOIN side_input AS s ON s.key = MOD(b.auction, 10000)";
    let plan = session.plan(q13);
    assert!(plan.contains("Join inner lookup on [") && plan.contains("10000)") && plan.contains(" = key]\n"), "{plan}");
    let q23 = "SELECT b.bidder, p.name, a.id FROM bid AS b JOIN person AS p ON p.id = b.bidder
        JOIN auction AS a ON a.seller = b.bidder";
    let plan = session.plan(q23);
    assert_eq!(plan.matches("Join inner regular").count(), 2, "{plan}");
}

#[test]
fn keys_have_one_type_and_conditions_are_split() {
    let session = streams();
    let sql =
        "SELECT l.id, r.w FROM l JOIN r ON l.k = r.k AND l.id + 1 = r.id AND l.v < r.w AND l.v = 'a' AND r.w > 'b'
        WHERE l.id > 3 AND (r.id < 7 OR l.id < 7)";
    let plan = lines(&session, sql);
    assert_eq!(
        plan,
        [
            "Project [id, w]",
            "Join inner regular on [CAST(k AS BIGINT) = k, (id + 1) = id] and ((v < w) AND ((id < 7) OR (id < 7)))",
            "Filter [((v = 'a') AND (id > 3))]",
            "Scan l",
            "Filter [(w > 'b')]",
            "Scan r",
        ]
    );
    assert_eq!(session.schema(sql), "id BIGINT NOT NULL, w STRING");
    // Regular joins lose event time.
    let grouped =
        "SELECT COUNT(*) FROM (SELECT l.ts FROM l JOIN r ON l.id = r.id) GROUP BY TUMBLE(ts, INTERVAL '1' DAY)";
    assert!(session.error(grouped).0.contains("MS2009"), "{:?}", session.error(grouped));
    // Comma joins get their conditions from WHERE.
    let comma = lines(&session, "SELECT l.id FROM l, r, side WHERE l.id = r.id AND side.k = r.k");
    assert_eq!(comma[1..3], ["Join inner lookup on [k = k]", "Join inner regular on [id = id]"]);
}

#[test]
fn time_to_live() {
    let mut session = streams();
    session.settings.state_ttl = Some(std::time::Duration::from_secs(90 * 60));
    let plan = session.plan("SELECT l.id FROM l JOIN r ON l.id = r.id");
    assert!(plan.contains("Join inner regular (rows kept for 5400000 ms) on [id = id]"), "{plan}");
}

#[test]
fn floats_compare_as_sql_says() {
    let plan = streams().plan("SELECT a.k FROM side2 a JOIN side2 b ON a.x = b.x");
    assert!(plan.contains("regular on [(x + 0.0) = (x + 0.0)] and (x = x)"), "{plan}");
}

#[test]
fn stars_and_aliases() {
    let session = streams();
    assert_eq!(
        session.schema("SELECT * FROM side AS a JOIN side2 AS b ON a.k = b.k"),
        "k BIGINT NOT NULL, name VARCHAR(10), k0 INT, name0 VARCHAR(10), x DOUBLE"
    );
    assert_eq!(
        session.schema("SELECT b.*, a.k AS ak FROM side AS a LEFT JOIN side2 AS b ON a.k = b.k"),
        "k INT, name VARCHAR(10), x DOUBLE, ak BIGINT NOT NULL"
    );
    assert_eq!(
        session.schema("SELECT j.* FROM (side AS a JOIN side2 AS b ON a.k = b.k) AS j(p, q, r, s, t)"),
        "p BIGINT NOT NULL, q VARCHAR(10), r INT, s VARCHAR(10), t DOUBLE"
    );
    assert_eq!(session.schema("SELECT a.v FROM l AS a JOIN (l AS b JOIN r ON b.id = r.id) ON a.id = r.id"), "v STRING");
    let (error, advice) = session.error("SELECT name FROM side JOIN side2 ON side.k = side2.k");
    assert!(error.starts_with("MS2004 1:8+4"), "{error}");
    assert_eq!(advice, "say of which table: side.name or side2.name");
}

#[test]
fn using_and_natural() {
    let session = streams();
    assert_eq!(
        session.schema("SELECT * FROM side JOIN side2 USING (k)"),
        "k BIGINT NOT NULL, name VARCHAR(10), name0 VARCHAR(10), x DOUBLE"
    );
    assert_eq!(
        session.schema("SELECT k, side.k AS a, side2.k AS b, side2.* FROM side JOIN side2 USING (k)"),
        "k BIGINT NOT NULL, a BIGINT NOT NULL, b INT, k0 INT, name VARCHAR(10), x DOUBLE"
    );
    assert_eq!(
        session.schema("SELECT * FROM side NATURAL JOIN side2"),
        "k BIGINT NOT NULL, name VARCHAR(10), x DOUBLE"
    );
    let natural = session.plan("SELECT * FROM side NATURAL JOIN side2");
    assert!(natural.contains("regular on [k = CAST(k AS BIGINT), name = name]"), "{natural}");
    assert_eq!(
        session.schema("SELECT * FROM side2 RIGHT JOIN side USING (k)"),
        "k BIGINT NOT NULL, name VARCHAR(10), x DOUBLE, name0 VARCHAR(10)"
    );
    let full = session.plan("SELECT * FROM side2 FULL JOIN side USING (k)");
    assert!(full.contains("CASE"), "{full}");
    assert_eq!(
        session.schema("SELECT a.k FROM side a JOIN side2 b USING (k) JOIN side2 c USING (k)"),
        "k BIGINT NOT NULL"
    );
    refused(
        &session,
        &[
            ("SELECT * FROM l JOIN r USING (v)", "MS2003 1:31+1 unknown column `v`", ""),
            ("SELECT * FROM l JOIN r", "MS2001 1:22+1 JOIN needs a condition", "CROSS JOIN"),
            ("SELECT * FROM l JOIN r ON l.id", "MS2006 1:27+4 ON needs a BOOLEAN, not BIGINT", ""),
        ],
    );
}

#[test]
fn bounded_tables_are_looked_up() {
    let session = streams();
    let sql = "SELECT l.v, s.name FROM l LEFT JOIN side AS s ON l.id = s.k AND s.name > 'm' AND l.k > 3";
    assert_eq!(
        lines(&session, sql),
        [
            "Project [v, name]",
            "Join left lookup on [id = k] and (k > 3)",
            "Scan l",
            "Filter [(name > 'm')]",
            "Scan side",
        ]
    );
    // A bounded left input is looked up, too; the columns keep their order.
    let swapped = "SELECT * FROM side AS s JOIN l ON l.id = s.k AND s.name < l.v";
    assert_eq!(
        lines(&session, swapped)[1..3],
        ["Project [k, name, id, k AS k0, v, ts]".to_owned(), "Join inner lookup on [id = k] and (name < v)".to_owned(),]
    );
    assert_eq!(
        session.schema("SELECT s.name, l.id FROM side s RIGHT JOIN l ON l.id = s.k"),
        "name VARCHAR(10), id BIGINT NOT NULL"
    );
    // The endless side keeps its time.
    let grouped = "SELECT name, COUNT(*) AS n FROM (SELECT name, ts FROM l JOIN side ON id = side.k)
        GROUP BY name, TUMBLE(ts, INTERVAL '1' DAY)";
    assert_eq!(session.schema(grouped), "name VARCHAR(10), n BIGINT NOT NULL");
    let cross = session.plan("SELECT l.id, s.name FROM l CROSS JOIN side AS s");
    assert!(cross.contains("Join inner lookup on [0 = 0]\n"), "{cross}");
    let values = session.plan("SELECT l.id, x FROM l JOIN (VALUES (1, 'a'), (2, 'b')) AS v(k, x) ON l.k = v.k");
    assert!(values.contains("Join inner lookup on [k = EXPR$0]"), "{values}");
    let full = session.plan("SELECT a.name, b.name FROM side a FULL JOIN side2 b ON a.k = b.k");
    assert!(full.contains("Union") && full.contains("Join left lookup") && full.contains("Join anti lookup"), "{full}");
    assert_eq!(session.schema("SELECT a.k, b.k AS l FROM side a FULL JOIN side2 b ON a.k = b.k"), "k BIGINT, l INT");
}

#[test]
fn versioned_lookups() {
    let session = streams();
    for (sql, join) in [
        (
            "SELECT r.w, s.name FROM r JOIN side FOR SYSTEM_TIME AS OF r.p AS s ON r.id = s.k",
            "inner lookup on [id = k]",
        ),
        ("SELECT r.w, s.name FROM r LEFT JOIN side FOR SYSTEM_TIME AS OF r.p AS s ON r.id = s.k", "left lookup"),
        (
            "SELECT a.k, s.name FROM side2 a JOIN side FOR SYSTEM_TIME AS OF PROCTIME() AS s ON a.k = s.k",
            "inner lookup",
        ),
    ] {
        let plan = session.plan(sql);
        assert!(plan.contains(&format!("Join {join}")), "{plan}");
    }
    refused(
        &session,
        &[
            (
                "SELECT r.w FROM r JOIN l FOR SYSTEM_TIME AS OF r.p AS s ON r.id = s.id",
                "MS2007 1:24+47 FOR SYSTEM_TIME AS OF a processing time of an endless table",
                "bounded",
            ),
            (
                "SELECT r.w FROM r JOIN side FOR SYSTEM_TIME AS OF r.w AS s ON r.id = s.k",
                "MS2009 1:51+3 FOR SYSTEM_TIME AS OF needs a time attribute",
                "PROCTIME",
            ),
            ("SELECT r.w FROM r RIGHT JOIN side FOR SYSTEM_TIME AS OF r.p AS s ON r.id = s.k", "MS2001 1:30+", ""),
            ("SELECT * FROM side FOR SYSTEM_TIME AS OF PROCTIME() AS s", "MS2007 1:15+", ""),
        ],
    );
}

#[test]
fn outer_joins_of_streams_change() {
    let ddl = format!("{DDL} CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem');");
    let session = Session::new(&ddl);
    for (kind, shown) in [("LEFT", "left"), ("RIGHT", "right"), ("FULL", "full")] {
        let sql = format!("SELECT l.id FROM l {kind} JOIN r ON l.id = r.id");
        assert!(session.plan(&sql).contains(&format!("Join {shown} regular on [id = id]")), "{}", session.plan(&sql));
        assert!(session.pipelines(&sql).contains(&format!("{shown} join of all rows, partitioned by")), "{sql}");
        let (error, advice) = session.error(&format!("INSERT INTO files {sql}"));
        let message = format!("MS2008 1:13+5 the result of a {kind} JOIN of all rows changes");
        assert!(error.starts_with(&message) && advice.contains("bound the times"), "{error}: {advice}");
    }
    // A time to live is that of rows which are never taken back.
    let counts = "SELECT k, COUNT(*) AS n FROM r GROUP BY k";
    let sql = format!("SELECT l.id, n FROM l JOIN ({counts}) AS c ON l.k = c.k");
    assert!(
        session.pipelines(&sql).contains("inner join of all rows of changes (right)"),
        "{}",
        session.pipelines(&sql)
    );
    let bounded = format!("SELECT k, n FROM ({counts}) AS c LEFT JOIN side USING (k)");
    assert!(session.plan(&bounded).contains("Join left lookup"), "{}", session.plan(&bounded));
    session.bind("SELECT l.id FROM side LEFT JOIN l ON l.id = side.k").unwrap();
    // In batch mode everything is bounded.
    let plan = streams().batch().plan("SELECT l.id FROM l LEFT JOIN r ON l.id = r.id");
    assert!(plan.contains("Join left lookup on [id = id]"), "{plan}");
}

#[test]
fn joins_of_views_and_common_tables() {
    let session = Session::new(&format!("{DDL} CREATE VIEW v AS SELECT id, k FROM l WHERE k > 0;"));
    let sql = "WITH c AS (SELECT id, k * 2 AS k2 FROM v) SELECT a.id, b.k2, v.k FROM c AS a JOIN c AS b ON a.id = b.k2
        JOIN v ON v.id = b.id";
    let plan = session.plan(sql);
    assert_eq!(plan.matches("Scan l").count(), 3, "{plan}");
    assert_eq!(session.schema(sql), "id BIGINT NOT NULL, k2 INT, k INT");
}

#[test]
fn conditions_stay_above_outer_joins() {
    let session = streams();
    let sql = "SELECT l.id FROM l LEFT JOIN side ON l.id = side.k WHERE side.name IS NULL AND l.k = 1";
    assert_eq!(
        lines(&session, sql),
        [
            "Project [id]",
            "Filter [name IS NULL]",
            "Join left lookup on [id = k]",
            "Filter [(k = 1)]",
            "Scan l",
            "Scan side"
        ]
    );
    // FALSE on the right keeps all rows of the left.
    let never = lines(&session, "SELECT l.id FROM l LEFT JOIN side ON FALSE");
    assert_eq!(never[1..], ["Join left lookup on [0 = 0]", "Scan l", "Filter [FALSE]", "Scan side"]);
}

#[test]
fn conditions_that_drop_missing_rows_make_inner_joins() {
    let session = streams();
    for (kind, condition, expected) in [
        ("LEFT", "r.w > 'a'", Some("inner")),
        ("LEFT", "r.k + l.k IN (1, 2) AND l.id = 1", Some("inner")),
        ("RIGHT", "l.v IS NOT NULL", Some("inner")),
        ("FULL", "l.k = r.k", Some("inner")),
        ("FULL", "(l.k = 1 OR l.k > 7) AND r.w = 'a'", Some("inner")),
        ("LEFT", "COALESCE(r.w, 'a') = 'a'", None),
        ("LEFT", "r.w IS NULL", None),
        ("LEFT", "l.v = 'a' OR r.w = 'a'", None),
        ("LEFT", "NOT (r.w IS NOT NULL)", None),
        ("RIGHT", "r.w = 'a'", None),
    ] {
        let sql = format!("SELECT l.id FROM l {kind} JOIN r ON l.id = r.id WHERE {condition}");
        match expected {
            Some(kind) => assert!(session.plan(&sql).contains(&format!("Join {kind} regular")), "{sql}"),
            None => {
                let kept = format!("Join {} regular", kind.to_lowercase());
                assert!(session.plan(&sql).contains(&kept), "{sql}");
            }
        }
    }
    // Of a FULL JOIN one side may remain optional.
    let full = "SELECT l.id, side.k FROM l FULL JOIN side ON l.id = side.k WHERE l.v = 'a'";
    assert!(session.plan(full).contains("Join left lookup on [id = k]"), "{}", session.plan(full));
}

#[test]
fn very_long_lists_are_refused() {
    let list = vec!["z"; 2000].join(", ");
    let (error, _) = tables().error(&format!("SELECT 1 FROM {list}"));
    assert!(error.contains("FROM joins 2000 tables; at most 100 are possible"), "{error}");
}
