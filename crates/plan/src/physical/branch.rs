//! Branches: chains of fused operators that have not ended yet.

use super::expressions::columns_from;
use crate::expr::{Expr, ExprKind};
use crate::operators::filter::conjuncts;
use crate::pipeline::{FlatMap, Operator, PipelineInput, Windows};
use crate::window::Overlap;
use millstream_types::{DataType, Field, Value};

/// Nodes of an expression beyond which a projection is computed once instead of inlined again.
const INLINE_NODES: usize = 500;

/// A chain that has not ended yet.
#[derive(Debug, Clone)]
pub(super) struct Branch {
    pub(super) input: PipelineInput,
    pub(super) operators: Vec<Operator>,
    /// Output columns over the columns after `operators`.
    pub(super) columns: Vec<Expr>,
    /// Over the same columns: whether a row comes (1) or is taken back (-1), a TINYINT; `None` where rows only come.
    pub(super) weight: Option<Expr>,
}

impl Branch {
    /// Begins at an input, of whose columns these are made.
    pub(super) fn new(input: PipelineInput, columns: Vec<Expr>) -> Branch {
        Branch { input, operators: vec![], columns, weight: None }
    }

    pub(super) fn filter(&mut self, predicate: &Expr) {
        self.settle();
        let predicate = predicate.clone().substitute(&self.columns);
        let conditions =
            conjuncts(&predicate).into_iter().filter(|e| e.kind != ExprKind::Literal(Value::Boolean(true)));
        self.operators.extend(conditions.cloned().map(Operator::Filter));
    }

    pub(super) fn project<'a>(&mut self, columns: impl Iterator<Item = &'a Expr>) {
        self.settle();
        self.columns = columns.map(|e| e.clone().substitute(&self.columns)).collect();
    }

    /// Keeps the columns as a separate projection when inlining them would copy too much, or would call RAND() once for
    /// every use instead of once a row.
    pub(super) fn settle(&mut self) {
        if !self.columns.iter().all(is_inlined) {
            self.keep();
        }
    }

    /// Keeps the columns as a separate projection.
    fn keep(&mut self) {
        let mut inner = std::mem::take(&mut self.columns);
        self.columns =
            inner.iter().enumerate().map(|(i, e)| Expr::column(i, e.data_type.clone(), e.nullable)).collect();
        if let Some(weight) = &mut self.weight {
            let column = Expr::column(inner.len(), weight.data_type.clone(), false);
            inner.push(std::mem::replace(weight, column));
        }
        self.operators.push(Operator::Project(inner));
    }

    /// Ends a stage: `make` gets a function that puts an expression over the branch's columns into the flat map.
    pub(super) fn flat_map(&mut self, appended: Vec<Field>, make: impl FnOnce(&dyn Fn(&Expr) -> Expr) -> FlatMap) {
        self.keep();
        let flat_map = make(&|e| e.clone().substitute(&self.columns));
        let width = self.columns.len() + usize::from(self.weight.is_some());
        self.columns.extend(columns_from(width, &appended));
        self.operators.push(Operator::FlatMap(flat_map));
    }

    /// Whether an expression over the columns after the operators comes from `PROCTIME()`.
    pub(super) fn reads_processing_time(&self, mut expr: Expr) -> bool {
        let mut end = self.operators.len();
        loop {
            let (mut found, mut last) = (false, None);
            expr.walk(&mut |e| match e.kind {
                ExprKind::ProcessingTime => found = true,
                ExprKind::Column(i) => last = last.max(Some(i)),
                _ => {}
            });
            let below = self.operators[..end].iter().rposition(|o| matches!(o, Operator::Project(_)));
            let (false, Some(last), Some(below)) = (found, last, below) else { return found };
            let Operator::Project(columns) = &self.operators[below] else { return found };
            if last >= columns.len() {
                // Made by a flat map.
                return false;
            }
            expr = expr.substitute(columns);
            end = below;
        }
    }

    /// A row for each of its windows.
    pub(super) fn windows(&mut self, windows: Overlap, time: &Expr) {
        let width = self.columns.len();
        let bounds = vec![Field::new("window", time.data_type.clone(), false); 3];
        self.flat_map(bounds, |over| FlatMap::Windows(Windows { windows, time: over(time) }));
        // Of the session's zone, if that is UTC: other windows over TIMESTAMP_LTZ are of local time.
        for bound in &mut self.columns[width..width + 2] {
            *bound = bound.clone().cast_to(DataType::Timestamp(3));
        }
    }
}

/// Whether an expression is computed where it is used, however often that is.
pub(super) fn is_inlined(expr: &Expr) -> bool {
    expr.size() <= INLINE_NODES && expr.is_deterministic()
}
