//! Cuts logical plans at pipeline breakers.
//!
//! Each relation becomes one or more *branches*: an input (source or trigger), filters, and columns as expressions
//! over that input. Projections are inlined into the expressions above them, so a pipeline has no intermediate rows
//! and reads only the columns that something uses; an expression that would grow beyond `INLINE_NODES` is kept as
//! a projection of its own. `UNION ALL` is several branches; an aggregation ends its input's branches and begins one.

use crate::aggregate::Components;
use crate::expr::{Expr, ExprKind};
use crate::logical::{ColumnKind, Insert, Rel, Table, Target, Window};
use crate::pipeline::*;
use millstream_types::{DataType, Diagnostic, Field, Schema, Value, code};
use std::sync::Arc;

/// Nodes of an expression beyond which a projection is computed once instead of inlined again.
const INLINE_NODES: usize = 500;

/// Stands for the appended event-time column of a source until the number of its columns is known.
const TIME_COLUMN: usize = usize::MAX;

/// Plans one run: every insert reads the sources that it shares with the others once.
pub fn plan(inserts: &[Insert]) -> Result<QueryPlan, Diagnostic> {
    let mut planner = Planner::default();
    for insert in inserts {
        planner.insert(insert)?;
    }
    planner.finish()
}

#[derive(Default)]
struct Planner {
    sources: Vec<SourceBuilder>,
    aggregations: Vec<Aggregation>,
    /// Aggregations by what they compute, so that two queries over one view share its state.
    planned: Vec<(Rel, usize)>,
    /// Expressions of pipelines that start at a source still refer to the table's columns.
    pipelines: Vec<Pipeline>,
    sinks: Vec<SinkPlan>,
}

/// A source while the columns that it must deliver are being collected.
struct SourceBuilder {
    scan: ScanKind,
    schema: Schema,
    paths: Vec<Vec<usize>>,
    /// Whether a window depends on the event time.
    needs_time: bool,
}

/// A chain that has not ended yet.
struct Branch {
    input: PipelineInput,
    operators: Vec<Operator>,
    /// Output columns over the columns after `operators`.
    columns: Vec<Expr>,
}

impl Branch {
    fn filter(&mut self, predicate: &Expr) {
        self.settle();
        let mut conjuncts = Vec::new();
        split_conjuncts(predicate.clone().substitute(&self.columns), &mut conjuncts);
        self.operators.extend(conjuncts.into_iter().map(Operator::Filter));
    }

    fn project<'a>(&mut self, columns: impl Iterator<Item = &'a Expr>) {
        self.settle();
        self.columns = columns.map(|e| e.clone().substitute(&self.columns)).collect();
    }

    /// Keeps the columns as a projection of their own when inlining them would copy too much, or would call RAND() once
    /// for every use instead of once a row.
    fn settle(&mut self) {
        if self.columns.iter().any(|e| size(e) > INLINE_NODES || !is_deterministic(e)) {
            let inner = std::mem::take(&mut self.columns);
            self.columns =
                inner.iter().enumerate().map(|(i, e)| Expr::column(i, e.data_type.clone(), e.nullable)).collect();
            self.operators.push(Operator::Project(inner));
        }
    }
}

fn is_deterministic(expr: &Expr) -> bool {
    let mut deterministic = true;
    expr.walk(&mut |e| {
        deterministic &= match &e.kind {
            ExprKind::Call(f, _) => f.is_deterministic(),
            ExprKind::ProcessingTime => false,
            _ => true,
        }
    });
    deterministic
}

fn size(expr: &Expr) -> usize {
    let mut nodes = 0;
    expr.walk(&mut |_| nodes += 1);
    nodes
}

fn split_conjuncts(expr: Expr, into: &mut Vec<Expr>) {
    match expr.kind {
        ExprKind::And(operands) => operands.into_iter().for_each(|e| split_conjuncts(e, into)),
        ExprKind::Literal(Value::Boolean(true)) => {}
        _ => into.push(expr),
    }
}

impl Planner {
    fn insert(&mut self, insert: &Insert) -> Result<(), Diagnostic> {
        let (query, limit) = match &insert.query {
            Rel::Limit { input, count } => (&**input, Some(*count)),
            other => (other, None),
        };
        let (table, schema) = match &insert.target {
            Target::Table(table) => {
                let fields = table.writable().into_iter().map(|i| table.columns[i].field.clone()).collect();
                (Some(table.clone()), Schema::new(fields))
            }
            Target::Result => (None, query.schema()),
        };
        let sink = self.sinks.len();
        self.sinks.push(SinkPlan { table, schema, limit });
        for branch in self.branches(query)? {
            self.end(branch, |columns| (Some(columns), PipelineEnd::Sink(sink)));
        }
        Ok(())
    }

    /// Ends a branch; `end` gives the last projection, if one is needed, and the end.
    fn end(&mut self, branch: Branch, end: impl FnOnce(Vec<Expr>) -> (Option<Vec<Expr>>, PipelineEnd)) {
        let Branch { input, mut operators, columns } = branch;
        let (projection, end) = end(columns);
        operators.extend(projection.map(Operator::Project));
        self.pipelines.push(Pipeline { input, schema: Schema::default(), operators, end });
    }

    fn branches(&mut self, rel: &Rel) -> Result<Vec<Branch>, Diagnostic> {
        match rel {
            Rel::Scan { table, .. } => Ok(vec![self.scan(table)]),
            Rel::Values { schema, rows } => {
                let scan = ScanKind::Values(rows.clone());
                let source = self.source(scan, schema.clone());
                Ok(vec![Branch {
                    input: PipelineInput::Source(source),
                    operators: vec![],
                    columns: columns_of(schema),
                }])
            }
            Rel::Filter { input, predicate } => {
                let mut branches = self.branches(input)?;
                branches.iter_mut().for_each(|b| b.filter(predicate));
                Ok(branches)
            }
            Rel::Project { input, columns } => {
                let mut branches = self.branches(input)?;
                branches.iter_mut().for_each(|b| b.project(columns.iter().map(|(e, _)| e)));
                Ok(branches)
            }
            Rel::Union { inputs } => {
                let mut branches = Vec::new();
                for input in inputs {
                    branches.extend(self.branches(input)?);
                }
                Ok(branches)
            }
            Rel::Aggregate { .. } => self.aggregate(rel),
            Rel::Windowed { .. } | Rel::Join { .. } | Rel::Rank { .. } | Rel::Over { .. } | Rel::Unnest { .. } => {
                Err(Diagnostic::new(code::UNSUPPORTED, "this operator is not supported yet"))
            }
            Rel::Limit { .. } => Err(Diagnostic::new(code::UNSUPPORTED, "LIMIT within a subquery is not supported")
                .advise("put LIMIT at the end of the whole SELECT")),
        }
    }

    fn source(&mut self, scan: ScanKind, schema: Schema) -> usize {
        let shared = |s: &SourceBuilder| matches!(s.scan, ScanKind::Table(_)) && s.scan == scan;
        if let Some(index) = self.sources.iter().position(shared) {
            return index;
        }
        self.sources.push(SourceBuilder { scan, schema, paths: vec![], needs_time: false });
        self.sources.len() - 1
    }

    /// Computed columns are inlined here, except the event time of a computed column: a table's time is computed once
    /// for the watermark, so pipelines take it from there (see [`TIME_COLUMN`]).
    fn scan(&mut self, table: &Arc<Table>) -> Branch {
        let source = self.source(ScanKind::Table(table.clone()), table.schema());
        let columns = expand_computed(table);
        Branch { input: PipelineInput::Source(source), operators: vec![], columns }
    }

    fn aggregate(&mut self, rel: &Rel) -> Result<Vec<Branch>, Diagnostic> {
        let Rel::Aggregate { input, window, keys, aggregates } = rel else {
            return Err(Diagnostic::bug("not an aggregation"));
        };
        let mut components = Components::default();
        let results: Vec<Expr> = aggregates.iter().map(|(call, _)| components.decompose(call, keys.len())).collect();
        let aggregation = match self.planned.iter().find(|(known, _)| known == rel) {
            Some(&(_, index)) => index,
            None => self.new_aggregation(rel, input, window, keys, &components)?,
        };
        let mut columns: Vec<Expr> =
            keys.iter().enumerate().map(|(i, (e, _))| Expr::column(i, e.data_type.clone(), e.nullable)).collect();
        columns.extend(results);
        if let Some(time) = &window.time {
            let first = keys.len() + components.outputs.len();
            columns.extend(window_columns(first, &time.data_type));
        }
        Ok(vec![Branch { input: PipelineInput::Aggregation(aggregation), operators: vec![], columns }])
    }

    fn new_aggregation(
        &mut self,
        rel: &Rel,
        input: &Rel,
        window: &Window,
        keys: &[(Expr, String)],
        components: &Components,
    ) -> Result<usize, Diagnostic> {
        if keys.len() > millstream_abi::EntryLayout::MAX_KEYS {
            return Err(Diagnostic::new(code::UNSUPPORTED, "more than 64 grouping columns")
                .advise("combine some of them into one key, for instance with CONCAT_WS"));
        }
        let branches = self.branches(input)?;
        let aggregation = self.aggregations.len();
        self.aggregations.push(Aggregation {
            assigner: window.assigner,
            keys: keys.iter().map(|(e, n)| Field::new(n, e.data_type.clone(), e.nullable)).collect(),
            components: components.list.iter().map(|c| c.0).collect(),
            outputs: components.outputs.clone(),
            combination: Combination::Recompute,
        });
        self.planned.push((rel.clone(), aggregation));
        for mut branch in branches {
            branch.settle();
            if let (PipelineInput::Source(source), Some(_)) = (branch.input, &window.time) {
                self.sources[source].needs_time = true;
            }
            self.end(branch, |columns| {
                let over = |e: &Expr| e.clone().substitute(&columns);
                let update = |u: &ComponentUpdate| ComponentUpdate {
                    argument: u.argument.as_ref().map(over),
                    guard: u.guard.as_ref().map(over),
                };
                let end = PipelineEnd::Aggregate {
                    aggregation,
                    time: window.time.as_ref().map(over),
                    keys: keys.iter().map(|(e, _)| over(e)).collect(),
                    updates: components.list.iter().map(|c| update(&c.1)).collect(),
                };
                (None, end)
            });
        }
        Ok(aggregation)
    }

    /// Numbers the columns of each source by what the pipelines use.
    fn finish(mut self) -> Result<QueryPlan, Diagnostic> {
        let mut pipelines = std::mem::take(&mut self.pipelines);
        let mut watermarks: Vec<Option<SourceWatermark>> = Vec::new();
        for source in &mut self.sources {
            watermarks.push(source.watermark()?);
        }
        for pipeline in &mut pipelines {
            if let PipelineInput::Source(index) = pipeline.input {
                let source = &mut self.sources[index];
                let time = watermarks[index].as_ref().and_then(|_| source.computed_time());
                pipeline.rewrite_input(&mut |e| source.narrow(e, time.as_ref()));
            }
        }
        for (source, watermark) in self.sources.iter_mut().zip(&mut watermarks) {
            if let Some(watermark) = watermark {
                watermark.time = source.narrow_all(watermark.time.clone());
                if let WatermarkRule::Expression(e) = &mut watermark.rule {
                    *e = source.narrow_all(e.clone());
                }
            }
        }
        let mut sources = Vec::new();
        for (source, watermark) in self.sources.into_iter().zip(watermarks) {
            sources.push(source.finish(watermark)?);
        }
        for pipeline in &mut pipelines {
            pipeline.schema = match pipeline.input {
                PipelineInput::Source(i) => sources[i].output_schema(),
                PipelineInput::Aggregation(i) => self.aggregations[i].output_schema(),
                PipelineInput::Operator(_) => return Err(Diagnostic::bug("operators are not planned yet")),
            };
            let time_column = pipeline.schema.fields.len().wrapping_sub(1);
            pipeline.rewrite_input(&mut |e| {
                e.rewrite(&mut |mut e| {
                    if e.kind == ExprKind::Column(TIME_COLUMN) {
                        e.kind = ExprKind::Column(time_column);
                    }
                    e
                })
            });
        }
        Ok(QueryPlan {
            sources,
            aggregations: self.aggregations,
            operators: vec![],
            lookups: vec![],
            pipelines,
            sinks: self.sinks,
        })
    }
}

fn columns_of(schema: &Schema) -> Vec<Expr> {
    let fields = schema.fields.iter().enumerate();
    fields.map(|(i, f)| Expr::column(i, f.data_type.clone(), f.nullable)).collect()
}

/// Every column of a table over its physical and metadata columns.
fn expand_computed(table: &Table) -> Vec<Expr> {
    let physical = columns_of(&table.schema());
    let expand = |(i, column): (usize, &crate::logical::TableColumn)| match &column.kind {
        ColumnKind::Computed(expression) => expression.clone().substitute(&physical),
        _ => physical[i].clone(),
    };
    table.columns.iter().enumerate().map(expand).collect()
}

/// `window_start`, `window_end` and `window_time` over a trigger's output, whose two window columns begin at `first`.
fn window_columns(first: usize, time_type: &DataType) -> [Expr; 3] {
    // The trigger writes instants; for TIMESTAMP_LTZ windows the two bounds are shown in local time, as in Flink.
    let bound = |i: usize| Expr::column(i, time_type.clone(), false).cast_to(DataType::Timestamp(3));
    let last = Expr::literal(Value::Int(-1), DataType::IntervalMilli);
    let end = Expr::column(first + 1, time_type.clone(), false);
    let time = Expr::new(ExprKind::AddInterval(Box::new(end), Box::new(last)), time_type.clone(), false);
    [bound(first), bound(first + 1), time]
}

impl SourceBuilder {
    fn table(&self) -> Option<&Arc<Table>> {
        match &self.scan {
            ScanKind::Table(table) => Some(table),
            ScanKind::Values(_) => None,
        }
    }

    /// The event time over the table's physical columns, when it has to be computed: then it is appended to the source's
    /// columns. A computed column that only names a field of a row is decoded like any other.
    fn computed_time(&self) -> Option<Expr> {
        let table = self.table()?;
        let watermark = table.watermark.as_ref()?;
        let column = &table.columns[watermark.column];
        match &column.kind {
            ColumnKind::Computed(_) => Some(expand_computed(table).swap_remove(watermark.column)),
            _ => None,
        }
        .filter(|time| self.path_of(time).is_none())
    }

    /// The watermark over the table's physical columns, if a window needs it.
    fn watermark(&mut self) -> Result<Option<SourceWatermark>, Diagnostic> {
        let Some(table) = self.table().filter(|_| self.needs_time).cloned() else { return Ok(None) };
        let Some(watermark) = &table.watermark else { return Ok(None) };
        let columns = expand_computed(&table);
        let time = columns[watermark.column].clone();
        let rule = match delay_of(&watermark.expression, watermark.column) {
            Some(delay_ms) => WatermarkRule::Delay(delay_ms),
            None => WatermarkRule::Expression(watermark.expression.clone().substitute(&columns)),
        };
        let idle = table.options.duration("scan.watermark.idle-timeout", std::time::Duration::ZERO)?;
        let idle_timeout_ms = (!idle.is_zero()).then_some(idle.as_millis() as u64);
        Ok(Some(SourceWatermark { time, rule, idle_timeout_ms }))
    }

    /// Replaces the computed event time by the appended column and the rest as [`SourceBuilder::narrow_all`] does.
    fn narrow(&mut self, expr: Expr, time: Option<&Expr>) -> Expr {
        if time.is_some_and(|t| same_computation(t, &expr)) {
            return Expr { kind: ExprKind::Column(TIME_COLUMN), ..expr };
        }
        match self.path_of(&expr) {
            Some(path) => self.leaf(path, &expr),
            None => self.narrow_children(expr, time),
        }
    }

    /// Replaces columns of the table and fields of its rows by the source's columns.
    fn narrow_all(&mut self, expr: Expr) -> Expr {
        self.narrow(expr, None)
    }

    fn narrow_children(&mut self, mut expr: Expr, time: Option<&Expr>) -> Expr {
        for child in expr.children_mut() {
            let taken = std::mem::replace(child, Expr::boolean(false));
            *child = self.narrow(taken, time);
        }
        expr
    }

    fn path_of(&self, expr: &Expr) -> Option<Vec<usize>> {
        match &expr.kind {
            ExprKind::Column(i) => Some(vec![*i]),
            ExprKind::Field(row, i) => {
                let mut path = self.path_of(row)?;
                path.push(*i);
                Some(path)
            }
            _ => None,
        }
    }

    fn leaf(&mut self, path: Vec<usize>, expr: &Expr) -> Expr {
        let index = self.paths.iter().position(|p| *p == path).unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        Expr { kind: ExprKind::Column(index), ..expr.clone() }
    }

    fn finish(self, watermark: Option<SourceWatermark>) -> Result<SourcePlan, Diagnostic> {
        let mut columns = Vec::new();
        for path in &self.paths {
            columns.push(self.column(path)?);
        }
        let scan = match self.scan {
            // Constant rows keep only the columns that are used.
            ScanKind::Values(rows) => ScanKind::Values(
                rows.into_iter().map(|row| self.paths.iter().map(|p| row[p[0]].clone()).collect()).collect(),
            ),
            table => table,
        };
        Ok(SourcePlan { scan, columns, watermark, phase: 0 })
    }

    fn column(&self, path: &[usize]) -> Result<SourceColumn, Diagnostic> {
        let mut field = &self.schema.fields[path[0]];
        let (mut name, mut nullable) = (field.name.clone(), field.nullable);
        for &step in &path[1..] {
            let DataType::Row(fields) = &field.data_type else {
                return Err(Diagnostic::bug(format!("{name} is not a ROW")));
            };
            field = &fields[step];
            name = format!("{name}.{}", field.name);
            nullable |= field.nullable;
        }
        let metadata = self.table().and_then(|t| match &t.columns[path[0]].kind {
            ColumnKind::Metadata { key, .. } => Some(key.clone()),
            _ => None,
        });
        let origin = match metadata {
            Some(key) => ColumnOrigin::Metadata(key),
            None => ColumnOrigin::Path(path.to_vec()),
        };
        Ok(SourceColumn { name, origin, data_type: field.data_type.clone(), nullable })
    }
}

/// `column - INTERVAL` or `column`: the delay in milliseconds.
fn delay_of(expression: &Expr, column: usize) -> Option<i64> {
    match &expression.kind {
        ExprKind::Column(i) if *i == column => Some(0),
        ExprKind::AddInterval(time, interval) if time.kind == ExprKind::Column(column) => {
            constant_interval(interval).map(|ms| -ms)
        }
        ExprKind::Cast { operand, .. } if operand.data_type.is_timestamp() => {
            let same_kind = std::mem::discriminant(&operand.data_type) == std::mem::discriminant(&expression.data_type);
            if same_kind { delay_of(operand, column) } else { None }
        }
        _ => None,
    }
}

fn constant_interval(expr: &Expr) -> Option<i64> {
    match (&expr.kind, &expr.data_type) {
        (ExprKind::Literal(Value::Int(ms)), DataType::IntervalMilli) => Some(*ms),
        (ExprKind::Negate(inner), DataType::IntervalMilli) => constant_interval(inner).map(|ms| -ms),
        _ => None,
    }
}

/// Whether two expressions compute the same, wherever they stand in the text.
fn same_computation(a: &Expr, b: &Expr) -> bool {
    let (mut x, mut y) = (a.clone(), b.clone());
    x = x.rewrite(&mut |e| e.at(Default::default()));
    y = y.rewrite(&mut |e| e.at(Default::default()));
    x == y
}

impl SourcePlan {
    /// Columns of the source's buffers: `columns`, and the event time when it is computed.
    pub fn output_schema(&self) -> Schema {
        let mut fields: Vec<Field> =
            self.columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable)).collect();
        if let Some(time) = self.watermark.as_ref().map(|w| &w.time).filter(|t| !matches!(t.kind, ExprKind::Column(_)))
        {
            fields.push(Field::new("event time", time.data_type.clone(), time.nullable));
        }
        Schema::new(fields)
    }
}

impl Pipeline {
    /// Rewrites every expression that refers to the input's columns: all up to and including the first projection.
    fn rewrite_input(&mut self, change: &mut dyn FnMut(Expr) -> Expr) {
        let mut apply = |e: &mut Expr| *e = change(std::mem::replace(e, Expr::boolean(false)));
        for operator in &mut self.operators {
            match operator {
                Operator::Filter(predicate) => apply(predicate),
                Operator::Project(columns) => {
                    columns.iter_mut().for_each(apply);
                    return;
                }
                Operator::FlatMap(_) => return,
            }
        }
        if let PipelineEnd::Aggregate { time, keys, updates, .. } = &mut self.end {
            time.iter_mut().for_each(&mut apply);
            keys.iter_mut().for_each(&mut apply);
            for update in updates {
                update.argument.iter_mut().for_each(&mut apply);
                update.guard.iter_mut().for_each(&mut apply);
            }
        }
    }
}
