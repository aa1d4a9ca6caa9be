//! Stars with options, and GROUP BY that refers to the select list.

use super::errors::check;
use super::tables;

const TUMBLE: &str = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))";

#[test]
fn stars_leave_out_and_replace_columns() {
    let session = tables();
    for (sql, schema) in [
        ("SELECT * EXCEPT (ts) FROM z", "k INT"),
        ("SELECT * EXCLUDE ts FROM z", "k INT"),
        ("SELECT z.* EXCLUDE (z.k) FROM z", "ts TIMESTAMP_LTZ(3)"),
        ("SELECT * REPLACE (CAST(k AS STRING) AS k) FROM z", "k STRING, ts TIMESTAMP_LTZ(3)"),
        ("SELECT r.* EXCEPT (y) FROM t", "x INT, t INT"),
        ("SELECT * EXCEPT (k), k::BIGINT AS k FROM z", "ts TIMESTAMP_LTZ(3), k BIGINT"),
        ("SELECT a.* EXCEPT (ts), b.* EXCEPT (ts) FROM z AS a JOIN z AS b ON a.k = b.k", "k INT, k0 INT"),
        // Event time stays that of a column.
        (
            "SELECT COUNT(*) AS n FROM (SELECT * EXCEPT (k) FROM z) AS x GROUP BY TUMBLE(ts, INTERVAL '1' SECOND)",
            "n BIGINT NOT NULL",
        ),
    ] {
        assert_eq!(session.schema(sql), schema, "{sql}");
    }
    check(&[
        ("SELECT * EXCEPT (kk) FROM z", "MS2003 1:18+2 EXCEPT names `kk`, which is not a column of `*`", "`k`"),
        ("SELECT z.* EXCLUDE (z.kk) FROM z", "MS2003 1:23+2 table `z` has no column `kk`", "`k`"),
        ("SELECT * REPLACE (1 AS x) FROM z", "MS2003 1:24+1 REPLACE names `x`", "columns: k, ts"),
        ("SELECT * EXCEPT (k, ts) FROM z", "MS2001 1:8+15 EXCEPT leaves no column", "fewer"),
        ("SELECT * EXCEPT (k, k) FROM z", "MS2001 1:21+1 EXCEPT names `k` twice", "once"),
        ("SELECT * EXCEPT (k) REPLACE (1 AS k) FROM z", "MS2001 1:35+1 `k` is in EXCEPT and in REPLACE", "one of them"),
        ("SELECT k ILIKE ANY ('a', 'b') FROM z", "MS2007 1:8+21 ILIKE ANY is not supported yet", "OR"),
    ]);
}

#[test]
fn keys_by_number_and_name_are_those_that_are_meant() {
    let session = tables();
    let written = format!(
        "SELECT i + 1 AS more, window_start AS ws, window_end, COUNT(*) AS n FROM {TUMBLE} \
         GROUP BY i + 1, window_start, window_end"
    );
    let plan = session.plan(&written);
    for keys in ["1, 2, 3", "more, ws, window_end", "ALL", "(1, 2), 3", "1, ws, 3", "GROUPING SETS ((1, 2, 3))"] {
        let sql = written.replace("GROUP BY i + 1, window_start, window_end", &format!("GROUP BY {keys}"));
        assert_eq!(session.plan(&sql), plan, "{sql}");
    }
    // A column of the input wins.
    assert!(
        session
            .plan(&format!("SELECT s AS i, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, i, s"))
            .contains("keys=[i, s]")
    );
}
