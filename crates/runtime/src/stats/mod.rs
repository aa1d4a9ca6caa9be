//! Counters of a running query, for the status line, the summary, tests and programs.
//!
//! All counters are relaxed atomics, each written by any worker a few times a task. What waits is the difference of two
//! counters, what has begun and what was added before; so nothing is locked. A snapshot is not a consistent cut.

mod beats;
mod checkpoints;
mod compilation;
mod cycles;
pub(crate) mod forms;
mod histogram;
mod nodes;
mod own;
mod program_snapshot;
mod programs;
mod samples;
mod sent;
mod snapshot;
mod spans;
mod spill;
mod sum;
mod tap;
mod waits;

pub use beats::BeatSnapshot;
pub(crate) use beats::BeatStats;
pub(crate) use checkpoints::CheckpointStats;
pub use checkpoints::{CheckpointRecord, CheckpointSnapshot};
pub use compilation::{CodeOrigin, Compilation};
use cycles::CycleClock;
pub(crate) use histogram::Histogram;
pub use histogram::Times;
use nodes::NodeReports;
pub(crate) use nodes::{NodeLanes, NodeReport};
pub use program_snapshot::{ColumnSnapshot, KeysSnapshot, ProfileSnapshot, ProgramSnapshot, VariantSnapshot};
pub(crate) use programs::ProgramStats;
pub use programs::UsedVariant;
pub(crate) use samples::Samples;
pub use samples::{BadRow, RowSample};
pub use sent::SentSnapshot;
pub(crate) use sent::SentStats;
pub use snapshot::{
    Begun, LaneSnapshot, NodeSnapshot, PipelineSnapshot, STATS_VERSION, SinkSnapshot, SourceSnapshot, SplitSnapshot,
    StatsSnapshot, TriggerSnapshot, WorkerSnapshot,
};
use spans::SpanLog;
pub use spans::{SpanKind, SpanRecord};
pub use spill::SpillSnapshot;
use tap::RowTap;
pub use tap::SeenRows;
pub(crate) use waits::Waits;
pub use waits::{WaitCause, WaitSnapshot};

pub use crate::adaptive::signals::hardware_counters::HardwareSnapshot;
use crate::adaptive::signals::hardware_counters::HardwareTotals;
use crate::adaptive::{Decision, EventKind, EventLog};
use crate::ids::SplitId;
use crate::schedule::scheduler::Scheduler;
use crate::stream::Stream;
use arrow_array::{Array, ArrayRef};
use millstream_plan::pipeline::{ColumnOrigin, QueryPlan, ScanKind, SinkPlan, SourceColumn, SourcePlan};
use millstream_state::{MemoryBudget, MemorySnapshot};
use millstream_storage::SpillCounters;
use millstream_types::{Diagnostic, Schema, counted};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Counters of a run; shared by the engine's callers and the workers.
#[derive(Debug, Default)]
pub struct QueryStats {
    clock: CycleClock,
    /// How long the run has taken, once it has ended.
    ended: OnceLock<Duration>,
    pub(crate) rows_out: AtomicU64,
    pub(crate) late_rows: AtomicU64,
    pub(crate) skipped_rows: AtomicU64,
    pub(crate) error_rows: AtomicU64,
    pub(crate) windows_fired: AtomicU64,
    pub(crate) beats: BeatStats,
    first_error: Mutex<Option<Diagnostic>>,
    pub(crate) samples: Samples,
    compilations: Mutex<Vec<Compilation>>,
    pub(crate) events: EventLog,
    spans: Arc<SpanLog>,
    pub(crate) programs: ProgramStats,
    pub(crate) sources: Vec<SourceStats>,
    pub(crate) pipelines: Vec<PipelineStats>,
    pub(crate) aggregations: Vec<Arc<TriggerStats>>,
    /// Of keyed operators, then of sorts.
    pub(crate) operators: Vec<Arc<TriggerStats>>,
    pub(crate) sinks: Vec<Arc<SinkStats>>,
    /// Of each station, by its number.
    pub(crate) sent: Vec<SentStats>,
    pub(crate) hardware: HardwareTotals,
    pub(crate) checkpoints: CheckpointStats,
    pub(crate) spill: Arc<SpillCounters>,
    /// On the first of several nodes: what they have told.
    pub(crate) reports: NodeReports,
    /// Set when the query is built.
    memory: OnceLock<Arc<MemoryBudget>>,
    /// Known from the start on.
    workers: OnceLock<Vec<WorkerStats>>,
    /// While the run lasts: what is asked for rather than counted.
    asked: Mutex<Option<Asked>>,
}

/// Parts of a run that know what they hold at the moment.
struct Asked {
    scheduler: Arc<Scheduler>,
    streams: Vec<Arc<Stream>>,
    lanes: Option<Arc<dyn NodeLanes>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} streams", self.streams.len())
    }
}

/// Counters of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceStats {
    name: String,
    pub(crate) decode_time: Histogram,
    /// Those that may be NULL, by their position among the columns that are read.
    nullable: Vec<NullableColumn>,
    /// Known from the start on.
    splits: OnceLock<Vec<SplitStats>>,
}

/// A column of a source that may be NULL.
#[derive(Debug)]
struct NullableColumn {
    name: String,
    position: usize,
    /// Whether a row had a value, or may have had one.
    is_filled: AtomicBool,
}

/// Counters of a split.
#[derive(Debug, Default)]
pub(crate) struct SplitStats {
    name: String,
    pub(crate) rows: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Chunks read.
    pub(crate) read: AtomicU64,
    /// Chunks whose decoding has begun.
    pub(crate) begun: AtomicU64,
    /// Chunks decoded.
    pub(crate) chunks: AtomicU64,
    watermark: Watermark,
    pub(crate) is_idle: AtomicBool,
    pub(crate) has_ended: AtomicBool,
    /// One more than the lag; 0 if it is not known.
    lag: AtomicU64,
    /// Why its server does not answer, while it does not.
    trouble: Mutex<Option<String>>,
    pub(crate) waits: Waits,
    /// When the last chunk was read, in milliseconds since the statistics were made.
    last_chunk_ms: AtomicU64,
}

/// Counters of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct PipelineStats {
    pub(crate) rows_in: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    /// Buffers scheduled.
    scheduled: AtomicU64,
    /// Buffers whose processing has begun.
    pub(crate) buffers: AtomicU64,
    queued_max: AtomicU64,
    pub(crate) task_time: Histogram,
    /// Of each stream that it reads; known from the start on.
    watermarks: OnceLock<Vec<Watermark>>,
}

/// Counters of a windowed aggregation, a keyed operator or a sort, which the station has.
#[derive(Debug)]
pub(crate) struct TriggerStats {
    pub(crate) name: String,
    unit: fn(u64) -> Begun,
    pub(crate) begun: AtomicU64,
    pub(crate) rows_out: AtomicU64,
    busy_nanos: AtomicU64,
    pub(crate) delay: Histogram,
    /// Its part of the memory budget, on each node of this process.
    holds: Mutex<Vec<Arc<MemoryBudget>>>,
    spans: Arc<SpanLog>,
}

impl TriggerStats {
    fn new(name: String, unit: fn(u64) -> Begun, spans: &Arc<SpanLog>) -> Arc<TriggerStats> {
        let (begun, rows_out, busy_nanos, delay, holds) = Default::default();
        Arc::new(TriggerStats { name, unit, begun, rows_out, busy_nanos, delay, holds, spans: Arc::clone(spans) })
    }

    /// The rows of a window or a turn are out, so long after the watermark that called for them.
    pub(crate) fn delivered(&self, delay: Duration) {
        self.delay.record(delay);
        self.spans.note(SpanKind::Trigger, delay, || self.name.clone(), &[]);
    }

    /// A part of the budget, whose bytes are those of its state.
    pub(crate) fn part_of(&self, budget: &MemoryBudget) -> Arc<MemoryBudget> {
        let part = budget.part();
        self.holds.lock().push(Arc::clone(&part));
        part
    }

    /// A worker has spent so much time on it.
    pub(crate) fn spent(&self, time: Duration) {
        self.busy_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

/// Counters of a sink.
#[derive(Debug, Default)]
pub(crate) struct SinkStats {
    name: String,
    rows: AtomicU64,
    busy_nanos: AtomicU64,
    /// When the write that is under way has begun.
    writing: Mutex<Option<Instant>>,
    /// When the commit that is under way has begun.
    committing: Mutex<Option<Instant>>,
    /// Its columns.
    schema: Schema,
    changes: bool,
    tap: RowTap,
    spans: Arc<SpanLog>,
}

impl SinkStats {
    fn new(index: usize, plan: &SinkPlan, spans: &Arc<SpanLog>) -> SinkStats {
        let target = plan.table.as_ref().map_or("result", |table| &table.name);
        let (name, schema) = (format!("sink {index}: {target}"), plan.schema.clone());
        let (changes, spans) = (plan.changes.is_some(), Arc::clone(spans));
        SinkStats { name, schema, changes, spans, ..SinkStats::default() }
    }

    /// Rows have been made for it.
    pub(crate) fn show(&self, columns: &[ArrayRef], rows: usize) {
        self.tap.note(&self.schema, columns, rows);
    }

    /// The rows that have come to it last, since somebody looks.
    fn look(&self) -> SeenRows {
        let change = self.changes.then(|| ("change".to_string(), "STRING".to_string()));
        let columns = self.schema.fields.iter().map(|field| (field.name.clone(), field.data_type.to_string()));
        SeenRows {
            sink: self.name.clone(),
            columns: change.into_iter().chain(columns).collect(),
            rows: self.tap.look(),
        }
    }

    /// Writing begins.
    pub(crate) fn writes(&self, since: Instant) {
        *self.writing.lock() = Some(since);
    }

    /// `rows` rows were written in `time`.
    pub(crate) fn wrote(&self, rows: u64, time: Duration) {
        *self.writing.lock() = None;
        self.rows.fetch_add(rows, Relaxed);
        self.busy_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// A span of the sink is prepared or committed, by the thread of the checkpoints.
    pub(crate) fn commits<T>(&self, commit: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        *self.committing.lock() = Some(begun);
        let done = commit();
        *self.committing.lock() = None;
        self.spans.note(SpanKind::Commit, begun.elapsed(), || self.name.clone(), &[]);
        done
    }
}

/// Counters of a worker, in their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerStats {
    tasks: AtomicU64,
    busy_nanos: AtomicU64,
}

/// A released watermark in milliseconds; it only advances.
#[derive(Debug)]
struct Watermark(AtomicI64);

impl Default for Watermark {
    fn default() -> Watermark {
        Watermark(AtomicI64::new(i64::MIN))
    }
}

impl Watermark {
    fn raise(&self, to: i64) {
        self.0.fetch_max(to, Relaxed);
    }

    /// The lowest of several: the highest of all where there are none, and the lowest of all as long as it is not known which there are.
    fn lowest<'a>(watermarks: Option<impl Iterator<Item = &'a Watermark>>) -> i64 {
        let lowest = |of: &mut dyn Iterator<Item = &'a Watermark>| of.map(|w| w.0.load(Relaxed)).min();
        watermarks.map_or(i64::MIN, |mut watermarks| lowest(&mut watermarks).unwrap_or(i64::MAX))
    }
}

impl SourceStats {
    fn new(index: usize, plan: &SourcePlan) -> SourceStats {
        let rows = match &plan.scan {
            ScanKind::Table(table) => format!("table {}", table.name),
            ScanKind::Values(rows) => format!("{} constant rows", rows.len()),
        };
        let column = |(position, column): (usize, &SourceColumn)| {
            let is_of_records = matches!(&column.origin, ColumnOrigin::Path(_)) && column.in_record.is_none();
            let is_judged = column.nullable && is_of_records && matches!(plan.scan, ScanKind::Table(_));
            let (name, is_filled) = (column.name.clone(), AtomicBool::new(false));
            is_judged.then_some(NullableColumn { name, position, is_filled })
        };
        let nullable = plan.columns.iter().enumerate().filter_map(column).collect();
        SourceStats { name: format!("source {index}: {rows}"), nullable, ..SourceStats::default() }
    }

    /// Looks at the columns of decoded rows for values; `whole`: at these only, the others may lack rows.
    pub(crate) fn look_for_values(&self, columns: &[ArrayRef], whole: Option<&[usize]>) {
        for column in self.nullable.iter().filter(|column| !column.is_filled.load(Relaxed)) {
            let is_whole = whole.is_none_or(|whole| whole.contains(&column.position));
            let array = &columns[column.position];
            if !is_whole || array.null_count() < array.len() {
                column.is_filled.store(true, Relaxed);
            }
        }
    }

    /// Notes the splits.
    pub(crate) fn open(&self, names: impl Iterator<Item = String>) {
        let splits = names.map(|name| SplitStats { name, ..SplitStats::default() }).collect();
        // Unset so far: `QueryStats::check` has been asked.
        let _ = self.splits.set(splits);
    }

    /// Counters of a split.
    pub(crate) fn split(&self, split: usize) -> &SplitStats {
        &self.splits.get().expect("a source is opened before it is read")[split]
    }
}

impl PipelineStats {
    /// A buffer waits from now on.
    pub(crate) fn schedule(&self) {
        let scheduled = self.scheduled.fetch_add(1, Relaxed) + 1;
        self.queued_max.fetch_max(scheduled.saturating_sub(self.buffers.load(Relaxed)), Relaxed);
    }
}

impl WorkerStats {
    /// Counts a task.
    pub(crate) fn count(&self, time: Duration) {
        self.tasks.fetch_add(1, Relaxed);
        self.busy_nanos.fetch_add(time.as_nanos() as u64, Relaxed);
    }
}

impl QueryStats {
    /// Zeroes for a plan.
    pub fn new(plan: &QueryPlan) -> QueryStats {
        let spans = Arc::<SpanLog>::default();
        let triggers = |what: &str, count: usize, unit: fn(u64) -> Begun| -> Vec<Arc<TriggerStats>> {
            (0..count).map(|i| TriggerStats::new(format!("{what} {i}"), unit, &spans)).collect()
        };
        let keyed = triggers("operator", plan.operators.len(), Begun::Jobs);
        let outputs = plan.aggregations.len() + plan.operators.len() + plan.sorts.len();
        let stations = outputs + plan.lookups.len() + plan.sinks.len();
        QueryStats {
            sent: (0..stations).map(|_| SentStats::default()).collect(),
            sources: plan.sources.iter().enumerate().map(|(i, s)| SourceStats::new(i, s)).collect(),
            pipelines: plan.pipelines.iter().map(|_| PipelineStats::default()).collect(),
            aggregations: triggers("aggregation", plan.aggregations.len(), Begun::Windows),
            operators: [keyed, triggers("sort", plan.sorts.len(), Begun::Jobs)].concat(),
            sinks: plan.sinks.iter().enumerate().map(|(i, s)| Arc::new(SinkStats::new(i, s, &spans))).collect(),
            spans,
            ..QueryStats::default()
        }
    }

    /// Whether they were made for this plan.
    pub(crate) fn check(&self, plan: &QueryPlan) -> Result<(), Diagnostic> {
        let operators = plan.operators.len() + plan.sorts.len();
        let wanted = [plan.sources.len(), plan.pipelines.len(), plan.aggregations.len(), operators];
        let given = [self.sources.len(), self.pipelines.len(), self.aggregations.len(), self.operators.len()];
        match given == wanted && self.workers.get().is_none() {
            true => Ok(()),
            false => Err(Diagnostic::bug("the statistics of a run were made for another one")),
        }
    }

    /// Notes how a run looks: what streams each pipeline reads, and how many workers there are.
    pub(crate) fn open(
        &self,
        streams: &[Arc<Stream>],
        scheduler: &Arc<Scheduler>,
        workers: usize,
        lanes: Option<Arc<dyn NodeLanes>>,
    ) {
        for (pipeline, stats) in self.pipelines.iter().enumerate() {
            let reads = |s: &&Arc<Stream>| s.channels.iter().any(|c| c.pipeline == pipeline);
            let watermarks = streams.iter().filter(reads).map(|_| Watermark::default()).collect();
            // Unset so far: `check` has been asked.
            let _ = stats.watermarks.set(watermarks);
        }
        let _ = self.workers.set((0..workers).map(|_| WorkerStats::default()).collect());
        *self.asked.lock() = Some(Asked { scheduler: Arc::clone(scheduler), streams: streams.to_vec(), lanes });
    }

    /// The run has ended.
    pub(crate) fn end(&self) {
        *self.asked.lock() = None;
        self.programs.end();
        let _ = self.ended.set(self.clock.started.elapsed());
    }

    /// Counters of a worker.
    pub(crate) fn worker(&self, worker: usize) -> &WorkerStats {
        &self.workers.get().expect("the number of workers is noted before they start")[worker]
    }

    /// Tasks that workers have done, and the time that they have spent on them, all together.
    pub(crate) fn work_done(&self) -> (u64, Duration) {
        let workers = || self.workers.get().into_iter().flatten();
        let busy = workers().map(|w| w.busy_nanos.load(Relaxed)).sum();
        (workers().map(|w| w.tasks.load(Relaxed)).sum(), Duration::from_nanos(busy))
    }

    /// Shows what is held of a budget; the first one counts.
    pub(crate) fn watch_memory(&self, budget: &Arc<MemoryBudget>) {
        self.memory.get_or_init(|| Arc::clone(budget));
    }

    /// Counts rows that were dropped for an error and keeps the first error as a sample.
    pub(crate) fn skip_errors(&self, rows: u64, sample: Option<&Diagnostic>) {
        self.error_rows.fetch_add(rows, Relaxed);
        if let Some(sample) = sample {
            self.first_error.lock().get_or_insert_with(|| sample.clone());
            self.samples.note(BadRow::Failed, || sample.to_string());
        }
    }

    /// What has taken its time since the last call; the first one has it kept from then on.
    pub fn take_spans(&self) -> Vec<SpanRecord> {
        self.spans.take()
    }

    /// A checkpoint is complete.
    pub(crate) fn note_checkpoint(&self, record: CheckpointRecord) {
        let CheckpointRecord { number, duration, cut, write, commit, .. } = record;
        let parts = [("cut", cut), ("write", write), ("commit", commit)];
        self.spans.note(SpanKind::Checkpoint, duration, || number.to_string(), &parts);
        self.checkpoints.record(record);
    }

    /// The rows that sinks of this node have got last. Who asks has them looked at for some seconds; the first answer may have none.
    pub fn look_at_rows(&self) -> Vec<SeenRows> {
        self.sinks.iter().map(|sink| sink.look()).collect()
    }

    /// Whether checkpoints are taken while the query runs; `None` before that is known. One with a LIMIT or a sort has none but the last, and
    /// one without a state directory none at all.
    pub fn takes_checkpoints(&self) -> Option<bool> {
        self.checkpoints.are_taken.get().copied()
    }

    /// The variants that rows of this node go through now, or went through at the end of the run: of all programs, also those that have
    /// processed none.
    pub fn used_variants(&self) -> Vec<UsedVariant> {
        self.programs.used()
    }

    /// Counts malformed records that were left out.
    pub(crate) fn skip_records(&self, records: u64, sample: Option<&Diagnostic>) {
        self.skipped_rows.fetch_add(records, Relaxed);
        if let Some(sample) = sample {
            self.samples.note(BadRow::Malformed, || sample.to_string());
        }
    }

    /// Counts rows that came too late, and where they were to go.
    pub(crate) fn note_late(&self, rows: u64, part: impl FnOnce() -> String) {
        if rows > 0 {
            self.late_rows.fetch_add(rows, Relaxed);
            self.samples
                .note(BadRow::Late, || format!("{} behind the watermark at {}", counted(rows as usize, "row"), part()));
        }
    }

    /// Machine code has been made for a program of the query.
    pub fn note_compilation(&self, compilation: Compilation) {
        self.spans.note(SpanKind::Compile, compilation.time, || compilation.program.clone(), &[]);
        self.compilations.lock().push(compilation);
    }

    /// Something was adapted to the data.
    pub(crate) fn note_event(&self, subject: impl Into<String>, decision: Decision) {
        self.events.note(self.clock.started.elapsed(), EventKind::Adapted, subject, decision);
    }

    /// Pipeline `pipeline` has processed its input stream number `stream` up to a watermark.
    pub(crate) fn release(&self, pipeline: usize, stream: usize, watermark: i64) {
        let watermarks = self.pipelines[pipeline].watermarks.get().and_then(|w| w.get(stream));
        watermarks.iter().for_each(|w| w.raise(watermark));
    }

    /// A split's rows have been processed up to a watermark.
    pub(crate) fn release_split(&self, SplitId { source, split }: SplitId, watermark: i64) {
        self.sources[source].split(split).watermark.raise(watermark);
    }

    /// Since the statistics were made.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.started.elapsed()
    }
}

impl SplitStats {
    pub(crate) fn note_lag(&self, lag: u64) {
        self.lag.store(lag.saturating_add(1), Relaxed);
    }

    pub(crate) fn note_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock() = trouble;
    }

    /// A chunk was read that long after the statistics were made.
    pub(crate) fn note_chunk(&self, elapsed: Duration) {
        self.last_chunk_ms.store(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }
}
