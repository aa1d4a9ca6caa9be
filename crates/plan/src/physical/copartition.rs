//! Operators that share the partitions of the operator below them: those of a join by `id`, and of groups by `id, category` of its rows.
//!
//! Rows of one partition of the operator below belong to one partition here if the hash is that of the same values. Then a buffer
//! goes to its partition as it is: its rows are not split, and not copied. The keys that choose the partition are some of
//! those that the operator has, so equal keys still meet.
//!
//! Only between operators that end beats: what is kept of others is older than this rule, and their programs stay as they are.

use crate::expr::{Expr, ExprKind};
use crate::pipeline::{KeyedOperator, Operator, Pipeline, PipelineEnd, PipelineInput};

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
        let mut kept = pipelines.iter().filter(ends_here).map(|pipeline| self.kept(pipeline));
        let by = kept.next().flatten().filter(|first| kept.all(|other| other.as_ref() == Some(first)));
        drop(kept);
        let operator = &mut self.operators[operator];
        operator.partitioned_by = by.filter(|by| !by.iter().copied().eq(0..operator.keys.len()));
    }

    /// Which keys of the operator that a pipeline ends in are, in their order, those that partition the one that it begins at.
    fn kept(&self, pipeline: &Pipeline) -> Option<Vec<usize>> {
        let (PipelineInput::Operator(below), PipelineEnd::Exchange { operator, port }) =
            (pipeline.input, &pipeline.end)
        else {
            return None;
        };
        let below = &self.operators[below];
        let kind = below.kind.keyed();
        // Rows without a partner on the left have no key there: they would all meet in one partition.
        if kind.pairs().is_some_and(|(kind, _)| kind.left_is_optional()) {
            return None;
        }
        // Where the columns that arrive come from.
        let mut columns: Vec<Option<usize>> = (0..below.output.fields.len()).map(Some).collect();
        for operator in &pipeline.operators {
            match operator {
                // Those of a flat map come behind the others.
                Operator::Filter(_) | Operator::FlatMap(_) => {}
                Operator::Project(exprs) => {
                    let from = |e: &Expr| match e.kind {
                        ExprKind::Column(i) => columns.get(i).copied().flatten(),
                        _ => None,
                    };
                    columns = exprs.iter().map(from).collect();
                }
            }
        }
        let place = |key: usize| if kind.shows_keys() { key } else { below.inputs[0].keys[key] };
        let keys = &self.operators[*operator].inputs[*port].keys;
        let same = |key: usize| keys.iter().position(|&k| columns.get(k).copied().flatten() == Some(place(key)));
        let kept: Option<Vec<usize>> = below.partition_keys().into_iter().map(same).collect();
        kept.filter(|kept| !kept.is_empty())
    }
}
