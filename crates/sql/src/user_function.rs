//! Functions of a session: of SQL (`CREATE FUNCTION f(x STRING) RETURNS BIGINT RETURN expression`), and native ones that the program
//! has registered, which are evaluated over whole columns.
//!
//! The body of a SQL function is bound once, when the function is created, over its parameters as columns. A call puts its arguments, cast
//! to the types of the parameters, in their places: what is compiled is one expression, and an argument that stands in
//! it several times is computed once like every common subexpression. Functions may use earlier ones, never themselves.
//!
//! Invariants: bodies are flat (calls within them are inlined already), so nothing here recurses; an expression that
//! calls would blow up beyond a bound is an error.

use crate::bind::coercion::cast_implicitly;
use crate::bind::{at, columns_text, error};
use crate::ddl::span_of;
use crate::diagnostics::{error_at, nearest};
use millstream_plan::expr::{Expr, ExprKind, Span, VectorCall, VectorFunction};
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast::Ident;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Operations of an expression after all calls in it were inlined.
const MAX_NODES: usize = 20_000;

/// A SQL function.
#[derive(Debug, PartialEq)]
pub struct SqlFunction {
    /// Name as created; calls may write it in any case.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<Field>,
    /// What it computes, of the declared type: column `i` is parameter `i`.
    pub(crate) body: Expr,
}

/// A function of the program.
#[derive(Debug, Clone)]
pub struct NativeFunction {
    /// Name; calls may write it in any case.
    pub name: String,
    /// Types of its parameters, to which arguments are cast; `None` takes any arguments as they are.
    pub parameters: Option<Vec<DataType>>,
    /// Type of its result, which may be NULL.
    pub returns: DataType,
    /// What computes it.
    pub function: Arc<dyn VectorFunction>,
}

/// An aggregate function of the program.
///
/// A call becomes three steps: the arguments of each row are packed into BYTES; these are aggregated, as an ARRAY of all of them or as a
/// state; and a function makes the result of that.
#[derive(Debug, Clone)]
pub struct NativeAggregate {
    /// Name; calls may write it in any case.
    pub name: String,
    /// Types of its parameters, to which arguments are cast; one at least.
    pub parameters: Vec<DataType>,
    /// Type of its result, which may be NULL.
    pub returns: DataType,
    /// Packs arguments of these types. Its name is part of what a state is of.
    pub pack: Arc<dyn VectorFunction>,
    /// The number of its state; `None` if it wants all values.
    pub state: Option<u32>,
    /// Makes the result: of an ARRAY of BYTES, or of the state.
    pub finish: Arc<dyn VectorFunction>,
}

/// A function of a session.
#[derive(Debug)]
pub(crate) enum UserFunction {
    Sql(SqlFunction),
    Native(NativeFunction),
    Aggregate(NativeAggregate),
}

impl UserFunction {
    pub(crate) fn name(&self) -> &str {
        match self {
            UserFunction::Sql(function) => &function.name,
            UserFunction::Native(function) => &function.name,
            UserFunction::Aggregate(function) => &function.name,
        }
    }

    /// The call with these arguments.
    ///
    /// # Errors
    /// TYPE_MISMATCH when number or types of the arguments do not fit; and those of [`SqlFunction::call`].
    pub(crate) fn call(&self, arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
        match self {
            UserFunction::Sql(function) => function.call(arguments, span),
            UserFunction::Native(function) => function.call(arguments, span),
            UserFunction::Aggregate(function) => {
                let message = format!("{} is an aggregate function, which cannot stand here", function.name);
                Err(error(code::NOT_GROUPED, span, message).advise("use it in SELECT or HAVING"))
            }
        }
    }
}

/// The functions of a session by upper-case name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SqlFunctions {
    by_name: Arc<BTreeMap<String, Arc<UserFunction>>>,
}

impl SqlFunctions {
    /// The function of this name, in any case.
    pub(crate) fn find(&self, name: &str) -> Option<&Arc<UserFunction>> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&name.to_ascii_uppercase())
    }

    /// Adds or replaces a function.
    pub(crate) fn insert(&mut self, function: UserFunction) {
        let key = function.name().to_ascii_uppercase();
        Arc::make_mut(&mut self.by_name).insert(key, Arc::new(function));
    }

    /// Whether one of them gives another value each time.
    pub(crate) fn has_unstable(&self) -> bool {
        self.by_name.values().any(|function| match &**function {
            UserFunction::Sql(function) => function.body.unstable_function().is_some(),
            UserFunction::Native(function) => !function.function.is_deterministic(),
            UserFunction::Aggregate(function) => !function.finish.is_deterministic(),
        })
    }

    /// Removes a function; `false` when there is none of the name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        Arc::make_mut(&mut self.by_name).remove(&name.to_ascii_uppercase()).is_some()
    }

    /// Names as created, sorted without regard to case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.values().map(|f| f.name())
    }

    /// The name nearest to one that is unknown.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        let near = nearest(&name.to_ascii_uppercase(), self.by_name.keys().map(String::as_str))?;
        self.find(near).map(|f| f.name())
    }
}

impl NativeAggregate {
    /// The arguments of a call in one column.
    pub(crate) fn packed(&self, arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
        let arguments = cast(&self.name, &self.parameters, arguments, span)?;
        let call = VectorCall(Arc::clone(&self.pack));
        Ok(Expr::new(ExprKind::Vector(call, arguments), DataType::BYTES, false).at(span))
    }

    /// The result of what was aggregated.
    pub(crate) fn finished(&self, aggregated: Expr, span: Span) -> Expr {
        let call = VectorCall(Arc::clone(&self.finish));
        Expr::new(ExprKind::Vector(call, vec![aggregated]), self.returns.clone(), true).at(span)
    }
}

/// Arguments in the types of the parameters.
fn cast(name: &str, parameters: &[DataType], arguments: Vec<Expr>, span: Span) -> Result<Vec<Expr>, Diagnostic> {
    let signature = || {
        let parameters = parameters.iter().map(DataType::to_string).collect::<Vec<_>>();
        format!("call {name}({})", parameters.join(", "))
    };
    if arguments.len() != parameters.len() {
        return Err(wrong_count(name, parameters.len(), arguments.len(), span).advise(signature()));
    }
    let cast = |(argument, parameter): (Expr, &DataType)| {
        cast_implicitly(argument, parameter).map_err(|d| at(d, span).advise(signature()))
    };
    arguments.into_iter().zip(parameters).map(cast).collect()
}

impl NativeFunction {
    fn call(&self, mut arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
        if let Some(parameters) = &self.parameters {
            arguments = cast(&self.name, parameters, arguments, span)?;
        }
        let typed = |argument: Expr| match argument.data_type {
            DataType::Null => argument.cast_to(DataType::STRING),
            _ => argument,
        };
        let arguments = arguments.into_iter().map(typed).collect();
        let call = VectorCall(Arc::clone(&self.function));
        Ok(Expr::new(ExprKind::Vector(call, arguments), self.returns.clone(), true).at(span))
    }
}

fn wrong_count(name: &str, wanted: usize, given: usize, span: Span) -> Diagnostic {
    let plural = if wanted == 1 { "" } else { "s" };
    error(code::TYPE_MISMATCH, span, format!("{name} takes {wanted} argument{plural}, not {given}"))
}

impl SqlFunction {
    /// The call with these arguments.
    ///
    /// # Errors
    /// TYPE_MISMATCH when number or types of the arguments do not fit; UNSUPPORTED when the result would be larger than
    /// can be compiled, or when an argument such as RAND() would be computed several times.
    pub(crate) fn call(&self, arguments: Vec<Expr>, span: Span) -> Result<Expr, Diagnostic> {
        if arguments.len() != self.parameters.len() {
            let (wanted, given) = (self.parameters.len(), arguments.len());
            return Err(wrong_count(&self.name, wanted, given, span).advise(self.signature()));
        }
        let mut uses = vec![0usize; arguments.len()];
        self.body.each_column(|i| uses[i] += 1);
        let mut nodes = self.body.size();
        let mut cast = Vec::with_capacity(arguments.len());
        for ((argument, parameter), uses) in arguments.into_iter().zip(&self.parameters).zip(uses) {
            if uses > 1 && !argument.is_deterministic() {
                let text = format!("{} uses its parameter `{}` {uses} times", self.name, parameter.name);
                let text = text + ", and this argument has another value each time";
                return Err(error(code::UNSUPPORTED, argument.span, text)
                    .advise("compute the argument as a column of a subquery"));
            }
            nodes = nodes.saturating_add(uses.saturating_mul(argument.size()));
            let argument = cast_implicitly(argument, &parameter.data_type);
            cast.push(argument.map_err(|d| at(d, span).advise(self.signature()))?);
        }
        if nodes > MAX_NODES {
            let text = format!("with {} the expression has more than {MAX_NODES} operations", self.name);
            return Err(error(code::UNSUPPORTED, span, text).advise("compute the argument as a column of a subquery"));
        }
        // Run-time errors show the call: the text of the body is that of another statement.
        let body = self.body.clone().rewrite(&mut |e| e.at(span));
        Ok(body.substitute(&cast).at(span))
    }

    /// `f(x STRING, n INT)`
    fn signature(&self) -> String {
        format!("call {}({})", self.name, columns_text(&self.parameters))
    }
}

/// A function that is not there.
pub(crate) fn unknown(functions: &SqlFunctions, name: &[Ident]) -> Diagnostic {
    let last = name.last().map(|n| n.value.as_str()).unwrap_or_default();
    let message = format!("there is no SQL function '{last}'");
    let diagnostic = error_at(code::UNKNOWN_FUNCTION, span_of(name), message);
    match functions.suggest(last) {
        Some(near) => diagnostic.advise(format!("did you mean `{near}`?")),
        None => diagnostic.advise("SHOW USER FUNCTIONS lists them"),
    }
}
