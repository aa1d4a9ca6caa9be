//! `tests/sql/*.slt`: SQL in, rows out, the same under every configuration.

use crate::{configurations, tests_dir};
use millstream::connectors::display;
use millstream::{Collected, Diagnostic, Outcome, RunMonitor, Session};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Runner};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A session as the test runner sees a database.
struct Database {
    session: Session,
    /// Folder for files that the script writes: `$DIR` in its SQL.
    directory: tempfile::TempDir,
}

impl DB for Database {
    type Error = Diagnostic;
    type ColumnType = DefaultColumnType;

    fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Diagnostic> {
        let sql = sql
            .replace("$DIR", &self.directory.path().to_string_lossy())
            .replace("$DATA", &tests_dir().join("sql/data").to_string_lossy());
        let statements = self.session.parse(&sql)?;
        let mut output = DBOutput::StatementComplete(0);
        for statement in &statements {
            let mut results = Collected::new();
            match self.session.execute(statement, &mut results, &RunMonitor::new())? {
                Outcome::Ran(_) if !statement.is_query() => {}
                Outcome::Ran(_) | Outcome::Listed => output = rows(results)?,
                Outcome::Text(text) => {
                    // EXPLAIN is the same under every configuration, but for what is sent between nodes, which comes last (`nodes`).
                    let text = text.split("\n== Exchanges between").next().unwrap_or_default();
                    let lines = text.lines().filter(|l| !l.is_empty()).map(|l| vec![l.to_string()]).collect();
                    output = DBOutput::Rows { types: vec![DefaultColumnType::Text], rows: lines };
                }
                Outcome::Done(_) => {}
            }
        }
        Ok(output)
    }
}

fn rows(results: Collected) -> Result<DBOutput<DefaultColumnType>, Diagnostic> {
    let types: Vec<_> = results.schema().fields.iter().map(|f| f.data_type.clone()).collect();
    let batch = results.into_batch()?;
    let cell = |row: usize, column: usize| {
        let mut text = Vec::new();
        display::write_value(&mut text, batch.column(column).as_ref(), row, &types[column]);
        match String::from_utf8(text).unwrap() {
            empty if empty.is_empty() => "(empty)".to_string(),
            text => text,
        }
    };
    let rows = (0..batch.num_rows()).map(|r| (0..types.len()).map(|c| cell(r, c)).collect()).collect();
    Ok(DBOutput::Rows { types: vec![DefaultColumnType::Any; types.len()], rows })
}

fn scripts() -> Vec<PathBuf> {
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(tests_dir().join("sql"))
        .expect("tests/sql is there")
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 5, "there are scripts to run");
    scripts
}

/// What goes wrong with each record of a script, so that one run shows all of it.
fn run(script: &Path, configuration: &configurations::Configuration) -> Vec<String> {
    let database = || {
        let directory = tempfile::tempdir().expect("a temporary folder can be made");
        let session = configuration.session();
        async move { Ok(Database { session, directory }) }
    };
    let mut runner = Runner::new(database);
    let records = sqllogictest::parse_file::<DefaultColumnType>(script).expect("the script is well-formed");
    let run = |record| runner.run(record).err();
    records.into_iter().filter_map(run).map(|e| format!("{}: {}", configuration.name, e.display(false))).collect()
}

/// Scripts whose names contain `MILLSTREAM_CORPUS`, or all, under the configurations whose names contain
/// `MILLSTREAM_CONFIGURATION`, or all.
fn is_chosen(name: &str, variable: &str) -> bool {
    std::env::var(variable).map_or(true, |part| name.contains(&part))
}

#[test]
fn every_script_gives_its_rows_under_every_configuration() {
    let configurations: Vec<_> =
        configurations::all().into_iter().filter(|c| is_chosen(&c.name, "MILLSTREAM_CONFIGURATION")).collect();
    let scripts: Vec<_> =
        scripts().into_iter().filter(|s| is_chosen(&s.to_string_lossy(), "MILLSTREAM_CORPUS")).collect();
    assert!(!configurations.is_empty(), "there are configurations to run under");
    let next = AtomicUsize::new(0);
    // Each thread takes the next script and configuration that nobody has taken.
    let work = || {
        let mut failures = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(script) = scripts.get(number / configurations.len()) else { return failures };
            let configuration = &configurations[number % configurations.len()];
            failures.extend(run(script, configuration).into_iter().map(|failure| (number, failure)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failures: Vec<(usize, String)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    failures.sort();
    let failures: Vec<String> = failures.into_iter().map(|(_, failure)| failure).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
