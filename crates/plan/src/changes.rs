//! Which relations change: of an *append-only* one rows only come, of others they are taken back, too.
//!
//! | relation | rows are taken back | tells rows apart at any moment |
//! | --- | --- | --- |
//! | scan, constant rows | never | |
//! | filter | if they are below | what does below |
//! | projection | if they are below | what does below, if all of it is kept |
//! | groups of all rows so far | always; without aggregates (DISTINCT) if they are below | the keys of the groups |
//! | groups of windows | never: they are final when the watermark has passed | |
//! | UNION ALL, UNNEST | if they are below | nothing |
//! | join with a bounded table | if they are on the left | what does there, if rows of the left come once |
//!
//! All other operators take appended rows only: [`check`] says which one got others.

use crate::aggregate::AggregateCall;
use crate::common::Common;
use crate::explain::Shown;
use crate::expr::{Expr, ExprKind, Span};
use crate::logical::{JoinKind, JoinStrategy, Rel};
use crate::window::WindowAssigner;
use millstream_types::{DataType, Schema};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What is known of a relation that changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changing {
    /// Sets of columns each of which tells its rows apart at any moment. The empty set says that there is one row at most.
    pub keys: Vec<Vec<usize>>,
}

impl Changing {
    /// The smallest set of columns that tells rows apart.
    pub fn key(&self) -> Option<&[usize]> {
        self.keys.iter().min_by_key(|key| key.len()).map(Vec::as_slice)
    }

    /// Whether no two rows have the same values in these columns at any moment.
    pub fn is_unique(&self, columns: &[usize]) -> bool {
        self.keys.iter().any(|key| key.iter().all(|column| columns.contains(column)))
    }
}

/// What is known of how a relation changes; `None`: rows only come.
pub fn changing(rel: &Rel) -> Option<Changing> {
    ChangesWalk::default().changing(rel)
}

/// What is known of common relations, which many places may name.
#[derive(Default)]
struct ChangesWalk {
    known: HashMap<*const Common, Option<Changing>>,
    checked: HashSet<*const Common>,
}

impl ChangesWalk {
    #[recursive::recursive]
    fn changing(&mut self, rel: &Rel) -> Option<Changing> {
        match rel {
            Rel::Scan { .. } | Rel::Values { .. } => None,
            Rel::Filter { input, .. } | Rel::Limit { input, .. } | Rel::Sort { input, .. } => self.changing(input),
            Rel::Common(common) => {
                let place = Arc::as_ptr(common);
                if let Some(known) = self.known.get(&place) {
                    return known.clone();
                }
                let found = self.changing(common.rel());
                self.known.insert(place, found.clone());
                found
            }
            Rel::Project { input, columns } => {
                let below = self.changing(input)?;
                let place = |column: &usize| columns.iter().position(|(e, _)| is_injective(e, *column));
                let keys = below.keys.iter().filter_map(|key| key.iter().map(place).collect());
                Some(Changing { keys: keys.collect() })
            }
            // A row that is there stays, however many equal ones follow.
            Rel::Aggregate { input, window, keys, aggregates }
                if window.assigner == WindowAssigner::Unbounded && aggregates.is_empty() && !keys.is_empty() =>
            {
                let key = || Changing { keys: vec![(0..keys.len()).collect()] };
                self.changing(input).map(|_| key())
            }
            Rel::Aggregate { window, keys, .. } if window.assigner == WindowAssigner::Unbounded => {
                Some(Changing { keys: vec![(0..keys.len()).collect()] })
            }
            Rel::Union { inputs } => inputs.iter().any(|input| self.changing(input).is_some()).then(Changing::default),
            Rel::Unnest { input, .. } => self.changing(input).map(|_| Changing::default()),
            Rel::Join { left, kind, strategy: JoinStrategy::Lookup, .. } => {
                let left = self.changing(left)?;
                let once = matches!(kind, JoinKind::Semi | JoinKind::Anti);
                Some(if once { left } else { Changing::default() })
            }
            Rel::Windowed { .. } | Rel::Aggregate { .. } | Rel::Join { .. } | Rel::Rank { .. } | Rel::Over { .. } => {
                None
            }
        }
    }

    #[recursive::recursive]
    fn check(&mut self, rel: &Rel) -> Result<(), Refused> {
        if let Rel::Common(common) = rel {
            return if self.checked.insert(Arc::as_ptr(common)) { self.check(common.rel()) } else { Ok(()) };
        }
        let inputs = rel.inputs();
        inputs.iter().try_for_each(|input| self.check(input))?;
        let changes: Vec<bool> = inputs.iter().map(|input| self.changing(input).is_some()).collect();
        if !changes.contains(&true) {
            return Ok(());
        }
        let operator = match rel {
            Rel::Scan { .. } | Rel::Values { .. } | Rel::Common(_) => return Ok(()),
            Rel::Filter { .. } | Rel::Project { .. } | Rel::Union { .. } | Rel::Unnest { .. } => None,
            Rel::Aggregate { window, .. } if window.assigner == WindowAssigner::Unbounded => None,
            Rel::Aggregate { .. } => Some("an aggregation of windows"),
            Rel::Windowed { .. } => Some("a window table function"),
            Rel::Join { strategy: JoinStrategy::Lookup, .. } if !changes[1] => None,
            Rel::Join { .. } => Some("a join"),
            Rel::Rank { .. } => Some("a ranking"),
            Rel::Over { .. } => Some("an OVER aggregate"),
            Rel::Limit { .. } => Some("LIMIT"),
            Rel::Sort { .. } => Some("ORDER BY"),
        };
        let expressions = expressions_of(rel);
        match operator {
            Some(operator) => {
                let at = expressions.iter().map(|e| e.span).find(|span| *span != Span::default()).unwrap_or_default();
                Err(Refused::Changes { operator, at })
            }
            None => {
                let below = Schema::new(inputs.iter().flat_map(|input| input.schema().fields).collect());
                match expressions.iter().find_map(|expr| unstable(expr)) {
                    Some(call) => Err(Refused::Unstable { call: Shown(call, &below).to_string(), at: call.span }),
                    None => Ok(()),
                }
            }
        }
    }
}

/// The first part of an expression that gives another value each time.
fn unstable(expr: &Expr) -> Option<&Expr> {
    let is_unstable = match &expr.kind {
        ExprKind::Call(function, _) => !function.is_deterministic(),
        ExprKind::Vector(function, _) => !function.0.is_deterministic(),
        ExprKind::ProcessingTime | ExprKind::CurrentWatermark => true,
        _ => false,
    };
    if is_unstable { Some(expr) } else { expr.children().into_iter().find_map(unstable) }
}

/// The expressions of an operator over the columns of its inputs, those with a place of their own first.
fn expressions_of(rel: &Rel) -> Vec<&Expr> {
    fn of_calls(calls: &[(AggregateCall, String)]) -> impl Iterator<Item = &Expr> {
        calls.iter().flat_map(|(call, _)| call.expressions())
    }
    match rel {
        Rel::Scan { .. } | Rel::Values { .. } | Rel::Union { .. } | Rel::Limit { .. } | Rel::Common(_) => vec![],
        Rel::Filter { predicate, .. } => vec![predicate],
        Rel::Project { columns, .. } => columns.iter().map(|(e, _)| e).collect(),
        Rel::Windowed { time, partition, .. } => [time].into_iter().chain(partition).collect(),
        Rel::Aggregate { window, keys, aggregates, .. } => {
            let keys = keys.iter().map(|(e, _)| e).chain(window.time.iter().chain(&window.start));
            keys.chain(of_calls(aggregates)).collect()
        }
        Rel::Join { keys, residual, .. } => keys.iter().flat_map(|(l, r)| [l, r]).chain(residual).collect(),
        Rel::Rank { partition, order, .. } => order.iter().map(|key| &key.expr).chain(partition).collect(),
        Rel::Over { time, partition, aggregates, .. } => {
            partition.iter().chain(time).chain(of_calls(aggregates)).collect()
        }
        Rel::Sort { keys, .. } => keys.iter().map(|key| &key.expr).collect(),
        Rel::Unnest { collection, .. } => vec![collection],
    }
}

/// Whether an expression has another value for each value of a column.
fn is_injective(expr: &Expr, column: usize) -> bool {
    match &expr.kind {
        ExprKind::Column(i) => *i == column,
        ExprKind::Cast { operand, .. } => {
            let widens = match (&operand.data_type, &expr.data_type) {
                (from, into) if from.is_integer() && into.is_integer() => digits(from) <= digits(into),
                (DataType::Varchar(from), DataType::Varchar(into)) => from <= into,
                (from, into) => from == into,
            };
            widens && is_injective(operand, column)
        }
        _ => false,
    }
}

fn digits(integer: &DataType) -> u8 {
    match integer {
        DataType::TinyInt => 3,
        DataType::SmallInt => 5,
        DataType::Int => 10,
        _ => 19,
    }
}

/// What makes a relation change, as it stands in SQL; nothing for one of which rows only come.
pub fn maker(rel: &Rel) -> &'static str {
    let (mut left, mut seen) = (vec![rel], HashSet::new());
    while let Some(rel) = left.pop() {
        match rel {
            Rel::Aggregate { window, keys, aggregates, .. } if window.assigner == WindowAssigner::Unbounded => {
                return match (keys.is_empty(), aggregates.is_empty()) {
                    (true, _) => "an aggregate of all rows",
                    (false, true) => "DISTINCT without a window",
                    (false, false) => "GROUP BY without a window",
                };
            }
            Rel::Common(common) if seen.insert(Arc::as_ptr(common)) => left.push(common.rel()),
            _ => left.extend(rel.inputs()),
        }
    }
    ""
}

/// An operator that cannot take what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It takes appended rows only, and gets those of an operator that takes rows back.
    Changes {
        /// What it is.
        operator: &'static str,
        /// Where it stands, if an expression of it says so.
        at: Span,
    },
    /// An expression has another value each time, so a row could not be taken back as it was.
    Unstable {
        /// As EXPLAIN shows it.
        call: String,
        /// Where it stands.
        at: Span,
    },
}

/// Looks for an operator that cannot take the changes that it gets.
///
/// # Errors
/// The first one.
pub fn check(rel: &Rel) -> Result<(), Refused> {
    ChangesWalk::default().check(rel)
}
