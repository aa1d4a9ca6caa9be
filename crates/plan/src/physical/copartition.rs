//! Operators that share the partitions of the operator below them: those of a join by `id`, and of groups by `id, category` of its rows.
//!
//! Rows of one partition of the operator below belong to one partition here if the hash is that of the same values. Then a buffer
//! goes to its partition as it is: its rows are not split, and not copied. The keys that choose the partition are some of
//! those that the operator has, so equal keys still meet.
//!
//! The keys are chosen so only between operators that end beats: what is kept of others is older than this rule, and their programs stay
//! as they are.
//!
//! Whether partitions are the same is asked of all, in order that no row is sent to another node for nothing ([`stays`]). Of a windowed
//! aggregation and a keyed operator they never are: tables have another number of partitions, and those of integers go by blocks of keys.

use crate::expr::{Expr, ExprKind};
use crate::pipeline::{Aggregation, KeyedOperator, Operator, Pipeline, PipelineEnd, PipelineInput, QueryPlan};

/// Chooses the keys that partition each operator.
pub(super) fn share_partitions(operators: &mut [KeyedOperator], pipelines: &[Pipeline]) {
    let mut sharing = Sharing { is_decided: vec![false; operators.len()], operators, pipelines };
    (0..sharing.operators.len()).for_each(|operator| sharing.decide(operator));
}

struct Sharing<'a> {
    operators: &'a mut [KeyedOperator],
    pipelines: &'a [Pipeline],
    is_decided: Vec<bool>,
}

impl Sharing<'_> {
    /// After those below it.
    #[recursive::recursive]
    fn decide(&mut self, operator: usize) {
        if std::mem::replace(&mut self.is_decided[operator], true) {
            return;
        }
        let pipelines = self.pipelines;
        let ends_here =
            |pipeline: &&Pipeline| matches!(pipeline.end, PipelineEnd::Exchange { operator: o, .. } if o == operator);
        for pipeline in pipelines.iter().filter(ends_here) {
            if let PipelineInput::Operator(below) = pipeline.input {
                self.decide(below);
            }
        }
        if !self.operators[operator].kind.keyed().ends_beats() {
            return;
        }
        let mut kept = pipelines.iter().filter(ends_here).map(|pipeline| kept_keys(self.operators, pipeline));
        let by = kept.next().flatten().filter(|first| !first.is_empty());
        let by = by.filter(|first| kept.all(|other| other.as_ref() == Some(first)));
        drop(kept);
        let operator = &mut self.operators[operator];
        operator.partitioned_by = by.filter(|by| !by.iter().copied().eq(0..operator.keys.len()));
    }
}

/// Where the columns that arrive at the end of a pipeline come from, of `width` that it begins with: those that it only passes on.
fn origins(pipeline: &Pipeline, width: usize) -> Vec<Option<usize>> {
    let mut columns: Vec<Option<usize>> = (0..width).map(Some).collect();
    for operator in &pipeline.operators {
        match operator {
            // Those of a flat map come behind the others.
            Operator::Filter(_) | Operator::FlatMap(_) => {}
            Operator::Project(exprs) => columns = exprs.iter().map(|expr| origin(expr, &columns)).collect(),
        }
    }
    columns
}

/// Which column an expression is, where those that it is over come from elsewhere.
fn origin(expr: &Expr, columns: &[Option<usize>]) -> Option<usize> {
    match expr.kind {
        ExprKind::Column(column) => columns.get(column).copied().flatten(),
        _ => None,
    }
}

/// Which keys of the operator that a pipeline ends in are, in their order, those that partition the one that it begins at.
fn kept_keys(operators: &[KeyedOperator], pipeline: &Pipeline) -> Option<Vec<usize>> {
    let (PipelineInput::Operator(below), &PipelineEnd::Exchange { operator, port }) = (pipeline.input, &pipeline.end)
    else {
        return None;
    };
    let below = &operators[below];
    let kind = below.kind.keyed();
    // Rows without a partner on the left have no key there: they would all meet in one partition.
    if kind.pairs().is_some_and(|(kind, _)| kind.left_is_optional()) {
        return None;
    }
    let columns = origins(pipeline, below.output.fields.len());
    let place = |key: usize| if kind.shows_keys() { key } else { below.inputs[0].keys[key] };
    let keys = &operators[operator].inputs[port].keys;
    let same = |key: usize| keys.iter().position(|&k| columns.get(k).copied().flatten() == Some(place(key)));
    below.partition_keys().into_iter().map(same).collect()
}

/// Whether the rows of a pipeline belong to the partition that they come from.
pub(super) fn stays(plan: &QueryPlan, pipeline: &Pipeline) -> bool {
    match (pipeline.input, &pipeline.end) {
        (PipelineInput::Operator(_), PipelineEnd::Exchange { operator, .. }) => {
            kept_keys(&plan.operators, pipeline) == Some(plan.operators[*operator].partition_keys())
        }
        (PipelineInput::Aggregation(below), PipelineEnd::Aggregate { aggregation, keys, .. }) => {
            let (below, above) = (&plan.aggregations[below], &plan.aggregations[*aggregation]);
            let columns = origins(pipeline, below.output_schema().fields.len());
            let are_same = keys.iter().map(|key| origin(key, &columns)).eq((0..below.keys.len()).map(Some));
            // Of nothing there may be a group without rows.
            are_same && !keys.is_empty() && are_parted_alike(below, above)
        }
        _ => false,
    }
}

/// Whether the tables of two aggregations by the same keys have these in the same partitions: it depends on whether they can be arrays.
fn are_parted_alike(a: &Aggregation, b: &Aggregation) -> bool {
    let are_numbers = |of: &Aggregation| of.components.iter().all(|component| component.is_number());
    let types = |of: &Aggregation| of.keys.iter().map(|key| key.data_type.clone()).collect::<Vec<_>>();
    types(a) == types(b) && are_numbers(a) == are_numbers(b)
}
