//! Tables, partials and their merge: the state of windowed aggregations and keyed operators (design sections 1 and 5).
//!
//! ```text
//! Table (mutable, one worker)         ─┬─drain──► Partial (immutable, partitioned by hash or key)
//! SharedTable (mutable, many workers) ─┘             │
//!                                                    │ merge, partition by partition; or Combiner, slice by slice
//!                                                    ▼
//!                                                 Merged rows ──columns──► Arrow columns of the trigger's output
//! ```
//!
//! All of them hold entries of one `millstream_abi::EntryLayout`, so no step converts anything. Partials are what
//! workers late-merge, and what is spilled, checkpointed and exchanged between nodes later. Two more collections
//! hold the same entries for keyed operators: [`GroupTable`] numbers keys, [`Slots`] finds accumulators by number.
//!
//! A table has a hash part and, for integer keys that lie close together, a dense region (`dense.rs`), or it appends an entry for each
//! row (`table/append.rs`). A region of numbers is an array, which partials, combiners, blocks of checkpoints and columns take
//! as it is (`array`). It is drained and used again, so that slices need no allocation in the steady state.
//!
//! Partials, slots and groups can be written to bytes and read again, partials also block by block, and merged so
//! ([`BlockMerge`]): what is read is checked, because wrong bytes would be wild pointers.
//!
//! Invariants: a [`Table`] has one writer, a [`SharedTable`] the protocol of its file; a partial never changes; strings and lists of entries live in the arena of their table
//! or partial, objects as long as an entry refers to them; hashes are those of `millstream_abi` everywhere.

mod accumulator;
mod arena;
mod array;
mod arrow_column;
mod budget;
mod columns;
mod combine;
mod dense;
mod directory;
mod encoding;
mod entry;
mod far;
mod finish;
mod format_8;
mod groups;
mod list;
mod memory;
mod merge;
mod object;
mod output;
mod owned;
mod partial;
mod partition;
mod parts;
mod process_memory;
mod resident;
mod rows;
mod seal;
mod shared;
mod shared_memory;
mod slots;
mod sort;
mod table;
mod work;

pub use budget::{Charge, MemoryBudget, MemoryClass, MemorySnapshot};
pub use combine::{Combiner, WindowContents};
pub use groups::{GroupLookup, GroupTable};
pub use merge::{BlockMerge, MergeFault, Merged, merge};
pub use object::{Change, Fold, FoldState, Ordinal, register_fold, set_run};
pub use output::{Output, OutputTypes};
pub use partial::Partial;
pub use process_memory::available_memory;
pub use resident::{ALLOWANCE, Allocator, release_before_sleep, release_if_asked, set_allocator};
pub use shared::SharedTable;
pub use shared_memory::{LEAST_SHARE, MemoryShare, SharedMemory};
pub use slots::Slots;
pub use table::{Table, TableHint};
pub use work::{Work, work};
