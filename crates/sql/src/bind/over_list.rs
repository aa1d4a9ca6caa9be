//! The calls with OVER of a SELECT.

use super::markers::{OVER_MARK, call_of, without_places};
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{Frame, RankFunction, SortKey};
use millstream_types::DataType;
use sqlparser::ast;
use std::collections::BTreeSet;

/// What is computed over other rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OverFunction {
    Rank(RankFunction),
    Aggregate(AggregateCall),
}

/// What needs all rows of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whole {
    /// The function as it is written.
    pub(super) name: &'static str,
    /// Whether it is computed from the last row to the first.
    pub(super) backwards: bool,
}

/// A call with OVER, bound over the input of the SELECT.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OverCall {
    pub(super) function: OverFunction,
    pub(super) partition: Vec<Expr>,
    pub(super) order: Vec<SortKey>,
    pub(super) frame: Frame,
    /// That it needs all rows of its partition.
    pub(super) whole: Option<Whole>,
    /// Place of the function's name.
    pub(super) place: Span,
}

impl OverCall {
    /// The aggregate that it is; ROW_NUMBER in the order of time counts rows.
    pub(super) fn aggregate(&self) -> AggregateCall {
        match &self.function {
            OverFunction::Aggregate(call) => call.clone(),
            OverFunction::Rank(_) => count_rows(),
        }
    }

    /// The call with other columns.
    pub(super) fn renumbered(&self, position: impl Fn(usize) -> usize) -> OverCall {
        let mut call = self.clone();
        for expr in call.expressions_mut() {
            *expr = expr.clone().renumbered(&position);
        }
        call
    }

    /// The numbers of the calls over whose results it is. Only arguments have them.
    fn inner(&self) -> Vec<usize> {
        let mut inner = vec![];
        if let OverFunction::Aggregate(aggregate) = &self.function {
            aggregate.arguments.iter().for_each(|argument| {
                argument.walk(&mut |e| {
                    if let ExprKind::Column(i) = e.kind {
                        inner.extend(call_of(i));
                    }
                });
            });
        }
        inner
    }

    /// Every expression, in a fixed order, to change in place.
    fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let arguments = match &mut self.function {
            OverFunction::Aggregate(call) => call.arguments.iter_mut().chain(&mut call.filter).collect(),
            OverFunction::Rank(_) => vec![],
        };
        let order = self.order.iter_mut().map(|key| &mut key.expr);
        self.partition.iter_mut().chain(order).chain(arguments)
    }
}

/// `COUNT(*)`
pub(super) fn count_rows() -> AggregateCall {
    AggregateCall {
        function: AggregateFunction::CountRows,
        arguments: vec![],
        parameters: vec![],
        distinct: false,
        filter: None,
        last_ms: None,
        data_type: DataType::BigInt,
        nullable: false,
    }
}

/// The calls with OVER of a SELECT, each distinct one once.
#[derive(Debug, Default)]
pub(crate) struct OverList {
    pub(super) calls: Vec<OverCall>,
    /// The WINDOW clause.
    pub(super) named: Vec<ast::NamedWindowDefinition>,
}

impl OverList {
    /// A list for a SELECT with this WINDOW clause.
    pub fn new(named: &[ast::NamedWindowDefinition]) -> OverList {
        OverList { calls: vec![], named: named.to_vec() }
    }

    /// Whether there is no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call and returns its marker.
    pub fn add(&mut self, call: OverCall, span: Span) -> Expr {
        let (data_type, nullable) = match &call.function {
            OverFunction::Rank(_) => (DataType::BigInt, false),
            OverFunction::Aggregate(call) => (call.data_type.clone(), call.nullable),
        };
        let plain = without_spans(&call);
        let index = self.calls.iter().position(|c| without_spans(c) == plain).unwrap_or_else(|| {
            self.calls.push(call);
            self.calls.len() - 1
        });
        Expr::column(OVER_MARK + index, data_type, nullable).at(span)
    }

    /// The numbers of the calls in the order in which they are computed.
    ///
    /// A call over the results of another one (see [`super::over_shift`]) means the same rows in the same order, also among those that are
    /// equal in it. So it comes directly behind that one, and nothing that sorts rows otherwise between them. Other calls over the same rows keep them
    /// company.
    pub(super) fn stages(&self, is_by_time: impl Fn(&OverCall) -> bool) -> Vec<Vec<usize>> {
        let mut pairs: Vec<Pair> = vec![];
        for (number, call) in self.calls.iter().enumerate() {
            let inner = call.inner();
            if !inner.is_empty() {
                let at = pairs.iter().position(|pair| pair.is_of(call)).unwrap_or_else(|| {
                    pairs.push(Pair::of(call));
                    pairs.len() - 1
                });
                pairs[at].inner.extend(inner);
                pairs[at].outer.insert(number);
            }
        }
        let mut others = vec![];
        for (number, call) in self.calls.iter().enumerate() {
            let is_of_rows = matches!((&call.function, call.frame), (OverFunction::Aggregate(_), Frame::Rows(_)));
            match pairs.iter_mut().find(|pair| pair.is_of(call)) {
                Some(pair) if pair.outer.contains(&number) => {}
                Some(pair) if is_of_rows && call.whole.is_none() => _ = pair.inner.insert(number),
                _ => others.push(number),
            }
        }
        let is_timed = |number: &usize| is_by_time(&self.calls[*number]);
        let (timed, sorted): (Vec<Pair>, Vec<Pair>) =
            pairs.into_iter().partition(|pair| pair.outer.iter().all(is_timed));
        let mut stages: Vec<Vec<usize>> = timed.into_iter().flat_map(Pair::stages).collect();
        if !sorted.is_empty() {
            // Where rows are put into another order, no column is event time any more: what needs it comes first.
            let (timed, rest) = others.into_iter().partition(is_timed);
            stages.push(timed);
            stages.extend(sorted.into_iter().flat_map(Pair::stages));
            others = rest;
        }
        stages.push(others);
        stages.retain(|stage| !stage.is_empty());
        stages
    }

    /// Every expression of the calls, in a fixed order, to change in place.
    fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.calls.iter_mut().flat_map(OverCall::expressions_mut)
    }

    /// The expressions of the calls, to bind them over the output of an aggregation.
    pub fn expressions(&mut self) -> Vec<Expr> {
        self.expressions_mut().map(|e| e.clone()).collect()
    }

    /// Takes back what became of [`OverList::expressions`].
    pub fn replace_expressions(&mut self, expressions: Vec<Expr>) {
        self.expressions_mut().zip(expressions).for_each(|(old, new)| *old = new);
    }
}

/// Calls over the same rows in the same order: the outer ones are over results of the inner ones.
struct Pair {
    partition: Vec<Expr>,
    order: Vec<SortKey>,
    inner: BTreeSet<usize>,
    outer: BTreeSet<usize>,
}

impl Pair {
    fn of(call: &OverCall) -> Pair {
        let OverCall { partition, order, .. } = without_spans(call);
        Pair { partition, order, inner: BTreeSet::new(), outer: BTreeSet::new() }
    }

    fn is_of(&self, call: &OverCall) -> bool {
        let OverCall { partition, order, .. } = without_spans(call);
        self.partition == partition && self.order == order
    }

    fn stages(self) -> [Vec<usize>; 2] {
        [self.inner, self.outer].map(|numbers| numbers.into_iter().collect())
    }
}

fn without_spans(call: &OverCall) -> OverCall {
    let plain = |key: &SortKey| SortKey { expr: key.expr.clone().unplaced(), ..key.clone() };
    OverCall {
        function: match &call.function {
            OverFunction::Aggregate(call) => OverFunction::Aggregate(without_places(call)),
            rank @ OverFunction::Rank(_) => rank.clone(),
        },
        partition: call.partition.iter().cloned().map(Expr::unplaced).collect(),
        order: call.order.iter().map(plain).collect(),
        frame: call.frame,
        whole: call.whole.clone(),
        place: Span::default(),
    }
}
