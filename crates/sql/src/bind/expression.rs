//! Scalar expressions: sqlparser's AST to typed [`Expr`]s.
//!
//! Operators are typed in [`super::operators`], calls in [`super::call`]. Aggregate functions may stand where the
//! binder was given an [`AggregateList`]; they become columns beyond the input (see [`super::markers`]).

use super::aggregate_list::AggregateList;
use super::place::{at, error, from_parser, span_of, type_name, unsupported};
use super::scope::{Scope, field_of};
use super::{literal, operators};
use crate::foreign::operator_cure;
use crate::{data_type, functions};
use millstream_plan::expr::{ArithmeticOp, CompareOp, Expr, ExprKind, Span};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast::{self, BinaryOperator, Spanned, UnaryOperator};

/// Binds expressions over one scope.
pub(crate) struct Binder<'a> {
    /// What names mean.
    pub scope: &'a Scope,
    /// Takes aggregate functions, where they are allowed.
    pub aggregates: Option<&'a mut AggregateList>,
    /// The clause that is being bound, for messages: `WHERE`.
    pub clause: &'static str,
}

impl<'a> Binder<'a> {
    /// A binder for a clause without aggregate functions.
    pub fn scalar(scope: &'a Scope, clause: &'static str) -> Binder<'a> {
        Binder { scope, aggregates: None, clause }
    }

    /// Binds any expression.
    pub fn bind(&mut self, expr: &ast::Expr) -> Result<Expr, Diagnostic> {
        let span = span_of(expr);
        let bound = match expr {
            ast::Expr::Identifier(name) => self.column_or_item(name),
            ast::Expr::CompoundIdentifier(path) => self.scope.resolve(path),
            ast::Expr::CompoundFieldAccess { root, access_chain } => self.field_access(root, access_chain),
            ast::Expr::Nested(inner) => self.bind(inner),
            ast::Expr::Value(value) => literal::bind_value(value),
            ast::Expr::TypedString(value) => literal::bind_typed_string(value),
            ast::Expr::Interval(interval) => literal::bind_interval(interval),
            ast::Expr::BinaryOp { left, op: BinaryOperator::Overlaps, right } => self.overlaps(left, right, span),
            ast::Expr::BinaryOp { .. } => self.chain(expr),
            ast::Expr::UnaryOp { op, expr } => self.unary(op, expr, span),
            ast::Expr::Function(function) => self.call(function, span),
            ast::Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref(), span)
            }
            ast::Expr::Cast { kind, expr, data_type, format } => {
                if let Some(format) = format {
                    let feature = format!("CAST with FORMAT {format}");
                    return Err(unsupported(&feature, span, "use DATE_FORMAT or TO_TIMESTAMP"));
                }
                self.cast(kind, expr, data_type, span)
            }
            ast::Expr::InList { expr, list, negated } => {
                let operand = self.bind(expr)?;
                let list = list.iter().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
                Ok(negated_if(*negated, operators::in_list(operand, list, span)?, span))
            }
            ast::Expr::Between { expr, negated, low, high } => {
                let (operand, low, high) = (self.bind(expr)?, self.bind(low)?, self.bind(high)?);
                Ok(negated_if(*negated, within(operand, low, high, span)?, span))
            }
            _ => self.predicate_or_syntax(expr, span),
        }
        .map_err(|e| at(e, span))?;
        if repeats(expr) && bound.size() > MAX_OPERATIONS {
            let message = format!("an expression has more than {MAX_OPERATIONS} operations");
            return Err(
                error(code::QUERY_TOO_LARGE, span, message).advise("compute a part of it as a column of a subquery")
            );
        }
        Ok(if bound.span == Span::default() { bound.at(span) } else { bound })
    }

    /// A column of the input, or within QUALIFY an item of the select list.
    fn column_or_item(&self, name: &ast::Ident) -> Result<Expr, Diagnostic> {
        let column = self.scope.resolve(std::slice::from_ref(name));
        match &self.aggregates {
            Some(list) if matches!(self.clause, "QUALIFY" | "OVER") => {
                column.or_else(|unknown| list.selected(name, unknown, self.clause == "OVER"))
            }
            _ => column,
        }
    }

    fn predicate_or_syntax(&mut self, expr: &ast::Expr, span: Span) -> Result<Expr, Diagnostic> {
        match expr {
            ast::Expr::IsNull(e) => self.null_test(e, true, span),
            ast::Expr::IsNotNull(e) => self.null_test(e, false, span),
            ast::Expr::IsTrue(e) => self.truth_test(e, true, false, span),
            ast::Expr::IsNotTrue(e) => self.truth_test(e, true, true, span),
            ast::Expr::IsFalse(e) => self.truth_test(e, false, false, span),
            ast::Expr::IsNotFalse(e) => self.truth_test(e, false, true, span),
            ast::Expr::IsUnknown(e) | ast::Expr::IsNotUnknown(e) => {
                let operand = self.condition(e, "IS UNKNOWN")?;
                let operand = Box::new(operand);
                let is_unknown = matches!(expr, ast::Expr::IsUnknown(_));
                let kind = if is_unknown { ExprKind::IsNull(operand) } else { ExprKind::IsNotNull(operand) };
                Ok(operators::boolean(kind, span))
            }
            ast::Expr::IsDistinctFrom(a, b) => operators::distinct_from(self.bind(a)?, self.bind(b)?, false, span),
            ast::Expr::IsNotDistinctFrom(a, b) => operators::distinct_from(self.bind(a)?, self.bind(b)?, true, span),
            ast::Expr::Like { negated, any, expr, pattern, escape_char } => {
                if *any {
                    return Err(unsupported("LIKE ANY", span, "combine several LIKE with OR"));
                }
                let arguments = [Some(&**expr), Some(&**pattern), escape_char.as_deref()];
                Ok(negated_if(*negated, self.builtin("LIKE", &arguments, span)?, span))
            }
            ast::Expr::ILike { negated, any, expr, pattern, escape_char } => {
                if *any {
                    return Err(unsupported("ILIKE ANY", span, "combine several ILIKE with OR"));
                }
                let arguments = [Some(&**expr), Some(&**pattern), escape_char.as_deref()];
                Ok(negated_if(*negated, self.builtin("ILIKE", &arguments, span)?, span))
            }
            ast::Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let arguments = [Some(&**expr), Some(&**pattern), escape_char.as_deref()];
                Ok(negated_if(*negated, self.builtin("SIMILAR TO", &arguments, span)?, span))
            }
            ast::Expr::Position { expr, r#in } => self.builtin("POSITION", &[Some(expr), Some(r#in)], span),
            ast::Expr::Substring { expr, substring_from, substring_for, .. } => {
                let arguments = [Some(&**expr), substring_from.as_deref(), substring_for.as_deref()];
                self.builtin("SUBSTRING", &arguments, span)
            }
            ast::Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let arguments = [Some(&**expr), Some(&**overlay_what), Some(&**overlay_from), overlay_for.as_deref()];
                self.builtin("OVERLAY", &arguments, span)
            }
            ast::Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let what = trim_what.as_deref().or_else(|| trim_characters.as_ref()?.first());
                let side = match trim_where {
                    None | Some(ast::TrimWhereField::Both) => "BOTH",
                    Some(ast::TrimWhereField::Leading) => "LEADING",
                    Some(ast::TrimWhereField::Trailing) => "TRAILING",
                };
                let what = what.map_or_else(|| Ok(unit_literal(" ", span)), |what| self.bind(what))?;
                let operand = self.bind(expr)?;
                functions::bind_call("TRIM", vec![unit_literal(side, span), what, operand], span)
            }
            ast::Expr::Extract { field, expr, .. } => {
                let operand = self.bind(expr)?;
                functions::bind_call("EXTRACT", vec![unit(field, span), operand], span)
            }
            ast::Expr::Array(ast::Array { elem, .. }) => {
                let elements: Vec<Option<&ast::Expr>> = elem.iter().map(Some).collect();
                self.builtin("ARRAY", &elements, span)
            }
            ast::Expr::Tuple(fields) => {
                let fields: Vec<Option<&ast::Expr>> = fields.iter().map(Some).collect();
                self.builtin("ROW", &fields, span)
            }
            ast::Expr::IsJson { expr, kind, unique_keys: None, negated } => {
                let kind = kind.as_ref().map(ToString::to_string).unwrap_or_default();
                let operand = self.bind(expr)?;
                let test = functions::bind_call("IS JSON", vec![operand, unit_literal(&kind, span)], span)?;
                Ok(negated_if(*negated, test, span))
            }
            ast::Expr::Floor { expr, field } => self.floor("FLOOR", expr, field, span),
            ast::Expr::Ceil { expr, field } => self.floor("CEIL", expr, field, span),
            ast::Expr::Subquery(query) => self.scope.value(query, span).ok_or_else(|| not_supported(expr, span)),
            other => Err(not_supported(other, span)),
        }
    }

    /// Binds a BOOLEAN: what WHERE, HAVING, ON, CASE, AND, OR and NOT need.
    pub fn condition(&mut self, expr: &ast::Expr, of: &str) -> Result<Expr, Diagnostic> {
        let bound = self.bind(expr)?;
        match bound.data_type {
            DataType::Boolean => Ok(bound),
            DataType::Null => Ok(Expr::literal(Value::Null, DataType::Boolean).at(bound.span)),
            _ => {
                let message = format!("{of} needs a BOOLEAN, not {}", type_name(&bound.data_type));
                let example = match &bound.data_type {
                    t if t.is_numeric() => format!("{expr} <> 0"),
                    t if t.is_string() => format!("{expr} = 'text'"),
                    _ => format!("{expr} IS NOT NULL"),
                };
                Err(error(code::TYPE_MISMATCH, bound.span, message)
                    .advise(format!("write a comparison, such as {example}")))
            }
        }
    }

    /// Binds binary operators. They are left-deep in long texts, so the left spine is walked in a loop.
    fn chain(&mut self, expr: &ast::Expr) -> Result<Expr, Diagnostic> {
        let mut spine = Vec::new();
        let mut first = expr;
        while let ast::Expr::BinaryOp { left, op, right } = first {
            let same_kind = |(top, ..): &(&BinaryOperator, _, _)| top == &op || !is_logical(top) && !is_logical(op);
            if !spine.first().is_none_or(same_kind) {
                break;
            }
            spine.push((op, &**left, &**right));
            first = left;
        }
        if let Some((op, ..)) = spine.first().filter(|(op, ..)| is_logical(op)) {
            let (is_and, name) = if **op == BinaryOperator::And { (true, "AND") } else { (false, "OR") };
            let mut operands = vec![self.condition(first, name)?];
            for (.., right) in spine.iter().rev() {
                operands.push(self.condition(right, name)?);
            }
            return Ok(operators::logical(is_and, operands, span_of(expr)));
        }
        let mut bound = self.bind(first)?;
        // The place of each node is from the first operand to its own.
        let mut place = first.span();
        while let Some((op, left, right)) = spine.pop() {
            place = place.union(&right.span());
            let foreign = || {
                let message = format!("Flink SQL has no operator `{op}`");
                let operands = [left.to_string(), right.to_string()];
                error(code::SYNTAX, from_parser(place), message).advise(operator_cure(&op.to_string(), &operands))
            };
            bound = binary(op, bound, self.bind(right)?, from_parser(place)).unwrap_or_else(|| Err(foreign()))?;
        }
        Ok(bound)
    }

    fn unary(&mut self, op: &UnaryOperator, operand: &ast::Expr, span: Span) -> Result<Expr, Diagnostic> {
        match op {
            UnaryOperator::Not => Ok(operators::not(self.condition(operand, "NOT")?, span)),
            UnaryOperator::Minus => match literal::negated_integer(operand) {
                Some((value, data_type)) => Ok(Expr::literal(Value::Int(value), data_type).at(span)),
                None => operators::negate(self.bind(operand)?, span),
            },
            UnaryOperator::Plus => {
                let operand = self.bind(operand)?;
                if operand.data_type.is_numeric() || operand.data_type.is_interval() {
                    return Ok(operand);
                }
                let message = format!("`+` cannot be applied to {}", operand.data_type);
                Err(error(code::TYPE_MISMATCH, span, message).advise("cast the operand to a number"))
            }
            other => {
                let message = format!("Flink SQL has no operator `{other}`");
                Err(error(code::SYNTAX, span, message)
                    .advise(operator_cure(&other.to_string(), &[operand.to_string()])))
            }
        }
    }

    fn null_test(&mut self, operand: &ast::Expr, is_null: bool, span: Span) -> Result<Expr, Diagnostic> {
        let operand = self.bind(operand)?;
        if operand.data_type == DataType::Null {
            return Ok(Expr::boolean(is_null).at(span));
        }
        let operand = Box::new(operand);
        let kind = if is_null { ExprKind::IsNull(operand) } else { ExprKind::IsNotNull(operand) };
        Ok(operators::boolean(kind, span))
    }

    fn truth_test(&mut self, operand: &ast::Expr, truth: bool, negated: bool, span: Span) -> Result<Expr, Diagnostic> {
        let operand = self.condition(operand, "IS TRUE / IS FALSE")?;
        let test = operators::boolean(ExprKind::IsBoolean(Box::new(operand), truth), span);
        Ok(negated_if(negated, test, span))
    }

    /// `operand BETWEEN SYMMETRIC a AND b`: the ends in either order.
    pub(crate) fn between_symmetric(&mut self, arguments: &[&ast::Expr], span: Span) -> Result<Expr, Diagnostic> {
        let bound = arguments.iter().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
        let [operand, a, b] = <[Expr; 3]>::try_from(bound)
            .map_err(|_| error(code::SYNTAX, span, "expected x BETWEEN SYMMETRIC a AND b"))?;
        let forwards = within(operand.clone(), a.clone(), b.clone(), span)?;
        let backwards = within(operand, b, a, span)?;
        Ok(operators::logical(false, vec![forwards, backwards], span))
    }

    /// `(a, b) OVERLAPS (c, d)`: whether two periods, each of a start and an end or length, have a time in common.
    fn overlaps(&mut self, left: &ast::Expr, right: &ast::Expr, span: Span) -> Result<Expr, Diagnostic> {
        let mut period = |e: &ast::Expr| -> Result<[Expr; 2], Diagnostic> {
            let ast::Expr::Tuple(ends) = e else {
                return Err(error(code::SYNTAX, span_of(e), "OVERLAPS compares two periods")
                    .advise("write (start, end) OVERLAPS (start, end)"));
            };
            let [start, end] = &ends[..] else {
                return Err(error(code::TYPE_MISMATCH, span_of(e), "a period has a start and an end")
                    .advise("write (start, end) or (start, INTERVAL …)"));
            };
            let (start, end) = (self.bind(start)?, self.bind(end)?);
            let end = match end.data_type.is_interval() {
                true => operators::arithmetic(ArithmeticOp::Add, start.clone(), end, span)?,
                false => end,
            };
            let least = functions::bind_call("LEAST", vec![start.clone(), end.clone()], span)?;
            let greatest = functions::bind_call("GREATEST", vec![start, end], span)?;
            Ok([least, greatest])
        };
        let [[start, end], [other_start, other_end]] = [period(left)?, period(right)?];
        let before = operators::compare(CompareOp::LessEqual, start, other_end, span)?;
        let after = operators::compare(CompareOp::LessEqual, other_start, end, span)?;
        Ok(operators::logical(true, vec![before, after], span))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&ast::Expr>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let operand = operand.map(|e| self.bind(e)).transpose()?;
        let mut branches = Vec::with_capacity(conditions.len());
        for when in conditions {
            let condition = match &operand {
                None => self.condition(&when.condition, "WHEN")?,
                Some(operand) => {
                    let value = self.bind(&when.condition)?;
                    let place = value.span;
                    operators::compare(CompareOp::Equal, operand.clone(), value, place)?
                }
            };
            branches.push((condition, self.bind(&when.result)?));
        }
        let otherwise = match otherwise {
            Some(e) => self.bind(e)?,
            None => Expr::literal(Value::Null, DataType::Null).at(span),
        };
        operators::case(branches, otherwise, span)
    }

    fn cast(
        &mut self,
        kind: &ast::CastKind,
        operand: &ast::Expr,
        to: &ast::DataType,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let operand = self.bind(operand)?;
        let to = data_type::from_ast(to).map_err(|e| at(e, span))?;
        let fallible = match kind {
            ast::CastKind::Cast | ast::CastKind::DoubleColon => false,
            ast::CastKind::TryCast => true,
            ast::CastKind::SafeCast => {
                return Err(error(code::SYNTAX, span, "SAFE_CAST is not Flink SQL")
                    .advise(format!("write TRY_CAST(x AS {to})")));
            }
        };
        operators::cast(operand, to, fallible, span)
    }

    fn floor(
        &mut self,
        name: &str,
        operand: &ast::Expr,
        field: &ast::CeilFloorKind,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let mut arguments = vec![self.bind(operand)?];
        match field {
            ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) => {}
            ast::CeilFloorKind::DateTimeField(field) => arguments.push(unit(field, span)),
            ast::CeilFloorKind::Scale(value) => {
                let span = from_parser(value.span);
                let message = format!("{name} takes one argument, or a unit of time after TO");
                return Err(error(code::TYPE_MISMATCH, span, message).advise("use ROUND or TRUNCATE for digits"));
            }
        }
        functions::bind_call(name, arguments, span)
    }

    /// A function with special syntax, with the arguments that are there.
    fn builtin(&mut self, name: &str, arguments: &[Option<&ast::Expr>], span: Span) -> Result<Expr, Diagnostic> {
        let bound = arguments.iter().flatten().map(|e| self.bind(e)).collect::<Result<Vec<_>, _>>()?;
        functions::bind_call(name, bound, span)
    }

    fn field_access(&mut self, root: &ast::Expr, chain: &[ast::AccessExpr]) -> Result<Expr, Diagnostic> {
        // The names before the first subscript are one path: they may start with the name of a table.
        let mut path = match root {
            ast::Expr::Identifier(name) => vec![name.clone()],
            ast::Expr::CompoundIdentifier(path) => path.clone(),
            _ => vec![],
        };
        let names = chain.iter().map_while(|access| match access {
            ast::AccessExpr::Dot(ast::Expr::Identifier(name)) if !path.is_empty() => Some(name.clone()),
            _ => None,
        });
        let names: Vec<ast::Ident> = names.collect();
        let chain = &chain[names.len()..];
        path.extend(names);
        let mut bound = if path.is_empty() { self.bind(root)? } else { self.scope.resolve(&path)? };
        for access in chain {
            bound = match access {
                ast::AccessExpr::Dot(ast::Expr::Identifier(name)) => field_of(bound, name)?,
                ast::AccessExpr::Dot(other) => {
                    return Err(error(code::SYNTAX, span_of(other), "expected the name of a field after the point"));
                }
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => {
                    let index = self.bind(index)?;
                    let span = bound.span;
                    functions::bind_call("[]", vec![bound, index], span)?
                }
                ast::AccessExpr::Subscript(subscript) => {
                    let span = span_of(subscript);
                    return Err(error(code::SYNTAX, span, "Flink SQL has no slices in brackets")
                        .advise("write ARRAY_SLICE(array, from, to), or SUBSTRING(text FROM 1 FOR 2) for text"));
                }
            };
        }
        Ok(bound)
    }
}

fn is_logical(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// Operations of one expression.
const MAX_OPERATIONS: usize = 200_000;

/// Whether what an expression is bound to may have an operand several times. Within each other, such expressions multiply.
fn repeats(expr: &ast::Expr) -> bool {
    !matches!(
        expr,
        ast::Expr::Identifier(_)
            | ast::Expr::CompoundIdentifier(_)
            | ast::Expr::Nested(_)
            | ast::Expr::Value(_)
            | ast::Expr::UnaryOp { .. }
    )
}

/// `low <= operand AND operand <= high`
fn within(operand: Expr, low: Expr, high: Expr, span: Span) -> Result<Expr, Diagnostic> {
    let above = operators::compare(CompareOp::GreaterEqual, operand.clone(), low, span)?;
    let below = operators::compare(CompareOp::LessEqual, operand, high, span)?;
    Ok(operators::logical(true, vec![above, below], span))
}

fn negated_if(negated: bool, expr: Expr, span: Span) -> Expr {
    if negated { operators::not(expr, span) } else { expr }
}

/// The unit of EXTRACT, FLOOR or TIMESTAMPDIFF as the functions take it: its upper-case name.
pub(crate) fn unit(field: &ast::DateTimeField, span: Span) -> Expr {
    unit_literal(&field.to_string(), span)
}

/// A unit of time by name.
pub(crate) fn unit_literal(name: &str, span: Span) -> Expr {
    let name = name.to_ascii_uppercase();
    let length = name.len() as u32;
    Expr::literal(Value::String(name), DataType::Char(length)).at(span)
}

/// The operation of an operator; nothing if it is not there.
fn binary(op: &BinaryOperator, left: Expr, right: Expr, span: Span) -> Option<Result<Expr, Diagnostic>> {
    Some(match op {
        BinaryOperator::Plus => operators::arithmetic(ArithmeticOp::Add, left, right, span),
        BinaryOperator::Minus => operators::arithmetic(ArithmeticOp::Subtract, left, right, span),
        BinaryOperator::Multiply => operators::arithmetic(ArithmeticOp::Multiply, left, right, span),
        BinaryOperator::Divide => operators::arithmetic(ArithmeticOp::Divide, left, right, span),
        BinaryOperator::Modulo => operators::arithmetic(ArithmeticOp::Modulo, left, right, span),
        BinaryOperator::StringConcat => functions::bind_call("||", vec![left, right], span),
        BinaryOperator::Eq => operators::compare(CompareOp::Equal, left, right, span),
        BinaryOperator::NotEq => operators::compare(CompareOp::NotEqual, left, right, span),
        BinaryOperator::Lt => operators::compare(CompareOp::Less, left, right, span),
        BinaryOperator::LtEq => operators::compare(CompareOp::LessEqual, left, right, span),
        BinaryOperator::Gt => operators::compare(CompareOp::Greater, left, right, span),
        BinaryOperator::GtEq => operators::compare(CompareOp::GreaterEqual, left, right, span),
        _ => return None,
    })
}

/// Names what an expression is that has no counterpart yet.
fn not_supported(expr: &ast::Expr, span: Span) -> Diagnostic {
    let (feature, advice) = match expr {
        ast::Expr::InSubquery { .. } => {
            ("IN (subquery) within an expression", "put it in WHERE, alone or combined with AND, or join")
        }
        ast::Expr::Exists { .. } => {
            ("EXISTS within an expression", "put it in WHERE, alone or combined with AND, or join")
        }
        ast::Expr::Subquery(_) => {
            ("a subquery as a value in this place", "use it in SELECT, WHERE, HAVING or QUALIFY, or join it")
        }
        ast::Expr::AnyOp { .. } => ("ANY / SOME (subquery)", "use IN with a list of values"),
        ast::Expr::AllOp { .. } => ("ALL (subquery)", "combine comparisons with AND"),
        ast::Expr::Struct { .. } => ("STRUCT", "write ROW(value, …)"),
        ast::Expr::Map(_) | ast::Expr::Dictionary(_) => ("{…}", "write MAP[key, value, …]"),
        ast::Expr::AtTimeZone { .. } => ("AT TIME ZONE", "use CONVERT_TZ, or CAST to TIMESTAMP_LTZ"),
        ast::Expr::GroupingSets(_) => ("GROUPING SETS", "write a query for each set and UNION ALL them"),
        ast::Expr::Cube(_) => ("CUBE", "write a query for each set and UNION ALL them"),
        ast::Expr::Rollup(_) => ("ROLLUP", "write a query for each set and UNION ALL them"),
        ast::Expr::IsJson { .. } => ("IS JSON with unique keys", "remove UNIQUE KEYS"),
        ast::Expr::IsNormalized { .. } => ("IS NORMALIZED", "remove the test"),
        ast::Expr::RLike { .. } => ("RLIKE", "write REGEXP(x, pattern)"),
        ast::Expr::Collate { .. } => ("COLLATE", "compare UPPER or LOWER of both sides"),
        ast::Expr::Convert { .. } => ("CONVERT", "write CAST(x AS type)"),
        ast::Expr::Wildcard(_) | ast::Expr::QualifiedWildcard(..) => ("* within an expression", "name the columns"),
        _ => ("this expression", "SHOW FUNCTIONS; lists the functions that are there"),
    };
    unsupported(feature, span, advice)
}
