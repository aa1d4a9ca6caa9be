//! Markers: columns beyond all columns of the input, which stand for what is computed from several rows until it is known where
//! that is found (see [`super::group`] and [`super::over`]).

use millstream_plan::aggregate::AggregateCall;
use millstream_plan::expr::Expr;

/// Markers begin here: the three bounds of the window, then the aggregates.
pub(super) const MARK: usize = usize::MAX / 2;

/// Markers of GROUPING begin here.
pub(super) const GROUPING_MARK: usize = MARK + MARK / 4;

/// Markers of OVER begin here. They are none of GROUP BY's business, which leaves them as they are.
pub(super) const OVER_MARK: usize = MARK + MARK / 2;

/// Markers of subqueries as values begin here. They stand in expressions over groups until the values are joined to these.
pub(super) const VALUE_MARK: usize = OVER_MARK + MARK / 4;

/// The number of the call with OVER that a column stands for, where subqueries as values have become columns.
pub(super) fn call_of(column: usize) -> Option<usize> {
    column.checked_sub(OVER_MARK)
}

/// What of a window a marker or a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// `window_start`, TUMBLE_START
    Start,
    /// `window_end`, TUMBLE_END
    End,
    /// `window_time`, TUMBLE_ROWTIME
    Time,
}

/// The call without its places in the text.
pub(super) fn without_places(call: &AggregateCall) -> AggregateCall {
    AggregateCall {
        arguments: call.arguments.iter().cloned().map(Expr::unplaced).collect(),
        filter: call.filter.clone().map(Expr::unplaced),
        ..call.clone()
    }
}
