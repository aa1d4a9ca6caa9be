//! Code specialised for ranges of keys: whatever the ranges, and however often code is exchanged, the rows are those of
//! generic code, in the same order.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

mod support;

use millstream_abi::{Accumulator, ExecContext, Status};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::program::{KeyRange, Program};
use millstream_codegen::specialise::{Choices, Specialised, specialise};
use millstream_plan::pipeline::*;
use millstream_plan::window::{Overlap, Timeline, WindowAssigner};
use millstream_runtime::*;
use millstream_types::{DataType, Field};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::*;

/// Runs one of several kernels after the other, as if code were exchanged before every run.
struct Turns {
    kernels: Vec<Arc<dyn Kernel>>,
    next: AtomicUsize,
}

impl Kernel for Turns {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.kernels.len();
        // SAFETY: promised by the caller; all kernels are of one program.
        unsafe { self.kernels[turn].run(context, start, end) }
    }

    fn tier(&self) -> Tier {
        Tier::Interpreted
    }
}

fn interpreter(program: Program) -> Arc<dyn Kernel> {
    Arc::new(Interpreter::new(Arc::new(program)))
}

/// Code for a range, or generic code.
fn kernel(program: &Program, range: Option<KeyRange>) -> Arc<dyn Kernel> {
    let generic = interpreter(program.clone());
    if range.is_none() {
        return generic;
    }
    let choices = Choices { keys: range, ..Choices::default() };
    let special = specialise(program, &choices);
    assert_ne!(special, *program, "there are arrays of it");
    Arc::new(Specialised::new(program, choices, interpreter(special), generic))
}

/// Runs a plan with code for these ranges, in turns.
fn run_with(
    plan: QueryPlan,
    data: &[Vec<Row>],
    ranges: &[Option<KeyRange>],
    config: RunConfig,
) -> (Vec<String>, StatsSnapshot) {
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let mut input = input(plan, vec![connector(MemorySource::of(data, 47))], vec![sink]);
    for code in input.pipelines.iter_mut().filter_map(|pipeline| pipeline.stages.last_mut()) {
        if code.lowered.layout().is_some() {
            let kernels = ranges.iter().map(|&range| kernel(&code.lowered.program, range)).collect();
            let turns = Turns { kernels, next: AtomicUsize::new(0) };
            *code = PipelineCode::new(Arc::clone(&code.lowered), Arc::new(turns));
        }
    }
    let (result, stats) = run_within(input, config, CancelToken::new());
    result.unwrap();
    (written.rows(), stats)
}

fn range(first: i64, len: u64) -> Option<KeyRange> {
    Some(KeyRange { first, len })
}

/// Ranges that hold all keys, some of them, or none; alone and in turns.
fn turns() -> Vec<Vec<Option<KeyRange>>> {
    let (all, some, none) = (range(-10, 1000), range(3, 4), range(100_000, 5));
    vec![
        vec![all],
        vec![some],
        vec![none],
        vec![all, None],
        vec![all, some, None, none],
        vec![range(0, 8), range(2, 8)],
    ]
}

fn check(plan: &QueryPlan, data: &[Vec<Row>], strategies: impl Iterator<Item = (usize, MergeStrategy)>) {
    let (expected, generic) = run_with(plan.clone(), data, &[None], config(1, 0));
    assert!(!expected.is_empty());
    for (workers, merge) in strategies {
        for ranges in turns() {
            let config = RunConfig { merge, ..config(workers, 23) };
            let (rows, stats) = run_with(plan.clone(), data, &ranges, config);
            assert_eq!(rows, expected, "{workers} workers, {merge:?}, {ranges:?}");
            assert_eq!((stats.late_rows, stats.windows_fired), (generic.late_rows, generic.windows_fired));
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
fn tumbling_windows_are_those_of_generic_code() {
    for (seed, splits) in [(1, 1), (2, 5)] {
        check(&tumbling_plan(100, 40), &random_splits(seed, splits, 400, 60), strategies());
    }
}

#[test]
fn windows_of_windows_are_those_of_generic_code() {
    check(&chained_plan(50, 30, 170), &random_splits(5, 4, 500, 60), strategies().filter(|s| s.0 != 8));
}

#[test]
fn overlapping_windows_are_those_of_generic_code() {
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

#[test]
fn large_windows_are_merged_by_many_tasks() {
    let rows: Vec<Row> = (0..40_000).map(|i| (Some(i % 1000), i % 20_000, None)).collect();
    let splits: Vec<Vec<Row>> = rows.chunks(10_000).map(<[Row]>::to_vec).collect();
    let (expected, _) = tumbling_model(&splits, 1000, 2000);
    for ranges in [vec![range(0, 20_000)], vec![range(0, 20_000), range(5000, 5000), None]] {
        let (mut rows, _) = run_with(tumbling_plan(1000, 2000), &splits, &ranges, config(4, 512));
        rows.sort();
        assert_eq!(rows, expected);
    }
}
