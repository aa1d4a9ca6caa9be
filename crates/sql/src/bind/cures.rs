//! What to write instead of a query whose result would have to be updated, with the names of the query at hand.

use millstream_plan::expr::ExprKind;
use millstream_plan::logical::{ColumnKind, Rel};

/// A window table function over the first table that a relation reads, and what that table lacks for it.
pub(super) struct WindowCure {
    /// `TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)`
    pub from: String,
    /// What to do first, if the table has no time attribute: it ends in `then `.
    pub first: String,
}

/// The windows that a query of this relation could have.
pub(super) fn windows_over(rel: &Rel) -> WindowCure {
    let tables = rel.tables();
    let Some(table) = tables.first() else {
        return WindowCure {
            from: "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)".into(),
            first: String::new(),
        };
    };
    let processing = |c: &&millstream_plan::logical::TableColumn| matches!(&c.kind, ColumnKind::Computed(e) if matches!(e.kind, ExprKind::ProcessingTime));
    let event = table.watermark.as_ref().map(|watermark| table.columns[watermark.column].field.name.as_str());
    let time = event.or_else(|| table.columns.iter().find(processing).map(|c| c.field.name.as_str()));
    let name = &table.name;
    let from = format!("TUMBLE(TABLE {name}, DESCRIPTOR({}), INTERVAL '1' MINUTE)", time.unwrap_or("proctime"));
    let first = match time {
        Some(_) => String::new(),
        None => format!("add the column proctime AS PROCTIME() to CREATE TABLE {name}, then "),
    };
    WindowCure { from, first }
}
