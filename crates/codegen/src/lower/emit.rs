//! Consume of a sink: the columns are emitted. Input columns that reach it unchanged bypass the program: they are
//! taken by the selection of emitted rows.

use super::expression::vector_call;
use super::vector::null_column;
use super::{Computed, Lowered, Lowering, OutputSource, Scalar};
use crate::buffers::phys_of;
use crate::program::{Emit, Layout, Terminal, Value as Number};
use millstream_abi::ErrorKind;
use millstream_plan::expr::{Expr, ExprKind, column_name};
use millstream_plan::pipeline::SinkPlan;
use millstream_types::{DataType, Field, Value};

impl Lowering<'_> {
    /// Emits the columns into a sink; NULL in a column that the sink's table declares NOT NULL is an error.
    pub(super) fn emit_to_sink(mut self, name: &str, sink: &SinkPlan) -> Computed<Lowered> {
        if let Some(table) = &sink.table {
            let fields: Vec<&Field> = table.writable().iter().map(|&i| &table.columns[i].field).collect();
            let columns = self.current_columns();
            for (expr, field) in columns.iter().zip(fields).filter(|(e, f)| e.nullable && !f.nullable) {
                let scalar = self.validity(expr)?;
                let what = format!("column {} of table {}", field.name, table.name);
                self.trap_null(scalar, ErrorKind::NullInNotNull, what, expr.span);
            }
        }
        let columns = self.current_columns();
        let names: Vec<String> = sink.schema.fields.iter().map(|f| f.name.clone()).collect();
        self.emit_columns(name, &columns, &names, None)
    }

    /// Emits the columns.
    pub(super) fn emit(self, name: &str) -> Computed<Lowered> {
        self.emit_with(name, &[])
    }

    /// Emits the columns, followed by the arguments of a flat map.
    pub(super) fn emit_with(self, name: &str, arguments: &[Expr]) -> Computed<Lowered> {
        let mut columns = self.current_columns();
        columns.extend_from_slice(arguments);
        self.emit_columns(name, &columns, &[], None)
    }

    /// Emits expressions over the columns at this point, followed by a hash.
    pub(super) fn emit_columns(
        mut self,
        name: &str,
        columns: &[Expr],
        names: &[String],
        hash: Option<Number>,
    ) -> Computed<Lowered> {
        let mut emits = Vec::new();
        let mut outputs = Vec::with_capacity(columns.len() + 1);
        for (i, expr) in columns.iter().enumerate() {
            outputs.push(match self.passed_through(expr)? {
                Some(input) => OutputSource::Input(input),
                None => {
                    let Scalar { value, valid } = self.expression(expr)?;
                    let name = names.get(i).cloned().unwrap_or_else(|| column_name(i));
                    emits.push(Emit { name, value, valid });
                    OutputSource::Emitted(emits.len() - 1)
                }
            });
        }
        let mut output_types: Vec<DataType> = columns.iter().map(|e| e.data_type.clone()).collect();
        if let Some(value) = hash {
            outputs.push(OutputSource::Emitted(emits.len()));
            emits.push(Emit { name: "hash".into(), value, valid: None });
            output_types.push(DataType::BigInt);
        }
        Ok(Lowered { outputs, output_types, ..self.finish(name, Terminal::Emit(emits))? })
    }

    /// The columns at this point, each as a reference to the columns of the last projection.
    pub(super) fn current_columns(&self) -> Vec<Expr> {
        let fields = &self.columns().fields;
        let column = |(i, f): (usize, &Field)| {
            let span = self.layers.last().and_then(|l| l.columns.get(i)).map_or_else(Default::default, |e| e.span);
            Expr::column(i, f.data_type.clone(), f.nullable).at(span)
        };
        fields.iter().enumerate().map(column).collect()
    }

    /// The input of the program that holds the column already, if one does.
    fn passed_through(&mut self, expr: &Expr) -> Computed<Option<usize>> {
        let (source, below) = self.resolve(expr);
        let call = match &source.kind {
            // A field of a record becomes a column by being emitted.
            ExprKind::Column(input) if below == 0 => {
                return Ok(Some(*input).filter(|&input| self.inputs[input].layout == Layout::Array));
            }
            ExprKind::Literal(Value::Null) if phys_of(&source.data_type).is_none() => Some(null_column(source)),
            _ => vector_call(source)?,
        };
        call.map(|call| self.at_depth(below, |lowering| lowering.vector_input(&call))).transpose()
    }
}
