//! Row program to machine code: the second tier of execution.
//!
//! [`generate`] turns a verified [`Program`](millstream_codegen::program::Program) into an object file, [`load`] an object file
//! into a [`CompiledPipeline`]: one function that processes a range of rows, specialised to the program's types, constants and
//! table layout and to the CPU it runs on. Object files can be kept and loaded by another process of the same [`identity`].
//!
//! ```text
//! Program ── stages: where selection vectors are made, what is recomputed or spilled ──> StagePlan
//!         ── emit:   one loop a stage, statements and terminal inside                 ──> LLVM IR
//!         ── host:   LLVM's own optimiser, for the host CPU                           ──> LLVM IR
//!         ── LLVM's code generator                                                    ──> object file
//!         ── loader: ORC links it into memory that `memory` owns                      ──> CompiledPipeline
//! ```
//!
//! Rows are processed in blocks (design section 6): each stage is one loop over the rows that the filters before it
//! let through, so that a stage is straight-line code without unpredictable branches. Effects happen in the last stage
//! only, in order of rows; that is what makes a run resumable at any row.
//!
//! Invariants: the same bits as the interpreter, for every program; no panic and no unwinding through generated code; no
//! fast-math. Only this crate knows LLVM.

mod emit;
mod error;
mod host;
mod loader;
mod memory;
mod options;
mod perf_map;
mod pipeline;
mod runtime;
mod stages;
mod uniform;

pub use error::JitError;
pub use host::{at_exit, llvm_version};
pub use options::{CompileOptions, Optimization};
pub use pipeline::{CompiledPipeline, assembly, compile, generate, identity, llvm_ir, load};
