//! Interval joins: the bounds that conditions set.

use super::joins::streams;
use millstream_plan::logical::{JoinStrategy, Rel};

fn bounds(rel: &Rel) -> Option<(i64, i64)> {
    match rel {
        Rel::Join { strategy: JoinStrategy::Interval { lower_ms, upper_ms, .. }, .. } => Some((*lower_ms, *upper_ms)),
        other => other.inputs().into_iter().find_map(bounds),
    }
}

#[test]
fn bounds_of_conditions() {
    let session = streams();
    for (condition, expected) in [
        ("l.ts BETWEEN r.ts - INTERVAL '5' SECOND AND r.ts + INTERVAL '1' MINUTE", Some((-5_000, 60_000))),
        ("l.ts >= r.ts - INTERVAL '5' SECOND AND l.ts < r.ts", Some((-5_000, -1))),
        ("r.ts + INTERVAL '1' SECOND < l.ts AND l.ts <= r.ts + INTERVAL '2' SECOND", Some((1_001, 2_000))),
        ("r.ts BETWEEN l.ts AND l.ts + INTERVAL '10' SECOND", Some((-10_000, 0))),
        ("l.ts = r.ts", Some((0, 0))),
        ("l.ts = r.ts + INTERVAL '3' SECOND", Some((3_000, 3_000))),
        ("l.ts + INTERVAL '1' SECOND > r.ts AND l.ts - INTERVAL '1' SECOND < r.ts", Some((-999, 999))),
        (
            "l.ts > r.ts AND l.ts > r.ts + INTERVAL '1' SECOND AND l.ts < r.ts + INTERVAL '1' HOUR",
            Some((1_001, 3_599_999)),
        ),
        ("NOT (l.ts < r.ts OR l.ts > r.ts + INTERVAL '2' SECOND)", Some((0, 2_000))),
        ("NOT l.ts < r.ts AND NOT (NOT l.ts < r.ts + INTERVAL '1' SECOND)", Some((0, 999))),
        ("l.ts NOT BETWEEN r.ts AND r.ts + INTERVAL '1' SECOND", None),
        // Contradictory bounds: nothing meets.
        ("l.ts > r.ts AND l.ts < r.ts", Some((1, 1))),
        // Without both bounds it is a regular join.
        ("l.ts > r.ts", None),
        ("l.ts > r.ts AND l.ts < r.ts + INTERVAL '1' MONTH", None),
        ("l.ts > r.ts - INTERVAL '1' DAY OR l.ts < r.ts", None),
        ("l.ts BETWEEN CAST(r.ts AS TIMESTAMP(6)) - INTERVAL '5' SECOND AND r.ts", Some((-5_000, 0))),
    ] {
        let sql = format!("SELECT l.id FROM l JOIN r ON l.id = r.id AND {condition}");
        assert_eq!(bounds(&session.query(&sql)), expected, "{condition}");
    }
}

#[test]
fn what_remains_is_tested() {
    let session = streams();
    let plan = session.plan(
        "SELECT l.id FROM l, r WHERE l.id = r.id AND l.v <> r.w AND l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' SECOND",
    );
    assert!(
        plan.contains("Join inner interval (ts between ts +0 ms and +1000 ms) on [id = id] and (v <> w)"),
        "{plan}"
    );
    let empty = session.plan("SELECT l.id FROM l LEFT JOIN r ON l.id = r.id AND l.ts > r.ts AND l.ts < r.ts");
    assert!(empty.contains("on [id = id] and FALSE"), "{empty}");
    // Without keys every row meets every one of its time.
    let plan = session.plan("SELECT l.id FROM l JOIN r ON l.ts > r.ts AND l.ts < r.ts + INTERVAL '1' SECOND");
    assert!(plan.contains("on [0 = 0]\n"), "{plan}");
    let plan = session.plan("SELECT l.id FROM l JOIN r ON l.ts = r.ts");
    assert!(plan.contains("interval (ts between ts +0 ms and +0 ms) on [ts = ts]\n"), "{plan}");
}

#[test]
fn both_times_remain_event_times() {
    let session = streams();
    let join = |kind: &str| {
        format!(
            "SELECT l.ts AS a, r.ts AS b FROM l {kind} JOIN r ON l.id = r.id AND l.ts BETWEEN r.ts AND r.ts + INTERVAL '1' DAY"
        )
    };
    let count = |kind: &str, column: &str| {
        format!("SELECT COUNT(*) AS n FROM ({}) GROUP BY TUMBLE({column}, INTERVAL '1' DAY)", join(kind))
    };
    for (kind, column) in [("", "a"), ("", "b"), ("LEFT", "a"), ("RIGHT", "b")] {
        assert_eq!(session.schema(&count(kind, column)), "n BIGINT NOT NULL", "{kind} {column}");
    }
    for (kind, column) in [("LEFT", "b"), ("RIGHT", "a"), ("FULL", "a"), ("FULL", "b")] {
        let (error, _) = session.error(&count(kind, column));
        assert!(error.contains("is not a time attribute"), "{error}");
    }
    assert_eq!(session.schema(&join("FULL")), "a TIMESTAMP(3), b TIMESTAMP(3)");
}

#[test]
fn processing_time_bounds_nothing() {
    let sql =
        "SELECT a.id FROM r AS a LEFT JOIN r AS b ON a.id = b.id AND a.p BETWEEN b.p AND b.p + INTERVAL '1' SECOND";
    assert!(streams().plan(sql).contains("Join left regular on [id = id] and"), "{}", streams().plan(sql));
}
