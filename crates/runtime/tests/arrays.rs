//! Tables with dense regions: the rows are those of hash tables, in the same order; and where keys are dense from the beginning, no
//! entry is hashed, sorted or given a key.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

#[path = "queries/support/mod.rs"]
mod support;

use millstream_abi::Accumulator;
use millstream_plan::pipeline::*;
use millstream_plan::window::{Overlap, Timeline, WindowAssigner};
use millstream_runtime::*;
use millstream_state::work;
use millstream_types::{DataType, Field};
use parking_lot::Mutex;
use std::sync::Arc;
use support::*;

/// Counts of work are of the process: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// Runs a plan with or without dense regions.
fn run_with(plan: QueryPlan, data: &[Vec<Row>], dense: bool, config: RunConfig) -> (Vec<String>, StatsSnapshot) {
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let input = input(plan, vec![connector(MemorySource::of(data, 47))], vec![sink]);
    let (result, stats) = run_within(input, RunConfig { dense_tables: dense, ..config }, CancelToken::new());
    result.unwrap();
    (written.rows(), stats)
}

/// Rows as they are, and with keys far away among them, so that regions move and some keys stay outside.
fn with_outliers(data: &[Vec<Row>]) -> Vec<Vec<Row>> {
    let moved = |(number, row): (usize, &Row)| {
        let (time, key) = (row.0, row.1);
        let far = match number % 17 {
            3 => key << 40,
            5 => -key - 1,
            _ => key + number as i64 / 40,
        };
        (time, far, row.2.clone())
    };
    data.iter().map(|split| split.iter().enumerate().map(moved).collect()).collect()
}

fn check(plan: &QueryPlan, data: &[Vec<Row>], strategies: impl Iterator<Item = (usize, MergeStrategy)>) {
    let data = [data.to_vec(), with_outliers(data)];
    let expected = data.each_ref().map(|data| run_with(plan.clone(), data, false, config(1, 0)));
    assert!(expected.iter().all(|(rows, _)| !rows.is_empty()));
    for (workers, merge) in strategies {
        for (data, (expected, hashed)) in data.iter().zip(&expected) {
            let config = RunConfig { merge, ..config(workers, 23) };
            let (rows, stats) = run_with(plan.clone(), data, true, config);
            assert_eq!(rows, *expected, "{workers} workers, {merge:?}");
            assert_eq!((stats.late_rows, stats.windows_fired), (hashed.late_rows, hashed.windows_fired));
        }
    }
}

/// Sums that can be taken back, and the greatest key.
fn overlapping_plan(overlap: Overlap, combination: Combination) -> QueryPlan {
    let mut plan = tumbling_plan(100, 40);
    let second = if combination == Combination::Subtract { Accumulator::SumI64 } else { Accumulator::MaxI64 };
    plan.aggregations[0] = Aggregation {
        timeline: Timeline::Own,
        assigner: WindowAssigner::Overlap(overlap),
        components: vec![Accumulator::Count, second],
        combination,
        ..aggregation(tumble(100), vec![Field::new("key", DataType::BigInt, false)])
    };
    plan.pipelines[1].schema = plan.aggregations[0].output_schema();
    plan.sinks = vec![sink_plan(plan.aggregations[0].output_schema(), None)];
    plan
}

#[test]
fn tumbling_windows_are_those_of_hash_tables() {
    let _one = ONE.lock();
    for (seed, splits) in [(1, 1), (2, 5)] {
        check(&tumbling_plan(100, 40), &random_splits(seed, splits, 400, 60), strategies());
    }
}

#[test]
fn windows_of_windows_are_those_of_hash_tables() {
    let _one = ONE.lock();
    check(&chained_plan(50, 30, 170), &random_splits(5, 4, 500, 60), strategies().filter(|s| s.0 != 8));
}

#[test]
fn overlapping_windows_are_those_of_hash_tables() {
    let _one = ONE.lock();
    let hop = Overlap::Hop { size_ms: 90, slide_ms: 40, offset_ms: 11 };
    let cumulate = Overlap::Cumulate { size_ms: 120, step_ms: 40, offset_ms: 2 };
    for combination in [Combination::Recompute, Combination::Subtract, Combination::TwoStacks] {
        for overlap in [hop, cumulate] {
            let plan = overlapping_plan(overlap, combination);
            let workers = [1, 3].map(|workers| (workers, MergeStrategy::Local));
            check(&plan, &random_splits(6, 3, 300, 60), workers.into_iter());
        }
    }
}

/// Twenty windows of 1,000 keys.
fn dense_splits() -> Vec<Vec<Row>> {
    let rows: Vec<Row> = (0..200_000).map(|i| (Some(i / 10), (i * 7) % 1000, None)).collect();
    rows.chunks(50_000).map(<[Row]>::to_vec).collect()
}

#[test]
fn large_windows_are_merged_by_many_tasks() {
    let _one = ONE.lock();
    let rows: Vec<Row> = (0..40_000).map(|i| (Some(i % 1000), i % 20_000, None)).collect();
    let splits: Vec<Vec<Row>> = rows.chunks(10_000).map(<[Row]>::to_vec).collect();
    let (expected, _) = tumbling_model(&splits, 1000, 2000);
    let (mut rows, _) = run_with(tumbling_plan(1000, 2000), &splits, true, config(4, 512));
    rows.sort();
    assert_eq!(rows, expected);
}

#[test]
fn a_dense_key_is_neither_hashed_nor_sorted_nor_copied() {
    let _one = ONE.lock();
    let (splits, plan) = (dense_splits(), tumbling_plan(1000, 100_000));
    let groups = 20 * 1000;
    for workers in [1, 2] {
        let config = RunConfig { merge: MergeStrategy::Local, ..config(workers, 1024) };
        let before = work();
        run_with(plan.clone(), &splits, true, config.clone());
        let after = work();
        // Tables that are made before the first one is sealed learn their keys; NULL and outliers there are none.
        let (hashed, sorted) = (after.hashed - before.hashed, after.sorted - before.sorted);
        assert!(hashed < groups / 20 && sorted < groups / 10, "{hashed} hashed, {sorted} sorted of {groups}");
        assert_eq!(after.spread, before.spread);
        // Without regions all are, twice with two workers.
        run_with(plan.clone(), &splits, false, config);
        assert!(work().hashed - after.hashed >= groups && work().sorted - after.sorted >= groups);
    }
}
