//! INSERT INTO.

use super::tables;

#[test]
fn columns_are_assigned_in_order() {
    let session = tables();
    assert_eq!(
        session.plan("INSERT INTO sink SELECT i, s, d FROM t"),
        "Insert into sink\n  \
           Project [CAST(i AS BIGINT) AS k, CAST(s AS VARCHAR(3)) AS name, CAST(d AS DECIMAL(10, 2)) AS price]\n    \
             Project [i, s, d]\n      \
               Scan t\n"
    );
}

#[test]
fn columns_that_are_not_listed_become_null() {
    let session = tables();
    let insert = session.bind("INSERT INTO sink (price, k) SELECT 1.5, nn FROM t LIMIT 3").expect("it binds");
    assert_eq!(super::schema_of(&insert.query), "k BIGINT NOT NULL, name VARCHAR(3), price DECIMAL(10, 2) NOT NULL");
    assert!(matches!(insert.query, millstream_plan::logical::Rel::Limit { count: Some(3), .. }));
}

#[test]
fn misfits_are_errors() {
    let session = tables();
    let cases = [
        (
            "INSERT INTO sink SELECT i FROM t",
            "MS2013 1:18+15 the query has 1 column, but 3 columns of `sink` are written",
        ),
        (
            "INSERT INTO sink SELECT i, i, d FROM t",
            "MS2013 1:28+1 column `name` of `sink` is VARCHAR(3), but the query gives INT",
        ),
        ("INSERT INTO sink (name) SELECT s FROM t", "MS2013 1:19+4 column `k` of `sink` is NOT NULL and gets no value"),
        ("INSERT INTO sink (k, twice) SELECT 1, 2", "MS2013 1:22+5 column `twice` is computed and cannot be written"),
        ("INSERT INTO sink (k, k) SELECT 1, 2", "MS2013 1:22+1 column `k` is listed twice"),
        ("INSERT INTO sink (kk) SELECT 1", "MS2003 1:19+2 table `sink` has no column `kk`"),
    ];
    for (sql, expected) in cases {
        assert_eq!(session.error(sql).0, expected, "{sql}");
    }
}
