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
    fn data_type(self) -> DataType {
        match self {
            Gives::Text => DataType::STRING,
            Gives::Bytes => DataType::BYTES,
            Gives::Boolean => DataType::Boolean,
            Gives::Int => DataType::Int,
            Gives::Long => DataType::BigInt,
            Gives::Double => DataType::Double,
        }
    }
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
        let mut converted: Vec<Expr> = arguments
            .into_iter()
            .zip(self.parameters)
            .map(|(argument, parameter)| {
                let to = parameter.data_type(&argument.data_type);
                convert(argument, &to)
            })
            .collect();
        converted.extend(self.defaults.iter().map(|default| default.expr()));
        native(self.function, converted, self.gives.data_type(), self.can_be_null)
    }
}

/// Binds a call to the first signature that takes its arguments.
pub(super) fn choose(overloads: &[Overload], call: Call) -> super::call::Bound {
    match overloads.iter().find(|overload| overload.fits(&call.arguments)) {
        Some(overload) => Ok(overload.apply(call.arguments)),
        None => Err(call.mismatch()),
    }
}
