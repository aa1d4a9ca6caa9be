//! Joins of aggregations by the same windows and keys, which are one aggregation: the rows are those of a join.

use crate::configurations::Configuration;
use arrow_cast::display::array_value_to_string;
use millstream::{Collected, RunMonitor, Session};

/// Two streams. Of each some keys, and some windows, have no rows of the other.
const TABLES: [&str; 2] = [
    "CREATE TABLE l (id BIGINT NOT NULL, k AS id % 7, v AS id * 3, ts AS TO_TIMESTAMP_LTZ(id * 11, 3), WATERMARK FOR ts AS ts) WITH (\
     'connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', \
     'fields.id.end' = '3000')",
    "CREATE TABLE r (id BIGINT NOT NULL, k AS id % 5 + id % 2 * 4, v AS id, ts AS TO_TIMESTAMP_LTZ(id * 13 + 9000, 3), WATERMARK FOR \
     ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', \
     'fields.id.end' = '2000')",
];

fn session(settings: &[(&str, &str)]) -> Session {
    let mut session = Configuration::new("joins", settings).session();
    TABLES.iter().for_each(|table| {
        session.run(table).unwrap();
    });
    session
}

/// The rows of a query in order.
pub(crate) fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let mut results = Collected::new();
    session.execute(&session.parse(sql).unwrap()[0], &mut results, &RunMonitor::new()).unwrap();
    let batch = results.into_batch().unwrap();
    let cell = |column: usize, row: usize| array_value_to_string(batch.column(column), row).unwrap();
    let line = |row: usize| (0..batch.num_columns()).map(|column| cell(column, row)).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = (0..batch.num_rows()).map(line).collect();
    lines.sort_unstable();
    lines
}

fn side(table: &str, window: &str, having: &str) -> String {
    format!(
        "SELECT window_start AS ws, window_end AS we, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) FILTER (WHERE v % 2 = 0) AS m, \
         AVG(v) AS a FROM TABLE({window}) GROUP BY window_start, window_end, k {having}"
    )
    .replace("TABLE t", &format!("TABLE {table}"))
}

const WINDOWS: [&str; 2] = [
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)",
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)",
];

#[test]
fn the_rows_are_those_of_a_join() {
    for (settings, window) in [
        (&[("parallelism.default", "2")][..], WINDOWS[0]),
        (&[("parallelism.default", "1"), ("pipeline.tier", "interpreted")], WINDOWS[1]),
    ] {
        let mut session = session(settings);
        for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            for (left, right, residual) in [
                ("", "", ""),
                ("HAVING SUM(v) % 3 <> 1", "HAVING 100 / COUNT(*) < 30", ""),
                ("", "", "AND l.n + 3 < r.n * 2"),
            ] {
                if kind != "JOIN" && !residual.is_empty() {
                    continue;
                }
                // Without rows of a side its filter would divide by zero.
                let query = |key: &str| {
                    format!(
                        "SELECT l.ws, r.we, l.k AS lk, r.k AS rk, l.n AS ln, l.s AS ls, l.m AS lm, l.a AS la, r.n AS rn, r.s AS rs, \
                         r.m AS rm, r.a AS ra FROM ({}) l {kind} ({}) r ON l.ws = r.ws AND l.we = r.we AND {key} {residual}",
                        side("l", window, left),
                        side("r", window, right)
                    )
                };
                // A key that is computed is not the group's.
                let (one, two) = (query("l.k = r.k"), query("l.k + 0 = r.k"));
                let plan = |sql: &str| session.explain(&session.parse(sql).unwrap()[0], false).unwrap();
                assert!(!plan(&one).contains("window join"), "{}", plan(&one));
                assert!(plan(&two).contains("window join"), "{}", plan(&two));
                let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
                assert!(one.len() > 10 && one == two, "{kind} {window} {left} {right} {residual}: {one:#?} {two:#?}");
            }
        }
    }
}

#[test]
fn keys_may_be_null_or_come_in_another_order() {
    let mut session = session(&[("parallelism.default", "2")]);
    let side = |table: &str, keys: &str| {
        format!(
            "SELECT window_start AS ws, window_end AS we, a, b, COUNT(*) AS n FROM (SELECT *, NULLIF(k, 3) AS a, v % 2 AS b FROM \
             TABLE({})) GROUP BY {keys}, window_start, window_end",
            WINDOWS[0].replace("TABLE t", &format!("TABLE {table}"))
        )
    };
    let query = |key: &str| {
        format!(
            "SELECT l.ws, l.a, l.b, l.n AS ln, r.n AS rn FROM ({}) l JOIN ({}) r ON l.ws = r.ws AND l.we = r.we AND {key} AND \
             l.b = r.b",
            side("l", "a, b"),
            side("r", "b, a")
        )
    };
    let (one, two) = (query("l.a = r.a"), query("l.a + 0 = r.a"));
    assert!(!session.explain(&session.parse(&one).unwrap()[0], false).unwrap().contains("window join"));
    let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
    assert!(one.len() > 10 && one == two, "{one:#?} {two:#?}");
}

#[test]
fn other_joins_stay_joins() {
    let mut session = session(&[]);
    session.run(&format!("CREATE TEMPORARY VIEW one AS {}", side("l", WINDOWS[0], ""))).unwrap();
    for (right, on) in [
        (side("r", WINDOWS[0], ""), "l.ws = r.ws AND l.we = r.we AND l.k = r.k AND l.n = r.n"),
        (side("r", WINDOWS[0], ""), "l.ws = r.ws AND l.we = r.we"),
        // One aggregation that is there already.
        ("SELECT * FROM one".into(), "l.ws = r.ws AND l.we = r.we AND l.k = r.k"),
    ] {
        let sql = format!("SELECT l.n AS ln, r.n AS rn FROM one AS l JOIN ({right}) r ON {on}");
        let plan = session.explain(&session.parse(&sql).unwrap()[0], false).unwrap();
        assert!(plan.contains("window join"), "{on}: {plan}");
    }
}

/// The plan of a join by `window_time` of windows of one table.
fn plan_by_time(session: &Session, left: &str, right: &str) -> String {
    let side = |window: &str| {
        format!("SELECT k, window_time AS at, COUNT(*) AS n FROM TABLE({window}) GROUP BY k, window_start, window_end, window_time")
            .replace("TABLE t", "TABLE l")
    };
    let sql = format!(
        "SELECT a.k, a.n, b.n AS m FROM ({}) a JOIN ({}) b ON a.k = b.k AND a.at = b.at",
        side(left),
        side(right)
    );
    session.explain(&session.parse(&sql).unwrap()[0], false).unwrap()
}

#[test]
fn windows_that_end_together_are_one_aggregation_where_that_pays() {
    let hop = |slide: i64, size: i64| {
        format!("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND, INTERVAL '{size}' SECOND)")
    };
    let mut session = session(&[]);
    let plan = plan_by_time(&session, WINDOWS[0], &hop(2, 8));
    assert!(plan.contains("of components [0] the last 2000 ms") && !plan.contains("operator 0"), "{plan}");
    for (left, right) in [
        // They end at other times; the shorter one has many slices.
        (hop(2, 3), hop(2, 8)),
        (hop(1, 20), hop(1, 60)),
    ] {
        let plan = plan_by_time(&session, &left, &right);
        assert!(plan.contains("operator 0: inner interval join"), "{left} {right}: {plan}");
    }
    // When clocks are put forward, two windows of local time end at one instant.
    session.set("table.local-time-zone", "America/New_York").unwrap();
    let plan = plan_by_time(&session, WINDOWS[0], &hop(2, 8));
    assert!(plan.contains("operator 0: inner interval join"), "{plan}");
}
