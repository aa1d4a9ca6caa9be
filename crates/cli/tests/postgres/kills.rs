//! Jobs that are killed at random moments leave the rows of an undisturbed run in the database. `MILLSTREAM_KILLS=200` kills
//! more often.

use crate::draws::Draws;
use crate::how_often::how_often;
use crate::manifests::manifests;
use crate::nodes::{nodes, on};
use crate::server::Database;
use crate::support::millstream;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tables that are upserted, some that are added to, and two of results that change, from operators that keep rows in different ways.
const SCRIPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
SET 'execution.runtime-mode' = 'streaming';
SET 'table.exec.mini-batch.allow-latency' = '5 ms';
CREATE TABLE a (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='a', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE b (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector'='filesystem', 'path'='b', 'format'='csv', 'scan.rate-limit.rows-per-second'='${RATE}');
CREATE TABLE tumble (k BIGINT, ws TIMESTAMP(3), n BIGINT, PRIMARY KEY (k, ws) NOT ENFORCED) WITH (DATABASE, 'table-name'='tumble');
CREATE TABLE latest (k BIGINT, ws TIMESTAMP(3), n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (DATABASE, 'table-name'='latest');
CREATE TABLE session (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT) WITH (DATABASE, 'table-name'='session');
CREATE TABLE joined (k BIGINT, i BIGINT, j BIGINT) WITH (DATABASE, 'table-name'='joined');
CREATE TABLE top (k BIGINT, n BIGINT, ws TIMESTAMP(3), r BIGINT) WITH (DATABASE, 'table-name'='top');
CREATE TABLE groups (k BIGINT, n BIGINT, ids BIGINT, least BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (DATABASE, 'table-name'='groups');
CREATE TABLE sizes (n BIGINT, many BIGINT, highest BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH (DATABASE, 'table-name'='sizes');
BEGIN STATEMENT SET;
INSERT INTO tumble SELECT k, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO latest SELECT k, window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO session SELECT k, window_start, window_end, COUNT(*)
FROM TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end;
INSERT INTO joined SELECT a.k, a.id, b.id
FROM a JOIN b ON a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '1' SECOND AND b.ts;
INSERT INTO top SELECT k, n, window_start, r FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS r FROM (
    SELECT k, window_start, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end))
WHERE r <= 3;
INSERT INTO groups SELECT k, COUNT(*), COUNT(DISTINCT id), MIN(id) FROM (SELECT id, k FROM a UNION ALL SELECT id, k FROM b) GROUP BY k;
INSERT INTO sizes SELECT n, COUNT(*), MAX(k) FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) GROUP BY n;
END;
";

const TABLES: [(&str, &str); 7] = [
    ("tumble", "k, ws, n"),
    ("latest", "k, ws, n"),
    ("session", "k, ws, we, n"),
    ("joined", "k, i, j"),
    ("top", "k, n, ws, r"),
    ("groups", "k, n, ids, least"),
    ("sizes", "n, many, highest"),
];

fn database(name: &str) -> Database {
    let mut database = Database::new(name);
    database.execute(
        "CREATE TABLE tumble (k bigint, ws timestamp, n bigint, PRIMARY KEY (k, ws));
         CREATE TABLE latest (k bigint PRIMARY KEY, ws timestamp, n bigint);
         CREATE TABLE session (k bigint, ws timestamp, we timestamp, n bigint);
         CREATE TABLE joined (k bigint, i bigint, j bigint);
         CREATE TABLE top (k bigint, n bigint, ws timestamp, r bigint);
         CREATE TABLE groups (k bigint PRIMARY KEY, n bigint, ids bigint, least bigint);
         CREATE TABLE sizes (n bigint PRIMARY KEY, many bigint, highest bigint)",
    );
    database
}

fn write_input(folder: &Path, draws: &mut Draws) {
    for table in ["a", "b"] {
        fs::create_dir(folder.join(table)).unwrap();
        for file in 0..2 {
            let row = |i: u64| {
                let (ms, k) = (i * 20 + draws.below(900), draws.below(40));
                format!("{i},{k},2024-01-01 00:{:02}:{:02}.{:03}\n", ms / 60_000, ms / 1000 % 60, ms % 1000)
            };
            let text: String = (0..3000).map(row).collect();
            fs::write(folder.join(table).join(format!("{file}.csv")), text).unwrap();
        }
    }
}

fn command(folder: &Path, database: &Database, rate: u64, workers: u64) -> Command {
    let mut command = command_of(SCRIPT, folder, database, workers);
    command.arg(format!("--var=RATE={rate}"));
    command
}

fn command_of(script: &str, folder: &Path, database: &Database, workers: u64) -> Command {
    let options = database.options("").into_iter().filter(|(key, _)| key != "table-name");
    let options: Vec<String> = options.map(|(k, v)| format!("'{k}'='{}'", v.replace('\'', "''"))).collect();
    fs::write(folder.join("job.sql"), script.replace("DATABASE", &options.join(", "))).unwrap();
    let mut command = millstream(folder);
    command.args(["run", "job.sql", "--quiet", "--workers", &workers.to_string()]);
    command
}

fn finish(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn content(database: &mut Database) -> Vec<Vec<String>> {
    let rows = |(table, columns): (&str, &str)| database.rows(columns, &format!("FROM {table} ORDER BY {columns}"));
    TABLES.map(rows).to_vec()
}

#[test]
fn a_job_that_is_killed_loses_and_repeats_nothing() {
    kill(how_often("MILLSTREAM_KILLS", 8), 0);
}

#[test]
fn a_job_on_several_processes_loses_and_repeats_nothing() {
    kill(how_often("MILLSTREAM_NODE_KILLS", 8), 2);
}

/// Kills a job so often, or one of the other processes that take part in it.
fn kill(kills: u64, others: usize) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut others = nodes(others, folder);
    let mut draws = Draws(kills);
    write_input(folder, &mut draws);
    let mut undisturbed = database(&format!("undisturbed_{}", others.len()));
    finish(command(folder, &undisturbed, 100_000_000, 2));
    let expected = content(&mut undisturbed);
    // Keys have come about as often as each other: there are few sizes of groups at last.
    let least = |table: &str| if table == "sizes" { 15 } else { 40 };
    let are_many = TABLES.iter().zip(&expected).all(|((table, _), rows)| rows.len() >= least(table));
    assert!(are_many, "{:?}", expected.iter().map(Vec::len).collect::<Vec<_>>());
    let mut left = kills;
    while left > 0 {
        let mut killed = database(&format!("killed_{}_{left}", others.len()));
        let (now, state) = (left.min(8), format!("state-{left}"));
        left -= now;
        for _ in 0..now {
            let mut command = command(folder, &killed, 6000, 1 + draws.below(4));
            let mut child = on(command.args(["--state-dir", &state]), &others, "20").spawn().unwrap();
            std::thread::sleep(Duration::from_millis(50 + draws.below(900)));
            if !others.is_empty() && draws.below(3) > 0 {
                let at = draws.below(others.len() as u64) as usize;
                others[at].replace(folder);
                std::thread::sleep(Duration::from_millis(draws.below(2500)));
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // A job that has ended is not run again.
        for _ in 0..2 {
            let mut command = command(folder, &killed, 100_000_000, 2);
            on(command.args(["--state-dir", &state]), &others, "20");
            finish(command);
            let found = content(&mut killed);
            for ((table, _), (found, expected)) in TABLES.iter().zip(found.iter().zip(&expected)) {
                let (has, wants) = (found.len(), expected.len());
                assert!(found == expected, "{table} has {has} rows instead of {wants}; {left} kills before the end");
            }
        }
        assert_eq!(killed.number("SELECT COUNT(DISTINCT sink) FROM millstream_progress WHERE checkpoint > 0"), 7);
    }
}

/// Without what nodes send each other: one that is lost is replaced while the others go on.
const KEPT: &str = "
SET 'execution.checkpointing.interval' = '20 ms';
CREATE TABLE a (id BIGINT, k BIGINT, ts TIMESTAMP(3))
WITH ('connector'='filesystem', 'path'='kept', 'format'='csv', 'scan.rate-limit.rows-per-second'='400');
CREATE TABLE joined (k BIGINT, i BIGINT, j BIGINT) WITH (DATABASE, 'table-name'='joined');
CREATE TABLE session (k BIGINT, ws TIMESTAMP(3), we TIMESTAMP(3), n BIGINT) WITH (DATABASE, 'table-name'='session');
BEGIN STATEMENT SET;
INSERT INTO joined SELECT k, id, id * 2 FROM a;
INSERT INTO session SELECT k, ts, ts, id FROM a WHERE MOD(id, 3) = 0;
END;
";

#[test]
fn killed_nodes_of_several_processes_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (most, mut kills, mut replaced) = (how_often("MILLSTREAM_NODE_KILLS", 6), 0, 0);
    let mut draws = Draws(most);
    fs::create_dir(folder.join("kept")).unwrap();
    for file in 0..6 {
        let rows: String = (0..1000).map(|i| format!("{},{},2024-01-01 00:00:00\n", i * 6 + file, i % 40)).collect();
        fs::write(folder.join(format!("kept/{file}.csv")), rows).unwrap();
    }
    while kills < most {
        let mut killed = database(&format!("replaced_{kills}"));
        let mut nodes = nodes(2, folder);
        let mut command = command_of(KEPT, folder, &killed, 1);
        let state = format!("state-{kills}");
        let command = on(command.args(["--state-dir", &state]), &nodes, "20");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // Nobody is replaced before the first checkpoint: the job would begin once more.
        let since = Instant::now();
        while manifests(&folder.join(&state).join("job-1")).is_empty() && child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < Duration::from_secs(60), "there is no checkpoint");
            std::thread::sleep(Duration::from_millis(5));
        }
        while kills < most && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(100 + draws.below(700)));
            nodes[draws.below(2) as usize].replace(folder);
            kills += 1;
        }
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !said.contains("restart"), "{said}");
        replaced += said.matches("takes its place").count();
        let rows = |table: &str, id: &str| format!("SELECT COUNT(*) * 10000 + COUNT(DISTINCT {id}) FROM {table}");
        let found = [("joined", "i"), ("session", "n")].map(|(table, id)| killed.number(&rows(table, id)));
        assert_eq!(found, [60_006_000, 20_002_000], "after {kills} kills");
    }
    assert!(replaced > 0, "{kills} kills");
}
