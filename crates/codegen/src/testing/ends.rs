//! Random ends of pipelines.

use super::{Expressions, Random};
use millstream_abi::{Accumulator, ObjectKind, Phys};
use millstream_plan::expr::Expr;
use millstream_plan::pipeline::{
    Aggregation, Combination, ComponentOutput, ComponentUpdate, KeyedInput, KeyedKind, KeyedOperator, Operator,
    PipelineEnd, QueryPlan, Sessions, SinkPlan,
};
use millstream_plan::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_types::text::zone::Zone;
use millstream_types::{DataType, Field, Schema};

/// Ends the pipeline in a sink for rows, behind a last projection.
pub(super) fn sink(
    random: &mut Random,
    current: &mut Schema,
    operators: &mut Vec<Operator>,
    plan: &mut QueryPlan,
) -> PipelineEnd {
    let count = 1 + random.below(5);
    let mut made = Expressions::new(random, current);
    let exprs: Vec<Expr> = (0..count).map(|_| made.any(4)).collect();
    let field = |(i, e): (usize, &Expr)| Field::new(format!("out{i}"), e.data_type.clone(), e.nullable);
    let schema = Schema::new(exprs.iter().enumerate().map(field).collect());
    operators.push(Operator::Project(exprs));
    plan.sinks.push(SinkPlan { table: None, schema, changes: None, skip: 0, limit: None, is_on_every_node: false });
    PipelineEnd::Sink(0)
}

/// Ends the pipeline in an aggregation.
pub(super) fn aggregate(random: &mut Random, current: &Schema, plan: &mut QueryPlan) -> PipelineEnd {
    use Accumulator::{self as A, Object as object};
    use ObjectKind::{Bag, Distinct, First, Last, List, Quantiles};
    let assigner = assigner(random);
    let mut made = Expressions::new(random, current);
    let keys: Vec<Expr> = (0..made.random().below(4)).map(|_| made.any(1)).collect();
    let (mut updates, mut components, mut component_types) = (vec![], vec![], vec![]);
    for _ in 0..made.random().below(5) {
        let (accumulator, data_type) = made
            .random()
            .pick(&[
                (A::Count, DataType::STRING),
                (A::SumI64, DataType::BigInt),
                (A::SumI64, DataType::TinyInt),
                (A::SumI128, DataType::decimal(10, 2)),
                (A::SumF64, DataType::Double),
                (A::SumF64, DataType::Float),
                (A::MinI64, DataType::Int),
                (A::MaxI64, DataType::Timestamp(3)),
                (A::MinI128, DataType::decimal(10, 2)),
                (A::MaxI128, DataType::decimal(10, 2)),
                (A::MinF64, DataType::Double),
                (A::MaxF64, DataType::Float),
                (A::MinStr, DataType::STRING),
                (A::MaxStr, DataType::STRING),
                (object(List { keeps_nulls: true }, Phys::Str), DataType::STRING),
                (object(List { keeps_nulls: true }, Phys::I64), DataType::SmallInt),
                (object(List { keeps_nulls: false }, Phys::I128), DataType::decimal(10, 2)),
                (object(Bag, Phys::I64), DataType::BigInt),
                (object(Bag, Phys::F64), DataType::Double),
                (object(Bag, Phys::Str), DataType::STRING),
                (object(Distinct, Phys::F64), DataType::Float),
                (object(First, Phys::Bool), DataType::Boolean),
                (object(Last, Phys::I64), DataType::Timestamp(3)),
                (object(Quantiles, Phys::F64), DataType::Double),
            ])
            .clone();
        let bare = accumulator == A::Count && made.random().chance(2);
        let argument = (!bare).then(|| made.of(&data_type, 2));
        let guard = made.random().chance(3).then(|| made.of(&DataType::Boolean, 2));
        updates.push(ComponentUpdate { argument, guard });
        components.push(accumulator);
        component_types.push(if accumulator == A::Count { DataType::BigInt } else { data_type });
    }
    let time = assigner.has_window().then(|| made.of(&DataType::Timestamp(3), 1));
    let key_fields = keys.iter().enumerate();
    let keys_out = key_fields.map(|(i, e)| Field::new(format!("k{i}"), e.data_type.clone(), e.nullable)).collect();
    let outputs = ComponentOutput::values(&components, &component_types);
    let combination = Combination::Recompute;
    let timeline = timeline(random);
    plan.aggregations.push(Aggregation {
        assigner,
        timeline,
        keys: keys_out,
        components,
        outputs,
        calls: vec![],
        shorter: None,
        combination,
    });
    PipelineEnd::Aggregate { aggregation: 0, time, keys, updates }
}

/// Calls, or not, what makes local time of watermarks; it is that of UTC in tests.
fn timeline(random: &mut Random) -> Timeline {
    if random.chance(3) { Timeline::Local(Zone::UTC) } else { Timeline::Own }
}

fn assigner(random: &mut Random) -> WindowAssigner {
    match random.below(5) {
        0 => WindowAssigner::Whole,
        1 => WindowAssigner::Attached,
        2 => {
            let size_ms = 1 + random.below(500) as i64;
            WindowAssigner::Tumble(Slicing { size_ms, offset_ms: random.below(size_ms as u64) as i64 })
        }
        _ => WindowAssigner::Overlap(random_overlap(random)),
    }
}

/// Overlapping windows of up to about a second.
pub fn random_overlap(random: &mut Random) -> Overlap {
    let mut length = |most: u64| match random.below(4) {
        0 => 100,
        _ => 1 + random.below(most) as i64,
    };
    let (long, short, steps) = (length(500), length(300), length(8) % 8 + 1);
    let offset = random.bits();
    match random.below(4) {
        0 => {
            let size_ms = short * steps;
            Overlap::Cumulate { size_ms, step_ms: short, offset_ms: (offset % size_ms as u64) as i64 }
        }
        1 => Overlap::Hop { size_ms: short * steps, slide_ms: short, offset_ms: (offset % short as u64) as i64 },
        _ => Overlap::Hop { size_ms: long, slide_ms: short, offset_ms: (offset % short as u64) as i64 },
    }
}

/// Ends the pipeline in an operator with random keys.
pub(super) fn exchange(random: &mut Random, current: &Schema, plan: &mut QueryPlan) -> PipelineEnd {
    let columns = current.fields.len() as u64;
    let keys: Vec<usize> = (0..random.below(4)).map(|_| random.below(columns) as usize).collect();
    let times = current.fields.iter().enumerate().filter(|(_, f)| f.data_type == DataType::Timestamp(3));
    let time = times.map(|(i, _)| i).next();
    let reach_ms = time.filter(|_| random.chance(2)).map(|_| match random.below(6) {
        0 => i64::MAX,
        1 => 0,
        _ => random.below(1_000) as i64 - 500,
    });
    let field = |&key: &usize| current.fields[key].clone();
    let mut fields: Vec<Field> = keys.iter().map(field).collect();
    fields.iter_mut().for_each(|f| f.nullable |= random.chance(3));
    let timeline = timeline(random);
    plan.operators.push(KeyedOperator {
        partitioned_by: None,
        kind: KeyedKind::Sessions(Sessions { gap_ms: 1, aggregates: None }),
        timeline,
        inputs: vec![KeyedInput { schema: current.clone(), keys, time, reach_ms, leading: None }],
        keys: fields,
        output: Schema::default(),
    });
    PipelineEnd::Exchange { operator: 0, port: 0 }
}
