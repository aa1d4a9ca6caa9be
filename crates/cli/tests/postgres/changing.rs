//! Results that change: what readers of a table see at any moment, and what cannot be written.

use crate::server::Database;
use crate::support::millstream;
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

/// Money goes from one account to another: each row takes from one and gives to the other.
fn transfers(rows: u64) -> String {
    let mut state = 1_u64;
    let mut random = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    (0..rows).map(|_| format!("{},{},{}\n", random(200), random(200), 1 + random(1000))).collect()
}

fn script(database: &Database) -> String {
    let balances = database.with("balances");
    format!(
        "SET 'execution.runtime-mode' = 'streaming';
         SET 'table.exec.mini-batch.allow-latency' = '1 ms';
         CREATE TABLE transfers (sender BIGINT, receiver BIGINT, amount BIGINT)
         WITH ('connector' = 'filesystem', 'path' = 'transfers.csv', 'format' = 'csv', 'scan.rate-limit.rows-per-second' = '20000');
         CREATE TABLE balances (account BIGINT, balance BIGINT, PRIMARY KEY (account) NOT ENFORCED) {balances};
         INSERT INTO balances SELECT account, SUM(amount) FROM (
             SELECT sender AS account, -amount AS amount FROM transfers UNION ALL SELECT receiver, amount FROM transfers)
         GROUP BY account HAVING SUM(amount) <> 0;"
    )
}

#[test]
fn readers_see_whole_beats_only() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("transfers.csv"), transfers(20_000)).unwrap();
    // In batches, and in spans under checkpoints.
    for with_state in [false, true] {
        let mut database = Database::new(&format!("balances_{with_state}"));
        database.execute("CREATE TABLE balances (account bigint PRIMARY KEY, balance bigint)");
        let text = script(&database);
        fs::write(folder.path().join("job.sql"), format!("SET 'execution.checkpointing.interval' = '30 ms'; {text}"))
            .unwrap();
        let mut command = millstream(folder.path());
        command.args(["run", "job.sql", "--quiet"]).stderr(Stdio::piped());
        if with_state {
            command.args(["--state-dir", "state"]);
        }
        let mut job = command.spawn().unwrap();
        let (mut states, mut accounts) = (BTreeSet::new(), 0);
        loop {
            let ended = job.try_wait().unwrap();
            let columns = "COALESCE(SUM(balance), 0), COALESCE(SUM(ABS(balance)), 0), COUNT(*)";
            let seen = database.rows(columns, "FROM balances").remove(0);
            let numbers: Vec<i64> = seen.split('|').map(|number| number.parse().unwrap()).collect();
            let [sum, moved, count] = numbers[..] else { panic!("three numbers, not {seen}") };
            assert_eq!(sum, 0, "of {count} accounts");
            states.insert(moved);
            accounts = accounts.max(count);
            if let Some(status) = ended {
                assert!(status.success());
                break;
            }
        }
        assert!(states.len() > 5 && accounts > 150, "{accounts} accounts in {} states", states.len());
    }
}

#[test]
fn rows_that_are_taken_back_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::new("deleted");
    database.execute("CREATE TABLE sizes (n bigint PRIMARY KEY, keys bigint)");
    // As many keys of each size as in the end: all smaller sizes have come and gone.
    let rows: String = (1..=40)
        .flat_map(|size| (1..=40).filter(move |key| key % 2 == 0 && size <= key * 10).map(|key| format!("{key}\n")))
        .collect();
    fs::write(folder.path().join("t.csv"), rows).unwrap();
    let sizes = database.with("sizes");
    let text = format!(
        "SET 'execution.runtime-mode' = 'streaming'; SET 'pipeline.beat-rows' = '30';
         CREATE TABLE t (k BIGINT) WITH ('connector' = 'filesystem', 'path' = 't.csv', 'format' = 'csv');
         CREATE TABLE sizes (n BIGINT, keys BIGINT, PRIMARY KEY (n) NOT ENFORCED) {sizes};
         INSERT INTO sizes SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n;"
    );
    fs::write(folder.path().join("job.sql"), text).unwrap();
    let output = millstream(folder.path()).args(["run", "job.sql", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(database.rows("n, keys", "FROM sizes ORDER BY n"), ["20|1", "40|19"]);
}

#[test]
fn changes_need_a_key_and_exactly_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut database = Database::new("refused");
    database.execute("CREATE TABLE counts (k bigint PRIMARY KEY, n bigint)");
    let counts = database.with("counts");
    let run = |key: &str, with: &str, state: bool| {
        let text = format!(
            "CREATE TABLE t (k BIGINT) WITH ('connector' = 'datagen', 'fields.k.max' = '9', 'fields.k.min' = '0');
             CREATE TABLE counts (k BIGINT, n BIGINT{key}) {with};
             INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k;"
        );
        fs::write(folder.path().join("job.sql"), text).unwrap();
        let mut command = millstream(folder.path());
        command.args(["run", "job.sql", "--quiet"]);
        if state {
            command.args(["--state-dir", "state"]);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let error = run("", &counts, false);
    assert!(
        error.contains("MS2017") && error.contains("add PRIMARY KEY (k) NOT ENFORCED to CREATE TABLE counts"),
        "{error}"
    );
    let at_least_once = counts.replace("WITH (", "WITH ('sink.delivery-guarantee' = 'at-least-once', ");
    let error = run(", PRIMARY KEY (k) NOT ENFORCED", &at_least_once, true);
    assert!(error.contains("MS1002") && error.contains("at least once"), "{error}");
}
