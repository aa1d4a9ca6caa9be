//! The operators of a plan: a file for each, and the sums that list them.
//!
//! A file says what a plan knows of its operator: its columns, what EXPLAIN calls it, what a checkpoint has to know of its state, and
//! what it asks of its inputs. Its programs are in the file of the same name in `millstream_codegen::lower`. A keyed operator
//! runs in the file of its name in `millstream_runtime::keyed`. A test compares the names.
//!
//! | sum | operators |
//! | --- | --- |
//! | [`Operator`] | [`filter`], [`project`], and the flat maps |
//! | [`FlatMap`] | `windows`, `repeat`, `unnest`, [`lookup`] |
//! | [`PipelineEnd::Aggregate`](crate::pipeline::PipelineEnd::Aggregate) | [`aggregate`] |
//! | [`KeyedKind`] | `window_join`, `interval_join`, `regular_join`, `versioned_join`, `rank`, `over`, `session`, `count`, `group`, `top`,
//! | | `changing_join`, `changes` |

pub mod aggregate;
pub(crate) mod changes;
pub(crate) mod changing_join;
pub(crate) mod count;
pub mod filter;
pub(crate) mod group;
pub(crate) mod interval_join;
pub mod lookup;
pub(crate) mod over;
pub mod project;
pub(crate) mod rank;
pub(crate) mod regular_join;
pub(crate) mod repeat;
pub(crate) mod session;
pub(crate) mod top;
pub(crate) mod unnest;
pub(crate) mod versioned_join;
pub(crate) mod window_join;
pub(crate) mod windows;

use crate::expansion::Expansion;
use crate::expr::Expr;
use crate::keyed::Keyed;
pub use changes::Changes;
pub use changing_join::ChangingJoin;
pub use count::CountWindows;
pub use group::{Group, GroupChanges};
pub use interval_join::IntervalJoin;
pub use lookup::Lookup;
use lookup::LookupTable;
use millstream_types::Field;
pub use over::Over;
pub use rank::Rank;
pub use regular_join::RegularJoin;
pub use repeat::Repeat;
pub use session::Sessions;
pub use top::{Ties, Top};
pub use unnest::Unnest;
pub use versioned_join::VersionedJoin;
pub use window_join::WindowJoin;
pub use windows::Windows;

/// An operator within a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Operator {
    /// Keeps rows whose predicate is TRUE.
    Filter(Expr),
    /// Replaces the columns.
    Project(Vec<Expr>),
    /// Makes any number of rows of each. It cuts the pipeline into two programs that run one after the other in the same
    /// task.
    FlatMap(FlatMap),
}

/// Makes any number of rows of each: its columns, followed by others.
#[derive(Debug, Clone, PartialEq)]
pub enum FlatMap {
    /// Once for each window.
    Windows(Windows),
    /// A fixed number of times.
    Repeat(Repeat),
    /// Once for each element of a collection.
    Unnest(Unnest),
    /// Once for each row of a lookup table.
    Lookup(Lookup),
}

impl FlatMap {
    pub(crate) fn expansion(&self) -> &dyn Expansion {
        match self {
            FlatMap::Windows(windows) => windows,
            FlatMap::Repeat(repeat) => repeat,
            FlatMap::Unnest(unnest) => unnest,
            FlatMap::Lookup(lookup) => lookup,
        }
    }

    /// Values that it needs of each row: appended to the columns that the program before it emits.
    pub fn arguments(&self) -> &[Expr] {
        self.expansion().arguments()
    }

    /// Columns that it appends.
    pub fn appended(&self, lookups: &[LookupTable]) -> Vec<Field> {
        self.expansion().appended(lookups)
    }
}

/// What a keyed operator does.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyedKind {
    /// Rows of equal windows.
    WindowJoin(WindowJoin),
    /// Rows whose times lie close together.
    IntervalJoin(IntervalJoin),
    /// Rows as they come.
    RegularJoin(RegularJoin),
    /// Rows of the left with the version of their key.
    VersionedJoin(VersionedJoin),
    /// Ranks of the rows of a window.
    Rank(Rank),
    /// Aggregates over each row and rows before it.
    Over(Over),
    /// Sessions, aggregated or as they are.
    Sessions(Sessions),
    /// Windows of a fixed number of rows, aggregated or as they are.
    CountWindows(CountWindows),
    /// Groups of all rows.
    Group(Group),
    /// Ranks of all rows.
    Top(Top),
    /// Rows of equal keys that may be taken back.
    ChangingJoin(ChangingJoin),
    /// Net changes, on their way to a sink.
    Changes(Changes),
}

impl KeyedKind {
    /// What it says of itself.
    pub fn keyed(&self) -> &dyn Keyed {
        match self {
            KeyedKind::WindowJoin(join) => join,
            KeyedKind::IntervalJoin(join) => join,
            KeyedKind::RegularJoin(join) => join,
            KeyedKind::VersionedJoin(join) => join,
            KeyedKind::Rank(rank) => rank,
            KeyedKind::Over(over) => over,
            KeyedKind::Sessions(session) => session,
            KeyedKind::CountWindows(count) => count,
            KeyedKind::Group(group) => group,
            KeyedKind::Top(top) => top,
            KeyedKind::ChangingJoin(join) => join,
            KeyedKind::Changes(changes) => changes,
        }
    }

    /// Whether it takes rows as they come, whatever the watermark is.
    pub fn takes_arrivals(&self) -> bool {
        matches!(self, KeyedKind::RegularJoin(_)) || self.keyed().ends_beats()
    }
}
