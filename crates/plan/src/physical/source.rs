//! Sources: which columns of a table the pipelines use, and its event time.

use super::expressions::{expand_computed, same_computation};
use crate::expr::{Expr, ExprKind};
use crate::logical::{ColumnKind, Table};
use crate::pipeline::*;
use millstream_types::{DataType, Diagnostic, Field, Schema, Value};
use std::sync::Arc;

/// Stands for the appended event-time column of a source until the number of its columns is known.
pub(super) const TIME_COLUMN: usize = usize::MAX;

/// What makes the time of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// The watermark of its table.
    Event,
    /// `PROCTIME()`
    Processing,
}

/// A source while the columns that it must deliver are being collected.
pub(super) struct SourceBuilder {
    pub(super) scan: ScanKind,
    pub(super) schema: Schema,
    pub(super) paths: Vec<Vec<usize>>,
    /// Whether a window depends on the time.
    pub(super) needs_time: bool,
    pub(super) clock: Clock,
    /// Where its late rows go.
    pub(super) late: Option<Arc<Table>>,
    /// How many lookup tables enclose it: one of depth 1 is read before those of depth 0.
    pub(super) depth: usize,
}

impl SourceBuilder {
    pub(super) fn table(&self) -> Option<&Arc<Table>> {
        match &self.scan {
            ScanKind::Table(table) => Some(table),
            ScanKind::Values(_) => None,
        }
    }

    /// The event time over the table's physical columns, when it has to be computed: then it is appended to the source's
    /// columns. A computed column that only names a field of a row is decoded like any other.
    pub(super) fn computed_time(&self) -> Option<Expr> {
        if self.clock == Clock::Processing {
            return Some(processing_time());
        }
        let table = self.table()?;
        let watermark = table.watermark.as_ref()?;
        let column = &table.columns[watermark.column];
        match &column.kind {
            ColumnKind::Computed(_) => Some(expand_computed(table).swap_remove(watermark.column)),
            _ => None,
        }
        .filter(|time| self.path_of(time).is_none())
    }

    /// The watermark over the table's physical columns, if a window needs it.
    pub(super) fn watermark(&mut self) -> Result<Option<SourceWatermark>, Diagnostic> {
        if self.clock == Clock::Processing {
            let (time, rule) = (processing_time(), WatermarkRule::ProcessingTime);
            return Ok(Some(SourceWatermark { time, rule, idle_timeout_ms: None }));
        }
        let Some(table) = self.table().filter(|_| self.needs_time).cloned() else { return Ok(None) };
        let Some(watermark) = &table.watermark else { return Ok(None) };
        let columns = expand_computed(&table);
        let time = columns[watermark.column].clone();
        let rule = match delay_of(&watermark.expression, watermark.column) {
            Some(delay_ms) => WatermarkRule::Delay(delay_ms),
            None => WatermarkRule::Expression(watermark.expression.clone().substitute(&columns)),
        };
        let idle = table.options.duration("scan.watermark.idle-timeout", std::time::Duration::ZERO)?;
        let idle_timeout_ms = (!idle.is_zero()).then_some(idle.as_millis() as u64);
        Ok(Some(SourceWatermark { time, rule, idle_timeout_ms }))
    }

    /// Replaces the computed event time by the appended column, and columns of the table and fields of its rows by the source's columns.
    pub(super) fn narrow(&mut self, mut expr: Expr, time: Option<&Expr>) -> Expr {
        if time.is_some_and(|t| same_computation(t, &expr)) {
            return Expr { kind: ExprKind::Column(TIME_COLUMN), ..expr };
        }
        match self.path_of(&expr) {
            Some(path) => self.leaf(path, &expr),
            None => {
                for child in expr.children_mut() {
                    *child = self.narrow(child.take(), time);
                }
                expr
            }
        }
    }

    fn path_of(&self, expr: &Expr) -> Option<Vec<usize>> {
        match &expr.kind {
            ExprKind::Column(i) => Some(vec![*i]),
            ExprKind::Field(row, i) => {
                let mut path = self.path_of(row)?;
                path.push(*i);
                Some(path)
            }
            _ => None,
        }
    }

    fn leaf(&mut self, path: Vec<usize>, expr: &Expr) -> Expr {
        let index = self.paths.iter().position(|p| *p == path).unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        Expr { kind: ExprKind::Column(index), ..expr.clone() }
    }

    pub(super) fn finish(self, watermark: Option<SourceWatermark>, phase: usize) -> Result<SourcePlan, Diagnostic> {
        let columns = self.paths.iter().map(|path| self.column(path)).collect::<Result<_, _>>()?;
        let scan = match self.scan {
            // Constant rows keep only the columns that are used.
            ScanKind::Values(rows) => ScanKind::Values(
                rows.into_iter().map(|row| self.paths.iter().map(|p| row[p[0]].clone()).collect()).collect(),
            ),
            table => table,
        };
        Ok(SourcePlan { scan, columns, watermark, phase })
    }

    fn column(&self, path: &[usize]) -> Result<SourceColumn, Diagnostic> {
        let mut field = &self.schema.fields[path[0]];
        let (mut name, mut nullable) = (field.name.clone(), field.nullable);
        for &step in &path[1..] {
            let DataType::Row(fields) = &field.data_type else {
                return Err(Diagnostic::bug(format!("{name} is not a ROW")));
            };
            field = &fields[step];
            name = format!("{name}.{}", field.name);
            nullable |= field.nullable;
        }
        let metadata = self.table().and_then(|t| match &t.columns[path[0]].kind {
            ColumnKind::Metadata { key, .. } => Some(key.clone()),
            _ => None,
        });
        let origin = match metadata {
            Some(key) => ColumnOrigin::Metadata(key),
            None => ColumnOrigin::Path(path.to_vec()),
        };
        Ok(SourceColumn { name, origin, data_type: field.data_type.clone(), nullable, in_record: None })
    }
}

/// `column - INTERVAL` or `column`: the delay in milliseconds.
fn delay_of(expression: &Expr, column: usize) -> Option<i64> {
    match &expression.kind {
        ExprKind::Column(i) if *i == column => Some(0),
        ExprKind::AddInterval(time, interval) if time.kind == ExprKind::Column(column) => {
            constant_interval(interval).map(|ms| -ms)
        }
        ExprKind::Cast { operand, .. } if operand.data_type.is_timestamp() => {
            let same_kind = std::mem::discriminant(&operand.data_type) == std::mem::discriminant(&expression.data_type);
            if same_kind { delay_of(operand, column) } else { None }
        }
        _ => None,
    }
}

fn constant_interval(expr: &Expr) -> Option<i64> {
    match (&expr.kind, &expr.data_type) {
        (ExprKind::Literal(Value::Int(ms)), DataType::IntervalMilli) => Some(*ms),
        (ExprKind::Negate(inner), DataType::IntervalMilli) => constant_interval(inner).map(|ms| -ms),
        _ => None,
    }
}

/// `PROCTIME()`
fn processing_time() -> Expr {
    Expr::new(ExprKind::ProcessingTime, DataType::TimestampLtz(3), false)
}

impl SourcePlan {
    /// Columns of the source's buffers: `columns`, and the event time when it is computed.
    pub fn output_schema(&self) -> Schema {
        let mut fields: Vec<Field> =
            self.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable)).collect();
        if let Some(time) = self.watermark.as_ref().map(|w| &w.time).filter(|t| !matches!(t.kind, ExprKind::Column(_)))
        {
            fields.push(Field::new("event time", time.data_type.clone(), time.nullable));
        }
        Schema::new(fields)
    }
}
