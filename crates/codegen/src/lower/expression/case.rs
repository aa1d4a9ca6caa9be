//! CASE: lazily through a branch when a value can fail or makes a call, else by selection.

use super::super::{Computed, Lowering, Scalar};
use crate::program::Value;
use millstream_plan::expr::Expr;
use millstream_types::{Diagnostic, code};

/// Branches within branches of a program: whoever walks it goes as deep, on threads with stacks of 2 MiB.
const MOST_NESTED: usize = 3_000;

impl Lowering<'_> {
    /// `CASE WHEN condition THEN value … ELSE otherwise END`, of which each branch is within the one before.
    #[recursive::recursive]
    pub(super) fn case(&mut self, branches: &[(Expr, Expr)], otherwise: &Expr) -> Computed {
        let Some(((condition, value), rest)) = branches.split_first() else {
            return self.expression(otherwise);
        };
        let condition = self.expression(condition)?;
        let condition = self.is_true(condition);
        match self.builder.known_bool(condition) {
            Some(true) => self.expression(value),
            Some(false) => self.case(rest, otherwise),
            None => {
                self.choose(condition, |lowering| lowering.expression(value), |lowering| lowering.case(rest, otherwise))
            }
        }
    }

    /// One of two values; each is computed only where it is chosen, unless that makes no difference.
    pub(super) fn choose(
        &mut self,
        condition: Value,
        then: impl FnOnce(&mut Self) -> Computed,
        otherwise: impl FnOnce(&mut Self) -> Computed,
    ) -> Computed {
        let (a, then) = self.scoped(then)?;
        let (b, otherwise) = self.scoped(otherwise)?;
        if then.is_pure && otherwise.is_pure {
            self.builder.inline(then);
            self.builder.inline(otherwise);
            let value = self.builder.select(condition, a.value, b.value);
            let mut valid = None;
            if a.valid.is_some() || b.valid.is_some() {
                let (a, b) = (self.validity_value(a), self.validity_value(b));
                valid = Some(self.builder.select(condition, a, b));
            }
            return Ok(Scalar { value, valid });
        }
        if then.depth.max(otherwise.depth) >= MOST_NESTED {
            let message =
                format!("more than {MOST_NESTED} branches are within each other, of CASE, COALESCE and the like");
            return Err(Diagnostic::new(code::QUERY_TOO_LARGE, message)
                .advise("join a table that has the conditions and values, or test fewer of them with calls"));
        }
        Ok(self.branch(condition, (a, then), (b, otherwise)))
    }
}
