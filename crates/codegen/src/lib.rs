//! From pipelines to row programs: the compiler's front half, and its interpreter.
//!
//! [`program`] is the intermediate representation; [`mod@lower`] builds it from a pipeline by produce/consume;
//! [`mod@verify`] checks it; [`interpreter`] executes it a block at a time (first tier and test oracle). The `jit` crate
//! turns the same programs into machine code. Both are a [`kernel::Kernel`], which [`execute`] runs over Arrow columns.
//!
//! Invariants: no LLVM, no threads, no I/O.

pub mod buffers;
mod builder;
pub mod execute;
mod fold;
pub mod head;
pub mod interpreter;
pub mod kernel;
pub mod lower;
pub mod observe;
pub mod partition;
mod print;
pub mod program;
pub mod programs;
mod rewrite;
pub mod semantics;
pub mod specialise;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verify;
