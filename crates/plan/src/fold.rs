//! Constant folding: an operation on literals becomes a literal.
//!
//! Evaluation is the caller's (the engine runs the expression through the interpreter), so that a folded expression
//! has the value that it would have had at run time. Calls are left alone: some depend on the clock or on chance.

use crate::common::Changed;
use crate::expr::{Expr, ExprKind};
use crate::logical::Rel;
use millstream_types::Value;

/// Folds every expression of `rel`. `evaluate` gives the value of an expression without columns, or `None` when it
/// fails: then the expression stays and fails when, and only when, a row reaches it.
pub fn fold_rel(rel: Rel, evaluate: &mut dyn FnMut(&Expr) -> Option<Value>) -> Rel {
    fold_within(rel, evaluate, &mut Changed::default())
}

#[recursive::recursive]
fn fold_within(mut rel: Rel, evaluate: &mut dyn FnMut(&Expr) -> Option<Value>, changed: &mut Changed) -> Rel {
    if let Rel::Common(common) = &rel {
        return Rel::Common(changed.once(common, |changed, rel| fold_within(rel.clone(), evaluate, changed)));
    }
    for input in rel.inputs_mut() {
        *input = fold_within(input.take(), evaluate, changed);
    }
    for expr in rel.expressions_mut() {
        *expr = fold(expr.take(), evaluate);
    }
    rel
}

/// Folds one expression from the leaves up.
pub fn fold(expr: Expr, evaluate: &mut dyn FnMut(&Expr) -> Option<Value>) -> Expr {
    expr.rewrite(&mut |e| {
        let foldable = matches!(
            e.kind,
            ExprKind::Arithmetic(..)
                | ExprKind::Negate(_)
                | ExprKind::AddInterval(..)
                | ExprKind::Compare(..)
                | ExprKind::Cast { .. }
        );
        let constant = |c: &&Expr| matches!(c.kind, ExprKind::Literal(_));
        // A cast to or from the local time zone's types would need the session's zone here: left to run time.
        let zoned = |t: &millstream_types::DataType| matches!(t, millstream_types::DataType::TimestampLtz(_));
        let zone_free = !zoned(&e.data_type) && !e.children().iter().any(|c| zoned(&c.data_type));
        if !foldable || !zone_free || e.data_type.is_nested() || !e.children().iter().all(constant) {
            return e;
        }
        match evaluate(&e) {
            // A non-null type stays as declared: only the value is known better.
            Some(value) => Expr::literal(value, e.data_type.clone()).at(e.span),
            None => e,
        }
    })
}
