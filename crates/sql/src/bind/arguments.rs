//! Names and arguments of calls, as they are written.

use super::place::{error, span_of, unsupported};
use millstream_types::{Diagnostic, code};
use sqlparser::ast;

/// The plain name of a function in upper case, and the name as written.
pub(crate) fn function_name(function: &ast::Function) -> Result<String, Diagnostic> {
    match function.name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => Ok(name.value.to_ascii_uppercase()),
        _ => {
            let message = format!("unknown function `{}`", function.name);
            Err(error(code::UNKNOWN_FUNCTION, span_of(&function.name), message)
                .advise("functions are called by their plain name"))
        }
    }
}

/// The arguments of a call, all plain expressions.
pub(crate) fn plain_arguments(function: &ast::Function) -> Result<Vec<&ast::Expr>, Diagnostic> {
    let list = match &function.args {
        ast::FunctionArguments::None => return Ok(vec![]),
        ast::FunctionArguments::List(list) => list,
        ast::FunctionArguments::Subquery(query) => {
            return Err(unsupported("a subquery as an argument", span_of(&**query), "compute the value in the query"));
        }
    };
    list.args.iter().map(|argument| plain_argument(function, argument)).collect()
}

fn plain_argument<'a>(function: &ast::Function, argument: &'a ast::FunctionArg) -> Result<&'a ast::Expr, Diagnostic> {
    let place = span_of(&function.name);
    match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Ok(expr),
        ast::FunctionArg::Unnamed(_) => {
            let message = format!("`*` is not an argument of {}", function.name);
            Err(error(code::TYPE_MISMATCH, place, message).advise("name the columns"))
        }
        _ => Err(unsupported("an argument by name", place, "give the arguments in order")),
    }
}

/// The arguments of a call as they are written, and behind them what `WITHIN GROUP` is ordered by.
pub(crate) fn argument_texts(function: &ast::Function) -> Vec<String> {
    let arguments = match &function.args {
        ast::FunctionArguments::List(list) => list.args.iter().map(ToString::to_string).collect(),
        _ => vec![],
    };
    let ordered = function.within_group.iter().map(|key| key.expr.to_string());
    arguments.into_iter().chain(ordered).collect()
}
