//! From a plan to the shared state of a running query: streams, channels, aggregations, egresses.

use crate::aggregation::Aggregation;
use crate::buffer_size::BufferSize;
use crate::cancel::CancelToken;
use crate::checkpoint::{Checkpointing, Restored, RestoredSplit};
use crate::config::{MergeStrategy, RunConfig};
use crate::cuts::Cuts;
use crate::egress::Egress;
use crate::event_time::EventTime;
use crate::flow::Flow;
use crate::input::{RunInput, SourceInput, SourceRows, StagedCode};
use crate::keyed::{KeyedRuntime, most_behind, partition_bits};
use crate::lookup::Lookup;
use crate::overlap::OverlapRuntime;
use crate::phases::{Phases, phases_of_lookups};
use crate::processing_time::ProcessingTime;
use crate::query::{Life, Query};
use crate::scheduler::Scheduler;
use crate::sequencer::Sequencer;
use crate::skipping::Skipping;
use crate::source::{Begin, Described, SourceRuntime, Split};
use crate::spill::{SpillMode, Spilling};
use crate::stats::{QueryStats, SplitStats};
use crate::strategy::{Strategy, merge_strategy};
use crate::stream::{Channel, Stream, StreamId};
use crate::tables::{OpenTables, Owners};
use crate::timers::Timers;
use crate::topology::Topology;
use arrow_array::ArrayRef;
use millstream_abi::{Accumulator, EntryLayout};
use millstream_codegen::program::Terminal;
use millstream_plan::pipeline::{
    ComponentOutput, Pipeline, PipelineEnd, PipelineInput, QueryPlan, SourcePlan, SourceWatermark, WatermarkRule,
};
use millstream_plan::window::WindowAssigner;
use millstream_state::{MemoryBudget, Output, OutputTypes, PARTITIONS, available_memory};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Builds the query; opens the sources as far as listing their splits goes.
pub(crate) fn build(
    input: RunInput,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
) -> Result<Query, Diagnostic> {
    let RunInput { plan, sources, mut pipelines, operators, lookups, sinks, compiler: _, checkpoints } = input;
    check_sizes(&plan, sources.len(), pipelines.len(), sinks.len())?;
    stats.check(&plan)?;
    if (operators.len(), lookups.len()) != (plan.operators.len(), plan.lookups.len()) {
        return Err(Diagnostic::bug("the programs of keyed operators and lookup tables do not fit the plan"));
    }
    let config = RunConfig { workers: config.workers.max(1), ..config.clone() };
    pipelines.iter_mut().for_each(|p| p.leave_out(&config));
    let phases = plan.sources.iter().map(|s| s.phase + 1).max().unwrap_or(0);
    let budget = MemoryBudget::new(config.memory.of(available_memory()));
    stats.watch_memory(&budget);
    let groups = Groups::new(&plan);
    let checkpointing = checkpoints.map(Checkpointing::new);
    let restored = match &checkpointing {
        Some(checkpointing) => Restored::new(&checkpointing.config, &plan)?,
        None => None,
    };
    let mut graph = Graph::new(&plan, restored.as_ref());
    let mut runtimes = Vec::with_capacity(sources.len());
    let mut readers = vec![0; phases];
    for (index, (source, source_plan)) in sources.into_iter().zip(&plan.sources).enumerate() {
        let (runtime, at_a_time) = graph.source(index, source, source_plan, &config, stats)?;
        readers[source_plan.phase] += at_a_time;
        runtimes.push(runtime);
    }
    let outputs: Vec<StreamId> =
        (0..plan.aggregations.len()).map(|a| graph.output(PipelineInput::Aggregation(a))).collect();
    let operator_outputs: Vec<StreamId> =
        (0..plan.operators.len()).map(|o| graph.output(PipelineInput::Operator(o))).collect();
    let topology = Topology::new(config.workers, config.numa_nodes);
    let aggregations = (0..plan.aggregations.len())
        .map(|a| {
            let ports = graph.aggregation_ports[a];
            aggregation(&plan, &pipelines, (a, outputs[a], ports), &config, topology.nodes(), &budget)
        })
        .collect::<Result<_, _>>()?;
    let operators = (plan.operators.iter().zip(operators).enumerate())
        .map(|(o, (operator, code))| {
            let inputs = (graph.operator_ports[o], is_derived(&plan, o));
            let bits = restored.as_ref().and_then(|restored| restored.partition_bits(o));
            let bits = bits.unwrap_or_else(|| partition_bits(budget.limit(), config.spill.mode != SpillMode::Never));
            KeyedRuntime::new(operator, code, operator_outputs[o], inputs, bits, &budget)
        })
        .collect::<Result<_, _>>()?;
    let sinks: Vec<Egress> = sinks
        .into_iter()
        .zip(&plan.sinks)
        .enumerate()
        .map(|(i, (sink, sink_plan))| Egress::new(sink, graph.sink_lanes[i], sink_plan.limit, &budget))
        .collect();
    let mut left = vec![0; phases];
    for stream in &graph.streams {
        if let PipelineInput::Source(source) = stream.input {
            left[plan.sources[source].phase] += stream.channels.len();
        }
    }
    let phases_of_lookups = phases_of_lookups(&plan);
    phases_of_lookups.iter().for_each(|&phase| left[phase] += 1);
    let lookups = lookups.into_iter().zip(phases_of_lookups).zip(&graph.lookup_lanes);
    let lookups =
        lookups.map(|((code, phase), &lanes)| Lookup::new(code, phase, lanes, &budget)).collect::<Result<_, _>>()?;
    let streams = graph.streams;
    stats.open(&streams, config.workers);
    let groups = streams.iter().map(|stream| groups.of(&plan, stream.input)).collect();
    let query = Query {
        checkpointing: None,
        restored_watermarks: Mutex::default(),
        spilling: Spilling::new(&config.spill, (plan.aggregations.len(), plan.operators.len()), &budget, &stats.spill),
        flow: Flow::new(config.chunk_permits(), groups, readers.into_iter().max().unwrap_or(0), budget),
        phases: Phases::new(left),
        cuts: Cuts::new(config.cut_every),
        timers: Timers::new(runtimes.iter().any(|s| s.follows_clock), plan.operators.iter().map(most_behind).sum()),
        buffer_size: BufferSize::new(&config),
        life: Life::new(sinks.len()),
        scheduler: Scheduler::new(&config, &topology),
        topology,
        stats: Arc::clone(stats),
        cancel: cancel.clone(),
        sources: runtimes,
        reads_watermark: plan.pipelines.iter().map(Pipeline::reads_watermark).collect(),
        places: places_at_ends(&plan),
        plan,
        config,
        pipelines,
        streams,
        aggregations,
        operators,
        lookups,
        sinks,
    };
    if let (Some(restored), Some(checkpointing)) = (&restored, &checkpointing) {
        restored.restore(&query, checkpointing)?;
    }
    Ok(Query { checkpointing, ..query })
}

/// The place of each pipeline among those with the same end.
fn places_at_ends(plan: &QueryPlan) -> Vec<u32> {
    let end = |pipeline: &Pipeline| match pipeline.end {
        PipelineEnd::Sink(sink) => (0, sink),
        PipelineEnd::Aggregate { aggregation, .. } => (1, aggregation),
        PipelineEnd::Exchange { operator, .. } => (2, operator),
        PipelineEnd::Build { lookup } => (3, lookup),
    };
    let mut met: HashMap<(u8, usize), u32> = HashMap::new();
    let place = |pipeline: &Pipeline| {
        let count = met.entry(end(pipeline)).or_default();
        *count += 1;
        *count - 1
    };
    plan.pipelines.iter().map(place).collect()
}

fn check_sizes(plan: &QueryPlan, sources: usize, pipelines: usize, sinks: usize) -> Result<(), Diagnostic> {
    let (given, wanted) = ((sources, pipelines, sinks), (plan.sources.len(), plan.pipelines.len(), plan.sinks.len()));
    if given != wanted {
        let message = format!("the parts of a run do not fit its plan: {given:?} instead of {wanted:?}");
        return Err(Diagnostic::bug(message));
    }
    Ok(())
}

/// Streams and their channels, as they are numbered.
struct Graph<'a> {
    plan: &'a QueryPlan,
    restored: Option<&'a Restored<'a>>,
    streams: Vec<Stream>,
    /// Number of the next stream that no checkpoint knows.
    next_number: u32,
    /// Channels that end in each aggregation so far.
    aggregation_ports: Vec<usize>,
    /// Channels that end in each keyed operator so far.
    operator_ports: Vec<usize>,
    /// Channels that end in each sink so far.
    sink_lanes: Vec<usize>,
    /// Channels that end in each lookup table so far.
    lookup_lanes: Vec<usize>,
}

impl<'a> Graph<'a> {
    fn new(plan: &'a QueryPlan, restored: Option<&'a Restored<'a>>) -> Graph<'a> {
        let (aggregation_ports, sink_lanes) = (vec![0; plan.aggregations.len()], vec![0; plan.sinks.len()]);
        let lookup_lanes = vec![0; plan.lookups.len()];
        let operator_ports = vec![0; plan.operators.len()];
        Graph {
            plan,
            restored,
            streams: Vec::new(),
            next_number: restored.map_or(0, Restored::next_stream),
            aggregation_ports,
            operator_ports,
            sink_lanes,
            lookup_lanes,
        }
    }

    /// Adds a stream, with a channel for every pipeline that reads it, and the number that it has in a checkpoint.
    fn stream(&mut self, input: PipelineInput, sequencer: Sequencer, restored: Option<u32>) -> StreamId {
        let id = self.streams.len();
        let number = restored.unwrap_or_else(|| {
            self.next_number += 1;
            self.next_number - 1
        });
        let mut channels = Vec::new();
        for (pipeline, plan) in self.plan.pipelines.iter().enumerate().filter(|(_, p)| p.input == input) {
            let ports = match plan.end {
                PipelineEnd::Aggregate { aggregation, .. } => &mut self.aggregation_ports[aggregation],
                PipelineEnd::Sink(sink) => &mut self.sink_lanes[sink],
                PipelineEnd::Build { lookup } => &mut self.lookup_lanes[lookup],
                PipelineEnd::Exchange { operator, .. } => &mut self.operator_ports[operator],
            };
            channels.push(Channel { pipeline, port: *ports });
            *ports += 1;
        }
        self.streams.push(Stream::new((id, number), input, channels, sequencer));
        id
    }

    /// Adds the output of an aggregation or of a keyed operator.
    fn output(&mut self, input: PipelineInput) -> StreamId {
        let rows = self.restored.map_or(0, Restored::rows_of_outputs);
        let number = self.restored.and_then(|restored| restored.stream_of_output(input));
        self.stream(input, Sequencer::new(None, rows, None), number)
    }

    /// Adds the splits of a source; also returns how many of them are read at a time.
    fn source(
        &mut self,
        index: usize,
        input: SourceInput,
        plan: &SourcePlan,
        config: &RunConfig,
        stats: &QueryStats,
    ) -> Result<(SourceRuntime, usize), Diagnostic> {
        let code = input.event_time;
        let settings = &config.adaptivity;
        let head = input.head.filter(|_| settings.skips_in_decoders());
        let skipping = head.map(|head| Skipping::new(index, head, settings));
        let clock_type = match &plan.watermark {
            Some(SourceWatermark { rule: WatermarkRule::ProcessingTime, time, .. }) => Some(time.data_type.to_arrow()),
            _ => None,
        };
        let event_time = match &plan.watermark {
            _ if clock_type.is_some() => None,
            Some(watermark) => Some(EventTime::new(watermark, &plan.columns, code)?),
            None => None,
        };
        let (mut decoder, mut constant, mut acknowledger) = (None, None, None);
        let (splits, parallel) = match input.rows {
            SourceRows::Constant { columns, rows } => {
                constant = Some((columns, rows));
                let begin = self.restored.map_or(Begin::Fresh, |restored| restored.constant(index));
                let name = "values".to_string();
                let stream = self.restored.and_then(|restored| restored.stream_of_constant(index));
                (vec![RestoredSplit { reader: None, name, stream, begin, position: None, rows: 0, input: None }], 0)
            }
            SourceRows::Connector(mut source) => {
                let readers = source.splits()?;
                decoder = Some(source.decoder());
                acknowledger = source.acknowledger();
                let splits = match self.restored {
                    Some(restored) => restored.splits(index, readers)?,
                    None => readers.into_iter().map(RestoredSplit::fresh).collect(),
                };
                let count = splits.len();
                (splits, if source.is_bounded() { count.min(config.readers.max(1)) } else { count })
            }
        };
        stats.sources[index].open(splits.iter().map(|split| SplitStats::new(&split.name)).collect());
        let clock = || clock_type.clone().map(ProcessingTime::new);
        let mut unread = VecDeque::new();
        let mut runtimes = Vec::with_capacity(splits.len());
        for (place, split) in splits.into_iter().enumerate() {
            let RestoredSplit { reader, name, stream: number, begin, position, rows, input } = split;
            let sequencer = Sequencer::new(clock(), rows, position);
            let stream = self.stream(PipelineInput::Source(index), sequencer, number);
            let is_spare = reader.as_ref().is_some_and(|reader| reader.is_spare());
            let input = Described { witness: reader.as_ref().and_then(|reader| reader.witness()), before: input };
            runtimes.push(Split::new(stream, &name, begin, is_spare, input));
            if constant.is_none() {
                unread.push_back((place, reader));
            }
        }
        let idle_timeout = plan.watermark.as_ref().and_then(|w| w.idle_timeout_ms).filter(|&ms| ms > 0);
        let runtime = SourceRuntime {
            decoder,
            event_time,
            skipping,
            follows_clock: clock_type.is_some(),
            splits: runtimes,
            idle_timeout: idle_timeout.map(Duration::from_millis),
            unread: Mutex::new(unread),
            acknowledger: Mutex::new(acknowledger),
            constant: Mutex::new(constant),
            readers: parallel,
        };
        Ok((runtime, parallel))
    }
}

/// The aggregation with the entry layout of the programs that end in it.
fn aggregation(
    plan: &QueryPlan,
    pipelines: &[StagedCode],
    (index, output, inputs): (usize, StreamId, usize),
    config: &RunConfig,
    nodes: usize,
    budget: &Arc<MemoryBudget>,
) -> Result<Aggregation, Diagnostic> {
    let mut layout: Option<Arc<EntryLayout>> = None;
    for (pipeline, code) in plan.pipelines.iter().zip(pipelines) {
        if !matches!(pipeline.end, PipelineEnd::Aggregate { aggregation, .. } if aggregation == index) {
            continue;
        }
        let Some(Terminal::Update(update)) = code.stages.last().map(|c| &c.lowered.program.terminal) else {
            return Err(Diagnostic::bug("a pipeline that ends in an aggregation does not update tables"));
        };
        if *layout.get_or_insert_with(|| Arc::new(update.layout.clone())).as_ref() != update.layout {
            return Err(Diagnostic::bug("pipelines of one aggregation disagree about its entries"));
        }
        if !code.suits(merge_strategy(config, &update.layout)) {
            return Err(Diagnostic::bug("a pipeline has no code for the way in which its tables are merged"));
        }
    }
    let layout = layout.ok_or_else(|| Diagnostic::bug("no pipeline ends in an aggregation"))?;
    let aggregation = &plan.aggregations[index];
    let types = OutputTypes {
        keys: aggregation.keys.iter().map(|k| k.data_type.clone()).collect(),
        outputs: aggregation.outputs.iter().map(shown).collect(),
    };
    let is_shown = |output: &Output| output.component < layout.accumulators.len();
    if layout.keys.len() != types.keys.len() || !types.outputs.iter().all(is_shown) {
        return Err(Diagnostic::bug("the entries of an aggregation do not fit its output"));
    }
    let overlap = match aggregation.assigner {
        WindowAssigner::Overlap(overlap) => {
            Some(OverlapRuntime::new(overlap, &layout, aggregation.combination, config, budget))
        }
        _ => None,
    };
    let strategy = Strategy::new(config, &layout, counter_of_rows(plan, index));
    let (lanes, nodes) = match strategy.merge() {
        MergeStrategy::Local => (0, 0),
        MergeStrategy::Partition => (PARTITIONS, 0),
        MergeStrategy::Global | MergeStrategy::Auto => (0, nodes),
    };
    let owners = Owners { own: config.workers + lanes, nodes, workers: config.workers };
    let spills = config.spill.mode != SpillMode::Never;
    let tables = OpenTables::new(Arc::clone(&layout), owners, (config.dense_tables, spills), budget);
    let windows = (aggregation.assigner, aggregation.timeline);
    Ok(Aggregation::new(windows, types, output, inputs, overlap, tables, strategy))
}

/// The component of an aggregation that counts all rows, whichever pipeline they come from.
fn counter_of_rows(plan: &QueryPlan, aggregation: usize) -> Option<usize> {
    let counts = |component: usize| {
        plan.pipelines.iter().all(|pipeline| match &pipeline.end {
            PipelineEnd::Aggregate { aggregation: into, updates, .. } if *into == aggregation => {
                updates.get(component).is_some_and(|update| update.argument.is_none() && update.guard.is_none())
            }
            _ => true,
        })
    };
    let components = plan.aggregations[aggregation].components.iter().enumerate();
    components.filter(|(_, c)| **c == Accumulator::Count).map(|(component, _)| component).find(|&c| counts(c))
}

/// Sources whose watermarks advance the same operators: which splits flow control compares.
struct Groups {
    /// For each source, aggregation and keyed operator one that it is connected to, or itself.
    parents: Vec<usize>,
}

impl Groups {
    fn new(plan: &QueryPlan) -> Groups {
        let nodes = plan.sources.len() + plan.aggregations.len() + plan.operators.len();
        let mut groups = Groups { parents: (0..nodes).collect() };
        for pipeline in &plan.pipelines {
            let end = match pipeline.end {
                PipelineEnd::Aggregate { aggregation, .. } => PipelineInput::Aggregation(aggregation),
                PipelineEnd::Exchange { operator, .. } => PipelineInput::Operator(operator),
                PipelineEnd::Sink(_) | PipelineEnd::Build { .. } => continue,
            };
            let (from, into) = (groups.find(plan, pipeline.input), groups.find(plan, end));
            groups.parents[from] = into;
        }
        groups
    }

    fn find(&self, plan: &QueryPlan, input: PipelineInput) -> usize {
        let mut node = match input {
            PipelineInput::Source(source) => source,
            PipelineInput::Aggregation(aggregation) => plan.sources.len() + aggregation,
            PipelineInput::Operator(operator) => plan.sources.len() + plan.aggregations.len() + operator,
        };
        while self.parents[node] != node {
            node = self.parents[node];
        }
        node
    }

    /// The group of the splits of a source; `None` where reading on completes no window.
    fn of(&self, plan: &QueryPlan, input: PipelineInput) -> Option<usize> {
        let PipelineInput::Source(source) = input else { return None };
        let rule = plan.sources[source].watermark.as_ref().map(|w| &w.rule);
        let has_event_time = rule.is_some_and(|rule| *rule != WatermarkRule::ProcessingTime);
        has_event_time.then(|| self.find(plan, input))
    }
}

/// Whether no rows of a keyed operator come from a source without another operator in between.
fn is_derived(plan: &QueryPlan, index: usize) -> bool {
    let ends_there = |p: &&Pipeline| matches!(p.end, PipelineEnd::Exchange { operator, .. } if operator == index);
    plan.pipelines.iter().filter(ends_there).all(|p| !matches!(p.input, PipelineInput::Source(_)))
}

fn shown(output: &ComponentOutput) -> Output {
    let ComponentOutput { component, finish, data_type, .. } = output.clone();
    Output { component, finish, data_type }
}

/// Columns and rows of a constant source.
pub(crate) type Constant = (Vec<ArrayRef>, usize);
