//! What a run is made of: the plan, the connectors behind its sources and sinks, and the code of its pipelines.

use crate::adaptive::VariantSlot;
use crate::compile::ProgramCompiler;
use crate::config::{MergeStrategy, RunConfig};
use crate::durable::CheckpointConfig;
use crate::exchange::Nodes;
use crate::hints::{Hints, ProgramHints};
use crate::widths::Widths;
use arrow_array::ArrayRef;
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::Kernel;
use millstream_codegen::lower::Lowered;
use millstream_codegen::programs::Tables;
use millstream_connectors::{Sink, Source};
pub use millstream_plan::pipeline::{EventTimeColumns, event_time_columns};
use millstream_plan::pipeline::{PipelineEnd, QueryPlan};
use parking_lot::Mutex;
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
    /// One for each of `plan.sinks`; on another node than the first, for each that is on every node.
    pub sinks: Vec<Box<dyn Sink>>,
    /// Makes machine code while the query runs; `None`: programs are interpreted.
    pub compiler: Option<Arc<dyn ProgramCompiler>>,
    /// What earlier runs have learned, and what this one adds.
    pub hints: Arc<Hints>,
    /// Where checkpoints are written to, and what the query is recovered from; `None`: it has no checkpoints.
    pub checkpoints: Option<CheckpointConfig>,
    /// Which of several nodes this is.
    pub nodes: Option<Nodes>,
}

impl RunInput {
    /// All programs in the order in which rows meet them, then those that the run may come to need.
    pub(crate) fn codes(&self) -> Codes {
        let heads = self.sources.iter().filter_map(|s| s.head.as_ref());
        let heads = heads.flat_map(|head| head.conditions.iter().map(|condition| &condition.code));
        let event_times = self.sources.iter().filter_map(|s| s.event_time.as_ref());
        let staged = self.pipelines.iter().flat_map(StagedCode::all);
        let keyed = self.operators.iter().flat_map(OperatorCode::all);
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
                hints: self.hints.of(&code.lowered.program),
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
    /// What earlier runs have learned of it.
    pub(crate) hints: Arc<Mutex<ProgramHints>>,
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

/// The programs of a pipeline with what executes them.
pub type StagedCode = millstream_codegen::programs::Staged<PipelineCode>;
/// The programs of a flat map with what executes them.
pub type FlatMapCode = millstream_codegen::programs::FlatMapped<PipelineCode>;
/// The two halves of a program that updates tables with what executes them.
pub type PartitionedCode = millstream_codegen::programs::Partitioned<PipelineCode>;
/// The programs of a keyed operator with what executes them.
pub type OperatorCode = millstream_codegen::programs::Keyed<PipelineCode>;

impl From<MergeStrategy> for Tables {
    fn from(strategy: MergeStrategy) -> Tables {
        match strategy {
            MergeStrategy::Local => Tables::Own,
            MergeStrategy::Partition => Tables::Partitioned,
            MergeStrategy::Global | MergeStrategy::Auto => Tables::Shared,
        }
    }
}

impl From<&RunConfig> for Tables {
    fn from(config: &RunConfig) -> Tables {
        match config.merge {
            // A single worker has nobody to share tables with.
            MergeStrategy::Auto if config.workers <= 1 => Tables::Own,
            merge => merge.into(),
        }
    }
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
