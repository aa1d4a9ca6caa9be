//! A call being bound: its arguments, and the small vocabulary in which functions are put together from expressions.

use super::collection::nested;
use super::function::Function;
use crate::bind::coercion;
use millstream_abi::RuntimeFn;
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, Place, Value, code};

/// A call with its arguments, bound and typed.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) function: &'static Function,
    pub(super) arguments: Vec<Expr>,
    pub(super) span: Span,
}

/// What binding a call gives.
pub(super) type BoundCall = Result<Expr, Diagnostic>;

impl Call {
    /// The arguments, when there are exactly `N`.
    pub(super) fn take<const N: usize>(self) -> Result<[Expr; N], Diagnostic> {
        if self.arguments.len() != N {
            return Err(self.mismatch());
        }
        Ok(self.arguments.try_into().expect("the number was just compared"))
    }

    /// The error of arguments that no signature of the function takes.
    pub(super) fn mismatch(&self) -> Diagnostic {
        let usage = self.function.signatures.join(" or ");
        let advice = match self.arguments.first().map(|a| &a.data_type) {
            Some(t) if t.is_numeric() && self.function.name == "TO_TIMESTAMP" => {
                "for seconds since 1970 write TO_TIMESTAMP_LTZ(x, 0), for milliseconds TO_TIMESTAMP_LTZ(x, 3)"
                    .to_owned()
            }
            Some(t) if t.is_string() && usage.contains("(number") => {
                format!("use {usage}; a number in a text is read by TRY_CAST(x AS DOUBLE)")
            }
            Some(DataType::Array(_)) if self.function.name == "[]" => {
                "write a whole number from 1 as the index: a[1]".to_owned()
            }
            _ => format!("use {usage}"),
        };
        mismatch(self.function.name, &self.arguments, self.span).advise(advice)
    }

    /// The type that all of `arguments` share, or an error.
    pub(super) fn common_type(&self, arguments: &[Expr]) -> Result<DataType, Diagnostic> {
        let types: Vec<DataType> = arguments.iter().map(|a| a.data_type.clone()).collect();
        coercion::least_common_type(&types).ok_or_else(|| self.mismatch())
    }
}

/// The error of a call of a function that does not take these arguments.
pub(super) fn mismatch(name: &str, arguments: &[Expr], span: Span) -> Diagnostic {
    let types: Vec<String> = arguments.iter().map(|a| a.data_type.to_string()).collect();
    let message = match (name, types.as_slice()) {
        ("[]", [of, index]) => format!("{of} has no element [{index}]"),
        _ => format!("{name} does not take arguments ({})", types.join(", ")),
    };
    at(Diagnostic::new(code::TYPE_MISMATCH, message), span)
}

/// Adds the place of `span`, if it is known.
pub(super) fn at(diagnostic: Diagnostic, span: Span) -> Diagnostic {
    if span.line == 0 {
        return diagnostic;
    }
    diagnostic.at(Place::Sql { line: span.line.into(), column: span.column.into(), length: span.length.max(1).into() })
}

/// Whether a NULL literal or a value of a type that `accepts`.
pub(super) fn fits(expr: &Expr, accepts: impl Fn(&DataType) -> bool) -> bool {
    expr.data_type == DataType::Null || accepts(&expr.data_type)
}

/// `expr` as `to`; strings of any length have one representation and need no cast.
pub(super) fn convert(expr: Expr, to: &DataType) -> Expr {
    let same = |is: fn(&DataType) -> bool| is(&expr.data_type) && is(to);
    if same(DataType::is_string) || same(DataType::is_binary) {
        return expr;
    }
    coercion::convert(expr, to)
}

/// A call of a native function. NULL in, NULL out; `can_be_null` says whether it can give NULL by itself.
pub(super) fn native(function: RuntimeFn, arguments: Vec<Expr>, data_type: DataType, can_be_null: bool) -> Expr {
    debug_assert_eq!(function.arguments().len(), arguments.len(), "arguments of {}", function.name());
    let nullable = can_be_null || arguments.iter().any(|a| a.nullable);
    Expr::new(ExprKind::Call(function, arguments), data_type, nullable)
}

/// An INT constant.
pub(super) fn int(value: i32) -> Expr {
    Expr::literal(Value::Int(value.into()), DataType::Int)
}

/// A DOUBLE constant.
pub(super) fn double(value: f64) -> Expr {
    Expr::literal(Value::Float(value), DataType::Double)
}

/// A string constant.
pub(super) fn string(value: &str) -> Expr {
    Expr::literal(Value::String(value.into()), DataType::STRING)
}

/// NULL of a type.
pub(super) fn null(data_type: DataType) -> Expr {
    Expr::literal(Value::Null, data_type)
}

/// The text of a string constant.
pub(super) fn text_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Literal(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The value of an integer constant; casts between integer types are looked through.
pub(super) fn integer_of(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Literal(Value::Int(value)) if expr.data_type.is_integer() => Some(*value),
        ExprKind::Negate(operand) => integer_of(operand)?.checked_neg(),
        ExprKind::Cast { operand, .. } if expr.data_type.is_integer() => integer_of(operand),
        _ => None,
    }
}

/// `a op b`, of operands of one type.
pub(super) fn arithmetic(op: ArithmeticOp, a: Expr, b: Expr, data_type: DataType) -> Expr {
    let nullable = a.nullable || b.nullable;
    Expr::new(ExprKind::Arithmetic(op, Box::new(a), Box::new(b)), data_type, nullable)
}

/// `a op b` as a BOOLEAN, of operands of one type.
pub(super) fn compare(op: CompareOp, a: Expr, b: Expr) -> Expr {
    let nullable = a.nullable || b.nullable;
    Expr::new(ExprKind::Compare(op, Box::new(a), Box::new(b)), DataType::Boolean, nullable)
}

/// `expr IS NULL`
pub(super) fn is_null(expr: Expr) -> Expr {
    Expr::new(ExprKind::IsNull(Box::new(expr)), DataType::Boolean, false)
}

/// `expr IS NOT NULL`
pub(super) fn is_not_null(expr: Expr) -> Expr {
    Expr::new(ExprKind::IsNotNull(Box::new(expr)), DataType::Boolean, false)
}

/// `CASE WHEN … THEN … ELSE … END` of a type that all values have already.
pub(super) fn case(branches: Vec<(Expr, Expr)>, otherwise: Expr, data_type: DataType) -> Expr {
    if data_type.is_nested() {
        return nested::case(branches, otherwise, data_type);
    }
    let nullable = otherwise.nullable || branches.iter().any(|(_, value)| value.nullable);
    Expr::new(ExprKind::Case(branches, Box::new(otherwise)), data_type, nullable)
}

/// Whether computing the expression twice costs less than a call.
pub(super) fn is_cheap(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Column(_) | ExprKind::Literal(_) => true,
        ExprKind::Arithmetic(op, a, b) => {
            matches!(op, ArithmeticOp::Add | ArithmeticOp::Subtract) && is_cheap(a) && is_cheap(b)
        }
        ExprKind::Negate(operand) | ExprKind::Field(operand, _) => is_cheap(operand),
        _ => false,
    }
}
