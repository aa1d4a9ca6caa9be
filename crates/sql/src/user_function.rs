//! SQL functions: `CREATE FUNCTION f(x STRING) RETURNS BIGINT RETURN expression`.
//!
//! The body is bound once, when the function is created, over its parameters as columns. A call puts its arguments, cast
//! to the types of the parameters, in their places: what is compiled is one expression, and an argument that stands in
//! it several times is computed once like every common subexpression. Functions may use earlier ones, never themselves.
//!
//! Invariants: bodies are flat (calls within them are inlined already), so nothing here recurses; an expression that
//! calls would blow up beyond a bound is an error.

use crate::bind::coercion::cast_implicitly;
use crate::bind::{at, columns_text, error};
use crate::ddl::span_of;
use crate::diagnostics::{error_at, nearest};
use millstream_plan::expr::{Expr, Span};
use millstream_types::{Diagnostic, Field, code};
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

/// The SQL functions of a session by upper-case name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SqlFunctions {
    by_name: Arc<BTreeMap<String, Arc<SqlFunction>>>,
}

impl SqlFunctions {
    /// The function of this name, in any case.
    pub fn find(&self, name: &str) -> Option<&Arc<SqlFunction>> {
        if self.by_name.is_empty() {
            return None;
        }
        self.by_name.get(&name.to_ascii_uppercase())
    }

    /// Adds or replaces a function.
    pub(crate) fn insert(&mut self, function: SqlFunction) {
        let key = function.name.to_ascii_uppercase();
        Arc::make_mut(&mut self.by_name).insert(key, Arc::new(function));
    }

    /// Removes a function; `false` when there is none of the name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        Arc::make_mut(&mut self.by_name).remove(&name.to_ascii_uppercase()).is_some()
    }

    /// Names as created, sorted without regard to case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.values().map(|f| f.name.as_str())
    }

    /// The name nearest to one that is unknown.
    pub fn suggest(&self, name: &str) -> Option<&str> {
        let near = nearest(&name.to_ascii_uppercase(), self.by_name.keys().map(String::as_str))?;
        self.find(near).map(|f| f.name.as_str())
    }
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
            let plural = if wanted == 1 { "" } else { "s" };
            let text = format!("{} takes {wanted} argument{plural}, not {given}", self.name);
            return Err(error(code::TYPE_MISMATCH, span, text).advise(self.signature()));
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
