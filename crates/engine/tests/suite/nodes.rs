//! Queries that run on several nodes of this process: what EXPLAIN says of them, and what they cannot do. Their rows are those of the
//! corpus (`tests/configs/nodes-*.toml`).

use crate::configurations::Configuration;
use millstream::{Collected, Outcome, RunMonitor, Session};

const TABLES: &str = "
    CREATE TABLE bid (auction BIGINT, price BIGINT, who STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'datagen', 'number-of-rows' = '1000');
    CREATE TABLE person (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '10');";

fn session(nodes: &str) -> Session {
    let mut session = Configuration::new("nodes", &[("pipeline.nodes", nodes)]).session();
    session.run(TABLES).unwrap();
    session
}

/// The exchanges that EXPLAIN shows of a query.
fn exchanges(session: &mut Session, query: &str) -> Vec<String> {
    let statements = session.parse(&format!("EXPLAIN {query}")).unwrap();
    let outcome = session.execute(&statements[0], &mut Collected::new(), &RunMonitor::new()).unwrap();
    let Outcome::Text(text) = outcome else { panic!("EXPLAIN gives a text") };
    let shown = text.split("\n== Exchanges between 3 nodes ==\n").nth(1).unwrap_or_default();
    shown.lines().map(str::to_string).collect()
}

#[test]
fn explain_shows_what_is_sent_between_nodes() {
    let mut three = session("3");
    let tumbling = "SELECT auction, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))
                    GROUP BY auction, window_start, window_end";
    assert_eq!(
        exchanges(&mut three, tumbling),
        [
            "aggregation 0: partials of slices by key, about 32 bytes for each key of a slice and node",
            "sink 0: rows to the first node, about 24 bytes each"
        ]
    );
    let joined = "SELECT b.price, p.name FROM bid AS b JOIN person AS p ON b.auction = p.id";
    assert_eq!(
        exchanges(&mut three, joined),
        ["source 0: read whole by every node", "sink 0: rows to the first node, about 40 bytes each"]
    );
    let ordered = "SELECT * FROM (SELECT auction, SUM(price) AS s FROM bid GROUP BY auction) ORDER BY s LIMIT 3";
    let shown = exchanges(&mut three, ordered);
    assert!(shown.iter().any(|line| line == "sort 0: rows to the first node, about 16 bytes each"), "{shown:?}");
    assert!(exchanges(&mut session("1"), tumbling).is_empty(), "one node sends nothing");
}
