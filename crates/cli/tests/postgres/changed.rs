//! Jobs that are changed between two runs.

use crate::server::Database;
use millstream::{Job, Session, SessionConfig, code};
use std::fs;
use std::path::Path;
use std::time::Duration;

const ROWS: i64 = 1000;

/// A second of input in twenty parts, into the tables of the inserts.
fn started(folder: &Path, database: &Database, inserts: &str) -> Job {
    let mut session = Session::new(SessionConfig::default());
    let folder = folder.display();
    let script = format!(
        "SET 'execution.checkpointing.dir' = '{folder}/state'; SET 'execution.checkpointing.interval' = '20 ms';
         CREATE TABLE t (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/t.csv', 'format' = 'csv',
         'scan.rate-limit.rows-per-second' = '{ROWS}');
         CREATE TABLE a (n BIGINT) {}; CREATE TABLE b (n BIGINT) {};",
        database.with("a"),
        database.with("b")
    );
    session.run(&script).unwrap();
    let statement = &session.parse(&format!("EXECUTE STATEMENT SET BEGIN {inserts} END")).unwrap()[0];
    session.submit(statement).unwrap()
}

#[test]
fn inserts_are_added_and_change_places() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: String = (0..ROWS).map(|n| format!("{n}\n")).collect();
    fs::write(folder.path().join("t.csv"), numbers).unwrap();
    let mut database = Database::new("changed");
    database.execute("CREATE TABLE a (n bigint); CREATE TABLE b (n bigint)");
    let (a, b) = ("INSERT INTO a SELECT n FROM t;", "INSERT INTO b SELECT n FROM t WHERE n >= 0;");
    let mut added_at = 0;
    for inserts in [a.to_string(), [b, a].concat()] {
        let job = started(folder.path(), &database, &inserts);
        while job.stats().is_none_or(|stats| stats.rows_in < 200) {
            assert!(!job.has_ended(), "{inserts}");
            std::thread::sleep(Duration::from_millis(1));
        }
        job.stop();
        assert_eq!(job.wait().unwrap_err().code, code::SUSPENDED);
        if added_at == 0 {
            added_at = database.number("SELECT COUNT(*) FROM a");
        }
    }
    assert!(added_at >= 200 && database.number("SELECT COUNT(*) FROM b") >= 200);
    started(folder.path(), &database, &[a, b].concat()).wait().unwrap();
    let in_order = |range: std::ops::Range<i64>| range.map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(database.rows("n::text", "FROM a ORDER BY n"), in_order(0..ROWS));
    assert_eq!(database.rows("n::text", "FROM b ORDER BY n"), in_order(added_at..ROWS));
}
