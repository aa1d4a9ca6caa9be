//! Executes a query plan: workers, sequencers, epochs, tables and triggers (design sections 4, 5 and 7).
//!
//! ```text
//! reader thread ──chunks──► decode task ──► split's sequencer ──buffers──► process task ─┬─► table ──► trigger ─┐
//!  (one per split)           (any worker)    (stamps in order)   (any worker, any order) │    (seal, merge)     │
//!                                                   ▲                                    └─► sink, in order     │
//!                                                   └────────── an aggregation's output is a stream too ◄───────┘
//! ```
//!
//! The way of the code: `run` starts the threads of a query and supervises it. `query` has the one loop that acts on what follows from
//! each change (`station`); `worker` performs tasks. Where pipelines end are stations: `window`, `keyed`, `lookup`, `sink`. What comes
//! before them: `source` (reading and decoding), `stream` (order and watermarks), `pipeline` and `pipeline_stages` (programs over a buffer).
//! What they share: `host`. What outlives the process: `durable`. What may run next: `schedule`. What follows the data: `adaptive`.
//!
//! [`run()`] blocks until the query has ended. Any thread may read the [`QueryStats`] or use the [`CancelToken`].
//!
//! Invariants:
//! - Order exists only before the sequencer of a stream and in front of a sink; between them buffers are processed in
//!   any order, by any worker.
//! - Rows do not depend on the number of workers, on buffer sizes or on timing.
//! - No worker waits for another: a worker that cannot continue one task takes another.
//! - Queues are bounded by the number of chunks in flight; a chunk is in flight until everything made of it has been
//!   put into tables or written to sinks (rows of lookup tables: collected).
//! - This crate knows no SQL text and no LLVM.

mod adaptive;
mod bounds;
mod buffer;
mod build;
mod cancel;
mod columns;
mod compile;
mod config;
mod durable;
mod exchange;
mod executable_plan;
mod flat_map;
mod groups;
mod hints;
mod host;
mod ids;
mod keyed;
mod life;
mod lookup;
mod partitions;
mod pipeline;
mod pipeline_stages;
pub mod protocol;
mod query;
mod row_errors;
mod run;
mod schedule;
mod sink;
mod sort;
mod source;
mod station;
mod stats;
mod stream;
mod widths;
mod window;
mod worker;

pub use adaptive::{Event, EventKind};
pub use cancel::{CancelState, CancelToken};
pub use compile::{Compiled, ProgramCompiler};
pub use config::{Adaptivity, BeatConfig, ErrorPolicy, MergeStrategy, RunConfig, SpillConfig, When};
pub use durable::{CheckpointConfig, Recovered, Unfit, kept_shape};
pub use exchange::{Credit, LostNode, NodeInbox, Nodes, Peers, Replacements};
pub use executable_plan::{
    EventTimeColumns, FlatMapCode, HeadCode, HeadCondition, OperatorCode, PartitionedCode, PipelineCode, RunInput,
    SourceInput, SourceRows, StagedCode, event_time_columns,
};
pub use hints::Hints;
pub use millstream_state::{
    Allocator, Fold, FoldState, LEAST_SHARE, MemoryClass, MemoryShare, MemorySnapshot, SharedMemory, register_fold,
    set_allocator,
};
pub use run::run;
pub use schedule::worker_set::WorkerSet;
pub use stats::{
    BadRow, BeatSnapshot, Begun, CheckpointRecord, CheckpointSnapshot, CodeOrigin, ColumnSnapshot, Compilation,
    HardwareSnapshot, KeysSnapshot, LaneSnapshot, NodeSnapshot, PipelineSnapshot, ProfileSnapshot, ProgramSnapshot,
    QueryStats, RowSample, STATS_VERSION, SeenRows, SentSnapshot, SinkSnapshot, SourceSnapshot, SpanKind, SpanRecord,
    SpillSnapshot, SplitSnapshot, StatsSnapshot, Times, TriggerSnapshot, UsedVariant, VariantSnapshot, WaitCause,
    WaitSnapshot, WorkerSnapshot,
};
pub use window::combining::combination;
pub use window::strategy::merge_strategy;
