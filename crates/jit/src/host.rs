//! The machine that code is generated for: this one.

use crate::error::JitError;
use crate::options::{CompileOptions, Optimization};
use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::llvm_sys::core::LLVMDisposeMessage;
use inkwell::llvm_sys::target_machine::{
    LLVMCodeGenOptLevel, LLVMCodeModel, LLVMCreateTargetMachine, LLVMGetTargetFromTriple, LLVMRelocMode,
    LLVMTargetMachineRef,
};
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions, TargetTriple,
};
use std::ffi::CString;
use std::ptr;
use std::sync::OnceLock;

/// Gathers and scatters bring no more elements a cycle than single loads, and vectorised loops are better off with wide
/// loads and shuffles, which LLVM chooses when it is told so.
const X86_TUNING: &str = ",+prefer-no-gather,+prefer-no-scatter";

/// What LLVM says about the CPU; asked once, because it takes longer than a small compilation.
struct Host {
    triple: String,
    cpu: String,
    features: String,
}

/// Has a function called when the process exits, before LLVM's static objects are destroyed that are there now.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: a function without arguments, which is code and so stays; what cannot be registered is not called.
    unsafe { libc::atexit(function) };
}

fn host() -> Result<&'static Host, JitError> {
    static HOST: OnceLock<Result<Host, String>> = OnceLock::new();
    HOST.get_or_init(|| {
        Target::initialize_native(&InitializationConfig::default())?;
        Ok(Host {
            triple: TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned(),
            cpu: TargetMachine::get_host_cpu_name().to_string(),
            features: TargetMachine::get_host_cpu_features().to_string()
                + if cfg!(target_arch = "x86_64") { X86_TUNING } else { "" },
        })
    })
    .as_ref()
    .map_err(|e| JitError::Target(e.clone()))
}

/// LLVM's effort in instruction selection, scheduling and register allocation.
fn codegen_level(optimization: Optimization) -> OptimizationLevel {
    match optimization {
        Optimization::None => OptimizationLevel::None,
        Optimization::Less => OptimizationLevel::Less,
        Optimization::Full => OptimizationLevel::Default,
    }
}

/// A description of this machine for LLVM.
pub(crate) fn machine(options: &CompileOptions) -> Result<TargetMachine, JitError> {
    let host = host()?;
    let triple = TargetTriple::create(&host.triple);
    let target = Target::from_triple(&triple).map_err(|e| JitError::Target(e.to_string()))?;
    let machine_options = TargetMachineOptions::new()
        .set_cpu(&host.cpu)
        .set_features(&host.features)
        .set_level(codegen_level(options.optimization))
        .set_reloc_mode(RelocMode::PIC)
        .set_code_model(CodeModel::Small);
    target
        .create_target_machine_from_options(&triple, machine_options)
        .ok_or_else(|| JitError::Target(format!("LLVM has no target machine for {}", host.triple)))
}

/// A machine of this kind, without what this very one can do: to link code, not to generate any. The caller owns it.
pub(crate) fn plain_machine() -> Result<LLVMTargetMachineRef, JitError> {
    let unknown = || JitError::Target("LLVM does not know this kind of machine".into());
    let triple = CString::new(host()?.triple.as_str()).map_err(|_| unknown())?;
    let mut target = ptr::null_mut();
    let mut message = ptr::null_mut();
    // SAFETY: the texts end in 0; the target is used only if the call has set it. Its message, too, is the caller's.
    let machine = unsafe {
        if LLVMGetTargetFromTriple(triple.as_ptr(), &raw mut target, &raw mut message) != 0 {
            LLVMDisposeMessage(message);
            return Err(unknown());
        }
        LLVMCreateTargetMachine(
            target,
            triple.as_ptr(),
            c"".as_ptr(),
            c"".as_ptr(),
            LLVMCodeGenOptLevel::LLVMCodeGenLevelNone,
            LLVMRelocMode::LLVMRelocPIC,
            LLVMCodeModel::LLVMCodeModelSmall,
        )
    };
    if machine.is_null() { Err(unknown()) } else { Ok(machine) }
}

/// The version of LLVM that compiles queries: `19.1.7`.
pub fn llvm_version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}

/// Everything but the program that its code depends on, as text.
pub(crate) fn identity(options: &CompileOptions) -> Result<String, JitError> {
    let host = host()?;
    Ok(format!(
        "millstream {} {}\nllvm {}\n{} {} {}\n{options:?}",
        env!("CARGO_PKG_VERSION"),
        env!("MILLSTREAM_GENERATOR"),
        llvm_version(),
        host.triple,
        host.cpu,
        host.features
    ))
}

/// Says at each function what LLVM is to do for this machine.
pub(crate) fn target(module: &Module<'_>, context: &Context, options: &CompileOptions) -> Result<(), JitError> {
    let host = host()?;
    let vector_bits = options.vector_bits.to_string();
    let attributes = [
        ("target-cpu", host.cpu.as_str()),
        ("prefer-vector-width", vector_bits.as_str()),
        // Frames with spilled values are larger than a guard page.
        ("probe-stack", "inline-asm"),
        // They cost next to nothing here and let profilers walk the stack.
        ("frame-pointer", "all"),
    ];
    for function in module.get_functions().filter(|f| f.count_basic_blocks() > 0) {
        for (key, value) in &attributes {
            function.add_attribute(AttributeLoc::Function, context.create_string_attribute(key, value));
        }
    }
    Ok(())
}

/// Runs LLVM's optimiser.
pub(crate) fn optimise(module: &Module<'_>, machine: &TargetMachine, options: &CompileOptions) -> Result<(), JitError> {
    let passes = match options.optimization {
        Optimization::None => return Ok(()),
        Optimization::Less => "default<O1>",
        Optimization::Full => "default<O2>",
    };
    let settings = PassBuilderOptions::create();
    let vectorise = options.optimization == Optimization::Full;
    settings.set_loop_vectorization(vectorise);
    settings.set_loop_slp_vectorization(vectorise);
    settings.set_loop_interleaving(vectorise);
    settings.set_loop_unrolling(vectorise);
    module.run_passes(passes, machine, settings).map_err(|e| JitError::Generation(e.to_string()))
}
