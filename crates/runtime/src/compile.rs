//! What a run asks of a compiler: machine code for row programs while the query continues with what it has.

use crate::stats::Compilation;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::program::Program;
use millstream_types::Diagnostic;
use std::sync::Arc;
use std::time::Duration;

/// Machine code, and where it came from.
pub struct Compiled {
    /// The executable.
    pub kernel: Arc<dyn Kernel>,
    /// For the statistics ([`crate::QueryStats::note_compilation`]).
    pub compilation: Compilation,
}

/// The compiler of one query.
pub trait ProgramCompiler: Send + Sync {
    /// Machine code of a program: found where code is kept, or made. Waits for milliseconds, and for longer when as many
    /// compilations run in the process as may; so it is called by threads in the background, never by workers.
    ///
    /// Fails when the program cannot be compiled, and with [`CANCELLED`](millstream_types::code::CANCELLED) as soon as
    /// [`ProgramCompiler::end`] is called: the query continues with the code that it has.
    fn compile(&self, program: &Program) -> Result<Compiled, Diagnostic>;

    /// Machine code of a program that is kept. Takes microseconds, or as long as a small file is read.
    fn find(&self, program: &Program) -> Option<Compiled>;

    /// What compiling a program is expected to take of a core.
    fn expected_time(&self, program: &Program) -> Duration;

    /// The query has ended: nobody waits for code any more, and what waits for its turn is not compiled. What is being compiled is
    /// finished and kept without the query.
    fn end(&self);
}
