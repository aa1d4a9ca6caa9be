//! All programs of a plan: those of its sources, pipelines, lookup tables and keyed operators.

use super::keyed::{ByKey, KeyedPrograms};
use super::lowered::Lowered;
use super::{
    changes, changing_join, count, group, interval_join, lookup, lower_pipeline, lower_source, over, rank,
    regular_join, session, top, versioned_join, window_join,
};
use crate::partition::partition;
use crate::program::{FilterShape, Program};
use crate::programs::{Partitioned, Programs, Staged, Tables};
use crate::specialise::shaped;
use millstream_plan::pipeline::{KeyedKind, QueryPlan, SourcePlan, WatermarkRule, event_time_columns};
use millstream_types::Diagnostic;
use millstream_types::text::zone::Zone;
use std::sync::Arc;

/// Lowers everything that a run may need whose aggregations have such `tables`. All filters of pipelines get the shape, if one is given.
pub fn lower_plan(
    plan: &QueryPlan,
    tables: Tables,
    shape: Option<FilterShape>,
) -> Result<Programs<Arc<Lowered>>, Diagnostic> {
    let sources = plan.sources.iter().enumerate();
    let lookups = plan.lookups.iter().enumerate();
    let operators = plan.operators.iter().enumerate();
    Ok(Programs {
        event_times: sources.map(|(i, s)| event_time(i, s, plan.time_zone)).collect::<Result<_, _>>()?,
        pipelines: (0..plan.pipelines.len()).map(|i| staged(plan, i, tables, shape)).collect::<Result<_, _>>()?,
        lookups: lookups.map(|(i, table)| lookup::keys_of_table(i, table)).collect::<Result<_, _>>()?,
        keyed: operators.map(|(index, operator)| keyed(&ByKey { index, operator })).collect::<Result<_, _>>()?,
    })
}

/// The program of a source's event time and watermark, if they are not plain columns.
fn event_time(index: usize, source: &SourcePlan, zone: Zone) -> Result<Option<Arc<Lowered>>, Diagnostic> {
    let Some(watermark) = &source.watermark else { return Ok(None) };
    let Some(columns) = event_time_columns(watermark) else { return Ok(None) };
    let time = columns.time.map(|_| watermark.time.clone());
    let rule = match &watermark.rule {
        WatermarkRule::Expression(rule) => Some(rule.clone()),
        WatermarkRule::Delay(_) | WatermarkRule::ProcessingTime => None,
    };
    let exprs: Vec<_> = time.into_iter().chain(rule).collect();
    let name = format!("event time of source {index}");
    lower_source(&name, &source.columns, &exprs, zone).map(|lowered| Some(Arc::new(lowered)))
}

fn staged(
    plan: &QueryPlan,
    index: usize,
    tables: Tables,
    shape: Option<FilterShape>,
) -> Result<Staged<Arc<Lowered>>, Diagnostic> {
    let shaped = |lowered: Lowered| match shape {
        Some(shape) => Lowered { program: shaped(&lowered.program, shape), ..lowered },
        None => lowered,
    };
    let (stages, flat_maps) = lower_pipeline(plan, index)?;
    let stages: Vec<Arc<Lowered>> = stages.into_iter().map(shaped).map(Arc::new).collect();
    let (mut partitioned, mut shared) = (None, None);
    match (tables, stages.last()) {
        (Tables::Partitioned, Some(last)) => {
            partitioned = partition(last)?
                .map(|halves| Partitioned { scatter: Arc::new(halves.scatter), fold: Arc::new(halves.fold) });
        }
        (Tables::Shared, Some(last)) => {
            shared = last.program.shared().map(|program| {
                // Statistics tell the two apart by their names.
                let name = format!("{}, shared tables", program.name);
                Arc::new(Lowered { program: Program { name, ..program }, ..Lowered::clone(last) })
            });
        }
        (Tables::Own, _) | (_, None) => {}
    }
    Ok(Staged { stages, flat_maps, partitioned, shared })
}

fn keyed(by_key: &ByKey<'_>) -> KeyedPrograms {
    match &by_key.operator.kind {
        KeyedKind::WindowJoin(_) => window_join::lower(by_key),
        KeyedKind::IntervalJoin(_) => interval_join::lower(by_key),
        KeyedKind::RegularJoin(_) => regular_join::lower(by_key),
        KeyedKind::VersionedJoin(_) => versioned_join::lower(by_key),
        KeyedKind::Rank(_) => rank::lower(by_key),
        KeyedKind::Over(_) => over::lower(by_key),
        KeyedKind::Sessions(_) => session::lower(by_key),
        KeyedKind::CountWindows(_) => count::lower(by_key),
        KeyedKind::Group(_) => group::lower(by_key),
        KeyedKind::Top(_) => top::lower(by_key),
        KeyedKind::ChangingJoin(_) => changing_join::lower(by_key),
        KeyedKind::Changes(_) => changes::lower(by_key),
    }
}
