//! Calls of runtime functions: made only for rows in which every argument is there.

use super::super::{Computed, Lowering, Note, Scalar};
use crate::program::Value;
use millstream_abi::RuntimeFn;
use millstream_plan::expr::Expr;
use millstream_types::Diagnostic;

impl Lowering<'_> {
    /// A call in the query.
    pub(super) fn function(&mut self, expr: &Expr, function: RuntimeFn, arguments: &[Expr]) -> Computed {
        let arguments = arguments.iter().map(|a| self.expression(a)).collect::<Result<Vec<_>, _>>()?;
        let site = self.site(expr);
        self.call(function, &arguments, site, expr.nullable)
    }

    /// Calls a function: NULL when an argument is, or when `nullable` and the function says so.
    pub(super) fn call(&mut self, function: RuntimeFn, arguments: &[Scalar], site: u32, nullable: bool) -> Computed {
        let types: Vec<_> = arguments.iter().map(|a| self.builder.type_of(a.value)).collect();
        if types != function.arguments() {
            let message = format!("function {} was given {types:?} for {:?}", function.name(), function.arguments());
            return Err(Diagnostic::bug(message));
        }
        if let Some(native) = self.native(function, arguments) {
            return Ok(native);
        }
        let values: Vec<Value> = arguments.iter().map(|a| a.value).collect();
        let valid = arguments.iter().fold(None, |valid, argument| self.both(valid, argument.valid));
        let make = |lowering: &mut Self| {
            let (value, valid) = lowering.builder.call(function, &values, site);
            Ok(Scalar { value, valid: nullable.then_some(valid) })
        };
        let Some(valid) = valid else { return make(self) };
        let note = Note::Call(function, values.clone(), valid);
        if let Some(known) = self.builder.noted(&note) {
            return Ok(known);
        }
        let inner = self.guarded(valid, make)?;
        // The branch gives FALSE as validity where an argument is NULL.
        let result = Scalar { value: inner.value, valid: inner.valid.or(Some(valid)) };
        if function.is_deterministic() {
            self.builder.note(note, result);
        }
        Ok(result)
    }
}
