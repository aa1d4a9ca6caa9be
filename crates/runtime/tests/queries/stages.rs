//! Pipelines of several stages: the elements of collections, lookup tables and their phases, and processing time.

use crate::support::*;
use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringViewBuilder};
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, StringViewArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType as Arrow;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::JoinKind;
use millstream_plan::pipeline::*;
use millstream_plan::window::WindowAssigner;
use millstream_runtime::*;
use millstream_types::{DataType, Field, Schema};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `SELECT number, elements FROM constants CROSS JOIN UNNEST(collection)`
fn unnest_plan(collection: DataType, columns: Vec<Field>, outer: bool, ordinality: bool) -> QueryPlan {
    let fields =
        vec![Field::new("number", DataType::BigInt, false), Field::new("collection", collection.clone(), true)];
    let mut source = source_plan(None);
    source.scan = ScanKind::Values(vec![]);
    source.columns = source_columns(&fields);
    let unnest = FlatMap::Unnest(Unnest {
        collection: Expr::column(1, collection, true),
        outer,
        ordinality,
        columns: columns.clone(),
    });
    let mut projected = vec![Expr::column(0, DataType::BigInt, false)];
    projected.extend(columns.iter().enumerate().map(|(i, f)| Expr::column(2 + i, f.data_type.clone(), true)));
    let sink = Schema::new(fields[..1].iter().chain(&columns).cloned().collect());
    QueryPlan {
        sources: vec![source],
        pipelines: vec![Pipeline {
            input: PipelineInput::Source(0),
            schema: Schema::new(fields),
            operators: vec![Operator::FlatMap(unnest), Operator::Project(projected)],
            end: PipelineEnd::Sink(0),
        }],
        sinks: vec![sink_plan(sink, None)],
        ..QueryPlan::default()
    }
}

/// The rows, under buffers of several sizes.
fn unnested(plan: QueryPlan, collections: &ArrayRef) -> Vec<String> {
    let mut result: Option<Vec<String>> = None;
    for (workers, buffer_rows) in [(1, 0), (1, 1), (3, 2)] {
        let rows = collections.len();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let columns = vec![numbers, Arc::clone(collections)];
        let sink = MemorySink::default();
        let written = Arc::clone(&sink.written);
        let run = input(plan.clone(), vec![SourceRows::Constant { columns, rows }], vec![sink]);
        run_within(run, config(workers, buffer_rows), CancelToken::new()).0.unwrap();
        assert_eq!(written.rows(), *result.get_or_insert_with(|| written.rows()), "buffers of {buffer_rows}");
    }
    result.unwrap()
}

fn numbers() -> ArrayRef {
    let element = Arc::new(arrow_schema::Field::new("element", Arrow::Int64, true));
    let mut lists = ListBuilder::new(Int64Builder::new()).with_field(element);
    lists.append_value([Some(10), None, Some(12)]);
    lists.append_null();
    lists.append_value([]);
    lists.append_value([Some(40)]);
    Arc::new(lists.finish())
}

#[test]
fn elements_of_arrays_are_rows() {
    let array = DataType::Array(Arc::new(DataType::BigInt));
    let columns = |n: usize| {
        let ordinal = Field::new("ordinal", DataType::Int, true);
        [Field::new("element", DataType::BigInt, true), ordinal][..n].to_vec()
    };
    let inner = unnested(unnest_plan(array.clone(), columns(1), false, false), &numbers());
    assert_eq!(inner, ["0,10", "0,NULL", "0,12", "3,40"]);
    let mut plan = unnest_plan(array, columns(2), true, true);
    // The position as a BIGINT, which the sink can show.
    let Some(Operator::Project(projected)) = plan.pipelines[0].operators.last_mut() else { panic!("it projects") };
    projected[2] = projected[2].clone().cast_to(DataType::BigInt);
    plan.sinks[0].schema.fields[2].data_type = DataType::BigInt;
    let outer = unnested(plan, &numbers());
    assert_eq!(outer, ["0,10,1", "0,NULL,2", "0,12,3", "1,NULL,NULL", "2,NULL,NULL", "3,40,1"]);
}

#[test]
fn rows_in_arrays_give_their_fields() {
    let fields = vec![Field::new("a", DataType::BigInt, true), Field::new("b", DataType::STRING, true)];
    let row = DataType::Row(fields.clone().into());
    let DataType::Row(types) = &row else { panic!("a row") };
    let arrow: Vec<arrow_schema::Field> = types.iter().map(Field::to_arrow).collect();
    let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
    let b: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), Some("hidden"), Some("z")]));
    let missing = NullBuffer::from(vec![true, false, true]);
    let structs: ArrayRef = Arc::new(StructArray::new(arrow.into(), vec![a, b], Some(missing)));
    let element = Arc::new(arrow_schema::Field::new("element", structs.data_type().clone(), true));
    let lists = ListArray::new(element, OffsetBuffer::from_lengths([2, 0, 1]), structs, None);
    let plan = unnest_plan(DataType::Array(Arc::new(row)), fields, true, false);
    let lists: ArrayRef = Arc::new(lists);
    assert_eq!(unnested(plan, &lists), ["0,1,x", "0,NULL,NULL", "1,NULL,NULL", "2,NULL,z"]);
}

#[test]
fn entries_of_maps_are_rows() {
    let data_type = DataType::Map(Arc::new(DataType::STRING), Arc::new(DataType::BigInt));
    let mut maps = MapBuilder::new(None, StringViewBuilder::new(), Int64Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(5);
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let maps: ArrayRef = Arc::new(maps.finish());
    let columns = vec![Field::new("key", DataType::STRING, true), Field::new("value", DataType::BigInt, true)];
    assert_eq!(unnested(unnest_plan(data_type, columns, false, false), &maps), ["0,k,5"]);
}

/// The name of a row and that of the table, where the row's key and the table's are equal: source 0 becomes the table.
fn lookup_plan(kind: JoinKind, key: Expr, residual: Option<Expr>) -> QueryPlan {
    let (mut table, mut probed) = (source_plan(None), source_plan(None));
    (table.phase, probed.phase) = (0, 1);
    let lookup = LookupTable { name: "table".into(), schema: source_schema(), keys: vec![1] };
    let flat_map = FlatMap::Lookup(Lookup { table: 0, kind, keys: vec![key], residual });
    let mut projected = vec![key_column(), Expr::column(2, DataType::STRING, true)];
    if kind.shows_right() {
        projected.push(Expr::column(5, DataType::STRING, true));
    }
    let fields = projected.iter().map(|e| Field::new("column", e.data_type.clone(), e.nullable)).collect();
    let pipeline = |source, operators, end| Pipeline {
        input: PipelineInput::Source(source),
        schema: source_schema(),
        operators,
        end,
    };
    QueryPlan {
        sources: vec![table, probed],
        lookups: vec![lookup],
        pipelines: vec![
            pipeline(0, vec![], PipelineEnd::Build { lookup: 0 }),
            pipeline(1, vec![Operator::FlatMap(flat_map), Operator::Project(projected)], PipelineEnd::Sink(0)),
        ],
        sinks: vec![sink_plan(Schema::new(fields), None)],
        ..QueryPlan::default()
    }
}

fn named(key: i64, name: &str) -> Row {
    (Some(key), key, Some(name.to_string()))
}

fn table_rows() -> Vec<Vec<Row>> {
    vec![
        vec![named(1, "one"), named(2, "two"), named(1, "uno"), named(3, "three")],
        vec![named(1, "eins"), named(4, "a long name for the number four")],
    ]
}

fn probe_rows() -> Vec<Row> {
    vec![named(1, "p"), named(7, "q"), named(4, "r"), named(2, "s"), named(1, "t")]
}

fn looked_up(plan: &QueryPlan, table: &[Vec<Row>], probe: &[Row]) -> Vec<String> {
    let mut result: Option<Vec<String>> = None;
    for (workers, buffer_rows, chunk_rows) in [(1, 0, 100), (1, 1, 1), (4, 2, 3)] {
        let sources = vec![
            connector(MemorySource::of(table, chunk_rows)),
            connector(MemorySource::of(&[probe.to_vec()], chunk_rows)),
        ];
        let sink = MemorySink::default();
        let written = Arc::clone(&sink.written);
        let run = input(plan.clone(), sources, vec![sink]);
        run_within(run, config(workers, buffer_rows), CancelToken::new()).0.unwrap();
        assert_eq!(written.rows(), *result.get_or_insert_with(|| written.rows()), "buffers of {buffer_rows}");
    }
    result.unwrap()
}

/// Whether the name of the table's row is not `one`, nor that of the row `t`.
fn residual() -> Expr {
    let differs = |column: usize, name: &str| {
        let name = Expr::literal(millstream_types::Value::String(name.into()), DataType::STRING);
        let column = Box::new(Expr::column(column, DataType::STRING, true));
        Expr::new(ExprKind::Compare(CompareOp::NotEqual, column, Box::new(name)), DataType::Boolean, true)
    };
    Expr::new(ExprKind::And(vec![differs(5, "one"), differs(2, "t")]), DataType::Boolean, true)
}

#[test]
fn rows_of_a_table_are_looked_up_by_key() {
    let long = "4,r,a long name for the number four";
    let lookup = |kind| looked_up(&lookup_plan(kind, key_column(), None), &table_rows(), &probe_rows());
    let inner = lookup(JoinKind::Inner);
    assert_eq!(inner, ["1,p,one", "1,p,uno", "1,p,eins", long, "2,s,two", "1,t,one", "1,t,uno", "1,t,eins"]);
    let left = lookup(JoinKind::Left);
    assert_eq!(left[3], "7,q,NULL");
    assert_eq!(left.len(), 9);
    assert_eq!(lookup(JoinKind::Semi), ["1,p", "4,r", "2,s", "1,t"]);
    assert_eq!(lookup(JoinKind::Anti), ["7,q"]);
}

#[test]
fn a_residual_decides_what_matches() {
    let long = "4,r,a long name for the number four";
    let lookup = |kind| looked_up(&lookup_plan(kind, key_column(), Some(residual())), &table_rows(), &probe_rows());
    assert_eq!(lookup(JoinKind::Inner), ["1,p,uno", "1,p,eins", long, "2,s,two"]);
    assert_eq!(lookup(JoinKind::Left), ["1,p,uno", "1,p,eins", "7,q,NULL", long, "2,s,two", "1,t,NULL"]);
    assert_eq!(lookup(JoinKind::Semi), ["1,p", "4,r", "2,s"]);
    assert_eq!(lookup(JoinKind::Anti), ["7,q", "1,t"]);
}

#[test]
fn nothing_is_found_in_an_empty_table_or_by_null() {
    for residual in [None, Some(residual())] {
        for table in [vec![], vec![vec![]]] {
            let lookup = |kind| looked_up(&lookup_plan(kind, key_column(), residual.clone()), &table, &probe_rows());
            assert!(lookup(JoinKind::Inner).is_empty() && lookup(JoinKind::Semi).is_empty());
            assert_eq!(lookup(JoinKind::Left)[..2], ["1,p,NULL", "7,q,NULL"]);
            assert_eq!(lookup(JoinKind::Anti).len(), 5);
        }
    }
    // Keyed by the name, which can be NULL on both sides; the key 0 of a NULL must not be found either.
    let by_name = |kind| {
        let mut plan = lookup_plan(kind, Expr::column(2, DataType::STRING, true), None);
        plan.lookups[0].keys = vec![2];
        let table = vec![vec![(Some(1), 1, None), (Some(1), 2, Some(String::new())), (Some(1), 3, Some("n".into()))]];
        looked_up(&plan, &table, &[(Some(1), 5, None), (Some(1), 6, Some("n".into()))])
    };
    assert_eq!(by_name(JoinKind::Inner), ["6,n,n"]);
    assert_eq!(by_name(JoinKind::Left), ["5,NULL,NULL", "6,n,n"]);
    assert_eq!(by_name(JoinKind::Anti), ["5,NULL"]);
}

#[test]
fn many_partners_and_rows_keep_their_order() {
    let table: Vec<Row> = (0..3000).map(|i| (Some(i), i % 3, Some(format!("{i}")))).collect();
    let probe: Vec<Row> = (0..60).map(|i| (Some(i), i % 4, Some(format!("p{i}")))).collect();
    let mut expected = Vec::new();
    for (_, key, name) in &probe {
        let partners = table.iter().filter(|t| t.1 == *key);
        expected.extend(partners.map(|t| format!("{key},{},{}", name.as_ref().unwrap(), t.2.as_ref().unwrap())));
        if *key == 3 {
            expected.push(format!("3,{},NULL", name.as_ref().unwrap()));
        }
    }
    let tables: Vec<Vec<Row>> = table.chunks(1000).map(<[Row]>::to_vec).collect();
    assert_eq!(looked_up(&lookup_plan(JoinKind::Left, key_column(), None), &tables, &probe), expected);
}

#[test]
fn errors_stops_and_limits_end_a_query_in_every_phase() {
    let table_source = |steps: Vec<Step>| connector(MemorySource { splits: vec![steps], bounded: true });
    let plan = lookup_plan(JoinKind::Inner, key_column(), None);
    let run = |table: SourceRows, probe: SourceRows, cancel: &CancelToken, plan: &QueryPlan| {
        let sink = MemorySink::default();
        let written = Arc::clone(&sink.written);
        let result = run_within(input(plan.clone(), vec![table, probe], vec![sink]), config(2, 0), cancel.clone()).0;
        (result, written.rows())
    };
    let probe = || connector(MemorySource::of(&[probe_rows()], 2));
    let (result, _) = run(table_source(vec![Step::ReadError]), probe(), &CancelToken::new(), &plan);
    assert_eq!(result.unwrap_err().code, millstream_types::code::READ_FAILED);
    let failing = table_source(vec![Step::ReadError]);
    let (result, _) = run(connector(MemorySource::of(&table_rows(), 2)), failing, &CancelToken::new(), &plan);
    assert_eq!(result.unwrap_err().code, millstream_types::code::READ_FAILED);

    // Stopped while the table is being read.
    let gate = Arc::new(Gate::default());
    let cancel = CancelToken::new();
    let (stopper, opener) = (cancel.clone(), Arc::clone(&gate));
    // The reader is let go only when the query has ended, or it could read the whole table before the stop is seen.
    let thread = std::thread::spawn(move || stopper.stop());
    let steps = vec![Step::Rows(vec![named(1, "one")]), Step::Wait(gate), Step::Rows(vec![named(2, "two")])];
    let (result, rows) = run(table_source(steps), probe(), &cancel, &plan);
    opener.open();
    thread.join().unwrap();
    assert_eq!(result.unwrap_err().code, millstream_types::code::CANCELLED);
    assert!(rows.is_empty());

    // An endless source that is looked up, with a limit.
    let endless = MemorySource {
        splits: vec![vec![Step::Rows(probe_rows()), Step::Wait(Arc::new(Gate::default()))]],
        bounded: false,
    };
    let mut limited = plan;
    limited.sinks[0].limit = Some(4);
    let table = connector(MemorySource::of(&table_rows(), 1));
    let (result, rows) = run(table, connector(endless), &CancelToken::new(), &limited);
    result.unwrap();
    assert_eq!(rows.len(), 4);
}

#[test]
fn processing_time_fires_windows_while_no_rows_come() {
    let gate = Arc::new(Gate::default());
    let steps = vec![
        Step::Rows(vec![named(1, "a"), named(2, "b"), named(1, "c")]),
        Step::Wait(Arc::clone(&gate)),
        Step::Rows(vec![named(5, "d")]),
    ];
    let mut plan = tumbling_plan(20, 0);
    plan.sources[0].watermark = Some(SourceWatermark {
        time: Expr::column(3, TIME, false),
        rule: WatermarkRule::ProcessingTime,
        idle_timeout_ms: None,
    });
    plan.pipelines[0].schema.fields.push(Field::new("proctime", TIME, false));
    let PipelineEnd::Aggregate { time, .. } = &mut plan.pipelines[0].end else { panic!("it aggregates") };
    *time = Some(Expr::column(3, TIME, false));
    assert!(matches!(plan.aggregations[0].assigner, WindowAssigner::Tumble(_)));
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let waiting = Arc::clone(&written);
    let opener = std::thread::spawn(move || {
        while waiting.rows.lock().unwrap().len() < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        gate.open();
    });
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let begin = now();
    let source = MemorySource { splits: vec![steps], bounded: false };
    // Only its own timer can fire the window.
    let unflushed = RunConfig { flush_interval_ms: 3_600_000, ..config(2, 0) };
    let (result, stats) = run_within(input(plan, vec![connector(source)], vec![sink]), unflushed, CancelToken::new());
    result.unwrap();
    opener.join().unwrap();
    let rows = written.rows();
    let counts: Vec<&str> = rows.iter().map(|r| r.split(',').nth(1).unwrap()).collect();
    let keys: Vec<&str> = rows.iter().map(|r| r.split(',').next().unwrap()).collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!((keys[2], counts[2], stats.late_rows), ("5", "1", 0));
    let (key, other) = if keys[0] == "1" { (0, 1) } else { (1, 0) };
    assert_eq!((keys[key], counts[key], keys[other], counts[other]), ("1", "2", "2", "1"));
    for row in &rows {
        let start: i64 = row.rsplit(',').nth(1).unwrap().parse().unwrap();
        assert!(start > begin - 20 && start <= now() && start % 20 == 0, "{row}");
    }
}
