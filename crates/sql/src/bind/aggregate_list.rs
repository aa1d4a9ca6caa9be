//! What of a SELECT is computed from several rows: the binder of expressions collects it here, and leaves markers.

use super::markers::{Bound, GROUPING_MARK, MARK, OVER_MARK, without_places};
use super::over_list::OverList;
use super::place::{error, from_parser};
use super::scope::Windows;
use super::window_kind::WindowKind;
use millstream_plan::aggregate::AggregateCall;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::Window;
use millstream_plan::window::Timeline;
use millstream_types::{DataType, Diagnostic, code};
use sqlparser::ast;
use std::ops::Range;

/// What of a SELECT is computed from several rows: aggregate functions, each distinct one once, and OVER.
#[derive(Debug, Default)]
pub(crate) struct AggregateList {
    pub(super) calls: Vec<AggregateCall>,
    /// The arguments of each GROUPING, without places.
    pub(super) groupings: Vec<Vec<Expr>>,
    /// The window of `GROUP BY TUMBLE(…)`, for TUMBLE_START and its siblings.
    pub group_window: Option<GroupWindow>,
    /// Whether there is a group even without rows: then results can be NULL though no argument is.
    pub group_of_nothing: bool,
    /// The calls with OVER.
    pub overs: OverList,
    /// Columns of the input that are subqueries as values.
    pub values: Range<usize>,
    /// The select list, where clauses after it can use its names.
    pub selected: Vec<(Expr, String)>,
    /// The hint for how long a group is kept.
    pub state_ttl_ms: Option<u64>,
}

impl AggregateList {
    /// Whether there is no aggregate function.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.groupings.is_empty()
    }

    /// The item of the select list that a name means which is no column of the input; `unknown` if there is none.
    pub fn selected(&self, name: &ast::Ident, unknown: Diagnostic, within_over: bool) -> Result<Expr, Diagnostic> {
        let mut of_name = self.selected.iter().filter(|(_, known)| *known == name.value).map(|(item, _)| item);
        let Some(first) = of_name.next().filter(|_| unknown.code == code::UNKNOWN_COLUMN) else { return Err(unknown) };
        let span = from_parser(name.span);
        if of_name.any(|other| other.clone().unplaced() != first.clone().unplaced()) {
            let message = format!("SELECT gives the name `{}` more than once", name.value);
            return Err(error(code::AMBIGUOUS_COLUMN, span, message).advise("give the columns different names"));
        }
        let mut is_over = false;
        first.walk(&mut |e| is_over |= matches!(e.kind, ExprKind::Column(OVER_MARK..)));
        if is_over && within_over {
            let message = format!("`{}` is a result of OVER, which cannot stand within OVER", name.value);
            return Err(error(code::NOT_GROUPED, span, message).advise("use it in a query around this one"));
        }
        Ok(first.clone().at(span))
    }

    /// Adds an aggregate and returns its marker.
    pub fn add(&mut self, call: AggregateCall, span: Span) -> Expr {
        let (data_type, nullable) = (call.data_type.clone(), call.nullable);
        let plain = without_places(&call);
        let index = self.calls.iter().position(|c| without_places(c) == plain).unwrap_or_else(|| {
            self.calls.push(call);
            self.calls.len() - 1
        });
        Expr::column(MARK + 3 + index, data_type, nullable).at(span)
    }

    /// Adds GROUPING over keys and returns its marker.
    pub fn add_grouping(&mut self, keys: Vec<Expr>, span: Span) -> Expr {
        self.groupings.push(keys.into_iter().map(Expr::unplaced).collect());
        Expr::column(GROUPING_MARK + self.groupings.len() - 1, DataType::BigInt, false).at(span)
    }

    /// The marker of a bound of the window.
    pub fn bound(bound: Bound, time_type: &DataType, span: Span) -> Expr {
        let (index, data_type) = match bound {
            Bound::Start => (0, DataType::Timestamp(3)),
            Bound::End => (1, DataType::Timestamp(3)),
            Bound::Time => (2, time_type.clone()),
        };
        Expr::column(MARK + index, data_type, false).at(span)
    }
}

/// A window function in GROUP BY: `TUMBLE(time, size)`, `HOP(time, slide, size)`, `SESSION(time, gap)`.
#[derive(Debug, Clone)]
pub(crate) struct GroupWindow {
    /// The windows.
    pub windows: Windows,
    /// Time over the input, as given, in milliseconds precision.
    pub(super) time: Expr,
    /// The function.
    pub(super) kind: WindowKind,
    /// Whether they are windows of processing time.
    pub(super) is_processing_time: bool,
}

impl GroupWindow {
    /// Whether both are the same windows of the same time.
    pub fn is_same(&self, other: &GroupWindow) -> bool {
        self.windows == other.windows && self.time.clone().unplaced() == other.time.clone().unplaced()
    }

    /// The window of the aggregation.
    pub fn window(&self) -> Window {
        let (assigner, time) = (self.windows.assigner, Some(self.time.clone()));
        Window { assigner, time, timeline: Timeline::Own, start: None }
    }
}
