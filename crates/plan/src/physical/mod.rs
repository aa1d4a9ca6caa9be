//! Cuts logical plans at pipeline breakers.
//!
//! Each relation becomes one or more *branches*: an input (source, trigger or keyed operator), operators, and columns as
//! expressions over what these deliver. Projections are inlined into the expressions above them, so a pipeline has no
//! intermediate rows and reads only the columns that something uses; an expression that would grow beyond
//! `INLINE_NODES` is kept as a separate projection. `UNION ALL` is several branches; an aggregation or a keyed operator
//! ends its inputs' branches and begins one.
//!
//! | relation | becomes |
//! | --- | --- |
//! | windowed aggregation | an [`Aggregation`] over shared slices; sessions and count windows a [`KeyedOperator`] |
//! | groups of all rows so far | a [`KeyedOperator`], and one for the values of each distinct aggregate (`second_level`) |
//! | HOP, CUMULATE | a flat map, unless an aggregation above takes the windows over |
//! | lookup join | a [`LookupTable`] and a flat map |
//! | join of aggregations by the same keys and windows that end together | one aggregation (`group_join`) |
//! | ranks of all rows so far, regular joins that change | a [`KeyedOperator`] that puts out what has changed |
//! | window join of rows with their own maximum | a ranking (`own_extreme`) |
//! | other joins, ranks, OVER | a [`KeyedOperator`] |
//! | ORDER BY, LIMIT in a subquery | a [`Sort`] |
//! | UNNEST | a flat map |

mod above;
mod aggregate;
mod branch;
mod copartition;
mod distribute;
mod expressions;
mod fan_out;
mod group_join;
mod in_window;
mod join;
mod keyed;
mod late_rows;
mod local_time;
mod own_extreme;
mod payload;
mod prune;
mod rules;
mod second_level;
mod source;

use crate::beat::BeatClock;
use crate::changes::{Changing, changing};
use crate::common::{Changed, Common};
use crate::expr::{Expr, ExprKind};
use crate::logical::{Insert, Rel, Table, Target};
use crate::pipeline::*;
use crate::window::{Timeline, WindowAssigner};
use branch::Branch;
use copartition::share_partitions;
pub use distribute::{Distribution, Exchange, distribute};
use expressions::{columns_of, expand_computed, meaning};
use fan_out::Path;
use millstream_types::text::zone::Zone;
use millstream_types::{DataType, Diagnostic, Schema, code};
use payload::Payload;
pub use rules::Rules;
use source::{Clock, SourceBuilder, TIME_COLUMN};
use std::collections::HashMap;
use std::sync::Arc;

/// Branches that the places which name common relations may have of them.
const MAX_COPIES: usize = 20_000;

/// Plans one run: every insert reads the sources that it shares with the others once. Windows over TIMESTAMP_LTZ are of local
/// time in `zone`; where results change, sources have the event time that `beat` may need.
/// Groups and rankings of all rows are kept for `ttl_ms` of processing time.
pub fn plan(
    inserts: &[Insert],
    zone: Zone,
    beat: BeatClock,
    ttl_ms: Option<u64>,
    rules: Rules,
) -> Result<QueryPlan, Diagnostic> {
    let mut planner = Planner { beat, ttl_ms, rules, ..Planner::default() };
    for insert in inserts {
        planner.insert(insert, zone)?;
    }
    planner.finish(zone)
}

/// What a sink is told of the changes of a query: its rows are told apart by the primary key of its table, or, without a table, by
/// what does so in the query.
fn sink_changes(changing: &Changing, table: Option<&Table>) -> SinkChanges {
    let of_table = table.map(Table::written_key).filter(|key| !key.is_empty());
    let key = match of_table {
        Some(key) => Some(key).filter(|key| changing.is_unique(key)),
        None => changing.key().map(<[usize]>::to_vec),
    };
    SinkChanges { key }
}

/// A common relation with its branches.
struct Planned {
    /// Kept, so that its place stays its own.
    _common: Arc<Common>,
    branches: Vec<Branch>,
}

#[derive(Default)]
struct Planner {
    beat: BeatClock,
    ttl_ms: Option<u64>,
    rules: Rules,
    sources: Vec<SourceBuilder>,
    aggregations: Vec<Aggregation>,
    operators: Vec<KeyedOperator>,
    sorts: Vec<Sort>,
    lookups: Vec<LookupTable>,
    /// Relations that have state, with the branch that begins at it, so that two that are equal share it: by their [`meaning`], as far as
    /// they have one. Only those of the same depth are the same.
    planned: Vec<(Rel, usize, Branch)>,
    /// Expressions of pipelines that start at a source still refer to the table's columns.
    pipelines: Vec<Pipeline>,
    sinks: Vec<SinkPlan>,
    /// Tables of late rows and their sinks.
    late_sinks: Vec<(Arc<Table>, usize)>,
    /// Lookup tables: the relation, its keys, the depth of what looks them up, the number.
    looked_up: Vec<(Rel, Vec<Expr>, usize, usize)>,
    /// How many lookup tables are being planned around the present relation.
    depth: usize,
    /// Common relations that are planned, by their place and depth.
    common: HashMap<(*const Common, usize), Planned>,
    /// Branches that places have of common relations.
    copies: usize,
}

impl Planner {
    fn insert(&mut self, insert: &Insert, zone: Zone) -> Result<(), Diagnostic> {
        let (query, skip, limit) = match &insert.query {
            Rel::Limit { input, offset, count } => (&**input, *offset, *count),
            other => (other, 0, None),
        };
        let (table, schema) = match &insert.target {
            Target::Table(table) => (Some(table.clone()), table.written()),
            Target::Result => (None, query.schema()),
        };
        let mut query = query.clone();
        local_time::to_local_time(&mut query, zone);
        if self.rules >= Rules::Equals {
            own_extreme::to_rankings(&mut query, &mut Changed::default());
        }
        let needed = vec![true; query.schema().fields.len()];
        let query = prune::prune(query, &needed);
        let sink = self.sinks.len();
        let changing = changing(&query);
        let changes = changing.as_ref().map(|changing| sink_changes(changing, table.as_deref()));
        self.sinks.push(SinkPlan { table, schema, changes: changes.clone(), skip, limit, is_on_every_node: false });
        let branches = match changes {
            Some(changes) => vec![self.net_changes(&query, &changes)?],
            None => self.branches(&query)?,
        };
        for branch in branches {
            self.end(branch, |columns| (Some(columns), PipelineEnd::Sink(sink)));
        }
        Ok(())
    }

    /// The branch of the net changes of each beat: the columns of a query, then the kind of change.
    fn net_changes(&mut self, query: &Rel, changes: &SinkChanges) -> Result<Branch, Diagnostic> {
        let schema = query.schema();
        let columns = columns_of(&schema);
        // Rows without a key are told apart by all that can be hashed.
        let keys: Vec<Expr> = match &changes.key {
            Some(key) => key.iter().map(|&column| columns[column].clone()).collect(),
            None => columns.iter().filter(|column| !column.data_type.is_nested()).cloned().collect(),
        };
        let keys = &keys[..keys.len().min(millstream_abi::EntryLayout::MAX_KEYS)];
        let payload = Payload::of_row(columns.clone(), keys, schema.fields.len());
        let kind = KeyedKind::Changes(Changes { is_keyed: changes.key.is_some() });
        let mut shown = columns;
        shown.push(Expr::column(schema.fields.len(), DataType::TinyInt, false));
        self.keyed(query, kind, Timeline::Own, &payload, payload.key_fields(), shown)
    }

    /// Ends a branch; `end` gives the last projection, if one is needed, and the end.
    fn end(&mut self, branch: Branch, end: impl FnOnce(Vec<Expr>) -> (Option<Vec<Expr>>, PipelineEnd)) {
        let Branch { input, mut operators, columns, weight: _ } = branch;
        let (projection, end) = end(columns);
        operators.extend(projection.map(Operator::Project));
        self.pipelines.push(Pipeline { input, schema: Schema::default(), operators, end });
    }

    #[recursive::recursive]
    fn branches(&mut self, rel: &Rel) -> Result<Vec<Branch>, Diagnostic> {
        match rel {
            Rel::Scan { table, late } => Ok(vec![self.scan(table, late.as_ref())]),
            Rel::Values { schema, rows } => {
                let scan = ScanKind::Values(rows.clone());
                let source = self.source(scan, schema.clone(), Clock::Event);
                Ok(vec![Branch::new(PipelineInput::Source(source), columns_of(schema))])
            }
            Rel::Filter { input, predicate } => self.each_branch(input, |b| b.filter(predicate)),
            Rel::Project { input, columns } => self.each_branch(input, |b| b.project(columns.iter().map(|(e, _)| e))),
            Rel::Union { inputs } => self.union(inputs),
            Rel::Common(common) => self.common(common),
            Rel::Unnest { input, collection, outer, ordinality, columns } => self.each_branch(input, |b| {
                b.flat_map(columns.clone(), |over| {
                    let (collection, columns) = (over(collection), columns.clone());
                    FlatMap::Unnest(Unnest { collection, outer: *outer, ordinality: *ordinality, columns })
                });
            }),
            Rel::Windowed { input, assigner: WindowAssigner::Overlap(windows), time, .. } => {
                let mut branches = self.branches(input)?;
                for branch in &mut branches {
                    self.choose_clock(branch, time);
                    branch.windows(*windows, time);
                }
                Ok(branches)
            }
            Rel::Windowed { .. } => self.keyed_once(rel, Planner::windowed_rows),
            Rel::Aggregate { .. } => self.keyed_once(rel, Planner::aggregate),
            Rel::Rank { .. } => self.keyed_once(rel, Planner::rank),
            Rel::Over { .. } => self.keyed_once(rel, Planner::over),
            Rel::Join { strategy: crate::logical::JoinStrategy::Lookup, .. } => self.lookup_join(rel),
            Rel::Join { .. } => match self.one_of_join(rel) {
                Some(one) => self.branches(&one),
                None => self.keyed_once(rel, Planner::join),
            },
            Rel::Sort { .. } => self.keyed_once(rel, Planner::sort),
            Rel::Limit { .. } => Err(Diagnostic::new(code::UNSUPPORTED, "LIMIT within a subquery is not supported")
                .advise("put LIMIT at the end of the whole SELECT")),
        }
    }

    /// What does the same as a join without one.
    fn one_of_join(&self, rel: &Rel) -> Option<Rel> {
        (self.rules >= Rules::GroupJoins).then(|| group_join::group_join(rel, self.rules)).flatten()
    }

    fn each_branch(&mut self, input: &Rel, change: impl Fn(&mut Branch)) -> Result<Vec<Branch>, Diagnostic> {
        let mut branches = self.branches(input)?;
        branches.iter_mut().for_each(change);
        Ok(branches)
    }

    /// The branches of a UNION ALL. Inputs over one common relation share its branches.
    fn union(&mut self, inputs: &[Rel]) -> Result<Vec<Branch>, Diagnostic> {
        let mut paths: Vec<Option<Path<'_>>> = inputs.iter().map(Path::of).collect();
        let is_alone: Vec<bool> = paths.iter().map(Option::is_none).collect();
        let mut branches = Vec::new();
        for (i, input) in inputs.iter().enumerate() {
            if is_alone[i] {
                branches.extend(self.branches(input)?);
            }
            let Some(path) = paths[i].take() else { continue };
            let common = path.common;
            let mut together = vec![path];
            for other in &mut paths[i + 1..] {
                together.extend(other.take_if(|other| other.common == common));
            }
            if let [_] = together[..] {
                branches.extend(self.branches(input)?);
                continue;
            }
            let mut fanned = self.common(common)?;
            fanned.iter_mut().for_each(|branch| branch.fan_out(&together));
            branches.append(&mut fanned);
        }
        Ok(branches)
    }

    /// The branches of a common relation, which is planned once.
    fn common(&mut self, common: &Arc<Common>) -> Result<Vec<Branch>, Diagnostic> {
        if Arc::strong_count(common) == 1 {
            // This is the only place that names it. Of a long chain nothing is kept.
            return self.branches(common.rel());
        }
        let place = (Arc::as_ptr(common), self.depth);
        let branches = match self.common.get(&place) {
            Some(planned) => planned.branches.clone(),
            None => {
                let branches = self.branches(common.rel())?;
                self.common.insert(place, Planned { _common: Arc::clone(common), branches: branches.clone() });
                branches
            }
        };
        self.copies += branches.len();
        if self.copies <= MAX_COPIES {
            return Ok(branches);
        }
        let message =
            format!("the queries of WITH and the views of the statement are united in more than {MAX_COPIES} ways");
        let advice = "write what is used often to a separate table (INSERT INTO), or unite fewer queries";
        Err(Diagnostic::new(code::QUERY_TOO_LARGE, message).advise(advice))
    }

    /// The branch of a relation with state, which is planned unless an equal one is there.
    fn keyed_once(
        &mut self,
        rel: &Rel,
        plan: impl FnOnce(&mut Planner, &Rel) -> Result<Branch, Diagnostic>,
    ) -> Result<Vec<Branch>, Diagnostic> {
        let depth = self.depth;
        let meaning = if self.rules >= Rules::Equals { meaning(rel) } else { None };
        let same = meaning.unwrap_or_else(|| rel.clone());
        if let Some((_, _, branch)) = self.planned.iter().find(|(known, at, _)| *at == depth && *known == same) {
            return Ok(vec![branch.clone()]);
        }
        let branch = plan(self, rel)?;
        self.planned.push((same, depth, branch.clone()));
        Ok(vec![branch])
    }

    fn source(&mut self, scan: ScanKind, schema: Schema, clock: Clock) -> usize {
        let depth = self.depth;
        let shared = |s: &SourceBuilder| {
            matches!(s.scan, ScanKind::Table(_)) && s.scan == scan && s.clock == clock && s.depth == depth
        };
        if let Some(index) = self.sources.iter().position(shared) {
            return index;
        }
        self.sources.push(SourceBuilder { scan, schema, paths: vec![], needs_time: false, clock, late: None, depth });
        self.sources.len() - 1
    }

    /// Computed columns are inlined here, except the event time of a computed column: a table's time is computed once
    /// for the watermark, so pipelines take it from there (see [`TIME_COLUMN`]).
    fn scan(&mut self, table: &Arc<Table>, late: Option<&Arc<Table>>) -> Branch {
        let source = self.source(ScanKind::Table(table.clone()), table.schema(), Clock::Event);
        self.sources[source].late = late.cloned();
        Branch::new(PipelineInput::Source(source), expand_computed(table))
    }

    /// Notes that the branch ends in an operator that depends on `time`, an expression over the branch's columns, or on
    /// watermarks alone: `None`.
    fn use_time(&mut self, branch: &mut Branch, time: Option<&Expr>) {
        if let Some(time) = time {
            self.choose_clock(branch, time);
        }
        if let PipelineInput::Source(source) = branch.input {
            self.sources[source].needs_time = true;
        }
    }

    /// Makes the source of a branch whose windows are of processing time one of processing time.
    fn choose_clock(&mut self, branch: &mut Branch, time: &Expr) {
        let PipelineInput::Source(source) = branch.input else { return };
        if branch.reads_processing_time(time.clone().substitute(&branch.columns)) {
            let (scan, schema) = (self.sources[source].scan.clone(), self.sources[source].schema.clone());
            branch.input = PipelineInput::Source(self.source(scan, schema, Clock::Processing));
        }
    }

    /// Numbers the columns of each source by what the pipelines use.
    fn finish(mut self, time_zone: Zone) -> Result<QueryPlan, Diagnostic> {
        self.drop_unused_sources();
        let mut pipelines = std::mem::take(&mut self.pipelines);
        for pipeline in &mut pipelines {
            if let PipelineInput::Source(index) = pipeline.input
                && pipeline.reads_watermark()
            {
                self.sources[index].needs_time = true;
            }
        }
        let ends_beats = self.operators.iter().any(|operator| operator.kind.keyed().ends_beats());
        if ends_beats && self.beat.is_event_time() {
            self.sources.iter_mut().for_each(|source| source.needs_time = true);
        }
        let mut watermarks =
            self.sources.iter_mut().map(SourceBuilder::watermark).collect::<Result<Vec<_>, Diagnostic>>()?;
        for pipeline in &mut pipelines {
            if let PipelineInput::Source(index) = pipeline.input {
                let source = &mut self.sources[index];
                let time = watermarks[index].as_ref().and_then(|_| source.computed_time());
                pipeline.rewrite_input(&mut |e| source.narrow(e, time.as_ref()));
            }
        }
        for (source, watermark) in self.sources.iter_mut().zip(&mut watermarks) {
            if let Some(watermark) = watermark {
                watermark.time = source.narrow(watermark.time.clone(), None);
                if let WatermarkRule::Expression(e) = &mut watermark.rule {
                    *e = source.narrow(e.clone(), None);
                }
            }
        }
        let deepest = self.sources.iter().map(|s| s.depth).max().unwrap_or(0);
        let mut sources = Vec::new();
        for (source, watermark) in self.sources.into_iter().zip(watermarks) {
            let phase = deepest - source.depth;
            sources.push(source.finish(watermark, phase)?);
        }
        for pipeline in &mut pipelines {
            pipeline.schema = match pipeline.input {
                PipelineInput::Source(i) => sources[i].output_schema(),
                PipelineInput::Aggregation(i) => self.aggregations[i].output_schema(),
                PipelineInput::Operator(i) => self.operators[i].output.clone(),
                PipelineInput::Sort(i) => self.sorts[i].schema.clone(),
            };
            let time_column = pipeline.schema.fields.len().wrapping_sub(1);
            pipeline.rewrite_input(&mut |e| {
                e.renumbered(|column| if column == TIME_COLUMN { time_column } else { column })
            });
        }
        if self.rules >= Rules::Partitions {
            share_partitions(&mut self.operators, &pipelines);
        }
        Ok(QueryPlan {
            time_zone,
            sources,
            aggregations: self.aggregations,
            operators: self.operators,
            sorts: self.sorts,
            lookups: self.lookups,
            pipelines,
            sinks: self.sinks,
        })
    }

    /// A source whose branches have all become ones of processing time is read by nobody.
    fn drop_unused_sources(&mut self) {
        let mut used = vec![false; self.sources.len()];
        for pipeline in &self.pipelines {
            if let PipelineInput::Source(source) = pipeline.input {
                used[source] = true;
            }
        }
        let numbers = prune::renumbering(&used);
        let mut used = used.into_iter();
        self.sources.retain(|_| used.next().unwrap_or(false));
        for pipeline in &mut self.pipelines {
            if let PipelineInput::Source(source) = &mut pipeline.input {
                *source = numbers[*source];
            }
        }
    }
}

impl Pipeline {
    /// Rewrites every expression that refers to the input's columns: all up to and including the first projection. (A
    /// flat map always follows a projection.)
    fn rewrite_input(&mut self, change: &mut dyn FnMut(Expr) -> Expr) {
        let mut apply = |e: &mut Expr| *e = change(e.take());
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
            time.iter_mut().chain(keys).for_each(&mut apply);
            updates.iter_mut().flat_map(|u| u.argument.iter_mut().chain(&mut u.guard)).for_each(&mut apply);
        }
    }

    /// Whether an expression asks for the watermark (`CURRENT_WATERMARK`, late rows).
    pub fn reads_watermark(&self) -> bool {
        let mut found = false;
        let mut look = |e: &Expr| e.walk(&mut |e| found |= e.kind == ExprKind::CurrentWatermark);
        self.each_expression(&mut look);
        for operator in &self.operators {
            if let Operator::FlatMap(FlatMap::Lookup(Lookup { residual: Some(residual), .. })) = operator {
                look(residual);
            }
        }
        found
    }

    fn each_expression(&self, visit: &mut dyn FnMut(&Expr)) {
        for operator in &self.operators {
            match operator {
                Operator::Filter(predicate) => visit(predicate),
                Operator::Project(columns) => columns.iter().for_each(&mut *visit),
                Operator::FlatMap(flat_map) => flat_map.arguments().iter().for_each(&mut *visit),
            }
        }
        if let PipelineEnd::Aggregate { time, keys, updates, .. } = &self.end {
            time.iter().chain(keys).for_each(&mut *visit);
            updates.iter().flat_map(|u| u.argument.iter().chain(&u.guard)).for_each(&mut *visit);
        }
    }
}
