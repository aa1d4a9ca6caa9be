//! Random streams out of order against brute-force models: every window, every aggregate, joins, Top-N and OVER give
//! the model's rows, whatever the tier, the number of workers and the size of buffers.

mod joins;
mod model;
mod ordered;
mod streams;
mod windows;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, RecordBatch};
use millstream::connectors::display;
use millstream::{Collected, DataType, Diagnostic, RunMonitor, Session, SessionConfig};
use streams::{Random, Row};

/// Tier, workers, rows of a buffer.
type Setup = (&'static str, &'static str, Option<&'static str>);

/// The setups of a case: both tiers, and in turn every combination of workers and buffers.
fn setups(case: u64) -> [Setup; 4] {
    const SIZES: [Option<&str>; 3] = [Some("1"), Some("7"), None];
    const WORKERS: [&str; 3] = ["1", "2", "8"];
    let combination = |i: u64| (WORKERS[(i % 3) as usize], SIZES[(i / 3 % 3) as usize]);
    let setup = |tier, i| (tier, combination(i).0, combination(i).1);
    [
        ("interpreted", "1", None),
        setup("interpreted", case),
        setup("compiled", case * 4 + 1),
        setup("compiled", case * 4 + 5),
    ]
}

/// A table of a case.
struct Input<'a> {
    name: &'a str,
    rows: &'a [Row],
    delay_ms: i64,
}

/// Runs the query under the setups of the case and compares its rows, in any order, with the model's.
fn check(case: u64, inputs: &[Input<'_>], sql: &str, mut expected: Vec<Vec<String>>) {
    expected.sort();
    for (tier, workers, buffer) in setups(case) {
        let mut session = Session::new(SessionConfig::default());
        session.set("pipeline.tier", tier).unwrap();
        session.set("parallelism.default", workers).unwrap();
        if let Some(rows) = buffer {
            session.set("pipeline.buffer-rows", rows).unwrap();
        }
        for input in inputs {
            let mut random = Random::new(case + 77);
            streams::register(&mut session, input.name, input.rows, input.delay_ms, &mut random);
        }
        let place = format!("case {case}, {tier}, {workers} workers, buffers of {buffer:?} rows:\n{sql}\n");
        let mut actual = rows(&mut session, sql).unwrap_or_else(|e| panic!("{place}{e}"));
        actual.sort();
        if actual != expected {
            let missing: Vec<_> = expected.iter().filter(|row| !actual.contains(row)).take(5).collect();
            let extra: Vec<_> = actual.iter().filter(|row| !expected.contains(row)).take(5).collect();
            let (found, wanted) = (actual.len(), expected.len());
            let inputs: Vec<String> = inputs.iter().map(|i| format!("{} {:#?}", i.name, i.rows)).collect();
            let file = std::env::temp_dir().join(format!("millstream-property-{case}.txt"));
            std::fs::write(&file, inputs.join("\n")).unwrap();
            panic!(
                "{place}{found} rows instead of {wanted}\nmissing {missing:#?}\ntoo many {extra:#?}\ninputs in {file:?}"
            );
        }
    }
}

/// The result with each value as text; a DOUBLE with the digits that any order of additions gives.
fn rows(session: &mut Session, sql: &str) -> Result<Vec<Vec<String>>, Diagnostic> {
    let statements = session.parse(sql)?;
    let mut results = Collected::new();
    session.execute(&statements[0], &mut results, &RunMonitor::new())?;
    let types: Vec<DataType> = results.schema().fields.iter().map(|f| f.data_type.clone()).collect();
    let batch: RecordBatch = results.into_batch()?;
    let cell = |row: usize, (array, data_type): (&arrow_array::ArrayRef, &DataType)| {
        if *data_type == DataType::Double && array.is_valid(row) {
            return model::number(Some(array.as_primitive::<Float64Type>().value(row)));
        }
        if data_type.is_timestamp() && array.is_valid(row) {
            let times = array.as_primitive::<arrow_array::types::TimestampMillisecondType>();
            return times.value(row).to_string();
        }
        let mut text = Vec::new();
        display::write_value(&mut text, array.as_ref(), row, data_type);
        String::from_utf8_lossy(&text).into_owned()
    };
    let row = |row: usize| batch.columns().iter().zip(&types).map(|column| cell(row, column)).collect();
    Ok((0..batch.num_rows()).map(row).collect())
}
