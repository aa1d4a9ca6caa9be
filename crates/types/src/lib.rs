//! The vocabulary that every other crate shares: SQL types and values, the text form of each value, and diagnostics.
//!
//! Casts, formats, the command line and error messages must agree on what `DECIMAL(24,3)` is, how a
//! `TIMESTAMP(3)` is written and which code a missing file has; they agree because it is said here once.
//!
//! Invariants: no I/O, no dependency on another crate of ours, no knowledge of plans or pipelines.

mod arrow;
mod counted;
mod data_type;
mod diagnostic;
mod inferred;
mod memory;
mod options;
mod record;
mod row_kind;
pub mod secret;
mod spare;
pub mod text;
mod value;

pub use counted::counted;
pub use data_type::{DataType, Field, Schema, TimeUnit};
pub use diagnostic::{ALL_CODES, Code, CodeInfo, Diagnostic, Place, code};
pub use inferred::{Inferred, InferredTime};
pub use memory::{MemorySize, memory_text};
pub use options::Options;
pub use record::{RecordField, RecordLayout, RecordPlace};
pub use row_kind::{CHANGE_COLUMN, RowKind, TakesChanges};
pub use spare::Spare;
pub use value::Value;
