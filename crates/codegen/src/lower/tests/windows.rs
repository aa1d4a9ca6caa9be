//! Tables and lateness of rows in overlapping and attached windows: golden programs, and the plan's own arithmetic as a
//! model.

use super::{check, column, plan};
use crate::execute::{Flow, update};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, lower_pipeline};
use crate::testing::{MemoryTables, Random, random_overlap};
use arrow_array::{ArrayRef, Int64Array, TimestampMillisecondArray};
use expect_test::expect;
use millstream_abi::{Accumulator, ObjectKind, Phys};
use millstream_functions::FunctionContext;
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::pipeline::{
    Aggregation, Combination, ComponentUpdate, Pipeline, PipelineEnd, PipelineInput, QueryPlan,
};
use millstream_plan::window::{Overlap, Timeline, WindowAssigner};
use millstream_types::{DataType, Field, Schema};
use std::sync::Arc;

fn update_of(argument: Option<Expr>) -> ComponentUpdate {
    ComponentUpdate { argument, guard: None }
}

/// The aggregation of `components` over the columns of [`super::schema`], by auction.
fn aggregation(
    assigner: WindowAssigner,
    components: Vec<Accumulator>,
    updates: Vec<ComponentUpdate>,
) -> Result<Lowered, millstream_types::Diagnostic> {
    let time = assigner.has_window().then(|| column("time"));
    let keys = vec![column("auction")];
    let mut plan = plan(vec![], PipelineEnd::Aggregate { aggregation: 0, time, keys, updates });
    let keys = vec![Field::new("auction", DataType::BigInt, false)];
    let combination = Combination::Recompute;
    plan.aggregations.push(Aggregation {
        timeline: Timeline::Own,
        assigner,
        keys,
        components,
        calls: vec![],
        outputs: vec![],
        shorter: None,
        combination,
    });
    lower_pipeline(&plan, 0).map(|(mut stages, _)| stages.remove(0))
}

fn counted(assigner: WindowAssigner) -> Lowered {
    aggregation(assigner, vec![Accumulator::Count], vec![update_of(None)]).unwrap()
}

/// Rows for which some windows are complete go to a separate table, numbered in a branch that hardly any row takes.
#[test]
fn hops_that_share_slices() {
    let hop = Overlap::Hop { size_ms: 10, slide_ms: 4, offset_ms: 1 };
    check(
        &counted(WindowAssigner::Overlap(hop)).program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 3
              v1 = valid 3
              v2 = not v1
              trap v2 null_rowtime
              v3 = slice_start v0 size 2 offset 1
              v4 = const i64 -1
              v5 = add v3 v4
              v6 = const i64 2
              v7 = div v5 v6
              v8 = slice_start v3 size 4 offset 1
              v9 = const i64 10
              v10 = add v8 v9
              v11 = const i64 6
              v12 = add v8 v11
              v13 = add v8 v6
              v14 = lt v3 v13
              v15 = select v14 v13 v12
              v16 = add v10 v4
              v17 = watermark
              v18 = gt v16 v17
              filter v18 late
              v19 = const i64 4
              v20 = mul v7 v19
              v21 = const i64 0
              v22 = add v15 v4
              v23 = ge v17 v22
              v28 = if v23
                v24 = sub v17 v22
                v25 = div v24 v19
                v26 = const i64 1
                v27 = add v25 v26
                give v27
              else
                give v21
              v29 = add v20 v28
              v30 = load 0
              update slice v29
                key v30
                count
        "#]],
    );
}

/// A slide longer than the size leaves times without window: such rows are dropped but not late.
#[test]
fn hops_with_gaps() {
    let hop = Overlap::Hop { size_ms: 2, slide_ms: 6, offset_ms: 0 };
    check(
        &counted(WindowAssigner::Overlap(hop)).program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 3
              v1 = valid 3
              v2 = not v1
              trap v2 null_rowtime
              v3 = slice_start v0 size 2
              v4 = const i64 2
              v5 = div v3 v4
              v6 = slice_start v3 size 6
              v7 = add v6 v4
              v8 = lt v3 v7
              filter v8
              v9 = const i64 -1
              v10 = add v7 v9
              v11 = watermark
              v12 = gt v10 v11
              filter v12 late
              v13 = mul v5 v4
              v14 = load 0
              update slice v13
                key v14
                count
        "#]],
    );
}

#[test]
fn cumulating_windows() {
    let cumulate = Overlap::Cumulate { size_ms: 60, step_ms: 20, offset_ms: 0 };
    check(
        &counted(WindowAssigner::Overlap(cumulate)).program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 3
              v1 = valid 3
              v2 = not v1
              trap v2 null_rowtime
              v3 = slice_start v0 size 20
              v4 = const i64 20
              v5 = div v3 v4
              v6 = slice_start v3 size 60
              v7 = add v3 v4
              v8 = const i64 60
              v9 = add v6 v8
              v10 = const i64 -1
              v11 = add v9 v10
              v12 = watermark
              v13 = gt v11 v12
              filter v13 late
              v14 = const i64 4
              v15 = mul v5 v14
              v16 = const i64 0
              v17 = add v7 v10
              v18 = ge v12 v17
              v23 = if v18
                v19 = sub v12 v17
                v20 = div v19 v4
                v21 = const i64 1
                v22 = add v20 v21
                give v22
              else
                give v16
              v24 = add v15 v23
              v25 = load 0
              update slice v24
                key v25
                count
        "#]],
    );
}

/// Windows that a row brings along: the table is numbered by the end.
#[test]
fn attached_windows() {
    check(
        &counted(WindowAssigner::Attached).program,
        expect![[r#"
        program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 3
          v1 = valid 3
          v2 = not v1
          trap v2 null_rowtime
          v3 = watermark
          v4 = gt v0 v3
          filter v4 late
          v5 = const i64 1
          v6 = add v0 v5
          v7 = load 0
          update slice v6
            key v7
            count
    "#]],
    );
}

/// Arguments of objects are widened; only lists that keep NULLs get them, the others are guarded.
#[test]
fn objects() {
    let object = Accumulator::Object;
    let list = |keeps_nulls| object(ObjectKind::List { keeps_nulls }, Phys::Str);
    let small = Expr::new(
        ExprKind::Cast { operand: Box::new(column("auction")), fallible_to_null: false },
        DataType::Float,
        false,
    );
    let positive = super::compare(millstream_plan::expr::CompareOp::Greater, column("price"), super::big(0));
    let guarded = ComponentUpdate { argument: Some(column("channel")), guard: Some(positive) };
    let lowered = aggregation(
        WindowAssigner::Whole,
        vec![list(true), list(false), object(ObjectKind::Distinct, Phys::F64)],
        vec![guarded, update_of(Some(column("channel"))), update_of(Some(small))],
    );
    check(
        &lowered.unwrap().program,
        expect![[r#"
        program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 0
          v1 = load 1
          v2 = valid 1
          v3 = const i64 0
          v4 = gt v1 v3
          v5 = and v2 v4
          v6 = load 2
          v7 = valid 2
          v8 = convert f32 v0
          v9 = convert f64 v8
          v10 = const f64 0.0
          v11 = add v9 v10
          v12 = ne v11 v11
          v13 = const f64 NaN
          v14 = select v12 v13 v11
          update
            key v0
            list_with_nulls str v6 valid v7 if v5
            list str v6 if v7
            distinct f64 v14
    "#]],
    );
}

/// Sessions and count windows are separate operators.
#[test]
fn keyed_windows_are_refused() {
    for assigner in [WindowAssigner::Session { gap_ms: 5 }, WindowAssigner::Count { size: 2, slide: 1 }] {
        let error = aggregation(assigner, vec![Accumulator::Count], vec![update_of(None)]).unwrap_err();
        assert!(error.message.contains("not made of slices"), "{error}");
    }
}

/// A program whose entries are (table, number of the row), over (time, number).
fn numbering(assigner: WindowAssigner) -> Lowered {
    let schema = Schema::new(vec![
        Field::new("time", DataType::Timestamp(3), false),
        Field::new("number", DataType::BigInt, false),
    ]);
    let end = PipelineEnd::Aggregate {
        aggregation: 0,
        time: Some(Expr::column(0, DataType::Timestamp(3), false)),
        keys: vec![Expr::column(1, DataType::BigInt, false)],
        updates: vec![],
    };
    let plan = QueryPlan {
        pipelines: vec![Pipeline { input: PipelineInput::Source(0), schema, operators: vec![], end }],
        aggregations: vec![Aggregation {
            timeline: Timeline::Own,
            assigner,
            keys: vec![Field::new("number", DataType::BigInt, false)],
            components: vec![],
            outputs: vec![],
            calls: vec![],
            shorter: None,
            combination: Combination::Recompute,
        }],
        ..QueryPlan::default()
    };
    lower_pipeline(&plan, 0).unwrap().0.remove(0)
}

/// Runs a program of [`numbering`]: the entries of its tables, and how many rows were late.
fn tables(lowered: &Lowered, times: &[i64], watermarks: &[i64]) -> (Vec<String>, u64) {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from(times.to_vec())),
        Arc::new(Int64Array::from_iter_values(0..times.len() as i64)),
    ];
    let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
    let mut tables = MemoryTables::new(lowered.layout().unwrap().clone());
    let (hooks, functions) = (tables.hooks(), &mut FunctionContext::default());
    let outcome = update(lowered, &kernel, (&columns, None), times.len(), watermarks, hooks, functions, &mut |error| {
        panic!("{error:?}");
        #[expect(unreachable_code, reason = "the closure has a result")]
        Flow::Stop
    });
    (tables.entries(), outcome.unwrap().late_rows)
}

#[test]
fn overlapping_windows_are_those_of_the_plan() {
    let (mut stragglers, mut late_rows, mut outside) = (0, 0, 0);
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let overlap = random_overlap(&mut random);
        let mut time = || random.below(4_000) as i64 - 2_000;
        let times: Vec<i64> = (0..200).map(|_| time()).collect();
        let watermarks: Vec<i64> = times
            .iter()
            .map(|time| match random.below(12) {
                0 => i64::MIN,
                1 => i64::MAX,
                2 => i64::MIN + 1,
                3 => i64::MAX - 1,
                _ => time + random.below(2_400) as i64 - 1_200,
            })
            .collect();
        let (mut expected, mut late) = (Vec::new(), 0);
        for (row, (&time, &watermark)) in times.iter().zip(&watermarks).enumerate() {
            let slice = overlap.slicing().start_of(time);
            let Some((first, last)) = overlap.ends(slice) else {
                outside += 1;
                continue;
            };
            let ends = (0..).map(|k| first + k * overlap.step_ms()).take_while(|&end| end <= last);
            let complete = ends.filter(|end| end - 1 <= watermark).count() as i64;
            if last - 1 <= watermark {
                late += 1;
            } else {
                stragglers += usize::from(complete > 0);
                expected.push(format!("{}: {row:x}", overlap.table_id(slice, complete)));
            }
        }
        expected.sort();
        let lowered = numbering(WindowAssigner::Overlap(overlap));
        assert_eq!(tables(&lowered, &times, &watermarks), (expected, late), "{overlap:?}\n{}", lowered.program);
        late_rows += late;
    }
    assert!(stragglers > 1_000 && late_rows > 1_000 && outside > 1_000, "{stragglers} {late_rows} {outside}");
}

/// A row is late from the watermark on that reaches the last millisecond of its window.
#[test]
fn attached_windows_are_late_with_their_end() {
    let lowered = numbering(WindowAssigner::Attached);
    let (entries, late) = tables(&lowered, &[9, 9, 9, -1, -1], &[i64::MIN, 8, 9, -2, i64::MAX]);
    assert_eq!((entries, late), (vec!["0: 3".into(), "10: 0".into(), "10: 1".into()], 2));
}
