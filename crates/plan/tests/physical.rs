//! Physical planning: what is read, what is inlined, what is shared.

use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::beat::BeatClock;
use millstream_plan::common::Common;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_plan::logical::{
    ColumnKind, Insert, JoinKind, JoinStrategy, Rel, Table, TableColumn, Target, Watermark, Window,
};
use millstream_plan::pipeline::*;
use millstream_plan::shape::PlanShape;
use millstream_plan::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_plan::{explain, physical};
use millstream_types::text::zone::Zone;
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
        last_ms: None,
        data_type: DataType::BigInt,
        nullable: false,
    };
    Rel::Aggregate {
        input: Box::new(projected),
        window: Window {
            assigner: WindowAssigner::Tumble(Slicing { size_ms: 10_000, offset_ms: 0 }),
            time: Some(Expr::column(1, timestamp(), true)),
            timeline: Timeline::Own,
            start: None,
        },
        keys: vec![(Expr::column(0, DataType::BigInt, true), "auction".into())],
        aggregates: vec![(count, "bids".into())],
    }
}

fn plan(queries: &[Rel]) -> QueryPlan {
    let inserts: Vec<Insert> =
        queries.iter().map(|query| Insert { target: Target::Result, query: query.clone() }).collect();
    physical::plan(&inserts, Zone::UTC, BeatClock::Arrival, None, physical::Rules::default())
        .expect("the query can be planned")
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
aggregation 0: window TUMBLE(time, 10000 ms), keys [auction BIGINT], components [Count], merge local
pipeline 0: from source 0
  filter (event_type = 2)
  update aggregation 0, time bid.at, keys [bid.auction], components [*]
pipeline 1: from trigger of aggregation 0
  project [auction, component0, window_start, window_end, (window_end + INTERVAL -1 ms)]
  emit into sink 0 (result)
";
    // `bid.at` is a plain leaf: it is decoded as it is, so nothing has to be appended.
    assert_eq!(explain::pipelines(&plan, |_| "local".into()), expected);
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

/// The flat maps of a pipeline, as (times, numbered).
fn repetitions(pipeline: &Pipeline) -> Vec<(u64, bool)> {
    let repetition = |operator: &Operator| match operator {
        Operator::FlatMap(FlatMap::Repeat(Repeat { times, numbered })) => Some((*times, *numbered)),
        _ => None,
    };
    pipeline.operators.iter().filter_map(repetition).collect()
}

#[test]
fn a_common_relation_is_planned_once() {
    let common = Common::new(counts());
    let named = || Rel::Common(common.clone());
    let key = Expr::column(0, DataType::BigInt, true);
    let is_null = Expr::new(ExprKind::IsNull(Box::new(key)), DataType::Boolean, false);
    let filtered = Rel::Filter { input: Box::new(named()), predicate: is_null };
    let plan = plan(&[Rel::Union { inputs: vec![named(), scan_like(&common), filtered, named()] }]);
    assert_eq!((plan.aggregations.len(), plan.pipelines.len()), (1, 3), "{plan:#?}");
    let repeated: Vec<_> = plan.pipelines.iter().map(repetitions).filter(|r| !r.is_empty()).collect();
    assert_eq!(repeated, [[(3, true)]]);
}

#[test]
fn relations_that_are_copied_in_the_end_become_what_copies_are() {
    let filtered = |input| Rel::Filter { input: Box::new(input), predicate: is_bid() };
    let named = Rel::Common(Common::copied(filtered(scan())));
    let copied = Rel::Common(Common::copied(filtered(named)));
    let shared = Rel::Common(Common::new(filtered(copied.clone())));
    let query = Rel::Union { inputs: vec![copied.clone(), shared.clone(), copied, shared] }.with_copies();
    let Rel::Union { inputs } = &query else { panic!("{query:#?}") };
    let twice = filtered(filtered(scan()));
    assert_eq!((&inputs[0], &inputs[2]), (&twice, &twice));
    let (Rel::Common(first), Rel::Common(second)) = (&inputs[1], &inputs[3]) else { panic!("{query:#?}") };
    assert_eq!((first == second, first.rel()), (true, &filtered(twice)));
}

#[test]
fn a_common_relation_is_explained_once() {
    let common = Rel::Common(Common::new(scan()));
    let query = Rel::Union { inputs: vec![common.clone(), common] };
    let text = explain::logical(&Insert { target: Target::Result, query });
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines, ["Union all", "Common 0", "Scan events", "Common 0 (see above)"]);
}

/// Constant rows with the columns of a common relation.
fn scan_like(common: &Common) -> Rel {
    Rel::Values { schema: common.schema().clone(), rows: vec![] }
}

#[test]
fn relations_that_double_are_repetitions() {
    let mut relation = scan();
    for _ in 0..70 {
        let common = Common::new(relation);
        relation = Rel::Union { inputs: vec![Rel::Common(common.clone()), Rel::Common(common)] };
    }
    let plan = plan(&[relation]);
    let [pipeline] = &plan.pipelines[..] else { panic!("{} pipelines", plan.pipelines.len()) };
    assert_eq!(repetitions(pipeline), [(1 << 63, false), (1 << 7, false)]);
}

#[test]
fn a_long_chain_of_relations_is_planned_and_dropped() {
    let mut relation = scan();
    for _ in 0..100_000 {
        let predicate = Expr::boolean(true);
        relation = Rel::Common(Common::new(Rel::Filter { input: Box::new(relation), predicate }));
    }
    assert_eq!(plan(&[relation]).pipelines.len(), 1);
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
    let inner = Rel::Limit { input: Box::new(scan()), offset: 0, count: Some(1) };
    let insert = Insert { target: Target::Result, query: Rel::Filter { input: Box::new(inner), predicate: is_bid() } };
    assert_eq!(
        physical::plan(&[insert], Zone::UTC, BeatClock::Arrival, None, physical::Rules::default())
            .expect_err("LIMIT in a subquery")
            .code,
        code::UNSUPPORTED
    );
}

#[test]
fn slices_are_aligned_for_negative_times_and_offsets() {
    let slicing = Slicing { size_ms: 10, offset_ms: 3 };
    assert_eq!([-8, -7, -1, 2, 3, 12, 13].map(|t| slicing.start_of(t)), [-17, -7, -7, -7, 3, 3, 13]);
    assert_eq!(slicing.start_of(i64::MIN), i64::MIN);
}

/// Bids with their hopping windows: columns auction, ts, then start, end and time of the window.
fn hopping() -> Rel {
    let columns = vec![
        (field_of_bid(0, DataType::BigInt), "auction".into()),
        (field_of_bid(1, DataType::BigInt), "price".into()),
        (Expr::column(2, timestamp(), true), "ts".into()),
    ];
    let windows = Overlap::Hop { size_ms: 10_000, slide_ms: 2_000, offset_ms: 0 };
    Rel::Windowed {
        timeline: Timeline::Own,
        input: Box::new(Rel::Project { input: Box::new(scan()), columns }),
        assigner: WindowAssigner::Overlap(windows),
        time: Expr::column(2, timestamp(), true),
        partition: vec![],
    }
}

/// `SELECT auction, SUM(price) … GROUP BY auction, window_start, window_end`
fn grouped(input: Rel, filter: Option<Expr>) -> Rel {
    let sum = AggregateCall {
        function: AggregateFunction::Sum,
        arguments: vec![Expr::column(1, DataType::BigInt, true)],
        parameters: vec![],
        distinct: false,
        filter,
        last_ms: None,
        data_type: DataType::BigInt,
        nullable: true,
    };
    Rel::Aggregate {
        input: Box::new(input),
        window: Window {
            assigner: WindowAssigner::Attached,
            time: Some(Expr::column(5, timestamp(), false)),
            timeline: Timeline::Own,
            start: Some(Expr::column(3, timestamp(), false)),
        },
        keys: vec![(Expr::column(0, DataType::BigInt, true), "auction".into())],
        aggregates: vec![(sum, "total".into())],
    }
}

#[test]
fn an_aggregation_takes_over_the_windows_below_it() {
    let plan = plan(&[grouped(hopping(), None)]);
    let aggregation = &plan.aggregations[0];
    let windows = Overlap::Hop { size_ms: 10_000, slide_ms: 2_000, offset_ms: 0 };
    assert_eq!(aggregation.assigner, WindowAssigner::Overlap(windows));
    // Five slices, and a SUM of BIGINT can be subtracted.
    assert_eq!(aggregation.combination, Combination::Subtract);
    assert!(!plan.pipelines.iter().any(|p| p.operators.iter().any(|o| matches!(o, Operator::FlatMap(_)))));
    assert!(explain::pipelines(&plan, |_| "local".into()).contains("combine subtract over slices of 2000 ms"));
}

#[test]
fn windows_that_something_else_uses_stay_attached_to_the_rows() {
    let start = Expr::column(3, timestamp(), false);
    let end = Expr::column(4, timestamp(), false);
    let odd = Expr::new(ExprKind::Compare(CompareOp::Less, Box::new(start), Box::new(end)), DataType::Boolean, false);
    let plan = plan(&[grouped(hopping(), Some(odd))]);
    assert_eq!(plan.aggregations[0].assigner, WindowAssigner::Attached);
    assert_eq!(plan.aggregations[0].keys.len(), 2);
    assert!(plan.pipelines[0].operators.iter().any(|o| matches!(o, Operator::FlatMap(FlatMap::Windows { .. }))));
    // Only what is used travels through the expansion: auction, price and ts.
    let projected = plan.pipelines[0].operators.iter().find_map(|o| match o {
        Operator::Project(columns) => Some(columns.len()),
        _ => None,
    });
    assert_eq!(projected, Some(3));
}

#[test]
fn sessions_of_the_grouping_keys_keep_no_rows() {
    let Rel::Windowed { input, time, .. } = hopping() else { unreachable!("it is one") };
    let sessions = |partition| Rel::Windowed {
        timeline: Timeline::Own,
        input: input.clone(),
        assigner: WindowAssigner::Session { gap_ms: 5_000 },
        time: time.clone(),
        partition,
    };
    let auction = Expr::column(0, DataType::BigInt, true);
    let direct = plan(&[grouped(sessions(vec![auction]), None)]);
    assert!(matches!(direct.operators[0].kind, KeyedKind::Sessions(Sessions { gap_ms: 5_000, aggregates: Some(_) })));
    assert!(direct.aggregations.is_empty());
    // Sessions of all rows together, grouped by auction: the rows have to know their session first.
    let global = plan(&[grouped(sessions(vec![]), None)]);
    assert!(matches!(global.operators[0].kind, KeyedKind::Sessions(Sessions { gap_ms: 5_000, aggregates: None })));
    assert_eq!(global.aggregations[0].assigner, WindowAssigner::Attached);
}

#[test]
fn joins_bring_along_only_what_is_used() {
    let join = |strategy, kind| Rel::Join {
        left: Box::new(scan()),
        right: Box::new(scan()),
        kind,
        strategy,
        keys: vec![(field_of_bid(0, DataType::BigInt), field_of_bid(1, DataType::BigInt))],
        residual: None,
    };
    let select = |join| Rel::Project {
        input: Box::new(join),
        columns: vec![(Expr::column(0, DataType::Int, false), "n".into())],
    };
    let regular = plan(&[select(join(JoinStrategy::Regular { ttl_ms: [None; 2] }, JoinKind::Inner))]);
    let inputs = &regular.operators[0].inputs;
    assert_eq!((inputs[0].schema.fields.len(), inputs[1].schema.fields.len()), (2, 1));
    assert_eq!(regular.sources.len(), 1, "the table is read once for both sides");
    // Rows whose key is NULL have no partner in an inner join.
    let drops_null = |p: &&Pipeline| matches!(p.operators.first(), Some(Operator::Filter(e)) if matches!(e.kind, ExprKind::IsNotNull(_)));
    assert_eq!(regular.pipelines.iter().filter(drops_null).count(), 2);
    let lookup = plan(&[select(join(JoinStrategy::Lookup, JoinKind::Left))]);
    let phases: Vec<usize> = lookup.sources.iter().map(|s| s.phase).collect();
    assert_eq!(phases.iter().filter(|p| **p == 0).count(), 1, "what is looked up is read first: {phases:?}");
    assert!(explain::pipelines(&lookup, |_| "local".into()).contains("probe lookup 0 (left)"));
}

#[test]
fn windows_over_instants_are_of_local_time() {
    let Rel::Aggregate { input, window, keys, aggregates } = counts() else { unreachable!("it is one") };
    let time = window.time.clone().map(|t| t.cast_to(DataType::TimestampLtz(3)));
    let query = Rel::Aggregate { input, window: Window { time, ..window.clone() }, keys, aggregates };
    let inserts = [Insert { target: Target::Result, query }];
    let planned = |zone| {
        physical::plan(&inserts, zone, BeatClock::Arrival, None, physical::Rules::default())
            .expect("the query can be planned")
    };
    let berlin = Zone::parse("Europe/Berlin").expect("there is such a zone");
    let (of_utc, of_berlin) = (planned(Zone::UTC), planned(berlin));
    assert_eq!(of_utc.aggregations[0].timeline, Timeline::Own);
    assert_eq!(of_berlin.aggregations[0].timeline, Timeline::Local(berlin));
    assert_eq!(of_berlin.aggregations[0].assigner, window.assigner);
    // What was cast from a TIMESTAMP is that local time.
    let times = |plan: &QueryPlan| match &plan.pipelines[0].end {
        PipelineEnd::Aggregate { time: Some(time), .. } => time.data_type.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((times(&of_utc), times(&of_berlin)), (DataType::TimestampLtz(3), DataType::Timestamp(3)));
    let types = |plan: &QueryPlan| plan.sinks[0].schema.fields.iter().map(|f| f.data_type.clone()).collect::<Vec<_>>();
    assert_eq!(types(&of_utc), types(&of_berlin));
    let zone = |plan: &QueryPlan| PlanShape::of(plan).aggregations[0].parameters.get("time_zone").cloned();
    assert_eq!((zone(&of_utc), zone(&of_berlin)), (None, Some("Europe/Berlin".to_string())));
    let changed = PlanShape::of(&of_berlin).fit(&PlanShape::of(&of_utc)).expect_err("the windows are others");
    assert!(changed.0.contains("time_zone changed from nothing to Europe/Berlin"), "{changed}");
}

#[test]
fn late_rows_have_a_pipeline_of_their_own() {
    let Rel::Aggregate { window, keys, aggregates, .. } = counts() else { unreachable!("it is one") };
    let columns =
        vec![(field_of_bid(0, DataType::BigInt), "auction".into()), (Expr::column(2, timestamp(), true), "ts".into())];
    let scan = Rel::Scan { table: events(), late: Some(events()) };
    let input = Box::new(Rel::Project { input: Box::new(scan), columns });
    let plan = plan(&[Rel::Aggregate { input, window, keys, aggregates }]);
    assert_eq!(plan.sinks.len(), 2);
    let late = plan.pipelines.iter().find(|p| p.end == PipelineEnd::Sink(1)).expect("late rows go to the second sink");
    assert!(
        matches!(late.operators.as_slice(), [Operator::Filter(_), Operator::Project(columns)] if columns.len() == 3)
    );
}
