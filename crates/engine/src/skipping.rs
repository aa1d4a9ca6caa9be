//! What decoders may leave out: the filters at the head of all pipelines that read a source, and the columns that every
//! row needs anyway.

use millstream_codegen::head::{Head, columns, columns_of_vectors, head};
use millstream_codegen::lower::Lowered;
use millstream_codegen::programs::Programs;
use millstream_plan::expr::ExprKind;
use millstream_plan::pipeline::{QueryPlan, SourcePlan, WatermarkRule};
use millstream_runtime::{HeadCode, HeadCondition, PipelineCode};
use millstream_types::Diagnostic;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The filters at the head of what reads a source, with what executes them; `None` if a pipeline has none there, or if they
/// and what comes before them need all columns.
pub(crate) fn head_code(
    plan: &QueryPlan,
    programs: &Programs<Arc<Lowered>>,
    number: usize,
    code: &mut dyn FnMut(&Arc<Lowered>) -> Result<PipelineCode, Diagnostic>,
) -> Result<Option<HeadCode>, Diagnostic> {
    let source = &plan.sources[number];
    let mut needed = columns_of_time(source, programs.event_times[number].as_deref());
    let is_in_record = |column: &usize| source.columns[*column].in_record.is_some();
    needed.extend((0..source.columns.len()).filter(is_in_record));
    let mut heads = Vec::new();
    for first in programs.first_stages(plan, number) {
        let Some(Head { condition, columns }) = head(first, source.columns.len()) else { return Ok(None) };
        needed.extend(&columns);
        needed.extend(columns_of_vectors(first).into_iter().filter(|column| *column < source.columns.len()));
        heads.push((condition, columns));
    }
    if heads.is_empty() || needed.len() == source.columns.len() {
        return Ok(None);
    }
    let mut conditions = Vec::with_capacity(heads.len());
    for (condition, columns) in heads {
        conditions.push(HeadCondition { code: code(&Arc::new(condition))?, columns });
    }
    Ok(Some(HeadCode { columns: needed.into_iter().collect(), conditions }))
}

/// The columns that a source's event time and watermark are made of, by `program` where they are computed.
fn columns_of_time(source: &SourcePlan, program: Option<&Lowered>) -> BTreeSet<usize> {
    let mut needed = program.map(columns).unwrap_or_default();
    if let Some(watermark) = source.watermark.as_ref().filter(|w| w.rule != WatermarkRule::ProcessingTime)
        && let ExprKind::Column(time) = watermark.time.kind
    {
        needed.insert(time);
    }
    needed
}
