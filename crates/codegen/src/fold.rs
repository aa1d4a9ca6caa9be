//! Folding of operations on Bool and integer constants, and of operations that give one of their operands.

use crate::builder::Builder;
use crate::program::{Comparison, Op, Value};
use crate::semantics;
use millstream_abi::Phys;
use std::hash::Hash;

/// What an operation folds to.
pub(crate) enum Folded {
    /// A value that is there already.
    Value(Value),
    /// The same or a simpler operation.
    Op(Op),
}

/// `n` wrapped to an integer type.
pub(crate) fn wrap(n: i128, phys: Phys) -> i128 {
    match phys {
        Phys::I8 => n as i8 as i128,
        Phys::I16 => n as i16 as i128,
        Phys::I32 => n as i32 as i128,
        Phys::I64 => n as i64 as i128,
        _ => n,
    }
}

/// Folds an operation whose result has type `phys`.
pub(crate) fn fold<K: Eq + Hash + Clone, R: Clone>(builder: &Builder<K, R>, op: Op, phys: Phys) -> Folded {
    match bools(builder, &op) {
        Some(folded) => folded,
        None => match integers(builder, &op, phys) {
            Some(folded) => Folded::Op(folded),
            None => Folded::Op(op),
        },
    }
}

fn bools<K: Eq + Hash + Clone, R: Clone>(builder: &Builder<K, R>, op: &Op) -> Option<Folded> {
    let known = |v: Value| builder.known_bool(v);
    let value = |v: Value| Some(Folded::Value(v));
    match *op {
        Op::And(a, b) => match (known(a), known(b)) {
            (Some(true), _) | (_, Some(false)) => value(b),
            (_, Some(true)) | (Some(false), _) => value(a),
            _ if a == b => value(a),
            _ => None,
        },
        Op::Or(a, b) => match (known(a), known(b)) {
            (Some(false), _) | (_, Some(true)) => value(b),
            (_, Some(false)) | (Some(true), _) => value(a),
            _ if a == b => value(a),
            _ => None,
        },
        Op::Not(a) => match builder.definition(a) {
            Some(Op::Bool(b)) => Some(Folded::Op(Op::Bool(!b))),
            Some(Op::Not(inner)) => value(*inner),
            _ => None,
        },
        Op::Select(condition, a, b) => match known(condition) {
            Some(true) => value(a),
            Some(false) => value(b),
            None if a == b => value(a),
            None => match (known(a), known(b)) {
                (Some(true), Some(false)) => value(condition),
                (Some(false), Some(true)) => Some(Folded::Op(Op::Not(condition))),
                (Some(true), None) => Some(Folded::Op(Op::Or(condition, b))),
                (None, Some(false)) => Some(Folded::Op(Op::And(condition, a))),
                _ => None,
            },
        },
        Op::Compare(Comparison::Eq, a, b) => match (known(a), known(b)) {
            (Some(true), _) => value(b),
            (_, Some(true)) => value(a),
            (Some(false), _) => Some(Folded::Op(Op::Not(b))),
            (_, Some(false)) => Some(Folded::Op(Op::Not(a))),
            _ => None,
        },
        _ => None,
    }
}

fn integers<K: Eq + Hash + Clone, R: Clone>(builder: &Builder<K, R>, op: &Op, phys: Phys) -> Option<Op> {
    let known = |v: Value| builder.known_int(v);
    let number = |n: i128| Some(Op::Int(wrap(n, phys)));
    match *op {
        Op::Add(a, b) => number(known(a)?.wrapping_add(known(b)?)),
        Op::Sub(a, b) => number(known(a)?.wrapping_sub(known(b)?)),
        Op::Mul(a, b) => number(known(a)?.wrapping_mul(known(b)?)),
        Op::Div(a, b) if known(b)? != 0 => number(known(a)?.wrapping_div(known(b)?)),
        Op::Rem(a, b) if known(b)? != 0 => number(known(a)?.wrapping_rem(known(b)?)),
        Op::Neg(a) => number(known(a)?.wrapping_neg()),
        Op::Compare(comparison, a, b) => Some(Op::Bool(comparison.holds(&known(a)?, &known(b)?))),
        Op::Convert(a) if phys.is_integer() => match builder.known_bool(a) {
            Some(b) => number(b as i128),
            None => number(known(a)?),
        },
        Op::OutOfDecimal(a, digits) => Some(Op::Bool(semantics::out_of_decimal(known(a)?, digits))),
        Op::ScaleUp(a, digits) => number(semantics::scale_up(known(a)?, digits)),
        Op::ScaleDown(a, digits) => number(semantics::scale_down(known(a)?, digits)),
        _ => None,
    }
}

impl Comparison {
    /// Whether the comparison is TRUE of two values; all but `Ne` are FALSE for a NaN.
    #[inline]
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    }
}
