//! Tables that append rows instead of aggregating them: whichever do, and whenever they cease to, the rows are those of tables
//! that aggregate, in the same order.

use crate::support::*;
use millstream_runtime::*;
use millstream_types::MemorySize;

/// Ways to aggregate, of which all but the first let tables append.
fn ways() -> [Adaptivity; 4] {
    let with = |pre_aggregation, chaos_seed| Adaptivity { pre_aggregation, chaos_seed, ..Adaptivity::default() };
    use When::{Always, Auto, Never};
    [with(Always, None), with(Never, None), with(Auto, Some(1)), with(Auto, Some(2))]
}

fn check(plan: &millstream_plan::pipeline::QueryPlan, data: &[Vec<Row>], workers: &[usize]) {
    let mut expected: Option<(Vec<String>, u64)> = None;
    for (workers, merge) in strategies().filter(|(of, _)| workers.contains(of)) {
        for adaptivity in ways() {
            for (buffer_rows, cut_every) in [(0, 0), (7, 2)] {
                let what = format!("{workers} workers, {merge:?}, {adaptivity:?}, buffers of {buffer_rows}");
                let adaptivity = adaptivity.clone();
                let config = RunConfig { merge, adaptivity, cut_every, ..config(workers, buffer_rows) };
                let (rows, stats) = run_to_end(plan.clone(), MemorySource::of(data, 47), config);
                let found = (rows, stats.late_rows);
                assert_eq!(found, *expected.get_or_insert_with(|| found.clone()), "{what}");
            }
        }
    }
}

#[test]
fn windows_are_those_of_tables_that_aggregate() {
    check(&tumbling_plan(100, 40), &random_splits(2, 5, 400, 60), &[1, 2, 8]);
    check(&chained_plan(50, 30, 170), &random_splits(5, 4, 300, 60), &[2]);
}

#[test]
fn large_windows_are_merged_by_many_tasks() {
    let rows: Vec<Row> = (0..40_000).map(|i| (Some(i % 1000), i % 30_000, None)).collect();
    let splits: Vec<Vec<Row>> = rows.chunks(10_000).map(<[Row]>::to_vec).collect();
    let (expected, _) = tumbling_model(&splits, 1000, 2000);
    for adaptivity in ways() {
        let config = RunConfig { adaptivity, ..config(4, 512) };
        let (mut rows, _) = run_to_end(tumbling_plan(1000, 2000), MemorySource::of(&splits, 700), config);
        rows.sort();
        assert_eq!(rows, expected);
    }
}

#[test]
fn rows_of_keys_of_their_own_are_appended_until_keys_come_again() {
    const WINDOWS: i64 = 80;
    const ROWS: i64 = 500;
    // A key for each row in the first windows, then ten, then a key for each again.
    let key = |row: i64| match row / ROWS {
        window if (40..60).contains(&window) => row % 10,
        _ => row * 7919 % 1_000_003,
    };
    let rows = |first: i64| (first..WINDOWS * ROWS).step_by(2).map(|row| (Some(row / 5), key(row), None)).collect();
    let splits: Vec<Vec<Row>> = vec![rows(0), rows(1)];
    let (expected, _) = tumbling_model(&splits, ROWS / 5, 50);
    for (workers, merge) in strategies().filter(|(_, merge)| *merge != MergeStrategy::Global) {
        let config = RunConfig { merge, ..config(workers, 100) };
        let (mut rows, stats) = run_to_end(tumbling_plan(ROWS / 5, 50), MemorySource::of(&splits, 100), config.clone());
        rows.sort();
        assert_eq!(rows, expected, "{workers} workers, {merge:?}");
        if merge == MergeStrategy::Auto && workers > 1 {
            // Tables may be shared meanwhile.
            continue;
        }
        let decided: Vec<&str> = stats.events.iter().map(|event| event.decided.as_str()).collect();
        let appended = decided.iter().position(|decided| decided.contains("appended"));
        let aggregated = decided.iter().rposition(|decided| decided.contains("before tables are merged"));
        assert!(appended.is_some() && appended < aggregated, "{workers} workers, {merge:?}: {decided:?}");
        let never = RunConfig { adaptivity: Adaptivity { is_enabled: false, ..Adaptivity::default() }, ..config };
        let (_, stats) = run_to_end(tumbling_plan(ROWS / 5, 50), MemorySource::of(&splits, 100), never);
        assert!(!stats.events.iter().any(|event| event.decided.contains("appended")), "it is forbidden");
    }
}

#[test]
fn appended_rows_take_a_share_of_the_memory() {
    // One window of ten keys, of which the rows alone would not fit.
    let rows: Vec<Row> = (0..200_000).map(|i| (Some(i % 1000), i % 10, None)).collect();
    let splits: Vec<Vec<Row>> = rows.chunks(100_000).map(<[Row]>::to_vec).collect();
    let (expected, _) = tumbling_model(&splits, 1000, 2000);
    let adaptivity = Adaptivity { pre_aggregation: When::Never, ..Adaptivity::default() };
    let config = RunConfig { adaptivity, memory: MemorySize::Bytes(4 << 20), ..config(2, 1000) };
    let (mut rows, _) = run_to_end(tumbling_plan(1000, 2000), MemorySource::of(&splits, 1000), config);
    rows.sort();
    assert_eq!(rows, expected);
}
