//! What a run asks of a compiler: machine code for row programs while the query continues with what it has.

use crate::stats::Compilation;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::program::Program;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// Machine code, and where it came from.
pub struct Compiled {
    /// The executable.
    pub kernel: Arc<dyn Kernel>,
    /// For the statistics ([`crate::QueryStats::note_compilation`]).
    pub compilation: Compilation,
}

/// The compiler of one query.
pub trait ProgramCompiler: Send + Sync {
    /// Machine code of a program: found where code is kept, or made. Blocks for milliseconds, and for longer when as many
    /// compilations run in the process as may; so it is called by threads in the background, never by workers.
    ///
    /// Fails when the program cannot be compiled, and with [`CANCELLED`](millstream_types::code::CANCELLED) after [`ProgramCompiler::end`]:
    /// the query continues with the code that it has.
    fn compile(&self, program: &Program) -> Result<Compiled, Diagnostic>;

    /// The query has ended: what waits for its turn is not compiled any more, nor what is asked for from now on. What is
    /// being compiled is finished.
    fn end(&self);
}
