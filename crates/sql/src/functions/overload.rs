//! Functions whose binding is nothing but a choice among native functions by the types of the arguments.

use super::call::{Call, convert, fits, native};
use millstream_abi::RuntimeFn;
use millstream_plan::expr::Expr;
use millstream_types::{DataType, Value};

/// What an argument may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Parameter {
    /// CHAR, VARCHAR.
    Text,
    /// BINARY, VARBINARY.
    Bytes,
    /// Text or bytes.
    TextOrBytes,
    /// An integer, used as INT.
    Int,
    /// An integer, used as BIGINT.
    Long,
    /// A number, used as DOUBLE.
    Double,
}

impl Parameter {
    fn accepts(self, data_type: &DataType) -> bool {
        match self {
            Parameter::Text => data_type.is_string(),
            Parameter::Bytes => data_type.is_binary(),
            Parameter::TextOrBytes => data_type.is_string() || data_type.is_binary(),
            Parameter::Int | Parameter::Long => data_type.is_integer(),
            Parameter::Double => data_type.is_numeric(),
        }
    }

    fn data_type(self, argument: &DataType) -> DataType {
        match self {
            Parameter::TextOrBytes if argument.is_binary() => DataType::BYTES,
            Parameter::Text | Parameter::TextOrBytes => DataType::STRING,
            Parameter::Bytes => DataType::BYTES,
            Parameter::Int => DataType::Int,
            Parameter::Long => DataType::BigInt,
            Parameter::Double => DataType::Double,
        }
    }
}

/// What a function gives.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gives {
    /// STRING
    Text,
    /// The type of the first argument: as many characters.
    SameText,
    /// VARCHAR of the length of the first argument: at most as many characters.
    ShorterText,
    /// VARCHAR of the lengths of the first two arguments together.
    BothTexts,
    /// CHAR of a length.
    Digits(u32),
    /// VARCHAR of a length.
    AtMost(u32),
    /// BYTES
    Bytes,
    /// BOOLEAN
    Boolean,
    /// INT
    Int,
    /// BIGINT
    Long,
    /// DOUBLE
    Double,
}

impl Gives {
    fn data_type(self, arguments: &[Expr]) -> DataType {
        let length = |i: usize| arguments.get(i).and_then(|a| length_of(&a.data_type));
        match self {
            Gives::Text => DataType::STRING,
            Gives::SameText => match arguments.first().map(|a| &a.data_type) {
                Some(text) if text.is_string() => text.clone(),
                _ => DataType::STRING,
            },
            Gives::ShorterText => length(0).map_or(DataType::STRING, DataType::Varchar),
            Gives::BothTexts => match (length(0), length(1)) {
                (Some(a), Some(b)) => DataType::Varchar(together(a, b)),
                _ => DataType::STRING,
            },
            Gives::Digits(length) => DataType::Char(length),
            Gives::AtMost(length) => DataType::Varchar(length),
            Gives::Bytes => DataType::BYTES,
            Gives::Boolean => DataType::Boolean,
            Gives::Int => DataType::Int,
            Gives::Long => DataType::BigInt,
            Gives::Double => DataType::Double,
        }
    }
}

/// Characters of a string type.
pub(super) fn length_of(data_type: &DataType) -> Option<u32> {
    match data_type {
        DataType::Char(length) | DataType::Varchar(length) => Some(*length),
        _ => None,
    }
}

/// Characters of two strings one after the other, at most those of STRING.
pub(super) fn together(a: u32, b: u32) -> u32 {
    a.saturating_add(b).min(i32::MAX as u32)
}

/// An argument that SQL leaves out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Default {
    /// An INT.
    Int(i32),
    /// A STRING.
    Text(&'static str),
}

impl Default {
    fn expr(self) -> Expr {
        match self {
            Default::Int(value) => Expr::literal(Value::Int(value.into()), DataType::Int),
            Default::Text(value) => Expr::literal(Value::String(value.into()), DataType::STRING),
        }
    }
}

/// One signature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overload {
    parameters: &'static [Parameter],
    defaults: &'static [Default],
    function: RuntimeFn,
    gives: Gives,
    can_be_null: bool,
}

impl Overload {
    /// A signature of a function that gives NULL only for NULL.
    pub(super) const fn new(parameters: &'static [Parameter], function: RuntimeFn, gives: Gives) -> Overload {
        Overload { parameters, defaults: &[], function, gives, can_be_null: false }
    }

    /// The same, of a function that can give NULL for other arguments too.
    pub(super) const fn or_null(self) -> Overload {
        Overload { can_be_null: true, ..self }
    }

    /// The same, with these arguments after those written.
    pub(super) const fn with(self, defaults: &'static [Default]) -> Overload {
        Overload { defaults, ..self }
    }

    fn fits(&self, arguments: &[Expr]) -> bool {
        arguments.len() == self.parameters.len()
            && arguments.iter().zip(self.parameters).all(|(argument, p)| fits(argument, |t| p.accepts(t)))
    }

    fn apply(&self, arguments: Vec<Expr>) -> Expr {
        let data_type = self.gives.data_type(&arguments);
        let mut converted: Vec<Expr> = arguments
            .into_iter()
            .zip(self.parameters)
            .map(|(argument, parameter)| {
                let to = parameter.data_type(&argument.data_type);
                convert(argument, &to)
            })
            .collect();
        converted.extend(self.defaults.iter().map(|default| default.expr()));
        native(self.function, converted, data_type, self.can_be_null)
    }
}

/// Binds a call to the first signature that takes its arguments.
pub(super) fn choose(overloads: &[Overload], call: Call) -> super::call::BoundCall {
    match overloads.iter().find(|overload| overload.fits(&call.arguments)) {
        Some(overload) => Ok(overload.apply(call.arguments)),
        None => Err(call.mismatch()),
    }
}
