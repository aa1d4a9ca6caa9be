//! EXPLAIN and EXPLAIN CODEGEN.

use crate::job::Job;
use millstream_plan::explain;
use millstream_plan::logical::Insert;
use millstream_types::Diagnostic;
use std::fmt::Write;

/// The logical plans, the pipelines and, if asked for, the row programs with what LLVM makes of them.
pub(crate) fn explain(inserts: &[Insert], job: &Job, codegen: bool) -> Result<String, Diagnostic> {
    let mut out = String::from("== Logical plan ==\n");
    for insert in inserts {
        out += &explain::logical(insert);
    }
    out += "\n== Pipelines ==\n";
    out += &explain::pipelines(&job.plan);
    if codegen {
        let options = millstream_jit::CompileOptions::default();
        for lowered in job.programs.all() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n== Row program ==\n{}", lowered.program);
            for vector in &lowered.vectors {
                let _ = writeln!(out, "vectorised before it: {}", vector.function.name());
            }
            let _ = write!(out, "\n== LLVM IR ==\n{}", millstream_jit::llvm_ir(&lowered.program, &options)?);
            let _ = write!(out, "\n== Assembly ==\n{}", millstream_jit::assembly(&lowered.program, &options)?);
        }
    }
    Ok(out)
}
