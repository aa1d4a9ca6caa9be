//! The machine that code is generated for: this one.

use crate::error::JitError;
use crate::options::{CompileOptions, Optimization};
use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions, TargetTriple,
};
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
pub(crate) fn codegen_level(optimization: Optimization) -> OptimizationLevel {
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

/// Says at each function for which CPU it is. MCJIT makes its own description of a machine and reads the CPU from these
/// attributes; `with_features` is for it, since the list is long and readers do not want it.
pub(crate) fn target(
    module: &Module<'_>,
    context: &Context,
    options: &CompileOptions,
    with_features: bool,
) -> Result<(), JitError> {
    let host = host()?;
    let vector_bits = options.vector_bits.to_string();
    let mut attributes = vec![
        ("target-cpu", host.cpu.as_str()),
        ("prefer-vector-width", vector_bits.as_str()),
        // Frames with spilled values are larger than a guard page.
        ("probe-stack", "inline-asm"),
    ];
    if with_features {
        attributes.push(("target-features", host.features.as_str()));
    }
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
