//! Results that change: how they are planned, and who cannot take them.

use super::{Session, TABLES, tables};
use millstream_plan::beat::BeatClock;
use millstream_plan::physical;
use millstream_plan::shape::PlanShape;
use millstream_types::text::zone::Zone;

fn with_sinks() -> Session {
    let sinks = "
CREATE TABLE counts (i INT, n BIGINT, PRIMARY KEY (i) NOT ENFORCED) WITH ('connector' = 'jdbc');
CREATE TABLE by_name (i INT, s STRING, n BIGINT, PRIMARY KEY (s) NOT ENFORCED) WITH ('connector' = 'jdbc');
CREATE TABLE unkeyed (i INT, n BIGINT) WITH ('connector' = 'jdbc');
CREATE TABLE printed (i BIGINT, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE files (i INT, n BIGINT) WITH ('connector' = 'filesystem');";
    Session::new(&(TABLES.to_string() + sinks))
}

#[test]
fn groups_without_a_window_are_those_of_all_rows_so_far() {
    let session = tables();
    let plan = session.plan("SELECT i, COUNT(*) AS n FROM t GROUP BY i");
    assert!(plan.contains("window=all rows so far keys=[i]"), "{plan}");
    for sql in [
        "SELECT DISTINCT i FROM t",
        "SELECT i FROM t UNION SELECT k FROM z",
        "SELECT COUNT(*) FROM t HAVING COUNT(*) > 1",
    ] {
        assert!(session.plan(sql).contains("window=all rows so far"), "{sql}");
    }
    let sets = session.plan("SELECT i, si, SUM(l) FROM t GROUP BY GROUPING SETS ((i, si), (i), ())");
    assert_eq!(sets.matches("window=all rows so far").count(), 3, "{sets}");
    assert!(tables().batch().plan("SELECT i, COUNT(*) FROM t GROUP BY i").contains("window=whole input"));
}

#[test]
fn changes_are_netted_by_key_in_front_of_their_sink() {
    let session = with_sinks();
    let pipelines = session.pipelines("INSERT INTO counts SELECT i, COUNT(*) FROM t GROUP BY i");
    assert!(
        pipelines.contains("operator 1: groups of all rows, components [Count], partitioned by [i]"),
        "{pipelines}"
    );
    assert!(pipelines.contains("operator 0: net changes by key"), "{pipelines}");
    // Nothing tells rows of a union apart.
    let union =
        "INSERT INTO printed SELECT i, n FROM (SELECT i, COUNT(*) AS n FROM t GROUP BY i) UNION ALL SELECT l, 1 FROM t";
    assert!(session.pipelines(union).contains("net changes by row"), "{}", session.pipelines(union));
    // Counts of counts: the inner ones are taken back.
    let nested = "SELECT n, COUNT(*) AS m FROM (SELECT i, COUNT(*) AS n FROM t GROUP BY i) GROUP BY n";
    let pipelines = session.pipelines(nested);
    assert!(pipelines.contains("groups of all rows that have not been taken back, components [SumI64]"), "{pipelines}");
}

#[test]
fn operators_over_changes_share_the_partitions_of_the_one_below() {
    let session = tables();
    let has = |sql: &str, texts: &[&str]| {
        let pipelines = session.pipelines(sql);
        texts.iter().for_each(|text| assert!(pipelines.contains(text), "{text} is not in {pipelines}"));
    };
    // The ranks of a partition change together.
    let ranks =
        "SELECT * FROM (SELECT i, l, ROW_NUMBER() OVER (PARTITION BY i ORDER BY l DESC) AS r FROM t) WHERE r <= 3";
    has(
        ranks,
        &[
            "net changes by key, keys [column0, column2], partitioned by [column0]",
            "exchange by [column0] into operator 0",
        ],
    );
    // A join by i, groups by l and i of its rows, which are in another order, and what a sink gets of them.
    let joined = "SELECT t.l, t.i, COUNT(*) AS n FROM t JOIN z ON t.i = z.k GROUP BY t.l, t.i";
    has(
        joined,
        &[
            "operator 2: regular join",
            "keys [l, i], partitioned by [i]",
            "keys [column0, column1], partitioned by [column1]",
        ],
    );
    // Filters on the way change nothing; what is computed of a key is another one, and both sides have to agree.
    has(&joined.replace("GROUP", "WHERE t.l > 5 GROUP"), &["keys [l, i], partitioned by [i]"]);
    for sql in [
        joined.replace("t.i, COUNT", "t.i + 1, COUNT").replace("t.l, t.i", "t.l, t.i + 1"),
        joined.replace("JOIN", "RIGHT JOIN"),
        "SELECT i, l, COUNT(*) FROM (SELECT i, l FROM t JOIN z ON i = k UNION ALL SELECT i, l FROM t) GROUP BY i, l"
            .into(),
    ] {
        let pipelines = session.pipelines(&sql);
        assert!(!pipelines.contains("keys [l, i]") && !pipelines.contains("keys [i, l]"), "{pipelines}");
    }
    // Earlier plans did not, and what they keep is resumed as they do.
    let by = |rules| {
        let plan = physical::plan(&[session.bind(joined).unwrap()], Zone::default(), BeatClock::Arrival, None, rules);
        PlanShape::of(&plan.unwrap())
    };
    let (now, earlier) = (by(physical::Rules::default()), by(physical::Rules::Lengths));
    assert_eq!(now.operators[1].parameters["partitioned_by_keys"], "1");
    assert!(now.fit(&earlier).is_err() && earlier.fit(&earlier).is_ok());
}

#[test]
fn values_that_must_be_forgotten_are_kept() {
    let session = tables();
    let over = |call: &str| format!("SELECT {call} FROM (SELECT i, MAX(l) AS n, MAX(s) AS s FROM t GROUP BY i)");
    for call in ["MIN(n)", "MAX(s)", "LISTAGG(s)", "MEDIAN(n)", "APPROX_COUNT_DISTINCT(s)", "ARRAY_AGG(n IGNORE NULLS)"]
    {
        assert!(session.pipelines(&over(call)).contains("Object(Weights"), "{call}");
    }
    assert!(!session.pipelines(&over("SUM(n), AVG(n), COUNT(n), STDDEV_POP(n)")).contains("Object"));
    // Distinct values are groups of their own, one for all calls.
    let distinct =
        "SELECT i, COUNT(*), COUNT(DISTINCT l), COUNT(DISTINCT l) FILTER (WHERE b), SUM(DISTINCT si) FROM t GROUP BY i";
    let pipelines = session.pipelines(distinct);
    assert_eq!(pipelines.matches("groups of all rows").count(), 3, "{pipelines}");
    assert!(pipelines.contains("partitioned by [i, value]") && !pipelines.contains("Object"), "{pipelines}");
}

#[test]
fn operators_that_take_appended_rows_only() {
    let session = tables();
    let counts = "(SELECT i, COUNT(*) AS n FROM t GROUP BY i)";
    let check = |sql: String, error: &str, advice: &str| {
        let found = session.error(&sql);
        assert!(found.0.starts_with(error) && found.1.contains(advice), "{sql}: {found:?}");
    };
    check(
        format!("SELECT SUM(n) OVER (ORDER BY p) FROM (SELECT *, PROCTIME() AS p FROM {counts})"),
        "MS2018",
        "leave PROCTIME() out",
    );
    check(format!("SELECT n, RAND() AS r FROM {counts}"), "MS2018 1:11+4 RAND()", "leave RAND() out");
}

#[test]
fn sinks_of_changes() {
    let session = with_sinks();
    let counts = "SELECT i, COUNT(*) AS n FROM t GROUP BY i";
    session.bind(&format!("INSERT INTO counts {counts}")).unwrap();
    session.bind(&format!("INSERT INTO printed {counts}")).unwrap();
    let check = |sql: &str, error: &str, advice: &str| {
        let found = session.error(sql);
        assert!(found.0.starts_with(error) && found.1.contains(advice), "{sql}: {found:?}");
    };
    // Rows of DISTINCT are never taken back, unless those below are.
    session.bind("INSERT INTO files SELECT DISTINCT i, l FROM t").unwrap();
    session.bind("INSERT INTO files SELECT i, l FROM t UNION SELECT k, 1 FROM z").unwrap();
    let distinct = format!("INSERT INTO files SELECT DISTINCT i, n FROM ({counts})");
    check(&distinct, "MS2008 1:13+5 the result of DISTINCT without a window changes", "jdbc");
    let message =
        "MS2008 1:13+5 the result of GROUP BY without a window changes, and table `files` ('connector' = 'filesystem')";
    check(&format!("INSERT INTO files {counts}"), message, "write to 'jdbc' or 'upsert-kafka' with a PRIMARY KEY");
    check(&format!("INSERT INTO unkeyed {counts}"), "MS2017 1:13+7", "add PRIMARY KEY (i) NOT ENFORCED");
    check(
        "INSERT INTO by_name SELECT i, s, COUNT(*) FROM t GROUP BY i, s",
        "MS2017 1:13+7 two rows of the result can have the same PRIMARY KEY (s) of table `by_name`: its rows are told apart by (i, s)",
        "declare PRIMARY KEY (i, s) NOT ENFORCED",
    );
    // A key of fewer columns tells apart rows of more, and a wider integer the same numbers.
    session.bind("INSERT INTO by_name SELECT MAX(i), s, COUNT(*) FROM t GROUP BY s").unwrap();
    session.bind("INSERT INTO by_name SELECT i, s, n FROM (SELECT CAST(si AS INT) AS i, v AS s, COUNT(*) AS n FROM t GROUP BY si, v)").unwrap_err();
}

#[test]
fn a_table_of_changes_has_the_rows_that_are_there() {
    let changelog = "
CREATE TABLE log (k INT, n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'kafka');
CREATE TABLE unkeyed_log (k INT, n BIGINT) WITH ('connector' = 'kafka');
CREATE TABLE counts (i INT, n BIGINT, PRIMARY KEY (i) NOT ENFORCED) WITH ('connector' = 'jdbc');
CREATE TABLE files (i INT, n BIGINT) WITH ('connector' = 'filesystem');";
    let session = Session::new(&(TABLES.to_string() + changelog));
    let plan = session.plan("INSERT INTO counts SELECT k, n FROM log");
    assert!(plan.starts_with("Insert into counts  changes: upsert (i)"), "{plan}");
    assert!(plan.contains("Filter [($change > 0)]  changes: retract, key (k)"), "{plan}");
    assert!(plan.contains("Scan log  changes: append"), "{plan}");
    // `SELECT *` has the columns of the table.
    assert_eq!(session.bind("SELECT * FROM log").unwrap().query.schema().fields.len(), 3);
    let pipelines = session.pipelines("SELECT SUM(n) FROM log");
    assert!(pipelines.contains("groups of all rows that have not been taken back"), "{pipelines}");
    assert!(pipelines.contains("ROW_NUMBER 1 to 1 of all rows by [], ties last"), "{pipelines}");
    let error = |sql: &str| session.bind(sql).unwrap_err().to_string();
    let files = error("INSERT INTO files SELECT k, n FROM log");
    assert!(files.contains("the result of a changelog table changes"), "{files}");
    let window = error(
        "SELECT COUNT(*) FROM TUMBLE(TABLE log, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
    );
    assert!(window.contains("MS2008") && window.contains("a window takes rows that are only added"), "{window}");
    // Without a key rows are insertions.
    let plan = session.plan("INSERT INTO files SELECT k, n FROM unkeyed_log");
    assert!(!plan.contains("changes:"), "{plan}");
}

#[test]
fn versions_of_a_key_are_several_rows() {
    let tables = |watermark: &str| {
        format!(
            "{TABLES}
CREATE TABLE orders (id INT, k INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE TABLE prices (k INT, price INT, ts TIMESTAMP(3), {watermark} PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'datagen');
CREATE TABLE priced (id INT, price INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'jdbc');"
        )
    };
    let insert = "INSERT INTO priced SELECT o.id, p.price FROM orders AS o LEFT JOIN prices AS p ON o.k = p.k";
    assert!(Session::new(&tables("")).bind(insert).is_ok());
    let error = Session::new(&tables("WATERMARK FOR ts AS ts,")).bind(insert).unwrap_err().to_string();
    assert!(error.contains("MS2017") && error.contains("nothing tells its rows apart"), "{error}");
}
