//! Subqueries: IN, EXISTS, and values.

use super::errors::check;
use super::joins::{DDL, lines, refused, streams};
use super::{Session, tables};

const L: &str = "(SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))";
const R: &str = "(SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))";
const SAME: &str = "a.window_start = b.window_start AND a.window_end = b.window_end";

#[test]
fn window_semi_and_anti_joins() {
    let session = streams();
    for (condition, join) in [
        (format!("id IN (SELECT id FROM {R} AS b WHERE {SAME})"), "semi window on [id = id]\n"),
        (
            format!("EXISTS (SELECT * FROM {R} AS b WHERE a.id = b.id AND {SAME} AND b.w > 'm' AND a.v < w)"),
            "semi window on [id = id] and (v < w)\n",
        ),
        (format!("NOT EXISTS (SELECT 1 FROM {R} b WHERE a.id = b.id AND {SAME})"), "anti window on [id = id]\n"),
        // NULLs: what may be NULL is not a key of NOT IN.
        (
            format!("a.k NOT IN (SELECT b.k FROM {R} b WHERE {SAME})"),
            "anti window on [window_start = window_start] and NOT (CAST(k AS BIGINT) = k) IS FALSE",
        ),
        (
            format!("(id, window_start, window_end) IN (SELECT id, window_start, window_end FROM {R})"),
            "semi window on [id = id]\n",
        ),
    ] {
        let plan = session.plan(&format!("SELECT a.id, a.window_start FROM {L} AS a WHERE {condition}"));
        assert!(plan.contains(&format!("Join {join}")), "{condition}\n{plan}");
    }
    // Rows keep their windows.
    let counted = format!(
        "SELECT COUNT(*) AS n FROM {L} AS a WHERE NOT EXISTS (SELECT 1 FROM {R} b WHERE {SAME})
         GROUP BY window_start, window_end"
    );
    assert_eq!(session.schema(&counted), "n BIGINT NOT NULL");
}

#[test]
fn bounded_subqueries() {
    let session = streams();
    let sql = "SELECT id FROM l WHERE k > 1 AND id IN (SELECT DISTINCT k FROM side WHERE name <> 'x') AND v > 'a'";
    assert_eq!(
        lines(&session, sql),
        [
            "Project [id]",
            "Join semi lookup on [id = k]",
            "Filter [((k > 1) AND (v > 'a'))]",
            "Scan l",
            "Project [k]",
            "Filter [(name <> 'x')]",
            "Scan side",
        ]
    );
    let anti = session.plan("SELECT id FROM l WHERE (id NOT IN (SELECT k FROM side))");
    assert!(anti.contains("Join anti lookup on [id = k]\n"), "{anti}");
    let nullable = session.plan("SELECT id FROM l WHERE NOT k IN (SELECT k FROM side2)");
    assert!(nullable.contains("Join anti lookup on [0 = 0] and NOT (k = k) IS FALSE"), "{nullable}");
    let exists = session.plan("SELECT id FROM l WHERE EXISTS (SELECT 1 FROM side WHERE side.k = l.id AND l.k > 5)");
    assert!(exists.contains("Join semi lookup on [id = k]"), "{exists}");
    assert!(exists.contains("Filter [(k > 5)]"), "{exists}");
    // A name means the table of the subquery first; the other one needs its table.
    let inner = session.plan("SELECT id FROM l WHERE EXISTS (SELECT 1 FROM side2 WHERE k = l.k)");
    assert!(inner.contains("Join semi lookup on [k = k]"), "{inner}");
    let nested =
        "SELECT id FROM l WHERE id IN (SELECT s.k FROM side s WHERE s.k IN (SELECT k FROM side2) AND s.name = l.v)";
    assert_eq!(session.plan(nested).matches("Join semi lookup").count(), 2, "{}", session.plan(nested));
    // The time of the rows stays event time.
    let windowed = "SELECT COUNT(*) AS n FROM (SELECT ts FROM l WHERE id IN (SELECT k FROM side))
        GROUP BY TUMBLE(ts, INTERVAL '1' DAY)";
    assert_eq!(session.schema(windowed), "n BIGINT NOT NULL");
}

#[test]
fn membership_in_streams_is_kept_up_to_date() {
    let files = "CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem');";
    let session = Session::new(&format!("{DDL} {files}"));
    // A row that has a partner keeps it.
    let found = "SELECT id FROM l WHERE id IN (SELECT id FROM r)";
    assert!(session.pipelines(found).contains("semi join of all rows, partitioned by"), "{}", session.pipelines(found));
    session.bind(&format!("INSERT INTO files {found}")).unwrap();
    for sql in [
        "SELECT id FROM l WHERE id NOT IN (SELECT k FROM r)",
        "SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.id = l.id)",
    ] {
        assert!(session.pipelines(sql).contains("anti join of all rows"), "{}", session.pipelines(sql));
        let (error, _) = session.error(&format!("INSERT INTO files {sql}"));
        assert!(error.starts_with("MS2008 1:13+5 the result of NOT IN or NOT EXISTS over all rows changes"), "{error}");
    }
}

#[test]
fn what_cannot_be() {
    refused(
        &streams(),
        &[
            (
                "SELECT id FROM l WHERE id IN (SELECT k, name FROM side)",
                "MS2006 1:24+31 IN compares 1 value with 2",
                "",
            ),
            (
                "SELECT id FROM l WHERE id IN (SELECT name FROM side WHERE nme = 'a')",
                "MS2003 1:59+3 unknown column `nme`",
                "",
            ),
            ("SELECT id FROM l WHERE k = 1 OR id IN (SELECT k FROM side)", "MS2007 1:33+25 IN (subquery)", "AND"),
            ("SELECT id IN (SELECT k FROM side) FROM l", "MS2007 1:8+25 IN (subquery)", "AND"),
            ("SELECT id FROM l WHERE k = (SELECT MAX(k) FROM r)", "MS2008", "bounded table"),
        ],
    );
    let mut deep = "SELECT k FROM side WHERE k = l.id".to_owned();
    for _ in 0..12 {
        deep = format!("SELECT k FROM side WHERE k IN ({deep})");
    }
    let (error, _) = streams().error(&format!("SELECT id FROM l WHERE id IN ({deep})"));
    assert!(error.contains("levels deep"), "{error}");
}

/// A table that ends by itself.
const ONE: &str = "(SELECT * FROM (VALUES (7, 'seven')) AS t(a, b))";

#[test]
fn values_are_looked_up() {
    let session = tables();
    for (sql, schema) in [
        (format!("SELECT i + (SELECT a FROM {ONE}) AS s FROM t"), "s INT"),
        // An aggregation of everything has one row, which need not be counted.
        (format!("SELECT (SELECT b FROM {ONE} WHERE a > 1) AS x"), "x CHAR(5)"),
        (format!("SELECT i FROM t WHERE nn > (SELECT a FROM {ONE})"), "i INT"),
    ] {
        assert_eq!(session.schema(&sql), schema, "{sql}");
        assert!(session.plan(&sql).contains("Join inner lookup"), "{}", session.plan(&sql));
    }
    // Equal subqueries are one; event time stays.
    let both = format!(
        "SELECT SUM(nn + (SELECT a FROM {ONE})) AS s, MAX((SELECT a FROM {ONE})) AS m FROM t \
         GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)"
    );
    assert_eq!(session.plan(&both).matches("Join inner lookup").count(), 1, "{}", session.plan(&both));
    let batch = tables().batch();
    let found = lines(&batch, "SELECT i, SUM(l) * 100 / (SELECT SUM(l) FROM t) AS percent FROM t GROUP BY i");
    // The value is joined to the groups, without a count of its rows.
    assert!(found[1].starts_with("Join inner lookup") && !found.concat().contains("COUNT(*)"), "{found:?}");
    let found = lines(&batch, "SELECT l > (SELECT AVG(l) FROM t) AS big, COUNT(*) AS n FROM t GROUP BY big");
    assert!(found[1].starts_with("Aggregate") && found[2].starts_with("Join inner lookup"), "{found:?}");
    check(&[
        ("SELECT (SELECT k FROM z) FROM t", "MS2008 1:9+15 a subquery as a value reads an endless input", "bounded"),
        ("SELECT (SELECT 1, 2)", "MS2006 1:9+11 a subquery as a value has one column, not 2", "one expression"),
        ("SELECT (SELECT i) FROM t", "MS2003 1:16+1 unknown column `i`", "sees only its own tables"),
    ]);
}
