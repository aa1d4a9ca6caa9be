//! Flink's rules of how types combine and which casts happen unasked.
//!
//! The decimal rules are those of Flink's `LogicalTypeMerging`; the others those of Calcite's `leastRestrictive` as
//! Flink configures it: no conversion between strings and other types except in comparisons, where the string is read
//! as the other side's type.

use super::place;
use millstream_plan::expr::{ArithmeticOp, Expr, ExprKind};
use millstream_types::{DataType, Diagnostic, Field, Value, code};

/// The largest precision of a DECIMAL.
const MAX_PRECISION: i32 = 38;

/// Digits after the point that an overlong decimal result keeps.
const MIN_ADJUSTED_SCALE: i32 = 6;

/// Precision and scale of the decimal that holds every value of an exact numeric type.
pub fn decimal_of(data_type: &DataType) -> Option<(u8, u8)> {
    match data_type {
        DataType::TinyInt => Some((3, 0)),
        DataType::SmallInt => Some((5, 0)),
        DataType::Int => Some((10, 0)),
        DataType::BigInt => Some((19, 0)),
        DataType::Decimal { precision, scale } => Some((*precision, *scale)),
        _ => None,
    }
}

/// The type of a decimal operation, and whether a result can be too large for it (it is NULL then).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecimalResult {
    /// DECIMAL(p, s)
    pub data_type: DataType,
    /// Whether digits before the point were given up, so that results can overflow to NULL.
    pub may_overflow: bool,
}

/// Flink's `findAdditionDecimalType` and its siblings.
pub fn decimal_arithmetic(op: ArithmeticOp, left: (u8, u8), right: (u8, u8)) -> DecimalResult {
    let (p1, s1) = (i32::from(left.0), i32::from(left.1));
    let (p2, s2) = (i32::from(right.0), i32::from(right.1));
    let (precision, scale) = match op {
        ArithmeticOp::Add | ArithmeticOp::Subtract => {
            let scale = s1.max(s2);
            ((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        ArithmeticOp::Multiply => (p1 + p2 + 1, s1 + s2),
        ArithmeticOp::Divide => {
            let scale = (s1 + p2 + 1).max(MIN_ADJUSTED_SCALE);
            (p1 - s1 + s2 + scale, scale)
        }
        ArithmeticOp::Modulo => {
            let scale = s1.max(s2);
            (((p1 - s1).min(p2 - s2) + scale).max(1), scale)
        }
    };
    DecimalResult { data_type: adjusted(precision, scale), may_overflow: precision > MAX_PRECISION }
}

/// Flink's `adjustDecimal`: an overlong decimal gives up digits after the point, but keeps six of them.
fn adjusted(precision: i32, scale: i32) -> DataType {
    if precision <= MAX_PRECISION {
        return DataType::decimal(precision as u8, scale as u8);
    }
    let integer_digits = precision - scale;
    let scale = (MAX_PRECISION - integer_digits).max(scale.min(MIN_ADJUSTED_SCALE));
    DataType::decimal(MAX_PRECISION as u8, scale as u8)
}

/// The type that every value of both numeric types can be cast to.
fn common_numeric(a: &DataType, b: &DataType) -> Option<DataType> {
    if a.is_floating() || b.is_floating() {
        let decimal = matches!(a, DataType::Decimal { .. }) || matches!(b, DataType::Decimal { .. });
        let double = *a == DataType::Double || *b == DataType::Double;
        return Some(if decimal || double { DataType::Double } else { DataType::Float });
    }
    if a.is_integer() && b.is_integer() {
        return Some(if decimal_of(a)?.0 >= decimal_of(b)?.0 { a.clone() } else { b.clone() });
    }
    let ((p1, s1), (p2, s2)) = (decimal_of(a)?, decimal_of(b)?);
    let scale = i32::from(s1.max(s2));
    let integer_digits = i32::from((p1 - s1).max(p2 - s2));
    Some(adjusted((integer_digits + scale).max(1), scale))
}

/// The type that values of both types can be cast to without being asked, if there is one.
pub fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType as T;
    if a == b {
        return Some(a.clone());
    }
    match (a, b) {
        (T::Null, other) | (other, T::Null) => Some(other.clone()),
        _ if a.is_numeric() && b.is_numeric() => common_numeric(a, b),
        (T::Char(n) | T::Varchar(n), T::Char(m) | T::Varchar(m)) => Some(T::Varchar(*n.max(m))),
        (T::Binary(n) | T::Varbinary(n), T::Binary(m) | T::Varbinary(m)) => Some(T::Varbinary(*n.max(m))),
        (T::Time(p), T::Time(q)) => Some(T::Time(*p.max(q))),
        (T::Timestamp(p), T::Timestamp(q)) => Some(T::Timestamp(*p.max(q))),
        (T::Timestamp(p) | T::TimestampLtz(p), T::Timestamp(q) | T::TimestampLtz(q)) => {
            Some(T::TimestampLtz(*p.max(q)))
        }
        (T::Date, timestamp) | (timestamp, T::Date) if timestamp.is_timestamp() => Some(timestamp.clone()),
        (T::Row(left), T::Row(right)) if left.len() == right.len() => common_row(left, right),
        (T::Array(a), T::Array(b)) => Some(T::Array(common_type(a, b)?.into())),
        (T::Map(k, v), T::Map(l, w)) => Some(T::Map(common_type(k, l)?.into(), common_type(v, w)?.into())),
        _ => None,
    }
}

/// ROWs combine field by field; the names are those of the first one.
fn common_row(left: &[Field], right: &[Field]) -> Option<DataType> {
    let fields = left.iter().zip(right).map(|(l, r)| {
        let data_type = common_type(&l.data_type, &r.data_type)?;
        Some(Field::new(&l.name, data_type, l.nullable || r.nullable))
    });
    Some(DataType::Row(fields.collect::<Option<Vec<_>>>()?.into()))
}

/// The type that all of `types` can be cast to: what CASE, COALESCE, IN and UNION ALL give. NULLs fit everything; of
/// NULLs alone the result is NULL.
pub fn least_common_type(types: &[DataType]) -> Option<DataType> {
    types.iter().try_fold(DataType::Null, |common, next| common_type(&common, next))
}

/// The type in which two values are compared.
pub fn comparison_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let readable = |t: &DataType| {
        t.is_numeric() || t.is_timestamp() || matches!(t, DataType::Date | DataType::Time(_) | DataType::Boolean)
    };
    match (a, b) {
        _ if a.is_string() && readable(b) => Some(b.clone()),
        _ if b.is_string() && readable(a) => Some(a.clone()),
        _ => common_type(a, b).filter(|t| !t.is_nested()),
    }
}

/// Whether a value of `from` becomes one of `to` unasked: within numbers, strings, binaries, dates and timestamps.
pub fn is_implicit(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    from == to
        || match (from, to) {
            (T::Null, _) => true,
            (T::Date, T::Timestamp(_) | T::TimestampLtz(_)) | (T::Time(_), T::Time(_)) => true,
            _ if from.is_numeric() && to.is_numeric() => true,
            _ if from.is_string() && to.is_string() => true,
            _ if from.is_binary() && to.is_binary() => true,
            _ if from.is_timestamp() && to.is_timestamp() => true,
            _ => parts(from, to).is_some_and(|parts| parts.into_iter().all(|(from, to)| is_implicit(from, to))),
        }
}

/// The parts of two nested types of one kind, pair by pair.
fn parts<'a>(a: &'a DataType, b: &'a DataType) -> Option<Vec<(&'a DataType, &'a DataType)>> {
    use DataType as T;
    match (a, b) {
        (T::Row(a), T::Row(b)) if a.len() == b.len() => {
            Some(a.iter().zip(&**b).map(|(a, b)| (&a.data_type, &b.data_type)).collect())
        }
        (T::Array(a), T::Array(b)) => Some(vec![(a, b)]),
        (T::Map(k, v), T::Map(l, w)) => Some(vec![(k, l), (v, w)]),
        _ => None,
    }
}

/// `expr` as `to`, by a cast if need be; an error when the two do not fit without `CAST`. Literals are converted at
/// once.
pub fn cast_implicitly(expr: Expr, to: &DataType) -> Result<Expr, Diagnostic> {
    if !is_implicit(&expr.data_type, to) {
        let message = format!("{} cannot be used as {to}", place::type_name(&expr.data_type));
        return Err(place::error(code::TYPE_MISMATCH, expr.span, message).advise(format!("write CAST(… AS {to})")));
    }
    Ok(convert(expr, to))
}

/// `expr` cast to `to`, which must be possible; a literal becomes a literal where its value fits.
pub(crate) fn convert(expr: Expr, to: &DataType) -> Expr {
    if expr.data_type == *to {
        return expr;
    }
    // Whatever has the type NULL is NULL.
    if expr.data_type == DataType::Null {
        return Expr::literal(Value::Null, to.clone()).at(expr.span);
    }
    if to.is_nested() {
        return match has_same_layout(&expr.data_type, to) && keeps_values(&expr.data_type, to) {
            true => Expr { data_type: to.clone(), ..expr },
            false => expr.cast_to(to.clone()),
        };
    }
    if let ExprKind::Literal(value) = &expr.kind
        && let Some(value) = convert_literal(value, &expr.data_type, to)
    {
        return Expr::literal(value, to.clone()).at(expr.span);
    }
    let nullable = expr.nullable || cast_can_overflow(&expr.data_type, to);
    let cast = expr.cast_to(to.clone());
    Expr { nullable, ..cast }
}

/// Whether columns of both types look the same: nullability, and the lengths of strings, are not kept in them.
pub(crate) fn has_same_layout(a: &DataType, b: &DataType) -> bool {
    let are_named_alike = match (a, b) {
        (DataType::Row(a), DataType::Row(b)) => a.iter().map(|f| &f.name).eq(b.iter().map(|f| &f.name)),
        _ => true,
    };
    match parts(a, b) {
        Some(parts) => are_named_alike && parts.into_iter().all(|(a, b)| has_same_layout(a, b)),
        None => a.to_arrow() == b.to_arrow(),
    }
}

/// Whether a cast between types of the same layout leaves every value as it is: no string is cut or padded, and no time loses
/// digits.
pub(crate) fn keeps_values(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (T::Char(n) | T::Varchar(n), T::Varchar(m)) | (T::Binary(n) | T::Varbinary(n), T::Varbinary(m)) => n <= m,
        (_, T::Char(_) | T::Binary(_)) => from == to,
        (T::Time(p), T::Time(q)) => q >= p.min(&3),
        (T::Timestamp(p), T::Timestamp(q)) | (T::TimestampLtz(p), T::TimestampLtz(q)) => q >= p,
        _ => parts(from, to).is_none_or(|parts| parts.into_iter().all(|(from, to)| keeps_values(from, to))),
    }
}

/// Whether a cast between these types gives NULL for a number that is too large: casts to DECIMAL do.
pub(crate) fn cast_can_overflow(from: &DataType, to: &DataType) -> bool {
    let DataType::Decimal { precision, scale } = to else { return false };
    match decimal_of(from) {
        Some((p, s)) => {
            let carry = u8::from(s > *scale);
            p - s + carry > precision - scale
        }
        None => from.is_floating() || from.is_string(),
    }
}

fn convert_literal(value: &Value, from: &DataType, to: &DataType) -> Option<Value> {
    match (value, to) {
        (Value::Null, _) => Some(Value::Null),
        (Value::Int(i), _) if from.is_integer() => convert_integer(*i, to),
        (Value::Decimal(unscaled), DataType::Decimal { precision, scale }) => {
            let DataType::Decimal { scale: own, .. } = from else { return None };
            let wider = unscaled.checked_mul(10i128.pow(u32::from(scale.checked_sub(*own)?)))?;
            fits(wider, *precision).then_some(Value::Decimal(wider))
        }
        (Value::Decimal(unscaled), DataType::Double) => {
            let DataType::Decimal { scale, .. } = from else { return None };
            format!("{unscaled}e-{scale}").parse().ok().map(Value::Float)
        }
        (Value::Float(x), DataType::Double) => Some(Value::Float(*x)),
        // A shorter string is padded at run time.
        (Value::String(s), DataType::Char(n)) => (s.chars().count() == *n as usize).then(|| Value::String(s.clone())),
        (Value::String(s), DataType::Varchar(n)) => {
            (s.chars().count() <= *n as usize).then(|| Value::String(s.clone()))
        }
        (Value::Bytes(b), DataType::Binary(n) | DataType::Varbinary(n)) => {
            (b.len() <= *n as usize).then(|| Value::Bytes(b.clone()))
        }
        _ => None,
    }
}

fn convert_integer(i: i64, to: &DataType) -> Option<Value> {
    let within = |min: i64, max: i64| (min..=max).contains(&i).then_some(Value::Int(i));
    match to {
        DataType::TinyInt => within(i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => within(i16::MIN.into(), i16::MAX.into()),
        DataType::Int => within(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => Some(Value::Int(i)),
        DataType::Double => Some(Value::Float(i as f64)),
        DataType::Float => Some(Value::Float(f64::from(i as f32))),
        DataType::Decimal { precision, scale } => {
            let unscaled = i128::from(i).checked_mul(10i128.pow(u32::from(*scale)))?;
            fits(unscaled, *precision).then_some(Value::Decimal(unscaled))
        }
        _ => None,
    }
}

/// Whether an unscaled decimal has at most `precision` digits.
fn fits(unscaled: i128, precision: u8) -> bool {
    unscaled.unsigned_abs() < 10u128.pow(u32::from(precision))
}

/// Whether `CAST(from AS to)` exists (Flink's `supportsExplicitCast`).
pub fn is_castable(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    if is_implicit(from, to) {
        return true;
    }
    let temporal = |t: &T| t.is_timestamp() || matches!(t, T::Date | T::Time(_));
    match (from, to) {
        // Every scalar has a text form, and every text can be tried.
        (f, t) if t.is_string() => !f.is_nested(),
        (f, t) if f.is_string() => t.is_numeric() || temporal(t) || t.is_binary() || *t == T::Boolean,
        (f, t) if f.is_binary() => t.is_string(),
        (T::Boolean, t) => t.is_numeric(),
        (f, T::Boolean) => f.is_integer(),
        (f, t) if f.is_timestamp() => matches!(t, T::Date | T::Time(_)),
        (T::Time(_), t) => t.is_timestamp(),
        (T::IntervalMonth | T::IntervalMilli, t) => t.is_integer(),
        (f, T::IntervalMonth | T::IntervalMilli) => f.is_integer(),
        _ => parts(from, to).is_some_and(|parts| parts.into_iter().all(|(from, to)| is_part_castable(from, to))),
    }
}

/// Whether a part of a nested value can be cast: without knowing the session's time zone.
fn is_part_castable(from: &DataType, to: &DataType) -> bool {
    let is_zoned = |t: &DataType| matches!(t, DataType::TimestampLtz(_));
    is_implicit(from, to) || is_zoned(from) == is_zoned(to) && is_castable(from, to)
}
