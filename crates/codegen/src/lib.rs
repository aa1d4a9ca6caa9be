//! From pipelines to row programs: the compiler's front half, and its interpreter.
//!
//! [`program`] is the intermediate representation; [`mod@lower`] builds it from a pipeline by produce/consume;
//! [`verify`] checks it; [`interpreter`] executes it a block at a time (first tier and test oracle). The `jit` crate
//! turns the same programs into machine code. Both are a [`kernel::Kernel`].
//!
//! Invariants: no LLVM, no threads, no I/O.

pub mod kernel;
pub mod program;
