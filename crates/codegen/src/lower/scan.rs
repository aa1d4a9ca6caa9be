//! Produce: the columns of the pipeline's buffers, loaded where they are first used.

use super::{Computed, Lowering, Note, Scalar, unsupported};
use crate::buffers::{NESTED, phys_of};
use crate::program::{InRecord, Input, Layout, Op};
use millstream_abi::Phys;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::pipeline::SourceColumn;
use millstream_types::{Diagnostic, Field, RecordField, RecordPlace};

/// The program's input for a column of the pipeline's buffers.
pub(super) fn input(field: &Field) -> Input {
    let phys = phys_of(&field.data_type).unwrap_or(NESTED);
    Input::array(&field.name, phys, field.nullable)
}

/// Where a column of a source is.
pub(super) fn layout(column: &SourceColumn) -> Layout {
    match column.in_record {
        None => Layout::Array,
        Some(RecordPlace { length, field: RecordField { offset, width } }) => {
            Layout::Record(InRecord { length, offset, width, ends_at_zero: column.data_type.is_string() })
        }
    }
}

impl Lowering<'_> {
    /// One of the columns that expressions are over.
    pub(super) fn column(&mut self, index: usize, span: Span) -> Computed {
        let note = Note::Column(self.depth, index);
        if let Some(scalar) = self.builder.noted(&note) {
            return Ok(scalar);
        }
        let scalar = match self.depth.checked_sub(1) {
            None => self.load(index, span)?,
            Some(below) => {
                let columns = self.layers[below].columns;
                let Some(expr) = columns.get(index) else {
                    return Err(Diagnostic::bug(format!("there is no column {index} of {}", columns.len())));
                };
                self.at_depth(below, |lowering| lowering.expression(expr))?
            }
        };
        self.builder.note(note, scalar);
        Ok(scalar)
    }

    /// An input column of the program.
    fn load(&mut self, index: usize, span: Span) -> Computed {
        let Some(field) = self.schema.fields.get(index) else {
            return Err(Diagnostic::bug(format!("there is no input column {index}")));
        };
        let Some(phys) = phys_of(&field.data_type) else {
            let message = format!("column {} of type {} cannot be computed with", field.name, field.data_type);
            return Err(unsupported(message, span).advise("use its fields, or select the column as it is"));
        };
        Ok(self.load_input(index as u32, phys))
    }

    /// Value and validity of input `index` of the program.
    pub(super) fn load_input(&mut self, index: u32, phys: Phys) -> Scalar {
        let value = self.builder.op(Op::Load(index), phys);
        Scalar { value, valid: self.input_valid(index) }
    }

    /// Validity of input `index` of the program.
    pub(super) fn input_valid(&mut self, index: u32) -> Option<crate::program::Value> {
        let nullable = self.inputs[index as usize].nullable;
        nullable.then(|| self.builder.op(Op::IsValid(index), Phys::Bool))
    }

    /// The expression that `expr` stands for, below all projections that only pass a column on, and the number of
    /// projections before it.
    pub(super) fn resolve<'e>(&self, mut expr: &'e Expr) -> (&'e Expr, usize)
    where
        Self: 'e,
    {
        let mut depth = self.depth;
        while let ExprKind::Column(index) = expr.kind {
            let Some(below) = depth.checked_sub(1) else { break };
            let Some(inner) = self.layers[below].columns.get(index) else { break };
            expr = inner;
            depth = below;
        }
        (expr, depth)
    }
}
