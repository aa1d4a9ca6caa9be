//! What generated code and the runtime share: `repr(C)` layouts, the hash function, the layout of table entries
//! and the single list of runtime functions.
//!
//! Both executors of row programs (interpreter and LLVM) and the state crate build on these definitions, so a
//! layout is written down once. Depends on nothing of ours.

mod array;
mod combination;
mod context;
mod entry;
pub mod exact;
mod hash;
mod phys;
mod prefetch;
mod runtime_function;
mod string;

pub use array::{ArrayLayout, KeyRange};
pub use combination::{Combination, ShorterWindows};
pub use context::{
    ColumnView, ErrorKind, ExecContext, FindSlice, InsertKey, KeepString, OutputColumn, Status, StatusKind,
    UpdateObject, ZONE_ROWS, Zone,
};
pub use entry::{
    Accumulator, Counters, EntryLayout, Finish, KeySlot, MOST_PACKED, ObjectKind, PackedKey, TableHeader, ValueLog,
};
pub use hash::{HASH_BUSY, HASH_EMPTY, HASH_SEED, hash_bytes, hash_finish, hash_str, hash_wide, hash_word};
pub use phys::Phys;
pub use prefetch::prefetch;
pub use runtime_function::{CallStatus, RuntimeFn, RuntimeFnPtr, Slot};
pub use string::Str;
