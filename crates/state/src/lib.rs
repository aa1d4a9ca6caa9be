//! Tables, partials and their merge: the state of windowed aggregations (design sections 1 and 5).
//!
//! ```text
//! Table (mutable, one worker) ──seal──► Partial (immutable, radix-partitioned by hash)
//!                                          │ merge, partition by partition
//!                                          ▼
//!                                       Merged rows ──columns──► Arrow columns of the trigger's output
//! ```
//!
//! All three hold entries of one `millstream_abi::EntryLayout`, so no step converts anything. Partials are what
//! workers late-merge today, and what is spilled, checkpointed and exchanged between nodes later.
//!
//! Invariants: a table has one writer; a partial never changes; strings of entries live in the arena of their table
//! or partial; hashes are those of `millstream_abi` everywhere.

mod accumulator;
mod arena;
mod columns;
mod entry;
mod memory;
mod merge;
mod partial;
mod table;

pub use columns::OutputTypes;
pub use merge::{Merged, merge};
pub use partial::{PARTITION_BITS, PARTITIONS, Partial, partition_of};
pub use table::Table;
