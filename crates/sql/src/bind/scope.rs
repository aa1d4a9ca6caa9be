//! Names: which column of the input an identifier means.
//!
//! A scope is the columns of a FROM clause in order. A name resolves, as in Flink, first as `table.column`, then as a
//! column whose ROW fields the rest of the path walks: `bid.price`, `e.bid.price`. Names are case-sensitive.

use super::place;
use crate::foreign::name_cure;
use crate::user_function::SqlFunctions;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::window::WindowAssigner;
use millstream_types::{DataType, Diagnostic, Field, code};
use sqlparser::ast::{self, Ident};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The windows that a window column belongs to. Two columns with equal windows that come from the same row belong to
/// the same window of it: a window function takes their meaning from the window columns that are there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Windows {
    /// Which windows a row of the input belonged to.
    pub assigner: WindowAssigner,
    /// Type of the event time: TIMESTAMP(3) or TIMESTAMP_LTZ(3).
    pub time_type: DataType,
    /// How many columns the rows were partitioned by for the windows (SESSION, COUNT_TUMBLE, COUNT_HOP).
    pub partitions: usize,
}

impl Windows {
    /// Whether they are over TIMESTAMP_LTZ.
    pub fn are_of_instants(&self) -> bool {
        matches!(self.time_type, DataType::TimestampLtz(_))
    }

    /// Whether these are count windows.
    pub fn counts_rows(&self) -> bool {
        matches!(self.assigner, WindowAssigner::Count { .. })
    }
}

/// What a column means for event time. Only plain references keep it: a cast or arithmetic loses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// A value like any other.
    None,
    /// Event time, with a watermark.
    Rowtime,
    /// Processing time: `PROCTIME()`.
    Proctime,
    /// `window_start` of a window.
    WindowStart(Windows),
    /// `window_end` of a window.
    WindowEnd(Windows),
    /// `window_time` of a window, which is event time again, but for count windows, which end at any time.
    WindowTime(Windows),
    /// The time that a TUMBLE assigned windows by: no longer event time, but it lies in the window.
    WindowedTime(Windows),
    /// A column that the rows were partitioned by for the windows, and which one.
    WindowPartition(Windows, usize),
}

impl Attribute {
    /// Whether rows come in the order of the column as far as the watermark says.
    pub fn is_event_time(&self) -> bool {
        match self {
            Attribute::Rowtime => true,
            Attribute::WindowTime(windows) => !windows.counts_rows(),
            _ => false,
        }
    }

    /// Whether the column says which of the windows a row belongs to.
    pub fn belongs_to(&self, windows: &Windows) -> bool {
        match self {
            // Sessions of different keys can begin and end together, and yet be different windows.
            Attribute::WindowStart(w) | Attribute::WindowEnd(w) => w == windows && w.assigner.slicing().is_some(),
            Attribute::WindowTime(w) => w == windows,
            _ => false,
        }
    }

    /// Whether windows can be assigned by the column.
    pub fn is_time(&self) -> bool {
        self.is_event_time() || *self == Attribute::Proctime
    }
}

/// A column that a name can mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Name, type and nullability.
    pub field: Field,
    /// Role in time.
    pub attribute: Attribute,
    /// Names of the table that it can be qualified with, the innermost last: alias, or catalog, database and table.
    pub qualifier: Arc<[String]>,
    /// Whether only its qualified name means it: a column of USING, which stands merged before the others, or one of
    /// the query around a subquery whose name the subquery uses too.
    pub hidden: bool,
}

impl Column {
    /// A column without a role in time or a qualifier.
    pub fn plain(field: Field) -> Column {
        Column { field, attribute: Attribute::None, qualifier: Arc::default(), hidden: false }
    }
}

/// The columns that expressions of a query can use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Columns of the input, in order.
    pub columns: Vec<Column>,
    /// SQL functions that calls can mean.
    pub functions: SqlFunctions,
    /// Subqueries as values, and the columns that hold them.
    pub values: Vec<(ast::Query, usize)>,
}

/// A column that a star stands for, and its name.
pub(crate) type Starred = (Expr, String);

impl Scope {
    /// A scope without SQL functions.
    pub fn of(columns: Vec<Column>) -> Scope {
        Scope { columns, ..Scope::default() }
    }

    /// The input's column `index`.
    pub fn column(&self, index: usize, span: Span) -> Expr {
        let field = &self.columns[index].field;
        Expr::column(index, field.data_type.clone(), field.nullable).at(span)
    }

    /// The value of a subquery.
    pub fn value(&self, query: &ast::Query, span: Span) -> Option<Expr> {
        let (_, index) = self.values.iter().find(|(known, _)| known == query)?;
        Some(self.column(*index, span))
    }

    /// The expression that a (qualified, nested) name means.
    pub fn resolve(&self, path: &[Ident]) -> Result<Expr, Diagnostic> {
        let span = place::span_of_path(path);
        let (index, used) = self.resolve_column(path, span)?;
        let mut expr = self.column(index, span);
        for part in &path[used..] {
            expr = field_of(expr, part)?;
        }
        Ok(expr)
    }

    /// The column that a path starts with, and how many of its parts name it.
    fn resolve_column(&self, path: &[Ident], span: Span) -> Result<(usize, usize), Diagnostic> {
        for length in (1..path.len()).rev() {
            if self.columns.iter().any(|c| qualifies(&path[..length], c)) {
                let found = self.named(&path[length].value, Some(&path[..length]));
                match found.as_slice() {
                    // A column may have the name of its table: then the path goes into the column.
                    [] if !self.named(&path[0].value, None).is_empty() => {}
                    [] => return Err(self.unknown(&path[length], Some(&path[..length]))),
                    [one] => return Ok((*one, length + 1)),
                    several => return Err(self.ambiguous(&path[length], several, span)),
                }
            }
        }
        match self.named(&path[0].value, None).as_slice() {
            [] if path.len() > 1 => Err(self.unknown_table(&path[0])),
            [] => Err(self.unknown(&path[0], None)),
            [one] => Ok((*one, 1)),
            several => Err(self.ambiguous(&path[0], several, span)),
        }
    }

    fn named(&self, name: &str, qualifier: Option<&[Ident]>) -> Vec<usize> {
        let matches = |c: &Column| c.field.name == name && qualifier.map_or(!c.hidden, |q| qualifies(q, c));
        (0..self.columns.len()).filter(|&i| matches(&self.columns[i])).collect()
    }

    fn unknown(&self, name: &Ident, qualifier: Option<&[Ident]>) -> Diagnostic {
        let span = place::from_parser(name.span);
        let message = match qualifier {
            Some(q) => {
                let table: Vec<&str> = q.iter().map(|p| p.value.as_str()).collect();
                format!("table `{}` has no column `{}`", table.join("."), name.value)
            }
            None => format!("unknown column `{}`", name.value),
        };
        let names = self.columns.iter().filter(|c| qualifier.is_none_or(|q| qualifies(q, c)));
        if let Some(cure) = name_cure(&name.value) {
            return place::error(code::UNKNOWN_COLUMN, span, message).advise(cure);
        }
        if self.columns.is_empty() {
            let advice =
                format!("there is no FROM: write SELECT {0} FROM t, or '{0}' in quotes for a text", name.value);
            return place::error(code::UNKNOWN_COLUMN, span, message).advise(advice);
        }
        let advice = place::suggestion(&name.value, names.map(|c| c.field.name.as_str()), "columns");
        place::error(code::UNKNOWN_COLUMN, span, message).advise(advice)
    }

    /// What stands before a point, and is neither a table nor a column.
    fn unknown_table(&self, name: &Ident) -> Diagnostic {
        let mut tables: Vec<&str> =
            self.columns.iter().filter_map(|c| c.qualifier.last()).map(String::as_str).collect();
        tables.dedup();
        let message = format!("unknown column `{0}`, and there is no table `{0}` in FROM", name.value);
        let advice = place::suggestion(&name.value, tables.into_iter(), "tables of FROM");
        place::error(code::UNKNOWN_COLUMN, place::from_parser(name.span), message).advise(advice)
    }

    fn ambiguous(&self, name: &Ident, columns: &[usize], span: Span) -> Diagnostic {
        let tables: Vec<Option<&String>> = columns.iter().map(|&i| self.columns[i].qualifier.last()).collect();
        let distinct = (1..tables.len()).all(|i| !tables[..i].contains(&tables[i]));
        let advice = match tables.first() {
            Some(Some(_)) if distinct => {
                let qualified = tables.iter().flatten().map(|table| format!("{table}.{}", name.value));
                format!("say of which table: {}", qualified.collect::<Vec<_>>().join(" or "))
            }
            _ => "give the columns different names with AS in the subquery".into(),
        };
        let message = format!("the input has more than one column `{}`", name.value);
        place::error(code::AMBIGUOUS_COLUMN, span, message).advise(advice)
    }

    /// All columns, for `*`.
    pub fn star(&self, span: Span) -> Vec<Starred> {
        (0..self.columns.len()).filter(|&i| !self.columns[i].hidden).map(|i| self.starred(i, span)).collect()
    }

    fn starred(&self, index: usize, span: Span) -> Starred {
        let column = &self.columns[index];
        (self.column(index, span), column.field.name.clone())
    }

    /// The columns of a table for `t.*`, or the fields of a row for `row_column.*`.
    pub fn qualified_star(&self, path: &[Ident]) -> Result<Vec<Starred>, Diagnostic> {
        let span = place::span_of_path(path);
        let of_table: Vec<usize> = (0..self.columns.len()).filter(|&i| qualifies(path, &self.columns[i])).collect();
        if !of_table.is_empty() {
            return Ok(of_table.into_iter().map(|i| self.starred(i, span)).collect());
        }
        let row = self.resolve(path)?;
        self.row_star(&row)
    }

    /// The fields of a row.
    pub fn row_star(&self, row: &Expr) -> Result<Vec<Starred>, Diagnostic> {
        let DataType::Row(fields) = &row.data_type else {
            let message = format!("`.*` needs a table or a ROW, not {}", row.data_type);
            return Err(place::error(code::TYPE_MISMATCH, row.span, message).advise("name the columns one by one"));
        };
        let starred = |i: usize| (field_at(row.clone(), i), fields[i].name.clone());
        Ok((0..fields.len()).map(starred).collect())
    }

    /// The role in time of an expression: that of the column, if it is one.
    pub fn attribute(&self, expr: &Expr) -> Attribute {
        attribute_of(&self.columns, expr)
    }
}

/// The role in time of an expression over `columns`: that of the column, if it is one.
pub(crate) fn attribute_of(columns: &[Column], expr: &Expr) -> Attribute {
    match expr.kind {
        ExprKind::Column(i) if i < columns.len() => columns[i].attribute.clone(),
        ExprKind::ProcessingTime => Attribute::Proctime,
        _ => Attribute::None,
    }
}

/// Whether `path` names the table of a column: its last parts, down to the table's own name.
fn qualifies(path: &[Ident], column: &Column) -> bool {
    let names = &column.qualifier;
    path.len() <= names.len()
        && path.iter().zip(&names[names.len() - path.len()..]).all(|(part, name)| part.value == *name)
}

/// Field `part` of a ROW.
pub(crate) fn field_of(row: Expr, part: &Ident) -> Result<Expr, Diagnostic> {
    let span = place::from_parser(part.span);
    let DataType::Row(fields) = &row.data_type else {
        let message = format!("`{}` cannot be a field: the value before it is {}", part.value, row.data_type);
        return Err(place::error(code::UNKNOWN_COLUMN, span, message).advise("only a ROW has fields"));
    };
    match fields.iter().position(|f| f.name == part.value) {
        Some(index) => Ok(field_at(row, index)),
        None => {
            let advice = place::suggestion(&part.value, fields.iter().map(|f| f.name.as_str()), "fields");
            Err(place::error(code::UNKNOWN_COLUMN, span, format!("the ROW has no field `{}`", part.value))
                .advise(advice))
        }
    }
}

/// Field `index` of an expression that is a ROW.
fn field_at(row: Expr, index: usize) -> Expr {
    let DataType::Row(fields) = &row.data_type else { unreachable!("the caller has checked that this is a ROW") };
    let (data_type, nullable) = (fields[index].data_type.clone(), row.nullable || fields[index].nullable);
    let span = row.span;
    Expr::new(ExprKind::Field(Box::new(row), index), data_type, nullable).at(span)
}

/// Makes names unique as Flink does: the second `a` becomes `a0`, the third `a1`.
pub(crate) fn unique_names(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let names: Vec<String> = names.into_iter().collect();
    let mut taken = HashSet::with_capacity(names.len());
    if names.iter().all(|name| taken.insert(name.as_str())) {
        return names;
    }
    let (mut unique, mut taken) = (Vec::with_capacity(names.len()), HashSet::with_capacity(names.len()));
    // The suffix that comes next for a name: with many equal names each is not tried with all of them.
    let mut next: HashMap<String, usize> = HashMap::new();
    for name in names {
        let mut candidate = name.clone();
        while !taken.insert(candidate.clone()) {
            let suffix = next.entry(name.clone()).or_default();
            candidate = format!("{name}{suffix}");
            *suffix += 1;
        }
        unique.push(candidate);
    }
    unique
}
