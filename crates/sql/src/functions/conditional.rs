//! Conditional functions: all of them are CASE in disguise.

use super::call::{BoundCall, Call, case, compare, convert, fits, int, is_not_null, is_null, null, string};
use super::function::{Binding, Category, Function, functions};
use crate::bind::coercion;
use Binding::Custom;
use millstream_plan::expr::{CompareOp, Expr, ExprKind};
use millstream_types::{DataType, Diagnostic, Value};

/// Conditional functions.
pub(super) const CONDITIONAL: &[Function] = functions! {Conditional;
    "IF" ("IF(condition, value, otherwise)") Custom(if_), "The first value if the condition is TRUE, else the other one.";
    "IFNULL" ["NVL"] ("IFNULL(value, replacement)") Custom(if_null), "The value, or the replacement where it is NULL.";
    "COALESCE" ("COALESCE(value, …)") Custom(coalesce), "The first value that is not NULL.";
    "NULLIF" ("NULLIF(value, other)") Custom(null_if), "NULL if the two are equal, else the value.";
    "GREATEST" ("GREATEST(value, …)") Custom(|call| extreme(call, CompareOp::GreaterEqual)),
        "The greatest value; NULL if any is NULL.";
    "LEAST" ("LEAST(value, …)") Custom(|call| extreme(call, CompareOp::LessEqual)),
        "The least value; NULL if any is NULL.";
    "ELT" ("ELT(index, value, …)") Custom(elt), "The value at a position (from 1); NULL outside.";
    "TYPEOF" ("TYPEOF(value)") Custom(type_of), "The name of the value's type.";
};

/// All arguments in the type that they share.
fn unified(call: Call, from: usize) -> Result<(Vec<Expr>, DataType), Diagnostic> {
    if call.arguments.len() <= from {
        return Err(call.mismatch());
    }
    let common = call.common_type(&call.arguments[from..])?;
    let mut arguments = call.arguments;
    let tail: Vec<Expr> = arguments.drain(from..).map(|a| convert(a, &common)).collect();
    arguments.extend(tail);
    Ok((arguments, common))
}

fn if_(call: Call) -> BoundCall {
    if call.arguments.len() != 3 || !fits(&call.arguments[0], |t| *t == DataType::Boolean) {
        return Err(call.mismatch());
    }
    let (arguments, data_type) = unified(call, 1)?;
    let [condition, value, otherwise] = arguments.try_into().expect("there are three arguments");
    Ok(case(vec![(convert(condition, &DataType::Boolean), value)], otherwise, data_type))
}

fn if_null(call: Call) -> BoundCall {
    if call.arguments.len() != 2 {
        return Err(call.mismatch());
    }
    coalesce(call)
}

/// The arguments after one that is never NULL are never looked at.
fn coalesce(call: Call) -> BoundCall {
    let (mut values, data_type) = unified(call, 0)?;
    if let Some(last) = values.iter().position(|value| !value.nullable) {
        values.truncate(last + 1);
    }
    let otherwise = values.pop().expect("there is at least one argument");
    if values.is_empty() {
        return Ok(Expr { data_type, ..otherwise });
    }
    let nullable = otherwise.nullable;
    let branches = values.into_iter().map(|value| (is_not_null(value.clone()), value)).collect();
    Ok(Expr { nullable, ..case(branches, otherwise, data_type) })
}

fn null_if(call: Call) -> BoundCall {
    let [a, b] = &call.arguments[..] else { return Err(call.mismatch()) };
    let Some(common) = coercion::comparison_type(&a.data_type, &b.data_type) else { return Err(call.mismatch()) };
    let [a, b] = call.take()?;
    let data_type = a.data_type.clone();
    let equal = compare(CompareOp::Equal, convert(a.clone(), &common), convert(b, &common));
    Ok(case(vec![(equal, null(data_type.clone()))], a, data_type))
}

/// The value for which `op` holds against all that follow it. What precedes it is then beaten already, so a quadratic
/// number of comparisons serves instead of expressions that double with every argument.
fn extreme(call: Call, op: CompareOp) -> BoundCall {
    let (mut values, data_type) = unified(call, 0)?;
    let nulls: Vec<Expr> = values.iter().filter(|v| v.nullable).map(|v| is_null(v.clone())).collect();
    let nullable = !nulls.is_empty();
    let mut branches: Vec<(Expr, Expr)> = nulls.into_iter().map(|is_null| (is_null, null(data_type.clone()))).collect();
    for (index, value) in values.iter().enumerate().take(values.len() - 1) {
        let mut tests: Vec<Expr> =
            values[index + 1..].iter().map(|other| compare(op, value.clone(), other.clone())).collect();
        let condition = match tests.len() {
            1 => tests.remove(0),
            _ => Expr::new(ExprKind::And(tests), DataType::Boolean, nullable),
        };
        branches.push((condition, value.clone()));
    }
    let otherwise = values.pop().expect("there is at least one argument");
    if branches.is_empty() {
        return Ok(Expr { data_type, ..otherwise });
    }
    Ok(Expr { nullable, ..case(branches, otherwise, data_type) })
}

fn elt(call: Call) -> BoundCall {
    if !call.arguments.first().is_some_and(|index| fits(index, DataType::is_integer)) {
        return Err(call.mismatch());
    }
    let (mut values, data_type) = unified(call, 1)?;
    let index = convert(values.remove(0), &DataType::Int);
    let branches = (1..)
        .zip(values)
        .map(|(position, value)| (compare(CompareOp::Equal, index.clone(), int(position)), value))
        .collect();
    Ok(case(branches, null(data_type.clone()), data_type))
}

fn type_of(call: Call) -> BoundCall {
    if call.arguments.len() == 2 && matches!(call.arguments[1].kind, ExprKind::Literal(Value::Boolean(_))) {
        let serializable = call.arguments[1].kind == ExprKind::Literal(Value::Boolean(true));
        return Ok(type_name(&call.arguments[0], serializable));
    }
    let [value] = call.take()?;
    Ok(type_name(&value, false))
}

/// The name of a type; the serializable form spells out `STRING` and `BYTES`.
fn type_name(value: &Expr, serializable: bool) -> Expr {
    let name = match &value.data_type {
        DataType::Varchar(n) if serializable => format!("VARCHAR({n})"),
        DataType::Varbinary(n) if serializable => format!("VARBINARY({n})"),
        other => other.to_string(),
    };
    string(&if value.nullable { name } else { format!("{name} NOT NULL") })
}
