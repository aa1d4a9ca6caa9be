//! Consume of a sink: the columns are emitted. Input columns that reach it unchanged bypass the program: they are
//! taken by the selection of emitted rows.

use super::{Lowered, Lowering, OutputSource, Scalar};
use crate::buffers::phys_of;
use crate::program::{Emit, Layout, Terminal};
use millstream_abi::ErrorKind;
use millstream_plan::expr::{Expr, ExprKind, column_name};
use millstream_plan::pipeline::SinkPlan;
use millstream_types::{Diagnostic, Field, Value};

impl Lowering<'_> {
    /// Emits the columns into a sink; NULL in a column that the sink's table declares NOT NULL is an error.
    pub(super) fn emit_to_sink(mut self, name: &str, sink: &SinkPlan) -> Result<Lowered, Diagnostic> {
        if let Some(table) = &sink.table {
            let fields: Vec<&Field> = table.writable().iter().map(|&i| &table.columns[i].field).collect();
            let columns = self.current_columns();
            for (expr, field) in columns.iter().zip(fields).filter(|(e, f)| e.nullable && !f.nullable) {
                let scalar = self.validity(expr, self.depth())?;
                let what = format!("column {} of table {}", field.name, table.name);
                self.trap_null(scalar, ErrorKind::NullInNotNull, what, expr.span);
            }
        }
        let columns = self.current_columns();
        let names: Vec<String> = sink.schema.fields.iter().map(|f| f.name.clone()).collect();
        let (emits, outputs) = self.emitted(&columns, &names)?;
        self.finish_emit(name, emits, outputs, &columns)
    }

    /// Emits the columns.
    pub(super) fn emit(self, name: &str) -> Result<Lowered, Diagnostic> {
        self.emit_with(name, &[])
    }

    /// Emits the columns, followed by the arguments of a flat map.
    pub(super) fn emit_with(mut self, name: &str, arguments: &[Expr]) -> Result<Lowered, Diagnostic> {
        let mut columns = self.current_columns();
        columns.extend_from_slice(arguments);
        let (emits, outputs) = self.emitted(&columns, &[])?;
        self.finish_emit(name, emits, outputs, &columns)
    }

    /// Ends the program with the columns that [`Lowering::emitted`] has made.
    pub(super) fn finish_emit(
        self,
        name: &str,
        emits: Vec<Emit>,
        outputs: Vec<OutputSource>,
        columns: &[Expr],
    ) -> Result<Lowered, Diagnostic> {
        let types = columns.iter().map(|e| e.data_type.clone()).collect();
        self.finish(name, Terminal::Emit(emits), outputs, types)
    }

    /// What is emitted for expressions over the columns at this point, and where each then comes from.
    pub(super) fn emitted(
        &mut self,
        columns: &[Expr],
        names: &[String],
    ) -> Result<(Vec<Emit>, Vec<OutputSource>), Diagnostic> {
        let depth = self.depth();
        let mut emits = Vec::new();
        let mut outputs = Vec::with_capacity(columns.len());
        for (i, expr) in columns.iter().enumerate() {
            outputs.push(match self.passed_through(expr, depth)? {
                Some(input) => OutputSource::Input(input),
                None => {
                    let Scalar { value, valid } = self.expression(expr, depth)?;
                    let name = names.get(i).cloned().unwrap_or_else(|| column_name(i));
                    emits.push(Emit { name, value, valid });
                    OutputSource::Emitted(emits.len() - 1)
                }
            });
        }
        Ok((emits, outputs))
    }

    /// The columns at this point, each as a reference to the columns of the last projection.
    pub(super) fn current_columns(&self) -> Vec<Expr> {
        let fields = &self.schema_at(self.depth()).fields;
        let column = |(i, f): (usize, &Field)| {
            let span = self.layers.last().and_then(|l| l.columns.get(i)).map_or_else(Default::default, |e| e.span);
            Expr::column(i, f.data_type.clone(), f.nullable).at(span)
        };
        fields.iter().enumerate().map(column).collect()
    }

    /// The input of the program that holds the column already, if one does.
    fn passed_through(&mut self, expr: &Expr, depth: usize) -> Result<Option<usize>, Diagnostic> {
        if let Some(input) = self.resolve_input(expr, depth) {
            // A field of a record becomes a column by being emitted.
            return Ok(Some(input).filter(|&input| self.inputs[input].layout == Layout::Array));
        }
        let (source, below) = self.resolve(expr, depth);
        match &source.kind {
            ExprKind::Vector(..) => {
                let source = source.clone();
                self.vector_input(&source, below).map(Some)
            }
            ExprKind::Field(..) => {
                let source = super::vector::field_column(source);
                self.vector_input(&source, below).map(Some)
            }
            ExprKind::Cast { .. } if source.data_type.is_nested() => {
                let source = super::nested_cast::cast_column(source)?;
                self.vector_input(&source, below).map(Some)
            }
            // Programs have no values of nested types, so a NULL one is a column made outside.
            ExprKind::Literal(Value::Null) if phys_of(&source.data_type).is_none() => {
                let source = super::vector::null_column(source);
                self.vector_input(&source, below).map(Some)
            }
            _ => Ok(None),
        }
    }
}
