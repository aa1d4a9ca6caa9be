//! Machine code of row programs, kept for queries that need the same again: in the memory of the process, and on disk.
//!
//! Compiling takes tens of milliseconds, and the same statement is often run again: in a notebook, in a test, in a loop of
//! a program, by a command that is started every minute. Code depends on nothing but what its [`CodeKey`] says.

mod background;
mod directory;
mod key;

pub use background::end_compiling;
pub(crate) use directory::CodeDirectory;
pub use directory::user_code_directory;

use background::Background;
use key::CodeKey;
use millstream_codegen::program::{Program, Terminal};
use millstream_jit::{CompileOptions, CompiledPipeline};
use millstream_runtime::{CodeOrigin, Compilation, Compiled, ProgramCompiler};
use millstream_types::{Diagnostic, code};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Programs of more values than this, such as IN lists of thousands, are compiled without optimisation: LLVM's passes
/// take quadratic time for them, minutes rather than milliseconds.
const LONG_PROGRAM: usize = 5_000;
/// What LLVM has in memory for each value of a program while it compiles: measured for programs of thousands of values.
const BYTES_OF_A_VALUE: u64 = 48 << 10;
/// Programs of more values are interpreted for good, unless the query is to wait for code: LLVM takes minutes for them, also
/// without its passes.
const MOST_VALUES: usize = 10_000;
/// The same for updates of a table. The time for them grows with the third power: 3 s for 200 (a hundred sums that can be NULL), 27 s for 400.
const MOST_UPDATES: usize = 200;
/// Programs whose code a process keeps in memory, about 20 kB each; those that were used last.
const KEPT: usize = 256;

/// What LLVM takes for the smallest program, in values of another.
const VALUES_OF_ANY: u64 = 10;
/// What LLVM takes for a value while nothing has been compiled: programs of 0 to 24 values took 13 to 47 ms.
const NANOS_OF_A_VALUE: u64 = 1_300_000;

/// What there is of a program's code.
enum Found {
    /// It is kept.
    Kept(Compiled),
    /// Nothing; perhaps because of a problem with the file.
    Nothing { key: CodeKey, problem: Option<String> },
}

/// Compiles programs and remembers them; one a process.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// The last used first.
    known: Mutex<VecDeque<(CodeKey, Arc<CompiledPipeline>)>>,
    kept: usize,
    /// Mean time of LLVM for a value of a program, of what was compiled lately.
    nanos_of_a_value: AtomicU64,
}

impl Compiler {
    /// The compiler that all sessions share.
    pub(crate) fn of_process() -> Arc<Compiler> {
        static SHARED: OnceLock<Arc<Compiler>> = OnceLock::new();
        SHARED.get_or_init(|| Arc::new(Compiler::new(KEPT))).clone()
    }

    /// A compiler that remembers `kept` programs.
    pub(crate) fn new(kept: usize) -> Compiler {
        Compiler { known: Mutex::default(), kept, nanos_of_a_value: AtomicU64::new(NANOS_OF_A_VALUE) }
    }

    /// Code that is kept, in memory or on disk, or what is known of why there is none.
    fn find(&self, program: &Program, directory: Option<&CodeDirectory>) -> Result<Found, Diagnostic> {
        let key = CodeKey::new(program, &options(program))?;
        if let Some(code) = self.recall(&key) {
            return Ok(Found::Kept(compiled(code, CodeOrigin::Memory, Duration::ZERO, None)));
        }
        let started = Instant::now();
        let problem = match directory.map_or(Ok(None), |directory| directory.read(&key)) {
            Ok(Some(object)) => match millstream_jit::load(&program.name, &object) {
                Ok(code) => {
                    let code = self.remember(key, code);
                    return Ok(Found::Kept(compiled(code, CodeOrigin::Disk, started.elapsed(), None)));
                }
                Err(error) => Some(error.message),
            },
            Err(reason) => Some(reason),
            Ok(None) => None,
        };
        Ok(Found::Nothing { key, problem })
    }

    /// Compiles a program of which nothing was found, unless another query has done so meanwhile.
    fn make(
        &self,
        program: &Program,
        directory: Option<&CodeDirectory>,
        key: CodeKey,
        mut problem: Option<String>,
    ) -> Result<Compiled, Diagnostic> {
        if let Some(code) = self.recall(&key) {
            return Ok(compiled(code, CodeOrigin::Memory, Duration::ZERO, problem));
        }
        let started = Instant::now();
        let object = millstream_jit::generate(program, &options(program))?;
        let code = millstream_jit::load(&program.name, &object)?;
        let time = started.elapsed();
        self.note_time(program, time);
        if let Some(Err(reason)) = directory.map(|directory| directory.write(&key, &object)) {
            problem = Some(reason);
        }
        Ok(compiled(self.remember(key, code), CodeOrigin::Compiled, time, problem))
    }

    /// What LLVM is expected to take for a program.
    fn expected_time(&self, program: &Program) -> Duration {
        Duration::from_nanos(self.nanos_of_a_value.load(Relaxed).saturating_mul(values_of(program)))
    }

    fn note_time(&self, program: &Program, time: Duration) {
        /// One compilation counts as one in so many.
        const SHARE: u64 = 4;
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / values_of(program);
        let before = self.nanos_of_a_value.load(Relaxed);
        // Two threads may overwrite each other: it is an estimate.
        self.nanos_of_a_value.store(before - before / SHARE + nanos / SHARE, Relaxed);
    }

    fn recall(&self, key: &CodeKey) -> Option<Arc<CompiledPipeline>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|(other, _)| other == key)?;
        let found = known.remove(place)?;
        let code = found.1.clone();
        known.push_front(found);
        Some(code)
    }

    /// The code to use from now on: the given one, unless another query was faster.
    fn remember(&self, key: CodeKey, code: CompiledPipeline) -> Arc<CompiledPipeline> {
        if let Some(known) = self.recall(&key) {
            return known;
        }
        let code = Arc::new(code);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_front((key, code.clone()));
        let kept = self.kept.min(known.len());
        let forgotten = known.split_off(kept);
        // Unmapping takes longer than others should wait.
        drop(known);
        drop(forgotten);
        code
    }
}

/// What the time of LLVM grows with.
fn values_of(program: &Program) -> u64 {
    program.types.len() as u64 + VALUES_OF_ANY
}

fn options(program: &Program) -> CompileOptions {
    match program.types.len() {
        0..=LONG_PROGRAM => CompileOptions::default(),
        _ => CompileOptions::unoptimised(),
    }
}

fn compiled(
    code: Arc<CompiledPipeline>,
    origin: CodeOrigin,
    time: Duration,
    cache_problem: Option<String>,
) -> Compiled {
    let (program, code_bytes) = (code.name().to_string(), code.code_bytes() as u64);
    Compiled { kernel: code, compilation: Compilation { program, time, code_bytes, origin, cache_problem } }
}

/// The compiler for one query: with the directory of its session, and an end.
#[derive(Debug)]
pub(crate) struct QueryCompiler {
    compiler: Arc<Compiler>,
    /// Where code is kept on disk, if at all.
    directory: Option<CodeDirectory>,
    /// Bytes that compiling in the background may take.
    memory: u64,
    ended: Arc<AtomicBool>,
}

impl QueryCompiler {
    /// For a query with `memory` bytes, of which compiling in the background may take half: a query is compiled when
    /// its state is smallest.
    pub(crate) fn new(compiler: Arc<Compiler>, directory: Option<CodeDirectory>, memory: u64) -> QueryCompiler {
        QueryCompiler { compiler, directory, memory: memory / 2, ended: Arc::default() }
    }

    /// Machine code of a program that the query waits for: not behind what other queries have in the background.
    pub(crate) fn compile_at_once(&self, program: &Program) -> Result<Compiled, Diagnostic> {
        let directory = self.directory.as_ref();
        match self.compiler.find(program, directory)? {
            Found::Kept(code) => Ok(code),
            Found::Nothing { key, problem } => self.compiler.make(program, directory, key, problem),
        }
    }
}

impl ProgramCompiler for QueryCompiler {
    fn compile(&self, program: &Program) -> Result<Compiled, Diagnostic> {
        let cancelled = || Diagnostic::new(code::CANCELLED, "the query ended before its program was compiled");
        if self.ended.load(Relaxed) {
            return Err(cancelled());
        }
        let values = program.types.len();
        let updates = match &program.terminal {
            Terminal::Update(update) => update.components.len(),
            Terminal::Emit(_) => 0,
        };
        let is_large = values > MOST_VALUES || updates > MOST_UPDATES;
        if is_large || values as u64 * BYTES_OF_A_VALUE > self.memory {
            let message = format!("{} is too large to be compiled beside the query: {values} values", program.name);
            return Err(Diagnostic::new(code::COMPILE_FAILED, message));
        }
        let (key, problem) = match self.compiler.find(program, self.directory.as_ref())? {
            Found::Kept(code) => return Ok(code),
            Found::Nothing { key, problem } => (key, problem),
        };
        let (compiler, directory) = (Arc::clone(&self.compiler), self.directory.clone());
        let program = program.clone();
        let compile = move || compiler.make(&program, directory.as_ref(), key, problem);
        Background::of_process().run(&self.ended, Box::new(compile)).unwrap_or_else(|| Err(cancelled()))
    }

    fn find(&self, program: &Program) -> Option<Compiled> {
        match self.compiler.find(program, self.directory.as_ref()).ok()? {
            Found::Kept(code) => Some(code),
            // What is wrong with a file is told when the program is compiled.
            Found::Nothing { .. } => None,
        }
    }

    fn expected_time(&self, program: &Program) -> Duration {
        self.compiler.expected_time(program)
    }

    fn end(&self) {
        self.ended.store(true, Relaxed);
        Background::of_process().forget(&self.ended);
    }
}

#[cfg(test)]
mod tests;
