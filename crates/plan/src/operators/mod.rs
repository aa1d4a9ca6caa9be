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
//! | [`KeyedKind`] | `window_join`, `interval_join`, `regular_join`, `versioned_join`, `rank`, `over`, `session`, `count` |

pub mod aggregate;
pub(crate) mod count;
pub mod filter;
pub(crate) mod interval_join;
pub mod lookup;
pub(crate) mod over;
pub mod project;
pub(crate) mod rank;
pub(crate) mod regular_join;
pub(crate) mod repeat;
pub(crate) mod session;
pub(crate) mod unnest;
pub(crate) mod versioned_join;
pub(crate) mod window_join;
pub(crate) mod windows;

use crate::components::SlotAggregates;
use crate::expansion::{Brought, Expansion};
use crate::expr::Expr;
use crate::keyed::{Keyed, KeyedInput, SortColumn};
use crate::logical::{Frame, JoinKind, RankFunction};
use crate::shape::meaning::Digester;
use crate::window::Overlap;
use lookup::LookupTable;
use millstream_types::{Field, Schema};

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
    /// Once for each window of the row. Appends `window_start`, `window_end` and `window_time` in the type of `time`,
    /// milliseconds since the epoch.
    Windows {
        /// Which windows.
        windows: Overlap,
        /// TIMESTAMP(3) or TIMESTAMP_LTZ(3). NULL makes the row an error.
        time: Expr,
    },
    /// So many times. Appends, if they are numbered, the number of the row among those, from 0 (BIGINT).
    Repeat {
        /// At least 1.
        times: u64,
        /// Whether a column is appended.
        numbered: bool,
    },
    /// Once for each element of a collection.
    Unnest {
        /// ARRAY or MAP.
        collection: Expr,
        /// Whether a row without elements is kept, with NULL.
        outer: bool,
        /// Whether the last of `columns` is the position of the element from 1.
        ordinality: bool,
        /// The appended columns.
        columns: Vec<Field>,
    },
    /// Once for each row of a lookup table with the same keys for which the residual is TRUE. Appends the columns of
    /// that row; SEMI and ANTI append nothing.
    Lookup {
        /// Index into [`QueryPlan::lookups`](crate::pipeline::QueryPlan::lookups).
        table: usize,
        /// Inner, Left, Semi or Anti.
        kind: JoinKind,
        /// Values of the table's keys, in their order and of their types.
        keys: Vec<Expr>,
        /// Over the columns before the flat map, then those of the table.
        residual: Option<Expr>,
    },
}

impl FlatMap {
    fn expansion<'a>(&'a self) -> Box<dyn Expansion<'a> + 'a> {
        match self {
            FlatMap::Windows { windows, time } => Box::new(windows::Windows { windows: *windows, time }),
            FlatMap::Repeat { times, numbered } => Box::new(repeat::Repeat { times: *times, numbered: *numbered }),
            FlatMap::Unnest { collection, outer, ordinality, columns } => {
                Box::new(unnest::Unnest { collection, outer: *outer, ordinality: *ordinality, columns })
            }
            FlatMap::Lookup { table, kind, keys, residual } => {
                Box::new(lookup::Lookup { table: *table, kind: *kind, keys, residual: residual.as_ref() })
            }
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

    /// What EXPLAIN says of it, over columns of `schema`.
    pub(crate) fn text(&self, schema: &Schema, lookups: &[LookupTable]) -> String {
        self.expansion().text(schema, lookups)
    }

    /// What it means for the states behind it, without its arguments.
    pub(crate) fn step(&self, brought: &Brought<'_>) -> (&'static str, Digester) {
        self.expansion().step(brought)
    }
}

/// What a keyed operator does.
#[derive(Debug, Clone, PartialEq)]
pub enum KeyedKind {
    /// Rows of equal keys and equal `window_time`; output when the watermark reaches that. Columns: left, right (SEMI,
    /// ANTI: left).
    WindowJoin {
        /// Any.
        kind: JoinKind,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of equal keys with `right + lower ≤ left ≤ right + upper`. Output watermark: held back so that no output is
    /// late. Columns: left, right.
    IntervalJoin {
        /// Inner, Left, Right or Full.
        kind: JoinKind,
        /// Milliseconds.
        lower_ms: i64,
        /// Milliseconds.
        upper_ms: i64,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of equal keys, as they come. Columns: left, right.
    RegularJoin {
        /// Rows are forgotten after this many milliseconds of processing time.
        ttl_ms: Option<u64>,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Rows of the left with the version of their key, the newest row of the right up to their time; output when the watermark
    /// reaches that. Columns: left, right.
    VersionedJoin {
        /// Inner or Left.
        kind: JoinKind,
        /// Over left, then right columns.
        residual: Option<Expr>,
    },
    /// Ranks of the rows of a partition (the key) when the watermark reaches their `window_time`. Columns: those of the
    /// input, then the rank (BIGINT).
    Rank {
        /// Order within a partition.
        order: Vec<SortColumn>,
        /// How ties are numbered.
        function: RankFunction,
        /// Ranks that are kept, from 1, both ends included.
        range: (u64, u64),
    },
    /// Aggregates over each row and rows before it, in order of time (without [`KeyedInput::time`]: of arrival). Columns:
    /// those of the input, then the aggregates' outputs.
    Over {
        /// Rows that count.
        frame: Frame,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Aggregates of each session of a key. Columns: keys, the aggregates' outputs, `window_start` and `window_end` as
    /// TIMESTAMP(3).
    SessionAggregate {
        /// Milliseconds.
        gap_ms: i64,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Rows with their session: columns of the input, `window_start` and `window_end` as TIMESTAMP(3).
    SessionRows {
        /// Milliseconds.
        gap_ms: i64,
    },
    /// Aggregates of `size` rows of a key in order of arrival, every `slide` rows. Columns as for sessions; the window is
    /// from the smallest time in it to 1 ms after the largest.
    CountAggregate {
        /// Rows.
        size: u64,
        /// Rows.
        slide: u64,
        /// What is computed.
        aggregates: SlotAggregates,
    },
    /// Rows of full count windows: columns of the input, `window_start` and `window_end` as TIMESTAMP(3).
    CountRows {
        /// Rows.
        size: u64,
        /// Rows.
        slide: u64,
    },
}

impl KeyedKind {
    fn keyed<'a>(&'a self) -> Box<dyn Keyed<'a> + 'a> {
        match self {
            KeyedKind::WindowJoin { kind, residual } => {
                Box::new(window_join::WindowJoin { kind: *kind, residual: residual.as_ref() })
            }
            KeyedKind::IntervalJoin { kind, lower_ms, upper_ms, residual } => {
                let (kind, lower_ms, upper_ms, residual) = (*kind, *lower_ms, *upper_ms, residual.as_ref());
                Box::new(interval_join::IntervalJoin { kind, lower_ms, upper_ms, residual })
            }
            KeyedKind::RegularJoin { ttl_ms, residual } => {
                Box::new(regular_join::RegularJoin { ttl_ms: *ttl_ms, residual: residual.as_ref() })
            }
            KeyedKind::VersionedJoin { kind, residual } => {
                Box::new(versioned_join::VersionedJoin { kind: *kind, residual: residual.as_ref() })
            }
            KeyedKind::Rank { order, function, range } => {
                Box::new(rank::Rank { order, function: *function, range: *range })
            }
            KeyedKind::Over { frame, aggregates } => Box::new(over::Over { frame: *frame, aggregates }),
            KeyedKind::SessionAggregate { gap_ms, aggregates } => {
                Box::new(session::Session { gap_ms: *gap_ms, aggregates: Some(aggregates) })
            }
            KeyedKind::SessionRows { gap_ms } => Box::new(session::Session { gap_ms: *gap_ms, aggregates: None }),
            KeyedKind::CountAggregate { size, slide, aggregates } => {
                Box::new(count::Count { size: *size, slide: *slide, aggregates: Some(aggregates) })
            }
            KeyedKind::CountRows { size, slide } => {
                Box::new(count::Count { size: *size, slide: *slide, aggregates: None })
            }
        }
    }

    /// What EXPLAIN calls it, over the columns of its inputs, without condition and components.
    pub(crate) fn text(&self, inputs: &Schema) -> String {
        self.keyed().text(inputs)
    }

    /// What checkpoints call it, and its constants by name.
    pub(crate) fn state(&self) -> (&'static str, Vec<(&'static str, String)>) {
        self.keyed().state()
    }

    /// The columns that it puts out.
    pub fn output(&self, keys: &[Field], inputs: &[KeyedInput]) -> Schema {
        self.keyed().output(keys, inputs)
    }

    /// What a pair of rows must fulfil besides equal keys, over left, then right columns.
    pub fn residual(&self) -> Option<&Expr> {
        self.keyed().residual()
    }

    /// What it aggregates in slots, if it does.
    pub fn aggregates(&self) -> Option<&SlotAggregates> {
        self.keyed().aggregates()
    }

    /// What rows of a key are ordered by.
    pub(crate) fn order(&self) -> &[SortColumn] {
        self.keyed().order()
    }

    /// [`KeyedInput::reach_ms`] of its inputs, when their rows have times.
    pub fn reach_ms(&self) -> Option<i64> {
        self.keyed().reach_ms()
    }

    /// Whether its output begins with the keys; else with all columns that arrive.
    pub fn shows_keys(&self) -> bool {
        self.keyed().shows_keys()
    }
}
