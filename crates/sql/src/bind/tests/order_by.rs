//! ORDER BY, LIMIT and OFFSET.

use super::Session;

fn bounded() -> Session {
    Session::new(
        "CREATE TABLE t (k STRING, n INT, r ROW<x INT>) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
         CREATE TABLE e (k STRING, n INT) WITH ('connector' = 'datagen');",
    )
}

#[test]
fn keys_are_columns_of_the_result_or_further_ones() {
    let session = bounded();
    assert_eq!(
        session.plan("SELECT k, n + 1 AS m FROM t ORDER BY m DESC, 1, k NULLS LAST"),
        "Sort [m DESC, k, k NULLS LAST]\n  Project [k, (n + 1) AS m]\n    Scan t\n"
    );
    assert_eq!(
        session.plan("SELECT k FROM t ORDER BY t.n DESC NULLS FIRST, UPPER(k)"),
        "Project [k]\n  Sort [order1 DESC NULLS FIRST, UPPER(k)]\n    Project [k, n AS order1]\n      Scan t\n"
    );
    assert_eq!(
        session.plan("SELECT k FROM t GROUP BY k ORDER BY SUM(n), t.k LIMIT 3"),
        "Project [k]\n  Sort [order1, k] 3\n    Project [k, aggregate0 AS order1]\n      \
         Aggregate window=whole input keys=[k] aggregates=[SUM(n) AS aggregate0]\n        Scan t\n"
    );
    // A name of the result hides one of the input.
    assert_eq!(
        session.plan("SELECT -n AS n FROM t ORDER BY n + 1"),
        "Sort [(n + 1)]\n  Project [-n AS n]\n    Scan t\n"
    );
    assert_eq!(session.plan("SELECT n FROM t ORDER BY 'a', 1"), "Sort [n]\n  Project [n]\n    Scan t\n");
}

#[test]
fn where_an_order_counts() {
    let session = bounded();
    assert_eq!(session.plan("SELECT n FROM (SELECT n FROM t ORDER BY n)"), "Project [n]\n  Project [n]\n    Scan t\n");
    assert_eq!(
        session.plan("SELECT n FROM (SELECT n FROM t ORDER BY n OFFSET 2)"),
        "Project [n]\n  Sort [n] offset 2\n    Project [n]\n      Scan t\n"
    );
    assert_eq!(
        session.plan("SELECT n FROM (SELECT n FROM t LIMIT 3)"),
        "Project [n]\n  Sort [] 3\n    Project [n]\n      Scan t\n"
    );
    assert_eq!(
        session.plan("(SELECT n FROM t ORDER BY n) LIMIT 3 OFFSET 1"),
        "Limit 3 offset 1\n  Sort [n]\n    Project [n]\n      Scan t\n"
    );
    assert_eq!(session.plan("SELECT n FROM e LIMIT 3 OFFSET 1"), "Limit 3 offset 1\n  Project [n]\n    Scan e\n");
    assert_eq!(session.plan("SELECT n FROM (SELECT n FROM e ORDER BY n)"), "Project [n]\n  Project [n]\n    Scan e\n");
}

#[test]
fn what_has_no_end_has_no_order() {
    let order = "MS2008 1:27+1 on a stream, there is no last row to put in order";
    let (error, advice) = bounded().error("SELECT n FROM e ORDER BY  n");
    assert_eq!(error, order);
    assert!(advice.contains("'batch', if the input has an end"), "{advice}");
    assert!(advice.contains("add LIMIT"), "{advice}");
    // Of what has an end nobody sees anything before that.
    assert!(bounded().streaming().plan("SELECT n FROM t ORDER BY n").starts_with("Sort [n]"));
    for (sql, range) in [
        ("SELECT n FROM e ORDER BY n DESC LIMIT 3", "1 to 3 partition=[] order=[n DESC]"),
        ("SELECT n FROM e ORDER BY n LIMIT 3 OFFSET 2", "3 to 5 partition=[] order=[n]"),
        ("SELECT n FROM (SELECT n FROM e LIMIT 3)", "1 to 3 partition=[] order=[]"),
        ("SELECT n, COUNT(*) FROM e GROUP BY n LIMIT 7", "1 to 7 partition=[] order=[]"),
    ] {
        let plan = bounded().plan(sql);
        assert!(plan.contains(&format!("Rank ROW_NUMBER {range}")), "{plan}");
    }
    assert!(bounded().plan("SELECT n FROM e ORDER BY n LIMIT 0").contains("Filter [FALSE]"));
    let plan = bounded().batch().plan("SELECT n FROM e ORDER BY n");
    assert!(plan.starts_with("Sort [n]"), "{plan}");
    let (error, advice) = bounded().error("SELECT n FROM (SELECT n FROM e OFFSET 3)");
    assert!(error.starts_with("MS2007 1:39+1 OFFSET within a subquery"), "{error}");
    assert!(advice.contains("add LIMIT"), "{advice}");
}

#[test]
fn wrong_orders() {
    let error = |sql: &str| bounded().error(sql).0;
    assert_eq!(error("SELECT n FROM t ORDER BY 2"), "MS2003 1:26+1 ORDER BY names column 2, but the result has 1");
    assert_eq!(error("SELECT n FROM t ORDER BY 0"), "MS2003 1:26+1 ORDER BY names column 0, but the result has 1");
    assert_eq!(error("SELECT n FROM t ORDER BY x"), "MS2003 1:26+1 unknown column `x`");
    assert!(error("SELECT n FROM t ORDER BY r").starts_with("MS2006 1:26+1 ORDER BY of"));
    assert!(error("SELECT n FROM t UNION ALL SELECT 1 ORDER BY k").starts_with("MS2003 1:45+1 unknown column"));
    assert!(error("SELECT DISTINCT k FROM t ORDER BY n").starts_with("MS2012 1:35+1 with DISTINCT"));
    assert!(error("SELECT k FROM t ORDER BY COUNT(*)").starts_with("MS2012 1:8+1 column `k`"));
    assert_eq!(error("SELECT n FROM t LIMIT 'a'"), "MS2006 1:23+3 LIMIT needs a constant whole number");
}
