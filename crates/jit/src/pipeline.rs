//! Compiling a program, and what comes out.

use crate::emit::{emit, runtime_symbol};
use crate::error::JitError;
use crate::memory::{CodeLocation, ModuleMemory};
use crate::options::CompileOptions;
use crate::{host, perf_map, runtime};
use inkwell::context::Context;
use inkwell::execution_engine::ExecutionEngine;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, FileType};
use millstream_abi::{ExecContext, RuntimeFn, Status};
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::program::Program;
use millstream_codegen::verify::verify;
use millstream_types::Diagnostic;
use std::fmt;
use std::time::{Duration, Instant};

/// The compiled function: context, first row, row after the last; a [`Status`].
type Run = unsafe extern "C" fn(*mut ExecContext, u64, u64) -> u64;

/// A row program as machine code.
///
/// Owns everything the code needs: dropping it unmaps the code, so nothing may run it then; results that point at its
/// string constants must have been copied.
pub struct CompiledPipeline {
    run: Run,
    /// Owns the module and, through its memory manager, the code. Dropped before the context it lives in. Never used
    /// after construction.
    _engine: ExecutionEngine<'static>,
    /// The context of the module.
    _context: OwnedContext,
    name: String,
    compile_time: Duration,
    code_bytes: usize,
}

/// A context at an address that stays the same while the engine borrows it.
struct OwnedContext(*mut Context);

impl OwnedContext {
    fn new() -> OwnedContext {
        OwnedContext(Box::into_raw(Box::new(Context::create())))
    }

    /// # Safety
    /// Everything made from the reference is dropped before `self`.
    unsafe fn borrow(&self) -> &'static Context {
        // SAFETY: the pointer came from a box that `drop` alone frees.
        unsafe { &*self.0 }
    }
}

impl Drop for OwnedContext {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, freed once; the promise at `borrow` says that nobody refers to it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

// SAFETY: `run` is code without state of its own. Engine and context are touched at construction and at drop only, by one
// thread at a time, and share nothing with other compilations, since each has its own context; their reference counts
// have no other holders, because no clone leaves `compile`.
unsafe impl Send for CompiledPipeline {}
// SAFETY: as above; through a shared reference only `run` and plain values can be reached.
unsafe impl Sync for CompiledPipeline {}

/// Compiles a program for this machine. Takes milliseconds, so do it off the workers.
pub fn compile(program: &Program, options: &CompileOptions) -> Result<CompiledPipeline, Diagnostic> {
    Ok(compile_program(program, options)?)
}

fn compile_program(program: &Program, options: &CompileOptions) -> Result<CompiledPipeline, JitError> {
    let started = Instant::now();
    let owned = OwnedContext::new();
    // SAFETY: module and engine are locals below `owned` or fields before it, so they are dropped first.
    let context = unsafe { owned.borrow() };
    let module = optimised_module(context, program, options, true)?;
    let location = CodeLocation::default();
    let memory = ModuleMemory::reserve(location.clone())
        .ok_or_else(|| JitError::Generation("the system gives no memory for code".into()))?;
    let engine = module
        .create_mcjit_execution_engine_with_memory_manager(
            memory,
            host::codegen_level(options.optimization),
            // The large code model: MCJIT generates code that is not position-independent, so that 32-bit addresses
            // would not reach memory that is mapped just anywhere.
            CodeModel::JITDefault,
            // Frame pointers cost next to nothing here and let profilers walk the stack.
            true,
            false,
        )
        .map_err(|e| JitError::Generation(e.to_string()))?;
    link(&module, &engine);
    let address = engine.get_function_address("run").map_err(|e| JitError::Generation(e.to_string()))?;
    // SAFETY: `run` has this signature by construction (`Ir::new`), and the code is alive as long as the engine.
    let run = unsafe { std::mem::transmute::<usize, Run>(address) };
    let code_bytes = location.get().map_or(0, |&(_, bytes)| bytes);
    perf_map::register(&program.name, address, code_bytes);
    drop(module);
    Ok(CompiledPipeline {
        run,
        _engine: engine,
        _context: owned,
        name: program.name.clone(),
        compile_time: started.elapsed(),
        code_bytes,
    })
}

/// Checks a program, emits and optimises it.
fn optimised_module<'c>(
    context: &'c Context,
    program: &Program,
    options: &CompileOptions,
    with_features: bool,
) -> Result<Module<'c>, JitError> {
    verify(program).map_err(JitError::Malformed)?;
    let machine = host::machine(options)?;
    let module = emit(context, program, &machine)?;
    host::target(&module, context, options, with_features)?;
    module.verify().map_err(|e| JitError::Verification(e.to_string()))?;
    host::optimise(&module, &machine, options)?;
    Ok(module)
}

/// Tells the engine where the functions that the code calls are.
fn link(module: &Module<'_>, engine: &ExecutionEngine<'_>) {
    for support in runtime::all() {
        if let Some(function) = module.get_function(support.name) {
            engine.add_global_mapping(&function, support.address);
        }
    }
    for &function in RuntimeFn::ALL {
        if let Some(declaration) = module.get_function(&runtime_symbol(function)) {
            engine.add_global_mapping(&declaration, millstream_functions::address(function) as usize);
        }
    }
}

/// The LLVM code of a program, as readable text, after the optimisation that `options` ask for.
pub fn llvm_ir(program: &Program, options: &CompileOptions) -> Result<String, Diagnostic> {
    let context = Context::create();
    Ok(optimised_module(&context, program, options, false)?.print_to_string().to_string())
}

/// The machine code of a program, as assembly text.
pub fn assembly(program: &Program, options: &CompileOptions) -> Result<String, Diagnostic> {
    let context = Context::create();
    let module = optimised_module(&context, program, options, false)?;
    let machine = host::machine(options)?;
    machine.set_asm_verbosity(true);
    let text =
        machine.write_to_memory_buffer(&module, FileType::Assembly).map_err(|e| JitError::Generation(e.to_string()))?;
    Ok(String::from_utf8_lossy(text.as_slice()).trim_end_matches('\0').to_string())
}

impl CompiledPipeline {
    /// Time from the program to the function pointer.
    pub fn compile_time(&self) -> Duration {
        self.compile_time
    }

    /// Bytes of machine code, constants not included.
    pub fn code_bytes(&self) -> usize {
        self.code_bytes
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
            .field("compile_time", &self.compile_time)
            .field("code_bytes", &self.code_bytes)
            .finish_non_exhaustive()
    }
}
