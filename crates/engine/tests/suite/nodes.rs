//! Queries that run on several nodes of this process: what EXPLAIN says of them, and what they cannot do. Their rows are those of the
//! corpus (`tests/configs/nodes-*.toml`).

use crate::configurations::Configuration;
use arrow_array::ArrayRef;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use millstream::{Collected, Outcome, RunMonitor, Session, StatsSnapshot};

const TABLES: &str = "
    CREATE TABLE bid (auction BIGINT, price BIGINT, who STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'datagen', 'number-of-rows' = '1000');
    CREATE TABLE person (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '10');";

/// Three tables of a thousand numbers each, one for each of three nodes, and all of them.
const NUMBERS: &str = "
    CREATE TABLE a (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id % 1000 * 10, 3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '999');
    CREATE TABLE b (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id % 1000 * 10, 3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1000', 'fields.id.end' = '1999');
    CREATE TABLE c (id BIGINT, ts AS TO_TIMESTAMP_LTZ(id % 1000 * 10, 3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '2000', 'fields.id.end' = '2999');
    CREATE VIEW n AS SELECT id, id * 7919 % 1009 AS x, id % 17 AS k, ts FROM (SELECT * FROM a UNION ALL SELECT * FROM b UNION ALL SELECT * FROM c);";

const STREAM: &str = "streaming";
const BATCH: &str = "batch";

/// A session over [`NUMBERS`]: of a stream results change, and are written once, at the end.
fn numbers(nodes: &str, mode: &str) -> Session {
    let settings = [
        ("pipeline.nodes", nodes),
        ("pipeline.tier", "interpreted"),
        ("parallelism.default", "2"),
        ("pipeline.buffer-rows", "10"),
        ("execution.runtime-mode", mode),
        ("sql-client.execution.result-mode", "changelog"),
        ("table.exec.mini-batch.allow-latency", "1 h"),
    ];
    let mut session = Configuration::new("nodes", &settings).session();
    session.run(NUMBERS).unwrap();
    session
}

/// The rows of a query, and what it has done.
fn run(session: &mut Session, query: &str) -> (Vec<String>, StatsSnapshot) {
    let statements = session.parse(query).unwrap();
    let (mut results, monitor) = (Collected::new(), RunMonitor::new());
    session.execute(&statements[0], &mut results, &monitor).unwrap();
    let batch = results.into_batch().unwrap();
    let options = FormatOptions::default();
    let formatted = |column: &ArrayRef| {
        let formatter = ArrayFormatter::try_new(column, &options).unwrap();
        (0..column.len()).map(|row| formatter.value(row).to_string()).collect::<Vec<_>>()
    };
    let columns: Vec<Vec<String>> = batch.columns().iter().map(formatted).collect();
    let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect::<Vec<_>>().join(" ");
    ((0..batch.num_rows()).map(row).collect(), monitor.stats().expect("it has run").snapshot())
}

/// The rows of a query on three nodes, which are those on one, and what it has done there.
fn run_on_three(mode: &str, query: &str) -> (Vec<String>, StatsSnapshot) {
    let [(rows, stats), (mut expected, alone)] = ["3", "1"].map(|nodes| run(&mut numbers(nodes, mode), query));
    let mut sorted = rows.clone();
    if !query.contains(") ORDER BY") {
        expected.sort();
        sorted.sort();
    }
    assert!(!rows.is_empty());
    assert_eq!(sorted, expected, "{query}");
    let sent = alone.aggregations.iter().chain(&alone.operators).map(|x| x.sent.frames).sum::<u64>();
    assert_eq!(sent + alone.sinks[0].sent.frames, 0, "one node sends nothing");
    (rows, stats)
}

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
    let sort_of = |session: &mut Session, query: &str| {
        let shown = exchanges(session, query);
        shown.into_iter().find(|line| line.starts_with("sort 0")).unwrap_or_default()
    };
    assert_eq!(
        sort_of(&mut three, ordered),
        "sort 0: the first 3 rows of each node to the first node, about 16 bytes each"
    );
    let all = ordered.replace(" LIMIT 3", "");
    assert_eq!(sort_of(&mut three, &all), "sort 0: rows to the first node, about 16 bytes each");
    assert!(exchanges(&mut session("1"), tumbling).is_empty(), "one node sends nothing");
    // With what is looked up, too.
    three.run("CREATE TABLE seen (price BIGINT, name STRING) WITH ('connector' = 'blackhole')").unwrap();
    let alone =
        "nodes send each other nothing: with checkpoints, one that is lost resumes alone while the others go on";
    assert_eq!(
        exchanges(&mut three, &format!("INSERT INTO seen {joined}")),
        ["source 0: read whole by every node", "sink 0: every node writes the rows that it has", alone]
    );
    let counted = "INSERT INTO seen SELECT COUNT(*), 'all' FROM bid";
    assert!(exchanges(&mut three, counted).iter().all(|line| line != alone));
}

#[test]
fn explain_shows_which_rows_stay_where_they_are() {
    let mut session = numbers("3", STREAM);
    let mut shown = |query: &str| {
        let shown = exchanges(&mut session, query);
        shown.into_iter().filter(|line| !line.starts_with("sink")).collect::<Vec<_>>()
    };
    let stays = |what: &str| format!("{what}: rows stay where they are");
    // Groups, and their net changes, which are numbered first.
    let groups = "SELECT k, COUNT(*) AS c FROM n GROUP BY k";
    assert_eq!(shown(groups), [stays("operator 0"), "operator 1: rows by key, about 4 bytes each".to_string()]);
    // A group of all: each has one partition.
    assert_eq!(shown("SELECT COUNT(*) AS c FROM n")[0], stays("operator 0"));
    // Groups joined with others, of which only one side is where the join needs it.
    let joined = format!(
        "SELECT g.k, g.c, h.x FROM ({groups}) AS g JOIN (SELECT x, CAST(COUNT(*) AS INT) AS c FROM n GROUP BY x) AS h ON g.k = h.c"
    );
    let of_join = shown(&joined);
    let half = of_join.iter().find(|line| line.ends_with("those of its left input stay where they are"));
    assert!(half.is_some_and(|line| line.contains("rows by key, about 9 bytes each")), "{of_join:?}");
    // Both sides are; what is shown has the key.
    let by_key = joined.replace("h.c", "h.x");
    let stay = |lines: &[String]| lines.iter().filter(|line| line.ends_with(": rows stay where they are")).count();
    assert_eq!(stay(&shown(&by_key)), 2);
    // Without rows on the left there is no key for the net changes.
    assert_eq!(stay(&shown(&by_key.replace("JOIN", "RIGHT JOIN"))), 1);
    // Windows over windows by the same key, and by others.
    let windows = "SELECT k, TUMBLE_ROWTIME(ts, INTERVAL '1' SECOND) AS t, SUM(x) AS s FROM n GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)";
    let longer = format!("SELECT k, MAX(s) FROM ({windows}) GROUP BY k, TUMBLE(t, INTERVAL '5' SECOND)");
    assert_eq!(shown(&longer)[1], stays("aggregation 1"));
    for other in [
        longer.replace("SELECT k, MAX(s)", "SELECT s, MAX(k)").replace(") GROUP BY k,", ") GROUP BY s,"),
        longer.replace("MAX(s)", "MEDIAN(s)"),
    ] {
        assert!(shown(&other)[1].starts_with("aggregation 1: partials of slices by key"), "{other}");
    }
    // Sessions by the key of sessions, which no beat ends.
    let sessions = "SELECT k, SESSION_ROWTIME(ts, INTERVAL '1' SECOND) AS t, COUNT(*) AS c FROM n GROUP BY k, SESSION(ts, INTERVAL '1' SECOND)";
    let of_sessions = format!("SELECT k, SUM(c) FROM ({sessions}) GROUP BY k, SESSION(t, INTERVAL '9' SECOND)");
    assert_eq!(shown(&of_sessions)[0], stays("operator 0"));
}

#[test]
fn rows_that_stay_are_not_sent() {
    let groups = "SELECT k, COUNT(*) AS c, SUM(x) AS s FROM n GROUP BY k";
    let (rows, stats) = run_on_three(STREAM, groups);
    assert_eq!(rows.len(), 17);
    let sent =
        |stats: &StatsSnapshot| stats.operators.iter().map(|operator| operator.sent.frames > 0).collect::<Vec<_>>();
    assert_eq!(sent(&stats), [false, true]);
    assert!(stats.sinks[0].sent.bytes > 0, "two nodes have sent results");
    let (_, stats) = run_on_three(STREAM, "SELECT COUNT(*) AS c, MAX(x) AS m FROM n");
    assert_eq!(sent(&stats), [false, true]);
    let (_, stats) =
        run_on_three(STREAM, &format!("SELECT g.k, g.c, b.id FROM ({groups}) AS g JOIN b ON g.k = b.id - 1000"));
    assert!(sent(&stats)[1], "{stats:?}");
    let windows = "SELECT k, TUMBLE_ROWTIME(ts, INTERVAL '1' SECOND) AS t, SUM(x) AS s FROM n GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)";
    let (_, stats) =
        run_on_three(STREAM, &format!("SELECT k, MAX(s) FROM ({windows}) GROUP BY k, TUMBLE(t, INTERVAL '5' SECOND)"));
    assert_eq!(stats.aggregations.iter().map(|x| x.sent.frames > 0).collect::<Vec<_>>(), [true, false]);
    let sessions = "SELECT k, SESSION_ROWTIME(ts, INTERVAL '0.05' SECOND) AS t, COUNT(*) AS c FROM n GROUP BY k, SESSION(ts, INTERVAL '0.05' SECOND)";
    let (_, stats) = run_on_three(
        STREAM,
        &format!("SELECT k, SUM(c) FROM ({sessions}) GROUP BY k, SESSION(t, INTERVAL '9' SECOND)"),
    );
    assert_eq!(sent(&stats), [false, true]);
}

#[test]
fn each_node_sends_its_first_rows_to_a_sort() {
    let numbers = "SELECT x, id FROM n WHERE id % 3 <> 1";
    let bounded = |limit: &str| format!("SELECT * FROM ({numbers}) ORDER BY x % 100{limit}");
    let sent = |stats: &StatsSnapshot| stats.operators[0].sent.bytes;
    let (_, all) = run_on_three(BATCH, &bounded(""));
    let (first, few) = run_on_three(BATCH, &bounded(" LIMIT 7 OFFSET 5"));
    assert_eq!(first.len(), 7);
    assert!(
        few.operators[0].sent.frames <= 4 && sent(&few) < sent(&all) / 40,
        "{} of {} bytes",
        sent(&few),
        sent(&all)
    );
    let (more, _) = run_on_three(BATCH, &bounded(" LIMIT 1500"));
    assert_eq!(more.len(), 1500);
    let (within, few) = run_on_three(
        BATCH,
        &format!("SELECT COUNT(*), SUM(x) FROM (SELECT x FROM ({numbers}) ORDER BY x DESC LIMIT 100)"),
    );
    assert!(within.len() == 1 && few.operators[0].sent.frames <= 20, "{:?}", few.operators[0].sent);
}

#[test]
fn each_node_sends_its_first_rows_to_a_ranking() {
    let frames = |stats: &StatsSnapshot| stats.operators.iter().map(|operator| operator.sent.frames).sum::<u64>();
    // Windows that are complete put out many buffers, with many ties.
    let counts = "SELECT window_start, window_end, x, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE n, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, x";
    for (of, rows) in [("", 6), ("x % 5, ", 30)] {
        let ranked = format!(
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY {of}window_start, window_end ORDER BY c DESC) AS r FROM ({counts})"
        );
        let (first, stats) =
            run_on_three(STREAM, &format!("SELECT window_start, x, c, r FROM ({ranked}) WHERE r <= 3"));
        assert_eq!(first.len(), rows);
        let most = if rows == 6 { 4 } else { 12 };
        assert!(frames(&stats) <= most, "one of a window from each node to each other: {:?}", stats.operators[0].sent);
    }
    // What has changed in a beat is sent at its end.
    let ranked = "SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC) AS r FROM n";
    let (first, stats) = run_on_three(STREAM, &format!("SELECT * FROM ({ranked}) WHERE r <= 2"));
    assert_eq!(first.len(), 34);
    assert!(frames(&stats) <= 6, "one from each node to each other: {:?}", stats.operators);
    let last = "SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS r FROM n";
    let (last, stats) = run_on_three(STREAM, &format!("SELECT k, x FROM ({last}) WHERE r = 1"));
    assert!(last.len() == 17 && frames(&stats) <= 6, "{:?}", stats.operators);
    let (first, stats) = run_on_three(STREAM, "SELECT x % 100 AS y, id FROM n ORDER BY y, id LIMIT 5");
    assert_eq!(first.len(), 5);
    assert!(stats.operators[1].sent.frames <= 2, "{:?}", stats.operators);
    let shown = exchanges(&mut numbers("3", STREAM), &format!("SELECT * FROM ({ranked}) WHERE r <= 2"));
    assert!(shown[1].starts_with("operator 1: rows by key that may be among the first 2, about "), "{shown:?}");
}

#[test]
fn rows_that_wait_are_sent_before_they_are_many() {
    let first_by = |key: &str| {
        let ranked = "ROW_NUMBER() OVER (PARTITION BY key ORDER BY id % 50 DESC) AS r FROM n".replace("key", key);
        let query = format!("SELECT {key} AS y, id, r FROM (SELECT *, {ranked}) WHERE r <= 2");
        let [(mut rows, stats), (mut expected, _)] = ["3", "1"].map(|nodes| {
            let mut session = numbers(nodes, STREAM);
            session.set("pipeline.memory", "3 MB").unwrap();
            run(&mut session, &query)
        });
        rows.sort();
        expected.sort();
        assert_eq!(rows, expected);
        stats.operators[1].sent.frames
    };
    assert!(first_by("x") > 6, "of many keys nearly all rows are the first");
    assert_eq!(first_by("k"), 6, "of few keys there are few, which wait for the end of the beat");
}

#[test]
fn statistics_are_those_of_all_nodes() {
    let query = "SELECT k, COUNT(*) AS c FROM n GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)";
    let (rows, stats) = run_on_three(STREAM, query);
    assert_eq!((rows.len() as u64, stats.rows_out, stats.rows_in, stats.windows_fired), (170, 170, 3000, 10));
    assert_eq!(stats.sources.iter().map(|source| source.rows).collect::<Vec<_>>(), [1000; 3]);
    assert_eq!(stats.nodes.iter().map(|node| node.rows_in).collect::<Vec<_>>(), [1000; 3]);
    let mut session = numbers("3", STREAM);
    let statements = session.parse(&format!("EXPLAIN ANALYZE {query}")).unwrap();
    let outcome = session.execute(&statements[0], &mut Collected::new(), &RunMonitor::new()).unwrap();
    let Outcome::Text(shown) = outcome else { panic!("EXPLAIN ANALYZE gives a text") };
    assert!(shown.contains("3000 rows in, 170 rows out"), "{shown}");
    for (node, text) in [(0, "programs and events are its own"), (1, "sent\n"), (2, "sent\n")] {
        let line = format!("node {node}: 1000 rows in, ");
        assert!(shown.split(&line).nth(1).is_some_and(|rest| rest.contains(text)), "{shown}");
    }
}
