//! Mathematical functions. Those that are exact keep the type of their argument; the others work on DOUBLE.

use super::call::{
    BoundCall, Call, arithmetic, case, compare, convert, double, fits, int, integer_of, is_cheap, native, null,
};
use super::function::{Binding, Category, Function, functions};
use super::overload::Parameter::{Double, Int, Long};
use super::overload::{Overload, Parameter};
use super::temporal;
use crate::bind::coercion;
use Binding::{Custom, Overloads};
use millstream_abi::RuntimeFn as F;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind};
use millstream_types::{DataType, Value};
use std::f64::consts::{E, LN_2, PI};

const fn real(parameters: &'static [Parameter], function: F) -> Overload {
    Overload::new(parameters, function, |_| DataType::Double)
}

const fn bits(parameters: &'static [Parameter], function: F) -> Overload {
    Overload::new(parameters, function, |_| DataType::BigInt)
}

/// Mathematical functions.
pub(super) const MATH: &[Function] = functions! {Math;
    "ABS" ("ABS(number)") Custom(abs), "The absolute value.";
    "SIGN" ("SIGN(number)") Custom(sign), "-1, 0 or 1.";
    "FLOOR" ("FLOOR(number)", "FLOOR(time TO unit)")
        Custom(|call| to_whole(call, F::FloorDouble, F::FloorDecimal, [F::FloorDate, F::FloorTime, F::FloorTimestamp])),
        "The largest whole number not above the number, or the start of the unit that a time lies in.";
    "CEIL" ["CEILING"] ("CEIL(number)", "CEIL(time TO unit)")
        Custom(|call| to_whole(call, F::CeilDouble, F::CeilDecimal, [F::CeilDate, F::CeilTime, F::CeilTimestamp])),
        "The smallest whole number not below the number, or the first start of a unit not before a time.";
    "ROUND" ("ROUND(number [, places])")
        Custom(|call| to_places(call, F::RoundInteger, F::RoundDecimal, F::RoundDouble)),
        "The number rounded to some decimal places (0 by default; negative ones are tens, hundreds, …), halves away from zero.";
    "TRUNCATE" ["TRUNC"] ("TRUNCATE(number [, places])")
        Custom(|call| to_places(call, F::TruncateInteger, F::TruncateDecimal, F::TruncateDouble)),
        "The number truncated after some decimal places (0 by default; negative ones are tens, hundreds, …).";
    "MOD" ("MOD(dividend, divisor)") Custom(modulo), "The remainder, with the sign of the dividend.";
    "POWER" ["POW"] ("POWER(base, exponent)") Overloads(&[real(&[Double, Double], F::Power)]), "The base raised to the exponent.";
    "SQRT" ("SQRT(number)") Overloads(&[real(&[Double], F::Sqrt)]), "The square root.";
    "EXP" ("EXP(number)") Overloads(&[real(&[Double], F::Exp)]), "e raised to the number.";
    "LN" ("LN(number)") Overloads(&[real(&[Double], F::Ln)]), "The natural logarithm.";
    "LOG" ("LOG([base,] number)") Custom(log), "The logarithm to a base, or the natural one.";
    "LOG2" ("LOG2(number)") Custom(|call| of_double(call, |x| divide(ln(x), double(LN_2)))), "The logarithm to base 2.";
    "LOG10" ("LOG10(number)") Overloads(&[real(&[Double], F::Log10)]), "The logarithm to base 10.";
    "SIN" ("SIN(number)") Overloads(&[real(&[Double], F::Sin)]), "The sine of an angle in radians.";
    "COS" ("COS(number)") Overloads(&[real(&[Double], F::Cos)]), "The cosine of an angle in radians.";
    "TAN" ("TAN(number)") Overloads(&[real(&[Double], F::Tan)]), "The tangent of an angle in radians.";
    "COT" ("COT(number)")
        Custom(|call| of_double(call, |x| divide(double(1.0), native(F::Tan, vec![x], DataType::Double, false)))),
        "The cotangent of an angle in radians.";
    "ASIN" ("ASIN(number)") Overloads(&[real(&[Double], F::Asin)]), "The arc sine, in radians.";
    "ACOS" ("ACOS(number)") Overloads(&[real(&[Double], F::Acos)]), "The arc cosine, in radians.";
    "ATAN" ("ATAN(number)") Overloads(&[real(&[Double], F::Atan)]), "The arc tangent, in radians.";
    "ATAN2" ("ATAN2(y, x)") Overloads(&[real(&[Double, Double], F::Atan2)]), "The angle of the point (x, y), in radians.";
    "SINH" ("SINH(number)") Overloads(&[real(&[Double], F::Sinh)]), "The hyperbolic sine.";
    "COSH" ("COSH(number)") Overloads(&[real(&[Double], F::Cosh)]), "The hyperbolic cosine.";
    "TANH" ("TANH(number)") Overloads(&[real(&[Double], F::Tanh)]), "The hyperbolic tangent.";
    "DEGREES" ("DEGREES(number)") Custom(|call| of_double(call, |x| times(x, 180.0 / PI))), "Radians converted to degrees.";
    "RADIANS" ("RADIANS(number)") Custom(|call| of_double(call, |x| times(x, PI / 180.0))), "Degrees converted to radians.";
    "PI" ("PI()") Custom(|call| constant(call, PI)), "The number π.";
    "E" ("E()") Custom(|call| constant(call, E)), "The number e.";
    "RAND" ("RAND([seed])") Overloads(&[real(&[], F::Rand), real(&[Int], F::RandSeed)]),
        "A random DOUBLE of at least 0 and below 1 for every row.";
    "RAND_INTEGER" ("RAND_INTEGER([seed,] bound)") Overloads(&[
        Overload::new(&[Int], F::RandInteger, |_| DataType::Int), Overload::new(&[Int, Int], F::RandIntegerSeed, |_| DataType::Int)]),
        "A random INT of at least 0 and below the bound for every row.";
    "BITAND" ("BITAND(integer, integer)") Overloads(&[bits(&[Long, Long], F::BitAnd)]), "Bitwise and.";
    "BITOR" ("BITOR(integer, integer)") Overloads(&[bits(&[Long, Long], F::BitOr)]), "Bitwise or.";
    "BITXOR" ("BITXOR(integer, integer)") Overloads(&[bits(&[Long, Long], F::BitXor)]), "Bitwise exclusive or.";
    "BITNOT" ("BITNOT(integer)") Overloads(&[bits(&[Long], F::BitNot)]), "Bitwise complement.";
};

/// The argument of a function of one number, and its type; a bare NULL is a DOUBLE.
fn one_number(call: Call) -> Result<(Expr, DataType), millstream_types::Diagnostic> {
    if !call.arguments.iter().all(|a| fits(a, DataType::is_numeric)) {
        return Err(call.mismatch());
    }
    let [x] = call.take()?;
    Ok(match x.data_type {
        DataType::Null => (null(DataType::Double), DataType::Double),
        _ => {
            let data_type = x.data_type.clone();
            (x, data_type)
        }
    })
}

/// Calls a function on BIGINT or DOUBLE for a number of any integer or floating type, and casts back.
fn through(function: F, x: Expr, arguments: Vec<Expr>, data_type: &DataType) -> Expr {
    let wide = if data_type.is_integer() { DataType::BigInt } else { DataType::Double };
    let arguments = std::iter::once(convert(x, &wide)).chain(arguments).collect();
    native(function, arguments, wide, false).cast_to(data_type.clone())
}

/// `ABS(x)`: a comparison where that is cheaper than a call.
fn abs(call: Call) -> BoundCall {
    let (x, data_type) = one_number(call)?;
    if !is_cheap(&x) {
        return Ok(match data_type {
            DataType::Decimal { .. } => native(F::AbsDecimal, vec![x], data_type, false),
            _ if data_type.is_integer() => through(F::AbsInteger, x, vec![], &data_type),
            _ => through(F::AbsDouble, x, vec![], &data_type),
        });
    }
    let zero = number(0, &data_type);
    // `0 - x` makes the zero of `-0.0` positive, which a negation would not.
    let (op, flipped) = if data_type.is_floating() {
        (CompareOp::LessEqual, arithmetic(ArithmeticOp::Subtract, zero.clone(), x.clone(), data_type.clone()))
    } else {
        (CompareOp::Less, Expr::new(ExprKind::Negate(Box::new(x.clone())), data_type.clone(), x.nullable))
    };
    Ok(case(vec![(compare(op, x.clone(), zero), flipped)], x, data_type))
}

/// A small whole number as a constant of a numeric type.
fn number(value: i8, data_type: &DataType) -> Expr {
    let value = match data_type {
        DataType::Decimal { scale, .. } => Value::Decimal(i128::from(value) * 10_i128.pow(u32::from(*scale))),
        _ if data_type.is_floating() => Value::Float(value.into()),
        _ => Value::Int(value.into()),
    };
    Expr::literal(value, data_type.clone())
}

/// `SIGN(x)`, of the argument's type.
fn sign(call: Call) -> BoundCall {
    let (x, data_type) = one_number(call)?;
    if data_type.is_floating() {
        return Ok(through(F::SignDouble, x, vec![], &data_type));
    }
    // A decimal without digits before the point has no room for 1.
    let data_type = match data_type {
        DataType::Decimal { precision, scale } if precision == scale => {
            DataType::decimal((precision + 1).min(38), scale.min(37))
        }
        other => other,
    };
    let zero = number(0, &x.data_type);
    let test = |op| compare(op, x.clone(), zero.clone());
    let value = |n| number(n, &data_type);
    let mut branches = vec![(test(CompareOp::Greater), value(1)), (test(CompareOp::Less), value(-1))];
    if !x.nullable {
        return Ok(case(branches, value(0), data_type));
    }
    branches.push((test(CompareOp::Equal), value(0)));
    Ok(case(branches, null(data_type.clone()), data_type))
}

/// FLOOR and CEIL: integers stay, DECIMAL(p, s) becomes DECIMAL(p, 0); with a unit, of a time.
fn to_whole(call: Call, for_double: F, for_decimal: F, of_time: [F; 3]) -> BoundCall {
    if call.arguments.len() == 2 {
        return temporal::to_unit(call, of_time);
    }
    let (x, data_type) = one_number(call)?;
    Ok(match data_type {
        DataType::Decimal { scale: 0, .. } => x,
        DataType::Decimal { precision, scale } => {
            native(for_decimal, vec![x, int(scale.into())], DataType::decimal(precision, 0), false)
        }
        _ if data_type.is_integer() => x,
        _ => through(for_double, x, vec![], &data_type),
    })
}

/// ROUND and TRUNCATE; without places, to whole numbers.
fn to_places(mut call: Call, for_integer: F, for_decimal: F, for_double: F) -> BoundCall {
    let places = match call.arguments.len() {
        2 if fits(&call.arguments[1], DataType::is_integer) => {
            convert(call.arguments.pop().expect("there are two arguments"), &DataType::Int)
        }
        1 => int(0),
        _ => return Err(call.mismatch()),
    };
    let constant = integer_of(&places);
    let (x, data_type) = one_number(call)?;
    Ok(match data_type {
        DataType::Decimal { precision, scale } => {
            let result = round_type(precision, scale, constant);
            let DataType::Decimal { scale: result_scale, .. } = result else { unreachable!("rounding keeps decimals") };
            // Places that are not constant can round up to a digit more than the type has.
            let can_be_null = constant.is_none() || precision == 38;
            let arguments = vec![x, int(scale.into()), places, int(result_scale.into())];
            native(for_decimal, arguments, result, can_be_null)
        }
        _ if data_type.is_integer() && constant.is_some_and(|places| places >= 0) => x,
        _ if data_type.is_integer() => through(for_integer, x, vec![places], &data_type),
        _ => through(for_double, x, vec![places], &data_type),
    })
}

/// Flink's `findRoundDecimalType`: rounding can carry into one more digit. Without constant places the type stays.
fn round_type(precision: u8, scale: u8, places: Option<i64>) -> DataType {
    match places {
        Some(places) if places < 0 => DataType::decimal((1 + precision - scale).min(38), 0),
        Some(places) if places < i64::from(scale) => {
            DataType::decimal(1 + precision - scale + places as u8, places as u8)
        }
        _ => DataType::decimal(precision, scale),
    }
}

/// `MOD(a, b)`: of integers it has the divisor's type.
fn modulo(call: Call) -> BoundCall {
    if !call.arguments.iter().all(|a| fits(a, DataType::is_numeric)) {
        return Err(call.mismatch());
    }
    let common = call.common_type(&call.arguments)?;
    let [a, b] = call.take()?;
    if let (DataType::Decimal { .. }, Some(p), Some(q)) =
        (&common, coercion::decimal_of(&a.data_type), coercion::decimal_of(&b.data_type))
    {
        let result = coercion::decimal_arithmetic(ArithmeticOp::Modulo, p, q);
        let (a, b) = (convert(a, &DataType::decimal(p.0, p.1)), convert(b, &DataType::decimal(q.0, q.1)));
        let remainder = arithmetic(ArithmeticOp::Modulo, a, b, result.data_type);
        return Ok(Expr { nullable: remainder.nullable || result.may_overflow, ..remainder });
    }
    let common = if common == DataType::Null { DataType::Int } else { common };
    let result = if b.data_type.is_integer() { b.data_type.clone() } else { common.clone() };
    let remainder = arithmetic(ArithmeticOp::Modulo, convert(a, &common), convert(b, &common), common);
    Ok(remainder.cast_to(result))
}

/// The arguments as DOUBLE.
fn doubles<const N: usize>(call: Call) -> Result<[Expr; N], millstream_types::Diagnostic> {
    if !call.arguments.iter().all(|a| fits(a, DataType::is_numeric)) {
        return Err(call.mismatch());
    }
    Ok(call.take()?.map(|a| convert(a, &DataType::Double)))
}

fn ln(x: Expr) -> Expr {
    native(F::Ln, vec![x], DataType::Double, false)
}

fn divide(a: Expr, b: Expr) -> Expr {
    arithmetic(ArithmeticOp::Divide, a, b, DataType::Double)
}

fn log(call: Call) -> BoundCall {
    if call.arguments.len() == 1 {
        let [x] = doubles(call)?;
        return Ok(ln(x));
    }
    let [base, x] = doubles(call)?;
    Ok(divide(ln(x), ln(base)))
}

fn times(x: Expr, factor: f64) -> Expr {
    arithmetic(ArithmeticOp::Multiply, x, double(factor), DataType::Double)
}

/// A function of one DOUBLE.
fn of_double(call: Call, give: fn(Expr) -> Expr) -> BoundCall {
    let [x] = doubles(call)?;
    Ok(give(x))
}

fn constant(call: Call, value: f64) -> BoundCall {
    let [] = call.take()?;
    Ok(double(value))
}
