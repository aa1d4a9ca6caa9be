//! Exchanges, keys, conditions, slots and flat maps.

use super::{big, check, column, compare, plan, schema};
use crate::execute::{Flow, assign_groups, emit, update};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, OutputSource, lower_condition, lower_keys, lower_pipeline, lower_slots};
use crate::testing::{MemoryTables, Random, random_column};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, TimestampMillisecondArray};
use expect_test::expect;
use millstream_abi::{Accumulator, HASH_SEED, hash_finish};
use millstream_functions::FunctionContext;
use millstream_plan::expr::{CompareOp, Expr};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::{
    ComponentUpdate, FlatMap, KeyedInput, KeyedKind, KeyedOperator, Lookup, LookupTable, Operator, Pipeline,
    PipelineEnd, PipelineInput, QueryPlan, Sessions, SlotAggregates, Windows,
};
use millstream_plan::window::{Overlap, Timeline};
use millstream_types::{DataType, Field, Schema, code};
use std::sync::Arc;

/// A plan whose pipeline hands the columns of `schema` to an operator with these keys.
fn exchange(schema: Schema, keys: Vec<usize>, time: Option<usize>, reach_ms: Option<i64>) -> QueryPlan {
    let fields = keys.iter().map(|&k| schema.fields[k].clone()).collect();
    let end = PipelineEnd::Exchange { operator: 0, port: 0 };
    let pipeline = Pipeline { input: PipelineInput::Source(0), schema: schema.clone(), operators: vec![], end };
    let operator = KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind: KeyedKind::Sessions(Sessions { gap_ms: 1, aggregates: None }),
        inputs: vec![KeyedInput { schema, keys, time, reach_ms, leading: None }],
        keys: fields,
        output: Schema::default(),
    };
    QueryPlan { pipelines: vec![pipeline], operators: vec![operator], ..QueryPlan::default() }
}

fn lower(plan: &QueryPlan) -> Lowered {
    lower_pipeline(plan, 0).unwrap().0.remove(0)
}

fn kernel(lowered: &Lowered) -> Interpreter {
    Interpreter::new(Arc::new(lowered.program.clone()))
}

/// Rows that no partner can meet any more are late, rows without time are errors, nested columns pass by.
#[test]
fn exchanges_drop_late_rows_and_hash_keys() {
    let lowered = lower(&exchange(schema(), vec![0, 2], Some(3), Some(500)));
    assert_eq!(lowered.outputs[..6], [0, 1, 2, 3, 4, 5].map(OutputSource::Input));
    assert_eq!(lowered.output_types[6], DataType::BigInt);
    check(
        &lowered.program,
        expect![[r#"
        program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 3
          v1 = valid 3
          v2 = not v1
          trap v2 null_rowtime
          v3 = const i64 500
          v4 = add v0 v3
          v5 = lt v4 v0
          v6 = const i64 9223372036854775807
          v7 = select v5 v6 v4
          v8 = watermark
          v9 = gt v7 v8
          filter v9 late
          v10 = const i64 -7046029254386353131
          v11 = load 0
          v12 = hash_fold v10 v11
          v13 = load 2
          v14 = valid 2
          v15 = hash_fold v12 v13
          v16 = hash_fold v12 v10
          v17 = select v14 v15 v16
          v18 = hash_finish v17
          emit hash = v18
    "#]],
    );
}

/// Lateness saturates at the ends of time.
#[test]
fn exchanges_are_exact_at_the_ends_of_time() {
    let schema = Schema::new(vec![Field::new("time", DataType::Timestamp(3), true)]);
    let times = [Some(0), Some(0), Some(-5), Some(i64::MAX - 1), Some(i64::MIN + 5), None, Some(i64::MAX)];
    let watermarks = [i64::MIN, 9, i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN, i64::MAX];
    for (reach, on_time) in [(0, vec![0, 4]), (10, vec![0, 1, 3, 4]), (-10, vec![0])] {
        let lowered = lower(&exchange(schema.clone(), vec![], Some(0), Some(reach)));
        let columns: Vec<ArrayRef> = vec![Arc::new(TimestampMillisecondArray::from(times.to_vec()))];
        let mut bad = vec![];
        let functions = &mut FunctionContext::default();
        let emitted = emit(&lowered, &kernel(&lowered), &columns, 7, &watermarks, functions, &mut |error| {
            assert_eq!(error.diagnostic.code, code::NULL_ROWTIME);
            bad.push(error.row);
            Flow::Skip
        })
        .unwrap();
        assert_eq!((emitted.selection.into_vec(), bad), (on_time.clone(), vec![5]), "reach {reach}");
        assert_eq!(emitted.late_rows, 6 - on_time.len() as u64);
        let hashes = emitted.columns[1].as_primitive::<Int64Type>();
        assert!(hashes.values().iter().all(|&h| h as u64 == hash_finish(HASH_SEED)));
    }
}

/// The hash that routes a row is the one of its table entry, for keys of every type, alone and together.
#[test]
fn exchange_hashes_are_those_of_entries() {
    let types = [
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::decimal(38, 2),
        DataType::STRING,
        DataType::BYTES,
        DataType::Date,
        DataType::Time(3),
        DataType::Timestamp(9),
        DataType::TimestampLtz(3),
        DataType::IntervalMonth,
        DataType::IntervalMilli,
        DataType::Null,
    ];
    let fields: Vec<Field> = types.iter().map(|t| Field::new(t.to_string(), t.clone(), true)).collect();
    let schema = Schema::new(fields);
    let mut random = Random::new(7);
    let columns: Vec<ArrayRef> = schema.fields.iter().map(|f| random_column(&mut random, f, 400)).collect();
    let alone = (0..types.len()).map(|k| vec![k]);
    let together = [vec![], vec![8, 5, 0], vec![6, 16, 7], (0..types.len()).collect()];
    for keys in alone.chain(together) {
        let plan = exchange(schema.clone(), keys.clone(), None, None);
        let routed = lower(&plan);
        let numbered = lower_keys("keys", &schema, &keys, &plan.operators[0].keys).unwrap();
        check_hashes(&routed, &numbered, &columns, &format!("{keys:?}"));
    }
}

/// Zeros and NaNs are one value each, whatever their bits.
#[test]
fn equal_floats_have_equal_hashes() {
    let nan = f64::from_bits(0xFFF8_0000_0000_1234);
    let doubles = vec![0.0, -0.0, f64::NAN, nan, 1.5, 1.5];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(doubles.clone())),
        Arc::new(Float32Array::from_iter_values(doubles.iter().map(|&x| x as f32))),
    ];
    let schema = Schema::new(vec![Field::new("d", DataType::Double, false), Field::new("f", DataType::Float, false)]);
    for key in [0, 1] {
        let plan = exchange(schema.clone(), vec![key], None, None);
        let numbered = lower_keys("keys", &schema, &[key], &plan.operators[0].keys).unwrap();
        let hashes = check_hashes(&lower(&plan), &numbered, &columns, "floats");
        assert_eq!((hashes[0], hashes[2], hashes[4]), (hashes[1], hashes[3], hashes[5]));
        assert!(hashes[0] != hashes[2] && hashes[0] != hashes[4]);
    }
}

/// Hashes of the rows by the exchange, after a comparison with those of the entries.
fn check_hashes(routed: &Lowered, numbered: &Lowered, columns: &[ArrayRef], context: &str) -> Vec<u64> {
    let rows = columns[0].len();
    let functions = &mut FunctionContext::default();
    let emitted =
        emit(routed, &kernel(routed), columns, rows, &[i64::MIN], functions, &mut |error| panic!("{error:?}")).unwrap();
    let hashes = emitted.columns.last().unwrap().as_primitive::<Int64Type>();
    let hashes: Vec<u64> = hashes.values().iter().map(|&hash| hash as u64).collect();
    let mut tables = MemoryTables::new(numbered.layout().unwrap().clone());
    let groups = assign_groups(numbered, &kernel(numbered), columns, rows, tables.hooks(), functions).unwrap();
    let by_group = tables.group_hashes();
    let expected: Vec<u64> = groups.iter().map(|&group| by_group[group as usize]).collect();
    assert_eq!(hashes, expected, "{context}");
    hashes
}

#[test]
fn keys_are_numbered() {
    let fields = [Field::new("auction", DataType::BigInt, true), Field::new("channel", DataType::STRING, true)];
    let lowered = lower_keys("keys of a join", &schema(), &[0, 2], &fields).unwrap();
    check(
        &lowered.program,
        expect![[r#"
        program "keys of a join" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 0
          v1 = load 2
          v2 = valid 2
          update
            key v0
            key v1 if v2
            group
    "#]],
    );
    let error = lower_keys("keys", &schema(), &[4], &[schema().fields[4].clone()]).unwrap_err();
    assert!(error.message.contains("the key extra of type ROW"), "{error}");
}

#[test]
fn conditions_give_only_a_selection() {
    let condition = compare(CompareOp::Less, column("auction"), column("price"));
    let lowered = lower_condition("residual", &schema(), &condition).unwrap();
    assert!(lowered.outputs.is_empty());
    check(
        &lowered.program,
        expect![[r#"
        program "residual" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 0
          v1 = load 1
          v2 = valid 1
          v3 = lt v0 v1
          v4 = and v2 v3
          filter v4
          emit
    "#]],
    );
}

#[test]
fn slots_are_updated_by_their_number() {
    let aggregates = SlotAggregates {
        components: vec![Accumulator::Count, Accumulator::SumI64],
        updates: vec![
            ComponentUpdate { argument: None, guard: None },
            ComponentUpdate { argument: Some(column("price")), guard: None },
        ],
        calls: vec![],
        outputs: vec![],
    };
    let lowered = lower_slots("slots", &schema(), &aggregates).unwrap();
    assert_eq!(lowered.program.inputs.len(), schema().fields.len() + 1);
    check(
        &lowered.program,
        expect![[r#"
        program "slots" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?, slot: i64)
          v0 = load 6
          v1 = load 1
          v2 = valid 1
          update
            key v0
            count
            sum_i64 v1 if v2
    "#]],
    );
}

/// Groups are only asked of programs that give every row one.
#[test]
fn groups_are_checked() {
    let fields = [Field::new("auction", DataType::BigInt, false)];
    let keys = lower_keys("keys", &schema(), &[0], &fields).unwrap();
    let condition = lower_condition("residual", &schema(), &compare(CompareOp::Less, big(1), big(2))).unwrap();
    let functions = &mut FunctionContext::default();
    let mut tables = MemoryTables::new(keys.layout().unwrap().clone());
    let (columns, mut random) = (schema(), Random::new(3));
    let columns: Vec<ArrayRef> = columns.fields[..4].iter().map(|f| random_column(&mut random, f, 3)).collect();
    assert!(assign_groups(&condition, &kernel(&condition), &columns, 3, tables.hooks(), functions).is_err());
    let hooks = tables.hooks();
    let no_place = update(&keys, &kernel(&keys), (&columns, None), 3, &[0], hooks, functions, &mut |_| Flow::Stop);
    assert!(no_place.unwrap_err().message.contains("without a place"));
}

/// A flat map cuts the pipeline: the first program emits its argument too, the second sees what it appends. Columns that
/// both only pass on, nested ones too, bypass both.
#[test]
fn flat_maps_cut_pipelines_into_stages() {
    let windows = Overlap::Hop { size_ms: 10, slide_ms: 5, offset_ms: 0 };
    let auction = Expr::column(2, DataType::BigInt, false);
    let operators = vec![
        Operator::Filter(compare(CompareOp::Greater, column("price"), big(0))),
        Operator::FlatMap(FlatMap::Windows(Windows { windows, time: column("time") })),
        Operator::Project(vec![column("extra"), Expr::column(7, DataType::Timestamp(3), false), column("auction")]),
        Operator::Filter(compare(CompareOp::Less, auction.clone(), big(9))),
        Operator::FlatMap(FlatMap::Lookup(Lookup {
            table: 0,
            kind: JoinKind::Left,
            keys: vec![auction],
            residual: None,
        })),
    ];
    let mut plan = plan(operators, PipelineEnd::Build { lookup: 1 });
    let number = Field::new("number", DataType::BigInt, false);
    let table = LookupTable { name: "numbers".into(), schema: Schema::new(vec![number]), keys: vec![0] };
    plan.lookups = vec![table.clone(), table];
    let stages = lower_pipeline(&plan, 0).unwrap().0;
    assert_eq!(stages.len(), 3);
    let inputs: Vec<Vec<String>> =
        stages.iter().map(|s| s.program.inputs.iter().map(|i| i.name.clone()).collect()).collect();
    assert_eq!(inputs[1][6..], ["window_start", "window_end", "window_time"]);
    assert_eq!(inputs[2].last().unwrap(), "number");
    for stage in &stages {
        assert_eq!(stage.outputs.len(), stage.output_types.len());
    }
    let texts: Vec<String> = stages.iter().map(|s| format!("{}{:?}\n", s.program, s.outputs)).collect();
    expect![[r#"
        program "pipeline 0 stage 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
          v0 = load 1
          v1 = valid 1
          v2 = const i64 0
          v3 = gt v0 v2
          v4 = and v1 v3
          filter v4
          v5 = valid 3
          v6 = not v5
          trap v6 null_rowtime
          emit
        [Input(0), Input(1), Input(2), Input(3), Input(4), Input(5), Input(3)]
        program "pipeline 0 stage 1" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?, window_start: i64, window_end: i64, window_time: i64)
          v0 = load 0
          v1 = const i64 9
          v2 = lt v0 v1
          filter v2
          emit
        [Input(4), Input(7), Input(0), Input(0)]
        program "pipeline 0 stage 2" (column0: bool?, column1: i64, column2: i64, number: i64?)
          emit
        [Input(0), Input(1), Input(2), Input(3)]
    "#]].assert_eq(&texts.concat());
}
