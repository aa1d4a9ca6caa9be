//! What a run does, for whoever looks at it from outside while it takes place: graph, EXPLAIN, code.

use crate::explain;
use crate::planned::PreparedRun;
use millstream_codegen::kernel::Tier;
use millstream_codegen::lower::Lowered;
use millstream_codegen::program::Program;
use millstream_codegen::programs::Programs;
use millstream_codegen::specialise::specialise;
use millstream_plan::graph::PlanGraph;
use millstream_runtime::UsedVariant;
use millstream_types::Diagnostic;
use std::sync::Arc;

/// What a run does. It keeps neither tables nor files.
#[derive(Debug)]
pub struct RunDescription {
    /// Its pipelines.
    pub graph: PlanGraph,
    /// What EXPLAIN prints.
    pub explanation: String,
    programs: Programs<Arc<Lowered>>,
}

/// The code of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramText {
    /// Its name, as in the statistics: `pipeline 0 stage 1`.
    pub name: String,
    /// As it is without regard to data, and the variant that is in use if that is another one.
    pub variants: Vec<VariantText>,
}

/// The code of a variant of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariantText {
    /// As the statistics count them; `None` of one that is not in use.
    pub number: Option<u32>,
    /// How rows go through it; `None` if none do.
    pub tier: Option<Tier>,
    /// What it is specialised for; empty: nothing.
    pub choices: String,
    /// The row program.
    pub program: String,
    /// What LLVM makes of it.
    pub ir: String,
    /// For this machine.
    pub assembly: String,
}

impl RunDescription {
    pub(crate) fn of(run: &PreparedRun) -> Result<RunDescription, Diagnostic> {
        Ok(RunDescription {
            graph: PlanGraph::of(&run.plan, |aggregation| explain::merge_text(&run.config, aggregation)),
            explanation: explain::explain(&run.inserts, run, false)?,
            programs: run.programs.clone(),
        })
    }

    /// The programs, with the variants that the statistics say are in use, compiled for this: some milliseconds each.
    ///
    /// # Errors
    /// When LLVM refuses one, which is a bug.
    pub fn code(&self, used: &[UsedVariant]) -> Result<Vec<ProgramText>, Diagnostic> {
        let text = |lowered: &Arc<Lowered>| {
            let program = &lowered.program;
            let mut used: Vec<&UsedVariant> = used.iter().filter(|used| used.program == program.name).collect();
            // Generic code first.
            used.sort_by_key(|used| (!used.choices.is_generic(), used.number));
            used.dedup_by(|one, other| one.choices == other.choices);
            let mut variants = Vec::new();
            if used.first().is_none_or(|used| !used.choices.is_generic()) {
                variants.push(VariantText::of(program, None)?);
            }
            for used in used {
                variants.push(VariantText::of(program, Some(used))?);
            }
            Ok(ProgramText { name: program.name.clone(), variants })
        };
        self.programs.all().map(text).collect()
    }
}

impl VariantText {
    /// Of the variant that is in use; `None`: of the program itself.
    fn of(program: &Program, used: Option<&UsedVariant>) -> Result<VariantText, Diagnostic> {
        let special = used.filter(|used| !used.choices.is_generic()).map(|used| specialise(program, &used.choices));
        let shown = special.as_ref().unwrap_or(program);
        let options = millstream_jit::CompileOptions::default();
        Ok(VariantText {
            number: used.map(|used| used.number),
            tier: used.map(|used| used.tier),
            choices: used.map(|used| used.purpose(program)).unwrap_or_default(),
            program: shown.to_string(),
            ir: millstream_jit::llvm_ir(shown, &options)?,
            assembly: millstream_jit::assembly(shown, &options)?,
        })
    }
}
