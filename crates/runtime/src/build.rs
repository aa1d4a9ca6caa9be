//! From a plan to a running query: streams, pipelines, stations.

use crate::adaptive::slice_facts::SliceFacts;
use crate::cancel::CancelToken;
use crate::config::RunConfig;
use crate::durable::checkpointing::Checkpointing;
use crate::durable::generations::TableGenerations;
use crate::durable::restored::{Restored, RestoredSplit};
use crate::durable::spilling::Spilling;
use crate::exchange::{Assignment, GatherStation, Links, Nodes, named};
use crate::executable_plan::{OperatorCode, PipelineCode, RunInput, SourceInput, SourceRows, StagedCode};
use crate::host::Host;
use crate::ids::{Port, SplitId, StationId, StreamId, StreamNumber};
use crate::keyed::{KeyedStation, most_behind};
use crate::lookup::LookupStation;
use crate::lookup::table::LookupTable;
use crate::pipeline::Pipeline;
use crate::query::{Graph, Query};
use crate::schedule::beats::Beats;
use crate::schedule::buffer_size::BufferSize;
use crate::schedule::flow::Flow;
use crate::schedule::scheduler::Scheduler;
use crate::schedule::timers::Timers;
use crate::schedule::topology::Topology;
use crate::sink::{FromNodes, SinkStation};
use crate::sort::{SortRole, SortStation};
use crate::source::SourceRuntime;
use crate::source::event_time::EventTime;
use crate::source::phases::{Phases, phases_of_lookups};
use crate::source::processing_time::ProcessingTime;
use crate::source::skipping::Skipping;
use crate::source::split::{Begin, Described, Split};
use crate::station::Station;
use crate::stats::{NodeLanes, QueryStats};
use crate::stream::sequencer::Sequencer;
use crate::stream::{Channel, Feed, Stream};
use crate::window::WindowStation;
use crate::window::strategy::merge_strategy;
use millstream_abi::EntryLayout;
use millstream_codegen::program::Terminal;
use millstream_connectors::Sink;
use millstream_plan::physical::{Distribution, Exchange, distribute};
use millstream_plan::pipeline::{
    FlatMap, Operator, Pipeline as PlannedPipeline, PipelineEnd, PipelineInput, QueryPlan, SinkPlan, SourcePlan,
    SourceWatermark, WatermarkRule,
};
use millstream_state::{MemoryBudget, available_memory};
use millstream_storage::SinkState;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// A query that has not begun, and what its threads need besides.
pub(crate) struct Built {
    pub(crate) query: Query,
    pub(crate) topology: Topology,
    /// By aggregation.
    pub(crate) facts: Vec<Arc<SliceFacts>>,
}

/// Builds the query; opens the sources as far as listing their splits goes.
pub(crate) fn build(
    input: RunInput,
    config: &RunConfig,
    stats: &Arc<QueryStats>,
    cancel: &CancelToken,
    nodes: Option<Arc<Nodes>>,
) -> Result<Built, Diagnostic> {
    let RunInput { plan, sources, mut pipelines, operators, lookups, sinks, checkpoints, .. } = input;
    let is_first = nodes.as_ref().is_none_or(|nodes| nodes.is_first());
    check_sizes(&plan, (sources.len(), pipelines.len(), sinks.len()), is_first)?;
    stats.check(&plan)?;
    nodes.iter().filter(|_| is_first).for_each(|nodes| stats.reports.open(nodes.count));
    if (operators.len(), lookups.len()) != (plan.operators.len(), plan.lookups.len()) {
        return Err(Diagnostic::bug("the programs of keyed operators and lookup tables do not fit the plan"));
    }
    let config = RunConfig { workers: config.workers.max(1), ..config.clone() };
    pipelines.iter_mut().for_each(|pipeline| pipeline.leave_out(&config));
    let phases = plan.sources.iter().map(|s| s.phase + 1).max().unwrap_or(0);
    let own = || MemoryBudget::new(config.memory.of(available_memory()));
    let budget = config.memory_share.as_ref().map_or_else(own, |share| share.budget());
    stats.watch_memory(&budget);
    let checkpointing = checkpoints.map(|config| Arc::new(Checkpointing::new(config)));
    let restored = checkpointing.as_ref().map(|it| Restored::new(it, &plan)).transpose()?.flatten();
    let distribution = distribute(&plan);
    let reads = SplitsOfNode { nodes: nodes.as_deref(), distribution: &distribution };
    let mut streams = Streams::new(&plan, restored.as_ref(), checkpointing.is_some(), reads);
    let mut runtimes = Vec::with_capacity(sources.len());
    let mut readers = vec![0; phases];
    for (index, (source, source_plan)) in sources.into_iter().zip(&plan.sources).enumerate() {
        let runtime = streams.source(index, source, source_plan, &config, stats, cancel)?;
        readers[source_plan.phase] += runtime.readers;
        runtimes.push(runtime);
    }
    let outputs = streams.outputs();
    let Streams { streams, ports, .. } = streams;
    let topology = Topology::new(config.workers, config.numa_nodes);
    let scheduler = Arc::new(Scheduler::new(&config, &topology));
    let lanes = nodes.clone().map(|nodes| nodes as Arc<dyn NodeLanes>);
    stats.open(&streams, &scheduler, config.workers, lanes);
    let groups = watermark_groups(&plan);
    let group = |stream: &Arc<Stream>| match stream.feed {
        Feed::Split(split) => groups[split.source],
        Feed::Station(_) => None,
    };
    let groups = streams.iter().map(group).collect();
    let holds_back = plan.has_beats() && config.beats.clock.is_event_time();
    let has_state = !(plan.aggregations.is_empty() && plan.operators.is_empty() && plan.sorts.is_empty());
    let partitions = config.partitions(restored.as_ref().map(|restored| restored.manifest().partitions));
    let host = Arc::new(Host {
        partitions,
        nodes,
        spilling: Spilling::new(&config.spill, has_state, &budget, &stats.spill),
        flow: Flow::new(config.chunk_permits(), groups, readers.into_iter().max().unwrap_or(0), holds_back, budget),
        buffer_size: BufferSize::new(&config),
        follows_clock: runtimes.iter().any(|s| s.follows_clock),
        stats: Arc::clone(stats),
        checkpointing: checkpointing.clone(),
        beats: plan.has_beats().then(|| Beats::new(config.beats)),
        tables: TableGenerations::default(),
        config,
    });
    let phases_of_lookups = phases_of_lookups(&plan);
    let mut left = vec![0; phases];
    for stream in &streams {
        if let Feed::Split(id) = stream.feed {
            left[plan.sources[id.source].phase] += stream.channels.len();
        }
    }
    phases_of_lookups.iter().for_each(|&phase| left[phase] += 1);
    let tables: Vec<Arc<LookupTable>> = plan.lookups.iter().map(|_| Arc::default()).collect();
    let facts: Vec<Arc<SliceFacts>> = plan.aggregations.iter().map(|_| Arc::default()).collect();
    let stations = Stations {
        plan: &plan,
        host: &host,
        ports: &ports,
        outputs: &outputs,
        restored: restored.as_ref(),
        distribution: &distribution,
    };
    let lookup_parts = lookups.into_iter().zip(phases_of_lookups).zip(&tables);
    let mut all = stations.windows(&pipelines, topology.nodes(), &facts)?;
    all.extend(stations.keyed(operators)?);
    all.extend(stations.sorts());
    all.extend(stations.lookups(lookup_parts.map(|((code, phase), table)| (code, phase, table)))?);
    all.extend(stations.sinks(sinks));
    if let Some(restored) = &restored {
        all.iter().try_for_each(|station| station.restore(restored))?;
    }
    let lag = plan.operators.iter().map(most_behind).sum();
    let timers = Timers::new(host.follows_clock, lag);
    let pipelines = pipelines.into_iter().enumerate();
    let pipelines = pipelines.map(|(number, code)| pipeline(&plan, number, code, &tables)).collect();
    drop(restored);
    let graph = Graph { plan, sources: runtimes, streams, pipelines, stations: all };
    let query = Query::new(host, graph, scheduler, Phases::new(left), timers, cancel.clone());
    Ok(Built { query, topology, facts })
}

/// A pipeline with the tables that it probes.
fn pipeline(plan: &QueryPlan, number: usize, code: StagedCode, tables: &[Arc<LookupTable>]) -> Pipeline {
    let planned = &plan.pipelines[number];
    let flat_map = |operator: &Operator| match operator {
        Operator::FlatMap(flat_map @ FlatMap::Lookup(lookup)) => {
            Some((flat_map.clone(), Some(Arc::clone(&tables[lookup.table]))))
        }
        Operator::FlatMap(flat_map) => Some((flat_map.clone(), None)),
        Operator::Filter(_) | Operator::Project(_) => None,
    };
    let end = station_of(plan, &planned.end);
    let before = plan.pipelines[..number].iter().filter(|other| station_of(plan, &other.end) == end).count();
    Pipeline {
        number,
        code,
        flat_maps: planned.operators.iter().filter_map(flat_map).collect(),
        // A row that is exchanged or sorted has the watermark in its place.
        reads_watermark: planned.reads_watermark()
            || matches!(planned.end, PipelineEnd::Exchange { .. } | PipelineEnd::Sort { .. }),
        numbers_rows: matches!(
            planned.end,
            PipelineEnd::Aggregate { .. } | PipelineEnd::Exchange { .. } | PipelineEnd::Sort { .. }
        ),
        place: before as u16,
        input: if let PipelineEnd::Exchange { port, .. } = planned.end { port } else { 0 },
    }
}

/// The stations of a plan: its aggregations, keyed operators, sorts, lookup tables, sinks.
fn station_of(plan: &QueryPlan, end: &PipelineEnd) -> StationId {
    let operators = plan.aggregations.len();
    let sorts = operators + plan.operators.len();
    let lookups = sorts + plan.sorts.len();
    StationId::new(match *end {
        PipelineEnd::Aggregate { aggregation, .. } => aggregation,
        PipelineEnd::Exchange { operator, .. } => operators + operator,
        PipelineEnd::Sort { sort } => sorts + sort,
        PipelineEnd::Build { lookup } => lookups + lookup,
        PipelineEnd::Sink(sink) => lookups + plan.lookups.len() + sink,
    })
}

/// Sources, stations and pipelines of a plan are fewer: places of rows have their numbers in 15 bits.
const MOST_PARTS: usize = 1 << 15;

fn check_sizes(plan: &QueryPlan, given: (usize, usize, usize), is_first: bool) -> Result<(), Diagnostic> {
    let sinks = plan.sinks.iter().filter(|sink| is_first || sink.is_on_every_node).count();
    let wanted = (plan.sources.len(), plan.pipelines.len(), sinks);
    if given != wanted {
        let message = format!("the parts of a run do not fit its plan: {given:?} instead of {wanted:?}");
        return Err(Diagnostic::bug(message));
    }
    let parts = plan
        .pipelines
        .len()
        .max(plan.sources.len() + plan.aggregations.len() + plan.operators.len() + plan.sorts.len());
    match parts < MOST_PARTS {
        true => Ok(()),
        false => Err(Diagnostic::new(code::UNSUPPORTED, format!("a statement of {parts} parts is too large"))
            .advise("say it in several statements; at most 32,767 tables, aggregations and joins go into one")),
    }
}

/// Which splits a node reads.
#[derive(Clone, Copy)]
struct SplitsOfNode<'a> {
    /// `None`: it reads all.
    nodes: Option<&'a Nodes>,
    distribution: &'a Distribution,
}

impl SplitsOfNode<'_> {
    fn has(self, source: usize, split: u32, assignment: &Assignment) -> bool {
        let reads = |nodes: &Nodes| assignment.node_of(source, split, nodes.count) == nodes.me;
        self.nodes.is_none_or(|nodes| self.distribution.is_whole[source] || reads(nodes))
    }
}

/// Streams and their channels, in the order of their numbers.
struct Streams<'a> {
    plan: &'a QueryPlan,
    restored: Option<&'a Restored<'a>>,
    is_checkpointed: bool,
    reads: SplitsOfNode<'a>,
    streams: Vec<Arc<Stream>>,
    /// Channels that end in each station so far.
    ports: Vec<usize>,
}

impl<'a> Streams<'a> {
    fn new(
        plan: &'a QueryPlan,
        restored: Option<&'a Restored<'a>>,
        is_checkpointed: bool,
        reads: SplitsOfNode<'a>,
    ) -> Streams<'a> {
        let outputs = plan.aggregations.len() + plan.operators.len() + plan.sorts.len();
        let stations = outputs + plan.lookups.len() + plan.sinks.len();
        Streams { plan, restored, is_checkpointed, reads, streams: Vec::new(), ports: vec![0; stations] }
    }

    /// The number of an input of pipelines: what a checkpoint says, or its place among those of the plan.
    fn number(&self, input: PipelineInput) -> u16 {
        let kept = self.restored.map(Restored::manifest);
        let (sources, aggregations) = (self.plan.sources.len(), self.plan.aggregations.len());
        let (kept, place) = match input {
            PipelineInput::Source(s) => (kept.map(|kept| kept.sources[s].number), s),
            PipelineInput::Aggregation(a) => (kept.map(|kept| kept.aggregations[a].number), sources + a),
            PipelineInput::Operator(o) => (kept.map(|kept| kept.operators[o].number), sources + aggregations + o),
            // No checkpoint has rows of a sort: any number serves that is not one of the others.
            PipelineInput::Sort(s) => (None, MOST_PARTS - 1 - s),
        };
        // A plan has fewer: `check_sizes`.
        kept.unwrap_or(place as u16)
    }

    /// Adds a stream, with a channel for every pipeline that reads it.
    fn stream(&mut self, input: PipelineInput, split: u32, feed: Feed, sequencer: Sequencer) -> StreamId {
        let id = StreamId::new(self.streams.len());
        let number = StreamNumber { input: self.number(input), split };
        let mut channels = Vec::new();
        for (pipeline, planned) in self.plan.pipelines.iter().enumerate().filter(|(_, p)| p.input == input) {
            let station = station_of(self.plan, &planned.end);
            let port = &mut self.ports[station.index()];
            channels.push(Channel { pipeline, station, port: Port::new(*port) });
            *port += 1;
        }
        self.streams.push(Arc::new(Stream::new((id, number), feed, channels, sequencer)));
        id
    }

    /// Adds the outputs of aggregations, keyed operators and sorts, which are the first stations.
    fn outputs(&mut self) -> Vec<Arc<Stream>> {
        let aggregations = (0..self.plan.aggregations.len()).map(PipelineInput::Aggregation);
        let inputs = aggregations.chain((0..self.plan.operators.len()).map(PipelineInput::Operator));
        let inputs = inputs.chain((0..self.plan.sorts.len()).map(PipelineInput::Sort));
        let output = |(station, input)| {
            let feed = Feed::Station(StationId::new(station));
            // Nodes own partitions in their order, so rows of equal watermarks are in the order that they have on one node.
            let node = self.reads.nodes.map_or(0, |nodes| nodes.me as u32);
            let stream = self.stream(input, node, feed, Sequencer::new(None, 0, None));
            Arc::clone(&self.streams[stream.index()])
        };
        inputs.enumerate().map(output).collect()
    }

    /// Adds the splits of a source.
    fn source(
        &mut self,
        index: usize,
        input: SourceInput,
        plan: &SourcePlan,
        config: &RunConfig,
        stats: &QueryStats,
        cancel: &CancelToken,
    ) -> Result<SourceRuntime, Diagnostic> {
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
        // What is looked up is read to its end before the first beat ends.
        let is_in_beats = self.plan.has_beats() && self.plan.sources.iter().all(|other| other.phase <= plan.phase);
        let is_event_time = config.beats.clock.is_event_time();
        let (mut decoder, mut constant, mut acknowledger, mut is_pulled) = (None, None, None, false);
        let reads = |assignment: &Assignment, split: u32| self.reads.has(index, split, assignment);
        let (splits, readers) = match input.rows {
            SourceRows::Constant { .. } if !reads(&Assignment::default(), 0) => (Vec::new(), 0),
            SourceRows::Constant { columns, rows } => {
                constant = Some((columns, rows));
                let begin = self.restored.map_or(Begin::Fresh, |restored| restored.constant(index));
                let name = "values".to_string();
                (vec![RestoredSplit::of(name, 0, begin)], 0)
            }
            SourceRows::Connector(mut source) => {
                let shared = self.reads.nodes.filter(|_| !self.reads.distribution.is_whole[index]);
                shared.into_iter().for_each(|nodes| source.share(nodes.me, nodes.count));
                if let Some(restored) = self.restored {
                    source.resumes(&restored.names(index));
                }
                let (readers, assignment) = match shared {
                    Some(nodes) => {
                        // What has been read of bounded input says nothing of what is left.
                        let unread = self.restored.filter(|_| !source.is_bounded());
                        let balanced =
                            |from: &Restored<'_>| Assignment::of(index, nodes.count, from.rows_of_splits(index));
                        let resumed = self.restored.map(|restored| restored.names(index)).unwrap_or_default();
                        let assigned = || unread.map(balanced).unwrap_or_default();
                        nodes.agree_on_splits((index, &mut *source), &resumed, assigned, cancel)?
                    }
                    None => (named(source.splits()?), Assignment::default()),
                };
                decoder = Some(source.decoder());
                acknowledger = source.acknowledger();
                let reads = |split: u32| reads(&assignment, split);
                let splits = match self.restored {
                    Some(restored) => restored.splits(index, readers, reads)?,
                    None => RestoredSplit::all_fresh(readers, reads)?,
                };
                is_pulled = splits.iter().filter_map(|split| split.reader.as_ref()).all(|reader| reader.never_waits());
                let count = splits.len();
                // A beat of event time ends where all splits have come to its end.
                let reads_all = source.waits() || (is_in_beats && is_event_time);
                (splits, if reads_all { count } else { count.min(config.readers.max(1)) })
            }
        };
        stats.sources[index].open(splits.iter().map(|split| split.name.to_string()));
        let clock = || clock_type.clone().map(ProcessingTime::new);
        let mut unread = VecDeque::new();
        let mut runtimes = Vec::with_capacity(splits.len());
        for (place, split) in splits.into_iter().enumerate() {
            let RestoredSplit { reader, name, number, begin, position, rows, behind, input, held } = split;
            let sequencer = Sequencer::new(clock(), rows, position).with_rows_again(behind).with_held(held);
            let sequencer = match (is_in_beats, is_event_time) {
                // Constant rows are of the first beat.
                (true, true) if constant.is_none() => sequencer.with_beats_of_time(),
                (true, false) => sequencer.with_beats_of(config.beats.rows_of_split),
                _ => sequencer,
            };
            let feed = Feed::Split(SplitId { source: index, split: place });
            let stream = self.stream(PipelineInput::Source(index), number, feed, sequencer);
            let is_spare = reader.as_ref().is_some_and(|reader| reader.is_spare());
            let witnessed = reader.as_ref().filter(|_| self.is_checkpointed);
            let input = Described { witness: witnessed.and_then(|reader| reader.witness()), before: input };
            runtimes.push(Split::new(stream, &name, begin, is_spare, input));
            if constant.is_none() {
                unread.push_back((place, reader));
            }
        }
        let idle_timeout = plan.watermark.as_ref().and_then(|w| w.idle_timeout_ms).filter(|&ms| ms > 0);
        Ok(SourceRuntime {
            number: self.number(PipelineInput::Source(index)),
            decoder,
            event_time,
            skipping,
            follows_clock: clock_type.is_some(),
            splits: runtimes,
            idle_timeout: idle_timeout.map(Duration::from_millis),
            unread: Mutex::new(unread),
            acknowledger: Mutex::new(acknowledger),
            constant: Mutex::new(constant),
            readers,
            is_pulled,
        })
    }
}

/// What stations are made of.
struct Stations<'a> {
    plan: &'a QueryPlan,
    host: &'a Arc<Host>,
    /// Channels that end in each.
    ports: &'a [usize],
    /// Of aggregations, then of keyed operators and sorts.
    outputs: &'a [Arc<Stream>],
    restored: Option<&'a Restored<'a>>,
    distribution: &'a Distribution,
}

type BuiltStations = Result<Vec<Arc<dyn Station>>, Diagnostic>;

impl Stations<'_> {
    /// The links of a station to itself on other nodes, if it is on several.
    fn links(&self, id: StationId, exchange: Exchange) -> Option<Links> {
        let nodes = self.host.nodes.as_ref().filter(|_| exchange != Exchange::Nothing);
        nodes.map(|nodes| Links::new(id, nodes, exchange, (&self.host.flow, &self.host.stats)))
    }

    /// How many nodes send their rows to a station that is on the first.
    fn other_nodes(&self, exchange: Exchange) -> usize {
        self.host.nodes.as_ref().filter(|_| exchange == Exchange::Gather).map_or(0, |nodes| nodes.count - 1)
    }

    /// The links of a station that is on the first node, on another.
    fn links_to_first(&self, id: StationId, exchange: Exchange) -> Option<Links> {
        let nodes = self.host.nodes.as_ref().filter(|nodes| exchange == Exchange::Gather && !nodes.is_first())?;
        Some(Links::new(id, nodes, exchange, (&self.host.flow, &self.host.stats)))
    }

    /// In place of a station that is on the first node: what sends rows there.
    fn gather(&self, links: Links, output: Option<StreamId>) -> Arc<dyn Station> {
        let channels = self.ports[links.station().index()];
        Arc::new(GatherStation::new(self.host, links, channels, output))
    }

    fn windows(&self, pipelines: &[StagedCode], nodes: usize, facts: &[Arc<SliceFacts>]) -> BuiltStations {
        let window = |(number, planned): (usize, &millstream_plan::pipeline::Aggregation)| {
            let layout = layout_of(self.plan, pipelines, number, &self.host.config)?;
            let layout = Arc::new(layout.in_partitions(self.host.partitions.table_bits()));
            let count = self.plan.counters_of_rows(number).of_all();
            let station = WindowStation::new(
                (number, StationId::new(number)),
                planned,
                (layout, count),
                (self.host, &self.outputs[number]),
                (self.ports[number], nodes),
                Arc::clone(&facts[number]),
                self.links(StationId::new(number), self.distribution.aggregations[number]),
            )?;
            Ok(Arc::new(station) as Arc<dyn Station>)
        };
        self.plan.aggregations.iter().enumerate().map(window).collect()
    }

    fn keyed(&self, codes: Vec<OperatorCode>) -> BuiltStations {
        let first = self.plan.aggregations.len();
        let operator = |(number, (planned, code)): (usize, (&_, OperatorCode))| {
            let id = StationId::new(first + number);
            let inputs = (self.ports[id.index()], is_derived(self.plan, number));
            let links = (self.host, &self.outputs[id.index()]);
            let nodes = self.links(id, self.distribution.operator(number));
            let station = KeyedStation::new((number, id), planned, code, links, inputs, nodes)?;
            Ok(Arc::new(station) as Arc<dyn Station>)
        };
        self.plan.operators.iter().zip(codes).enumerate().map(operator).collect()
    }

    fn sorts(&self) -> impl Iterator<Item = Arc<dyn Station>> {
        self.plan.sorts.iter().enumerate().map(|(number, planned)| {
            let id = station_of(self.plan, &PipelineEnd::Sort { sort: number });
            let links = (self.host, &self.outputs[id.index()]);
            let stats = &self.host.stats.operators[self.plan.operators.len() + number];
            let exchange = self.distribution.sorts[number];
            let role = match self.links_to_first(id, exchange) {
                // Of all rows none is left out before they are sent.
                Some(links) if planned.count.is_none() => {
                    return self.gather(links, Some(self.outputs[id.index()].id));
                }
                Some(links) => SortRole::Local(links),
                None => SortRole::Whole(self.other_nodes(exchange)),
            };
            let channels = (self.ports[id.index()], role);
            Arc::new(SortStation::new(id, planned, links, channels, stats)) as Arc<dyn Station>
        })
    }

    fn lookups<'t>(&self, parts: impl Iterator<Item = (PipelineCode, usize, &'t Arc<LookupTable>)>) -> BuiltStations {
        let lookup = |(number, (code, phase, table)): (usize, (PipelineCode, usize, &Arc<LookupTable>))| {
            let id = station_of(self.plan, &PipelineEnd::Build { lookup: number });
            let (schema, lanes) = (self.plan.lookups[number].schema.clone(), self.ports[id.index()]);
            let station = LookupStation::new((id, self.host), schema, code, phase, lanes, Arc::clone(table))?;
            Ok(Arc::new(station) as Arc<dyn Station>)
        };
        parts.enumerate().map(lookup).collect()
    }

    /// The stations of sinks, and on other nodes than the first those that send it the rows of a sink that only it has.
    fn sinks(&self, sinks: Vec<Box<dyn Sink>>) -> Vec<Arc<dyn Station>> {
        let mut sinks = sinks.into_iter();
        let station = |(number, planned): (usize, &SinkPlan)| {
            let id = station_of(self.plan, &PipelineEnd::Sink(number));
            let exchange = self.distribution.sinks[number];
            if let Some(links) = self.links_to_first(id, exchange) {
                return Some(self.gather(links, None));
            }
            let sink = sinks.next()?;
            let table = planned.table.as_ref().map_or_else(String::new, |table| table.name.clone());
            let lanes = self.ports[id.index()];
            let kept = self.restored.map(|restored| restored.manifest().sinks[number].number);
            let state = SinkState::new(kept.unwrap_or(number), table);
            let rows = (planned.skip, planned.limit);
            let ends_beats = planned.changes.is_some();
            let others = Some(self.other_nodes(exchange)).filter(|&others| others > 0);
            let gathered = others.map(|others| FromNodes::new(planned, lanes, others));
            let station = SinkStation::new((number, state), self.host, sink, lanes, ends_beats, rows, gathered);
            Some(Arc::new(station) as Arc<dyn Station>)
        };
        // As many as there are: `check_sizes`.
        self.plan.sinks.iter().enumerate().filter_map(station).collect()
    }
}

/// The entry layout of the programs that end in an aggregation.
fn layout_of(
    plan: &QueryPlan,
    pipelines: &[StagedCode],
    index: usize,
    config: &RunConfig,
) -> Result<EntryLayout, Diagnostic> {
    let mut layout: Option<EntryLayout> = None;
    for (pipeline, code) in plan.pipelines.iter().zip(pipelines) {
        if !matches!(pipeline.end, PipelineEnd::Aggregate { aggregation, .. } if aggregation == index) {
            continue;
        }
        let Some(Terminal::Update(update)) = code.stages.last().map(|c| &c.lowered.program.terminal) else {
            return Err(Diagnostic::bug("a pipeline that ends in an aggregation does not update tables"));
        };
        if *layout.get_or_insert_with(|| update.layout.clone()) != update.layout {
            return Err(Diagnostic::bug("pipelines of one aggregation disagree about its entries"));
        }
        if !code.suits(merge_strategy(config, &update.layout)) {
            return Err(Diagnostic::bug("a pipeline has no code for the way in which its tables are merged"));
        }
    }
    layout.ok_or_else(|| Diagnostic::bug("no pipeline ends in an aggregation"))
}

/// For each source the number of those whose watermarks advance the same operators: flow control compares their splits. `None` where
/// reading on completes no window.
fn watermark_groups(plan: &QueryPlan) -> Vec<Option<usize>> {
    let (sources, aggregations) = (plan.sources.len(), plan.aggregations.len());
    let place = |input| match input {
        PipelineInput::Source(source) => source,
        PipelineInput::Aggregation(aggregation) => sources + aggregation,
        PipelineInput::Operator(operator) => sources + aggregations + operator,
        PipelineInput::Sort(sort) => sources + aggregations + plan.operators.len() + sort,
    };
    // Of each source, aggregation, keyed operator and sort.
    let mut groups: Vec<usize> = (0..sources + aggregations + plan.operators.len() + plan.sorts.len()).collect();
    for pipeline in &plan.pipelines {
        let end = match pipeline.end {
            PipelineEnd::Aggregate { aggregation, .. } => PipelineInput::Aggregation(aggregation),
            PipelineEnd::Exchange { operator, .. } => PipelineInput::Operator(operator),
            // What a sort puts out does not depend on watermarks.
            PipelineEnd::Sink(_) | PipelineEnd::Build { .. } | PipelineEnd::Sort { .. } => continue,
        };
        let (from, into) = (groups[place(pipeline.input)], groups[place(end)]);
        groups.iter_mut().filter(|group| **group == from).for_each(|group| *group = into);
    }
    let has_event_time = |source: &SourcePlan| {
        source.watermark.as_ref().is_some_and(|watermark| watermark.rule != WatermarkRule::ProcessingTime)
    };
    plan.sources.iter().zip(groups).map(|(source, group)| has_event_time(source).then_some(group)).collect()
}

/// Whether no rows of a keyed operator come from a source without another operator in between.
fn is_derived(plan: &QueryPlan, index: usize) -> bool {
    let ends_there =
        |p: &&PlannedPipeline| matches!(p.end, PipelineEnd::Exchange { operator, .. } if operator == index);
    plan.pipelines.iter().filter(ends_there).all(|p| !matches!(p.input, PipelineInput::Source(_)))
}
