//! What a run is made of: the plan, the connectors behind its sources and sinks, and the code of its pipelines.

use crate::adaptive::VariantSlot;
use crate::compile::ProgramCompiler;
use crate::config::MergeStrategy;
use crate::durable::CheckpointConfig;
use crate::widths::Widths;
use arrow_array::ArrayRef;
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::lower::Lowered;
use millstream_connectors::{Sink, Source};
use millstream_plan::pipeline::{PipelineEnd, QueryPlan};
use std::sync::Arc;

/// Everything that [`crate::run`] executes. Vectors are parallel to those of the plan.
pub struct RunInput {
    /// The graph.
    pub plan: QueryPlan,
    /// One for each of `plan.sources`.
    pub sources: Vec<SourceInput>,
    /// One for each of `plan.pipelines`.
    pub pipelines: Vec<StagedCode>,
    /// One for each of `plan.operators`.
    pub operators: Vec<OperatorCode>,
    /// One for each of `plan.lookups`: the groups of its rows by its keys, over its columns (`lower_keys`).
    pub lookups: Vec<PipelineCode>,
    /// One for each of `plan.sinks`.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Makes machine code while the query runs; `None`: programs are interpreted.
    pub compiler: Option<Arc<dyn ProgramCompiler>>,
    /// Where checkpoints are written to, and what the query is recovered from; `None`: it has no checkpoints.
    pub checkpoints: Option<CheckpointConfig>,
}

impl RunInput {
    /// All programs in the order in which rows meet them, then those that the run may come to need.
    pub(crate) fn codes(&self) -> Codes {
        let heads = self.sources.iter().filter_map(|s| s.head.as_ref());
        let heads = heads.flat_map(|head| head.conditions.iter().map(|condition| &condition.code));
        let event_times = self.sources.iter().filter_map(|s| s.event_time.as_ref());
        let staged = self.pipelines.iter().flat_map(|p| {
            let flat_maps = p.flat_maps.iter().flat_map(|f| f.probe.iter().chain(&f.residual));
            let halves = p.partitioned.iter().flat_map(|halves| [&halves.scatter, &halves.fold]);
            p.stages.iter().chain(flat_maps).chain(halves)
        });
        let keyed = self.operators.iter().flat_map(|o| o.keys.iter().chain(&o.residual).chain(&o.slots));
        let before = event_times.chain(&self.lookups);
        // Heads last: rows go through them twice, so that machine code of the others is worth more.
        let all = before.chain(staged).chain(keyed).chain(heads).cloned().collect();
        let spare = self.pipelines.iter().filter_map(|p| p.shared.clone()).collect();
        let adaptable = self.pipelines.iter().zip(&self.plan.pipelines).flat_map(|(code, plan)| {
            let last = code.stages.len() - 1;
            let aggregation = match plan.end {
                PipelineEnd::Aggregate { aggregation, .. } => Some(aggregation),
                _ => None,
            };
            code.stages.iter().chain(&code.shared).enumerate().map(move |(stage, code)| Adaptable {
                code: code.clone(),
                aggregation: aggregation.filter(|_| stage >= last),
            })
        });
        let adaptable = adaptable.collect();
        Codes { all, spare, adaptable }
    }
}

/// The programs of a run, for whoever replaces their variants.
pub(crate) struct Codes {
    /// In the order in which rows meet them.
    pub(crate) all: Vec<PipelineCode>,
    /// For tables that workers share.
    pub(crate) spare: Vec<PipelineCode>,
    /// Those that are specialised: of stages of pipelines, among the others.
    pub(crate) adaptable: Vec<Adaptable>,
}

/// A program that is specialised.
pub(crate) struct Adaptable {
    /// The program.
    pub(crate) code: PipelineCode,
    /// The aggregation whose tables it updates, if any.
    pub(crate) aggregation: Option<usize>,
}

/// A source with its event time.
pub struct SourceInput {
    /// Where rows come from.
    pub rows: SourceRows,
    /// The program that computes event time and watermark, where [`event_time_columns`] says that there is one.
    pub event_time: Option<PipelineCode>,
    /// What can be left out when chunks are decoded, if that is wanted and the decoder can.
    pub head: Option<HeadCode>,
}

/// The filters at the head of all pipelines that read a source. A row that passes those of none of them is not looked at but in
/// some columns.
pub struct HeadCode {
    /// Columns of the source that are needed of every row, ascending: those of the conditions, of the event time, of
    /// whatever is computed before a filter.
    pub columns: Vec<usize>,
    /// One for each pipeline.
    pub conditions: Vec<HeadCondition>,
}

/// The filters at the head of a pipeline (`millstream_codegen::head`).
pub struct HeadCondition {
    /// Selects the rows that pass.
    pub code: PipelineCode,
    /// Its inputs: columns of the source, all of them among [`HeadCode::columns`].
    pub columns: Vec<usize>,
}

/// Where the rows of a source come from.
pub enum SourceRows {
    /// A connector, asked for `SourcePlan::columns`.
    Connector(Box<dyn Source>),
    /// Constant rows (`ScanKind::Values`), already evaluated: one array for each of `SourcePlan::columns`.
    Constant {
        /// The columns.
        columns: Vec<ArrayRef>,
        /// Rows.
        rows: usize,
    },
}

impl SourceRows {
    /// Whether decoders leave out what they are told ([`millstream_connectors::Decoder::can_skip`]).
    pub fn can_skip(&self) -> bool {
        match self {
            SourceRows::Connector(source) => source.decoder().can_skip(),
            SourceRows::Constant { .. } => false,
        }
    }
}

/// What a source's event-time program computes over `SourcePlan::columns`; see [`event_time_columns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTimeColumns {
    /// Output column with the event time, when it is not a plain column of the source.
    pub time: Option<usize>,
    /// Output column with the watermark after the row, when the rule is an expression.
    pub watermark: Option<usize>,
}

/// The output columns of the event-time program that a source needs: the event time first, then the watermark, each
/// a TIMESTAMP(3) or BIGINT column and each only when it has to be computed. `None` when both follow from a plain
/// column or from the clock, and then [`SourceInput::event_time`] is `None`.
pub fn event_time_columns(watermark: &millstream_plan::pipeline::SourceWatermark) -> Option<EventTimeColumns> {
    use millstream_plan::{expr::ExprKind, pipeline::WatermarkRule};
    if watermark.rule == WatermarkRule::ProcessingTime {
        return None;
    }
    let time = !matches!(watermark.time.kind, ExprKind::Column(_));
    let rule = matches!(watermark.rule, WatermarkRule::Expression(_));
    (time || rule).then(|| EventTimeColumns { time: time.then_some(0), watermark: rule.then_some(usize::from(time)) })
}

/// The programs of a pipeline: one stage more than it has flat maps.
pub struct StagedCode {
    /// In the order in which rows flow (`lower_pipeline`).
    pub stages: Vec<PipelineCode>,
    /// One for each flat map.
    pub flat_maps: Vec<FlatMapCode>,
    /// The last stage, cut in two, for [`crate::MergeStrategy::Partition`]; `None` if its rows cannot be partitioned or
    /// the strategy is another.
    pub partitioned: Option<PartitionedCode>,
    /// The last stage for tables that workers share (`Program::shared`), for [`crate::MergeStrategy::Global`] and
    /// [`crate::MergeStrategy::Auto`]; `None` if they cannot be shared or the strategy is another.
    pub shared: Option<PipelineCode>,
}

impl StagedCode {
    /// Whether there is code for the strategy.
    pub(crate) fn suits(&self, strategy: MergeStrategy) -> bool {
        match strategy {
            MergeStrategy::Local => true,
            MergeStrategy::Partition => self.partitioned.is_some(),
            MergeStrategy::Global | MergeStrategy::Auto => self.shared.is_some(),
        }
    }
}

/// The two halves of a program that updates tables (`millstream_codegen::partition`).
pub struct PartitionedCode {
    /// Emits what the other half needs and the hash of the key.
    pub scatter: PipelineCode,
    /// Updates tables with it.
    pub fold: PipelineCode,
}

/// The programs of a flat map: those of lookups, none for the others.
#[derive(Default)]
pub struct FlatMapCode {
    /// Finds the group of a row's keys in the lookup table (`lower_keys`), over the flat map's arguments.
    pub probe: Option<PipelineCode>,
    /// Selects the pairs for which the residual is TRUE (`lower_condition`), over the columns before the flat map, then
    /// those of the table.
    pub residual: Option<PipelineCode>,
}

/// The programs of a keyed operator.
pub struct OperatorCode {
    /// For each input: the groups of its rows by key (`lower_keys`), over its columns. All have one entry layout.
    pub keys: Vec<PipelineCode>,
    /// Selects the pairs for which the residual of a join is TRUE (`lower_condition`), over left, then right columns.
    pub residual: Option<PipelineCode>,
    /// Updates the entries of slots (`lower_slots`), over the columns of the input, then the slot.
    pub slots: Option<PipelineCode>,
}

/// A program and what executes it now. Clones share that: whoever compiles in the background keeps one.
#[derive(Clone)]
pub struct PipelineCode {
    /// The program, its inputs and outputs.
    pub lowered: Arc<Lowered>,
    /// The executable.
    pub(crate) slot: VariantSlot,
    /// What it makes.
    pub(crate) widths: Arc<Widths>,
}

impl PipelineCode {
    /// A program with a kernel made from it.
    pub fn new(lowered: Arc<Lowered>, kernel: Arc<dyn Kernel>) -> PipelineCode {
        let widths = Arc::new(Widths::new(&lowered));
        PipelineCode { lowered, slot: VariantSlot::new(kernel), widths }
    }

    /// A program with its interpreter.
    pub fn interpreted(lowered: Arc<Lowered>) -> PipelineCode {
        let interpreter = Arc::new(Interpreter::new(Arc::new(lowered.program.clone())));
        PipelineCode::new(lowered, interpreter)
    }

    /// The kernel of the current variant.
    pub(crate) fn kernel(&self) -> Arc<dyn Kernel> {
        self.slot.load().kernel()
    }

    /// Runs the current variant over rows, counts what that costs, and gives a sample of them if one is wanted.
    pub(crate) fn run<T>(&self, columns: &[ArrayRef], rows: usize, run: impl FnOnce(&dyn Kernel) -> T) -> T {
        self.slot.offer(columns, rows);
        self.slot.load().run(rows, run)
    }
}
