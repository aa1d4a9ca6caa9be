//! Which relations change: of an *append-only* one rows only come, of others they are taken back, too.
//!
//! | relation | rows are taken back | tells rows apart at any moment |
//! | --- | --- | --- |
//! | scan, constant rows | never | its PRIMARY KEY, unless its rows are versions (it has a WATERMARK, too) |
//! | filter | if they are below | what does below |
//! | projection | if they are below | what does below, if all of it is kept |
//! | groups of all rows so far | always; without aggregates (DISTINCT) if they are below | the keys of the groups |
//! | groups of windows | never: they are final when the watermark has passed | their keys and the window |
//! | ranks of all rows so far | always | what does below; the partition and the number, or, where one row is kept, the partition |
//! | UNION ALL, UNNEST | if they are below | nothing |
//! | join with a bounded table | if they are on the left | what does there, if rows of the left come once |
//! | other joins of all rows | if they are on a side; those of outer and anti joins always | what does on both sides; on the left alone, if a row meets one of the right at most |
//!
//! All other operators take appended rows only: [`check`] says which one got others.

use crate::aggregate::AggregateCall;
use crate::common::Common;
use crate::explain::Shown;
use crate::explain::shown::names;
use crate::expr::{Expr, ExprKind, Span};
use crate::logical::{JoinKind, JoinStrategy, RankFunction, Rel};
use crate::window::WindowAssigner;
use millstream_types::{DataType, Schema};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Most keys that are known of a relation: joins multiply them.
const MOST_KEYS: usize = 8;

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

/// What EXPLAIN says of each relation of a query, if any of it changes.
#[derive(Default)]
pub(crate) struct ShownChanges(ChangesWalk);

impl ShownChanges {
    /// `None`: the rows of all relations of the query only come.
    pub(crate) fn of(query: &Rel) -> Option<ShownChanges> {
        let mut shown = ShownChanges::default();
        let (mut left, mut seen) = (vec![query], HashSet::new());
        while let Some(rel) = left.pop() {
            if shown.0.nature(rel).changes {
                return Some(shown);
            }
            match rel {
                Rel::Common(common) if !seen.insert(Arc::as_ptr(common)) => {}
                Rel::Common(common) => left.push(common.rel()),
                _ => left.extend(rel.inputs()),
            }
        }
        None
    }

    /// `append`, or `retract` with the columns that tell rows apart.
    pub(crate) fn text(&mut self, rel: &Rel) -> String {
        let Some(changes) = self.0.changing(rel) else { return "append".into() };
        match changes.key() {
            Some([]) => "retract, one row".into(),
            Some(key) => format!("retract, key ({})", names(&rel.schema(), key)),
            None => "retract".into(),
        }
    }
}

/// What is known of any relation.
#[derive(Debug, Clone, Default)]
struct Nature {
    /// Whether rows are taken back.
    changes: bool,
    /// As [`Changing::keys`].
    keys: Vec<Vec<usize>>,
}

/// What is known of the relations of a query: each is looked at once, although those above it and all that name it ask.
#[derive(Default)]
struct ChangesWalk {
    known: HashMap<*const Rel, Nature>,
    checked: HashSet<*const Common>,
}

impl ChangesWalk {
    fn changing(&mut self, rel: &Rel) -> Option<Changing> {
        let Nature { changes, keys } = self.nature(rel);
        changes.then_some(Changing { keys })
    }

    #[recursive::recursive]
    fn nature(&mut self, rel: &Rel) -> Nature {
        if let Some(known) = self.known.get(&std::ptr::from_ref(rel)) {
            return known.clone();
        }
        let found = self.found(rel);
        self.known.insert(rel, found.clone());
        found
    }

    fn found(&mut self, rel: &Rel) -> Nature {
        match rel {
            Rel::Scan { table, .. } => {
                let is_key = !table.primary_key.is_empty() && table.watermark.is_none();
                let key = is_key.then(|| table.primary_key.clone());
                Nature { changes: false, keys: key.into_iter().collect() }
            }
            Rel::Values { .. } | Rel::Windowed { .. } => Nature::default(),
            Rel::Filter { input, .. } | Rel::Limit { input, .. } | Rel::Sort { input, .. } => self.nature(input),
            Rel::Over { input, .. } => Nature { changes: false, ..self.nature(input) },
            Rel::Common(common) => self.nature(common.rel()),
            Rel::Project { input, columns } => {
                let Nature { changes, keys } = self.nature(input);
                let place = |column: &usize| columns.iter().position(|(e, _)| is_injective(e, *column));
                let keys = keys.iter().filter_map(|key| key.iter().map(place).collect());
                Nature { changes, keys: keys.collect() }
            }
            Rel::Aggregate { input, window, keys, aggregates } => {
                let of_groups: Vec<usize> = (0..keys.len()).collect();
                if let WindowAssigner::Count { .. } = window.assigner {
                    return Nature::default();
                }
                if !matches!(window.assigner, WindowAssigner::Unbounded { .. }) {
                    // Where they are not of the window alone: `window_start` is the first column behind keys and aggregates.
                    let start = window.time.iter().map(|_| keys.len() + aggregates.len());
                    return Nature { changes: false, keys: vec![of_groups.into_iter().chain(start).collect()] };
                }
                // A row of DISTINCT that is there stays, however many equal ones follow.
                let is_distinct = aggregates.is_empty() && !keys.is_empty();
                Nature { changes: !is_distinct || self.nature(input).changes, keys: vec![of_groups] }
            }
            Rel::Rank { input, time, partition, function, range, is_alone, .. } => {
                let Nature { mut keys, .. } = self.nature(input);
                let column = |expr: &Expr| match expr.kind {
                    ExprKind::Column(column) => Some(column),
                    _ => None,
                };
                let partition: Option<Vec<usize>> = partition.iter().map(column).collect();
                if let (RankFunction::RowNumber, Some(mut partition), None) = (function, partition, time) {
                    if range.0 < range.1 && !is_alone {
                        partition.push(input.schema().fields.len());
                    }
                    keys.insert(0, partition);
                }
                Nature { changes: time.is_none(), keys }
            }
            Rel::Union { inputs } => {
                Nature { changes: inputs.iter().any(|input| self.nature(input).changes), keys: vec![] }
            }
            Rel::Unnest { input, .. } => Nature { changes: self.nature(input).changes, keys: vec![] },
            Rel::Join { left, right, kind, strategy, keys, .. } => {
                let (on_left, on_right) = (self.nature(left), self.nature(right));
                let changes = match strategy {
                    JoinStrategy::Lookup => on_left.changes,
                    JoinStrategy::Regular { .. } => takes_back(*kind) || on_left.changes || on_right.changes,
                    JoinStrategy::Window { .. } | JoinStrategy::Interval { .. } | JoinStrategy::Versioned { .. } => {
                        false
                    }
                };
                Nature {
                    changes,
                    keys: keys_of_join(*kind, keys, left.schema().fields.len(), on_left.keys, &on_right.keys),
                }
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
        let changes: Vec<bool> = inputs.iter().map(|input| self.nature(input).changes).collect();
        let operator = match rel {
            Rel::Join { strategy: JoinStrategy::Regular { .. }, .. } if self.nature(rel).changes => None,
            _ if !changes.contains(&true) => return Ok(()),
            Rel::Scan { .. } | Rel::Values { .. } | Rel::Common(_) => return Ok(()),
            Rel::Filter { .. } | Rel::Project { .. } | Rel::Union { .. } | Rel::Unnest { .. } => None,
            Rel::Aggregate { window, .. } if matches!(window.assigner, WindowAssigner::Unbounded { .. }) => None,
            Rel::Aggregate { .. } => Some("an aggregation of windows"),
            Rel::Windowed { .. } => Some("a window table function"),
            Rel::Rank { time: None, .. } | Rel::Join { strategy: JoinStrategy::Regular { .. }, .. } => None,
            Rel::Join { strategy: JoinStrategy::Lookup, .. } if !changes[1] => None,
            Rel::Join { strategy: JoinStrategy::Lookup, .. } => Some("a join with a bounded table"),
            Rel::Join { strategy: JoinStrategy::Window { .. }, .. } => Some("a window join"),
            Rel::Join { strategy: JoinStrategy::Interval { .. }, .. } => Some("an interval join"),
            Rel::Join { strategy: JoinStrategy::Versioned { .. }, .. } => Some("a join with versions"),
            Rel::Rank { .. } => Some("a ranking within windows"),
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

/// Whether a join of all rows takes rows back whose partners come later.
fn takes_back(kind: JoinKind) -> bool {
    !matches!(kind, JoinKind::Inner | JoinKind::Semi)
}

/// What tells the rows of a join apart. `width` is the number of columns on the left.
fn keys_of_join(
    kind: JoinKind,
    equal: &[(Expr, Expr)],
    width: usize,
    left: Vec<Vec<usize>>,
    right: &[Vec<usize>],
) -> Vec<Vec<usize>> {
    if !kind.shows_right() {
        return left;
    }
    // Whether a row meets one of the other side at most: the key of that is among what is compared.
    let is_met_once = |keys: &[Vec<usize>], compared: &dyn Fn(usize) -> bool| {
        keys.iter().any(|key| key.iter().all(|&column| compared(column)))
    };
    let of_right = |column: usize| equal.iter().any(|(_, r)| r.kind == ExprKind::Column(column));
    let of_left = |column: usize| equal.iter().any(|(l, _)| l.kind == ExprKind::Column(column));
    let shifted = |key: &Vec<usize>| key.iter().map(|column| width + column).collect::<Vec<_>>();
    let mut keys = Vec::new();
    // A row of the other side without a partner has no value in these columns, and there may be many.
    if !kind.left_is_optional() && is_met_once(right, &of_right) {
        keys.extend(left.iter().cloned());
    }
    if !kind.right_is_optional() && is_met_once(&left, &of_left) {
        keys.extend(right.iter().map(shifted));
    }
    keys.extend(left.iter().flat_map(|l| right.iter().map(|r| [l.clone(), shifted(r)].concat())));
    keys.truncate(MOST_KEYS);
    keys
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

/// What makes a relation change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// An aggregate of all rows.
    Total,
    /// DISTINCT without a window, of rows that change.
    Distinct,
    /// GROUP BY without a window.
    Groups,
    /// Top-N without a window.
    Rank,
    /// A table whose rows are changes.
    Table,
    /// A join of all rows.
    Join(JoinKind),
}

impl Maker {
    /// As it stands in SQL.
    pub fn text(self) -> &'static str {
        match self {
            Maker::Total => "an aggregate of all rows",
            Maker::Distinct => "DISTINCT without a window",
            Maker::Groups => "GROUP BY without a window",
            Maker::Rank => "a ranking without a window",
            Maker::Table => "a changelog table",
            Maker::Join(JoinKind::Inner) => "a JOIN of all rows",
            Maker::Join(JoinKind::Left) => "a LEFT JOIN of all rows",
            Maker::Join(JoinKind::Right) => "a RIGHT JOIN of all rows",
            Maker::Join(JoinKind::Full) => "a FULL JOIN of all rows",
            Maker::Join(JoinKind::Semi) => "IN or EXISTS over all rows",
            Maker::Join(JoinKind::Anti) => "NOT IN or NOT EXISTS over all rows",
        }
    }
}

/// What makes a relation change: the first operator from above that makes others of rows that only come. `None` for one of which rows
/// only come.
pub fn maker(rel: &Rel) -> Option<Maker> {
    let (mut left, mut seen) = (vec![rel], HashSet::new());
    let mut walk = ChangesWalk::default();
    while let Some(rel) = left.pop() {
        if !walk.nature(rel).changes {
            continue;
        }
        match rel {
            Rel::Aggregate { keys, aggregates, .. } => {
                return Some(match (keys.is_empty(), aggregates.is_empty()) {
                    (true, _) => Maker::Total,
                    (false, true) => Maker::Distinct,
                    (false, false) => Maker::Groups,
                });
            }
            // What is ranked in the order of arrival is not a query's own ranking.
            Rel::Rank { order, is_by_time: true, .. } if order.is_empty() => return Some(Maker::Table),
            Rel::Rank { .. } => return Some(Maker::Rank),
            Rel::Join { kind, strategy: JoinStrategy::Regular { .. }, .. } if takes_back(*kind) => {
                return Some(Maker::Join(*kind));
            }
            Rel::Common(common) if seen.insert(Arc::as_ptr(common)) => left.push(common.rel()),
            Rel::Common(_) => {}
            _ => left.extend(rel.inputs().into_iter().rev()),
        }
    }
    None
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
