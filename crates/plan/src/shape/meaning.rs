//! Digests of expressions: equal for expressions that mean the same over the columns of tables.

use super::Meaning;
use crate::explain::shown::Shown;
use crate::expr::{CompareOp, Expr, ExprKind};
use crate::window::Timeline;
use millstream_types::{DataType, Schema, Value};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use xxhash_rust::xxh3::Xxh3;

/// Characters of a text that a message shows.
const SHOWN_CHARACTERS: usize = 200;

/// What something means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest(u128);

impl Digest {
    /// With a text for messages.
    pub(crate) fn shown(self, text: impl fmt::Display) -> Meaning {
        let mut shortened = Shortened { text: String::new(), left: SHOWN_CHARACTERS };
        if write!(shortened, "{text}").is_err() {
            shortened.text.push('…');
        }
        Meaning { is: format!("{:032x}", self.0), text: shortened.text }
    }
}

/// A text that takes `left` more characters, and then fails.
struct Shortened {
    text: String,
    left: usize,
}

impl Write for Shortened {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.char_indices().nth(self.left).map(|(at, _)| at);
        let fits = &text[..end.unwrap_or(text.len())];
        self.left -= fits.chars().count();
        self.text.push_str(fits);
        if end.is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Puts together what is digested. Every part has its length before it, so that no text can look like two.
pub(crate) struct Digester(Xxh3);

impl Digester {
    /// For a kind of things.
    pub(crate) fn new(kind: &str) -> Digester {
        Digester(Xxh3::new()).text(kind)
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Digester {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Digester {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn number(self, number: i64) -> Digester {
        self.bytes(&number.to_le_bytes())
    }

    pub(crate) fn digest(self, Digest(digest): Digest) -> Digester {
        self.bytes(&digest.to_le_bytes())
    }

    pub(crate) fn digests(self, digests: impl IntoIterator<Item = Digest>) -> Digester {
        let digests: Vec<Digest> = digests.into_iter().collect();
        let counted = self.number(digests.len() as i64);
        digests.into_iter().fold(counted, Digester::digest)
    }

    /// The names of fields count, whatever characters they have.
    pub(crate) fn data_type(self, data_type: &DataType) -> Digester {
        match data_type {
            DataType::Row(fields) => {
                let begun = self.text("ROW").number(fields.len() as i64);
                fields.iter().fold(begun, |digester, field| {
                    digester.text(&field.name).data_type(&field.data_type).number(i64::from(field.nullable))
                })
            }
            DataType::Array(element) => self.text("ARRAY").data_type(element),
            DataType::Map(key, value) => self.text("MAP").data_type(key).data_type(value),
            plain => self.text(&plain.to_string()),
        }
    }

    fn value(self, value: &Value) -> Digester {
        match value {
            Value::Null => self.text("NULL"),
            Value::Boolean(value) => self.text("BOOLEAN").number(i64::from(*value)),
            Value::Int(value) => self.text("INT").number(*value),
            Value::Decimal(value) => self.text("DECIMAL").bytes(&value.to_le_bytes()),
            Value::Float(value) => self.text("FLOAT").bytes(&value.to_bits().to_le_bytes()),
            Value::String(value) => self.text("STRING").text(value),
            Value::Bytes(value) => self.text("BYTES").bytes(value),
        }
    }

    pub(crate) fn end(self) -> Digest {
        Digest(self.0.digest128())
    }
}

/// What is known of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Known {
    /// It is a column or a field of a table: which one. Its type belongs to what it means.
    Column(Digest),
    /// What was computed.
    Value(Digest),
}

impl Known {
    /// What it means as a value of a type.
    pub(crate) fn of_type(self, data_type: &DataType) -> Digest {
        match self {
            Known::Column(column) => Digester::new("typed").digest(column).data_type(data_type).end(),
            Known::Value(value) => value,
        }
    }
}

/// The column or field of a table that an expression is, if it is one: the same whether the decoder reads the field or the row that
/// holds it.
fn place_of(expr: &Expr, columns: &[Known]) -> Option<Digest> {
    match &expr.kind {
        ExprKind::Column(i) => match columns.get(*i)? {
            Known::Column(digest) => Some(*digest),
            Known::Value(_) => None,
        },
        ExprKind::Field(row, field) => Some(field_of(place_of(row, columns)?, &row.data_type, *field)),
        _ => None,
    }
}

/// What an expression means over such columns.
#[recursive::recursive]
pub(crate) fn of_expr(expr: &Expr, columns: &[Known]) -> Digest {
    if let Some(place) = place_of(expr, columns) {
        return Known::Column(place).of_type(&expr.data_type);
    }
    let child = |e: &Expr| of_expr(e, columns);
    let of_type = |kind: &str| Digester::new(kind).data_type(&expr.data_type);
    let digester = match &expr.kind {
        ExprKind::Column(column) => match columns.get(*column) {
            Some(known) => return known.of_type(&expr.data_type),
            None => Digester::new("column").number(*column as i64),
        },
        ExprKind::Literal(value) => of_type("literal").value(value),
        ExprKind::Field(row, field) => {
            return field_of(child(row), &row.data_type, *field);
        }
        ExprKind::Arithmetic(op, ..) => of_type(op.symbol()),
        ExprKind::Negate(_) => of_type("negate"),
        ExprKind::AddInterval(..) => of_type("add interval"),
        ExprKind::Compare(op, left, right) => return compared(*op, child(left), child(right)),
        ExprKind::And(operands) => return unordered("and", operands.iter().map(child)),
        ExprKind::Or(operands) => return unordered("or", operands.iter().map(child)),
        ExprKind::Not(_) => Digester::new("not"),
        ExprKind::IsNull(_) => Digester::new("is null"),
        ExprKind::IsNotNull(_) => Digester::new("is not null"),
        ExprKind::IsBoolean(_, truth) => Digester::new("is boolean").number(i64::from(*truth)),
        ExprKind::Case(..) => of_type("case"),
        ExprKind::InList(_, values) => {
            let mut list: Vec<Digest> = values.iter().map(|v| Digester::new("value").value(v).end()).collect();
            list.sort_unstable();
            list.dedup();
            Digester::new("in").digests(list)
        }
        ExprKind::Cast { fallible_to_null, .. } => of_type("cast").number(i64::from(*fallible_to_null)),
        ExprKind::Call(function, _) => of_type("call").text(function.name()),
        ExprKind::Vector(function, _) => of_type("call of columns").text(function.0.name()),
        ExprKind::WindowStart(_, slicing) => of_type("window start").number(slicing.size_ms).number(slicing.offset_ms),
        ExprKind::CurrentWatermark => of_type("watermark"),
        ExprKind::ProcessingTime => of_type("processing time"),
    };
    digester.digests(expr.children().into_iter().map(child)).end()
}

/// What a field of a row means.
pub(crate) fn field_of(row: Digest, data_type: &DataType, field: usize) -> Digest {
    let named = Digester::new("field").digest(row);
    match data_type {
        DataType::Row(fields) => named.text(fields.get(field).map_or("", |field| &field.name)).end(),
        _ => named.number(field as i64).end(),
    }
}

/// `a > b` is `b < a`, and the operands of `=` have no order.
fn compared(op: CompareOp, left: Digest, right: Digest) -> Digest {
    let (op, left, right) = match op {
        CompareOp::Greater | CompareOp::GreaterEqual => (op.mirrored(), right, left),
        CompareOp::Equal | CompareOp::NotEqual if right < left => (op, right, left),
        _ => (op, left, right),
    };
    Digester::new(op.symbol()).digest(left).digest(right).end()
}

fn unordered(kind: &str, operands: impl Iterator<Item = Digest>) -> Digest {
    let mut operands: Vec<Digest> = operands.collect();
    operands.sort_unstable();
    operands.dedup();
    match operands.as_slice() {
        [only] => *only,
        _ => Digester::new(kind).digests(operands).end(),
    }
}

/// An expression with its meaning and, for messages, the names of its input's columns.
pub(crate) fn shown(expr: &Expr, columns: &[Known], schema: &Schema) -> Meaning {
    of_expr(expr, columns).shown(Shown(expr, schema))
}

/// The name of a type. Names of fields count, whatever characters they have: they are in the digest behind the text.
pub(crate) fn type_text(data_type: &DataType, nullable: bool) -> String {
    let not_null = if nullable { "" } else { " NOT NULL" };
    match data_type {
        DataType::Row(_) | DataType::Array(_) | DataType::Map(..) => {
            let meaning = Digester::new("type").data_type(data_type).end().shown(data_type);
            format!("{}{not_null} ({})", meaning.text, meaning.is)
        }
        plain => format!("{plain}{not_null}"),
    }
}

/// Constants of a state by name, with the zone of its windows.
pub(crate) fn parameters(constants: Vec<(&'static str, String)>, timeline: Timeline) -> BTreeMap<String, String> {
    let zone = match timeline {
        Timeline::Own => None,
        Timeline::Local(zone) => Some(("time_zone", zone.to_string())),
    };
    constants.into_iter().chain(zone).map(|(name, value)| (name.to_string(), value)).collect()
}
