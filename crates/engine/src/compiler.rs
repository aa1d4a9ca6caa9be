//! Machine code of row programs, kept for queries that need the same again.
//!
//! Compiling takes tens of milliseconds, and the same statement is often run again: in a notebook, in a test, in a loop of
//! a program. Code depends on nothing but the program and this machine, so a session keeps what it has compiled.

use millstream_codegen::kernel::Kernel;
use millstream_codegen::lower::Lowered;
use millstream_codegen::program::Program;
use millstream_jit::{CompileOptions, CompiledPipeline};
use millstream_runtime::Compilation;
use millstream_types::Diagnostic;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Programs of more values than this, such as IN lists of thousands, are compiled without optimisation: LLVM's passes
/// take quadratic time for them, minutes rather than milliseconds.
const LONG_PROGRAM: usize = 5_000;
/// Programs whose code is kept; those that were used last.
const KEPT: usize = 64;

/// A program and its code.
type Known = (Program, Arc<CompiledPipeline>);

/// Compiles programs and remembers them.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    /// The last used first.
    known: Mutex<VecDeque<Known>>,
}

impl Compiler {
    /// Machine code of a program, and what it cost.
    pub(crate) fn compile(&self, lowered: &Lowered) -> Result<(Arc<dyn Kernel>, Compilation), Diagnostic> {
        let program = &lowered.program;
        if let Some(code) = self.recall(program) {
            return Ok((code.clone(), compilation(&code, true)));
        }
        let options = match program.types.len() {
            0..=LONG_PROGRAM => CompileOptions::default(),
            _ => CompileOptions::unoptimised(),
        };
        let code = Arc::new(millstream_jit::compile(program, &options)?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((program.clone(), code.clone()));
        known.truncate(KEPT);
        Ok((code.clone(), compilation(&code, false)))
    }

    fn recall(&self, program: &Program) -> Option<Arc<CompiledPipeline>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(other, _)| other == program)?;
        let found = known.remove(place)?;
        let code = found.1.clone();
        known.push_front(found);
        Some(code)
    }
}

fn compilation(code: &CompiledPipeline, is_reused: bool) -> Compilation {
    let time = if is_reused { Duration::ZERO } else { code.compile_time() };
    Compilation { program: code.name().to_string(), time, code_bytes: code.code_bytes() as u64, is_reused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Collected;
    use crate::{Outcome, RunMonitor, Session};

    /// For each program of a query whether its code was there already.
    fn reused(session: &mut Session, constant: usize) -> Vec<bool> {
        let sql = format!("SELECT a + {constant} FROM (VALUES (1), (2)) AS t (a)");
        let statements = session.parse(&sql).unwrap();
        let mut results = Collected::default();
        match session.execute(&statements[0], &mut results, &RunMonitor::new()).unwrap() {
            Outcome::Ran(stats) => stats.compilations.iter().map(|c| c.is_reused).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_program_is_compiled_once_and_others_push_it_out() {
        let mut session = Session::new(crate::SessionConfig::default());
        session.set("pipeline.tier", "compiled").unwrap();
        assert_eq!([1, 1, 2].map(|n| reused(&mut session, n)), [vec![false], vec![true], vec![false]]);
        (3..KEPT + 3).for_each(|n| assert_eq!(reused(&mut session, n), [false]));
        assert_eq!(reused(&mut session, 1), [false]);
    }
}
