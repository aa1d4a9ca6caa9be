//! Nexmark over the files of `tests/nexmark`, against what Apache Flink 2.2 answered.

use crate::{configurations, tests_dir};
use millstream::connectors::display;
use millstream::{Collected, DataType, Outcome, RunMonitor, Session};
use std::collections::BTreeMap;

const QUERIES: [&str; 7] = ["q0", "q1", "q2", "q10", "q12et", "q21", "q22"];

/// Rows as text with their number of occurrences; timestamps as epoch milliseconds, NULL as nothing, as in the files.
type Bag = BTreeMap<Vec<String>, usize>;

fn expected(query: &str) -> Bag {
    let path = tests_dir().join(format!("nexmark/flink/{query}.csv.zst"));
    let bytes = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    // No field of these results has a quote or a comma in it.
    assert!(!text.contains('"'));
    bag(text.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect()))
}

fn bag(rows: impl Iterator<Item = Vec<String>>) -> Bag {
    let mut bag = Bag::new();
    rows.for_each(|row| *bag.entry(row).or_default() += 1);
    bag
}

fn actual(session: &mut Session, query: &str) -> Bag {
    let sql = std::fs::read_to_string(tests_dir().join(format!("nexmark/queries/{query}.sql"))).unwrap();
    let statements = session.parse(&sql).unwrap();
    let mut results = Collected::new();
    let outcome = session.execute(&statements[0], &mut results, &RunMonitor::new());
    assert!(matches!(outcome, Ok(Outcome::Ran(_))), "{query}: {outcome:?}");
    let types: Vec<DataType> = results.schema().fields.iter().map(|f| f.data_type.clone()).collect();
    let batch = results.into_batch().unwrap();
    let cell = |row: usize, column: usize| {
        let array = batch.column(column).as_ref();
        let mut text = Vec::new();
        if array.is_null(row) {
            return String::new();
        }
        // An instant as a number is a BIGINT of the same bits.
        let shown = if types[column].is_timestamp() {
            use arrow_array::cast::AsArray;
            return array.as_primitive::<arrow_array::types::TimestampMillisecondType>().value(row).to_string();
        } else {
            &types[column]
        };
        display::write_value(&mut text, array, row, shown);
        String::from_utf8(text).unwrap()
    };
    bag((0..batch.num_rows()).map(|r| (0..types.len()).map(|c| cell(r, c)).collect()))
}

fn check(ddl: &str) {
    let data = tests_dir().join("nexmark").to_string_lossy().into_owned();
    let ddl = std::fs::read_to_string(tests_dir().join("nexmark").join(ddl)).unwrap().replace("${DATA}", &data);
    let expected: Vec<(&str, Bag)> = QUERIES.iter().map(|q| (*q, expected(q))).collect();
    for configuration in configurations::all() {
        for (query, expected) in &expected {
            let mut session = configuration.session();
            session.run(&ddl).unwrap();
            let actual = actual(&mut session, query);
            if actual != *expected {
                let missing = expected.iter().find(|(row, n)| actual.get(*row) != Some(n));
                let extra = actual.iter().find(|(row, n)| expected.get(*row) != Some(n));
                panic!("{query} under {}: expected {missing:?}, got {extra:?}", configuration.name);
            }
        }
    }
}

#[test]
fn queries_over_the_combined_stream_give_flinks_rows() {
    check("ddl_combined.sql");
}

#[test]
fn queries_over_flat_files_give_flinks_rows() {
    check("ddl_flat.sql");
}
