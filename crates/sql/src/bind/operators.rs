//! Operators over bound operands: result types, casts of the operands, nullability.

use super::coercion::{
    cast_can_overflow, common_type, comparison_type, convert, decimal_arithmetic, decimal_of, is_castable, is_implicit,
    least_common_type,
};
use super::place::{error, type_name};
use crate::functions::collection::nested;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, Value, code};

const DAY_MS: i64 = 86_400_000;

/// `left op right` for numbers, intervals and times.
pub(crate) fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let (l, r) = (left.data_type.clone(), right.data_type.clone());
    match (&l, &r) {
        (DataType::Null, _) | (_, DataType::Null) => null_arithmetic(op, left, right, span),
        _ if l.is_numeric() && r.is_numeric() => numeric(op, left, right, span),
        _ if l.is_interval() && l == r && matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract) => {
            Ok(fold_intervals(op, &left, &right).unwrap_or_else(|| Expr::arithmetic(op, left, right)).at(span))
        }
        _ if is_temporal(&l) && r.is_interval() && op == ArithmeticOp::Add => add_interval(left, right, span),
        _ if is_temporal(&l) && r.is_interval() && op == ArithmeticOp::Subtract => {
            add_interval(left, negate(right, span)?, span)
        }
        _ if l.is_interval() && is_temporal(&r) && op == ArithmeticOp::Add => add_interval(right, left, span),
        _ if l.is_interval() && r.is_numeric() && op == ArithmeticOp::Multiply => scale_interval(left, right, span),
        _ if l.is_numeric() && r.is_interval() && op == ArithmeticOp::Multiply => scale_interval(right, left, span),
        _ if is_temporal(&l) && is_temporal(&r) && op == ArithmeticOp::Subtract => {
            let message = format!("{l} - {r} needs a unit");
            Err(error(code::TYPE_MISMATCH, span, message)
                .advise("write TIMESTAMPDIFF(SECOND, earlier, later), or another unit"))
        }
        _ => {
            let message = format!("`{}` cannot combine {l} and {r}", op.symbol());
            let advice = if l.is_string() || r.is_string() {
                "write CAST(x AS BIGINT) or CAST(x AS DOUBLE) around the text, or || to join two texts"
            } else {
                "cast one operand so that the two fit"
            };
            Err(error(code::TYPE_MISMATCH, span, message).advise(advice))
        }
    }
}

fn is_temporal(t: &DataType) -> bool {
    t.is_timestamp() || matches!(t, DataType::Date | DataType::Time(_))
}

/// A NULL operand takes the type of the other one.
fn null_arithmetic(op: ArithmeticOp, left: Expr, right: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let known = if left.data_type == DataType::Null { &right.data_type } else { &left.data_type };
    let data_type = match known {
        DataType::Null => DataType::Int,
        t if t.is_numeric() || t.is_interval() || is_temporal(t) => t.clone(),
        t => {
            let message = format!("`{}` cannot be applied to {t}", op.symbol());
            return Err(error(code::TYPE_MISMATCH, span, message).advise("cast the operand to a number"));
        }
    };
    Ok(Expr::null(data_type).at(span))
}

fn numeric(op: ArithmeticOp, left: Expr, right: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let mut nullable = left.nullable || right.nullable;
    let decimal = [&left, &right].iter().any(|e| matches!(e.data_type, DataType::Decimal { .. }));
    if let (true, Some(l), Some(r)) = (decimal, decimal_of(&left.data_type), decimal_of(&right.data_type)) {
        let result = decimal_arithmetic(op, l, r);
        nullable |= result.may_overflow;
        let left = convert(left, &DataType::decimal(l.0, l.1));
        let right = convert(right, &DataType::decimal(r.0, r.1));
        let kind = Expr::arithmetic(op, left, right).kind;
        return Ok(Expr::new(kind, result.data_type, nullable).at(span));
    }
    let Some(data_type) = common_type(&left.data_type, &right.data_type) else {
        return Err(Diagnostic::bug("two numeric types without a common type"));
    };
    // The remainder of integers has the type of the divisor, which it always fits.
    let result_type = match op {
        ArithmeticOp::Modulo if data_type.is_integer() => right.data_type.clone(),
        _ => data_type.clone(),
    };
    let computed = Expr::arithmetic(op, convert(left, &data_type), convert(right, &data_type));
    Ok(computed.at(span).cast_to(result_type))
}

/// `-x`; literals at once.
pub(crate) fn negate(operand: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let data_type = operand.data_type.clone();
    if !data_type.is_numeric() && !data_type.is_interval() && data_type != DataType::Null {
        let message = format!("`-` cannot be applied to {data_type}");
        return Err(error(code::TYPE_MISMATCH, span, message).advise("cast the operand to a number"));
    }
    let folded = match &operand.kind {
        ExprKind::Literal(Value::Int(i)) => i.checked_neg().map(Value::Int),
        ExprKind::Literal(Value::Decimal(d)) => d.checked_neg().map(Value::Decimal),
        ExprKind::Literal(Value::Float(x)) => Some(Value::Float(-x)),
        ExprKind::Literal(Value::Null) => Some(Value::Null),
        _ => None,
    };
    match folded {
        Some(value) => Ok(Expr::literal(value, narrowed(data_type, &operand)).at(span)),
        None => {
            let nullable = operand.nullable;
            Ok(Expr::new(ExprKind::Negate(Box::new(operand)), data_type, nullable).at(span))
        }
    }
}

/// `-2147483648` is an INT although 2147483648 is not, and `-9223372036854775808` a BIGINT.
fn narrowed(data_type: DataType, operand: &Expr) -> DataType {
    match operand.kind {
        ExprKind::Literal(Value::Int(i)) if data_type == DataType::BigInt && i == -i64::from(i32::MIN) => DataType::Int,
        _ => data_type,
    }
}

/// A time plus an interval.
pub(crate) fn add_interval(time: Expr, interval: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let time = match (&time.data_type, &interval) {
        // Only whole days keep a date a date.
        (DataType::Date, Expr { data_type: DataType::IntervalMilli, kind, .. }) if !matches!(kind, ExprKind::Literal(Value::Int(ms)) if ms % DAY_MS == 0) => {
            convert(time, &DataType::Timestamp(3))
        }
        (DataType::Time(_), Expr { data_type: DataType::IntervalMonth, .. }) => {
            let message = format!("months cannot be added to {}", time.data_type);
            return Err(
                error(code::TYPE_MISMATCH, span, message).advise("use an INTERVAL of hours, minutes or seconds")
            );
        }
        _ => time,
    };
    let (data_type, nullable) = (time.data_type.clone(), time.nullable || interval.nullable);
    Ok(Expr::new(ExprKind::AddInterval(Box::new(time), Box::new(interval)), data_type, nullable).at(span))
}

fn fold_intervals(op: ArithmeticOp, left: &Expr, right: &Expr) -> Option<Expr> {
    let (ExprKind::Literal(Value::Int(a)), ExprKind::Literal(Value::Int(b))) = (&left.kind, &right.kind) else {
        return None;
    };
    let sum = if op == ArithmeticOp::Add { a.checked_add(*b) } else { a.checked_sub(*b) };
    Some(Expr::literal(Value::Int(sum?), left.data_type.clone()))
}

/// `interval * n`: as numbers of months or milliseconds.
fn scale_interval(interval: Expr, factor: Expr, span: Span) -> Result<Expr, Diagnostic> {
    if !factor.data_type.is_integer() {
        let message = format!("an interval can be multiplied by an integer, not by {}", factor.data_type);
        return Err(error(code::TYPE_MISMATCH, span, message).advise("cast the factor to INT or BIGINT"));
    }
    let data_type = interval.data_type.clone();
    if let (ExprKind::Literal(Value::Int(a)), ExprKind::Literal(Value::Int(b))) = (&interval.kind, &factor.kind)
        && let Some(product) = a.checked_mul(*b)
    {
        return Ok(Expr::literal(Value::Int(product), data_type).at(span));
    }
    let work = if data_type == DataType::IntervalMonth { DataType::Int } else { DataType::BigInt };
    let product = Expr::arithmetic(ArithmeticOp::Multiply, convert(interval, &work), convert(factor, &work));
    Ok(convert(product.at(span), &data_type))
}

/// `left op right`.
pub(crate) fn compare(op: CompareOp, left: Expr, right: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let nested = common_type(&left.data_type, &right.data_type).filter(DataType::is_nested);
    if let (Some(common), CompareOp::Equal | CompareOp::NotEqual) = (nested, op) {
        let equal = nested::equals(convert(left, &common), convert(right, &common)).at(span);
        return Ok(if op == CompareOp::Equal { equal } else { not(equal, span) });
    }
    let (left, right) = comparable(left, right, span)?;
    Ok(Expr::compare(op, left, right).at(span))
}

/// Both operands in the type in which they are compared.
fn comparable(left: Expr, right: Expr, span: Span) -> Result<(Expr, Expr), Diagnostic> {
    let Some(common) = comparison_type(&left.data_type, &right.data_type) else {
        return Err(incomparable(&left.data_type, &right.data_type, span));
    };
    // Two NULLs compare as anything.
    let common = if common == DataType::Null { DataType::Boolean } else { common };
    let both_strings = common.is_string() && left.data_type.is_string() && right.data_type.is_string();
    let both_binary = common.is_binary() && left.data_type.is_binary() && right.data_type.is_binary();
    if both_strings || both_binary {
        return Ok((left, right));
    }
    Ok((convert(left, &common), convert(right, &common)))
}

fn incomparable(left: &DataType, right: &DataType, span: Span) -> Diagnostic {
    if left.is_nested() || right.is_nested() {
        let message = format!("{} and {} cannot be compared this way", type_name(left), type_name(right));
        return error(code::TYPE_MISMATCH, span, message).advise("use = or <>, or compare single fields");
    }
    error(code::TYPE_MISMATCH, span, format!("{left} and {right} cannot be compared"))
        .advise(format!("write CAST(… AS {left}) around the right one, or CAST(… AS {right}) around the left one"))
}

/// `left IS [NOT] DISTINCT FROM right`: a comparison in which NULL equals NULL.
pub(crate) fn distinct_from(left: Expr, right: Expr, negated: bool, span: Span) -> Result<Expr, Diagnostic> {
    let is_null = |e: &Expr| boolean(ExprKind::IsNull(Box::new(e.clone())), span);
    let (left_null, right_null) = (is_null(&left), is_null(&right));
    let equal = compare(CompareOp::Equal, left, right, span)?;
    let equal = boolean(ExprKind::IsBoolean(Box::new(equal), true), span);
    let never = Expr::boolean(false).at(span);
    let same =
        boolean(ExprKind::Case(vec![(left_null, right_null.clone()), (right_null, never)], Box::new(equal)), span);
    Ok(if negated { same } else { not(same, span) })
}

/// A BOOLEAN that is never NULL.
pub(crate) fn boolean(kind: ExprKind, span: Span) -> Expr {
    Expr::new(kind, DataType::Boolean, false).at(span)
}

/// `NOT operand`.
pub(crate) fn not(operand: Expr, span: Span) -> Expr {
    let nullable = operand.nullable;
    Expr::new(ExprKind::Not(Box::new(operand)), DataType::Boolean, nullable).at(span)
}

/// `AND` or `OR` of two or more operands.
pub(crate) fn logical(is_and: bool, mut operands: Vec<Expr>, span: Span) -> Expr {
    if operands.len() == 1 {
        return operands.remove(0);
    }
    let nullable = operands.iter().any(|e| e.nullable);
    let kind = if is_and { ExprKind::And(operands) } else { ExprKind::Or(operands) };
    Expr::new(kind, DataType::Boolean, nullable).at(span)
}

/// `operand IN (list)`.
pub(crate) fn in_list(operand: Expr, list: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
    let types: Vec<DataType> = list.iter().map(|e| e.data_type.clone()).collect();
    let Some(common) = least_common_type(&types) else {
        return Err(error(code::TYPE_MISMATCH, span, "the values of IN have types that do not fit together")
            .advise("cast the values to one type"));
    };
    let Some(common) = comparison_type(&operand.data_type, &common) else {
        return Err(incomparable(&operand.data_type, &common, span));
    };
    let text = common.is_string() && operand.data_type.is_string();
    let target = if text || common == DataType::Null { operand.data_type.clone() } else { common };
    let operand = convert(operand, &target);
    let (mut constants, mut others) = (Vec::new(), Vec::new());
    for item in list {
        let item = if text && item.data_type.is_string() { item } else { convert(item, &target) };
        match item.kind {
            ExprKind::Literal(Value::Null) => others.push(Expr::null(DataType::Boolean).at(span)),
            ExprKind::Literal(value) => constants.push(value),
            _ => others.push(compare(CompareOp::Equal, operand.clone(), item, span)?),
        }
    }
    let mut alternatives = Vec::new();
    if !constants.is_empty() {
        let nullable = operand.nullable;
        let kind = ExprKind::InList(Box::new(operand), constants);
        alternatives.push(Expr::new(kind, DataType::Boolean, nullable).at(span));
    }
    alternatives.extend(others);
    Ok(logical(false, alternatives, span))
}

/// `CASE WHEN c THEN v … ELSE e END` with the values cast to their common type.
pub(crate) fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let values = branches.iter().map(|(_, v)| v).chain([&otherwise]);
    let types: Vec<DataType> = values.map(|v| v.data_type.clone()).collect();
    let Some(data_type) = least_common_type(&types) else {
        let mut shown: Vec<String> = types.iter().map(type_name).collect();
        shown.dedup();
        let message = format!("the values have types that do not fit together: {}", shown.join(", "));
        return Err(error(code::TYPE_MISMATCH, span, message).advise("cast them to one type"));
    };
    let branches: Vec<(Expr, Expr)> = branches.into_iter().map(|(c, v)| (c, convert(v, &data_type))).collect();
    let otherwise = convert(otherwise, &data_type);
    if data_type.is_nested() {
        return Ok(nested::case(branches, otherwise, data_type).at(span));
    }
    let nullable = otherwise.nullable || branches.iter().any(|(_, v)| v.nullable);
    Ok(Expr::new(ExprKind::Case(branches, Box::new(otherwise)), data_type, nullable).at(span))
}

/// `CAST` or, if `fallible`, `TRY_CAST`.
pub(crate) fn cast(operand: Expr, to: DataType, fallible: bool, span: Span) -> Result<Expr, Diagnostic> {
    let from = &operand.data_type;
    if *from == to {
        return Ok(operand);
    }
    if from.is_nested() && to == DataType::STRING && nested::is_printable(from) {
        return Ok(nested::to_text(operand).at(span));
    }
    if !is_castable(from, &to) {
        let message = match from.is_nested() && to.is_nested() {
            true => format!("{from} cannot be cast to {to}"),
            false => format!("{} cannot be cast to {}", type_name(from), type_name(&to)),
        };
        return Err(error(code::TYPE_MISMATCH, span, message).advise(cast_advice(from, &to)));
    }
    if is_implicit(from, &to) && matches!(operand.kind, ExprKind::Literal(_)) || to.is_nested() && !fallible {
        return Ok(convert(operand, &to));
    }
    let nullable = operand.nullable || fallible || cast_can_overflow(from, &to);
    let kind = ExprKind::Cast { operand: Box::new(operand), fallible_to_null: fallible };
    Ok(Expr::new(kind, to, nullable).at(span))
}

fn cast_advice(from: &DataType, to: &DataType) -> &'static str {
    if from.is_numeric() && to.is_timestamp() {
        "use TO_TIMESTAMP_LTZ(epoch, 0 or 3)"
    } else if from.is_timestamp() && to.is_numeric() {
        "use UNIX_TIMESTAMP or EXTRACT"
    } else if from.is_nested() && to.is_nested() {
        "each part must be castable: as many fields, and TIMESTAMP_LTZ only to itself"
    } else if *to == DataType::Boolean {
        "write a comparison, such as x IS NOT NULL"
    } else {
        "no value of the one is a value of the other: cast to STRING, or compute what is meant"
    }
}
