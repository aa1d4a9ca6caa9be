//! What tables and windows do with the rows of a query, through SQL: what settings ask for, and what data suggest.

use millstream::{RunMonitor, Session, SessionConfig};

const TABLE: &str = "CREATE TABLE t (id BIGINT, seven INT, ts AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR ts AS ts) WITH (\
     'connector' = 'datagen', 'rows-per-second' = '0', 'fields.id.kind' = 'sequence', \
     'fields.id.start' = '1', 'fields.id.end' = '60000', 'fields.seven.min' = '7', 'fields.seven.max' = '7')";

/// EXPLAIN ANALYZE of a query over ids and times that ascend, with settings.
fn analysis(settings: &[(&str, &str)], query: &str) -> String {
    let mut session = Session::new(SessionConfig::default());
    for (key, value) in [("pipeline.tier", "interpreted"), ("parallelism.default", "1")].iter().chain(settings) {
        session.set(key, value).unwrap();
    }
    session.run(TABLE).unwrap();
    let statement = session.parse(query).unwrap().remove(0);
    session.analyze(&statement, &RunMonitor::new()).unwrap()
}

/// By keys that are far from each other.
const BY_ID: &str = "SELECT id * 65537 AS id, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)) \
     WHERE id % 3 = 0 GROUP BY window_start, window_end, id * 65537";

#[test]
fn rows_with_keys_of_their_own_are_appended_unless_that_is_forbidden() {
    let appended = |settings: &[(&str, &str)], query: &str| analysis(settings, query).contains("rows are appended");
    assert!(appended(&[], BY_ID), "{}", analysis(&[], BY_ID));
    for merge in ["local", "partition"] {
        assert!(appended(&[("pipeline.merge", merge)], BY_ID), "{merge}");
    }
    assert!(!appended(&[("pipeline.pre-aggregate", "always")], BY_ID));
    assert!(!appended(&[("pipeline.pre-aggregate", "never")], BY_ID), "nothing is decided");
    assert!(!appended(&[("pipeline.adaptive", "never")], BY_ID));
    assert!(!appended(&[], &BY_ID.replace("id * 65537", "id % 10")));
    assert!(!appended(&[], &BY_ID.replace("id * 65537", "id")), "an array has dense keys at once");
    assert!(!appended(&[], &BY_ID.replace("COUNT(*)", "COUNT(DISTINCT ts)")), "an object for each row");
}

#[test]
fn windows_are_combined_as_is_set_or_as_is_seen() {
    let query = |aggregate: &str| {
        format!(
            "SELECT id % 10 AS k, {aggregate} AS x FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '0.1' SECOND, \
             INTERVAL '5' SECOND)) GROUP BY window_start, window_end, id % 10"
        )
    };
    for (set, aggregate, shown) in [
        ("auto", "SUM(id)", "combine subtract"),
        ("recompute", "SUM(id)", "combine recompute"),
        ("subtract", "SUM(id)", "combine subtract"),
        ("subtract", "MAX(id)", "combine two stacks"),
        ("two-stacks", "SUM(id)", "combine two stacks"),
    ] {
        let text = analysis(&[("pipeline.combine", set)], &query(aggregate));
        assert!(text.contains(shown), "{set}: {text}");
        assert!(!text.contains("make a window of"), "this way is best, or it is set: {text}");
    }
    // The keys of a slice are in no other.
    let scattered = query("MAX(id)").replace("id % 10", "id");
    let text = analysis(&[], &scattered);
    assert!(text.contains("combine two stacks") && text.contains("slices are merged again"), "{text}");
}

#[test]
fn a_second_run_begins_with_the_variant_of_the_first() {
    let mut session = Session::new(SessionConfig::default());
    let settings =
        [("pipeline.tier", "interpreted"), ("parallelism.default", "1"), ("pipeline.assume-constant", "always")];
    settings.iter().for_each(|(key, value)| session.set(key, value).unwrap());
    // A run of some tenths of a second: a variant is not chosen for one that is over before.
    session.run(&TABLE.replace("60000", "2400000")).unwrap();
    let query = BY_ID.replace("id * 65537", "id % 10").replace("id % 3 = 0", "id % 3 = 0 AND id % seven < 5");
    let analysis = |query: &str| {
        let statement = session.parse(query).unwrap().remove(0);
        session.analyze(&statement, &RunMonitor::new()).unwrap()
    };
    let (first, second) = (analysis(&query), analysis(&format!("\n\n{query}")));
    let resumed = "from the start";
    assert!(first.contains("from now on") && !first.contains(resumed), "{first}");
    assert!(second.contains(resumed), "{second}");
    let other = analysis(&query.replace("% 10", "% 11"));
    assert!(!other.contains(resumed), "{other}");
}

#[test]
fn a_second_run_appends_from_the_start_if_the_first_one_ended_so() {
    let mut session = Session::new(SessionConfig::default());
    for (key, value) in [("pipeline.tier", "interpreted"), ("parallelism.default", "1")] {
        session.set(key, value).unwrap();
    }
    session.run(TABLE).unwrap();
    let analysis = |session: &Session, query: &str| {
        let statement = session.parse(query).unwrap().remove(0);
        session.analyze(&statement, &RunMonitor::new()).unwrap()
    };
    let (decided, resumed) = ("rows are appended, and", "rows are appended from the start");
    let (first, second) = (analysis(&session, BY_ID), analysis(&session, BY_ID));
    assert!(first.contains(decided) && !first.contains(resumed), "{first}");
    assert!(second.contains(resumed) && !second.contains(decided), "{second}");
    session.set("pipeline.pre-aggregate", "always").unwrap();
    let set = analysis(&session, BY_ID);
    assert!(!set.contains("rows are appended"), "{set}");
}
