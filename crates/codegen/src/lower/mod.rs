//! Lowering: from a pipeline or a list of expressions to a row program.

mod lowered;

pub use lowered::{Lowered, OutputSource, VectorColumn};

use millstream_plan::expr::Expr;
use millstream_plan::pipeline::QueryPlan;
use millstream_types::{Diagnostic, Schema, code};

/// Lowers pipeline `index` of a plan.
pub fn lower_pipeline(_plan: &QueryPlan, _index: usize) -> Result<Lowered, Diagnostic> {
    Err(Diagnostic::new(code::UNSUPPORTED, "lowering"))
}

/// Lowers expressions over the columns of `inputs` to a program that emits one column each.
pub fn lower_expressions(_name: &str, _inputs: &Schema, _expressions: &[Expr]) -> Result<Lowered, Diagnostic> {
    Err(Diagnostic::new(code::UNSUPPORTED, "lowering"))
}
