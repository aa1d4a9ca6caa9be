//! Hand-made plans, sources and sinks in memory, and a model of windows to compare with.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod code;
pub mod keyed;
mod model;
pub mod stored;

pub use code::input;
#[allow(unused_imports, reason = "each test file uses a part of it")]
pub use model::*;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, Int64Array, StringViewArray, TimestampMillisecondArray};
use millstream_abi::Accumulator;
use millstream_connectors::*;
use millstream_plan::expr::{Expr, ExprKind};
use millstream_plan::logical::Table;
use millstream_plan::pipeline::*;
use millstream_plan::window::{Slicing, Timeline, WindowAssigner};
use millstream_runtime::*;
use millstream_types::{DataType, Diagnostic, Field, Options, Schema, Value};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Event time, key, name.
pub type Row = (Option<i64>, i64, Option<String>);

pub const TIME: DataType = DataType::Timestamp(3);

/// Pseudo-random numbers (xorshift), the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Splits of rows whose times rise with jumps, out of order by up to `disorder` and sometimes much more.
pub fn random_splits(seed: u64, splits: usize, rows: usize, disorder: u64) -> Vec<Vec<Row>> {
    let mut random = Random(seed * 7919 + 1);
    let split = |_| {
        let mut now = random.below(500) as i64;
        let row = |_| {
            now += random.below(12) as i64 + if random.below(100) == 0 { 300 } else { 0 };
            let behind = if random.below(20) == 0 { random.below(disorder * 4) } else { random.below(disorder) };
            let key = random.below(9) as i64;
            let name = (key % 3 != 0).then(|| format!("the long name of key {key}"));
            (Some(now - behind as i64), key, name)
        };
        (0..rows).map(row).collect()
    };
    (0..splits).map(split).collect()
}

/// What a source in memory does at a chunk.
#[derive(Clone)]
pub enum Step {
    Rows(Vec<Row>),
    /// The reader fails.
    ReadError,
    /// The decoder fails after some rows.
    DecodeError(Vec<Row>),
    DecodePanic,
    ReadPanic,
    /// The reader blocks until the gate opens.
    Wait(Arc<Gate>),
}

/// Something that opens once.
#[derive(Default)]
pub struct Gate(Mutex<bool>, std::sync::Condvar);

impl Gate {
    pub fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    pub fn wait(&self) {
        let mut open = self.0.lock().unwrap();
        while !*open {
            open = self.1.wait(open).unwrap();
        }
    }
}

pub struct MemorySource {
    pub splits: Vec<Vec<Step>>,
    pub bounded: bool,
}

impl MemorySource {
    /// Chunks of up to `chunk_rows` rows.
    pub fn of(splits: &[Vec<Row>], chunk_rows: usize) -> MemorySource {
        let chunks = |rows: &Vec<Row>| rows.chunks(chunk_rows).map(|c| Step::Rows(c.to_vec())).collect();
        MemorySource { splits: splits.iter().map(chunks).collect(), bounded: true }
    }
}

struct MemoryReader {
    name: String,
    steps: Vec<Step>,
    next: usize,
}

struct MemoryDecoder;

impl Source for MemorySource {
    fn splits(&mut self) -> Result<Vec<Box<dyn SplitReader>>, Diagnostic> {
        let reader = |(number, steps): (usize, Vec<Step>)| {
            Box::new(MemoryReader { name: format!("memory {number}"), steps, next: 0 }) as Box<dyn SplitReader>
        };
        Ok(std::mem::take(&mut self.splits).into_iter().enumerate().map(reader).collect())
    }

    fn decoder(&self) -> Arc<dyn Decoder> {
        Arc::new(MemoryDecoder)
    }

    fn is_bounded(&self) -> bool {
        self.bounded
    }
}

impl SplitReader for MemoryReader {
    fn name(&self) -> &str {
        &self.name
    }

    /// Half of the tests have workers read, and those in which a split waits a thread.
    fn never_waits(&self) -> bool {
        self.steps.len().is_multiple_of(2) && !self.steps.iter().any(|step| matches!(step, Step::Wait(_)))
    }

    fn resume(&mut self, from: Option<Position>) -> Result<(), Diagnostic> {
        self.next = from.map_or(0, |position| position.at as usize);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        loop {
            self.next += 1;
            let after = Some(Position { at: self.next as u64, line: 0 });
            match self.steps.get(self.next - 1).cloned() {
                None => return Ok(None),
                Some(Step::ReadError) => return Err(Diagnostic::new(millstream_types::code::READ_FAILED, "no medium")),
                Some(Step::ReadPanic) => panic!("a reader that panics"),
                Some(Step::Wait(gate)) => gate.wait(),
                Some(step) => return Ok(Some(Chunk { payload: Box::new(step), bytes: 10, after })),
            }
        }
    }
}

impl Decoder for MemoryDecoder {
    fn decode(&self, chunk: Chunk) -> Decoded {
        let step = *chunk.payload.downcast::<Step>().unwrap();
        let (rows, error) = match step {
            Step::Rows(rows) => (rows, None),
            Step::DecodeError(rows) => {
                (rows, Some(Diagnostic::new(millstream_types::code::MALFORMED_RECORD, "not a record")))
            }
            _ => panic!("a decoder that panics"),
        };
        Decoded { columns: columns(&rows), rows: rows.len(), error, ..Decoded::default() }
    }
}

pub fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    vec![
        Arc::new(TimestampMillisecondArray::from_iter(rows.iter().map(|r| r.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1))),
        Arc::new(StringViewArray::from_iter(rows.iter().map(|r| r.2.as_deref()))),
    ]
}

/// What reached a sink.
#[derive(Default)]
pub struct Written {
    pub rows: Mutex<Vec<Vec<Option<String>>>>,
    pub finished: Mutex<bool>,
    pub flushes: Mutex<usize>,
}

impl Written {
    pub fn rows(&self) -> Vec<String> {
        let text = |row: &Vec<Option<String>>| {
            row.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join(",")
        };
        self.rows.lock().unwrap().iter().map(text).collect()
    }

    pub fn is_finished(&self) -> bool {
        *self.finished.lock().unwrap()
    }
}

#[derive(Default)]
pub struct MemorySink {
    pub written: Arc<Written>,
    /// Fails at the piece of this number.
    pub fail_at: Option<usize>,
    pub panic_at: Option<usize>,
    pub panics_at_flush: bool,
    pub pieces: usize,
    /// Pieces wait for it.
    pub gate: Option<Arc<Gate>>,
}

struct ColumnEncoder;

impl Encoder for ColumnEncoder {
    fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded, Diagnostic> {
        Ok(Encoded::Columns { columns: columns.to_vec(), rows })
    }
}

impl Sink for MemorySink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        Arc::new(ColumnEncoder)
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        if let Some(gate) = &self.gate {
            gate.wait();
        }
        self.pieces += 1;
        if self.fail_at == Some(self.pieces) {
            return Err(Diagnostic::new(millstream_types::code::WRITE_FAILED, "disk full"));
        }
        assert!(self.panic_at != Some(self.pieces), "a sink that panics");
        let Encoded::Columns { columns, rows } = piece else { panic!("the encoder makes columns") };
        let text = |column: &ArrayRef, i: usize| {
            column.is_valid(i).then(|| {
                if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
                    numbers.value(i).to_string()
                } else if let Some(times) = column.as_primitive_opt::<TimestampMillisecondType>() {
                    times.value(i).to_string()
                } else {
                    column.as_string_view().value(i).to_string()
                }
            })
        };
        let mut written = self.written.rows.lock().unwrap();
        written.extend((0..rows).map(|i| columns.iter().map(|c| text(c, i)).collect()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        assert!(!self.panics_at_flush, "a sink that panics when it is flushed");
        *self.written.flushes.lock().unwrap() += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), Diagnostic> {
        *self.written.finished.lock().unwrap() = true;
        Ok(())
    }
}

// Plans.

pub fn time_column() -> Expr {
    Expr::column(0, TIME, true)
}

pub fn key_column() -> Expr {
    Expr::column(1, DataType::BigInt, false)
}

pub fn source_schema() -> Schema {
    Schema::new(vec![
        Field::new("ts", TIME, true),
        Field::new("key", DataType::BigInt, false),
        Field::new("name", DataType::STRING, true),
    ])
}

pub fn source_plan(watermark: Option<SourceWatermark>) -> SourcePlan {
    let table = Table {
        name: "rows".into(),
        columns: vec![],
        watermark: None,
        primary_key: vec![],
        options: Options::default(),
    };
    let columns = source_columns(&source_schema().fields);
    SourcePlan { scan: ScanKind::Table(Arc::new(table)), columns, watermark, phase: 0 }
}

/// Columns that a source reads as they are.
pub fn source_columns(fields: &[Field]) -> Vec<SourceColumn> {
    let column = |(i, f): (usize, &Field)| SourceColumn {
        name: f.name.clone(),
        origin: ColumnOrigin::Path(vec![i]),
        data_type: f.data_type.clone(),
        nullable: f.nullable,
        in_record: None,
    };
    fields.iter().enumerate().map(column).collect()
}

pub fn delay(ms: i64) -> Option<SourceWatermark> {
    Some(SourceWatermark { time: time_column(), rule: WatermarkRule::Delay(ms), idle_timeout_ms: None })
}

pub fn tumble(size_ms: i64) -> WindowAssigner {
    WindowAssigner::Tumble(Slicing { size_ms, offset_ms: 0 })
}

/// `COUNT(*), MAX(key)` by `keys`.
pub fn aggregation(assigner: WindowAssigner, keys: Vec<Field>) -> Aggregation {
    Aggregation {
        timeline: Timeline::Own,
        assigner,
        keys,
        components: vec![Accumulator::Count, Accumulator::MaxI64],
        calls: vec![],
        outputs: ComponentOutput::values(&[Accumulator::Count; 2], &[DataType::BigInt, DataType::BigInt]),
        shorter: None,
        combination: Combination::Recompute,
    }
}

pub fn count_all() -> ComponentUpdate {
    ComponentUpdate { argument: None, guard: None }
}

pub fn argument(expr: Expr) -> ComponentUpdate {
    ComponentUpdate { argument: Some(expr), guard: None }
}

pub fn sink_plan(schema: Schema, limit: Option<u64>) -> SinkPlan {
    SinkPlan { table: None, schema, changes: None, skip: 0, limit, is_on_every_node: false }
}

/// `SELECT key, COUNT(*), MAX(key), window_start, window_end FROM TUMBLE(…) GROUP BY key, …`
pub fn tumbling_plan(size_ms: i64, delay_ms: i64) -> QueryPlan {
    let aggregation = aggregation(tumble(size_ms), vec![Field::new("key", DataType::BigInt, false)]);
    let output = aggregation.output_schema();
    QueryPlan {
        sources: vec![source_plan(delay(delay_ms))],
        pipelines: vec![
            Pipeline {
                input: PipelineInput::Source(0),
                schema: source_schema(),
                operators: vec![],
                end: PipelineEnd::Aggregate {
                    aggregation: 0,
                    time: Some(time_column()),
                    keys: vec![key_column()],
                    updates: vec![count_all(), argument(key_column())],
                },
            },
            Pipeline {
                input: PipelineInput::Aggregation(0),
                schema: output.clone(),
                operators: vec![],
                end: PipelineEnd::Sink(0),
            },
        ],
        aggregations: vec![aggregation],
        sinks: vec![sink_plan(output, None)],
        ..QueryPlan::default()
    }
}

/// The count of keys for each count within windows of windows: an aggregation over the output of [`tumbling_plan`].
pub fn chained_plan(size_ms: i64, delay_ms: i64, outer_ms: i64) -> QueryPlan {
    let mut plan = tumbling_plan(size_ms, delay_ms);
    let end = Expr::column(4, TIME, false);
    let last = Expr::literal(Value::Int(-1), DataType::IntervalMilli);
    let time = Expr::new(ExprKind::AddInterval(Box::new(end), Box::new(last)), TIME, false);
    let outer = aggregation(tumble(outer_ms), vec![Field::new("count", DataType::BigInt, false)]);
    let output = outer.output_schema();
    plan.pipelines[1].end = PipelineEnd::Aggregate {
        aggregation: 1,
        time: Some(time),
        keys: vec![Expr::column(1, DataType::BigInt, false)],
        updates: vec![count_all(), argument(Expr::column(0, DataType::BigInt, false))],
    };
    plan.pipelines.push(Pipeline {
        input: PipelineInput::Aggregation(1),
        schema: output.clone(),
        operators: vec![],
        end: PipelineEnd::Sink(0),
    });
    plan.aggregations.push(outer);
    plan.sinks = vec![sink_plan(output, None)];
    plan
}

/// `SELECT * FROM source`
pub fn copy_plan(limit: Option<u64>) -> QueryPlan {
    QueryPlan {
        sources: vec![source_plan(None)],
        aggregations: vec![],
        pipelines: vec![Pipeline {
            input: PipelineInput::Source(0),
            schema: source_schema(),
            operators: vec![],
            end: PipelineEnd::Sink(0),
        }],
        sinks: vec![sink_plan(source_schema(), limit)],
        ..QueryPlan::default()
    }
}

pub fn connector(source: MemorySource) -> SourceRows {
    SourceRows::Connector(Box::new(source))
}

pub fn config(workers: usize, buffer_rows: usize) -> RunConfig {
    RunConfig { workers, buffer_rows, ..RunConfig::default() }
}

/// Numbers of workers with ways to share tables among them.
pub fn strategies() -> impl Iterator<Item = (usize, MergeStrategy)> {
    let strategies = [MergeStrategy::Local, MergeStrategy::Global, MergeStrategy::Partition, MergeStrategy::Auto];
    [1, 2, 8].into_iter().flat_map(move |workers| strategies.map(|merge| (workers, merge)))
}

/// Runs with a watchdog: a query that hangs fails its test.
pub fn run_within(input: RunInput, config: RunConfig, cancel: CancelToken) -> (Result<(), Diagnostic>, StatsSnapshot) {
    let stats = Arc::new(QueryStats::new(&input.plan));
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::clone(&stats);
    let thread = std::thread::spawn(move || sender.send(run(input, &config, &shared, &cancel)));
    match receiver.recv_timeout(Duration::from_secs(120)) {
        Ok(result) => {
            thread.join().unwrap().unwrap();
            (result, stats.snapshot())
        }
        Err(RecvTimeoutError::Timeout) => panic!("the query hangs: {:?}", stats.snapshot()),
        Err(RecvTimeoutError::Disconnected) => panic!("the query panicked"),
    }
}

/// Runs a plan over one source and one sink to its end.
pub fn run_to_end(plan: QueryPlan, source: MemorySource, config: RunConfig) -> (Vec<String>, StatsSnapshot) {
    let sink = MemorySink::default();
    let written = Arc::clone(&sink.written);
    let (result, stats) = run_within(input(plan, vec![connector(source)], vec![sink]), config, CancelToken::new());
    result.unwrap();
    assert!(written.is_finished());
    (written.rows(), stats)
}
