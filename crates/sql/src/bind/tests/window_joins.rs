//! Window joins.

use super::joins::streams;
use super::{nexmark, schema_of};
use millstream_plan::logical::{JoinStrategy, Rel};

const L: &str = "(SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))";
const R: &str = "(SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))";

fn window_join(rel: &Rel) -> Option<&Rel> {
    match rel {
        Rel::Join { strategy: JoinStrategy::Window { .. }, .. } => Some(rel),
        other => other.inputs().into_iter().find_map(window_join),
    }
}

#[test]
fn rows_of_table_functions() {
    let session = streams();
    for kind in ["", "LEFT", "RIGHT", "FULL"] {
        let sql = format!(
            "SELECT a.id, b.w, a.window_start, b.window_end FROM {L} AS a {kind} JOIN {R} AS b
             ON a.id = b.id AND a.window_start = b.window_start AND b.window_end = a.window_end AND a.v < b.w"
        );
        let plan = session.plan(&sql);
        let name = if kind.is_empty() { "inner".to_owned() } else { kind.to_lowercase() };
        let join = format!("Join {name} window on [id = id] and (v < w)");
        assert!(plan.contains(&join), "{plan}");
        let rel = session.query(&sql);
        let Some(Rel::Join { strategy: JoinStrategy::Window { left_time, right_time, .. }, left, right, .. }) =
            window_join(&rel)
        else {
            panic!("no window join in {}", schema_of(&rel));
        };
        let name = |rel: &Rel, e: &millstream_plan::expr::Expr| match e.kind {
            millstream_plan::expr::ExprKind::Column(i) => rel.schema().fields[i].name.clone(),
            _ => "an expression".into(),
        };
        assert_eq!((name(left, left_time), name(right, right_time)), ("window_time".into(), "window_time".into()));
    }
}

#[test]
fn nexmark_window_joins() {
    let session = nexmark();
    let q8 = "SELECT p.id, p.name, p.starttime FROM (
            SELECT id, name, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
            GROUP BY id, name, window_start, window_end
        ) AS p JOIN (
            SELECT seller, window_start AS starttime, window_end AS endtime
            FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
            GROUP BY seller, window_start, window_end
        ) AS s ON s.seller = p.id AND s.starttime = p.starttime AND s.endtime = p.endtime";
    let plan = session.plan(q8);
    assert!(plan.contains("Join inner window on [id = seller]\n"), "{plan}");
    let q5 = "WITH counts AS (
            SELECT auction, window_start, window_end, COUNT(*) AS num
            FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end
        ) SELECT c.auction, c.num FROM counts AS c JOIN (
            SELECT window_start, window_end, MAX(num) AS maxn FROM counts GROUP BY window_start, window_end
        ) AS m ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.num >= m.maxn";
    let plan = session.plan(q5);
    let join = "Join inner window on [window_start = window_start] and (num >= maxn)";
    assert!(plan.contains(join), "{plan}");
}

#[test]
fn windows_go_on_after_the_join() {
    let session = streams();
    let join = |kind: &str| {
        format!(
            "SELECT a.window_start AS s, a.window_end AS e, b.window_start AS s2, b.window_end AS e2, a.id FROM {L} AS a
             {kind} JOIN {R} AS b ON a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end"
        )
    };
    let count = |kind: &str, keys: &str| format!("SELECT COUNT(*) AS n FROM ({}) GROUP BY {keys}", join(kind));
    for (kind, keys) in [("", "s, e"), ("", "s2, e2"), ("LEFT", "s, e"), ("RIGHT", "s2, e2")] {
        assert_eq!(session.schema(&count(kind, keys)), "n BIGINT NOT NULL", "{kind} {keys}");
    }
    for (kind, keys) in [("LEFT", "s2, e2"), ("RIGHT", "s, e"), ("FULL", "s, e")] {
        assert!(session.plan(&count(kind, keys)).contains("window=all rows so far"), "{kind} {keys}");
    }
    // A third input joins the windows of the first two.
    let three = format!(
        "SELECT j.id FROM ({}) AS j JOIN {R} AS c ON c.id = j.id AND c.window_start = j.s AND c.window_end = j.e2",
        join("")
    );
    assert_eq!(session.plan(&three).matches("Join inner window").count(), 2, "{}", session.plan(&three));
    // The time of a row is behind the watermark when its window is complete.
    let late = format!(
        "SELECT COUNT(*) FROM (SELECT a.window_time AS t FROM {L} AS a JOIN {R} AS b ON a.id = b.id
            AND a.window_start = b.window_start AND a.window_end = b.window_end) GROUP BY TUMBLE(t, INTERVAL '1' HOUR)"
    );
    assert_eq!(session.schema(&late), "EXPR$0 BIGINT NOT NULL");
}

#[test]
fn not_the_same_windows() {
    let session = streams();
    let other = R.replace("'1' MINUTE", "'2' MINUTE");
    let on = "a.window_start = b.window_start AND a.window_end = b.window_end";
    let plan = session.plan(&format!("SELECT a.id FROM {L} AS a JOIN {other} AS b ON {on}"));
    assert!(plan.contains("Join inner regular on"), "{plan}");
    let plan = session.plan(&format!("SELECT a.id FROM {L} AS a LEFT JOIN {other} AS b ON {on}"));
    assert!(plan.contains("Join left regular on"), "{plan}");
    let half = format!("SELECT a.id FROM {L} AS a LEFT JOIN {R} AS b ON a.window_start = b.window_start");
    assert!(session.plan(&half).contains("Join left regular on"), "{}", session.plan(&half));
}
