//! What a run does, for whoever looks at it from outside while it takes place: graph, EXPLAIN, code.

use crate::explain;
use crate::planned::PreparedRun;
use millstream_codegen::lower::Lowered;
use millstream_codegen::programs::Programs;
use millstream_plan::graph::PlanGraph;
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

/// The code of a program as it is without regard to data: what is in use may be a variant of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramText {
    /// The part of the plan that it belongs to: `pipeline 0`.
    pub part: String,
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

    /// The programs of the parts whose name `is_asked` for, compiled for this: some milliseconds each.
    ///
    /// # Errors
    /// When LLVM refuses one, which is a bug.
    pub fn code(&self, is_asked: impl Fn(&str) -> bool) -> Result<Vec<ProgramText>, Diagnostic> {
        let numbered = |what: &'static str| move |number: usize| format!("{what} {number}");
        let (source, lookup, pipeline, operator) =
            (numbered("source"), numbered("lookup"), numbered("pipeline"), numbered("operator"));
        let Programs { event_times, lookups, pipelines, keyed } = &self.programs;
        let mut parts: Vec<(String, &Arc<Lowered>)> = Vec::new();
        for (i, program) in event_times.iter().enumerate() {
            parts.extend(program.iter().map(|program| (source(i), program)));
        }
        parts.extend(lookups.iter().enumerate().map(|(i, program)| (lookup(i), program)));
        for (i, staged) in pipelines.iter().enumerate() {
            parts.extend(staged.all().map(|program| (pipeline(i), program)));
        }
        for (i, keyed) in keyed.iter().enumerate() {
            parts.extend(keyed.all().map(|program| (operator(i), program)));
        }
        let options = millstream_jit::CompileOptions::default();
        let text = |(part, lowered): (String, &Arc<Lowered>)| {
            let program = &lowered.program;
            let ir = millstream_jit::llvm_ir(program, &options)?;
            let assembly = millstream_jit::assembly(program, &options)?;
            Ok(ProgramText { part, program: program.to_string(), ir, assembly })
        };
        parts.into_iter().filter(|(part, _)| is_asked(part)).map(text).collect()
    }
}
