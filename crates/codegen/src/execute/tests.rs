//! Bad rows, late rows, selections, vector columns and the updates of tables, through the interpreter.

use super::passed::STEP_ROWS;
use super::{Emitted, Flow, assign_groups, emit, update};
use crate::interpreter::Interpreter;
use crate::lower::{Lowered, OutputSource, lower_expressions, lower_keys, lower_pipeline};
use crate::program::Statement;
use crate::testing::{MemoryTables, Random};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
    ListArray, StringViewArray, TimestampMillisecondArray,
};
use millstream_abi::{Accumulator, RuntimeFn};
use millstream_functions::FunctionContext;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, Span, VectorCall, VectorFunction};
use millstream_plan::pipeline::{
    Aggregation, Combination, ComponentOutput, ComponentUpdate, Operator, Pipeline, PipelineEnd, PipelineInput,
    QueryPlan, SinkPlan,
};
use millstream_plan::window::{Slicing, Timeline, WindowAssigner};
use millstream_types::text::calendar::DateTimeUnit;
use millstream_types::{DataType, Diagnostic, Field, Place, Schema, Value, code};
use std::sync::Arc;

fn kernel(lowered: &Lowered) -> Interpreter {
    Interpreter::new(Arc::new(lowered.program.clone()))
}

fn int(index: usize) -> Expr {
    Expr::column(index, DataType::BigInt, true)
}

fn quotient() -> Expr {
    let kind = ExprKind::Arithmetic(ArithmeticOp::Divide, Box::new(int(0)), Box::new(int(1)));
    Expr::new(kind, DataType::BigInt, true).at(Span { line: 3, column: 8, length: 5 })
}

fn ab() -> Schema {
    Schema::new(vec![Field::new("a", DataType::BigInt, true), Field::new("b", DataType::BigInt, true)])
}

#[test]
fn bad_rows_are_skipped_or_stop_the_run() {
    let lowered = lower_expressions("test", &ab(), &[int(0), quotient()]).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(6), Some(1), None, Some(8), Some(9)])),
        Arc::new(Int64Array::from(vec![3, 0, 0, 2, 0])),
    ];
    let mut errors = Vec::new();
    let mut run = |flow: Flow| {
        errors.clear();
        let emitted = emit(
            &lowered,
            &kernel(&lowered),
            &columns,
            5,
            &[i64::MIN],
            &mut FunctionContext::default(),
            &mut |error| {
                errors.push(error.row);
                let expected = Diagnostic::new(code::DIVISION_BY_ZERO, "division by zero in (a / b)");
                let expected = expected.at(Place::Sql { line: 3, column: 8, length: 5 });
                let cure = "write NULLIF(b, 0) instead of b: the result is NULL where the divisor is 0";
                assert_eq!(error.diagnostic, expected.advise(cure));
                flow
            },
        );
        (emitted.unwrap(), errors.clone())
    };
    let (emitted, errors) = run(Flow::Skip);
    assert_eq!((errors, emitted.rows, emitted.stopped), (vec![1, 4], 3, false));
    assert_eq!(emitted.selection.iter().collect::<Vec<_>>(), [0, 2, 3]);
    let values = |column: &ArrayRef| column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>();
    assert_eq!(values(&emitted.columns[0]), [Some(6), None, Some(8)]);
    assert_eq!(values(&emitted.columns[1]), [Some(2), None, Some(4)]);
    let (emitted, errors) = run(Flow::Stop);
    assert_eq!((errors, emitted.rows, emitted.stopped), (vec![1], 1, true));
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let mut schema = ab();
    schema.fields[1].nullable = false;
    let lowered = lower_expressions("test", &schema, &[quotient()]).unwrap();
    let a: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let refused = |b: ArrayRef| {
        let columns = [a.clone(), b];
        emit(&lowered, &kernel(&lowered), &columns, 2, &[i64::MIN], &mut FunctionContext::default(), &mut |_| {
            Flow::Stop
        })
        .unwrap_err()
    };
    assert_eq!(refused(Arc::new(Int32Array::from(vec![1, 2]))).code, code::BUG);
    assert_eq!(refused(Arc::new(Int64Array::from(vec![1]))).code, code::BUG);
    assert_eq!(refused(Arc::new(Int64Array::from(vec![Some(1), None]))).code, code::NULL_IN_NOT_NULL);
}

/// Passes the columns of the schema from the second on, where the first is above 0.
fn filtered(schema: &Schema) -> Lowered {
    let zero = Expr::literal(Value::Int(0), DataType::BigInt);
    let predicate = ExprKind::Compare(CompareOp::Greater, Box::new(int(0)), Box::new(zero));
    let passed = 1..schema.fields.len();
    let column = |i: usize| Expr::column(i, schema.fields[i].data_type.clone(), schema.fields[i].nullable);
    let plan = QueryPlan {
        sources: vec![],
        aggregations: vec![],
        pipelines: vec![Pipeline {
            input: PipelineInput::Source(0),
            schema: schema.clone(),
            operators: vec![
                Operator::Filter(Expr::new(predicate, DataType::Boolean, true)),
                Operator::Project(passed.clone().map(column).collect()),
            ],
            end: PipelineEnd::Sink(0),
        }],
        sinks: vec![SinkPlan {
            table: None,
            schema: Schema::new(schema.fields[1..].to_vec()),
            changes: None,
            skip: 0,
            limit: None,
            is_on_every_node: false,
        }],
        ..QueryPlan::default()
    };
    let lowered = lower_pipeline(&plan, 0).unwrap().0.remove(0);
    assert_eq!(lowered.outputs, passed.map(OutputSource::Input).collect::<Vec<_>>());
    lowered
}

fn passed_by(lowered: &Lowered, columns: &[ArrayRef]) -> Emitted {
    let rows = columns[0].len();
    emit(lowered, &kernel(lowered), columns, rows, &[i64::MIN], &mut FunctionContext::default(), &mut |_| Flow::Stop)
        .unwrap()
}

/// Passed-through columns are taken by selection, nested ones too; when all rows survive they are not copied.
#[test]
fn input_columns_are_taken_by_selection() {
    let list = DataType::Array(Arc::new(DataType::Int));
    let lowered =
        filtered(&Schema::new(vec![Field::new("a", DataType::BigInt, true), Field::new("l", list.clone(), true)]));
    let lists = |rows: Vec<Option<Vec<Option<i32>>>>| {
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows)) as ArrayRef
    };
    let column = lists(vec![Some(vec![Some(1)]), None, Some(vec![None, Some(3)])]);
    let run = |a: Vec<i64>| passed_by(&lowered, &[Arc::new(Int64Array::from(a)) as ArrayRef, column.clone()]);
    let some = run(vec![5, 0, 7]);
    assert_eq!(*some.columns[0], *lists(vec![Some(vec![Some(1)]), Some(vec![None, Some(3)])]));
    assert!(Arc::ptr_eq(&run(vec![5, 6, 7]).columns[0], &column));
}

/// Columns of every width, in slices, some with NULLs, over several steps in which all, some or no rows are dropped.
#[test]
fn columns_pass_step_by_step_as_they_do_at_once() {
    let rows = 3 * STEP_ROWS as i64 + 100;
    let value = |with_null: bool| move |row: i64| (!(with_null && row % 5 == 0)).then_some(row % 100);
    // What stands before the rows is sliced off.
    let made = |data_type: &DataType, with_null: bool| {
        let values = (-3..rows).map(value(with_null));
        let text = |v: i64| format!("{v}").repeat(1 + v as usize % 30);
        let column: ArrayRef = match data_type {
            DataType::TinyInt => Arc::new(values.map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
            DataType::SmallInt => Arc::new(values.map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
            DataType::Int => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            DataType::Double => Arc::new(values.map(|v| v.map(|v| v as f64)).collect::<Float64Array>()),
            DataType::Boolean => Arc::new(values.map(|v| v.map(|v| v > 50)).collect::<BooleanArray>()),
            DataType::Varchar(_) => Arc::new(values.map(|v| v.map(text)).collect::<StringViewArray>()),
            _ => Arc::new(
                values.map(|v| v.map(i128::from)).collect::<Decimal128Array>().with_precision_and_scale(38, 2).unwrap(),
            ),
        };
        column.slice(3, rows as usize)
    };
    let types = [
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::Double,
        DataType::Boolean,
        DataType::STRING,
        DataType::Decimal { precision: 38, scale: 2 },
    ];
    let mut fields = vec![Field::new("a", DataType::BigInt, true)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::new_null(0))];
    for data_type in &types {
        for with_null in [false, true] {
            fields.push(Field::new(format!("c{}", fields.len()), data_type.clone(), true));
            columns.push(made(data_type, with_null));
        }
    }
    let lowered = filtered(&Schema::new(fields));
    let step = STEP_ROWS as i64;
    let kept: [&dyn Fn(i64) -> bool; 7] = [
        &|_| true,
        &|_| false,
        &|row| row % 3 != 0,
        &|row| row < step,
        &|row| row < step + 7 || row > 2 * step,
        &|row| row >= 2 * step,
        &|row| row != rows - 1,
    ];
    for (number, kept) in kept.iter().enumerate() {
        columns[0] = Arc::new((0..rows).map(|row| Some(kept(row) as i64)).collect::<Int64Array>());
        let emitted = passed_by(&lowered, &columns);
        let selected = (0..rows).map(|row| Some(kept(row))).collect::<BooleanArray>();
        assert_eq!(emitted.rows, selected.true_count());
        for (found, column) in emitted.columns.iter().zip(&columns[1..]) {
            let expected = arrow_select::filter::filter(column, &selected).unwrap();
            assert_eq!(**found, *expected, "{number}: {}", column.data_type());
            found.to_data().validate_full().unwrap();
        }
    }
}

/// `REPEAT_TWICE(s)`, which refuses the text `bad`.
#[derive(Debug)]
struct Twice;

impl VectorFunction for Twice {
    fn name(&self) -> &str {
        "TWICE"
    }

    fn evaluate(&self, arguments: &[ArrayRef], rows: usize, _: u64) -> Result<ArrayRef, String> {
        let texts = arguments[0].as_string_view();
        assert_eq!(texts.len(), rows);
        if texts.iter().flatten().any(|t| t == "bad") {
            return Err("'bad' cannot be doubled".into());
        }
        Ok(Arc::new(texts.iter().map(|t| t.map(|t| t.repeat(2))).collect::<StringViewArray>()))
    }
}

/// A failing vectorised call makes only those rows bad that use it; its message is told.
#[test]
fn vectorised_calls_fail_by_row() {
    let schema =
        Schema::new(vec![Field::new("s", DataType::STRING, true), Field::new("use", DataType::Boolean, false)]);
    let s = Expr::column(0, DataType::STRING, true);
    let call = Expr::new(ExprKind::Vector(VectorCall(Arc::new(Twice)), vec![s.clone()]), DataType::STRING, true);
    let case = ExprKind::Case(vec![(Expr::column(1, DataType::Boolean, false), call.clone())], Box::new(s));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringViewArray::from(vec![Some("bad"), Some("ab"), None, Some("bad"), Some("a text of many bytes")])),
        Arc::new(BooleanArray::from(vec![false, true, true, true, true])),
    ];
    for (expr, bad, expected) in [
        (call, vec![0, 3], vec![Some("abab"), None, Some("a text of many bytesa text of many bytes")]),
        (
            Expr::new(case, DataType::STRING, true),
            vec![3],
            vec![Some("bad"), Some("abab"), None, Some("a text of many bytesa text of many bytes")],
        ),
    ] {
        let lowered = lower_expressions("test", &schema, &[expr]).unwrap();
        assert_eq!(lowered.vectors.len(), 1);
        let mut errors = Vec::new();
        let emitted = emit(
            &lowered,
            &kernel(&lowered),
            &columns,
            5,
            &[i64::MIN],
            &mut FunctionContext::default(),
            &mut |error| {
                assert_eq!(error.diagnostic.message, "'bad' cannot be doubled in TWICE");
                errors.push(error.row);
                Flow::Skip
            },
        );
        assert_eq!(errors, bad);
        let values: Vec<_> =
            emitted.unwrap().columns[0].as_string_view().iter().map(|t| t.map(str::to_owned)).collect();
        assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), expected);
    }
}

/// Tumbling windows of 10 ms over (time, key, x): counts per key, the sum, minimum and maximum of x.
fn windowed() -> (Lowered, millstream_abi::EntryLayout) {
    let schema = Schema::new(vec![
        Field::new("time", DataType::Timestamp(3), true),
        Field::new("key", DataType::STRING, true),
        Field::new("x", DataType::Double, true),
    ]);
    let x = || Some(Expr::column(2, DataType::Double, true));
    let argument = |argument| ComponentUpdate { argument, guard: None };
    let components = vec![Accumulator::Count, Accumulator::Count, Accumulator::MinF64, Accumulator::MaxF64];
    let aggregation = Aggregation {
        timeline: Timeline::Own,
        assigner: WindowAssigner::Tumble(Slicing { size_ms: 10, offset_ms: 0 }),
        calls: vec![],
        keys: vec![Field::new("key", DataType::STRING, true)],
        outputs: ComponentOutput::values(
            &components,
            &[DataType::BigInt, DataType::BigInt, DataType::Double, DataType::Double],
        ),
        components,
        shorter: None,
        combination: Combination::Recompute,
    };
    let plan = QueryPlan {
        pipelines: vec![Pipeline {
            input: PipelineInput::Source(0),
            schema,
            operators: vec![],
            end: PipelineEnd::Aggregate {
                aggregation: 0,
                time: Some(Expr::column(0, DataType::Timestamp(3), true)),
                keys: vec![Expr::column(1, DataType::STRING, true)],
                updates: vec![argument(None), argument(x()), argument(x()), argument(x())],
            },
        }],
        aggregations: vec![aggregation],
        ..QueryPlan::default()
    };
    let layout = crate::lower::entry_layout(&plan.aggregations[0]).unwrap();
    (lower_pipeline(&plan, 0).unwrap().0.remove(0), layout)
}

#[test]
fn windows_are_updated_and_late_rows_counted() {
    let (lowered, layout) = windowed();
    let long = "a key of more than twelve bytes";
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from(vec![Some(1), Some(12), Some(9), None, Some(-1), Some(3), Some(13)])),
        Arc::new(StringViewArray::from(vec![Some(long), None, Some(long), None, Some("k"), Some("late"), None])),
        Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN), Some(0.0), None, None, None, Some(2.5)])),
    ];
    let watermarks = [i64::MIN, -5, 8, 8, -2, 9, 9];
    let mut tables = MemoryTables::new(layout);
    let mut errors = Vec::new();
    let functions = &mut FunctionContext::default();
    let outcome = update(
        &lowered,
        &kernel(&lowered),
        (&columns, None),
        7,
        &watermarks,
        tables.hooks(),
        functions,
        &mut |error| {
            errors.push((error.row, error.diagnostic.code, error.diagnostic.message));
            Flow::Skip
        },
    );
    assert_eq!(outcome.unwrap(), super::UpdateOutcome { late_rows: 1, stopped: false });
    assert_eq!(errors, [(3, code::NULL_ROWTIME, "event time time is NULL".to_string())]);
    assert_eq!(
        tables.entries(),
        [
            "-10: nulls 0, \"k\", 1, 0, NaN, fff0000000000000 -inf".to_string(),
            format!("0: nulls 0, {long:?}, 2, 2, 8000000000000000 -0.0, 0000000000000000 0.0"),
            "10: nulls 1, \"\", 2, 2, 4004000000000000 2.5, NaN".to_string(),
        ]
    );
}

/// One watermark can stand for the whole buffer; a late row behind a bad one that stops the run is not counted.
#[test]
fn one_watermark_for_all_rows_and_a_stop() {
    let (lowered, layout) = windowed();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from(vec![Some(5), Some(25), None, Some(6)])),
        Arc::new(StringViewArray::from(vec!["a", "b", "c", "d"])),
        Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 4.0])),
    ];
    let mut tables = MemoryTables::new(layout);
    let functions = &mut FunctionContext::default();
    let outcome =
        update(&lowered, &kernel(&lowered), (&columns, None), 4, &[9], tables.hooks(), functions, &mut |_| Flow::Stop)
            .unwrap();
    assert_eq!(outcome, super::UpdateOutcome { late_rows: 1, stopped: true });
    assert_eq!(tables.entries(), ["20: nulls 0, \"b\", 1, 1, 4000000000000000 2.0, 4000000000000000 2.0"]);
}

/// The watermark of each row, also as the argument of a vectorised call; NULL before the first.
#[test]
fn current_watermarks_are_those_of_rows() {
    let watermark = Expr::new(ExprKind::CurrentWatermark, DataType::Timestamp(3), true);
    let text = watermark.clone().cast_to(DataType::STRING);
    let call = Expr::new(ExprKind::Vector(VectorCall(Arc::new(Twice)), vec![text]), DataType::STRING, true);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2])), Arc::new(Int64Array::from(vec![1, 2]))];
    for expr in [watermark.clone(), call.clone()] {
        assert!(lower_expressions("test", &ab(), &[expr]).unwrap().reads_watermark());
    }
    assert!(!lower_expressions("test", &ab(), &[quotient()]).unwrap().reads_watermark());
    let lowered = lower_expressions("test", &ab(), &[watermark, call]).unwrap();
    let functions = &mut FunctionContext::default();
    let mut run = |watermarks: &[i64]| {
        emit(&lowered, &kernel(&lowered), &columns, 2, watermarks, functions, &mut |error| panic!("{error:?}"))
    };
    let emitted = run(&[i64::MIN, 1_001]).unwrap();
    let times = emitted.columns[0].as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.iter().collect::<Vec<_>>(), [None, Some(1_001)]);
    let texts = emitted.columns[1].as_string_view();
    let doubled = "1970-01-01 00:00:01.001".repeat(2);
    assert_eq!(texts.iter().collect::<Vec<_>>(), [None, Some(&*doubled)]);
    assert!(run(&[0, 1, 2]).unwrap_err().message.contains("neither one watermark"));
}

/// A bad key fails the numbering as a whole, at its first row.
#[test]
fn keys_that_cannot_be_numbered_are_errors() {
    let field = Field::new("a", DataType::BigInt, false);
    let lowered = lower_keys("keys", &ab(), &[0], &[field]).unwrap();
    let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let mut tables = MemoryTables::new(lowered.layout().unwrap().clone());
    let mut run = |values: Vec<Option<i64>>| {
        let columns = [column(values.clone()), column(values)];
        let functions = &mut FunctionContext::default();
        assign_groups(&lowered, &kernel(&lowered), &columns, columns[0].len(), tables.hooks(), functions)
    };
    assert_eq!(run(vec![Some(7), Some(8), Some(7)]).unwrap(), [0, 1, 0]);
    assert_eq!(run(vec![Some(9), Some(8)]).unwrap(), [2, 1]);
    assert_eq!(run(vec![Some(9), None]).unwrap_err().code, code::NULL_IN_NOT_NULL);
}

/// Operations in place of a call give what the function gives, which is called where the unit is not known.
#[test]
fn times_are_taken_apart_by_operations_as_by_calls() {
    const ROWS: usize = 500;
    let mut random = Random::new(23);
    for precision in [3, 6, 9] {
        let time = DataType::Timestamp(precision);
        let schema =
            Schema::new(vec![Field::new("time", time.clone(), true), Field::new("unit", DataType::Int, false)]);
        let per_second = time.time_unit().per_second();
        let mut value = |row: usize| match row % 4 {
            0 => None,
            1 => Some(random.bits() as i64),
            2 => Some((random.below(400_000) as i64 - 200_000) * per_second / 100),
            _ => Some([i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX][row / 4 % 6]),
        };
        let times = Int64Array::from_iter((0..ROWS).map(&mut value));
        let times =
            arrow_array::make_array(times.into_data().into_builder().data_type(time.to_arrow()).build().unwrap());
        for &(unit, name) in DateTimeUnit::ALL {
            for (function, result) in
                [(RuntimeFn::ExtractTimestamp, DataType::BigInt), (RuntimeFn::FloorTimestamp, time.clone())]
            {
                let call = |unit: Expr| {
                    let precision = Expr::literal(Value::Int(precision.into()), DataType::Int);
                    let arguments = vec![Expr::column(0, time.clone(), true), precision, unit];
                    Expr::new(ExprKind::Call(function, arguments), result.clone(), true)
                };
                let known = call(Expr::literal(Value::Int(unit.code().into()), DataType::Int));
                let lowered = lower_expressions("test", &schema, &[known, call(Expr::column(1, DataType::Int, false))]);
                let lowered = lowered.unwrap();
                let units: ArrayRef = Arc::new(Int32Array::from(vec![unit.code(); ROWS]));
                let columns = [Arc::clone(&times), units];
                let mut functions = FunctionContext::default();
                let emitted =
                    emit(&lowered, &kernel(&lowered), &columns, ROWS, &[i64::MIN], &mut functions, &mut |_| Flow::Stop);
                let emitted = emitted.unwrap();
                assert_eq!(emitted.rows, ROWS);
                assert_eq!(&emitted.columns[0], &emitted.columns[1], "{function:?} {name} of TIMESTAMP({precision})");
                let calls = lowered.program.statements().filter(|s| matches!(s, Statement::Call(_))).count();
                let clock = [DateTimeUnit::Hour, DateTimeUnit::Minute, DateTimeUnit::Second].contains(&unit);
                assert!(!clock || calls == 1, "{function:?} {name} is called");
            }
        }
    }
}
