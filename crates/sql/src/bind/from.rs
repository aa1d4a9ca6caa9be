//! FROM: tables, views, subqueries and window table functions.

use super::changelog::current_rows;
use super::place::{error, name_parts, span_of, span_of_path, unsupported};
use super::query::QueryBinder;
use super::relation::{Relation, rename};
use super::scope::{Attribute, Column};
use super::window_kind::{WindowKind, is_window_function};
use crate::catalog;
use crate::diagnostics::nearest;
use crate::foreign::table_call_cure;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{ColumnKind, Rel, Table};
use millstream_types::{Diagnostic, Field, code};
use sqlparser::ast;
use std::sync::Arc;

impl QueryBinder<'_> {
    /// A single table of FROM; `versioned` where `FOR SYSTEM_TIME AS OF` can stand.
    pub(super) fn table_factor(&mut self, factor: &ast::TableFactor, versioned: bool) -> Result<Relation, Diagnostic> {
        let span = span_of(factor);
        let (mut relation, alias) = match factor {
            ast::TableFactor::Table { name, alias, args, version, sample, partitions, .. } => {
                if version.is_some() && !versioned {
                    let feature = "FOR SYSTEM_TIME AS OF outside of a join";
                    return Err(unsupported(feature, span, "write stream JOIN t FOR SYSTEM_TIME AS OF stream.ts"));
                }
                if sample.is_some() || !partitions.is_empty() {
                    let share = sample.as_ref().and_then(sample_share).unwrap_or(0.1);
                    let feature = if sample.is_some() { "TABLESAMPLE" } else { "PARTITION (…)" };
                    let advice = format!("filter instead: SELECT * FROM {name} WHERE RAND() < {share}");
                    return Err(unsupported(feature, span, &advice));
                }
                let relation = match args {
                    Some(args) => self.table_function(name, &args.args, span_of(name))?,
                    None => {
                        let wrong = || error(code::SYNTAX, span_of(name), "expected the name of a table");
                        self.named_relation(&name_parts(name).ok_or_else(wrong)?)?
                    }
                };
                (relation, alias)
            }
            ast::TableFactor::Derived { lateral, subquery, alias, sample } => {
                if *lateral || sample.is_some() {
                    return Err(unsupported("LATERAL or TABLESAMPLE", span, "remove the word"));
                }
                let mut relation = self.query(subquery, false)?;
                relation.columns.iter_mut().for_each(|c| c.qualifier = Arc::default());
                (relation, alias)
            }
            ast::TableFactor::TableFunction { expr: ast::Expr::Function(function), alias } => {
                let arguments = match &function.args {
                    ast::FunctionArguments::List(list) => list.args.as_slice(),
                    _ => &[],
                };
                (self.table_function(&function.name, arguments, span_of(&function.name))?, alias)
            }
            ast::TableFactor::Function { lateral: true, name, .. } => {
                let advice = "elements of an array become rows by FROM t CROSS JOIN UNNEST(t.list) AS u (element)";
                return Err(unsupported(&format!("LATERAL {name}(…)"), span, advice));
            }
            ast::TableFactor::MatchRecognize { .. } => {
                let advice = "for one event behind another, join the table with itself";
                return Err(unsupported("MATCH_RECOGNIZE", span, advice));
            }
            _ => return Err(unsupported("this kind of table", span, "select from a table, a view or a subquery")),
        };
        if let Some(alias) = alias {
            rename(&mut relation.columns, alias)?;
        }
        Ok(relation)
    }

    fn table_function(
        &mut self,
        name: &ast::ObjectName,
        arguments: &[ast::FunctionArg],
        place: Span,
    ) -> Result<Relation, Diagnostic> {
        let upper = name.to_string().to_ascii_uppercase();
        if is_window_function(&upper) {
            return self.window_table(&upper, arguments, place);
        }
        let message = format!("unknown table function `{name}`");
        let texts: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let near = || nearest(&upper, WindowKind::names()).map(|near| format!("did you mean {near}?"));
        let advice = table_call_cure(&upper, &texts).or_else(near).unwrap_or_else(|| {
            "the table functions are TUMBLE, HOP, CUMULATE, SESSION, COUNT_TUMBLE and COUNT_HOP; a file is read by FROM 'path'".into()
        });
        Err(error(code::UNKNOWN_FUNCTION, place, message).advise(advice))
    }

    /// A query of WITH, a table or a view.
    pub(super) fn named_relation(&mut self, name: &[ast::Ident]) -> Result<Relation, Diagnostic> {
        let span = span_of_path(name);
        if let [single] = name
            && let Some(relation) = self.common_table(&single.value, span)
        {
            let mut relation = relation?;
            qualify(&mut relation, [single.value.clone()]);
            return Ok(relation);
        }
        let qualifier = |local: &str| {
            let is_file = name.iter().any(catalog::is_path);
            let local = if is_file { catalog::file_stem(local) } else { local };
            ["default_catalog".into(), "default_database".into(), local.to_owned()]
        };
        match self.named(name).map_err(|e| super::place::at(e, span))? {
            catalog::CatalogEntry::Table(entry) => {
                let late = self.late_table(&entry.table, span)?;
                let mut relation = match self.catalog.gives_changes(&entry.table) {
                    true => current_rows(&entry.table, late, |rel| self.extent(rel)),
                    false => scan(&entry.table, late),
                };
                qualify(&mut relation, qualifier(&entry.table.name));
                Ok(relation)
            }
            catalog::CatalogEntry::View(view) => {
                let mut relation = self.view(&view, span)?;
                qualify(&mut relation, qualifier(&view.name));
                for (column, name) in relation.columns.iter_mut().zip(&view.columns) {
                    column.field.name.clone_from(name);
                }
                Ok(relation)
            }
        }
    }
}

/// The share of rows that TABLESAMPLE takes.
fn sample_share(sample: &ast::TableSampleKind) -> Option<f64> {
    let (ast::TableSampleKind::BeforeTableAlias(sample) | ast::TableSampleKind::AfterTableAlias(sample)) = sample;
    let percent: f64 = sample.quantity.as_ref()?.value.to_string().parse().ok()?;
    Some(percent / 100.0)
}

fn qualify(relation: &mut Relation, qualifier: impl Into<Arc<[String]>>) {
    let qualifier = qualifier.into();
    for column in &mut relation.columns {
        column.qualifier.clone_from(&qualifier);
    }
}

/// All rows of a table.
pub(super) fn scan(table: &Arc<Table>, late: Option<Arc<Table>>) -> Relation {
    let event_time = table.watermark.as_ref().map(|w| w.column);
    let column = |(i, c): (usize, &millstream_plan::logical::TableColumn)| {
        let field: Field = c.field.clone();
        let attribute = match &c.kind {
            _ if event_time == Some(i) => Attribute::Rowtime,
            ColumnKind::Computed(Expr { kind: ExprKind::ProcessingTime, .. }) => Attribute::Proctime,
            _ => Attribute::None,
        };
        Column { attribute, ..Column::plain(field) }
    };
    let columns = table.columns.iter().enumerate().map(column).collect();
    Relation { rel: Rel::Scan { table: Arc::clone(table), late }, columns }
}
