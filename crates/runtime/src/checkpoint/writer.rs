//! The checkpointing thread: puts the parts of checkpoints into files and completes them.

use super::{CheckpointConfig, Checkpointing, Message, Part, Saved, SavedPartition, StateBlob, SweptSlices};
use crate::aggregation::Aggregation;
use crate::query::Query;
use crate::source::SourceRuntime;
use crate::spill::unreadable;
use crate::tables::{Frozen, FrozenByNumber, OpenTables};
use millstream_connectors::{Acknowledger, Commit, Position};
use millstream_plan::pipeline::SinkPlan;
use millstream_plan::shape::PlanShape;
use millstream_state::{PARTITIONS, Partial};
use millstream_storage::{
    AggregationState, BlobRef, FORMAT, Manifest, OperatorState, PackWriter, PartitionState, SinkState, SourceState,
    TableState, WaitingState, store_failed,
};
use millstream_types::{Diagnostic, code};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tables of one slice and about one size that become one.
const TIER: usize = 8;

/// A checkpoint whose parts are coming.
struct Gathering {
    number: u64,
    begun: Instant,
    pack: PackWriter,
    /// Parts of components that are still to come, as far as is known.
    missing: Option<usize>,
    /// Those that have come.
    arrived: usize,
    sources: Vec<SourceState>,
    aggregations: Vec<AggregationState>,
    operators: Vec<Gathered>,
    commits: Vec<Option<Box<dyn Commit>>>,
    /// Tables that this checkpoint has written, and where.
    written: Vec<(Arc<Frozen>, TableState)>,
}

/// What has come of a keyed operator.
#[derive(Default)]
struct Gathered {
    /// Watermark and windows.
    state: Option<(i64, Vec<i64>)>,
    has_ended: bool,
    partitions: Vec<Option<PartitionState>>,
}

/// What is kept from one checkpoint to the next.
struct Writer<'a> {
    query: &'a Query,
    config: &'a CheckpointConfig,
    /// What the plan keeps.
    shape: Value,
    /// Where the partitions of operators were at the last checkpoint.
    partitions: Vec<Vec<Option<PartitionState>>>,
    acknowledgers: Vec<Option<Box<dyn Acknowledger>>>,
}

/// The body of the checkpointing thread. Ends when nobody can send parts any more, or with the error that ends the query. When
/// the input has come to its end, all parts of the checkpoint that is under way have been sent: the end comes to a sink behind
/// all that its cut has met, and the query ends with the last sink. So that one is completed, too, like any other.
pub(crate) fn write_checkpoints(query: &Query, messages: Receiver<Message>) -> Result<(), Diagnostic> {
    let Some(checkpointing) = &query.checkpointing else { return Ok(()) };
    let config = &checkpointing.config;
    let restored = config.restored.iter().flat_map(|manifest| &manifest.operators);
    let mut partitions: Vec<Vec<Option<PartitionState>>> =
        restored.map(|operator| operator.partitions.iter().cloned().map(Some).collect()).collect();
    partitions.resize(query.operators.len(), Vec::new());
    let acknowledgers = query.sources.iter().map(|source| source.acknowledger.lock().take()).collect();
    let mut writer = Writer { query, config, shape: shape_of(query), partitions, acknowledgers };
    let mut gathering: Option<Gathering> = None;
    for (number, part) in messages {
        let mut current = match gathering.take() {
            Some(current) if current.number == number => current,
            _ => writer.begin(number),
        };
        writer.take(&mut current, part).map_err(|e| writer.failed(number, e))?;
        if current.missing == Some(0) {
            writer.complete(current)?;
            checkpointing.complete(number);
            query.cancel.wake();
        } else {
            gathering = Some(current);
        }
    }
    Ok(())
}

/// Ends the job: the last spans of the sinks are committed with a checkpoint that says so. All rows are written, and no thread
/// is at work any more.
pub(crate) fn finish_job(query: &Query) -> Result<(), Diagnostic> {
    let Some(checkpointing) = &query.checkpointing else { return Ok(()) };
    let config = &checkpointing.config;
    let number = checkpointing.number(query.cuts.next());
    let writer = Writer { query, config, shape: shape_of(query), partitions: Vec::new(), acknowledgers: Vec::new() };
    let mut last = writer.begin(number);
    for (place, egress) in query.sinks.iter().enumerate() {
        last.commits[place] = egress.with_sink(|sink| sink.cut(number))?.flatten();
    }
    let state = |(number, source): (usize, &SourceRuntime)| {
        let rows = |split| query.stats.sources[number].split(split).rows.load(Relaxed);
        let splits = source
            .splits
            .iter()
            .enumerate()
            .filter_map(|(split, runtime)| runtime.as_read(query.streams[runtime.stream].number, rows(split)));
        SourceState { table: query.plan.sources[number].name().to_string(), splits: splits.collect() }
    };
    last.sources = query.sources.iter().enumerate().map(state).collect();
    writer.commit(last, true)
}

fn shape_of(query: &Query) -> Value {
    serde_json::to_value(PlanShape::of(&query.plan)).expect("shapes are texts, numbers and lists")
}

impl Writer<'_> {
    fn begin(&self, number: u64) -> Gathering {
        let ended = |aggregation: &Aggregation| AggregationState {
            stream: self.query.streams[aggregation.output].number,
            watermark: i64::MAX,
            tables: vec![],
            slices: vec![],
            swept: None,
        };
        Gathering {
            number,
            begun: Instant::now(),
            pack: self.config.checkpoints.pack(number),
            missing: None,
            arrived: 0,
            sources: Vec::new(),
            aggregations: self.query.aggregations.iter().map(ended).collect(),
            operators: (0..self.query.operators.len()).map(|_| Gathered::default()).collect(),
            commits: (0..self.query.sinks.len()).map(|_| None).collect(),
            written: Vec::new(),
        }
    }

    fn failed(&self, number: u64, error: Failure) -> Diagnostic {
        match error {
            Failure::Diagnostic(diagnostic) => diagnostic,
            Failure::Store(error) => {
                let place = self.config.checkpoints.store().place();
                let what = format!("checkpoint {number} could not be written to {place}");
                store_failed(code::CHECKPOINT_FAILED, &what, &error)
            }
        }
    }

    /// Takes a part, and writes what it has to keep.
    fn take(&mut self, current: &mut Gathering, part: Part) -> Result<(), Failure> {
        match part {
            Part::Sources { sources, components } => {
                current.sources = sources;
                current.missing = Some(components - current.arrived);
                return Ok(());
            }
            Part::Aggregation { aggregation, watermark, tables, overlap } => {
                let tables = self.compacted(aggregation, tables)?;
                let tables = self.tables(current, aggregation, &tables)?;
                let SweptSlices { slices, swept } =
                    overlap.unwrap_or(SweptSlices { slices: FrozenByNumber::new(), swept: None });
                let slices = self.tables(current, aggregation, &slices)?;
                let state = &mut current.aggregations[aggregation];
                *state = AggregationState { stream: state.stream, watermark, tables, slices, swept };
            }
            Part::Operator { operator, watermark, windows, has_ended } => {
                let gathered = &mut current.operators[operator];
                (gathered.state, gathered.has_ended) = (Some((watermark, windows)), has_ended);
                if !gathered.is_whole() {
                    return Ok(());
                }
            }
            Part::Partition { operator, partition, kept } => {
                let before = self.partitions[operator].get(partition).and_then(Option::as_ref);
                let state = partition_state(kept, before, &mut current.pack)?;
                let gathered = &mut current.operators[operator];
                gathered.partitions.resize(self.query.operators[operator].partitions(), None);
                gathered.partitions[partition] = Some(state);
                if !gathered.is_whole() {
                    return Ok(());
                }
            }
            Part::Sink { sink, commit } => current.commits[sink] = commit,
        }
        current.arrived += 1;
        current.missing = current.missing.map(|missing| missing - 1);
        Ok(())
    }

    /// The same with fewer tables: each generation leaves one for each worker and slice, most of them with the same keys. As many
    /// as [`TIER`] of about one size become one, so that an entry is copied a logarithmic number of times.
    fn compacted(&self, aggregation: usize, mut tables: FrozenByNumber) -> Result<FrozenByNumber, Diagnostic> {
        let open = &self.query.aggregations[aggregation].tables;
        for (&id, tables) in &mut tables {
            let mut tiers: BTreeMap<u32, Vec<Arc<Frozen>>> = BTreeMap::new();
            // What is not in memory stays as it is.
            for table in tables.iter().filter(|table| !table.is_stored()) {
                tiers.entry(table.len().max(1).ilog2() / 2).or_default().push(Arc::clone(table));
            }
            for tier in tiers.into_values().filter(|tier| tier.len() >= TIER) {
                let partials = tier.iter().map(|table| table.partial(open)).collect::<Result<Vec<_>, _>>()?;
                let one = Arc::new(Frozen::compacted(Partial::compacted(&partials, open.budget())));
                open.replace(id, &tier, &one);
                tables.retain(|table| !tier.iter().any(|other| Arc::ptr_eq(other, table)));
                tables.push(one);
            }
        }
        Ok(tables)
    }

    /// Writes the tables that no checkpoint has written.
    fn tables(
        &self,
        current: &mut Gathering,
        aggregation: usize,
        tables: &FrozenByNumber,
    ) -> Result<Vec<TableState>, Failure> {
        let open = &self.query.aggregations[aggregation].tables;
        let mut states = Vec::new();
        for (&id, tables) in tables {
            for table in tables {
                let before =
                    current.written.iter().find(|(other, _)| Arc::ptr_eq(other, table)).map(|(_, state)| state);
                if let Some(kept) = table.kept().or(before) {
                    states.push(TableState { id, ..kept.clone() });
                    continue;
                }
                let state = TableState { id, ..write_table(table, open, &mut current.pack)? };
                current.written.push((Arc::clone(table), state.clone()));
                states.push(state);
            }
        }
        Ok(states)
    }

    /// All parts are there.
    fn complete(&mut self, mut current: Gathering) -> Result<(), Diagnostic> {
        for (operator, gathered) in current.operators.iter_mut().enumerate() {
            self.partitions[operator] = std::mem::take(&mut gathered.partitions);
        }
        let (number, begun) = (current.number, current.begun);
        let sources = current.sources.clone();
        let written = std::mem::take(&mut current.written);
        self.commit(current, false)?;
        written.into_iter().for_each(|(table, state)| table.keep(state));
        for (acknowledger, source) in self.acknowledgers.iter_mut().zip(&sources) {
            let Some(acknowledger) = acknowledger else { continue };
            let position = |split: &millstream_storage::SplitState| {
                let position = |at| Position { at, line: split.line };
                split.at.map(|at| (split.name.clone(), position(at)))
            };
            let positions: Vec<(String, Position)> = source.splits.iter().filter_map(position).collect();
            if let Err(diagnostic) = acknowledger.acknowledge(&positions) {
                self.query.stats.note_event(
                    format!("source {}", source.table),
                    diagnostic.to_string(),
                    "positions of the checkpoint are not told to the outside".into(),
                );
            }
        }
        self.query.stats.checkpoints.note(number, begun.elapsed());
        Ok(())
    }

    /// Adds what was read to how far it was read.
    fn describe_inputs(&self, sources: &mut [SourceState]) {
        for (runtime, state) in self.query.sources.iter().zip(sources) {
            // Both are in the same order, but for splits that have nothing yet.
            let mut splits = runtime.splits.iter();
            for split in &mut state.splits {
                let at = split.at.map(|at| Position { at, line: split.line });
                let found = splits.find(|runtime| *runtime.name() == split.name);
                split.input = found.and_then(|runtime| runtime.describe(at, split.ended));
            }
        }
    }

    /// Prepares the spans, writes the manifest, commits the spans, and removes older checkpoints.
    fn commit(&self, current: Gathering, is_finished: bool) -> Result<(), Diagnostic> {
        let Gathering { number, pack, mut sources, aggregations, operators, mut commits, .. } = current;
        self.describe_inputs(&mut sources);
        let failed = |e: io::Error| self.failed(number, Failure::Store(e));
        let bytes_written = pack.finish().map_err(failed)?;
        let sink = |(commit, plan): (&mut Option<Box<dyn Commit>>, &SinkPlan)| {
            let token = commit.as_mut().map(|commit| commit.prepare()).transpose()?;
            let table = plan.table.as_ref().map_or_else(String::new, |table| table.name.clone());
            Ok(SinkState { table, token })
        };
        let sinks = commits.iter_mut().zip(&self.query.plan.sinks).map(sink).collect::<Result<_, Diagnostic>>()?;
        let operator = |(index, gathered): (usize, &Gathered)| {
            let (watermark, windows) = gathered.state.clone().unwrap_or((i64::MAX, Vec::new()));
            let partitions = match gathered.has_ended || gathered.state.is_none() {
                true => Vec::new(),
                false => self.partitions[index].iter().flatten().cloned().collect(),
            };
            let stream = self.query.streams[self.query.operators[index].output].number;
            OperatorState { stream, watermark, partitions, windows }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let manifest = Manifest {
            format: FORMAT,
            checkpoint: number,
            job: self.config.job.clone(),
            written_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            version: env!("CARGO_PKG_VERSION").into(),
            is_finished,
            shape: self.shape.clone(),
            sources,
            aggregations,
            operators: operators.iter().enumerate().map(operator).collect(),
            sinks,
            bytes_written,
        };
        self.config.checkpoints.write(&manifest).map_err(failed)?;
        let mut commits: Vec<Box<dyn Commit>> = commits.into_iter().flatten().collect();
        commits.sort_by_key(|commit| !commit.dies_with_process());
        commits.into_iter().try_for_each(|commit| commit.commit())?;
        // Numbers have gaps where a process has ended: those that are there count.
        let kept = self.config.checkpoints.numbers().map_err(failed)?;
        let oldest = kept.get(self.config.retained.max(1) - 1).copied().unwrap_or(0);
        let read = self.query.checkpointing.iter().flat_map(Checkpointing::files_read).collect();
        self.config.checkpoints.delete(|checkpoint| checkpoint < oldest, read).map_err(failed)?;
        self.query.stats.checkpoints.bytes.fetch_add(bytes_written, Relaxed);
        self.query.stats.checkpoints.state_bytes.store(manifest.state_bytes(), Relaxed);
        Ok(())
    }
}

impl Gathered {
    /// Whether nothing more comes.
    fn is_whole(&self) -> bool {
        let all = !self.partitions.is_empty() && self.partitions.iter().all(Option::is_some);
        self.state.is_some() && (self.has_ended || all)
    }
}

/// What a partition keeps, written as far as it is not what it was `before`.
fn partition_state(
    kept: Option<SavedPartition>,
    before: Option<&PartitionState>,
    pack: &mut PackWriter,
) -> Result<PartitionState, Failure> {
    let unchanged = || before.ok_or_else(|| Diagnostic::bug("a partition that was not stored says it is unchanged"));
    let Some(SavedPartition { state, due, waiting }) = kept else { return Ok(unchanged()?.clone()) };
    let state = match state {
        Some(state) => write_saved(state, pack)?,
        None => unchanged()?.state.clone(),
    };
    let waiting = waiting.into_iter().map(|(about, rows)| Ok(WaitingState { blob: write_saved(rows, pack)?, about }));
    Ok(PartitionState { state, due, waiting: waiting.collect::<Result<_, Failure>>()? })
}

/// Where encoded state is in files of checkpoints.
fn write_saved(saved: Saved, pack: &mut PackWriter) -> Result<BlobRef, Failure> {
    Ok(match saved {
        Saved::Bytes(bytes) => pack.write(&bytes)?,
        Saved::Blob(StateBlob::Checkpointed(stored)) => stored.blob.clone(),
        Saved::Blob(StateBlob::Spilled(blob)) => pack.write(&blob.read().map_err(unreadable)?)?,
    })
}

/// Writes a table; one that is spilled is copied block by block.
fn write_table(table: &Frozen, open: &OpenTables, pack: &mut PackWriter) -> Result<TableState, Failure> {
    let mut partitions = vec![Vec::new(); PARTITIONS];
    let entries = match table.stored() {
        Some(stored) => {
            for (partition, blobs) in partitions.iter_mut().enumerate() {
                for block in stored.blocks(partition) {
                    blobs.push(pack.write(&block?)?);
                }
            }
            table.len()
        }
        None => {
            let partial = table.partial(open)?;
            for (partition, blobs) in partitions.iter_mut().enumerate() {
                *blobs = partial.blocks(partition).map(|block| pack.write(&block)).collect::<io::Result<_>>()?;
            }
            partial.len()
        }
    };
    Ok(TableState { id: 0, entries: entries as u64, partitions })
}

/// Why a part could not be stored.
enum Failure {
    Diagnostic(Diagnostic),
    Store(io::Error),
}

impl From<Diagnostic> for Failure {
    fn from(diagnostic: Diagnostic) -> Failure {
        Failure::Diagnostic(diagnostic)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Store(error)
    }
}
