//! CASE: lazily through a branch when a value can fail or makes a call, else by selection.

use super::super::{Lowering, Scalar};
use crate::program::Value;
use millstream_plan::expr::Expr;
use millstream_types::{Diagnostic, code};

/// Branches within branches of a program: whoever walks it goes as deep, on threads with stacks of 2 MiB.
const MOST_NESTED: usize = 3_000;

impl Lowering<'_> {
    /// `CASE WHEN condition THEN value … ELSE otherwise END`, of which each branch is within the one before.
    #[recursive::recursive]
    pub(super) fn case(
        &mut self,
        branches: &[(Expr, Expr)],
        otherwise: &Expr,
        depth: usize,
    ) -> Result<Scalar, Diagnostic> {
        let Some(((condition, value), rest)) = branches.split_first() else {
            return self.expression(otherwise, depth);
        };
        let condition = self.expression(condition, depth)?;
        let condition = self.is_true(condition);
        match self.builder.known_bool(condition) {
            Some(true) => self.expression(value, depth),
            Some(false) => self.case(rest, otherwise, depth),
            None => self.choose(
                condition,
                |lowering| lowering.expression(value, depth),
                |lowering| lowering.case(rest, otherwise, depth),
            ),
        }
    }

    /// One of two values; each is computed only where it is chosen, unless that makes no difference.
    pub(super) fn choose(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self) -> Result<Scalar, Diagnostic>,
        otherwise: impl FnOnce(&mut Self) -> Result<Scalar, Diagnostic>,
    ) -> Result<Scalar, Diagnostic> {
        self.builder.open();
        let a = then(self);
        let then = self.builder.close();
        let a = a?;
        self.builder.open();
        let b = otherwise(self);
        let otherwise = self.builder.close();
        let b = b?;
        let nullable = a.valid.is_some() || b.valid.is_some();
        if then.is_pure() && otherwise.is_pure() {
            self.builder.inline(then);
            self.builder.inline(otherwise);
            let value = self.builder.select(condition, a.value, b.value);
            let valid = match nullable {
                false => None,
                true => {
                    let (a, b) = (self.validity_value(a), self.validity_value(b));
                    Some(self.builder.select(condition, a, b))
                }
            };
            return Ok(Scalar { value, valid });
        }
        let mut pairs = vec![(a.value, b.value)];
        if nullable {
            pairs.push((self.validity_value(a), self.validity_value(b)));
        }
        if then.depth().max(otherwise.depth()) >= MOST_NESTED {
            let message =
                format!("more than {MOST_NESTED} branches are within each other, of CASE, COALESCE and the like");
            return Err(Diagnostic::new(code::QUERY_TOO_LARGE, message)
                .advise("join a table that has the conditions and values, or test fewer of them with calls"));
        }
        let results = self.builder.branch(condition, then, otherwise, &pairs);
        Ok(Scalar { value: results[0], valid: results.get(1).copied() })
    }

    /// The validity of a scalar as a value.
    fn validity_value(&mut self, scalar: Scalar) -> Value {
        match scalar.valid {
            Some(valid) => valid,
            None => self.builder.bool(true),
        }
    }
}
