//! Three-valued AND and OR.
//!
//! Each operand is two Bools: whether it decides the result alone (FALSE for AND, TRUE for OR), and whether it is the
//! other truth value; a NULL is neither. The result is decided when any operand decides it, and is the other truth value
//! when all operands are. Operands are evaluated from the left until one decides, as Flink does: an operand that can
//! fail or makes a call is branched around.

use super::super::{Computed, Lowering, Scalar};
use crate::program::Value;
use millstream_plan::expr::Expr;

/// What is known of the operands so far.
#[derive(Clone, Copy)]
struct Progress {
    /// Whether the result is decided.
    decided: Value,
    /// Whether all operands have the truth value that does not decide.
    neutral: Value,
    /// Whether no operand can be NULL, so that `neutral` is `NOT decided`.
    total: bool,
}

impl Lowering<'_> {
    /// AND (`conjunction`) or OR of the operands.
    pub(super) fn connective(&mut self, operands: &[Expr], conjunction: bool) -> Computed {
        let Some((first, rest)) = operands.split_first() else {
            return Ok(Scalar::always(self.builder.bool(conjunction)));
        };
        let mut progress = self.operand(first, conjunction)?;
        for operand in rest {
            let open = if progress.total { progress.neutral } else { self.builder.not(progress.decided) };
            if self.builder.known_bool(open) == Some(false) {
                break;
            }
            let next = self.operand_while(open, operand, conjunction)?;
            progress = Progress {
                decided: self.builder.or(progress.decided, next.decided),
                neutral: self.builder.and(progress.neutral, next.neutral),
                total: progress.total && next.total,
            };
        }
        let value = if conjunction { progress.neutral } else { progress.decided };
        let valid = if progress.total { None } else { Some(self.builder.or(progress.decided, progress.neutral)) };
        Ok(Scalar { value, valid })
    }

    fn operand(&mut self, operand: &Expr, conjunction: bool) -> Computed<Progress> {
        let scalar = self.expression(operand)?;
        let (is_true, is_false) = (self.is_true(scalar), self.is_false(scalar));
        let (decided, neutral) = if conjunction { (is_false, is_true) } else { (is_true, is_false) };
        Ok(Progress { decided, neutral, total: scalar.valid.is_none() })
    }

    /// An operand in rows where the result is still `open`; neither decided nor neutral in the others.
    fn operand_while(&mut self, open: Value, operand: &Expr, conjunction: bool) -> Computed<Progress> {
        let (inner, then) = self.scoped(|lowering| lowering.operand(operand, conjunction))?;
        if then.is_pure {
            self.builder.inline(then);
            return Ok(inner);
        }
        let no = self.builder.bool(false);
        let (_, otherwise) = self.scoped(|_| Ok(()))?;
        let pairs = [(inner.decided, no), (inner.neutral, no)];
        let results = self.builder.branch(open, then, otherwise, &pairs);
        Ok(Progress { decided: results[0], neutral: results[1], total: inner.total })
    }
}
