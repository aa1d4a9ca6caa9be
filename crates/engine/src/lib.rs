//! Millstream, a stream processing engine: streaming SQL in Flink's dialect, compiled to machine code.
//!
//! ```no_run
//! use millstream::{Session, SessionConfig};
//!
//! let mut session = Session::new(SessionConfig::default());
//! session.run("CREATE TABLE bid (auction BIGINT, price BIGINT) WITH (
//!     'connector' = 'filesystem', 'path' = 'bids.jsonl', 'format' = 'json')")?;
//! let rows = session.query("SELECT auction, price FROM bid WHERE price > 100")?;
//! println!("{} rows", rows.num_rows());
//! # Ok::<(), millstream::Diagnostic>(())
//! ```
//!
//! A [`Session`] has a catalog and settings and executes statements one after the other. This crate only wires the
//! others together: `sql` binds, `plan` cuts into pipelines, `codegen` lowers to row programs, `jit` compiles,
//! `connectors` read and write, `runtime` executes.
#![forbid(unsafe_code)]

mod aggregate;
mod analysis;
pub mod cluster;
mod compiler;
mod constant;
mod description;
mod environment;
mod explain;
mod fitting;
mod function;
mod history;
mod job;
mod job_name;
mod known_jobs;
mod local;
mod memory;
mod monitor;
mod packed;
mod part_of_run;
mod placement;
mod planned;
mod portable;
mod recovery;
mod relation;
mod replay;
mod restart;
mod results;
mod resumption;
mod session;
mod settings;
mod sharing;
mod sinks;
mod skipping;
mod stored_files;

pub use aggregate::{AggregateFunction, AggregateState, Group};
pub use compiler::{end_compiling, user_code_directory};
pub use description::{ProgramText, RunDescription, VariantText};
pub use function::{Evaluate, ScalarFunction};
pub use job::{Job, JobHandle, Next};
pub use local::{EventTime, LocalTable, columns_text};
pub use memory::{SinkProvider, TableProvider};
pub use millstream_codegen::kernel::Tier;
pub use millstream_connectors as connectors;
pub use millstream_jit::llvm_version;
pub use millstream_plan::graph::{GraphNode, PlanGraph};
pub use millstream_plan::shape::{Fit, PlanShape};
pub use millstream_runtime::{
    Allocator, BadRow, BeatSnapshot, Begun, CancelState, CancelToken, CheckpointRecord, CheckpointSnapshot, CodeOrigin,
    ColumnSnapshot, Compilation, Event, EventKind, HardwareSnapshot, KeysSnapshot, LEAST_SHARE, LaneSnapshot,
    MemoryClass, MemorySnapshot, NodeSnapshot, PipelineSnapshot, ProfileSnapshot, ProgramSnapshot, QueryStats,
    RowSample, STATS_VERSION, SeenRows, SentSnapshot, SinkSnapshot, SourceSnapshot, SpanKind, SpanRecord,
    SpillSnapshot, SplitSnapshot, StatsSnapshot, Times, TriggerSnapshot, UsedVariant, VariantSnapshot, WaitCause,
    WaitSnapshot, WorkerSnapshot, set_allocator,
};
pub use millstream_sql as sql;
pub use millstream_storage as storage;
pub use millstream_types::{
    ALL_CODES, Code, DataType, Diagnostic, Field, Options, Place, RecordField, RecordLayout, RowKind, Schema, TimeUnit,
    code, counted, memory_text, secret, text,
};
pub use monitor::{Awaited, Notices, Outcome, RunMonitor};
pub use planned::PreparedRun;
pub use portable::OtherNodes;
pub use relation::Relation;
pub use restart::{RestartKind, RestartStrategy, Restarts, is_outage};
pub use results::{Collected, Discarded, ResultTarget, changelog};
pub use session::{Session, SessionConfig};
pub use settings::settings_markdown;
pub use sharing::{JobShare, SharedResources, share};
