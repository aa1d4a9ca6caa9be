//! `FOR SYSTEM_TIME AS OF` an event time.

use super::Session;
use super::joins::{lines, refused};

const DDL: &str = "
CREATE TABLE orders (id BIGINT, k INT, m STRING, big BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE local (id BIGINT, k INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE prices (k INT, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem');
CREATE TABLE markets (k INT, m STRING, price INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (m, k) NOT ENFORCED)
WITH ('connector' = 'datagen');
CREATE TABLE keyless (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE timeless (k INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'filesystem');
CREATE VIEW renamed AS SELECT ts AS since, price * 2 AS price, k AS article FROM prices;
CREATE VIEW filtered AS SELECT * FROM prices WHERE price > 0;
CREATE VIEW without_time AS SELECT k, price FROM prices;
CREATE VIEW grouped AS SELECT DISTINCT k, window_start, window_end FROM TABLE(TUMBLE(TABLE prices, DESCRIPTOR(ts), INTERVAL '1' DAY));
";

fn join(rest: &str) -> String {
    format!("SELECT o.id, o.ts FROM orders AS o {rest}")
}

#[test]
fn versions_are_found_by_key_and_time() {
    let session = Session::new(DDL);
    assert_eq!(
        lines(
            &session,
            "SELECT o.id, p.price FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k"
        ),
        ["Project [id, price]", "Join inner versioned (as of ts, by ts) on [k = k]", "Scan orders", "Scan prices",]
    );
    // What says something of versions is tested of the one that is found; what says something of rows keeps them out.
    let conditions =
        "LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k AND p.price > 5 AND o.id > 1 WHERE o.id < 9";
    assert_eq!(
        lines(&session, &join(conditions)),
        [
            "Project [id, ts]",
            "Join left versioned (as of ts, by ts) on [k = k] and ((price > 5) AND (id > 1))",
            "Filter [(id < 9)]",
            "Scan orders",
            "Scan prices",
        ]
    );
    let inner =
        session.plan(&join("JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k WHERE p.price > 5 AND o.id > 1"));
    assert!(inner.contains("on [k = k] and (price > 5)\n") && inner.contains("Filter [(id > 1)]\n"), "{inner}");
    for (rest, keys) in [
        ("JOIN markets FOR SYSTEM_TIME AS OF o.ts AS x ON o.k = x.k AND x.m = o.m", "[k = k, m = m]"),
        ("LEFT JOIN markets FOR SYSTEM_TIME AS OF o.ts AS x USING (k, m)", "[k = k, m = m]"),
        ("JOIN renamed FOR SYSTEM_TIME AS OF o.ts AS x ON o.k = x.article", "[k = article]"),
        ("JOIN prices FOR SYSTEM_TIME AS OF o.ts AS x ON o.big = x.k", "[big = "),
        ("JOIN prices FOR SYSTEM_TIME AS OF o.ts AS x ON o.k + 1 = x.k AND o.id = x.price", "[(k + 1) = k, "),
    ] {
        let plan = session.plan(&join(rest));
        assert!(plan.contains(" versioned (as of ts, by ") && plan.contains(&format!(" on {keys}")), "{rest}: {plan}");
    }
}

#[test]
fn rows_keep_the_time_that_they_have_found_versions_by() {
    let session = Session::new(DDL);
    let pairs =
        "SELECT o.ts, p.ts AS since, p.price FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k";
    let grouped = |time: &str| {
        format!(
            "SELECT window_start, SUM(price) AS s FROM TABLE(TUMBLE(({pairs}), DESCRIPTOR({time}), INTERVAL '1' DAY))
             GROUP BY window_start, window_end"
        )
    };
    assert_eq!(session.schema(&grouped("ts")), "window_start TIMESTAMP(3) NOT NULL, s INT");
    let two = join(
        "JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS q ON o.id = q.k",
    );
    assert_eq!(session.plan(&two).matches(" versioned ").count(), 2);
    refused(
        &session,
        &[
            (&grouped("since"), "MS2009", ""),
            (
                &join(
                    "JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.k = p.k JOIN prices FOR SYSTEM_TIME AS OF p.ts AS q ON o.k = q.k",
                ),
                "MS2009 1:127+4 FOR SYSTEM_TIME AS OF needs an event time of the left side",
                "after this one",
            ),
        ],
    );
}

#[test]
fn what_has_no_versions_is_refused_with_the_reason() {
    let local = "SELECT l.id FROM local AS l JOIN prices FOR SYSTEM_TIME AS OF l.ts AS p ON l.k = p.k";
    let of = |table: &str, on: &str| join(&format!("JOIN {table} FOR SYSTEM_TIME AS OF o.ts AS x ON {on}"));
    refused(
        &Session::new(DDL),
        &[
            (
                &of("keyless", "o.k = x.k"),
                "MS2009 1:41+52 `keyless` is not a versioned table: it has no PRIMARY KEY",
                "NOT ENFORCED",
            ),
            (
                &of("timeless", "o.k = x.k"),
                "MS2009 1:41+53 `timeless` is not a versioned table: it has no WATERMARK",
                "WATERMARK FOR",
            ),
            (
                &of("markets", "o.k = x.k"),
                "MS2009 1:41+52 FOR SYSTEM_TIME AS OF an event time needs the whole PRIMARY KEY (m, k)",
                "`m`",
            ),
            (&of("prices", "o.k = x.k + 1"), "MS2009", "`k` itself"),
            (&of("prices", "o.k = x.price"), "MS2009", "`k` itself"),
            (&of("prices", "o.k < x.k"), "MS2009", "`k` itself"),
            (
                &of("filtered", "o.k = x.k"),
                "MS2009 1:41+53 FOR SYSTEM_TIME AS OF an event time cannot look into a filtered",
                "in ON or WHERE",
            ),
            (&of("without_time", "o.k = x.k"), "MS2009 1:41+57 the view of `prices` lacks `ts`", "select `ts`"),
            (
                &of("grouped", "o.k = x.k"),
                "MS2009 1:41+52 FOR SYSTEM_TIME AS OF an event time needs a versioned table, not",
                "PRIMARY KEY",
            ),
            (
                local,
                "MS2006 1:63+4 FOR SYSTEM_TIME AS OF TIMESTAMP_LTZ(3) cannot find versions by TIMESTAMP(3)",
                "computed column",
            ),
            (&of("prices", "o.k = x.k").replacen("JOIN", "RIGHT JOIN", 1), "MS2001", "on the right"),
            (&of("prices", "o.k = x.k").replacen("JOIN", "FULL JOIN", 1), "MS2001", "on the right"),
        ],
    );
}
