//! Whether a result that changes reaches only what can take its rows back.

use super::cures::{WindowCure, windows_over};
use super::extent::Extent;
use super::place::error;
use crate::catalog::Catalog;
use millstream_plan::changes::{Changing, Maker, Refused, changing, check, maker};
use millstream_plan::expr::Span;
use millstream_plan::logical::{Rel, Table};
use millstream_types::{Diagnostic, TakesChanges, code};

/// Refuses operators that get changes and take appended rows only. The query stands at `place`.
pub(super) fn check_operators(rel: &Rel, extent: Extent, place: Span) -> Result<(), Diagnostic> {
    let or = |at: Span| if at == Span::default() { place } else { at };
    check(rel).map_err(|refused| match refused {
        Refused::Changes { operator, at } => {
            error(code::NEEDS_UPDATES, or(at), appended_only(operator, rel)).advise(ways_out(rel, extent))
        }
        Refused::Unstable { call, at } => {
            let of = text(rel);
            let message =
                format!("{call} gives another value each time, so a row of {of} could not be taken back as it was");
            error(code::UNSTABLE_CHANGES, or(at), message)
                .advise(format!("leave {call} out, or apply it when the result is read"))
        }
    })
}

/// Refuses a table that cannot take the changes of a query, or whose primary key does not tell its rows apart.
pub(super) fn check_table(
    catalog: &Catalog,
    table: &Table,
    rel: &Rel,
    extent: Extent,
    place: Span,
) -> Result<(), Diagnostic> {
    let Some(changes) = changing(rel) else { return Ok(()) };
    let (name, of) = (&table.name, text(rel));
    let takes = catalog.takes_changes(table);
    let key = table.written_key();
    if takes == TakesChanges::Nothing {
        let connector = table.options.get("connector").unwrap_or_default();
        let message = format!(
            "the result of {of} changes, and table `{name}` ('connector' = '{connector}') takes rows that are only added"
        );
        let sinks = "write to 'jdbc' or 'upsert-kafka' with a PRIMARY KEY, to 'kafka', 'filesystem' or 'socket' as 'debezium-json', to 'print' or 'blackhole'";
        return Err(error(code::NEEDS_UPDATES, place, message).advise(format!("{sinks}; or {}", ways_out(rel, extent))));
    }
    let schema = table.written();
    let names = |columns: &[usize]| {
        columns.iter().map(|&column| schema.fields[column].name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let told_apart = |changes: &Changing| match changes.key() {
        Some([]) => "there is one row".to_string(),
        Some(key) => format!("its rows are told apart by ({})", names(key)),
        None => "nothing tells its rows apart".into(),
    };
    if key.is_empty() {
        if takes == TakesChanges::Anything {
            return Ok(());
        }
        let message = format!(
            "the result of {of} changes, and table `{name}` has no PRIMARY KEY by which a row could be found again"
        );
        let advice = match changes.key() {
            Some(key @ [_, ..]) => format!("add PRIMARY KEY ({}) NOT ENFORCED to CREATE TABLE {name}", names(key)),
            _ => format!("{}: {}, and declare it as PRIMARY KEY", told_apart(&changes), key_to_select(rel)),
        };
        return Err(error(code::KEY_MISMATCH, place, message).advise(advice));
    }
    if changes.is_unique(&key) {
        return Ok(());
    }
    let message = format!(
        "two rows of the result can have the same PRIMARY KEY ({}) of table `{name}`: {}",
        names(&key),
        told_apart(&changes)
    );
    let advice = match changes.key() {
        Some(key @ [_, ..]) => {
            format!("declare PRIMARY KEY ({}) NOT ENFORCED, or GROUP BY the key of the table", names(key))
        }
        _ => format!("{}, and declare it as PRIMARY KEY", key_to_select(rel)),
    };
    let advice =
        format!("{advice}; or say which row counts: INSERT … ON CONFLICT DO NOTHING, DO DEDUPLICATE or DO ERROR");
    Err(error(code::KEY_MISMATCH, place, message).advise(advice))
}

/// The error for what needs a time of an input: if the input changes, that is why it has none.
pub(super) fn no_times(rel: &Rel, extent: Extent, otherwise: Diagnostic) -> Diagnostic {
    if changing(rel).is_none() {
        return otherwise;
    }
    let error = Diagnostic::new(code::NEEDS_UPDATES, appended_only("a window", rel)).advise(ways_out(rel, extent));
    Diagnostic { place: otherwise.place, ..error }
}

/// What is wrong with an input that changes.
fn appended_only(operator: &str, input: &Rel) -> String {
    format!("{operator} takes rows that are only added, and the result of {} changes", text(input))
}

/// What makes a result change, as it stands in SQL.
fn text(rel: &Rel) -> &'static str {
    maker(rel).map_or("the query", Maker::text)
}

/// How a result gets a key that it lacks.
fn key_to_select(rel: &Rel) -> &'static str {
    match maker(rel) {
        Some(Maker::Rank) => "select the columns of PARTITION BY and the number, which tell rows apart",
        Some(Maker::Join(_)) => {
            "select the keys of both sides (of a source, its PRIMARY KEY; with a WATERMARK its rows are versions), which tell rows apart"
        }
        Some(Maker::Table) => "select the PRIMARY KEY of the table that is read, which tells rows apart",
        Some(Maker::Groups | Maker::Distinct) => "select all columns of GROUP BY, which tell rows apart",
        _ => "select a column that is the same for as long as a row is there",
    }
}

/// How a result comes not to change.
fn ways_out(rel: &Rel, extent: Extent) -> String {
    let WindowCure { from, first } = windows_over(rel);
    let batch = extent.advice();
    match maker(rel) {
        Some(Maker::Join(_)) => format!(
            "bound the times of a join: ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '5' MINUTE AND a.ts + INTERVAL '5' MINUTE, or equate \
             window_start and window_end of both sides; or join a bounded table; or {batch}"
        ),
        Some(Maker::Table) => format!(
            "read insertions only, which are final: leave PRIMARY KEY out of a table of 'debezium-json'; or {batch}"
        ),
        Some(Maker::Rank) => format!(
            "{first}rank within windows, whose rows are final: FROM {from}, and OVER (PARTITION BY window_start, window_end, … ORDER BY …); or \
             {batch}"
        ),
        _ => format!(
            "{first}aggregate in windows, whose results are final: SELECT … FROM {from} GROUP BY window_start, window_end, …; or {batch}"
        ),
    }
}
