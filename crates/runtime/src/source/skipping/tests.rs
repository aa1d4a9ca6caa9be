//! When which way of decoding is tried and kept.

use super::*;

/// Decodes chunks one after the other; `cost` gives nanoseconds per row and the share of survivors. How many were decoded for
/// survivors only, and the changes.
fn run(trials: &mut Trials, chunks: u64, cost: impl Fn(bool) -> (f64, Option<f64>)) -> (u64, Vec<Decision>) {
    let (mut skipped, mut switches) = (0, Vec::new());
    for _ in 0..chunks {
        let skips = trials.next();
        skipped += u64::from(skips);
        let (nanos, share) = cost(skips);
        switches.extend(trials.note(skips, nanos, share.filter(|_| skips)));
    }
    (skipped, switches)
}

#[test]
fn the_cheaper_way_is_kept() {
    let mut trials = Trials::default();
    let (skipped, switches) = run(&mut trials, 2000, |skips| (if skips { 20.0 } else { 50.0 }, Some(0.1)));
    assert_eq!((switches.len(), trials.share, trials.skips), (1, 0.1, true));
    assert!((2000 - skipped) * 50 < 2000, "whole chunks are too few to break assumptions: {}", 2000 - skipped);
    let text = format!("{}: {}", switches[0].observed, switches[0].decided);
    assert!(text.contains("10.0 %") && text.contains("50.0 ns when all columns"), "{text}");
    assert!(text.contains("20.0 ns when those behind") && text.contains("for rows that pass"), "{text}");

    let mut trials = Trials::default();
    let (skipped, switches) = run(&mut trials, 2000, |skips| (if skips { 60.0 } else { 50.0 }, Some(0.9)));
    assert!(switches.is_empty());
    assert!(skipped < 2000 / 25, "{skipped} chunks for trials");
}

#[test]
fn other_data_is_noticed() {
    let mut trials = Trials::default();
    let few = |skips| (if skips { 20.0 } else { 50.0 }, Some(0.1));
    let many = |skips| (if skips { 70.0 } else { 50.0 }, Some(0.8));
    assert_eq!(run(&mut trials, 50, few).1.len(), 1);
    let (_, switches) = run(&mut trials, 4 * TRIED as u64, many);
    let decided: Vec<&str> = switches.iter().map(|switch| &*switch.decided).collect();
    assert_eq!(decided, ["all columns are decoded"], "the share is another one at once");
    assert_eq!(run(&mut trials, 2 * DECODED, few).1.len(), 1, "the next trial shows it");
}

#[test]
fn one_slow_chunk_decides_nothing() {
    let mut trials = Trials::default();
    let chunk = std::cell::Cell::new(0);
    let (_, switches) = run(&mut trials, 2 * TRIED as u64 + 5, |skips| {
        chunk.set(chunk.get() + 1);
        (
            if chunk.get() == 4 {
                5000.0
            } else if skips {
                20.0
            } else {
                50.0
            },
            Some(0.1),
        )
    });
    assert_eq!(switches.len(), 1);
    assert!(switches[0].decided.ends_with("for rows that pass"));
}

#[test]
fn nothing_to_leave_out_is_tried_rarely() {
    let mut trials = Trials::default();
    let (skipped, switches) = run(&mut trials, 2000, |_| (50.0, None));
    assert!(skipped < 10 && switches.is_empty(), "{skipped}");
}

#[test]
fn rows_are_left_if_any_pipeline_lets_them_through() {
    use crate::executable_plan::{HeadCondition, PipelineCode};
    use arrow_array::Int64Array;
    use millstream_codegen::lower::lower_condition;
    use millstream_plan::expr::{Expr, ExprKind, Span};
    use millstream_types::{DataType, Field, Schema};
    use std::sync::Arc;

    let is_true = |column: usize| Expr {
        kind: ExprKind::Column(column),
        data_type: DataType::Boolean,
        nullable: true,
        span: Span::default(),
    };
    let schema = Schema::new(vec![Field::new("flag", DataType::Boolean, true)]);
    let condition = |column: usize| HeadCondition {
        code: PipelineCode::interpreted(Arc::new(lower_condition("head", &schema, &is_true(0)).unwrap())),
        columns: vec![column],
    };
    let head = HeadCode { columns: vec![1, 3, 4], conditions: vec![condition(3), condition(4)] };
    let mut functions = FunctionContext::new(Default::default());
    let mut filter = Filter { head: &head, functions: &mut functions, surviving: None };
    let flags = |values: [Option<bool>; 4]| Arc::new(arrow_array::BooleanArray::from(values.to_vec())) as ArrayRef;
    let columns: [ArrayRef; 3] = [
        Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        flags([Some(true), Some(false), None, Some(true)]),
        flags([Some(true), None, Some(true), Some(false)]),
    ];
    let survivors = filter.survivors(&columns, 4).unwrap();
    assert_eq!(survivors.iter().collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(filter.surviving, Some(0.75));
    assert!(filter.survivors(&columns[..2], 4).is_err(), "the decoder left out a column of a filter");
}
