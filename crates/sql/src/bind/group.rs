//! GROUP BY: keys, windows and aggregates.
//!
//! The select list and HAVING are bound over the input of the aggregation. Within them an aggregate function, or a
//! bound of a window, is a *marker*: a column beyond all columns of the input. [`Grouping::aggregate`] then makes the
//! aggregation and rewrites the expressions to its output: what equals a key becomes the key's column, a marker
//! becomes the aggregate's, and a column of the input that is left over is an error.

use super::expression::Binder;
use super::place::{error, span_of, type_name, unsupported};
use super::query::Relation;
use super::scope::{Attribute, Column, Scope, Windows};
use super::window::{self, GroupWindow};
use millstream_plan::aggregate::{AggregateCall, AggregateFunction};
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{Rel, Window};
use millstream_plan::window::WindowAssigner;
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// Markers begin here: the three bounds of the window, then the aggregates.
const MARK: usize = usize::MAX / 2;

/// What of a window a marker or a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// `window_start`, TUMBLE_START
    Start,
    /// `window_end`, TUMBLE_END
    End,
    /// `window_time`, TUMBLE_ROWTIME
    Time,
}

/// The aggregate functions of a query, each distinct one once.
#[derive(Debug, Default)]
pub(crate) struct AggregateList {
    calls: Vec<AggregateCall>,
    /// The window of `GROUP BY TUMBLE(…)`, for TUMBLE_START and its siblings.
    pub group_window: Option<GroupWindow>,
    /// Whether there is a group even without rows: then results can be NULL though no argument is.
    pub group_of_nothing: bool,
}

impl AggregateList {
    /// Whether there is no aggregate function.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds an aggregate and returns its marker.
    pub fn add(
        &mut self,
        function: AggregateFunction,
        argument: Option<Expr>,
        filter: Option<Expr>,
        span: Span,
    ) -> Result<Expr, Diagnostic> {
        let call = self.typed(function, argument, filter, span)?;
        let (data_type, nullable) = (call.data_type.clone(), call.nullable);
        let plain = without_places(&call);
        let index = self.calls.iter().position(|c| without_places(c) == plain).unwrap_or_else(|| {
            self.calls.push(call);
            self.calls.len() - 1
        });
        Ok(Expr::column(MARK + 3 + index, data_type, nullable).at(span))
    }

    fn typed(
        &self,
        function: AggregateFunction,
        argument: Option<Expr>,
        filter: Option<Expr>,
        span: Span,
    ) -> Result<AggregateCall, Diagnostic> {
        let Some(argument) = argument.filter(|a| function != AggregateFunction::Count || a.nullable) else {
            // COUNT of what is never NULL counts rows.
            let function = AggregateFunction::CountRows;
            return Ok(AggregateCall {
                function,
                arguments: vec![],
                parameters: vec![],
                distinct: false,
                filter,
                data_type: DataType::BigInt,
                nullable: false,
            });
        };
        let input = &argument.data_type;
        let sum_like = matches!(function, AggregateFunction::Sum | AggregateFunction::Avg);
        if sum_like && !input.is_numeric() {
            let message = format!("{} needs a number, not {input}", function.name());
            return Err(error(code::TYPE_MISMATCH, argument.span, message).advise("cast the argument to a number"));
        }
        if function != AggregateFunction::Count && (input.is_nested() || *input == DataType::Null) {
            let message = format!("{} cannot be applied to {}", function.name(), type_name(input));
            return Err(error(code::TYPE_MISMATCH, span, message).advise("aggregate a single field"));
        }
        let data_type = match (function, input) {
            (AggregateFunction::Count | AggregateFunction::CountRows, _) => DataType::BigInt,
            (AggregateFunction::Sum, DataType::Decimal { scale, .. }) => DataType::decimal(38, *scale),
            (AggregateFunction::Avg, DataType::Decimal { scale, .. }) => DataType::decimal(38, (*scale).max(6)),
            _ => input.clone(),
        };
        // A decimal result may not fit; the extremes of strings are kept as nullable values.
        let uncertain = match function {
            AggregateFunction::Sum | AggregateFunction::Avg => matches!(input, DataType::Decimal { .. }),
            _ => input.is_string() || input.is_binary(),
        };
        let nullable = data_type_can_be_missing(function)
            && (uncertain || argument.nullable || filter.is_some() || self.group_of_nothing);
        Ok(AggregateCall {
            function,
            arguments: vec![argument],
            parameters: vec![],
            distinct: false,
            filter,
            data_type,
            nullable,
        })
    }

    /// The marker of a bound of the window.
    pub fn bound(bound: Bound, time_type: &DataType, span: Span) -> Expr {
        let (index, data_type) = match bound {
            Bound::Start => (0, DataType::Timestamp(3)),
            Bound::End => (1, DataType::Timestamp(3)),
            Bound::Time => (2, time_type.clone()),
        };
        Expr::column(MARK + index, data_type, false).at(span)
    }
}

fn data_type_can_be_missing(function: AggregateFunction) -> bool {
    !matches!(function, AggregateFunction::Count | AggregateFunction::CountRows)
}

fn without_places(call: &AggregateCall) -> AggregateCall {
    AggregateCall {
        arguments: call.arguments.iter().cloned().map(unplaced).collect(),
        filter: call.filter.clone().map(unplaced),
        ..call.clone()
    }
}

/// The expression without its places in the text, to compare what it computes.
pub(crate) fn unplaced(expr: Expr) -> Expr {
    expr.rewrite(&mut |e| e.at(Span::default()))
}

/// What a key of GROUP BY becomes in the output of the aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key(usize),
    Window(Bound),
}

/// GROUP BY, bound over the input.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    /// Keys other than the bounds of the window, with names.
    keys: Vec<(Expr, String)>,
    /// What expressions over the output may refer to, without places.
    roles: Vec<(Expr, Role)>,
    /// The window and its event time over the input.
    window: Option<(Windows, Expr)>,
    /// Whether the window's bounds keep their meaning in the output, as those of a TUMBLE table function do.
    has_window_columns: bool,
    /// Whether there is a GROUP BY at all.
    pub explicit: bool,
}

impl Grouping {
    /// Binds GROUP BY. `aliases` are the names that the select list gives, for advice.
    pub fn bind(
        scope: &Scope,
        group_by: &ast::GroupByExpr,
        aliases: &[&str],
        aggregates: &mut AggregateList,
    ) -> Result<Grouping, Diagnostic> {
        let mut grouping = Grouping::default();
        let expressions = match group_by {
            ast::GroupByExpr::All(_) => {
                return Err(unsupported("GROUP BY ALL", span_of(group_by), "name the keys"));
            }
            ast::GroupByExpr::Expressions(expressions, modifiers) => {
                if !modifiers.is_empty() {
                    let advice = "write a query for each set of keys and UNION ALL them";
                    return Err(unsupported("GROUP BY … WITH ROLLUP / CUBE", span_of(group_by), advice));
                }
                expressions
            }
        };
        grouping.explicit = !expressions.is_empty();
        let mut bound = Vec::new();
        for expression in expressions {
            grouping.bind_key(scope, expression, aliases, aggregates, &mut bound)?;
        }
        grouping.assign_roles(scope, bound);
        Ok(grouping)
    }

    fn bind_key(
        &mut self,
        scope: &Scope,
        expression: &ast::Expr,
        aliases: &[&str],
        aggregates: &mut AggregateList,
        bound: &mut Vec<Expr>,
    ) -> Result<(), Diagnostic> {
        match expression {
            ast::Expr::Nested(inner) => return self.bind_key(scope, inner, aliases, aggregates, bound),
            ast::Expr::Tuple(parts) => {
                return parts.iter().try_for_each(|p| self.bind_key(scope, p, aliases, aggregates, bound));
            }
            ast::Expr::Value(v) if matches!(v.value, ast::Value::Number(..)) => {
                return Err(unsupported(
                    "GROUP BY the number of a column",
                    span_of(expression),
                    "repeat the expression",
                ));
            }
            ast::Expr::Function(function) => {
                if let Some(group_window) = window::group_window(scope, function)? {
                    if self.window.is_some() {
                        let message = "GROUP BY has more than one window";
                        return Err(
                            error(code::INVALID_WINDOW, span_of(expression), message).advise("keep one of them")
                        );
                    }
                    self.window = Some((group_window.windows.clone(), group_window.time.clone()));
                    aggregates.group_window = Some(group_window);
                    return Ok(());
                }
            }
            _ => {}
        }
        let key = Binder::scalar(scope, "GROUP BY").bind(expression).map_err(|e| match expression {
            ast::Expr::Identifier(name) if e.code == code::UNKNOWN_COLUMN && aliases.contains(&name.value.as_str()) => {
                e.advise("GROUP BY cannot use a name that SELECT gives with AS: repeat the expression")
            }
            _ => e,
        })?;
        if key.data_type.is_nested() {
            return Err(unsupported(
                &format!("GROUP BY a {}", type_name(&key.data_type)),
                key.span,
                "group by single fields",
            ));
        }
        if key.data_type == DataType::Null {
            let message = "NULL has no type to group by";
            return Err(error(code::TYPE_MISMATCH, key.span, message).advise("write CAST(NULL AS the type)"));
        }
        bound.push(key);
        Ok(())
    }

    /// Finds the window among the keys, and numbers the others.
    fn assign_roles(&mut self, scope: &Scope, bound: Vec<Expr>) {
        let attributes: Vec<Attribute> = bound.iter().map(|k| scope.attribute(k)).collect();
        let windows = attributes.iter().find_map(|a| match a {
            Attribute::WindowStart(w) if attributes.contains(&Attribute::WindowEnd(w.clone())) => Some(w.clone()),
            _ => None,
        });
        if let (Some(windows), None) = (&windows, &self.window) {
            self.window = Some((windows.clone(), window::time_of(scope, windows)));
            self.has_window_columns = true;
        }
        for (key, attribute) in bound.into_iter().zip(attributes) {
            let role = match attribute {
                Attribute::WindowStart(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::Start),
                Attribute::WindowEnd(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::End),
                Attribute::WindowTime(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::Time),
                _ => Role::Key(self.keys.len()),
            };
            let plain = unplaced(key.clone());
            if self.roles.iter().any(|(known, _)| *known == plain) {
                continue;
            }
            self.roles.push((plain, role));
            if role == Role::Key(self.keys.len()) {
                let name = key_name(scope, &key, self.keys.len());
                self.keys.push((key, name));
            }
        }
    }

    /// Whether there are neither keys nor a window: then there is one group, even of no rows.
    pub fn is_global(&self) -> bool {
        self.keys.is_empty() && self.window.is_none()
    }

    /// The aggregation over `input`, and `expressions` over its output.
    pub fn aggregate(
        self,
        input: Relation,
        list: AggregateList,
        expressions: Vec<Expr>,
        is_batch: bool,
        place: Span,
    ) -> Result<(Relation, Vec<Expr>), Diagnostic> {
        if self.window.is_none() && !is_batch {
            return Err(self.needs_window(&input, place));
        }
        let scope = Scope { columns: input.columns };
        let (keys, calls) = (self.keys.len(), list.calls.len());
        let output = |expr: Expr| self.over_output(expr, &scope, keys, calls);
        let expressions = expressions.into_iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let window = match &self.window {
            Some((windows, time)) => Window { assigner: windows.assigner, time: Some(time.clone()), start: None },
            None => Window { assigner: WindowAssigner::Whole, time: None, start: None },
        };
        let aggregates = list.calls.into_iter().enumerate().map(|(i, call)| (call, format!("aggregate{i}"))).collect();
        let rel = Rel::Aggregate { input: Box::new(input.rel), window, keys: self.keys, aggregates };
        let mut columns: Vec<Column> = rel.schema().fields.into_iter().map(Column::plain).collect();
        if let Some((windows, _)) = self.window {
            let first = keys + calls;
            columns[first + 2].attribute = Attribute::WindowTime(windows.clone());
            if self.has_window_columns {
                columns[first].attribute = Attribute::WindowStart(windows.clone());
                columns[first + 1].attribute = Attribute::WindowEnd(windows);
            }
        }
        Ok((Relation { rel, columns }, expressions))
    }

    /// Rewrites an expression over the input to one over the aggregation's output.
    fn over_output(&self, mut expr: Expr, scope: &Scope, keys: usize, calls: usize) -> Result<Expr, Diagnostic> {
        if let ExprKind::Column(i) = expr.kind
            && i >= MARK
        {
            let marker = i - MARK;
            let index = if marker < 3 { keys + calls + marker } else { keys + marker - 3 };
            return Ok(Expr { kind: ExprKind::Column(index), ..expr });
        }
        let plain = unplaced(expr.clone());
        if let Some((_, role)) = self.roles.iter().find(|(known, _)| *known == plain) {
            return Ok(match role {
                Role::Key(index) => Expr { kind: ExprKind::Column(*index), ..expr },
                Role::Window(bound) => {
                    let index = keys + calls + *bound as usize;
                    Expr { kind: ExprKind::Column(index), nullable: false, ..expr }
                }
            });
        }
        if let ExprKind::Column(i) = expr.kind {
            let name = &scope.columns[i].field.name;
            let message = format!("column `{name}` is neither in GROUP BY nor in an aggregate function");
            let advice = format!("add `{name}` to GROUP BY, or take MIN(`{name}`) or another aggregate of it");
            return Err(error(code::NOT_GROUPED, expr.span, message).advise(advice));
        }
        for child in expr.children_mut() {
            let taken = std::mem::replace(child, Expr::literal(Value::Null, DataType::Null));
            *child = self.over_output(taken, scope, keys, calls)?;
        }
        Ok(expr)
    }

    /// Why a grouping cannot run on a stream.
    fn needs_window(&self, input: &Relation, place: Span) -> Diagnostic {
        let attribute_of = |(key, _): &(Expr, Role)| match key.kind {
            ExprKind::Column(i) => input.columns[i].attribute.clone(),
            _ => Attribute::None,
        };
        let missing = self.roles.iter().map(attribute_of).find_map(|a| match a {
            Attribute::WindowStart(_) => Some("window_end"),
            Attribute::WindowEnd(_) => Some("window_start"),
            Attribute::WindowTime(_) => Some("window_start, window_end"),
            _ => None,
        });
        match missing {
            Some(missing) => error(
                code::INVALID_WINDOW,
                place,
                "the groups are not those of a window: both its start and its end are needed",
            )
            .advise(format!("add {missing} to GROUP BY")),
            None => error(code::NEEDS_UPDATES, place, "on a stream, groups without a window never end").advise(
                "use a window: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) … GROUP BY \
                 window_start, window_end; or SET 'execution.runtime-mode' = 'batch' for a bounded input",
            ),
        }
    }

    /// The grouping of SELECT DISTINCT: every column is a key.
    pub fn distinct(scope: &Scope) -> Grouping {
        let mut grouping = Grouping { explicit: true, ..Grouping::default() };
        let all = (0..scope.columns.len()).map(|i| scope.column(i, Span::default())).collect();
        grouping.assign_roles(scope, all);
        grouping
    }
}

fn key_name(scope: &Scope, key: &Expr, index: usize) -> String {
    match &key.kind {
        ExprKind::Column(i) => scope.columns[*i].field.name.clone(),
        ExprKind::Field(row, i) => match &row.data_type {
            DataType::Row(fields) => fields[*i].name.clone(),
            _ => format!("key{index}"),
        },
        _ => format!("key{index}"),
    }
}
