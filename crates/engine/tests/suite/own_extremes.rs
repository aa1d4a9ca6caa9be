//! Rows with the greatest or least value of their window, which are a ranking: the rows are those of a join.

use crate::configurations::Configuration;
use crate::group_joins::rows;
use millstream::Session;

/// With ties, NULL in keys and values, windows without any, and rows that come late for them.
const TABLE: &str = "CREATE TABLE t (id BIGINT NOT NULL, k AS NULLIF(id * 31 % 5, 3), v AS NULLIF(id * id % (20 + id / 300), 7), \
     name AS 'name ' || CAST(id * id % 11 AS STRING), ts AS TO_TIMESTAMP_LTZ(id * 11 - (id % 13) * 400, 3), \
     WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'datagen', 'rows-per-second' = '0', \
     'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '3000')";

const WINDOWS: [&str; 3] = [
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)",
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3' SECOND)",
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '4' SECOND)",
];

fn session(settings: &[(&str, &str)]) -> Session {
    let mut session = Configuration::new("extremes", settings).session();
    session.run(TABLE).unwrap();
    session
}

fn plan(session: &Session, sql: &str) -> String {
    session.explain(&session.parse(sql).unwrap()[0], false).unwrap()
}

/// Rows of `base` with an extreme of `base`; `compared` are the conditions but for those about the windows.
fn joined(base: &str, keys: &str, extreme: &str, compared: &str) -> String {
    format!(
        "SELECT b.*, m.e, m.ws AS mws, m.we AS mwe FROM ({base}) b JOIN (SELECT {keys} {extreme} AS e, ws, we FROM ({base}) GROUP BY \
         {keys} ws, we) m ON b.ws = m.ws AND b.we = m.we AND {compared}"
    )
}

#[test]
fn the_rows_are_those_of_a_join() {
    for settings in [
        &[("parallelism.default", "2")][..],
        &[("parallelism.default", "1"), ("pipeline.tier", "interpreted")],
        &[("parallelism.default", "2"), ("pipeline.buffer-rows", "64")],
    ] {
        let mut session = session(settings);
        for window in WINDOWS {
            let raw = format!("SELECT id, k, v, name, window_start AS ws, window_end AS we FROM TABLE({window})");
            let filtered = format!("{raw} WHERE id % 3 = 0");
            let grouped = format!(
                "SELECT k, name, COUNT(*) AS n, SUM(v) AS v, window_start AS ws, window_end AS we FROM TABLE({window}) \
                 GROUP BY k, name, window_start, window_end"
            );
            for (base, keys, extreme, compared, unknown) in [
                (&raw, "", "MAX(v)", "b.v = m.e", "b.v + 0 = m.e"),
                (&raw, "", "MIN(v)", "m.e >= b.v AND b.id % 2 = 0", "m.e >= b.v + 0 AND b.id % 2 = 0"),
                (&raw, "k,", "MAX(name)", "b.k = m.k AND b.name >= m.e", "b.k + 0 = m.k AND b.name >= m.e"),
                (&filtered, "", "MAX(v)", "b.v >= m.e", "b.v + 0 >= m.e"),
                (&grouped, "", "MAX(n)", "b.n >= m.e", "b.n + 0 >= m.e"),
                (&grouped, "k,", "MIN(v)", "b.v = m.e AND m.k = b.k", "b.v + 0 = m.e AND m.k = b.k"),
                (&grouped, "name,", "MAX(v)", "b.name = m.name AND b.v = m.e", "b.name || '' = m.name AND b.v = m.e"),
            ] {
                let (one, two) = (joined(base, keys, extreme, compared), joined(base, keys, extreme, unknown));
                let (known, unknown) = (plan(&session, &one), plan(&session, &two));
                assert!(known.contains("RANK 1 to 1") && !known.contains("window join"), "{known}");
                assert!(unknown.contains("window join"), "{unknown}");
                let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
                assert!(one.len() > 10 && one == two, "{window} {extreme} {compared}: {one:#?} {two:#?}");
            }
        }
    }
}

#[test]
fn sides_may_be_mirrored_filtered_or_only_asked_for() {
    let mut session = session(&[("parallelism.default", "2")]);
    let base = format!("SELECT id, k, v, window_start AS ws, window_end AS we FROM TABLE({})", WINDOWS[0]);
    let most = |having: &str| format!("(SELECT MAX(v) AS e, ws, we FROM ({base}) GROUP BY ws, we {having}) m");
    for (query, value) in [
        // What only the rows leave out leaves the maximum as it is.
        (
            format!(
                "SELECT b.id, m.e FROM {} JOIN (SELECT * FROM ({base}) WHERE id % 4 > 0) b ON m.ws = b.ws AND m.we = b.we AND m.e = VALUE",
                most("")
            ),
            "b.v",
        ),
        (
            format!(
                "SELECT b.id, b.v FROM ({base}) b JOIN {} ON m.ws = b.ws AND m.we = b.we AND m.e = VALUE",
                most("HAVING MAX(v) < 25")
            ),
            "b.v",
        ),
        (
            format!(
                "SELECT id, v FROM ({base}) b WHERE EXISTS (SELECT * FROM {} WHERE m.ws = b.ws AND m.we = b.we AND m.e = VALUE)",
                most("")
            ),
            "b.v",
        ),
    ] {
        let (one, two) = (query.replace("VALUE", value), query.replace("VALUE", &format!("{value} + 0")));
        let (known, unknown) = (plan(&session, &one), plan(&session, &two));
        assert!(!known.contains("window join") && unknown.contains("window join"), "{known} {unknown}");
        let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
        assert!(one.len() > 5 && one == two, "{query}: {one:#?} {two:#?}");
    }
}

#[test]
fn windows_of_local_time_have_their_rows() {
    // Clocks are put back within the hours of the rows. Tumbling windows stay a join then.
    let mut session = session(&[("parallelism.default", "2"), ("table.local-time-zone", "Europe/Berlin")]);
    session.run(&TABLE.replace("TABLE t", "TABLE u").replace("id * 11 -", "1698537600000 + id * 4000 -")).unwrap();
    for (window, is_ranking) in WINDOWS.into_iter().zip([false, true, true]) {
        let window = window.replace("TABLE t", "TABLE u").replace("SECOND", "HOUR");
        let base = format!("SELECT id, k, v, window_start AS ws, window_end AS we FROM TABLE({window})");
        let (one, two) = (joined(&base, "", "MAX(v)", "b.v = m.e"), joined(&base, "", "MAX(v)", "b.v + 0 = m.e"));
        let plan = plan(&session, &one);
        assert_eq!(plan.contains("RANK 1 to 1"), is_ranking, "{plan}");
        let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
        assert!(one.len() > 3 && one == two, "{window}: {one:#?} {two:#?}");
    }
}

#[test]
fn rows_of_an_interval_meet_the_extreme_of_their_window() {
    for settings in
        [&[("parallelism.default", "2")][..], &[("parallelism.default", "1"), ("pipeline.buffer-rows", "50")]]
    {
        let mut session = Configuration::new("extremes", settings).session();
        let time = "TO_TIMESTAMP_LTZ(id * 11 - (id % 13) * 400, 3)";
        session.run(&TABLE.replace(time, &format!("CAST({time} AS TIMESTAMP(3))"))).unwrap();
        for (extreme, lower, upper, leads) in [
            ("MAX(v)", "INTERVAL '2' SECOND", "INTERVAL '0' SECOND", true),
            ("MIN(v)", "INTERVAL '1' SECOND", "INTERVAL '0.5' SECOND", true),
            // A row may meet the extreme of a window that it is not in.
            ("MAX(v)", "INTERVAL '2.001' SECOND", "INTERVAL '0' SECOND", false),
            ("MAX(v)", "INTERVAL '1' SECOND", "INTERVAL '-0.1' SECOND", false),
        ] {
            let query = |value: &str| {
                format!(
                    "SELECT b.id, b.v, m.we FROM t b JOIN (SELECT {extreme} AS e, window_end AS we FROM TABLE({}) GROUP BY window_start, \
                     window_end) m ON {value} = m.e WHERE b.ts BETWEEN m.we - {lower} AND \
                     m.we - {upper}",
                    WINDOWS[0]
                )
            };
            let (one, two) = (query("b.v"), query("b.v + 0"));
            let known = plan(&session, &one);
            assert_eq!(known.contains("the first 1 in 2000 ms"), leads, "{known}");
            let (one, two) = (rows(&mut session, &one), rows(&mut session, &two));
            assert!(one.len() > 5 && one == two, "{extreme} {lower}: {one:#?} {two:#?}");
        }
    }
}

#[test]
fn other_joins_stay_joins() {
    let session = session(&[]);
    let base = format!(
        "SELECT id, k, v, CAST(v AS DOUBLE) AS d, window_start AS ws, window_end AS we FROM TABLE({})",
        WINDOWS[0]
    );
    let filtered = format!("{base} WHERE id % 3 = 0");
    let of = |rows: &str, extreme: &str, compared: &str| {
        format!(
            "SELECT b.id FROM ({rows}) b JOIN (SELECT {extreme} AS e, MAX(id) AS other, ws, we FROM ({base}) GROUP BY ws, we) m ON \
             b.ws = m.ws AND b.we = m.we AND {compared}"
        )
        .replace(", MAX(id) AS other", if compared.contains("other") { ", MAX(id) AS other" } else { "" })
    };
    for (query, why) in [
        (of(&base, "MAX(v)", "b.v <= m.e"), "every row"),
        (of(&base, "MAX(v)", "b.v = m.e AND b.id < m.other"), "of several aggregates"),
        (of(&base, "MAX(d)", "b.d = m.e"), "NaN"),
        (of(&base, "MAX(v) FILTER (WHERE id > 5)", "b.v = m.e"), "of some rows"),
        (of(&base, "MAX(v)", "b.id = m.e"), "another column"),
        (of(&filtered, "MAX(v)", "b.id = m.e"), "other rows"),
        (of(&base, "SUM(v)", "b.v = m.e"), "no extreme"),
    ] {
        let plan = plan(&session, &query);
        assert!(plan.contains("window join"), "{why}: {plan}");
    }
}

#[test]
fn what_gives_another_value_each_time_is_made_twice() {
    let session = session(&[]);
    let base = format!(
        "SELECT window_start AS ws, window_end AS we, k, COUNT(*) AS n FROM TABLE({}) WHERE RAND() < 0.5 GROUP BY window_start, window_end, k",
        WINDOWS[0]
    );
    let plan = plan(&session, &joined(&base, "", "MAX(n)", "b.n = m.e"));
    assert!(plan.contains("aggregation 2") && plan.contains("window join"), "{plan}");
    // Equal relations are one wherever they stand.
    let base = base.replace("RAND() < 0.5", "id > 5");
    let twice = format!("SELECT a.n FROM ({base}) a JOIN ({base}) b ON a.ws = b.ws AND a.we = b.we AND a.k + 1 = b.k");
    let plan = self::plan(&session, &twice);
    assert!(!plan.contains("aggregation 1") && plan.contains("window join"), "{plan}");
}
