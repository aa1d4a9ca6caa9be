//! `FOR SYSTEM_TIME AS OF` an event time: each row of the left with the version of its key that was there at its time.
//!
//! Each row of a table with PRIMARY KEY and WATERMARK is a version of its key. The right side is such a table, or a view that
//! selects columns of it: a filter would leave out versions, and the ones before them would count for longer than they are there.
//! So a condition on the right side is not a filter of it either: it is tested on the version that was found.

use super::super::place::{error, type_name};
use super::super::relation::Relation;
use super::super::scope::{Attribute, Column, Scope};
use super::super::window::in_milliseconds;
use super::pairing::{Pairing, joined};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{JoinKind, JoinStrategy, Rel, Table};
use millstream_types::{DataType, Diagnostic, code};

/// A table whose rows are versions, and which of its columns those of a relation are.
struct Versions<'a> {
    table: &'a Table,
    columns: Vec<Option<usize>>,
}

/// Joins with the versions that are there at `time`, over the columns of the left.
pub(super) fn join(
    left: Relation,
    right: Relation,
    kind: JoinKind,
    pairing: Pairing,
    time: Expr,
    place: Span,
) -> Result<Relation, Diagnostic> {
    let attribute = Scope::of(left.columns.clone()).attribute(&time);
    if !attribute.is_event_time() {
        let message = "FOR SYSTEM_TIME AS OF needs an event time of the left side, and the join there has taken it";
        return Err(error(code::INVALID_WINDOW, time.span, message).advise("make that join after this one"));
    }
    let versions = Versions::of(&right.rel, place)?;
    let right_time = versions.time(&right, place)?;
    versions.check_key(&pairing, place)?;
    if is_local(&time.data_type) != is_local(&right_time.data_type) {
        let message = format!(
            "FOR SYSTEM_TIME AS OF {} cannot find versions by {}",
            type_name(&time.data_type),
            type_name(&right_time.data_type)
        );
        let advice = "both event times are TIMESTAMP, or both TIMESTAMP_LTZ: declare one of them as a computed column";
        return Err(error(code::TYPE_MISMATCH, time.span, message).advise(advice));
    }
    // Rows come when their time has come; other times may have passed by then.
    let width = left.columns.len();
    let stays = |(i, column): (usize, &Column)| match &attribute {
        Attribute::WindowTime(windows) => i < width && column.attribute.belongs_to(windows),
        _ => time.kind == ExprKind::Column(i),
    };
    let stay: Vec<bool> = left.columns.iter().chain(&right.columns).enumerate().map(stays).collect();
    let strategy =
        JoinStrategy::Versioned { left_time: in_milliseconds(time), right_time: in_milliseconds(right_time) };
    let mut joined = joined(left, right, kind, strategy, pairing);
    let passes = joined.columns.iter_mut().zip(stay).filter(|(_, stays)| !stays);
    passes.for_each(|(column, _)| column.attribute = Attribute::None);
    Ok(joined)
}

fn is_local(time: &DataType) -> bool {
    matches!(time, DataType::TimestampLtz(_))
}

impl Versions<'_> {
    fn of(rel: &Rel, place: Span) -> Result<Versions<'_>, Diagnostic> {
        let refused = |message: &str, advice: &str| Err(error(code::INVALID_WINDOW, place, message).advise(advice));
        match rel {
            Rel::Scan { table, .. } => Versions::of_table(table, place),
            Rel::Common(common) => Versions::of(common.rel(), place),
            Rel::Project { input, columns } => {
                let below = Versions::of(input, place)?;
                let column = |(expr, _): &(Expr, String)| match expr.kind {
                    ExprKind::Column(i) => below.columns[i],
                    _ => None,
                };
                Ok(Versions { table: below.table, columns: columns.iter().map(column).collect() })
            }
            Rel::Filter { .. } => refused(
                "FOR SYSTEM_TIME AS OF an event time cannot look into a filtered table: the versions before those that are left out \
                 would count for longer than they are there",
                "join the table itself, and test the condition in ON or WHERE of the join",
            ),
            _ => refused(
                "FOR SYSTEM_TIME AS OF an event time needs a versioned table, not the result of a query",
                "join a table that has a PRIMARY KEY and a WATERMARK, or a view that selects columns of one",
            ),
        }
    }

    fn of_table(table: &Table, place: Span) -> Result<Versions<'_>, Diagnostic> {
        let refused = |lacks: &str, what: &str, add: &str| {
            let message = format!(
                "`{}` is not a versioned table: it has no {lacks}, which says {what} (FOR SYSTEM_TIME AS OF an event time)",
                table.name
            );
            let advice = format!(
                "add {add} to CREATE TABLE {}, or join AS OF a processing time to look rows up in a bounded table",
                table.name
            );
            Err(error(code::INVALID_WINDOW, place, message).advise(advice))
        };
        if table.primary_key.is_empty() {
            return refused("PRIMARY KEY", "of what a row is a version", "PRIMARY KEY (k) NOT ENFORCED");
        }
        if table.watermark.is_none() {
            return refused(
                "WATERMARK",
                "from when on a version counts",
                "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
            );
        }
        Ok(Versions { table, columns: (0..table.columns.len()).map(Some).collect() })
    }

    fn name(&self, column: usize) -> &str {
        &self.table.columns[column].field.name
    }

    /// When a version begins, over the columns of the relation.
    fn time(&self, right: &Relation, place: Span) -> Result<Expr, Diagnostic> {
        let time = self.table.watermark.as_ref().map(|watermark| watermark.column);
        match self.columns.iter().position(|column| column.is_some() && *column == time) {
            Some(column) => Ok(Scope::of(right.columns.clone()).column(column, place)),
            None => {
                let name = time.map_or("the event time", |time| self.name(time));
                let message =
                    format!("the view of `{}` lacks `{name}`, from which on a version counts", self.table.name);
                Err(error(code::INVALID_WINDOW, place, message).advise(format!("select `{name}` in the view")))
            }
        }
    }

    /// Checks that rows are joined by the whole key, so that one version at most is found.
    fn check_key(&self, pairing: &Pairing, place: Span) -> Result<(), Diagnostic> {
        let compared: Vec<usize> = pairing.equalities.iter().filter_map(|e| self.column_of(&e.right)).collect();
        let Some(missing) = self.table.primary_key.iter().find(|key| !compared.contains(key)) else { return Ok(()) };
        let key: Vec<&str> = self.table.primary_key.iter().map(|&column| self.name(column)).collect();
        let message = format!(
            "FOR SYSTEM_TIME AS OF an event time needs the whole PRIMARY KEY ({}) of `{}` in equalities of ON",
            key.join(", "),
            self.table.name
        );
        let advice = format!("compare a value of the left side with `{}` itself", self.name(*missing));
        Err(error(code::INVALID_WINDOW, place, message).advise(advice))
    }

    /// The table's column that an expression is, perhaps of a wider type.
    fn column_of(&self, expr: &Expr) -> Option<usize> {
        match &expr.kind {
            ExprKind::Column(i) => self.columns[*i],
            ExprKind::Cast { operand, .. } if is_wider(&operand.data_type, &expr.data_type) => self.column_of(operand),
            _ => None,
        }
    }
}

/// Whether all values of a type have others of another one.
fn is_wider(from: &DataType, to: &DataType) -> bool {
    from == to
        || from.is_integer() && (to.is_integer() || matches!(to, DataType::Decimal { .. }))
        || from.is_string() && to.is_string()
}
