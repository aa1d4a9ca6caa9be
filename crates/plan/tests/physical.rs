//! Physical planning: what is read, what is inlined, what is shared.

use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::{ColumnKind, Insert, Rel, Table, TableColumn, Target, Watermark, Window};
use millstream_plan::pipeline::{ColumnOrigin, PipelineInput, QueryPlan, WatermarkRule};
use millstream_plan::window::{Slicing, WindowAssigner};
use millstream_plan::{explain, physical};
use millstream_types::{DataType, Field, Options, Value, code};
use std::sync::Arc;

fn timestamp() -> DataType {
    DataType::Timestamp(3)
}

fn bid() -> DataType {
    let fields = [("auction", DataType::BigInt), ("price", DataType::BigInt), ("at", timestamp())];
    DataType::Row(fields.map(|(name, t)| Field::new(name, t, true)).into())
}

/// `event_type INT NOT NULL, bid ROW<auction, price, at>, ts AS bid.at`, watermark `ts - 4 s`.
fn events() -> Arc<Table> {
    let column =
        |name: &str, data_type, nullable, kind| TableColumn { field: Field::new(name, data_type, nullable), kind };
    let time = field_of_bid(2, timestamp());
    let delay = Expr::literal(Value::Int(-4000), DataType::IntervalMilli);
    let ts = Expr::column(2, timestamp(), true);
    Arc::new(Table {
        name: "events".into(),
        columns: vec![
            column("event_type", DataType::Int, false, ColumnKind::Physical),
            column("bid", bid(), true, ColumnKind::Physical),
            column("ts", timestamp(), true, ColumnKind::Computed(time)),
        ],
        watermark: Some(Watermark {
            column: 2,
            expression: Expr::new(ExprKind::AddInterval(Box::new(ts), Box::new(delay)), timestamp(), true),
        }),
        primary_key: vec![],
        options: Options::new(),
    })
}

fn field_of_bid(index: usize, data_type: DataType) -> Expr {
    Expr::new(ExprKind::Field(Box::new(Expr::column(1, bid(), true)), index), data_type, true)
}

fn scan() -> Rel {
    Rel::Scan { table: events(), late: None }
}

fn is_bid() -> Expr {
    let kind = Box::new(Expr::column(0, DataType::Int, false));
    let two = Box::new(Expr::literal(Value::Int(2), DataType::Int));
    Expr::new(ExprKind::Compare(CompareOp::Equal, kind, two), DataType::Boolean, false)
}

/// Bids per auction and ten seconds.
fn counts() -> Rel {
    let projected = Rel::Project {
        input: Box::new(Rel::Filter { input: Box::new(scan()), predicate: is_bid() }),
        columns: vec![
            (field_of_bid(0, DataType::BigInt), "auction".into()),
            (Expr::column(2, timestamp(), true), "ts".into()),
        ],
    };
    let count = AggregateCall {
        function: AggregateFunction::CountRows,
        arguments: vec![],
        parameters: vec![],
        distinct: false,
        filter: None,
        data_type: DataType::BigInt,
        nullable: false,
    };
    Rel::Aggregate {
        input: Box::new(projected),
        window: Window {
            assigner: WindowAssigner::Tumble(Slicing { size_ms: 10_000, offset_ms: 0 }),
            time: Some(Expr::column(1, timestamp(), true)),
            start: None,
        },
        keys: vec![(Expr::column(0, DataType::BigInt, true), "auction".into())],
        aggregates: vec![(count, "bids".into())],
    }
}

fn plan(queries: &[Rel]) -> QueryPlan {
    let inserts: Vec<Insert> =
        queries.iter().map(|query| Insert { target: Target::Result, query: query.clone() }).collect();
    physical::plan(&inserts).expect("the query can be planned")
}

#[test]
fn only_the_leaves_that_are_used_are_read() {
    let query =
        Rel::Project { input: Box::new(scan()), columns: vec![(field_of_bid(1, DataType::BigInt), "price".into())] };
    let plan = plan(&[Rel::Filter { input: Box::new(query), predicate: Expr::boolean(true) }]);
    let columns = &plan.sources[0].columns;
    assert_eq!(columns.len(), 1);
    assert_eq!((columns[0].name.as_str(), &columns[0].origin), ("bid.price", &ColumnOrigin::Path(vec![1, 1])));
    // A stateless query needs no event time, and TRUE filters nothing.
    assert_eq!(plan.sources[0].watermark, None);
    assert_eq!(plan.pipelines[0].operators.len(), 1);
}

#[test]
fn windows_read_the_event_time_and_the_columns_that_are_used() {
    let plan = plan(&[counts()]);
    let watermark = plan.sources[0].watermark.as_ref().expect("a window needs the event time");
    assert_eq!(watermark.rule, WatermarkRule::Delay(4000));
    let expected = "\
source 0: table events, reads [event_type INT, bid.at TIMESTAMP(3), bid.auction BIGINT], event time bid.at, watermark 4000 ms behind
aggregation 0: window TUMBLE(time, 10000 ms), keys [auction BIGINT], components [Count BIGINT], merge local
pipeline 0: from source 0
  filter (event_type = 2)
  update aggregation 0, time bid.at, keys [bid.auction], components [*]
pipeline 1: from trigger of aggregation 0
  project [auction, component0, window_start, window_end, (window_end + INTERVAL -1 ms)]
  emit into sink 0 (result)
";
    // `bid.at` is a plain leaf: it is decoded as it is, so nothing has to be appended.
    assert_eq!(explain::pipelines(&plan), expected);
}

#[test]
fn queries_of_one_run_share_sources_and_equal_aggregations() {
    let filtered = Rel::Filter {
        input: Box::new(counts()),
        predicate: Expr::new(
            ExprKind::Compare(
                CompareOp::Greater,
                Box::new(Expr::column(1, DataType::BigInt, false)),
                Box::new(Expr::literal(Value::Int(1), DataType::BigInt)),
            ),
            DataType::Boolean,
            false,
        ),
    };
    let plan = plan(&[counts(), filtered, scan()]);
    assert_eq!((plan.sources.len(), plan.aggregations.len(), plan.sinks.len()), (1, 1, 3));
    let from_trigger = plan.pipelines.iter().filter(|p| p.input == PipelineInput::Aggregation(0)).count();
    assert_eq!((plan.pipelines.len(), from_trigger), (4, 2));
}

#[test]
fn a_union_is_a_pipeline_for_each_input() {
    let plan = plan(&[Rel::Union { inputs: vec![scan(), scan()] }]);
    assert_eq!((plan.sources.len(), plan.pipelines.len(), plan.sinks.len()), (1, 2, 1));
}

#[test]
fn projections_that_would_grow_without_bound_stay() {
    let mut query =
        Rel::Project { input: Box::new(scan()), columns: vec![(Expr::column(0, DataType::Int, false), "n".into())] };
    for _ in 0..64 {
        let n = || Box::new(Expr::column(0, DataType::Int, false));
        let sum = ExprKind::Arithmetic(millstream_plan::expr::ArithmeticOp::Add, n(), n());
        let doubled = Expr::new(sum, DataType::Int, false);
        query = Rel::Project { input: Box::new(query), columns: vec![(doubled, "n".into())] };
    }
    let plan = plan(&[query]);
    let operators = plan.pipelines[0].operators.len();
    assert!((2..64).contains(&operators), "{operators} projections");
}

#[test]
fn limits_below_the_top_are_refused() {
    let inner = Rel::Limit { input: Box::new(scan()), count: 1 };
    let insert = Insert { target: Target::Result, query: Rel::Filter { input: Box::new(inner), predicate: is_bid() } };
    assert_eq!(physical::plan(&[insert]).expect_err("LIMIT in a subquery").code, code::UNSUPPORTED);
}

#[test]
fn slices_are_aligned_for_negative_times_and_offsets() {
    let slicing = Slicing { size_ms: 10, offset_ms: 3 };
    assert_eq!([-8, -7, -1, 2, 3, 12, 13].map(|t| slicing.start_of(t)), [-17, -7, -7, -7, 3, 3, 13]);
    assert_eq!(slicing.start_of(i64::MIN), i64::MIN);
}
