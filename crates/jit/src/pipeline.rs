//! Compiling a program to an object file, and what loading one gives.

use crate::emit::emit;
use crate::error::JitError;
use crate::memory::ObjectMemory;
use crate::options::CompileOptions;
use crate::{host, loader, perf_map};
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::{FileType, TargetMachine};
use millstream_abi::{ExecContext, Status};
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::program::Program;
use millstream_codegen::verify::verify;
use millstream_types::Diagnostic;
use std::fmt;

/// The compiled function: context, first row, row after the last; a [`Status`].
type Run = unsafe extern "C" fn(*mut ExecContext, u64, u64) -> u64;

/// A row program as machine code.
///
/// Owns everything the code needs: dropping it unmaps the code, so nothing may run it then; results that point at its
/// string constants must have been copied.
pub struct CompiledPipeline {
    run: Run,
    /// Where the code is.
    memory: ObjectMemory,
    name: String,
}

/// Compiles a program for this machine to an object file, which holds nothing of this process. Takes milliseconds, so do it
/// off the workers.
pub fn generate(program: &Program, options: &CompileOptions) -> Result<Vec<u8>, Diagnostic> {
    with_module(program, options, |machine, module| listing(machine, module, FileType::Object))
}

/// Loads an object file that [`generate`] has made, in this process or in another with the same [`identity`]. The bytes are
/// trusted: they are code. `name` is that of the program.
pub fn load(name: &str, object: &[u8]) -> Result<CompiledPipeline, Diagnostic> {
    let (memory, address) = loader::load(object, c"run")?;
    // SAFETY: `run` has this signature by construction (`Ir::new`), and the code is alive as long as its memory.
    let run = unsafe { std::mem::transmute::<usize, Run>(address) };
    perf_map::register(name, address, memory.code_bytes());
    Ok(CompiledPipeline { run, memory, name: name.to_string() })
}

/// Compiles a program and loads it.
pub fn compile(program: &Program, options: &CompileOptions) -> Result<CompiledPipeline, Diagnostic> {
    load(&program.name, &generate(program, options)?)
}

/// Everything that the object file of a program depends on but the program: this version of the generator, of LLVM, the kind of
/// machine and the choices, as readable text. Object files are interchangeable exactly between processes where it is the same.
pub fn identity(options: &CompileOptions) -> Result<String, Diagnostic> {
    Ok(host::identity(options)?)
}

/// What becomes of a program that has been checked, emitted and optimised.
fn with_module<T>(
    program: &Program,
    options: &CompileOptions,
    finish: impl FnOnce(&TargetMachine, &Module<'_>) -> Result<T, JitError>,
) -> Result<T, Diagnostic> {
    let context = Context::create();
    let machine = host::machine(options)?;
    verify(program).map_err(JitError::Malformed)?;
    let module = emit(&context, program, &machine)?;
    host::target(&module, &context, options)?;
    module.verify().map_err(|e| JitError::Verification(e.to_string()))?;
    host::optimise(&module, &machine, options)?;
    Ok(finish(&machine, &module)?)
}

/// The machine code of a module, in one of LLVM's forms.
fn listing(machine: &TargetMachine, module: &Module<'_>, form: FileType) -> Result<Vec<u8>, JitError> {
    let buffer = machine.write_to_memory_buffer(module, form).map_err(|e| JitError::Generation(e.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}

/// The LLVM code of a program, as readable text, after the optimisation that `options` ask for.
pub fn llvm_ir(program: &Program, options: &CompileOptions) -> Result<String, Diagnostic> {
    with_module(program, options, |_, module| Ok(module.print_to_string().to_string()))
}

/// The machine code of a program, as assembly text.
pub fn assembly(program: &Program, options: &CompileOptions) -> Result<String, Diagnostic> {
    with_module(program, options, |machine, module| {
        machine.set_asm_verbosity(true);
        Ok(String::from_utf8_lossy(&listing(machine, module, FileType::Assembly)?).into_owned())
    })
}

impl CompiledPipeline {
    /// Bytes of machine code, constants not included.
    pub fn code_bytes(&self) -> usize {
        self.memory.code_bytes()
    }

    /// Name of the program.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Kernel for CompiledPipeline {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        // SAFETY: the caller keeps the contract of `Kernel::run`, which is all that the code relies on.
        Status(unsafe { (self.run)(context, start, end) })
    }

    fn tier(&self) -> Tier {
        Tier::Compiled
    }
}

impl fmt::Debug for CompiledPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledPipeline")
            .field("name", &self.name)
            .field("code_bytes", &self.code_bytes())
            .finish_non_exhaustive()
    }
}
