//! Expressions and columns as EXPLAIN and messages show them.

use crate::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, column_name};
use millstream_types::{DataType, Schema, Value, text};
use std::fmt;

/// An expression with the names of its input's columns.
pub struct Shown<'a>(pub &'a Expr, pub &'a Schema);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(expr, schema) = *self;
        let sub = |e| Shown(e, schema);
        match &expr.kind {
            ExprKind::Column(i) => match schema.fields.get(*i) {
                Some(field) => f.write_str(&field.name),
                None => f.write_str(&column_name(*i)),
            },
            ExprKind::Literal(value) => write_literal(f, value, &expr.data_type),
            ExprKind::CurrentWatermark => f.write_str("CURRENT_WATERMARK"),
            ExprKind::ProcessingTime => f.write_str("PROCTIME()"),
            ExprKind::Field(row, i) => match &row.data_type {
                DataType::Row(fields) => write!(f, "{}.{}", sub(row), fields[*i].name),
                _ => write!(f, "{}.{i}", sub(row)),
            },
            ExprKind::Arithmetic(op, a, b) => write!(f, "({} {} {})", sub(a), op.symbol(), sub(b)),
            ExprKind::Negate(e) => write!(f, "-{}", sub(e)),
            ExprKind::AddInterval(a, b) => write!(f, "({} + {})", sub(a), sub(b)),
            ExprKind::Compare(op, a, b) => write!(f, "({} {} {})", sub(a), op.symbol(), sub(b)),
            ExprKind::And(operands) => join(f, operands, schema, " AND "),
            ExprKind::Or(operands) => join(f, operands, schema, " OR "),
            ExprKind::Not(e) => write!(f, "NOT {}", sub(e)),
            ExprKind::IsNull(e) => write!(f, "{} IS NULL", sub(e)),
            ExprKind::IsNotNull(e) => write!(f, "{} IS NOT NULL", sub(e)),
            ExprKind::IsBoolean(e, truth) => {
                write!(f, "{} IS {}", sub(e), if *truth { "TRUE" } else { "FALSE" })
            }
            ExprKind::Case(branches, otherwise) => {
                f.write_str("CASE")?;
                for (condition, value) in branches {
                    write!(f, " WHEN {} THEN {}", sub(condition), sub(value))?;
                }
                write!(f, " ELSE {} END", sub(otherwise))
            }
            ExprKind::InList(e, values) => {
                write!(f, "{} IN (", sub(e))?;
                for (i, value) in values.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    write_literal(f, value, &e.data_type)?;
                }
                f.write_str(")")
            }
            ExprKind::Cast { operand, fallible_to_null } => {
                let try_ = if *fallible_to_null { "TRY_" } else { "" };
                write!(f, "{try_}CAST({} AS {})", sub(operand), expr.data_type)
            }
            ExprKind::Call(function, arguments) => call(f, function.name(), arguments, schema),
            ExprKind::Vector(function, arguments) => call(f, function.0.name(), arguments, schema),
            ExprKind::WindowStart(time, slicing) => write!(f, "WINDOW_START({}, {} ms)", sub(time), slicing.size_ms),
        }
    }
}

/// Expressions with something between them, in parentheses.
fn join(f: &mut fmt::Formatter<'_>, operands: &[Expr], schema: &Schema, with: &str) -> fmt::Result {
    f.write_str("(")?;
    for (i, e) in operands.iter().enumerate() {
        write!(f, "{}{}", if i == 0 { "" } else { with }, Shown(e, schema))?;
    }
    f.write_str(")")
}

fn call(f: &mut fmt::Formatter<'_>, name: &str, arguments: &[Expr], schema: &Schema) -> fmt::Result {
    f.write_str(&name.to_uppercase())?;
    join(f, arguments, schema, ", ")
}

fn write_literal(f: &mut fmt::Formatter<'_>, value: &Value, data_type: &DataType) -> fmt::Result {
    match value {
        Value::Null => f.write_str("NULL"),
        Value::Boolean(b) => f.write_str(if *b { "TRUE" } else { "FALSE" }),
        Value::Int(n) => match data_type {
            DataType::IntervalMilli => write!(f, "INTERVAL {n} ms"),
            DataType::IntervalMonth => write!(f, "INTERVAL {n} months"),
            t if t.is_integer() => write!(f, "{n}"),
            t => write!(f, "{t} {n}"),
        },
        Value::Decimal(n) => {
            let mut out = Vec::new();
            let scale = if let DataType::Decimal { scale, .. } = data_type { *scale } else { 0 };
            text::write_decimal(&mut out, *n, scale);
            f.write_str(&String::from_utf8_lossy(&out))
        }
        Value::Float(x) => write!(f, "{x:?}"),
        Value::String(s) => write!(f, "'{}'", s.replace('\'', "''")),
        Value::Bytes(bytes) => {
            f.write_str("X'")?;
            bytes.iter().try_for_each(|b| write!(f, "{b:02X}"))?;
            f.write_str("'")
        }
    }
}

impl ArithmeticOp {
    /// The operator in SQL.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithmeticOp::Add => "+",
            ArithmeticOp::Subtract => "-",
            ArithmeticOp::Multiply => "*",
            ArithmeticOp::Divide => "/",
            ArithmeticOp::Modulo => "%",
        }
    }
}

impl CompareOp {
    /// The operator in SQL.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Equal => "=",
            CompareOp::NotEqual => "<>",
            CompareOp::Less => "<",
            CompareOp::LessEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterEqual => ">=",
        }
    }
}

/// Expressions over columns of `schema`.
pub(crate) fn list(exprs: &[Expr], schema: &Schema) -> String {
    let texts: Vec<String> = exprs.iter().map(|e| Shown(e, schema).to_string()).collect();
    format!("[{}]", texts.join(", "))
}

/// The names of some columns.
pub(crate) fn names(schema: &Schema, columns: &[usize]) -> String {
    columns.iter().map(|&i| schema.fields[i].name.as_str()).collect::<Vec<_>>().join(", ")
}

/// What follows something that only holds on a condition over columns of `schema`.
pub(crate) fn condition(condition: Option<&Expr>, schema: &Schema) -> String {
    condition.map_or(String::new(), |c| format!(" if {}", Shown(c, schema)))
}
