//! Calls of vectorised functions: each becomes two inputs of the program, evaluated before it.

use super::nested_cast::masked;
use super::{Computed, Lowered, Lowering, VectorColumn, emit_expressions, unsupported};
use crate::buffers::{NESTED, phys_of};
use crate::program::Input;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, new_null_array};
use millstream_abi::{ErrorKind, Phys};
use millstream_plan::expr::{Expr, ExprKind, VectorCall, VectorFunction};
use millstream_types::{DataType, Diagnostic};
use std::sync::Arc;

impl Lowering<'_> {
    /// The value of a vectorised call.
    pub(super) fn vector(&mut self, expr: &Expr) -> Computed {
        let Some(phys) = phys_of(&expr.data_type) else {
            let message = format!("{} of type {} cannot be computed with", self.text(expr), expr.data_type);
            return Err(unsupported(message, expr.span));
        };
        let input = self.vector_input(expr)?;
        Ok(self.load_input(input as u32, phys))
    }

    /// The program that emits the arguments of a call, over the columns of the pipeline's buffers.
    fn arguments(&self, name: &str, arguments: &[Expr]) -> Computed<Lowered> {
        let mut lowering = Lowering::new(self.schema);
        lowering.inputs.clone_from_slice(&self.inputs[..self.schema.fields.len()]);
        emit_expressions(name, lowering, arguments)
    }

    /// The program's input that holds the value of a vectorised call; the row is an error when the call failed for it.
    pub(super) fn vector_input(&mut self, expr: &Expr) -> Computed<usize> {
        let ExprKind::Vector(function, _) = &expr.kind else {
            return Err(Diagnostic::bug("an expression that is not a vectorised call was lowered as one"));
        };
        let site = self.site(expr);
        let call = (0..self.depth).rev().fold(expr.clone(), |call, layer| call.substitute(self.layers[layer].columns));
        let position = match self.vector_calls.iter().position(|known| same(known, &call)) {
            Some(position) => position,
            None => {
                let ExprKind::Vector(_, arguments) = &call.kind else {
                    return Err(Diagnostic::bug("a vectorised call was replaced"));
                };
                let name = format!("arguments of {}", function.0.name());
                let arguments = Box::new(self.arguments(&name, arguments)?);
                self.vectors.push(VectorColumn {
                    function: function.0.clone(),
                    arguments,
                    data_type: expr.data_type.clone(),
                    site,
                });
                let phys = phys_of(&expr.data_type).unwrap_or(NESTED);
                let name = self.text(expr);
                self.inputs.push(Input::array(name.clone(), phys, true));
                self.inputs.push(Input::array(format!("{name} failed"), Phys::Bool, false));
                self.vector_calls.push(call);
                self.vector_calls.len() - 1
            }
        };
        let input = self.schema.fields.len() + 2 * position;
        let failed = self.load_input(input as u32 + 1, Phys::Bool).value;
        let site = self.vectors[position].site;
        self.builder.trap(failed, ErrorKind::FallbackFailed, site);
        Ok(input)
    }
}

/// Whether two expressions compute the same, wherever they stand in the text.
fn same(a: &Expr, b: &Expr) -> bool {
    let placeless = |e: &Expr| e.clone().rewrite(&mut |e| e.at(Default::default()));
    placeless(a) == placeless(b)
}

/// A column of NULLs of a nested type.
#[derive(Debug)]
struct NullColumn(DataType);

impl VectorFunction for NullColumn {
    fn name(&self) -> &str {
        "NULL"
    }

    fn evaluate(&self, _: &[ArrayRef], rows: usize, _: u64) -> Result<ArrayRef, String> {
        Ok(new_null_array(&self.0.to_arrow(), rows))
    }
}

/// A field of a column of rows.
#[derive(Debug)]
struct FieldColumn {
    index: usize,
    name: String,
}

impl VectorFunction for FieldColumn {
    fn name(&self) -> &str {
        &self.name
    }

    fn evaluate(&self, arguments: &[ArrayRef], _: usize, _: u64) -> Result<ArrayRef, String> {
        let rows = arguments[0].as_struct();
        // A field of a row that is NULL is NULL.
        masked(rows.column(self.index), rows.nulls())
    }
}

/// The field of a row that is computed, as a column that is made for each buffer.
pub(super) fn field_column(field: &Expr) -> Expr {
    let ExprKind::Field(row, index) = &field.kind else { return field.clone() };
    let call = VectorCall(Arc::new(FieldColumn { index: *index, name: format!("field {index}") }));
    Expr { kind: ExprKind::Vector(call, vec![(**row).clone()]), ..field.clone() }
}

/// A constant NULL as a column that is made for each buffer.
pub(super) fn null_column(constant: &Expr) -> Expr {
    let call = VectorCall(Arc::new(NullColumn(constant.data_type.clone())));
    Expr { kind: ExprKind::Vector(call, vec![]), ..constant.clone() }
}
