//! Expressions as trees.

use super::{Row, Value};
use std::sync::Arc;

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Greater,
}

/// How two numbers become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Subtract,
}

/// A value computed from a row.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Column(usize),
    Integer(i64),
    Double(f64),
    Text(Arc<str>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    Compute(Arithmetic, Box<Expression>, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
}

impl Expression {
    /// A comparison.
    pub(crate) fn compare(by: Comparison, left: Expression, right: Expression) -> Expression {
        Expression::Compare(by, Box::new(left), Box::new(right))
    }

    /// An operation on numbers.
    pub(crate) fn compute(by: Arithmetic, left: Expression, right: Expression) -> Expression {
        Expression::Compute(by, Box::new(left), Box::new(right))
    }

    /// Its value for a row.
    pub(crate) fn evaluate(&self, row: &Row) -> Value {
        match self {
            Expression::Column(column) => row[*column].clone(),
            Expression::Integer(number) => Value::Integer(*number),
            Expression::Double(number) => Value::Double(*number),
            Expression::Text(text) => Value::Text(Arc::clone(text)),
            Expression::Compare(by, left, right) => {
                Value::Boolean(compare(*by, &left.evaluate(row), &right.evaluate(row)))
            }
            Expression::Compute(by, left, right) => compute(*by, &left.evaluate(row), &right.evaluate(row)),
            Expression::And(left, right) => {
                let is_true = |e: &Expression| e.evaluate(row) == Value::Boolean(true);
                Value::Boolean(is_true(left) && is_true(right))
            }
        }
    }
}

fn compare(by: Comparison, left: &Value, right: &Value) -> bool {
    let order = match (left, right) {
        (Value::Text(left), Value::Text(right)) => left.partial_cmp(right),
        (Value::Double(_), _) | (_, Value::Double(_)) => left.double().partial_cmp(&right.double()),
        _ => left.integer().partial_cmp(&right.integer()),
    };
    order.is_some_and(|order| match by {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Greater => order.is_gt(),
    })
}

fn compute(by: Arithmetic, left: &Value, right: &Value) -> Value {
    if let (Value::Integer(left), Value::Integer(right)) = (left, right) {
        return Value::Integer(match by {
            Arithmetic::Subtract => left - right,
        });
    }
    let (left, right) = (left.double(), right.double());
    Value::Double(match by {
        Arithmetic::Subtract => left - right,
    })
}
