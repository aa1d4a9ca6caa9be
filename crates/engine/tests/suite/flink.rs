//! The queries and expressions of `tests/flink`, against what Apache Flink 2.2 answers.
//!
//! `tests/flink/rows` has Flink's answers of the last `scripts/flink-diff.sh --keep`; `make flink-diff` runs Flink and sets
//! `MILLSTREAM_FLINK_ROWS` to the folder of what it has just answered. A line `-- differs: REASON` in a file says that
//! Millstream's rows are others, and why; then they must be. A line `-- configurations: some` has the kept rows compared under every fifth
//! configuration, beginning with another one in each file: of operators that other files have under all of them. A line `-- varies:
//! REASON` says that Flink itself gives other rows from run to run: only the kept ones are compared.

use crate::configurations::{self, Configuration};
use crate::nexmark::{Bag, difference};
use crate::tests_dir;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Time32MillisecondType;
use millstream::connectors::display;
use millstream::{Collected, DataType, Diagnostic, RunMonitor, Session};
use millstream_types::text;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a query or a file of expressions is compared with.
struct Case {
    name: String,
    text: String,
    is_query: bool,
    /// Flink's answer, or that it refuses.
    expected: Option<String>,
}

impl Case {
    /// The value of a line `-- KEY: VALUE`.
    fn note(&self, key: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix("-- ")?.strip_prefix(key)?.strip_prefix(": "))
    }
}

/// Where the queries, their data and Flink's answers are.
pub(crate) fn folder() -> PathBuf {
    tests_dir().join("flink")
}

/// Those that Flink has answered; with `MILLSTREAM_FLINK` only those with this in their name.
fn cases() -> Vec<Case> {
    let rows = std::env::var("MILLSTREAM_FLINK_ROWS").map_or_else(|_| folder().join("rows"), PathBuf::from);
    let part = std::env::var("MILLSTREAM_FLINK").unwrap_or_default();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder().join("queries")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let case = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let answer = |extension: &str| rows.join(format!("{name}.{extension}"));
        let is_there = answer("csv").exists() || answer("error").exists();
        let expected = std::fs::read_to_string(answer("csv")).ok();
        (is_there && name.contains(&part)).then(|| Case {
            text: std::fs::read_to_string(&path).unwrap(),
            is_query: path.extension().is_some_and(|e| e == "sql"),
            expected,
            name,
        })
    };
    paths.into_iter().filter_map(case).collect()
}

/// The fields of the lines of a CSV file; NULL is `None`.
fn fields(csv: &str) -> Vec<Vec<Option<String>>> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    let mut rest = csv;
    while !rest.is_empty() {
        let field = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut text = String::new();
                let mut quoted = quoted;
                loop {
                    let (part, after) = quoted.split_once('"').expect("a quote is closed");
                    text.push_str(part);
                    match after.strip_prefix('"') {
                        Some(more) => {
                            text.push('"');
                            quoted = more;
                        }
                        None => break quoted = after,
                    }
                }
                rest = quoted;
                Some(text)
            }
            None => {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                let (text, after) = rest.split_at(end);
                rest = after;
                (!text.is_empty()).then(|| text.to_string())
            }
        };
        line.push(field);
        match rest.strip_prefix(',') {
            Some(after) if after.is_empty() || after.starts_with('\n') => {
                line.push(None);
                rest = after;
            }
            Some(after) => {
                rest = after;
                continue;
            }
            None => {}
        }
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        lines.push(std::mem::take(&mut line));
    }
    lines
}

/// A value as Flink's answers have it; its text is that of `display`, but for times, which keep their fraction.
fn value(array: &dyn Array, row: usize, data_type: &DataType) -> String {
    let mut out = Vec::new();
    match data_type {
        _ if array.is_null(row) => return String::new(),
        DataType::Time(_) => {
            text::write_time_trimmed(&mut out, array.as_primitive::<Time32MillisecondType>().value(row));
        }
        _ => display::write_value(&mut out, array, row, data_type),
    }
    let shown = String::from_utf8(out).unwrap();
    if shown.is_empty() { "''".into() } else { shown }
}

/// An expected field in the same form: numbers are compared, not the texts that Java gives them.
fn expected_value(field: &Option<String>, data_type: &DataType) -> String {
    let Some(shown) = field else { return String::new() };
    let mut out = Vec::new();
    match data_type {
        DataType::Double => text::write_f64(&mut out, shown.parse().unwrap()),
        DataType::Float => text::write_f32(&mut out, shown.parse().unwrap()),
        _ if shown.is_empty() => return "''".into(),
        _ => return shown.clone(),
    }
    String::from_utf8(out).unwrap()
}

fn bag(rows: impl Iterator<Item = Vec<String>>) -> Bag {
    let mut bag = Bag::new();
    rows.for_each(|row| *bag.entry(row.join(" | ")).or_default() += 1);
    bag
}

/// How the rows of a query are not those that Flink has answered; nothing when they are.
pub(crate) fn difference_to(answer: &str, results: Collected) -> Result<String, Diagnostic> {
    let types: Vec<DataType> = results.schema().fields.iter().map(|f| f.data_type.clone()).collect();
    let batch = results.into_batch()?;
    let wanted = fields(answer).into_iter().skip(1);
    let wanted = bag(wanted.map(|line| line.iter().zip(&types).map(|(f, t)| expected_value(f, t)).collect()));
    let row = |row| batch.columns().iter().zip(&types).map(|(array, t)| value(array, row, t)).collect();
    Ok(difference(&wanted, &bag((0..batch.num_rows()).map(row))))
}

/// Executes a script: the rows of its last statement.
pub(crate) fn execute(session: &mut Session, sql: &str) -> Result<Collected, Diagnostic> {
    let sql = sql.replace("${DATA}", &folder().join("data").to_string_lossy());
    let mut results = Collected::new();
    for statement in session.parse(&sql)? {
        results = Collected::new();
        session.execute(&statement, &mut results, &RunMonitor::new())?;
    }
    Ok(results)
}

fn session(case: &Case, configuration: &Configuration) -> Session {
    let mut session = configuration.session();
    session.set("table.local-time-zone", case.note("zone").unwrap_or("UTC")).unwrap();
    if case.is_query && case.expected.is_none() {
        // Flink was asked about streams.
        session.set("execution.runtime-mode", "streaming").unwrap();
    }
    session
}

/// How Millstream's rows of a query are not Flink's; nothing when they are.
fn query(case: &Case, configuration: &Configuration) -> Result<String, Diagnostic> {
    let mut session = session(case, configuration);
    execute(&mut session, &std::fs::read_to_string(folder().join("queries/ddl.sql")).unwrap())?;
    let results = execute(&mut session, &case.text)?;
    let Some(expected) = &case.expected else { return Ok("  Flink refuses it".into()) };
    difference_to(expected, results)
}

/// Type and value of an expression; of one that is refused or fails `ERROR`.
fn evaluate(session: &mut Session, expression: &str) -> (String, String, String) {
    let results = execute(session, &format!("SELECT {expression} AS v"));
    let evaluated = results.and_then(|results| {
        let data_type = results.schema().fields[0].data_type.clone();
        Ok((results.into_batch()?, data_type))
    });
    match evaluated {
        Ok((batch, data_type)) if batch.num_rows() == 1 => {
            let shown = value(batch.column(0).as_ref(), 0, &data_type);
            (data_type.to_string().replace(" NOT NULL", ""), shown, String::new())
        }
        Ok((batch, _)) => (String::new(), "ERROR".into(), format!("{} rows", batch.num_rows())),
        Err(error) => (String::new(), "ERROR".into(), error.to_string()),
    }
}

/// How Millstream's values of expressions are not Flink's.
fn expressions(case: &Case, configuration: &Configuration) -> String {
    let mut session = session(case, configuration);
    let mut report = String::new();
    let differs: BTreeMap<&str, &str> = case
        .text
        .lines()
        .collect::<Vec<_>>()
        .windows(2)
        .filter_map(|lines| Some((lines[1], lines[0].strip_prefix("-- differs: ")?)))
        .collect();
    for line in fields(case.expected.as_ref().unwrap()).into_iter().skip(1) {
        let [Some(expression), wanted_type, wanted] = &line[..] else { panic!("{line:?} has not three fields") };
        let (found_type, found, error) = evaluate(&mut session, expression);
        let wanted_type = wanted_type.clone().unwrap_or_default();
        let wanted = match wanted {
            Some(number) if ["DOUBLE", "FLOAT"].contains(&&*wanted_type) && number != "ERROR" => {
                let data_type = if wanted_type == "DOUBLE" { DataType::Double } else { DataType::Float };
                expected_value(&Some(number.clone()), &data_type)
            }
            other => expected_value(other, &DataType::STRING),
        };
        let is_same = found == wanted && (found == "ERROR" || found_type == wanted_type);
        match differs.get(expression.as_str()) {
            None if !is_same => {
                report += &format!(
                    "  {expression}: {wanted} of {wanted_type} expected, found {found} of {found_type} {error}\n"
                );
            }
            Some(reason) if is_same => report += &format!("  {expression} is Flink's, although \"{reason}\"\n"),
            _ => {}
        }
    }
    report
}

fn check(case: &Case, configuration: &Configuration, is_fresh: bool) -> Option<String> {
    if is_fresh && case.note("varies").is_some() {
        // Flink's next answer may be another one. The kept one is one that it has given.
        return None;
    }
    let found = match case.is_query {
        true => query(case, configuration).unwrap_or_else(|error| match case.expected {
            Some(_) => format!("  {error}"),
            None => String::new(),
        }),
        false => expressions(case, configuration),
    };
    let report = match case.note("differs").filter(|_| case.is_query) {
        Some(reason) if found.is_empty() => format!("  the rows are Flink's, although \"{reason}\""),
        Some(_) => String::new(),
        None => found,
    };
    (!report.is_empty()).then(|| format!("{} under {}:\n{report}", case.name, configuration.name))
}

#[test]
fn queries_and_expressions_give_flinks_rows() {
    let cases = cases();
    assert!(!cases.is_empty(), "there are answers to compare with");
    let is_fresh = std::env::var("MILLSTREAM_FLINK_ROWS").is_ok();
    let chosen = |name: &str| std::env::var("MILLSTREAM_CONFIGURATION").map_or(true, |part| name.contains(&part));
    let all: Vec<Configuration> = configurations::all().into_iter().filter(|c| chosen(&c.name)).collect();
    // Whether rows are Flink's can be seen under one configuration; that they are the same under all is what the kept ones are for.
    let configurations = if is_fresh { &all[..1] } else { &all[..] };
    let work: Vec<(&Case, &Configuration)> = cases
        .iter()
        .enumerate()
        .flat_map(|(number, case)| {
            let (first, step) = match case.note("configurations") {
                Some("some") if !is_fresh => (number % 5, 5),
                _ => (0, 1),
            };
            configurations.iter().skip(first).step_by(step).map(move |configuration| (case, configuration))
        })
        // Expressions do not know of workers and buffers.
        .filter(|(case, c)| is_fresh || case.is_query || ["interpreted-1", "compiled-1"].contains(&&*c.name))
        .collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut failures = Vec::new();
        while let Some((case, configuration)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            failures.extend(check(case, configuration, is_fresh));
        }
        failures
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    failures.sort();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
