//! Evaluation of expressions one row at a time in plain Rust: the oracle of the interpreter.
//!
//! Covers what [`super::Expressions`] makes; written from the meaning of expressions, not from their lowering.

use crate::semantics::POWERS_OF_TEN;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, DurationMillisecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalYearMonthType, Time32MillisecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef};
use millstream_abi::RuntimeFn;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use millstream_types::{DataType, TimeUnit, Value};
use std::cmp::Ordering;

/// Why a row is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRow {
    /// Division or modulo by zero.
    DivisionByZero,
    /// A text that is not a number of the type it is cast to.
    InvalidCast,
}

type Result = std::result::Result<Value, BadRow>;

/// The value of an expression in a row of the columns, with the watermark before it. FLOATs are kept as doubles rounded to
/// binary32.
pub fn evaluate(expr: &Expr, columns: &[ArrayRef], row: usize, watermark: i64) -> Result {
    let eval = |e: &Expr| evaluate(e, columns, row, watermark);
    Ok(match &expr.kind {
        ExprKind::Column(i) => column_value(&columns[*i], row, &expr.data_type),
        ExprKind::Literal(value) => value.clone(),
        ExprKind::Arithmetic(op, a, b) => {
            let (x, y) = (eval(a)?, eval(b)?);
            if x == Value::Null || y == Value::Null {
                return Ok(Value::Null);
            }
            match &expr.data_type {
                DataType::Decimal { precision, scale } => {
                    return decimal(*op, scaled(&x, &a.data_type), scaled(&y, &b.data_type), *precision, *scale);
                }
                t => arithmetic(*op, &x, &y, t)?,
            }
        }
        ExprKind::Negate(e) => match eval(e)? {
            Value::Int(n) => Value::Int(wrap(n.wrapping_neg().into(), &expr.data_type)),
            Value::Float(x) => Value::Float(-x),
            Value::Decimal(n) => Value::Decimal(-n),
            other => other,
        },
        ExprKind::AddInterval(time, interval) => match (eval(time)?, eval(interval)?) {
            (Value::Int(t), Value::Int(ms)) => Value::Int(match &time.data_type {
                DataType::Date => t + ms / 86_400_000,
                DataType::Time(_) => (t + ms).rem_euclid(86_400_000),
                t_type => t.wrapping_add(ms.wrapping_mul(t_type.time_unit().per_second() / 1000)),
            }),
            _ => Value::Null,
        },
        ExprKind::Compare(op, a, b) => match (eval(a)?, eval(b)?) {
            (Value::Null, _) | (_, Value::Null) => Value::Null,
            (x, y) => Value::Boolean(compare(*op, order(&x, &y))),
        },
        ExprKind::And(operands) => connective(operands, false, eval)?,
        ExprKind::Or(operands) => connective(operands, true, eval)?,
        ExprKind::Not(e) => match eval(e)? {
            Value::Boolean(b) => Value::Boolean(!b),
            other => other,
        },
        ExprKind::IsNull(e) => Value::Boolean(eval(e)? == Value::Null),
        ExprKind::IsNotNull(e) => Value::Boolean(eval(e)? != Value::Null),
        ExprKind::IsBoolean(e, truth) => Value::Boolean(eval(e)? == Value::Boolean(*truth)),
        ExprKind::Case(branches, otherwise) => {
            for (condition, value) in branches {
                if eval(condition)? == Value::Boolean(true) {
                    return eval(value);
                }
            }
            eval(otherwise)?
        }
        ExprKind::InList(e, values) => match eval(e)? {
            Value::Null => Value::Null,
            x => Value::Boolean(values.iter().any(|v| order(&x, v) == Some(Ordering::Equal))),
        },
        ExprKind::Cast { operand, fallible_to_null } => {
            match cast(eval(operand)?, &operand.data_type, &expr.data_type) {
                Err(_) if *fallible_to_null => Value::Null,
                result => result?,
            }
        }
        ExprKind::Call(RuntimeFn::Upper, arguments) => match eval(&arguments[0])? {
            Value::String(s) => Value::String(s.to_uppercase()),
            other => other,
        },
        ExprKind::Call(RuntimeFn::CharLength, arguments) => match eval(&arguments[0])? {
            Value::String(s) => Value::Int(s.chars().count() as i64),
            other => other,
        },
        ExprKind::CurrentWatermark if watermark == i64::MIN => Value::Null,
        ExprKind::CurrentWatermark => Value::Int(watermark),
        ExprKind::WindowStart(e, slicing) => match eval(e)? {
            Value::Int(t) => Value::Int(slicing.start_of(t)),
            other => other,
        },
        ExprKind::ProcessingTime | ExprKind::Field(..) | ExprKind::Call(..) | ExprKind::Vector(..) => {
            unreachable!("random expressions do not have {expr:?}")
        }
    })
}

/// AND (`decisive` is FALSE) or OR, from the left until one operand decides.
fn connective(operands: &[Expr], decisive: bool, eval: impl Fn(&Expr) -> Result) -> Result {
    let mut result = Value::Boolean(!decisive);
    for operand in operands {
        match eval(operand)? {
            Value::Boolean(b) if b == decisive => return Ok(Value::Boolean(decisive)),
            Value::Null => result = Value::Null,
            _ => {}
        }
    }
    Ok(result)
}

/// Order of two values of a type that are not NULL; none with a NaN.
fn order(x: &Value, y: &Value) -> Option<Ordering> {
    match (x, y) {
        (Value::Boolean(a), Value::Boolean(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Int(b)) => a.partial_cmp(b),
        (Value::Decimal(a), Value::Decimal(b)) => a.partial_cmp(b),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().partial_cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.partial_cmp(b),
        _ => unreachable!("{x:?} and {y:?} are of one type"),
    }
}

fn compare(op: CompareOp, order: Option<Ordering>) -> bool {
    match op {
        CompareOp::Equal => order == Some(Ordering::Equal),
        CompareOp::NotEqual => order != Some(Ordering::Equal),
        CompareOp::Less => order == Some(Ordering::Less),
        CompareOp::LessEqual => order.is_some_and(Ordering::is_le),
        CompareOp::Greater => order == Some(Ordering::Greater),
        CompareOp::GreaterEqual => order.is_some_and(Ordering::is_ge),
    }
}

/// `n` wrapped to the width of an integer type.
fn wrap(n: i128, data_type: &DataType) -> i64 {
    match data_type {
        DataType::TinyInt => n as i8 as i64,
        DataType::SmallInt => n as i16 as i64,
        DataType::Int => n as i32 as i64,
        _ => n as i64,
    }
}

fn arithmetic(op: ArithmeticOp, x: &Value, y: &Value, data_type: &DataType) -> Result {
    match (x, y) {
        (Value::Int(a), Value::Int(b)) => {
            let (a, b) = (*a as i128, *b as i128);
            let exact = match op {
                ArithmeticOp::Add => a + b,
                ArithmeticOp::Subtract => a - b,
                ArithmeticOp::Multiply => a * b,
                ArithmeticOp::Divide => a.checked_div(b).ok_or(BadRow::DivisionByZero)?,
                ArithmeticOp::Modulo => a.checked_rem(b).ok_or(BadRow::DivisionByZero)?,
            };
            Ok(Value::Int(wrap(exact, data_type)))
        }
        (Value::Float(a), Value::Float(b)) => {
            macro_rules! apply {
                ($a:expr, $b:expr) => {
                    match op {
                        ArithmeticOp::Add => $a + $b,
                        ArithmeticOp::Subtract => $a - $b,
                        ArithmeticOp::Multiply => $a * $b,
                        ArithmeticOp::Divide => $a / $b,
                        ArithmeticOp::Modulo => $a % $b,
                    }
                };
            }
            Ok(Value::Float(match data_type {
                DataType::Float => apply!(*a as f32, *b as f32).into(),
                _ => apply!(a, b),
            }))
        }
        _ => unreachable!("{x:?} and {y:?} are numbers of one type"),
    }
}

/// An unscaled number and its scale.
fn scaled(value: &Value, data_type: &DataType) -> (i128, u8) {
    match (value, data_type) {
        (Value::Decimal(n), DataType::Decimal { scale, .. }) => (*n, *scale),
        (Value::Int(n), _) => ((*n).into(), 0),
        _ => unreachable!("{value:?} is a decimal or an integer"),
    }
}

/// `numerator / denominator`, rounded half away from zero, as a decimal of a precision.
fn rounded(numerator: i128, denominator: i128, precision: u8) -> Value {
    let (quotient, remainder) = (numerator / denominator, numerator % denominator);
    let up = remainder.unsigned_abs() * 2 >= denominator.unsigned_abs();
    let away = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
    let value = quotient + if up { away } else { 0 };
    let fits = value.unsigned_abs() < POWERS_OF_TEN[precision as usize] as u128;
    if fits { Value::Decimal(value) } else { Value::Null }
}

/// A number at one scale as a decimal of a precision at another.
fn rescaled(n: i128, from: u8, precision: u8, to: u8) -> Value {
    match to.checked_sub(from) {
        Some(up) => rounded(n * POWERS_OF_TEN[up as usize], 1, precision),
        None => rounded(n, POWERS_OF_TEN[(from - to) as usize], precision),
    }
}

fn decimal(op: ArithmeticOp, (a, s1): (i128, u8), (b, s2): (i128, u8), precision: u8, scale: u8) -> Result {
    let common = s1.max(s2);
    let (x, y) = (a * POWERS_OF_TEN[(common - s1) as usize], b * POWERS_OF_TEN[(common - s2) as usize]);
    Ok(match op {
        ArithmeticOp::Add => rescaled(x + y, common, precision, scale),
        ArithmeticOp::Subtract => rescaled(x - y, common, precision, scale),
        ArithmeticOp::Multiply => rescaled(a * b, s1 + s2, precision, scale),
        _ if b == 0 => return Err(BadRow::DivisionByZero),
        ArithmeticOp::Divide => rounded(x * POWERS_OF_TEN[scale as usize], y, precision),
        ArithmeticOp::Modulo => rescaled(x % y, common, precision, scale),
    })
}

/// Casts between numbers and BOOLEAN, of integers and BOOLEAN to text, and of text to integers.
fn cast(value: Value, from: &DataType, to: &DataType) -> Result {
    let value = match value {
        Value::Null => return Ok(Value::Null),
        value if from == to => return Ok(value),
        Value::Boolean(b) if to.is_string() => return Ok(Value::String(if b { "TRUE" } else { "FALSE" }.into())),
        Value::Boolean(b) => Value::Int(b.into()),
        other => other,
    };
    Ok(match (value, to) {
        (Value::Int(n), DataType::Varchar(_)) => Value::String(n.to_string()),
        (Value::String(s), _) => {
            let number = s.trim().parse::<i64>().ok().filter(|&n| wrap(n.into(), to) == n);
            Value::Int(number.ok_or(BadRow::InvalidCast)?)
        }
        (Value::Int(n), DataType::Decimal { precision, scale }) => rescaled(n.into(), 0, *precision, *scale),
        (Value::Decimal(n), DataType::Decimal { precision, scale }) => {
            rescaled(n, scaled(&Value::Decimal(n), from).1, *precision, *scale)
        }
        (Value::Decimal(n), _) => {
            let unit = POWERS_OF_TEN[scaled(&Value::Decimal(n), from).1 as usize];
            Value::Int(wrap(n / unit, to))
        }
        (Value::Int(n), DataType::Float) => Value::Float((n as f32).into()),
        (Value::Int(n), DataType::Double) => Value::Float(n as f64),
        (Value::Float(x), DataType::Float) => Value::Float((x as f32).into()),
        (Value::Float(x), DataType::Double) => Value::Float(x),
        (Value::Float(x), DataType::BigInt) => Value::Int(x as i64),
        (Value::Float(x), _) => Value::Int(wrap((x as i32).into(), to)),
        (Value::Int(n), _) => Value::Int(wrap(n.into(), to)),
        (value, _) => unreachable!("random expressions do not cast {value:?} to {to}"),
    })
}

/// The value of a column in a row.
pub fn column_value(column: &ArrayRef, row: usize, data_type: &DataType) -> Value {
    if *data_type == DataType::Null || column.is_null(row) {
        return Value::Null;
    }
    fn int<T: ArrowPrimitiveType>(column: &ArrayRef, row: usize) -> Value
    where
        T::Native: Into<i64>,
    {
        Value::Int(column.as_primitive::<T>().value(row).into())
    }
    match data_type {
        DataType::Boolean => Value::Boolean(column.as_boolean().value(row)),
        DataType::TinyInt => int::<Int8Type>(column, row),
        DataType::SmallInt => int::<Int16Type>(column, row),
        DataType::Int => int::<Int32Type>(column, row),
        DataType::BigInt => int::<Int64Type>(column, row),
        DataType::Date => int::<Date32Type>(column, row),
        DataType::Time(_) => int::<Time32MillisecondType>(column, row),
        DataType::IntervalMonth => int::<IntervalYearMonthType>(column, row),
        DataType::IntervalMilli => int::<DurationMillisecondType>(column, row),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => match data_type.time_unit() {
            TimeUnit::Milli => int::<TimestampMillisecondType>(column, row),
            TimeUnit::Micro => int::<TimestampMicrosecondType>(column, row),
            TimeUnit::Nano => int::<TimestampNanosecondType>(column, row),
        },
        DataType::Float => Value::Float(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Double => Value::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal { .. } => Value::Decimal(column.as_primitive::<Decimal128Type>().value(row)),
        DataType::Char(_) | DataType::Varchar(_) => Value::String(column.as_string_view().value(row).to_string()),
        DataType::Binary(_) | DataType::Varbinary(_) => Value::Bytes(column.as_binary_view().value(row).to_vec()),
        DataType::Null | DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => {
            unreachable!("random columns are not of type {data_type}")
        }
    }
}

/// Whether two values are the same, NaNs all alike and zeros told apart.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(x), Value::Float(y)) => x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()),
        _ => a == b,
    }
}
