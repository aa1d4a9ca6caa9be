//! Late rows: a separate branch into the table that `'late.table'` names.
//!
//! The branch repeats the operators up to the windows, keeps the rows that are late under the watermark before them, which
//! is what the windows drop, and shows them as the source's table does. Rows of sessions cannot be told to be late
//! without the state of their key, and rows that a flat map has repeated have no row of the table: neither is routed.

use super::Planner;
use super::branch::Branch;
use super::expressions::expand_computed;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::logical::Table;
use crate::pipeline::*;
use crate::window::{Overlap, Slicing, Timeline, WindowAssigner};
use millstream_abi::RuntimeFn;
use millstream_types::{DataType, Schema};
use std::sync::Arc;

/// Whether a row is late for windows over `time`; `None` where no row can be.
pub(super) fn of_slices(assigner: WindowAssigner, time: &Expr, timeline: Timeline) -> Option<Expr> {
    let (slicing, length_ms) = match assigner {
        WindowAssigner::Tumble(slicing) => (slicing, slicing.size_ms),
        WindowAssigner::Overlap(Overlap::Hop { size_ms, slide_ms, offset_ms }) => {
            (Slicing { size_ms: slide_ms, offset_ms }, size_ms)
        }
        WindowAssigner::Overlap(Overlap::Cumulate { size_ms, offset_ms, .. }) => {
            (Slicing { size_ms, offset_ms }, size_ms)
        }
        WindowAssigner::Attached => return of_rows(time, timeline, 0),
        WindowAssigner::Session { .. }
        | WindowAssigner::Count { .. }
        | WindowAssigner::Unbounded { .. }
        | WindowAssigner::Whole => return None,
    };
    let start = ExprKind::WindowStart(Box::new(time.clone()), slicing);
    let start = Expr::new(start, time.data_type.clone(), time.nullable);
    let last = start.plus_ms(length_ms - 1);
    let late = compare(CompareOp::LessEqual, last.clone(), watermark(time, timeline));
    // With a slide longer than the size some rows lie in no window: they are not late.
    let inside = compare(CompareOp::LessEqual, time.clone(), last);
    Some(Expr::new(ExprKind::And(vec![late, inside]), DataType::Boolean, true))
}

/// Whether a row is late whose last partner can come `reach_ms` after it.
pub(super) fn of_rows(time: &Expr, timeline: Timeline, reach_ms: i64) -> Option<Expr> {
    Some(compare(CompareOp::LessEqual, time.clone().plus_ms(reach_ms), watermark(time, timeline)))
}

fn watermark(time: &Expr, timeline: Timeline) -> Expr {
    let watermark = |data_type| Expr::new(ExprKind::CurrentWatermark, data_type, true);
    match timeline {
        Timeline::Own => watermark(time.data_type.clone()),
        Timeline::Local(_) => {
            let call = ExprKind::Call(RuntimeFn::LocalWatermark, vec![watermark(DataType::TimestampLtz(3))]);
            Expr::new(call, time.data_type.clone(), true)
        }
    }
}

fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    Expr::new(ExprKind::Compare(op, Box::new(a), Box::new(b)), DataType::Boolean, true)
}

impl Planner {
    /// Adds the branch of the rows that are late for what `branch` ends in. `late` is over the columns after the branch's
    /// operators.
    pub(super) fn route_late(&mut self, branch: &Branch, late: Option<Expr>) {
        let (PipelineInput::Source(source), Some(late)) = (branch.input, late) else { return };
        let source = &self.sources[source];
        let (Some(from), Some(into)) = (source.table().cloned(), source.late.clone()) else { return };
        let mut shown = expand_computed(&from);
        let mut operators = Vec::with_capacity(branch.operators.len());
        for operator in &branch.operators {
            operators.push(match operator {
                Operator::Filter(predicate) => Operator::Filter(predicate.clone()),
                Operator::Project(columns) => {
                    // The table's columns go along behind those of the branch.
                    let width = columns.len();
                    let kept = columns.iter().chain(&shown).cloned().collect();
                    let place = |(i, e): (usize, &Expr)| Expr::column(width + i, e.data_type.clone(), e.nullable);
                    shown = shown.iter().enumerate().map(place).collect();
                    Operator::Project(kept)
                }
                Operator::FlatMap(_) => return,
            });
        }
        operators.push(Operator::Filter(late));
        operators.push(Operator::Project(shown));
        let end = PipelineEnd::Sink(self.late_sink(&into));
        self.pipelines.push(Pipeline { input: branch.input, schema: Schema::default(), operators, end });
    }

    /// The sink of a table of late rows: one, however many windows find rows late.
    fn late_sink(&mut self, into: &Arc<Table>) -> usize {
        if let Some((_, sink)) = self.late_sinks.iter().find(|(table, _)| table == into) {
            return *sink;
        }
        self.sinks.push(SinkPlan {
            table: Some(into.clone()),
            schema: into.written(),
            changes: None,
            skip: 0,
            limit: None,
            is_on_every_node: false,
        });
        self.late_sinks.push((into.clone(), self.sinks.len() - 1));
        self.sinks.len() - 1
    }
}
