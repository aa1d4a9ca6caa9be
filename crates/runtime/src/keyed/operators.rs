//! The keyed operators: the one place that lists them.

use super::changes::Changes;
use super::changing_join::ChangingJoin;
use super::count::{CountAggregate, CountRows};
use super::group::GroupAggregate;
use super::over::Over;
use super::rank::Rank;
use super::session::SessionAggregate;
use super::session_rows::SessionRows;
use super::state::{Due, State};
use super::stream_join::Reach;
use super::top::Top;
use super::versioned_join::VersionedJoin;
use super::window_join::WindowJoin;
use super::{interval_join, regular_join};
use crate::executable_plan::OperatorCode;
use millstream_plan::logical::Frame;
use millstream_plan::pipeline::{KeyedKind, KeyedOperator, Ties};
use millstream_types::Diagnostic;

/// How an operator of a kind behaves, whatever rows come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) due: Due,
    /// Whether it outputs whole windows.
    pub(super) has_windows: bool,
    /// What the rows of its output can be behind its watermark.
    pub(super) held_back_ms: i64,
    /// By how much it looks at all watermarks later than they are, if its inputs come from other operators.
    ///
    /// Whether a session that ends at the very time of the next row of its key has been output before that row depends on
    /// where the watermark has stopped in between. When it follows from the rows of a split, that is the same in every run;
    /// the watermark of an operator's output stops wherever timing has it. So sessions of such rows wait for one more
    /// millisecond: then the two are always one session, as those that touch are.
    pub(super) lag_ms: i64,
    needs_time: bool,
    /// Whether it puts out what has changed at the end of each beat.
    pub(super) ends_beats: bool,
    /// Whether rows need their places although they are consumed as they come.
    pub(super) keeps_places: bool,
    /// Which buffers its partitions may share.
    pub(super) shares: Shares,
    /// Whether it keeps no row beyond the end of the beat: then strings need not be copied while memory is plenty.
    pub(super) passes_on: bool,
}

/// Which buffers the partitions of an operator may share: one is freed when the last partition has forgotten its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shares {
    /// None: its states do not keep rows as they come.
    Nothing,
    /// Those of tables in memory, which are there anyway. Of others a partition with few rows would keep many alive that the others
    /// have forgotten.
    Tables,
    /// All: partitions forget the rows of a buffer at the same time, or never.
    All,
}

impl Behaviour {
    pub(super) fn of(kind: &KeyedKind) -> Behaviour {
        let usual = Behaviour {
            due: Due::Consumed,
            has_windows: false,
            held_back_ms: 0,
            lag_ms: 0,
            needs_time: true,
            ends_beats: false,
            keeps_places: false,
            shares: Shares::Nothing,
            passes_on: false,
        };
        match kind {
            KeyedKind::WindowJoin(_) => {
                Behaviour { due: Due::Time(0), has_windows: true, shares: Shares::All, ..usual }
            }
            KeyedKind::Rank(_) => Behaviour { due: Due::Time(0), has_windows: true, shares: Shares::Tables, ..usual },
            KeyedKind::IntervalJoin(join) => {
                let held_back_ms = Reach::new(join.lower_ms, join.upper_ms).held_back();
                Behaviour { held_back_ms, shares: Shares::Tables, ..usual }
            }
            KeyedKind::RegularJoin(join) => {
                let shares = if join.ttl_ms != [None, None] { Shares::Tables } else { Shares::All };
                Behaviour { due: Due::Arrival, needs_time: false, shares, ..usual }
            }
            KeyedKind::VersionedJoin(_) => Behaviour { due: Due::LeftTime, ..usual },
            KeyedKind::Over(over) => {
                Behaviour { due: Due::Time(0), needs_time: matches!(over.frame, Frame::Range(Some(_))), ..usual }
            }
            KeyedKind::Sessions(sessions) => Behaviour { due: Due::Time(sessions.gap_ms - 1), lag_ms: 1, ..usual },
            KeyedKind::CountWindows(_) => usual,
            KeyedKind::Group(group) => {
                let keeps_places = group.aggregates.components.iter().any(|component| component.keeps_places());
                Behaviour { due: Due::Arrival, needs_time: false, ends_beats: true, keeps_places, ..usual }
            }
            KeyedKind::Top(top) => {
                let keeps_places = top.ties != Ties::Values;
                Behaviour { due: Due::Arrival, needs_time: false, ends_beats: true, keeps_places, ..usual }
            }
            KeyedKind::ChangingJoin(_) | KeyedKind::Changes(_) => {
                let passes_on = matches!(kind, KeyedKind::Changes(_));
                Behaviour { due: Due::Arrival, needs_time: false, ends_beats: true, passes_on, ..usual }
            }
        }
    }
}

/// By how much the watermark behind an operator can be behind that before it at most.
pub(crate) fn most_behind(plan: &KeyedOperator) -> i64 {
    // A lag there is only where the operator's inputs are derived; to wait for it in vain does no harm.
    let Behaviour { held_back_ms, lag_ms, .. } = Behaviour::of(&plan.kind);
    held_back_ms.saturating_add(lag_ms)
}

/// The state of a partition at its start.
pub(super) fn state_of(plan: &KeyedOperator, code: &OperatorCode) -> Result<Box<dyn State>, Diagnostic> {
    Ok(match &plan.kind {
        KeyedKind::WindowJoin(join) => Box::new(WindowJoin::new(plan, join.kind, code)?),
        KeyedKind::IntervalJoin(join) => Box::new(interval_join::new(plan, join, code)?),
        KeyedKind::RegularJoin(join) => Box::new(regular_join::new(plan, join.ttl_ms, code)?),
        KeyedKind::VersionedJoin(join) => Box::new(VersionedJoin::new(plan, join.kind, code)?),
        KeyedKind::Rank(rank) => Box::new(Rank::new(plan, rank, code)?),
        KeyedKind::Over(over) => Box::new(Over::new(plan, over, code)?),
        KeyedKind::Sessions(sessions) => match &sessions.aggregates {
            Some(aggregates) => Box::new(SessionAggregate::new(plan, sessions.gap_ms, aggregates, code)?),
            None => Box::new(SessionRows::new(plan, sessions.gap_ms, code)?),
        },
        KeyedKind::CountWindows(windows) => match &windows.aggregates {
            Some(aggregates) => Box::new(CountAggregate::new(plan, windows, aggregates, code)?),
            None => Box::new(CountRows::new(plan, windows, code)?),
        },
        KeyedKind::Group(group) => Box::new(GroupAggregate::new(plan, group, code)?),
        KeyedKind::Top(top) => Box::new(Top::new(plan, top, code)?),
        KeyedKind::ChangingJoin(join) => Box::new(ChangingJoin::new(plan, join, code)?),
        KeyedKind::Changes(changes) => Box::new(Changes::new(plan, *changes)?),
    })
}

/// Checks that an operator has the parts that its kind needs, so that states may rely on them.
pub(super) fn check(plan: &KeyedOperator, code: &OperatorCode) -> Result<(), Diagnostic> {
    let (keyed, needs_time) = (plan.kind.keyed(), Behaviour::of(&plan.kind).needs_time);
    let inputs = if keyed.pairs().is_some() { 2 } else { 1 };
    let fits = plan.inputs.len() == inputs
        && code.keys.len() == inputs
        && (!needs_time || plan.inputs.iter().all(|i| i.time.is_some()))
        && code.slots.is_some() == keyed.aggregates().is_some()
        && code.residual.is_some() == keyed.residual().is_some();
    if !fits {
        return Err(Diagnostic::bug("a keyed operator lacks a part that its kind needs"));
    }
    Ok(())
}
