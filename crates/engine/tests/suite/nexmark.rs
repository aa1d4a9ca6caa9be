//! Nexmark over the files of `tests/nexmark`, against what Apache Flink 2.2 answered.

use crate::{configurations, tests_dir};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, RecordBatch};
use millstream::connectors::display;
use millstream::{Collected, DataType, Diagnostic, RunMonitor, Session};
use std::collections::HashMap;
use std::fmt::Write;
use xxhash_rust::xxh3::xxh3_128;

pub(crate) const QUERIES: [&str; 16] =
    ["q0", "q1", "q2", "q3", "q5", "q7", "q8", "q10", "q11", "q12et", "q13", "q14", "q20", "q21", "q22", "q23"];

/// The user function of q14.
pub(crate) const COUNT_CHAR: &str = "CREATE FUNCTION count_char(text STRING, letter STRING) RETURNS BIGINT
    RETURN CHAR_LENGTH(text) - CHAR_LENGTH(REPLACE(text, letter, ''))";

/// Rows as lines of the files, with their number of occurrences: timestamps as epoch milliseconds, NULL as nothing.
pub(crate) type Bag = HashMap<String, usize>;

pub(crate) fn expected(query: &str) -> Bag {
    let path = tests_dir().join(format!("nexmark/flink/{query}.csv.zst"));
    let bytes = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    // No field of these results has a quote or a comma in it.
    assert!(!text.contains('"'));
    bag(text.lines().skip(1).map(str::to_string))
}

pub(crate) fn bag(rows: impl Iterator<Item = String>) -> Bag {
    let mut bag = Bag::new();
    rows.for_each(|row| *bag.entry(row).or_default() += 1);
    bag
}

/// The rows of a query.
pub(crate) fn actual(session: &mut Session, sql: &str) -> Result<Bag, Diagnostic> {
    Ok(Rows::of(session, sql)?.bag())
}

/// The rows of a query with their types.
struct Rows {
    batch: RecordBatch,
    types: Vec<DataType>,
}

impl Rows {
    fn of(session: &mut Session, sql: &str) -> Result<Rows, Diagnostic> {
        let statements = session.parse(sql)?;
        let mut results = Collected::new();
        session.execute(&statements[0], &mut results, &RunMonitor::new())?;
        let types = results.schema().fields.iter().map(|f| f.data_type.clone()).collect();
        Ok(Rows { batch: results.into_batch()?, types })
    }

    fn bag(&self) -> Bag {
        let mut line = Vec::new();
        bag((0..self.batch.num_rows()).map(|row| {
            self.write(row, &mut line);
            String::from_utf8_lossy(&line).into_owned()
        }))
    }

    /// As [`sum`].
    fn sum(&self) -> u128 {
        let mut line = Vec::new();
        let hashes = (0..self.batch.num_rows()).map(|row| {
            self.write(row, &mut line);
            xxh3_128(&line)
        });
        hashes.fold(0, u128::wrapping_add)
    }

    /// Writes the line of a row.
    fn write(&self, row: usize, line: &mut Vec<u8>) {
        line.clear();
        for (i, (array, data_type)) in self.batch.columns().iter().zip(&self.types).enumerate() {
            if i > 0 {
                line.push(b',');
            }
            if array.is_null(row) {
                continue;
            }
            if data_type.is_timestamp() {
                let times = array.as_primitive::<TimestampMillisecondType>();
                line.extend_from_slice(times.value(row).to_string().as_bytes());
            } else {
                display::write_value(line, array.as_ref(), row, data_type);
            }
        }
    }
}

/// A sum of the rows in any order: bags are made where it is another one.
fn sum(bag: &Bag) -> u128 {
    bag.iter().map(|(row, number)| xxh3_128(row.as_bytes()).wrapping_mul(*number as u128)).fold(0, u128::wrapping_add)
}

/// The first rows of which there are not as many as there should be.
pub(crate) fn difference(expected: &Bag, actual: &Bag) -> String {
    let number = |bag: &Bag, row: &str| bag.get(row).copied().unwrap_or(0);
    let mut rows: Vec<&String> = expected.keys().chain(actual.keys()).collect();
    rows.sort();
    rows.dedup();
    let mut report = String::new();
    for row in rows.into_iter().filter(|row| number(expected, row) != number(actual, row)).take(6) {
        let (wanted, found) = (number(expected, row), number(actual, row));
        writeln!(report, "  {wanted} expected, {found} found: {row}").unwrap();
    }
    report
}

/// The size of buffers in a configuration, where it is one of a few rows. These are 100,000 events, not the few of the corpus: those of
/// three rows, which spill with every second buffer, have twelve here, and of the two layouts one has buffers of a row, the other of seven.
fn buffer_rows(configured: &str, least: usize) -> Option<usize> {
    match configured.parse().ok()? {
        0 => None,
        1 => Some(least),
        rows @ 2..8 => Some(4 * rows),
        rows => Some(rows),
    }
}

/// With buffers of at least `least_rows` rows.
fn check(ddl: &str, least_rows: usize) {
    let data = tests_dir().join("nexmark").to_string_lossy().into_owned();
    let ddl = std::fs::read_to_string(tests_dir().join("nexmark").join(ddl)).unwrap().replace("${DATA}", &data);
    let mut failures = Vec::new();
    for query in QUERIES.into_iter().filter(|q| std::env::var("MILLSTREAM_NEXMARK").map_or(true, |part| part == *q)) {
        let expected = expected(query);
        let expected_sum = sum(&expected);
        let sql = std::fs::read_to_string(tests_dir().join(format!("nexmark/queries/{query}.sql"))).unwrap();
        for configuration in configurations::all() {
            let mut session = configuration.session();
            let configured = configuration.get("pipeline.buffer-rows").unwrap_or_default();
            if let Some(rows) = buffer_rows(configured, least_rows) {
                session.set("pipeline.buffer-rows", &rows.to_string()).unwrap();
            }
            session.run(&ddl).unwrap();
            session.run(COUNT_CHAR).unwrap();
            match Rows::of(&mut session, &sql) {
                Ok(rows) if rows.sum() == expected_sum => {}
                Ok(rows) => {
                    let difference = difference(&expected, &rows.bag());
                    failures.push(format!("{query} under {}:\n{difference}", configuration.name))
                }
                Err(error) => failures.push(format!("{query} under {}: {error}", configuration.name)),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn queries_over_the_combined_stream_give_flinks_rows() {
    check("ddl_combined.sql", 1);
}

#[test]
fn queries_over_flat_files_give_flinks_rows() {
    check("ddl_flat.sql", 7);
}
