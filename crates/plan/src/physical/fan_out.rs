//! UNION ALL of queries over one common relation.
//!
//! As branches they would multiply: sixteen relations that each unite the one before with itself have 65,536. Instead each branch of
//! the common relation repeats its rows, once for each input of the union, and what the inputs do differently is chosen by the number
//! of the repetition. Inputs that do the same are repetitions without a number.

use super::branch::{Branch, is_inlined};
use super::expressions::{columns_of, same_computation};
use crate::common::Common;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::logical::Rel;
use crate::pipeline::{FlatMap, Operator, Repeat};
use millstream_types::{DataType, Field, Value};
use std::sync::Arc;

/// What a chain of filters and projections does with the rows of a common relation.
pub(super) struct Path<'a> {
    pub(super) common: &'a Arc<Common>,
    /// Over the columns of the common relation; `None`: it keeps all rows.
    predicate: Option<Expr>,
    columns: Vec<Expr>,
}

impl<'a> Path<'a> {
    /// `None` for relations that are not such a chain, or whose expressions are better computed one after the other.
    #[recursive::recursive]
    pub(super) fn of(rel: &'a Rel) -> Option<Path<'a>> {
        let path = match rel {
            Rel::Common(common) => Path { common, predicate: None, columns: columns_of(common.schema()) },
            Rel::Filter { input, predicate } => {
                let below = Path::of(input)?;
                let more = predicate.clone().substitute(&below.columns);
                let predicate = match below.predicate {
                    Some(before) => Expr::all(vec![before, more]),
                    None => more,
                };
                Path { predicate: Some(predicate), ..below }
            }
            Rel::Project { input, columns } => {
                let below = Path::of(input)?;
                Path { columns: columns.iter().map(|(e, _)| e.clone().substitute(&below.columns)).collect(), ..below }
            }
            _ => return None,
        };
        path.columns.iter().chain(&path.predicate).all(is_inlined).then_some(path)
    }

    fn does_the_same_as(&self, other: &Path<'_>) -> bool {
        let predicates = match (&self.predicate, &other.predicate) {
            (Some(a), Some(b)) => same_computation(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        predicates && self.columns.iter().zip(&other.columns).all(|(a, b)| same_computation(a, b))
    }
}

impl Branch {
    /// The rows of all `paths` over the relation that this is a branch of.
    pub(super) fn fan_out(&mut self, paths: &[Path<'_>]) {
        let [first, others @ ..] = paths else { return };
        if others.iter().all(|other| other.does_the_same_as(first)) {
            self.repeat(paths.len() as u64);
            first.predicate.iter().for_each(|predicate| self.filter(predicate));
            self.project(first.columns.iter());
            return;
        }
        let number = Expr::column(self.columns.len(), DataType::BigInt, false);
        let appended = vec![Field::new("number", DataType::BigInt, false)];
        self.flat_map(appended, |_| FlatMap::Repeat(Repeat { times: paths.len() as u64, numbered: true }));
        if paths.iter().any(|path| path.predicate.is_some()) {
            let predicates = paths.iter().map(|path| path.predicate.clone().unwrap_or_else(|| Expr::boolean(true)));
            self.filter(&chosen(&number, predicates.collect()));
        }
        let column = |i: usize| chosen(&number, paths.iter().map(|path| path.columns[i].clone()).collect());
        let columns: Vec<Expr> = (0..first.columns.len()).map(column).collect();
        self.project(columns.iter());
    }

    /// Each row `times` times.
    fn repeat(&mut self, times: u64) {
        if let Some(Operator::FlatMap(FlatMap::Repeat(Repeat { times: before, numbered: false }))) =
            self.operators.last_mut()
            && let Some(all) = before.checked_mul(times)
        {
            *before = all;
            return;
        }
        self.flat_map(vec![], |_| FlatMap::Repeat(Repeat { times, numbered: false }));
    }
}

/// The value that belongs to a number from 0.
fn chosen(number: &Expr, mut values: Vec<Expr>) -> Expr {
    let nullable = values.iter().any(|e| e.nullable);
    match values.pop() {
        Some(last) if values.iter().all(|e| same_computation(e, &last)) => last,
        Some(last) => {
            let data_type = last.data_type.clone();
            let is = |n: i64| {
                Expr::compare(CompareOp::Equal, number.clone(), Expr::literal(Value::Int(n), DataType::BigInt))
            };
            let cases = (0..).zip(values).map(|(n, value)| (is(n), value)).collect();
            Expr::new(ExprKind::Case(cases, Box::new(last)), data_type, nullable)
        }
        None => Expr::boolean(false),
    }
}
