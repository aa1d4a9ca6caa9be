//! UNNEST.

use super::Session;
use super::joins::{lines, refused};

fn collections() -> Session {
    Session::new(
        "CREATE TABLE t (id BIGINT NOT NULL, tags ARRAY<STRING>, items ARRAY<ROW<sku STRING, n INT NOT NULL>>,
            props MAP<STRING, DOUBLE>, nested ROW<list ARRAY<INT>>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
         WITH ('connector' = 'datagen');",
    )
}

#[test]
fn elements_become_rows() {
    let session = collections();
    for (sql, schema) in [
        ("SELECT id, tag FROM t CROSS JOIN UNNEST(tags) AS u(tag)", "id BIGINT NOT NULL, tag STRING"),
        ("SELECT id, tag FROM t, UNNEST(t.tags) AS tag", "id BIGINT NOT NULL, tag STRING"),
        ("SELECT u.* FROM t CROSS JOIN UNNEST(items) AS u", "sku STRING, n INT"),
        ("SELECT a, b FROM t CROSS JOIN UNNEST(items) AS u(a, b) WHERE b > 1", "a STRING, b INT"),
        ("SELECT u.k, u.v FROM t CROSS JOIN UNNEST(props) AS u(k, v)", "k STRING, v DOUBLE"),
        (
            "SELECT x, pos FROM t CROSS JOIN UNNEST(t.nested.list) WITH ORDINALITY AS u(x, pos)",
            "x INT, pos INT NOT NULL",
        ),
        ("SELECT x, pos FROM t LEFT JOIN UNNEST(nested.list) WITH ORDINALITY AS u(x, pos) ON TRUE", "x INT, pos INT"),
        (
            "SELECT tag, sku FROM t CROSS JOIN UNNEST(tags) AS u(tag) CROSS JOIN UNNEST(items) AS i(sku, n)",
            "tag STRING, sku STRING",
        ),
    ] {
        assert_eq!(session.schema(sql), schema, "{sql}");
    }
    let plan =
        lines(&session, "SELECT id FROM t INNER JOIN UNNEST(tags) AS u(tag) ON tag > 'm' WHERE id > 3 AND tag < 'x'");
    assert!(plan[1] == "Filter [((tag > 'm') AND (tag < 'x'))]", "{plan:?}");
    assert!(plan.iter().any(|l| l == "Filter [(id > 3)]"), "{plan:?}");
    // Event time goes through.
    let counted = "SELECT tag, COUNT(*) AS n FROM (SELECT tag, ts FROM t CROSS JOIN UNNEST(tags) AS u(tag))
        GROUP BY tag, TUMBLE(ts, INTERVAL '1' DAY)";
    assert_eq!(session.schema(counted), "tag STRING, n BIGINT NOT NULL");
}

#[test]
fn what_cannot_be_unnested() {
    refused(
        &collections(),
        &[
            (
                "SELECT * FROM t CROSS JOIN UNNEST(id) AS u(x)",
                "MS2006 1:35+2 UNNEST needs an ARRAY or MAP, not BIGINT",
                "",
            ),
            ("SELECT * FROM t CROSS JOIN UNNEST(tags, items) AS u(x)", "MS2006 1:28+6 UNNEST takes one", ""),
            (
                "SELECT * FROM t CROSS JOIN UNNEST(items) AS u(x)",
                "MS2006 1:45+1 `u` names 1 column, but there are 2",
                "",
            ),
            ("SELECT * FROM t LEFT JOIN UNNEST(tags) AS u(x) ON x > 'a'", "MS2007", "ON TRUE"),
            ("SELECT * FROM t FULL JOIN UNNEST(tags) AS u(x) ON TRUE", "MS2007", "CROSS JOIN"),
        ],
    );
}
