//! Functions whose binding is nothing but a choice among native functions by the types of the arguments.

use super::call::{Call, convert, fits, native};
use millstream_abi::RuntimeFn;
use millstream_plan::expr::Expr;
use millstream_types::DataType;

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

/// The type of what a function gives, from its arguments.
pub(super) type Gives = fn(&[Expr]) -> DataType;

fn length(arguments: &[Expr], index: usize) -> Option<u32> {
    arguments.get(index).and_then(|a| length_of(&a.data_type))
}

/// The type of the first argument: as many characters.
pub(super) fn same_text(arguments: &[Expr]) -> DataType {
    arguments.first().map(|a| a.data_type.clone()).filter(DataType::is_string).unwrap_or(DataType::STRING)
}

/// VARCHAR of the length of the first argument: at most as many characters.
pub(super) fn shorter_text(arguments: &[Expr]) -> DataType {
    length(arguments, 0).map_or(DataType::STRING, DataType::Varchar)
}

/// VARCHAR of the lengths of the first two arguments together.
pub(super) fn both_texts(arguments: &[Expr]) -> DataType {
    match (length(arguments, 0), length(arguments, 1)) {
        (Some(a), Some(b)) => DataType::Varchar(together(a, b)),
        _ => DataType::STRING,
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
type Default = fn() -> Expr;

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
        let data_type = (self.gives)(&arguments);
        let mut converted: Vec<Expr> = arguments
            .into_iter()
            .zip(self.parameters)
            .map(|(argument, parameter)| {
                let to = parameter.data_type(&argument.data_type);
                convert(argument, &to)
            })
            .collect();
        converted.extend(self.defaults.iter().map(|default| default()));
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
