//! GROUP BY: keys, windows and aggregates.
//!
//! The select list and HAVING are bound over the input of the aggregation. Within them an aggregate function, a bound
//! of a window, or a GROUPING is a *marker*: a column beyond all columns of the input. [`Grouping::aggregate`] then
//! makes the aggregation and rewrites the expressions to its output: what equals a key becomes the key's column, a
//! marker becomes the aggregate's, and a column of the input that is left over is an error. Several grouping sets are
//! as many aggregations of the input, in whose expressions the keys that the set lacks are NULL.

use super::aggregate_list::{AggregateList, GroupWindow};
use super::expression::Binder;
use super::extent::Extent;
use super::group_keys::SelectedItems;
use super::group_window;
use super::grouping_sets::{KeySet, sets};
use super::markers::{Bound, GROUPING_MARK, MARK, OVER_MARK, VALUE_MARK};
use super::place::{error, span_of, type_name, unsupported};
use super::relation::{Relation, union_all};
use super::scope::{Attribute, Column, Scope, Windows};
use super::select_list::Selected;
use super::window;
use millstream_plan::aggregate::AggregateCall;
use millstream_plan::expr::{Expr, ExprKind, Span};
use millstream_plan::logical::{Rel, Window};
use millstream_plan::window::{Timeline, WindowAssigner};
use millstream_types::{DataType, Diagnostic, Value, code};
use sqlparser::ast;

/// What a key of GROUP BY becomes in the output of the aggregation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Key(usize),
    Window(Bound),
}

/// GROUP BY, bound over the input.
#[derive(Debug, Default)]
pub(crate) struct Grouping {
    /// The keys of all sets.
    keys: Vec<Expr>,
    /// The sets: which of the keys, and whether the window of GROUP BY is in it.
    sets: Vec<(Vec<usize>, bool)>,
    /// The window function of GROUP BY.
    group_window: Option<GroupWindow>,
    /// Whether there is a GROUP BY at all.
    pub explicit: bool,
    /// Whether it is GROUP BY ALL.
    is_all: bool,
}

/// One set of keys over the input.
#[derive(Debug, Default)]
struct KeyRoles {
    /// Keys other than the bounds of the window, with names.
    keys: Vec<(Expr, String)>,
    /// What expressions over the output may refer to, without places.
    roles: Vec<(Expr, Role)>,
    /// Keys of other sets, without places.
    absent: Vec<Expr>,
    /// The windows and the window of the aggregation.
    window: Option<(Windows, Window)>,
    /// Whether the window's bounds keep their meaning in the output, as those of a table function do.
    has_window_columns: bool,
    /// Whether they are those of GROUP BY ALL.
    is_all: bool,
}

impl Grouping {
    /// Binds GROUP BY, which may refer to items of the select list.
    pub fn bind(
        scope: &Scope,
        group_by: &ast::GroupByExpr,
        selected: SelectedItems<'_>,
    ) -> Result<Grouping, Diagnostic> {
        let explicit = !matches!(group_by, ast::GroupByExpr::Expressions(e, m) if e.is_empty() && m.is_empty());
        let is_all = matches!(group_by, ast::GroupByExpr::All(_));
        let mut grouping = Grouping { explicit, is_all, ..Grouping::default() };
        for set in sets(group_by)? {
            let mut set = grouping.bind_set(scope, set, selected)?;
            if is_all {
                for key in selected.all(scope)? {
                    grouping.add(checked(key)?, &mut set.0);
                }
            }
            grouping.sets.push(set);
        }
        Ok(grouping)
    }

    /// The window function of GROUP BY, for its auxiliary functions.
    pub fn group_window(&self) -> Option<&GroupWindow> {
        self.group_window.as_ref()
    }

    fn bind_set<'a>(
        &mut self,
        scope: &Scope,
        set: KeySet<'a>,
        selected: SelectedItems<'a>,
    ) -> Result<(Vec<usize>, bool), Diagnostic> {
        let (mut keys, mut has_window) = (Vec::new(), false);
        for element in set {
            let expression = match selected.key(scope, element)? {
                Selected::Written(expression) => expression,
                Selected::Column(column) => {
                    self.add(checked(column)?, &mut keys);
                    continue;
                }
            };
            if let ast::Expr::Function(function) = expression
                && let Some(window) = group_window::of_group_by(scope, function)?
            {
                if has_window || self.group_window.as_ref().is_some_and(|known| !known.is_same(&window)) {
                    let message = "GROUP BY has more than one window";
                    return Err(error(code::INVALID_WINDOW, span_of(expression), message).advise("keep one of them"));
                }
                self.group_window = Some(window);
                has_window = true;
                continue;
            }
            self.add(checked(Binder::scalar(scope, "GROUP BY").bind(expression)?)?, &mut keys);
        }
        Ok((keys, has_window))
    }

    /// Puts a key into a set.
    fn add(&mut self, key: Expr, set: &mut Vec<usize>) {
        let plain = key.clone().unplaced();
        let index = self.keys.iter().position(|k| k.clone().unplaced() == plain).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        });
        if !set.contains(&index) {
            set.push(index);
        }
    }

    /// The keys of all sets, over the input.
    pub fn keys(&self) -> &[Expr] {
        &self.keys
    }

    /// Whether some set has neither keys nor a window: then there is a group even of no rows.
    pub fn is_global(&self) -> bool {
        self.sets.iter().any(|(keys, has_window)| keys.is_empty() && !has_window)
    }

    /// The aggregation over `input`, and `expressions` over its output.
    pub fn aggregate(
        self,
        input: Relation,
        list: &AggregateList,
        expressions: Vec<Expr>,
        extent: Extent,
        place: Span,
    ) -> Result<(Relation, Vec<Expr>), Diagnostic> {
        let scope = Scope::of(input.columns.clone());
        for argument in list.groupings.iter().flatten() {
            if !self.keys.iter().any(|key| key.clone().unplaced() == *argument) {
                let message = "the arguments of GROUPING must be keys of GROUP BY";
                return Err(error(code::NOT_GROUPED, place, message).advise("repeat the keys as they are there"));
            }
        }
        if let [set] = self.sets.as_slice() {
            let roles = self.roles(&scope, set)?;
            return roles.aggregate(input, &scope, list, expressions, extent, place);
        }
        let late = |e: &Expr| match e.kind {
            ExprKind::Column(VALUE_MARK..) => Some("a subquery as a value"),
            ExprKind::Column(OVER_MARK..) => Some("OVER"),
            _ => None,
        };
        let mut branches = Vec::new();
        for set in &self.sets {
            let roles = self.roles(&scope, set)?;
            let (relation, outputs) =
                roles.aggregate(input.clone(), &scope, list, expressions.clone(), extent, place)?;
            for expr in &outputs {
                let mut found = None;
                expr.walk(&mut |e| found = found.or(late(e).map(|what| (what, e.span))));
                if let Some((what, span)) = found {
                    let advice = format!("select the grouping sets in a subquery, and {what} around it");
                    return Err(unsupported(&format!("{what} together with grouping sets"), span, &advice));
                }
            }
            let names = (0..).map(|i| format!("c{i}"));
            branches.push(relation.select(outputs.into_iter().zip(names)));
        }
        let union = union_all(branches, place)?;
        let after = Scope::of(union.columns.clone());
        let outputs = expressions.iter().enumerate().map(|(i, e)| after.column(i, e.span)).collect();
        Ok((union, outputs))
    }

    /// What the keys of a set mean: finds the window among them, and numbers the others.
    fn roles(&self, scope: &Scope, (set, has_window): &(Vec<usize>, bool)) -> Result<KeyRoles, Diagnostic> {
        let absent = (0..self.keys.len()).filter(|i| !set.contains(i)).map(|i| self.keys[i].clone().unplaced());
        let mut found = KeyRoles { absent: absent.collect(), is_all: self.is_all, ..KeyRoles::default() };
        let bound: Vec<(&Expr, Attribute)> =
            set.iter().map(|&i| (&self.keys[i], scope.attribute(&self.keys[i]))).collect();
        let has = |attribute: &Attribute| bound.iter().any(|(_, a)| a == attribute);
        let windows = bound.iter().find_map(|(_, a)| match a {
            Attribute::WindowStart(w) if has(&Attribute::WindowEnd(w.clone())) => Some(w.clone()),
            _ => None,
        });
        found.window = match (&self.group_window, &windows) {
            (Some(window), _) if *has_window => Some((window.windows.clone(), window.window())),
            (_, Some(windows)) => {
                found.has_window_columns = true;
                Some((windows.clone(), window::attached(scope, windows)))
            }
            _ => None,
        };
        let windows = windows.filter(|_| found.has_window_columns);
        if let Some(windows) = &windows {
            check_count_windows(windows, &bound)?;
        }
        for (key, attribute) in bound {
            let role = match attribute {
                Attribute::WindowStart(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::Start),
                Attribute::WindowEnd(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::End),
                Attribute::WindowTime(w) if windows.as_ref() == Some(&w) => Role::Window(Bound::Time),
                _ => Role::Key(found.keys.len()),
            };
            found.roles.push((key.clone().unplaced(), role));
            if role == Role::Key(found.keys.len()) {
                let name = key_name(scope, key, found.keys.len());
                found.keys.push((key.clone(), name));
            }
        }
        Ok(found)
    }

    /// The grouping of SELECT DISTINCT: every column is a key.
    pub fn distinct(scope: &Scope) -> Grouping {
        let keys: Vec<Expr> = (0..scope.columns.len()).map(|i| scope.column(i, Span::default())).collect();
        let sets = vec![((0..keys.len()).collect(), false)];
        Grouping { keys, sets, group_window: None, explicit: true, is_all: false }
    }
}

/// A key, if rows can be grouped by its type.
fn checked(key: Expr) -> Result<Expr, Diagnostic> {
    if key.data_type.is_nested() {
        let feature = format!("GROUP BY a {}", type_name(&key.data_type));
        return Err(unsupported(&feature, key.span, "group by single fields"));
    }
    if key.data_type == DataType::Null {
        let message = "NULL has no type to group by";
        return Err(error(code::TYPE_MISMATCH, key.span, message).advise("write CAST(NULL AS the type)"));
    }
    Ok(key)
}

/// Count windows belong to the keys of their PARTITION BY: two of one key may even have the same bounds, so rows can
/// only be grouped as they are counted.
fn check_count_windows(windows: &Windows, bound: &[(&Expr, Attribute)]) -> Result<(), Diagnostic> {
    if !windows.counts_rows() {
        return Ok(());
    }
    let is_bound = |a: &Attribute| matches!(a, Attribute::WindowStart(_) | Attribute::WindowEnd(_));
    let is_partition = |a: &Attribute| matches!(a, Attribute::WindowPartition(w, _) if w == windows);
    let advice = "PARTITION BY the columns of GROUP BY, and GROUP BY all of them";
    if let Some((key, _)) = bound.iter().find(|(_, a)| !is_bound(a) && !is_partition(a)) {
        let message = "rows of a count window can only be grouped by what it is partitioned by";
        return Err(error(code::INVALID_WINDOW, key.span, message).advise(advice));
    }
    let missing = (0..windows.partitions)
        .any(|i| !bound.iter().any(|(_, a)| *a == Attribute::WindowPartition(windows.clone(), i)));
    if missing {
        let place = bound.first().map_or(Span::default(), |(key, _)| key.span);
        let message = "rows of a count window must be grouped by all columns that it is partitioned by";
        return Err(error(code::INVALID_WINDOW, place, message).advise(advice));
    }
    Ok(())
}

impl KeyRoles {
    fn aggregate(
        self,
        input: Relation,
        scope: &Scope,
        list: &AggregateList,
        expressions: Vec<Expr>,
        extent: Extent,
        place: Span,
    ) -> Result<(Relation, Vec<Expr>), Diagnostic> {
        if self.window.is_none() && extent != Extent::Whole {
            self.check_window(scope, place)?;
        }
        if self.window.as_ref().is_some_and(|(windows, _)| windows.counts_rows()) && !are_counted(&input.rel) {
            let advice = "aggregate the table function itself: FILTER (WHERE …) of an aggregate leaves rows out";
            return Err(unsupported("GROUP BY of a count window over other rows than it counts", place, advice));
        }
        let output = |expr: Expr| self.over_output(expr, scope, list);
        let expressions = expressions.into_iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let (keys, calls) = (self.keys.len(), list.calls.len());
        let assigner = match extent {
            Extent::Whole | Extent::Shown => WindowAssigner::Whole,
            Extent::Streamed | Extent::Endless => WindowAssigner::Unbounded { ttl_ms: list.state_ttl_ms },
        };
        let whole = || Window { assigner, time: None, timeline: Timeline::Own, start: None };
        let window = self.window.as_ref().map_or_else(whole, |(_, window)| window.clone());
        let named = |(i, call): (usize, &AggregateCall)| (call.clone(), format!("aggregate{i}"));
        let aggregates = list.calls.iter().enumerate().map(named).collect();
        let rel = Rel::Aggregate { input: Box::new(input.rel), window, keys: self.keys, aggregates };
        let mut columns: Vec<Column> = rel.schema().fields.into_iter().map(Column::plain).collect();
        if let Some((windows, _)) = self.window
            && !windows.counts_rows()
        {
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
    fn over_output(&self, mut expr: Expr, scope: &Scope, list: &AggregateList) -> Result<Expr, Diagnostic> {
        let (keys, calls) = (self.keys.len(), list.calls.len());
        if let ExprKind::Column(i) = expr.kind
            && i >= MARK
        {
            let index = match i {
                OVER_MARK.. => return Ok(expr),
                GROUPING_MARK.. => {
                    let bits = self.grouping(&list.groupings[i - GROUPING_MARK]);
                    return Ok(Expr { kind: ExprKind::Literal(Value::Int(bits)), ..expr });
                }
                _ if i - MARK < 3 => keys + calls + i - MARK,
                _ => keys + i - MARK - 3,
            };
            return Ok(Expr { kind: ExprKind::Column(index), ..expr });
        }
        if let ExprKind::Column(i) = expr.kind
            && list.values.contains(&i)
        {
            return Ok(Expr { kind: ExprKind::Column(VALUE_MARK + i - list.values.start), ..expr });
        }
        let plain = expr.clone().unplaced();
        if let Some((_, role)) = self.roles.iter().find(|(known, _)| *known == plain) {
            return Ok(match role {
                Role::Key(index) => Expr { kind: ExprKind::Column(*index), ..expr },
                Role::Window(bound) => {
                    let index = keys + calls + *bound as usize;
                    Expr { kind: ExprKind::Column(index), nullable: false, ..expr }
                }
            });
        }
        if self.absent.contains(&plain) {
            return Ok(Expr::null(expr.data_type).at(expr.span));
        }
        if let ExprKind::Column(i) = expr.kind {
            let name = &scope.columns[i].field.name;
            let message = format!("column `{name}` is neither in GROUP BY nor in an aggregate function");
            let advice = match self.is_all {
                true => format!("select `{name}` as a column too, or take MIN(`{name}`) or another aggregate of it"),
                false => format!("add `{name}` to GROUP BY, or take MIN(`{name}`) or another aggregate of it"),
            };
            return Err(error(code::NOT_GROUPED, expr.span, message).advise(advice));
        }
        for child in expr.children_mut() {
            *child = self.over_output(child.take(), scope, list)?;
        }
        Ok(expr)
    }

    /// A bit for each key, the last one lowest: 1 where this set lacks it.
    fn grouping(&self, keys: &[Expr]) -> i64 {
        keys.iter().fold(0, |bits, key| bits << 1 | i64::from(self.absent.contains(key)))
    }

    /// Checks that a grouping without a window does not mean one: half of a window's bounds are a slip.
    fn check_window(&self, scope: &Scope, place: Span) -> Result<(), Diagnostic> {
        let missing = self.roles.iter().find_map(|(key, _)| match scope.attribute(key) {
            Attribute::WindowStart(_) => Some("window_end"),
            Attribute::WindowEnd(_) => Some("window_start"),
            Attribute::WindowTime(_) => Some("window_start, window_end"),
            _ => None,
        });
        let Some(missing) = missing else { return Ok(()) };
        let message = "the groups are not those of a window: both its start and its end are needed";
        Err(error(code::INVALID_WINDOW, place, message).advise(match self.is_all {
            true => format!("select {missing} too: GROUP BY ALL groups by what is selected"),
            false => format!("add {missing} to GROUP BY"),
        }))
    }
}

/// Whether these are all rows of a window table function.
fn are_counted(rel: &Rel) -> bool {
    match rel {
        Rel::Project { input, .. } => are_counted(input),
        Rel::Windowed { .. } => true,
        Rel::Common(common) => are_counted(common.rel()),
        _ => false,
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
