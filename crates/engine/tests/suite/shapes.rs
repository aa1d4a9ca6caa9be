//! Which queries resume from each other's state: what is compared is what they keep, not how they are written.

use millstream::{Fit, PlanShape, Session, SessionConfig};

const TABLES: &str = "
    CREATE TABLE t (k BIGINT, v BIGINT, s STRING, r ROW<x BIGINT, `y.z` STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector'='filesystem', 'path'='t.json', 'format'='json');
    CREATE TABLE u (k BIGINT, w BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
        WITH ('connector'='filesystem', 'path'='u.json', 'format'='json');
    CREATE TABLE o (a STRING) WITH ('connector'='blackhole');
    CREATE TABLE p (a STRING) WITH ('connector'='blackhole');
    CREATE TABLE q (a STRING) WITH ('connector'='blackhole');";

/// The shape of a query into `o`, or of a statement set.
fn shape_with(tables: &str, text: &str) -> PlanShape {
    let mut session = Session::new(SessionConfig::default());
    session.run(tables).unwrap();
    let statement = match text.starts_with("EXECUTE") {
        true => text.to_string(),
        false => format!("INSERT INTO o SELECT CAST(a AS STRING) FROM ({text}) AS x (a);"),
    };
    let parsed = session.parse(&statement).unwrap_or_else(|e| panic!("{text}: {e}"));
    session.prepare(&parsed[0]).unwrap_or_else(|e| panic!("{text}: {e}")).shape()
}

fn shape(text: &str) -> PlanShape {
    shape_with(TABLES, text)
}

/// As a checkpoint has it.
fn stored(shape: &PlanShape) -> PlanShape {
    serde_json::from_str(&serde_json::to_string(shape).unwrap()).unwrap()
}

fn set(inserts: &[&str]) -> String {
    format!("EXECUTE STATEMENT SET BEGIN {}; END;", inserts.join("; "))
}

const TUMBLE: &str = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))";
const BY: &str = "GROUP BY k, window_start, window_end";

#[test]
fn what_keeps_the_same_state_goes_on() {
    let sum = format!("SELECT SUM(v) {TUMBLE} {BY}");
    let join =
        "SELECT t.v FROM t JOIN u ON t.k = u.k AND t.v < u.w AND u.ts BETWEEN t.ts AND t.ts + INTERVAL '1' MINUTE";
    let cases = [
        // Above the state.
        (sum.clone(), format!("SELECT SUM(v) {TUMBLE} {BY} HAVING SUM(v) > 3")),
        (sum.clone(), format!("SELECT SUM(v) * 2 + k {TUMBLE} {BY}")),
        (sum.clone(), format!("SELECT n + 1 FROM (SELECT SUM(v) AS n {TUMBLE} {BY}) WHERE n IS NOT NULL")),
        // The same in other words.
        (sum.clone(), format!("SELECT total FROM (SELECT k AS `key`, SUM(v) AS total {TUMBLE} {BY})")),
        (
            format!("SELECT SUM(v) {TUMBLE} WHERE v > 1 AND s = 'a' {BY}"),
            format!("SELECT SUM(v) {TUMBLE} WHERE 'a' = s AND 1 < v {BY}"),
        ),
        (
            format!("SELECT SUM(v) {TUMBLE} WHERE v IN (1, 2, 3) OR s = 'a' {BY}"),
            format!("SELECT SUM(v) {TUMBLE} WHERE s = 'a' OR v IN (3, 1, 2) {BY}"),
        ),
        (
            format!("SELECT SUM(r.x) {TUMBLE} GROUP BY r.`y.z`, window_start, window_end"),
            "SELECT SUM(n) FROM TABLE(TUMBLE((SELECT r.x AS n, r.`y.z` AS m, ts FROM t), DESCRIPTOR(ts), INTERVAL '10' SECOND))
             GROUP BY m, window_start, window_end"
                .into(),
        ),
        (join.into(), join.replace("t.v < u.w", "u.w > t.v")),
        (join.into(), join.replace("SELECT t.v", "SELECT t.v * 7 - t.k")),
        (
            "SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM t".into(),
            "SELECT x + 1 FROM (SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts) AS x FROM t) WHERE x > 5".into(),
        ),
        // What keeps nothing may change as it likes, as long as it reads the same.
        ("SELECT v FROM t WHERE v > 1".into(), "SELECT k * 2 FROM t WHERE s LIKE 'a%' OR k < 0".into()),
    ];
    for (before, after) in cases {
        shape(&after).fit(&stored(&shape(&before))).unwrap_or_else(|e| panic!("{before}\n{after}\n{e}"));
    }
}

#[test]
fn what_keeps_other_state_is_refused_with_the_field() {
    let sum = |of: &str, filter: &str, by: &str| {
        format!("SELECT {of} {TUMBLE} {filter} GROUP BY {by}, window_start, window_end")
    };
    let plain = sum("SUM(v)", "", "k");
    let join =
        "SELECT t.v FROM t JOIN u ON t.k = u.k AND t.v < u.w AND u.ts BETWEEN t.ts AND t.ts + INTERVAL '1' MINUTE";
    let window_join = "SELECT l.v FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) l
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '10' SECOND))) r
        ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end";
    let over = "SELECT SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM t";
    let session = |gap: u32, filter: &str| {
        format!(
            "SELECT COUNT(*) FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{gap}' SECOND)) {filter}
             GROUP BY k, window_start, window_end"
        )
    };
    let nested = |v: u32| {
        format!(
            "SELECT MAX(n) FROM (SELECT k, COUNT(*) AS n, window_time AS ts {TUMBLE} WHERE v > {v} GROUP BY k, window_start, window_end, window_time)
             GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
        )
    };
    let joined = |bound: &str| {
        format!(
            "SELECT COUNT(*) FROM t JOIN u AS b ON t.k = b.k AND t.v < {bound} AND b.ts BETWEEN t.ts AND t.ts + INTERVAL '1' MINUTE
             GROUP BY t.k, TUMBLE(t.ts, INTERVAL '1' MINUTE)"
        )
    };
    let cases: Vec<(String, String, &[&str])> = vec![
        (plain.clone(), sum("SUM(v)", "", "s"), &["the types of its keys changed from BIGINT to STRING"]),
        (plain.clone(), sum("SUM(v)", "", "v"), &["windowed aggregation by k", "its key changed from k to v"]),
        (plain.clone(), plain.replace("'10'", "'20'"), &["size_ms changed from 10000 to 20000"]),
        (plain.clone(), sum("AVG(v)", "", "k"), &["its aggregates changed from SUM to AVG"]),
        (plain.clone(), sum("SUM(k)", "", "k"), &["what it is given"]),
        (plain.clone(), sum("SUM(v)", "WHERE v > 1", "k"), &["the filter before it changed from nothing to (v > 1)"]),
        (sum("SUM(v)", "WHERE v > 1", "k"), plain.clone(), &["the filter before it changed from (v > 1) to nothing"]),
        (sum("SUM(v)", "WHERE s = 'a'", "k"), sum("SUM(v)", "WHERE s = 'b'", "k"), &["the filter", "'a'", "'b'"]),
        (
            sum("SUM(v) FILTER (WHERE v > 1)", "", "k"),
            sum("SUM(v) FILTER (WHERE v > 2)", "", "k"),
            &["what it is given"],
        ),
        (
            sum("SUM(v)", "", "k"),
            sum("SUM(v)", "", "k").replace("TABLE t,", "TABLE u,").replace("SUM(v)", "SUM(w)"),
            &["t", "u"],
        ),
        (join.into(), join.replace("t.v < u.w", "t.v <= u.w"), &["its condition"]),
        (join.into(), join.replace("t.k = u.k", "t.v = u.k"), &["its key"]),
        (join.into(), join.replace("'1' MINUTE", "'2' MINUTE"), &["lower_ms", "60000", "120000"]),
        (join.into(), join.replace(" JOIN", " LEFT JOIN"), &["join changed from INNER to LEFT"]),
        (join.into(), format!("{join} WHERE u.w > 0"), &["the filter before it"]),
        (join.into(), join.replace("SELECT t.v", "SELECT t.s"), &["what it is given"]),
        (window_join.into(), format!("{window_join} WHERE l.v > 0"), &["window join by k", "the filter before it"]),
        (over.into(), over.replace("3 PRECEDING", "4 PRECEDING"), &["frame", "3 rows", "4 rows"]),
        (over.into(), over.replace("SUM(v)", "AVG(v)"), &["its aggregates"]),
        (over.into(), format!("{over} WHERE k > 0"), &["OVER aggregation by k", "the filter"]),
        (session(1, ""), session(2, ""), &["gap_ms changed from 1000 to 2000"]),
        (session(1, ""), session(1, "WHERE v > 0"), &["what it is changed from session aggregation to sessions"]),
        // The cause is told, not what follows from it.
        (
            joined("b.w + 3"),
            joined("b.w + 4"),
            &["interval join by k", "its condition changed from (v < (w + 3)) to (v < (w + 4))"],
        ),
        (nested(1), nested(2), &["by k", "(v > 1)", "(v > 2)"]),
        (plain.clone(), "SELECT v FROM t".into(), &["the state of the windowed aggregation by k", "does not have"]),
        ("SELECT v FROM t".into(), plain, &["INSERT INTO o read t, and reads windowed aggregation by k now"]),
        ("SELECT v FROM t".into(), "SELECT w FROM u".into(), &["the query read t, and reads u now"]),
    ];
    for (before, after, says) in cases {
        let kept = stored(&shape(&before));
        shape(&before).fit(&kept).unwrap_or_else(|e| panic!("{before}\n{e}"));
        let refused = shape(&after).fit(&kept).map_err(|e| e.to_string());
        let refused = refused.expect_err(&format!("{before}\n{after}"));
        assert!(says.iter().all(|part| refused.contains(part)), "{before}\n{after}\n{refused}");
    }
}

#[test]
fn no_name_or_literal_hides_a_change() {
    // What such names did to the text of a plan.
    let hostile = [
        ", merge ",
        "\nemit into sink 0",
        ", reads [",
        "`'\"",
        "'); --",
        "k, v",
        " AND ",
        "\u{1F30D}\u{0}",
        "\\",
        "x.y",
        "x` BIGINT, `y",
    ];
    for name in hostile {
        let quoted = format!("`{}`", name.replace('`', "``"));
        let tables = TABLES.replace("(k BIGINT, v BIGINT,", &format!("({quoted} BIGINT, v BIGINT, k BIGINT,"));
        let shape = |of: &str, filter: &str, by: &str| {
            let filter = if filter.is_empty() { String::new() } else { format!("WHERE {filter}") };
            shape_with(&tables, &format!("SELECT {of} {TUMBLE} {filter} GROUP BY {by}, window_start, window_end"))
        };
        let kept = stored(&shape("SUM(v)", "", &quoted));
        shape("SUM(v) * 2", "", &quoted).fit(&kept).unwrap();
        for (of, filter, by) in [
            ("MAX(v)", "", &*quoted),
            ("SUM(v)", "", "k"),
            ("SUM(v)", "v > 0", &*quoted),
            (&format!("SUM({quoted})"), "", &*quoted),
        ] {
            assert!(shape(of, filter, by).fit(&kept).is_err(), "{name}: {of} {filter} {by}");
        }
        let literal = format!("'{}'", name.replace('\'', "''"));
        let filtered = |text: &str| shape("SUM(v)", &format!("s <> {text}"), "k");
        let kept = stored(&filtered(&literal));
        filtered(&literal).fit(&kept).unwrap();
        for other in ["''".to_string(), format!("'{} '", name.replace('\'', "''")), format!("{literal} AND s <> 'b'")] {
            assert!(filtered(&other).fit(&kept).is_err(), "{literal}: {other}");
        }
        let list = |separator: &str| shape(&format!("LISTAGG(s, {separator})"), "", "k");
        let kept = stored(&list(&literal));
        list(&literal).fit(&kept).unwrap();
        assert!(list("';'").fit(&kept).is_err(), "{literal}");
    }
    // Pairs of texts that give the same text when concatenated.
    let concatenated = |a: &str, b: &str| shape(&format!("SELECT COUNT(*) {TUMBLE} WHERE s || {a} = {b} {BY}"));
    assert!(concatenated("'ab'", "'c'").fit(&concatenated("'a'", "'bc'")).is_err());
}

#[test]
fn inserts_may_come_and_change_places_and_not_go() {
    let (a, b) = (
        format!("INSERT INTO o SELECT CAST(SUM(v) AS STRING) {TUMBLE} {BY}"),
        "INSERT INTO p SELECT CAST(w AS STRING) FROM u".to_string(),
    );
    let kept = stored(&shape(&set(&[&a, &b])));
    shape(&set(&[&a, &b.replace("FROM u", "FROM u WHERE w > 1")])).fit(&kept).unwrap();
    let fit = |inserts: &[&str]| shape(&set(inserts)).fit(&kept).unwrap();
    let (more, other) = (b.replace("INTO p", "INTO q"), a.replace("INTO o", "INTO q").replace("SUM", "MAX"));
    let places = |fit: Fit| (fit.sources, fit.aggregations, fit.sinks);
    let (first, second) = (Some(0), Some(1));
    assert_eq!(places(fit(&[&b, &a])), (vec![second, first], vec![first], vec![second, first]));
    assert_eq!(places(fit(&[&more, &a, &b])), (vec![second, first], vec![first], vec![None, first, second]));
    assert_eq!(places(fit(&[&a, &b, &b])).2, [first, second, None], "into one table");
    let (sources, aggregations, sinks) = places(fit(&[&other, &b, &a]));
    assert_eq!((sources, aggregations, sinks), (vec![first, second], vec![None, first], vec![None, second, first]));
    // What is equal is kept once, but for what gives another value each time.
    assert_eq!(
        places(fit(&[&a, &b, &a.replace("INTO o", "INTO q")])),
        (vec![first, second], vec![first], vec![first, second, None])
    );
    let random = a.replace("GROUP BY", "WHERE RAND() < v GROUP BY");
    let twice = shape(&set(&[&random, &random.replace("INTO o", "INTO q")]));
    let refused = twice.fit(&stored(&shape(&set(&[&random])))).unwrap_err().to_string();
    assert!(refused.contains("more often than the checkpoint"), "{refused}");
    let cases = [
        (set(&[&a]), "the query read u, and does not any more"),
        (set(&[&a, &more]), "INSERT INTO q stands where INSERT INTO p was"),
        (
            set(&[&a, &b.replace("FROM u", "FROM (SELECT k AS w FROM t UNION ALL SELECT w FROM u)")]),
            "INSERT INTO p read u, and reads",
        ),
        (set(&[&b]), "the state of the windowed aggregation by k"),
        // What has changed is told, whatever else is new.
        (
            set(&[&other, &a.replace("SUM(v)", "SUM(k)"), &b]),
            "what it is given changed from k, v, TRUE, v, TRUE to k, k, TRUE, k, TRUE",
        ),
    ];
    for (after, says) in cases {
        let refused = shape(&after).fit(&kept).unwrap_err().to_string();
        assert!(refused.contains(says), "{after}\n{refused}");
    }
    // Constant rows are what they are.
    let constant = |number: u32| shape(&set(&[&format!("INSERT INTO q VALUES ('{number}')"), &a]));
    constant(1).fit(&stored(&constant(1))).unwrap();
    assert!(constant(2).fit(&stored(&constant(1))).is_err());
    // Which of two equal ones has been read cannot be told.
    let twice = shape(&set(&["INSERT INTO p VALUES ('1')", "INSERT INTO q VALUES ('1')", &a]));
    let refused = twice.fit(&stored(&constant(1))).unwrap_err().to_string();
    assert!(refused.contains("more often than the checkpoint"), "{refused}");
    let table = TABLES.to_string()
        + "CREATE TABLE `values` (a STRING) WITH ('connector'='filesystem', 'path'='v.csv', 'format'='csv');";
    let of_table = shape_with(&table, &set(&["INSERT INTO q SELECT a FROM `values`", &a]));
    assert!(of_table.fit(&stored(&constant(1))).is_err());
}

#[test]
fn times_zones_types_and_what_is_shown_belong_to_the_state() {
    let two_times = "SELECT t.v, t.k, t.ts AS a, u.ts AS b FROM t JOIN u ON t.k = u.k AND u.ts BETWEEN t.ts AND t.ts + INTERVAL '1' MINUTE";
    let over = |time: &str| {
        format!(
            "SELECT CAST(SUM(v) OVER (PARTITION BY k ORDER BY {time}) AS STRING) || CAST(a AS STRING) || CAST(b AS STRING) FROM ({two_times})"
        )
    };
    assert!(shape(&over("b")).fit(&stored(&shape(&over("a")))).is_err());
    // The third one shows one of the same two sets.
    let nested = |third: &str| {
        format!(
            "SELECT SUM(z) FROM (SELECT k, COUNT(DISTINCT v) AS x, COUNT(DISTINCT r.x) AS y, SUM(DISTINCT {third}) AS z, window_time AS ts
             {TUMBLE} GROUP BY k, window_start, window_end, window_time) GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)"
        )
    };
    assert!(shape(&nested("r.x")).fit(&stored(&shape(&nested("v")))).is_err());
    shape(&nested("v")).fit(&stored(&shape(&nested("v")))).unwrap();
    let query = format!("SELECT SUM(v) {TUMBLE} WHERE s > '5' {BY}");
    let in_zone = |zone: &str| shape_with(&format!("SET 'table.local-time-zone' = '{zone}'; {TABLES}"), &query);
    let refused = in_zone("Asia/Tokyo").fit(&stored(&in_zone("UTC"))).unwrap_err().to_string();
    assert!(refused.contains("UTC") && refused.contains("Asia/Tokyo"), "{refused}");
    let of_type = |name: &str| {
        shape_with(
            &TABLES.replace("w BIGINT, ts", &format!("w {name}, z {name}, ts")),
            "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE w < z GROUP BY k, window_start, window_end",
        )
    };
    assert!(of_type("STRING").fit(&stored(&of_type("BIGINT"))).is_err());
}

#[test]
fn texts_are_for_people_only() {
    fn reword(value: &mut serde_json::Value) {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    if name == "text" { *value = "quite other words".into() } else { reword(value) }
                }
            }
            serde_json::Value::Array(items) => items.iter_mut().for_each(reword),
            _ => {}
        }
    }
    let now = shape(&format!("SELECT SUM(v) {TUMBLE} WHERE s LIKE 'a%' {BY}"));
    let mut kept = serde_json::to_value(&now).unwrap();
    reword(&mut kept);
    now.fit(&serde_json::from_value(kept).unwrap()).unwrap();
}

/// Digests are in checkpoints: a change of how they are made, of a name that they are made of, or of how plans are made, makes them
/// others. Then `SHAPE_VERSION` is raised.
#[test]
fn shapes_stay_what_they_are() {
    let text = set(&[
        &format!("INSERT INTO o SELECT CAST(SUM(v) AS STRING) {TUMBLE} WHERE UPPER(s) <> 'A' AND v / 2 > 1.5 {BY}"),
        "INSERT INTO q SELECT CAST(t.v AS STRING) FROM t LEFT JOIN u ON t.k = u.k AND t.v < u.w AND u.ts BETWEEN t.ts AND t.ts + INTERVAL '1' MINUTE",
        "INSERT INTO p SELECT CAST(COUNT(DISTINCT r.x) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS STRING) FROM t",
    ]);
    let now = serde_json::to_string_pretty(&shape(&text)).unwrap() + "\n";
    let file = crate::tests_dir().join("shapes.json");
    if std::env::var_os("MILLSTREAM_UPDATE_DOCS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    let differs = now.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert!(now == kept, "{differs:?}: raise SHAPE_VERSION, and write it again with MILLSTREAM_UPDATE_DOCS=1");
}
