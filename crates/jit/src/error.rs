//! What can go wrong while compiling. Nothing can go wrong in compiled code but what row programs can fail at.

use inkwell::builder::BuilderError;
use millstream_types::{Diagnostic, code};

/// Why a program could not be compiled. The interpreter still runs it.
#[derive(Debug, thiserror::Error)]
pub enum JitError {
    /// The program is not well formed.
    #[error("the row program is not well formed: {0}")]
    Malformed(String),
    /// LLVM's verifier rejects the generated code.
    #[error("the generated code is not well formed: {0}")]
    Verification(String),
    /// An instruction could not be built.
    #[error("an instruction could not be built: {0}")]
    Builder(#[from] BuilderError),
    /// LLVM cannot generate code for this machine.
    #[error("no code can be generated for this machine: {0}")]
    Target(String),
    /// The optimiser or the code generator failed.
    #[error("code generation failed: {0}")]
    Generation(String),
    /// Generated code could not be made executable.
    #[error("the code could not be loaded: {0}")]
    Loading(String),
}

impl From<JitError> for Diagnostic {
    fn from(error: JitError) -> Diagnostic {
        Diagnostic::new(code::COMPILE_FAILED, error.to_string())
    }
}
