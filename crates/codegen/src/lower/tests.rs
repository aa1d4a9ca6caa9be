//! Golden texts of representative pipelines, and what cannot be lowered.

mod keyed;
mod windows;

use super::{OutputSource, lower_expressions, lower_pipeline};
use crate::execute::{Flow, emit};
use crate::interpreter::Interpreter;
use crate::program::Program;
use crate::testing::{Random, random_column};
use expect_test::{Expect, expect};
use millstream_abi::{Accumulator, RuntimeFn};
use millstream_functions::FunctionContext;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use millstream_plan::logical::{ColumnKind, Table, TableColumn};
use millstream_plan::pipeline::{
    Aggregation, Combination, ComponentOutput, ComponentUpdate, Operator, Pipeline, PipelineEnd, PipelineInput,
    QueryPlan, SinkPlan,
};
use millstream_plan::window::{Slicing, Timeline, WindowAssigner};
use millstream_types::{DataType, Field, Options, Schema, Value, code};
use std::sync::Arc;

/// auction BIGINT NOT NULL, price BIGINT, channel STRING, time TIMESTAMP(3), extra ROW<…>, share DECIMAL(10, 2)
fn schema() -> Schema {
    let extra = DataType::Row(vec![Field::new("a", DataType::Int, true)].into());
    Schema::new(vec![
        Field::new("auction", DataType::BigInt, false),
        Field::new("price", DataType::BigInt, true),
        Field::new("channel", DataType::STRING, true),
        Field::new("time", DataType::Timestamp(3), true),
        Field::new("extra", extra, true),
        Field::new("share", DataType::decimal(10, 2), true),
    ])
}

fn column(name: &str) -> Expr {
    let schema = schema();
    let index = schema.index_of(name).unwrap();
    Expr::column(index, schema.fields[index].data_type.clone(), schema.fields[index].nullable)
}

fn big(n: i64) -> Expr {
    Expr::literal(Value::Int(n), DataType::BigInt)
}

fn text(s: &str) -> Expr {
    Expr::literal(Value::String(s.into()), DataType::STRING)
}

fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    let nullable = a.nullable || b.nullable;
    Expr::new(ExprKind::Compare(op, Box::new(a), Box::new(b)), DataType::Boolean, nullable)
}

fn arithmetic(op: ArithmeticOp, a: Expr, b: Expr) -> Expr {
    let (data_type, nullable) = (a.data_type.clone(), a.nullable || b.nullable);
    Expr::new(ExprKind::Arithmetic(op, Box::new(a), Box::new(b)), data_type, nullable)
}

fn plan(operators: Vec<Operator>, end: PipelineEnd) -> QueryPlan {
    let pipeline = Pipeline { input: PipelineInput::Source(0), schema: schema(), operators, end };
    QueryPlan { pipelines: vec![pipeline], ..QueryPlan::default() }
}

fn into_sink(operators: Vec<Operator>, names: &[&str]) -> QueryPlan {
    let mut plan = plan(operators, PipelineEnd::Sink(0));
    let fields = names.iter().map(|n| Field::new(*n, DataType::BigInt, true)).collect();
    plan.sinks.push(SinkPlan {
        table: None,
        schema: Schema::new(fields),
        changes: None,
        skip: 0,
        limit: None,
        is_on_every_node: false,
    });
    plan
}

fn check(program: &Program, expected: Expect) {
    expected.assert_eq(&program.to_string());
}

fn check_expression(expr: Expr, expected: Expect) {
    let lowered = lower_expressions("test", &schema(), &[expr]).unwrap();
    check(&lowered.program, expected);
}

/// Conjuncts become separate filters; columns that pass unchanged, nested ones too, bypass the program.
#[test]
fn filter_and_projection() {
    let predicate = Expr::new(
        ExprKind::And(vec![
            compare(CompareOp::Equal, column("channel"), text("view")),
            compare(CompareOp::Greater, column("price"), big(100)),
        ]),
        DataType::Boolean,
        true,
    );
    let doubled = arithmetic(ArithmeticOp::Multiply, column("price"), big(2));
    let columns = vec![column("auction"), doubled, column("extra")];
    let plan = into_sink(vec![Operator::Filter(predicate), Operator::Project(columns)], &["auction", "twice", "extra"]);
    let lowered = lower_pipeline(&plan, 0).unwrap().0.remove(0);
    assert_eq!(lowered.outputs, [OutputSource::Input(0), OutputSource::Emitted(0), OutputSource::Input(4)]);
    check(
        &lowered.program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = valid 2
              v1 = view 2
              v2 = const i128 8603398618688258052
              v3 = eq v1 v2
              v4 = and v0 v3
              filter v4
              v5 = load 1
              v6 = valid 1
              v7 = const i64 100
              v8 = gt v5 v7
              v9 = and v6 v8
              filter v9
              v10 = const i64 2
              v11 = mul v5 v10
              emit twice = v11 if v6
        "#]],
    );
}

/// A projection's expression is computed once, however many operators use it, and not at all when none does.
#[test]
fn projections_are_inlined() {
    let sum = arithmetic(ArithmeticOp::Add, column("auction"), big(1));
    let unused = arithmetic(ArithmeticOp::Divide, column("auction"), big(0));
    let inner = vec![sum, unused, column("channel")];
    let once = Expr::column(0, DataType::BigInt, false);
    let outer =
        vec![arithmetic(ArithmeticOp::Multiply, once.clone(), once.clone()), Expr::column(2, DataType::STRING, true)];
    let operators = vec![
        Operator::Project(inner),
        Operator::Filter(compare(CompareOp::Greater, once, big(10))),
        Operator::Project(outer),
    ];
    let lowered = lower_pipeline(&into_sink(operators, &["square", "channel"]), 0).unwrap().0.remove(0);
    assert_eq!(lowered.outputs, [OutputSource::Emitted(0), OutputSource::Input(2)]);
    check(
        &lowered.program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 0
              v1 = const i64 1
              v2 = add v0 v1
              v3 = const i64 10
              v4 = gt v2 v3
              filter v4
              v5 = mul v2 v2
              emit square = v5
        "#]],
    );
}

/// A NULL event time is an error, a row of a complete window is late, and arguments count under their guards.
#[test]
fn tumbling_aggregation() {
    let updates = vec![
        ComponentUpdate { argument: None, guard: None },
        ComponentUpdate { argument: Some(column("price")), guard: None },
        ComponentUpdate {
            argument: Some(column("channel")),
            guard: Some(compare(CompareOp::Greater, column("price"), big(5))),
        },
    ];
    let end = PipelineEnd::Aggregate {
        aggregation: 0,
        time: Some(column("time")),
        keys: vec![column("auction"), column("channel")],
        updates,
    };
    let mut plan = plan(vec![], end);
    let components = vec![Accumulator::Count, Accumulator::SumI64, Accumulator::MaxStr];
    plan.aggregations.push(Aggregation {
        timeline: Timeline::Own,
        assigner: WindowAssigner::Tumble(Slicing { size_ms: 10_000, offset_ms: 0 }),
        keys: vec![Field::new("auction", DataType::BigInt, false), Field::new("channel", DataType::STRING, true)],
        calls: vec![],
        outputs: ComponentOutput::values(&components, &[DataType::BigInt, DataType::BigInt, DataType::STRING]),
        components,
        shorter: None,
        combination: Combination::Recompute,
    });
    check(
        &lower_pipeline(&plan, 0).unwrap().0.remove(0).program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 3
              v1 = valid 3
              v2 = not v1
              trap v2 null_rowtime
              v3 = slice_start v0 size 10000
              v4 = const i64 9999
              v5 = add v3 v4
              v6 = watermark
              v7 = gt v5 v6
              filter v7 late
              v8 = load 0
              v9 = load 2
              v10 = valid 2
              v11 = load 1
              v12 = valid 1
              v13 = const i64 5
              v14 = gt v11 v13
              v15 = and v12 v14
              v16 = and v15 v10
              update slice v3
                key v8
                key v9 if v10
                count
                sum_i64 v11 if v12
                max_str v9 if v16
        "#]],
    );
}

/// CASE with a division is a branch, so that the division fails only where it is wanted.
#[test]
fn case_is_lazy_where_it_matters() {
    let zero = compare(CompareOp::Equal, column("auction"), big(0));
    let quotient = arithmetic(ArithmeticOp::Divide, column("price"), column("auction"));
    let case =
        |value: Expr| Expr::new(ExprKind::Case(vec![(zero.clone(), big(0))], Box::new(value)), DataType::BigInt, true);
    check_expression(
        case(quotient),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 0
              v1 = const i64 0
              v2 = eq v0 v1
              v3 = const bool true
              v8, v9 = if v2
                give v1, v3
              else
                v4 = load 1
                v5 = valid 1
                v6 = and v5 v2
                trap v6 division_by_zero
                v7 = div v4 v0
                give v7, v5
              emit column0 = v8 if v9
        "#]],
    );
    check_expression(
        case(column("price")),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 0
              v1 = const i64 0
              v2 = eq v0 v1
              v3 = load 1
              v4 = valid 1
              v5 = select v2 v1 v3
              v6 = or v2 v4
              emit column0 = v5 if v6
        "#]],
    );
}

/// The right side of OR with a call is only computed while the result is open; NULL arguments skip the call.
#[test]
fn connectives_and_calls() {
    let upper = Expr::new(ExprKind::Call(RuntimeFn::Upper, vec![column("channel")]), DataType::STRING, true);
    let same = compare(CompareOp::Equal, upper, text("A"));
    let or = ExprKind::Or(vec![compare(CompareOp::Less, column("price"), big(5)), same]);
    check_expression(
        Expr::new(or, DataType::Boolean, true),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 1
              v1 = valid 1
              v2 = const i64 5
              v3 = lt v0 v2
              v4 = and v1 v3
              v5 = not v3
              v6 = and v1 v5
              v7 = not v4
              v8 = const bool false
              v22, v23 = if v7
                v9 = load 2
                v10 = valid 2
                v11 = const str ""
                v12 = const bool false
                v15, v16 = if v10
                  v13, v14 = call upper v9
                  give v13, v14
                else
                  give v11, v12
                v17 = const str "A"
                v18 = eq v15 v17
                v19 = and v16 v18
                v20 = not v18
                v21 = and v16 v20
                give v19, v21
              else
                give v8, v8
              v24 = or v4 v22
              v25 = and v6 v23
              v26 = or v24 v25
              emit column0 = v24 if v26
        "#]],
    );
}

/// Decimals of few digits need no call; a product that may not fit its type becomes NULL.
#[test]
fn decimals() {
    let product = ExprKind::Arithmetic(ArithmeticOp::Multiply, Box::new(column("share")), Box::new(column("share")));
    check_expression(
        Expr::new(product.clone(), DataType::decimal(20, 4), true),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 5
              v1 = valid 5
              v2 = mul v0 v0
              emit column0 = v2 if v1
        "#]],
    );
    check_expression(
        Expr::new(product, DataType::decimal(10, 2), true),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 5
              v1 = valid 5
              v2 = mul v0 v0
              v3 = scale_down v2 2
              v4 = out_of_decimal v3 10
              v5 = not v4
              v6 = and v1 v5
              emit column0 = v3 if v6
        "#]],
    );
}

/// IN over short strings compares views; IS NULL of a nested column asks for its validity only.
#[test]
fn in_list_and_null_tests() {
    let values = vec![Value::String("apple".into()), Value::String("a much longer string".into())];
    check_expression(
        Expr::new(ExprKind::InList(Box::new(column("channel")), values), DataType::Boolean, true),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = load 2
              v1 = valid 2
              v2 = view 2
              v3 = const i128 1870935020360066662405
              v4 = eq v2 v3
              v5 = const str "a much longer string"
              v6 = eq v0 v5
              v7 = or v4 v6
              emit column0 = v7 if v1
        "#]],
    );
    check_expression(
        Expr::new(ExprKind::IsNull(Box::new(column("extra"))), DataType::Boolean, false),
        expect![[r#"
            program "test" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = valid 4
              v1 = not v0
              emit column0 = v1
        "#]],
    );
}

/// NULL in a NOT NULL column of a sink's table is an error of the row.
#[test]
fn sinks_check_not_null() {
    let mut plan = into_sink(vec![Operator::Project(vec![column("price")])], &["price"]);
    let field = Field::new("price", DataType::BigInt, false);
    plan.sinks[0].table = Some(Arc::new(Table {
        name: "t".into(),
        columns: vec![TableColumn { field, kind: ColumnKind::Physical }],
        watermark: None,
        primary_key: vec![],
        options: Options::new(),
    }));
    let program = lower_pipeline(&plan, 0).unwrap().0.remove(0).program;
    assert_eq!(program.sites[0].what, "column price of table t");
    check(
        &program,
        expect![[r#"
            program "pipeline 0" (auction: i64, price: i64?, channel: str?, time: i64?, extra: bool?, share: i128?)
              v0 = valid 1
              v1 = not v0
              trap v1 null_in_not_null
              emit
        "#]],
    );
}

/// Rows can be passed through but not computed with.
#[test]
fn nested_columns_cannot_be_computed_with() {
    let nested = compare(CompareOp::Equal, column("extra"), column("extra"));
    let error = lower_expressions("test", &schema(), &[nested]).unwrap_err();
    assert_eq!(error.code, code::UNSUPPORTED);
    assert!(error.message.contains("column extra"), "{error}");
}

/// Every pair of types that can be cast at all gives a valid program, whose rows fail only for their values.
#[test]
fn casts_of_every_pair_of_types() {
    let types = [
        DataType::Null,
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::decimal(10, 2),
        DataType::decimal(38, 20),
        DataType::STRING,
        DataType::Varchar(3),
        DataType::Char(5),
        DataType::BYTES,
        DataType::Binary(4),
        DataType::Date,
        DataType::Time(0),
        DataType::Timestamp(3),
        DataType::Timestamp(9),
        DataType::TimestampLtz(3),
        DataType::TimestampLtz(6),
        DataType::IntervalMonth,
        DataType::IntervalMilli,
    ];
    let mut random = Random::new(1);
    let mut possible = 0;
    for (from, to) in types.iter().flat_map(|from| types.iter().map(move |to| (from, to))) {
        for lenient in [false, true] {
            let field = Field::new("x", from.clone(), true);
            let schema = Schema::new(vec![field.clone()]);
            let operand = Box::new(Expr::column(0, from.clone(), true));
            let kind = ExprKind::Cast { operand, fallible_to_null: lenient };
            let lowered = match lower_expressions("cast", &schema, &[Expr::new(kind, to.clone(), true)]) {
                Ok(lowered) => lowered,
                Err(e) => {
                    assert_eq!(e.code, code::UNSUPPORTED, "{from} to {to}: {e}");
                    continue;
                }
            };
            possible += 1;
            let columns = [random_column(&mut random, &field, 200)];
            let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
            let functions = &mut FunctionContext::default();
            let emitted = emit(&lowered, &kernel, &columns, 200, &[i64::MIN], functions, &mut |error| {
                let code = error.diagnostic.code;
                assert!(!lenient && [code::INVALID_CAST, code::OVERFLOW].contains(&code), "{from} to {to}: {error:?}");
                Flow::Skip
            });
            assert_eq!(*emitted.unwrap().columns[0].data_type(), to.to_arrow());
        }
    }
    assert!(possible > 400, "{possible} casts are possible");
}
