//! Where a function that gives another value each time must not stand.
//!
//! Operators with state find rows again by keys and times: a row whose key is computed anew after a recovery, or by another worker, would
//! be another row. So keys, times and conditions of joins, windows, groups and ranks must not come from such a function; what is
//! only passed on, filtered or aggregated may.

use crate::expr::{Expr, ExprKind};
use crate::logical::{ColumnKind, Rel, TableColumn};
use millstream_types::{Diagnostic, Place, code};

/// For each column the name of the function that it comes from.
type Origins = Vec<Option<String>>;

/// Fails if a key or time comes from such a function.
pub fn check(rel: &Rel) -> Result<(), Diagnostic> {
    origins(rel).map(drop)
}

fn origins(rel: &Rel) -> Result<Origins, Diagnostic> {
    let inputs = rel.inputs().into_iter().map(origins).collect::<Result<Vec<_>, _>>()?;
    let width = rel.schema().fields.len();
    let mut columns: Origins = inputs.concat();
    match rel {
        Rel::Scan { table, .. } => {
            let of = |column: &TableColumn| match &column.kind {
                ColumnKind::Computed(expr) => expr.unstable_function(),
                _ => None,
            };
            columns = table.columns.iter().map(of).collect();
            refuse("a watermark", table.watermark.iter().map(|watermark| &watermark.expression), &columns)?;
        }
        Rel::Project { columns: made, .. } => return Ok(made.iter().map(|(expr, _)| origin(expr, &columns)).collect()),
        Rel::Windowed { time, partition, .. } => {
            refuse("the time of a window", [time], &columns)?;
            refuse("PARTITION BY", partition, &columns)?;
        }
        Rel::Aggregate { window, keys, .. } => {
            refuse("GROUP BY", keys.iter().map(|(key, _)| key), &columns)?;
            refuse("the time of a window", window.time.iter().chain(&window.start), &columns)?;
            columns = keys.iter().map(|_| None).collect();
        }
        Rel::Join { strategy, keys, residual, .. } => {
            let (left, right) = (&inputs[0], &inputs[1]);
            let times = strategy.times();
            refuse("a join", keys.iter().map(|(key, _)| key).chain(times.map(|(time, _)| time)), left)?;
            refuse("a join", keys.iter().map(|(_, key)| key).chain(times.map(|(_, time)| time)), right)?;
            refuse("a join", residual, &columns)?;
        }
        Rel::Rank { time, partition, order, .. } => {
            refuse("the time of a rank", time, &columns)?;
            refuse("PARTITION BY", partition, &columns)?;
            refuse("ORDER BY", order.iter().map(|key| &key.expr), &columns)?;
        }
        Rel::Sort { keys, .. } => refuse("ORDER BY", keys.iter().map(|key| &key.expr), &columns)?,
        Rel::Over { time, partition, .. } => {
            refuse("the time of OVER", time, &columns)?;
            refuse("PARTITION BY", partition, &columns)?;
        }
        Rel::Union { .. } => {
            let of = |column: usize| inputs.iter().find_map(|input| input.get(column).cloned().flatten());
            columns = (0..width).map(of).collect();
        }
        _ => {}
    }
    columns.resize(width, None);
    Ok(columns)
}

/// The function that a value comes from.
fn origin(expr: &Expr, columns: &[Option<String>]) -> Option<String> {
    let mut found = expr.unstable_function();
    expr.walk(&mut |e| {
        if let ExprKind::Column(column) = e.kind
            && found.is_none()
        {
            found = columns.get(column).cloned().flatten();
        }
    });
    found
}

fn refuse<'a>(
    place: &str,
    exprs: impl IntoIterator<Item = &'a Expr>,
    columns: &[Option<String>],
) -> Result<(), Diagnostic> {
    for expr in exprs {
        let Some(function) = origin(expr, columns) else { continue };
        let message = format!("{function} gives another value each time, and {place} needs the same one for a row");
        let error = Diagnostic::new(code::UNSUPPORTED, message);
        let error = error.advise("write its result to a table first, or declare the function deterministic if it is");
        let span = expr.span;
        return Err(match span.line > 0 {
            true => error.at(Place::Sql {
                line: span.line.into(),
                column: span.column.into(),
                length: span.length.max(1).into(),
            }),
            false => error,
        });
    }
    Ok(())
}
