//! Places in the SQL text, and errors at them.

use crate::{ddl, diagnostics};
use millstream_plan::expr::Span;
use millstream_types::{Code, DataType, Diagnostic, Field, Place, code};
use sqlparser::ast::{Ident, ObjectName, Spanned};

/// The place of a node of the AST; the default span when the parser does not know it.
pub(crate) fn span_of(node: &impl Spanned) -> Span {
    from_parser(node.span())
}

/// A span of the parser as one of the plan.
pub(crate) fn from_parser(span: sqlparser::tokenizer::Span) -> Span {
    match diagnostics::place_of(span) {
        Some(Place::Sql { line, column, length }) => {
            let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
            Span { line: narrow(line), column: narrow(column), length: narrow(length) }
        }
        _ => Span::default(),
    }
}

/// An error at `span`.
pub(crate) fn error(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
    at(Diagnostic::new(code, message), span)
}

/// Adds the place of `span`, unless the diagnostic has one or the span is unknown.
pub(crate) fn at(diagnostic: Diagnostic, span: Span) -> Diagnostic {
    if span.line == 0 {
        return diagnostic;
    }
    diagnostic.at(Place::Sql {
        line: span.line.into(),
        column: span.column.into(),
        length: u64::from(span.length).max(1),
    })
}

/// A feature of Flink SQL that is not there yet; `advice` says what to do instead.
pub(crate) fn unsupported(feature: &str, span: Span, advice: &str) -> Diagnostic {
    error(code::UNSUPPORTED, span, format!("{feature} is not supported yet")).advise(advice)
}

/// "did you mean …" when a name of `known` is near, else what there is.
pub(crate) fn suggestion<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, what: &str) -> String {
    // Of single letters, every one is near to every other.
    let meant = |near: &&str| name.chars().count() > 1 || near.eq_ignore_ascii_case(name);
    match diagnostics::nearest(name, known.clone()).filter(meant) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut names: Vec<&str> = known.take(12).collect();
            names.dedup();
            match names.as_slice() {
                [] => format!("there are no {what}"),
                _ => format!("{what}: {}", names.join(", ")),
            }
        }
    }
}

/// The identifiers of a possibly qualified name; `None` when a part is not a plain identifier.
pub(crate) fn name_parts(name: &ObjectName) -> Option<Vec<Ident>> {
    name.0.iter().map(|part| part.as_ident().cloned()).collect()
}

/// The place of a path of names.
pub(crate) fn span_of_path(path: &[Ident]) -> Span {
    from_parser(ddl::span_of(path))
}

/// Columns as a message lists them.
pub(crate) fn columns_text<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    fields.into_iter().map(|f| format!("{} {}", f.name, f.data_type)).collect::<Vec<_>>().join(", ")
}

/// A type as a message shows it: of nested types only the kind.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Row(_) => "ROW".into(),
        DataType::Array(_) => "ARRAY".into(),
        DataType::Map(..) => "MAP".into(),
        other => other.to_string(),
    }
}
