//! OVER: aggregates of a row and those before it, and ranks within windows.
//!
//! A call with OVER in the select list is a marker, like an aggregate function (see [`super::markers`]). When the rest of
//! the SELECT is bound, [`apply`] puts an operator for each distinct specification on top of the input (or
//! of the aggregation, whose results OVER may use) and replaces the markers by its columns.
//!
//! | call | becomes |
//! | --- | --- |
//! | an aggregate, ordered by a time attribute | [`Rel::Over`] |
//! | ROW_NUMBER, RANK, DENSE_RANK, partitioned by `window_start, window_end` | [`Rel::Rank`] |
//! | ROW_NUMBER ordered by a time attribute, without a window | [`Rel::Over`] that counts rows |
//! | LEAD, NTILE, and frames of ROWS of a bounded input in any order | see [`super::over_whole`] |
//! | ranks of a bounded input without a window | [`Rel::Rank`] of the whole input |
//! | those of a stream | [`Rel::Rank`] of all rows so far, which changes |
//! | an aggregate of a bounded input, without an order | [`Rel::Over`] whose rows are all of one time |
//! | the same with a frame of RANGE | [`Rel::Rank`], then [`Rel::Over`] by the rank |

use super::aggregate::{of_program, read, typed};
use super::arguments::{function_name, plain_arguments};
use super::expression::Binder;
use super::extent::Extent;
use super::markers::call_of;
use super::operators::{add_interval, arithmetic};
use super::order_by::{comparable, direction};
use super::over_list::{OverCall, OverFunction, OverList};
use super::over_shift::{Shift, ended_before};
use super::over_whole::{self, Sorted};
use super::place::{error, from_parser, span_of, unsupported};
use super::relation::Relation;
use super::scope::{Attribute, Scope, Windows};
use super::window::{in_milliseconds, window_time};
use crate::functions::find_aggregate;
use crate::user_function::UserFunction;
use millstream_plan::aggregate::AggregateCall;
use millstream_plan::expr::{ArithmeticOp, Expr, ExprKind, Span};
use millstream_plan::logical::{Frame, RankFunction, Rel, SortKey};
use millstream_plan::window::{Timeline, WindowAssigner, end_of_input, is_end_of_input};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// Functions of Flink that stand with OVER and are not there yet.
const MISSING: &[&str] = &["CUME_DIST", "NTH_VALUE", "PERCENT_RANK"];

/// The relation with a column for each call, and `expressions` with these columns instead of the markers.
pub(super) fn apply(
    list: OverList,
    input: Relation,
    expressions: Vec<Expr>,
    extent: Extent,
) -> Result<(Relation, Vec<Expr>), Diagnostic> {
    if list.is_empty() {
        return Ok((input, expressions));
    }
    let (mut relation, mut columns) = (input, vec![0; list.calls.len()]);
    let scope = Scope::of(relation.columns.clone());
    let is_by_time = |call: &OverCall| matches!(call.order.as_slice(), [key] if scope.attribute(&key.expr).is_time());
    for numbers in list.stages(is_by_time) {
        let calls: Vec<OverCall> =
            numbers.iter().map(|&number| list.calls[number].renumbered(|i| unmarked(i, &columns))).collect();
        let added;
        (relation, added) = apply_stage(&calls, relation, extent)?;
        numbers.iter().zip(added).for_each(|(&number, column)| columns[number] = column);
    }
    let replace = |expr: Expr| expr.renumbered(|i| unmarked(i, &columns));
    Ok((relation, expressions.into_iter().map(replace).collect()))
}

/// The column of a call in place of its marker.
fn unmarked(i: usize, columns: &[usize]) -> usize {
    call_of(i).map_or(i, |call| columns[call])
}

/// The relation with a column for each call, and the numbers of these columns. No call has markers in it.
fn apply_stage(calls: &[OverCall], input: Relation, extent: Extent) -> Result<(Relation, Vec<usize>), Diagnostic> {
    let scope = Scope::of(input.columns.clone());
    let operators = calls.iter().map(|call| operator_of(call, &scope, extent)).collect::<Result<Vec<_>, _>>()?;
    let mut relation = input;
    let mut columns = vec![0; operators.len()];
    // Ranks come when their window is complete, so running aggregates, which need event time, are below them.
    for (i, operator) in operators.iter().enumerate() {
        if let Operator::Over { time, partition, frame } = operator
            && !operator.waits_for_end()
            && !operators[..i].contains(operator)
        {
            let aggregates = members(calls, &operators, i, relation.columns.len(), &mut columns);
            relation = over(relation, time.clone(), partition.clone(), *frame, aggregates);
        }
    }
    for (i, operator) in operators.iter().enumerate() {
        if let Operator::Rank { time, .. } = operator
            && !operator.waits_for_end()
        {
            columns[i] = relation.columns.len();
            relation = rank(relation, operator);
            if time.is_none() {
                // Rows come again when their rank changes, behind all times.
                relation.forget_times();
            }
            let rowtimes = relation.columns.iter_mut().filter(|column| column.attribute == Attribute::Rowtime);
            rowtimes.for_each(|column| column.attribute = Attribute::None);
        }
    }
    let sorted = |operator: &Operator| match operator {
        Operator::Sorted(sorted) => Some(sorted.clone()),
        _ => None,
    };
    let needs: Vec<Option<Sorted>> = operators.iter().map(sorted).collect();
    relation = over_whole::apply(relation, calls, &needs, &mut columns);
    for (i, operator) in operators.iter().enumerate().filter(|(_, operator)| operator.waits_for_end()) {
        if !matches!(operator, Operator::Rank { .. }) && operators[..i].contains(operator) {
            continue;
        }
        relation = match operator {
            Operator::Rank { .. } => {
                columns[i] = relation.columns.len();
                rank(relation, operator)
            }
            Operator::Over { time, partition, frame } => {
                let aggregates = members(calls, &operators, i, relation.columns.len(), &mut columns);
                over(relation, time.clone(), partition.clone(), *frame, aggregates)
            }
            Operator::Ordered { partition, order, frame } => {
                let number = relation.columns.len();
                // Rows that are equal in the order are of one time.
                let by_order = Operator::Rank {
                    time: Some(end_of_input()),
                    partition: partition.clone(),
                    order: order.clone(),
                    function: RankFunction::DenseRank,
                    is_by_time: false,
                };
                relation = rank(relation, &by_order);
                let aggregates = members(calls, &operators, i, relation.columns.len(), &mut columns);
                over(relation, Some(place_in_order(number)?), partition.clone(), *frame, aggregates)
            }
            // Above.
            Operator::Sorted(_) => relation,
        };
        // Rows come at the end of the input, behind all of their times.
        relation.forget_times();
    }
    Ok((relation, columns))
}

/// The aggregates that one operator computes, from column `first` on: those of all calls of the operator of call `i`.
fn members(
    calls: &[OverCall],
    operators: &[Operator],
    i: usize,
    first: usize,
    columns: &mut [usize],
) -> Vec<(AggregateCall, String)> {
    let mut aggregates = vec![];
    for member in (i..operators.len()).filter(|&j| operators[j] == operators[i]) {
        columns[member] = first + aggregates.len();
        aggregates.push((calls[member].aggregate(), format!("over{}", columns[member])));
    }
    aggregates
}

fn over(
    input: Relation,
    time: Option<Expr>,
    partition: Vec<Expr>,
    frame: Frame,
    aggregates: Vec<(AggregateCall, String)>,
) -> Relation {
    let Relation { rel, columns } = input;
    Relation::with_added(Rel::Over { input: Box::new(rel), time, partition, frame, aggregates }, columns)
}

fn rank(input: Relation, operator: &Operator) -> Relation {
    let Operator::Rank { time, partition, order, function, is_by_time } = operator.clone() else { return input };
    let Relation { rel, columns } = input;
    let rel = Rel::Rank {
        input: Box::new(rel),
        time,
        timeline: Timeline::Own,
        partition,
        order,
        function,
        range: (1, u64::MAX),
        is_by_time,
        shows_rank: true,
        is_alone: false,
    };
    Relation::with_added(rel, columns)
}

/// The rows in order when all are there, with their numbers behind them.
pub(super) fn numbered(input: Relation, partition: Vec<Expr>, order: Vec<SortKey>) -> Relation {
    let function = RankFunction::RowNumber;
    rank(input, &Operator::Rank { time: Some(end_of_input()), partition, order, function, is_by_time: false })
}

/// The first rows in an order, of all rows so far.
pub(super) fn first_rows(input: Relation, order: Vec<SortKey>, offset: u64, count: u64) -> Relation {
    let range = (offset.saturating_add(1), offset.saturating_add(count));
    within(input, None, vec![], order, range, false)
}

/// The row of each partition that came last.
pub(super) fn last_rows(input: Relation, partition: Vec<Expr>, extent: Extent) -> Relation {
    within(input, extent.end(), partition, vec![], (1, 1), true)
}

/// The rows whose number is within a range; nobody reads the number.
pub(super) fn within(
    input: Relation,
    time: Option<Expr>,
    partition: Vec<Expr>,
    order: Vec<SortKey>,
    range: (u64, u64),
    is_by_time: bool,
) -> Relation {
    let Relation { rel, columns } = input;
    let (input, timeline, function) = (Box::new(rel), Timeline::Own, RankFunction::RowNumber);
    let (shows_rank, is_alone) = (false, false);
    let rel = Rel::Rank { input, time, timeline, partition, order, function, range, is_by_time, shows_rank, is_alone };
    Relation::with_added(rel, columns)
}

/// A time for a row of which a column has the number: behind all times of rows, a millisecond for each number.
fn place_in_order(column: usize) -> Result<Expr, Diagnostic> {
    let number = Expr::column(column, DataType::BigInt, false);
    let millisecond = Expr::literal(Value::Int(1), DataType::IntervalMilli);
    let behind = arithmetic(ArithmeticOp::Multiply, millisecond, number, Span::default())?;
    add_interval(end_of_input(), behind, Span::default())
}

/// The operator that computes a call, without places so that equal ones are found.
#[derive(Debug, Clone, PartialEq)]
enum Operator {
    Over {
        time: Option<Expr>,
        partition: Vec<Expr>,
        frame: Frame,
    },
    Rank {
        /// `None`: of all rows so far.
        time: Option<Expr>,
        partition: Vec<Expr>,
        order: Vec<SortKey>,
        function: RankFunction,
        is_by_time: bool,
    },
    /// An aggregate of a bounded input in another order than that of time, for which equal rows count together.
    Ordered {
        partition: Vec<Expr>,
        order: Vec<SortKey>,
        frame: Frame,
    },
    /// What counts rows of a bounded input one by one, or depends on later ones.
    Sorted(Sorted),
}

impl Operator {
    /// Whether nothing comes out before the end of the input.
    fn waits_for_end(&self) -> bool {
        match self {
            Operator::Over { time, .. } | Operator::Rank { time, .. } => time.as_ref().is_some_and(is_end_of_input),
            Operator::Ordered { .. } => true,
            Operator::Sorted(_) => false,
        }
    }
}

fn operator_of(call: &OverCall, scope: &Scope, extent: Extent) -> Result<Operator, Diagnostic> {
    if let Some(whole) = &call.whole {
        if extent == Extent::Whole {
            return Sorted::of(call).map(Operator::Sorted);
        }
        let message = format!("{} depends on later rows, which are not there yet on a stream", whole.name);
        let advice = format!("use LAG in the order of time; or {}", extent.advice());
        return Err(error(code::NEEDS_UPDATES, call.place, message).advise(advice));
    }
    let partition: Vec<Expr> = call.partition.iter().cloned().map(Expr::unplaced).collect();
    let order = || call.order.iter().map(|k| SortKey { expr: k.expr.clone().unplaced(), ..k.clone() }).collect();
    let OverFunction::Rank(function) = call.function else {
        let is_by_time =
            matches!(call.order.as_slice(), [key] if !key.descending && scope.attribute(&key.expr).is_time());
        return match (call.order.as_slice(), call.frame) {
            _ if extent != Extent::Whole || is_by_time => running(call, scope, partition, call.frame),
            ([], Frame::Range(None)) => Ok(Operator::Over { time: Some(end_of_input()), partition, frame: call.frame }),
            // Several of one order are sorted once.
            ([_, ..], Frame::Rows(_)) => Sorted::of(call).map(Operator::Sorted),
            ([_, ..], Frame::Range(None | Some(0))) => {
                Ok(Operator::Ordered { partition, order: order(), frame: call.frame })
            }
            _ => running(call, scope, partition, call.frame),
        };
    };
    if call.order.is_empty() {
        return Err(error(code::INVALID_WINDOW, call.place, "a rank needs ORDER BY within OVER")
            .advise("write OVER (PARTITION BY k ORDER BY x DESC)"));
    }
    let windows = match windows_of(call, scope) {
        // Columns of a window are then values like any other.
        Err(_) if extent == Extent::Whole => None,
        windows => windows?,
    };
    let Some(windows) = windows else {
        let is_by_time = matches!(call.order.as_slice(), [key] if scope.attribute(&key.expr).is_time());
        if is_by_time && function == RankFunction::RowNumber && !call.order[0].descending {
            return running(call, scope, partition, Frame::Rows(None));
        }
        return Ok(Operator::Rank { time: extent.end(), partition, order: order(), function, is_by_time });
    };
    if let WindowAssigner::Count { .. } = windows.assigner {
        let advice = "rank rows of time windows, or aggregate the count window";
        return Err(unsupported("a rank within count windows", call.place, advice));
    }
    let Some(time) = window_time(scope, &windows) else {
        return Err(Diagnostic::bug("the window's end is among the columns"));
    };
    Ok(Operator::Rank { time: Some(time), partition, order: order(), function, is_by_time: false })
}

/// The windows that PARTITION BY names by their start and end.
fn windows_of(call: &OverCall, scope: &Scope) -> Result<Option<Windows>, Diagnostic> {
    let attributes: Vec<Attribute> = call.partition.iter().map(|e| scope.attribute(e)).collect();
    let missing = attributes.iter().find_map(|a| match a {
        Attribute::WindowStart(w) if !attributes.contains(&Attribute::WindowEnd(w.clone())) => Some("window_end"),
        Attribute::WindowEnd(w) if !attributes.contains(&Attribute::WindowStart(w.clone())) => Some("window_start"),
        _ => None,
    });
    if let Some(missing) = missing {
        let message = "the partitions are not those of a window: both its start and its end are needed";
        return Err(error(code::INVALID_WINDOW, call.place, message).advise(format!("add {missing} to PARTITION BY")));
    }
    Ok(attributes.into_iter().find_map(|a| match a {
        Attribute::WindowStart(windows) => Some(windows),
        _ => None,
    }))
}

/// Aggregates in the order of time.
fn running(call: &OverCall, scope: &Scope, partition: Vec<Expr>, frame: Frame) -> Result<Operator, Diagnostic> {
    let advice = match scope.columns.iter().find(|c| c.attribute.is_time()) {
        Some(column) => format!("write ORDER BY `{}` within OVER", column.field.name),
        None => "ORDER BY a column with WATERMARK FOR, or one AS PROCTIME(), within OVER".into(),
    };
    let [key] = call.order.as_slice() else {
        let message = "OVER needs ORDER BY one time attribute";
        return Err(error(code::INVALID_WINDOW, call.place, message).advise(advice));
    };
    let attribute = scope.attribute(&key.expr);
    if !attribute.is_time() {
        let message = "OVER must be ordered by a time attribute, so that results are not updated";
        return Err(error(code::INVALID_WINDOW, key.expr.span, message).advise(advice));
    }
    if key.descending {
        let message = "OVER must be ordered by ascending time: later rows are not there yet";
        return Err(error(code::INVALID_WINDOW, key.expr.span, message).advise("remove DESC"));
    }
    let time = in_milliseconds(key.expr.clone()).unplaced();
    let (time, frame) = match (attribute, frame) {
        // Rows arrive one after the other: what has arrived before is what came earlier.
        (Attribute::Proctime, Frame::Rows(_)) => (None, frame),
        (Attribute::Proctime, Frame::Range(None)) => (None, Frame::Rows(None)),
        _ => (Some(time), frame),
    };
    Ok(Operator::Over { time, partition, frame })
}

impl Binder<'_> {
    /// A call with OVER.
    pub(super) fn over_call(
        &mut self,
        function: &ast::Function,
        over: &ast::WindowType,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let name = function_name(function)?;
        let place = span_of(&function.name);
        let is_here = matches!(self.clause, "SELECT" | "QUALIFY");
        let Some(named) = self.aggregates.as_ref().filter(|_| is_here).map(|a| a.overs.named.clone()) else {
            let message = format!("{name} … OVER stands only in SELECT and QUALIFY, not in {}", self.clause);
            return Err(error(code::NOT_GROUPED, place, message)
                .advise("filter by it with QUALIFY, or use its result in a query around this one"));
        };
        if let Some(filter) = &function.filter {
            return Err(unsupported("FILTER with OVER", span_of(&**filter), "aggregate CASE WHEN … THEN x END"));
        }
        let specification = resolve(over, &named, place)?;
        if let Some(shift) = Shift::of(&name) {
            return self.shift(shift, function, &specification, span);
        }
        // Within OVER there are no further calls with OVER, but aggregates of GROUP BY may be used.
        let clause = std::mem::replace(&mut self.clause, "OVER");
        let call = self.bind_over(&name, function, &specification, place);
        self.clause = clause;
        let (call, before) = call?;
        let list = self.aggregates.as_deref_mut().expect("it was there a few lines above");
        let value = list.overs.add(call.clone(), span);
        if before > 0 {
            return ended_before(&mut list.overs, &call, value, before, span);
        }
        Ok(match self.scope.functions.find(&name).map(|known| &**known) {
            Some(UserFunction::Aggregate(aggregate)) => aggregate.finished(value, span),
            _ => value,
        })
    }

    /// The call, and how many rows before the current one its frame ends.
    fn bind_over(
        &mut self,
        name: &str,
        function: &ast::Function,
        specification: &ast::WindowSpec,
        place: Span,
    ) -> Result<(OverCall, u64), Diagnostic> {
        let rank = match name {
            "ROW_NUMBER" => Some(RankFunction::RowNumber),
            "RANK" => Some(RankFunction::Rank),
            "DENSE_RANK" => Some(RankFunction::DenseRank),
            _ => None,
        };
        let of_user = self.scope.functions.find(name).cloned();
        let of_user = match of_user.as_deref() {
            Some(UserFunction::Aggregate(aggregate)) => Some(aggregate),
            _ => None,
        };
        let over_function = match (rank, find_aggregate(name)) {
            (Some(rank), _) => {
                if !plain_arguments(function)?.is_empty() {
                    let message = format!("{name} takes no arguments");
                    return Err(error(code::TYPE_MISMATCH, place, message).advise(format!("write {name}() OVER (…)")));
                }
                if specification.window_frame.is_some() {
                    return Err(
                        error(code::SYNTAX, place, format!("{name} has no frame")).advise("remove ROWS or RANGE")
                    );
                }
                OverFunction::Rank(rank)
            }
            (None, Some(kind)) => {
                let written = read(kind, function)?;
                if !written.order.is_empty() {
                    let feature = format!("ORDER BY within {name} with OVER");
                    return Err(unsupported(&feature, place, "order OVER itself"));
                }
                let arguments = written.arguments.iter().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
                OverFunction::Aggregate(typed(written, arguments, None, false, place)?)
            }
            (None, None) if of_user.is_none() && MISSING.contains(&name) => {
                return Err(unsupported(&format!("{name} … OVER"), place, "use FIRST_VALUE or LAST_VALUE over ROWS"));
            }
            (None, None) => match of_user {
                Some(aggregate) => {
                    OverFunction::Aggregate(of_program(aggregate, function, place, true, |e| self.bind(e))?)
                }
                None => {
                    let message = format!("{name} is not an aggregate function, so it cannot have OVER");
                    return Err(error(code::UNKNOWN_FUNCTION, place, message).advise("remove OVER (…)"));
                }
            },
        };
        let (partition, order) = self.partition_and_order(specification)?;
        let (frame, before) = frame_of(specification.window_frame.as_ref(), place)?;
        if before > 0 && of_user.is_some() {
            let advice = "end the frame at CURRENT ROW";
            return Err(unsupported("a frame of a user's function that ends before the current row", place, advice));
        }
        Ok((OverCall { function: over_function, partition, order, frame, whole: None, place }, before))
    }

    /// PARTITION BY and ORDER BY of a specification.
    pub(super) fn partition_and_order(
        &mut self,
        specification: &ast::WindowSpec,
    ) -> Result<(Vec<Expr>, Vec<SortKey>), Diagnostic> {
        let key = |key| comparable(self.bind(key)?, "PARTITION BY");
        let partition = specification.partition_by.iter().map(key).collect::<Result<_, _>>()?;
        let order = specification.order_by.iter().map(|key| self.sort_key(key)).collect::<Result<_, _>>()?;
        Ok((partition, order))
    }

    /// NULL is the smallest value unless the query says where it goes.
    pub(super) fn sort_key(&mut self, key: &ast::OrderByExpr) -> Result<SortKey, Diagnostic> {
        let (descending, nulls_first) = direction(key)?;
        let expr = comparable(self.bind(&key.expr)?, "ORDER BY")?;
        Ok(SortKey { expr, descending, nulls_first })
    }
}

/// The specification of OVER, with what it takes from the WINDOW clause.
fn resolve(
    over: &ast::WindowType,
    named: &[ast::NamedWindowDefinition],
    place: Span,
) -> Result<ast::WindowSpec, Diagnostic> {
    let own = |name: &ast::Ident| ast::WindowSpec {
        window_name: Some(name.clone()),
        partition_by: vec![],
        order_by: vec![],
        window_frame: None,
    };
    let mut specification = match over {
        ast::WindowType::WindowSpec(specification) => specification.clone(),
        ast::WindowType::NamedWindow(name) => own(name),
    };
    // Each name is followed at most once, so a cycle ends.
    for _ in 0..=named.len() {
        let Some(name) = specification.window_name.take() else { return Ok(specification) };
        let Some(ast::NamedWindowDefinition(_, definition)) = named.iter().find(|d| d.0.value == name.value) else {
            let message = format!("there is no window `{}` in the WINDOW clause", name.value);
            return Err(error(code::INVALID_WINDOW, from_parser(name.span), message)
                .advise("add WINDOW w AS (PARTITION BY … ORDER BY …) after HAVING"));
        };
        let base = match definition {
            ast::NamedWindowExpr::WindowSpec(base) => base.clone(),
            ast::NamedWindowExpr::NamedWindow(other) => own(other),
        };
        let both = !specification.partition_by.is_empty() && !base.partition_by.is_empty()
            || !specification.order_by.is_empty() && !base.order_by.is_empty()
            || specification.window_frame.is_some() && base.window_frame.is_some();
        if both {
            let message = format!("OVER repeats what the window `{}` says already", name.value);
            return Err(error(code::INVALID_WINDOW, from_parser(name.span), message).advise("say it in one place"));
        }
        specification = ast::WindowSpec {
            window_name: base.window_name,
            partition_by: [base.partition_by, specification.partition_by].concat(),
            order_by: [base.order_by, specification.order_by].concat(),
            window_frame: specification.window_frame.or(base.window_frame),
        };
    }
    Err(error(code::INVALID_WINDOW, place, "the windows of the WINDOW clause refer to one another")
        .advise("define each with PARTITION BY and ORDER BY"))
}

/// The frame, and how many rows before the current one it ends; by default everything up to the current row's time.
///
/// `n PRECEDING AND m PRECEDING` is the frame `n - m PRECEDING` of the row that is m rows before.
fn frame_of(frame: Option<&ast::WindowFrame>, place: Span) -> Result<(Frame, u64), Diagnostic> {
    use ast::WindowFrameBound as Bound;
    let Some(frame) = frame else { return Ok((Frame::Range(None), 0)) };
    let advice = "write ROWS BETWEEN 9 PRECEDING AND CURRENT ROW (or AND 1 PRECEDING), or RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND \
                  CURRENT ROW";
    if frame.units == ast::WindowFrameUnits::Groups {
        return Err(unsupported("GROUPS frames", place, advice));
    }
    let constant = |e: &ast::Expr| Binder::scalar(&Scope::default(), "a frame").bind(e);
    let wrong = |e: &ast::Expr, needs: &str| {
        let message = format!("the frame has {needs} PRECEDING");
        error(code::INVALID_WINDOW, span_of(e), message).advise(advice)
    };
    let rows = |e: &ast::Expr| match constant(e) {
        Ok(Expr { kind: ExprKind::Literal(Value::Int(n)), data_type, .. }) if data_type.is_integer() && n >= 0 => {
            Ok(n as u64)
        }
        _ => Err(wrong(e, "a constant number of rows")),
    };
    let before = match (&frame.end_bound, frame.units) {
        (None | Some(Bound::CurrentRow), _) => 0,
        (Some(Bound::Preceding(Some(end))), ast::WindowFrameUnits::Rows) => rows(end)?,
        (Some(Bound::Preceding(None)), _) => return Err(without_rows(place)),
        (Some(Bound::Preceding(_)), _) => {
            return Err(unsupported("a RANGE that ends before the current row", place, advice));
        }
        (Some(Bound::Following(_)), _) => {
            return Err(unsupported("a frame that ends after the current row", place, advice));
        }
    };
    let start = match (&frame.start_bound, frame.units) {
        (Bound::Preceding(start), _) => start.as_deref(),
        (Bound::CurrentRow, ast::WindowFrameUnits::Rows) if before == 0 => return Ok((Frame::Rows(Some(0)), 0)),
        (Bound::CurrentRow, _) if before == 0 => return Ok((Frame::Range(Some(0)), 0)),
        (Bound::CurrentRow, _) => return Err(without_rows(place)),
        (Bound::Following(_), _) => {
            return Err(unsupported("a frame that begins after the current row", place, advice));
        }
    };
    let is_of_rows = frame.units == ast::WindowFrameUnits::Rows;
    match start {
        None if is_of_rows => Ok((Frame::Rows(None), before)),
        None => Ok((Frame::Range(None), 0)),
        Some(start) if is_of_rows => match rows(start)?.checked_sub(before) {
            Some(rows) => Ok((Frame::Rows(Some(rows)), before)),
            None => Err(without_rows(place)),
        },
        Some(interval) => match constant(interval) {
            Ok(Expr { kind: ExprKind::Literal(Value::Int(ms)), data_type: DataType::IntervalMilli, .. }) if ms >= 0 => {
                Ok((Frame::Range(Some(ms)), 0))
            }
            _ => Err(wrong(interval, "a constant INTERVAL of days to seconds")),
        },
    }
}

fn without_rows(place: Span) -> Diagnostic {
    error(code::INVALID_WINDOW, place, "the frame ends before it begins, so it has no rows")
        .advise("write the larger number first: ROWS BETWEEN 9 PRECEDING AND 1 PRECEDING")
}
