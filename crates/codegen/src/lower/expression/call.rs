//! Calls of runtime functions: made only for rows in which every argument is there.

use super::super::{Computed, Lowering, Note, Scalar};
use crate::program::{self, Op};
use millstream_abi::{Phys, RuntimeFn};
use millstream_plan::expr::{Expr, ExprKind};
use millstream_types::{Diagnostic, Value};

/// A call of `REPLACE` that makes no text longer than it was.
struct Replacing<'a> {
    text: &'a Expr,
    search: &'a Expr,
    /// Characters by which one occurrence becomes shorter.
    shorter_by: i128,
}

impl<'a> Replacing<'a> {
    fn of(expr: &'a Expr) -> Option<Replacing<'a>> {
        let ExprKind::Call(RuntimeFn::Replace, arguments) = &expr.kind else { return None };
        let [text, search, replacement] = &arguments[..] else { return None };
        let constant = |expr: &'a Expr| match &expr.kind {
            ExprKind::Literal(Value::String(text)) => Some(&**text),
            _ => None,
        };
        let (old, new) = (constant(search)?, constant(replacement)?);
        // An empty text occurs before every character; longer results can be too long.
        let is_counted = !old.is_empty() && new.len() <= old.len();
        let shorter_by = old.chars().count() as i128 - new.chars().count() as i128;
        is_counted.then_some(Replacing { text, search, shorter_by })
    }
}

impl Lowering<'_> {
    /// A call in the query.
    pub(super) fn function(&mut self, expr: &Expr, function: RuntimeFn, arguments: &[Expr]) -> Computed {
        if let (RuntimeFn::CharLength, [replaced]) = (function, arguments)
            && let Some(replacing) = Replacing::of(replaced)
        {
            return self.length_of_replaced(expr, &replacing);
        }
        let arguments = arguments.iter().map(|a| self.expression(a)).collect::<Result<Vec<_>, _>>()?;
        let site = self.site(expr);
        self.call(function, &arguments, site, expr.nullable)
    }

    /// What is replaced is counted instead of made: `CHAR_LENGTH(s) - CHAR_LENGTH(REPLACE(s, ',', ''))` is how SQL counts.
    fn length_of_replaced(&mut self, expr: &Expr, Replacing { text, search, shorter_by }: &Replacing<'_>) -> Computed {
        let site = self.site(expr);
        let (text, search) = (self.expression(text)?, self.expression(search)?);
        let length = self.call(RuntimeFn::CharLength, &[text], site, false)?;
        let count = self.call(RuntimeFn::Occurrences, &[text, search], site, false)?;
        let shorter_by = self.builder.int(*shorter_by, Phys::I32);
        let left_out = self.builder.op(Op::Mul(count.value, shorter_by), Phys::I32);
        let value = self.builder.op(Op::Sub(length.value, left_out), Phys::I32);
        Ok(Scalar { value, valid: self.both(length.valid, count.valid) })
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
        let values: Vec<program::Value> = arguments.iter().map(|a| a.value).collect();
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
