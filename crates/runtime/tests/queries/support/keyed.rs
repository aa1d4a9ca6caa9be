//! Plans of keyed operators, and models of them.

use super::*;
use millstream_abi::{Finish, ObjectKind, Phys};
use millstream_plan::logical::Frame;
use millstream_plan::window::Timeline;
use std::collections::{BTreeMap, BTreeSet};

pub const DELAY_MS: i64 = 60;

/// A row that has arrived at the operator, in merged order.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub watermark: i64,
    pub time: i64,
    pub number: i64,
    pub name: Option<String>,
}

impl Arrived {
    pub fn text(&self) -> String {
        format!("{},{},{}", self.time, self.number, text(&self.name))
    }
}

pub fn text(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("NULL")
}

/// Rows with few names, some of them NULL, in times that are multiples of `step` plus `shift`.
pub fn rows(seed: u64, splits: usize, rows: usize, step: i64, shift: i64) -> Vec<Vec<Row>> {
    let mut random = Random(seed * 104_729 + 17);
    let split = |_| {
        let mut now = random.below(300) as i64 - 200;
        let row = |_| {
            now += random.below(9) as i64 + if random.below(60) == 0 { 250 } else { 0 };
            let behind = if random.below(15) == 0 { random.below(400) } else { random.below(50) } as i64;
            let time = (now - behind).div_euclid(step) * step + shift;
            let name = match random.below(6) {
                0 => None,
                1 => Some("n".to_string()),
                n => Some(format!("the long name of number {n}")),
            };
            (Some(time), random.below(20) as i64 - 8, name)
        };
        (0..rows).map(row).collect()
    };
    (0..splits).map(split).collect()
}

/// The rows of all splits in merged order, without those that are late by `reach_ms`.
pub fn in_merged_order(splits: &[Vec<Row>], reach_ms: Option<i64>) -> (Vec<Arrived>, u64) {
    let (mut all, mut late) = (Vec::new(), 0);
    for (stream, split) in splits.iter().enumerate() {
        let mut watermark = i64::MIN;
        for (position, (time, number, name)) in split.iter().enumerate() {
            let time = time.unwrap();
            if reach_ms.is_some_and(|reach| time + reach <= watermark) {
                late += 1;
            } else {
                all.push((
                    (watermark, stream, position),
                    Arrived { watermark, time, number: *number, name: name.clone() },
                ));
            }
            watermark = watermark.max(time - DELAY_MS);
        }
    }
    all.sort_by_key(|(place, _)| *place);
    (all.into_iter().map(|(_, row)| row).collect(), late)
}

pub fn keyed_input(reach_ms: Option<i64>) -> KeyedInput {
    KeyedInput { schema: source_schema(), keys: vec![2], time: Some(0), reach_ms, leading: None }
}

pub fn name_key() -> Vec<Field> {
    vec![Field::new("name", DataType::STRING, true)]
}

pub fn plan(operator: KeyedOperator) -> QueryPlan {
    let exchange = |port: usize| Pipeline {
        input: PipelineInput::Source(port),
        schema: source_schema(),
        operators: vec![],
        end: PipelineEnd::Exchange { operator: 0, port },
    };
    let output = operator.output.clone();
    let mut pipelines: Vec<Pipeline> = (0..operator.inputs.len()).map(exchange).collect();
    pipelines.push(Pipeline {
        input: PipelineInput::Operator(0),
        schema: output.clone(),
        operators: vec![],
        end: PipelineEnd::Sink(0),
    });
    QueryPlan {
        sources: operator.inputs.iter().map(|_| source_plan(delay(DELAY_MS))).collect(),
        operators: vec![operator],
        pipelines,
        sinks: vec![sink_plan(output, None)],
        ..QueryPlan::default()
    }
}

/// [`check_plan`] of an operator over sources.
pub fn check(what: &str, operator: &KeyedOperator, inputs: &[Vec<Vec<Row>>], expected: Vec<String>, late: u64) {
    check_plan(what, &plan(operator.clone()), inputs, expected, late);
}

/// Runs under every configuration and compares with what the model says.
pub fn check_plan(what: &str, plan: &QueryPlan, inputs: &[Vec<Vec<Row>>], mut expected: Vec<String>, late: u64) {
    expected.sort();
    for workers in [1, 2, 8] {
        for buffer_rows in [1, 7, 0] {
            let sink = MemorySink::default();
            let written = Arc::clone(&sink.written);
            let chunk = if buffer_rows == 0 { 10_000 } else { 50 };
            let sources = inputs.iter().map(|splits| connector(MemorySource::of(splits, chunk))).collect();
            let input = input(plan.clone(), sources, vec![sink]);
            let (result, stats) = run_within(input, config(workers, buffer_rows), CancelToken::new());
            result.unwrap();
            assert!(written.is_finished());
            let mut found = written.rows();
            found.sort();
            let configuration = format!("{what}: {workers} workers, buffers of {buffer_rows}");
            if let Some(i) = (0..found.len().max(expected.len())).find(|&i| found.get(i) != expected.get(i)) {
                panic!(
                    "{configuration}: {} rows instead of {}; row {i} is {:?} instead of {:?}",
                    found.len(),
                    expected.len(),
                    found.get(i),
                    expected.get(i)
                );
            }
            assert_eq!(stats.late_rows, late, "{configuration}");
        }
    }
}

/// `COUNT(*), SUM(key), LISTAGG(CAST(name …))`, here the names themselves, and MAX(name).
pub fn aggregates() -> SlotAggregates {
    let name = Expr::column(2, DataType::STRING, true);
    let list = Accumulator::Object(ObjectKind::List { keeps_nulls: false }, Phys::I64);
    let components = vec![Accumulator::Count, Accumulator::SumI64, list, Accumulator::MaxStr];
    let output = |component, finish, data_type, nullable| ComponentOutput { component, finish, data_type, nullable };
    SlotAggregates {
        updates: vec![count_all(), argument(key_column()), argument(key_column()), argument(name)],
        calls: vec![],
        outputs: vec![
            output(0, Finish::Value, DataType::BigInt, false),
            output(1, Finish::Value, DataType::BigInt, false),
            output(2, Finish::Mode, DataType::BigInt, true),
            output(3, Finish::Value, DataType::STRING, true),
        ],
        components,
    }
}

pub fn aggregate_fields() -> Vec<Field> {
    let types = [DataType::BigInt, DataType::BigInt, DataType::BigInt, DataType::STRING];
    types.into_iter().enumerate().map(|(i, t)| Field::new(format!("a{i}"), t, true)).collect()
}

/// What [`aggregates`] gives for rows.
pub fn aggregated<'a>(rows: impl IntoIterator<Item = &'a Arrived>) -> String {
    let rows: Vec<&Arrived> = rows.into_iter().collect();
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    rows.iter().for_each(|r| *counts.entry(r.number).or_default() += 1);
    let most = counts.values().max().copied().unwrap_or(0);
    let mode = counts.iter().find(|&(_, &n)| n == most).map_or("NULL".into(), |(number, _)| number.to_string());
    let name = rows.iter().filter_map(|r| r.name.as_deref()).max().unwrap_or("NULL");
    format!("{},{},{mode},{name}", rows.len(), rows.iter().map(|r| r.number).sum::<i64>())
}

/// A row that OVER has processed, with those of its frame.
pub type Framed = (Arrived, Vec<Arrived>);

/// What a bounded OVER of a key does, timer by timer as Flink does it.
#[derive(Default)]
struct Timers {
    registered: BTreeSet<i64>,
    waiting: BTreeMap<i64, Vec<Arrived>>,
    processed: Vec<Arrived>,
    last: Option<i64>,
    cleanup: Option<i64>,
    watermark: Option<i64>,
}

impl Timers {
    /// Fires what is registered up to a watermark, if it has advanced.
    fn fire(&mut self, watermark: i64, frame: Frame, output: &mut Vec<Framed>) {
        if self.watermark.replace(watermark) == Some(watermark) {
            return;
        }
        while let Some(time) = self.registered.first().copied().filter(|&time| time <= watermark) {
            self.registered.remove(&time);
            if self.cleanup.is_some_and(|cleanup| cleanup <= time) {
                let registered = std::mem::take(&mut self.registered);
                assert!(self.waiting.is_empty());
                *self = Timers { registered, watermark: self.watermark, ..Timers::default() };
                continue;
            }
            self.last = Some(time);
            let rows = self.waiting.remove(&time).unwrap_or_default();
            match frame {
                Frame::Rows(preceding) => {
                    for row in rows {
                        self.processed.push(row.clone());
                        let first = self.processed.len().saturating_sub(preceding.unwrap() as usize + 1);
                        output.push((row, self.processed[first..].to_vec()));
                    }
                }
                Frame::Range(ms) => {
                    self.processed.extend(rows.clone());
                    self.processed.retain(|row| row.time >= time - ms.unwrap());
                    output.extend(rows.into_iter().map(|row| (row, self.processed.clone())));
                }
            }
        }
    }
}

/// What OVER with a bounded frame makes of rows in merged order, and how many are late.
pub fn bounded_over(rows: Vec<Arrived>, frame: Frame) -> (Vec<Framed>, u64) {
    let (mut output, mut late) = (Vec::new(), 0);
    for rows in by_name(rows).into_values() {
        let mut timers = Timers::default();
        for row in rows {
            timers.fire(row.watermark, frame, &mut output);
            if timers.last.is_some_and(|last| row.time <= last) {
                late += 1;
                continue;
            }
            if let Frame::Range(Some(ms)) = frame
                && timers.cleanup.is_none_or(|cleanup| cleanup < row.time + ms + 1)
            {
                timers.cleanup = Some(row.time + (ms as f64 * 1.5) as i64 + 1);
                timers.registered.extend(timers.cleanup);
            }
            timers.registered.insert(row.time);
            timers.waiting.entry(row.time).or_default().push(row);
        }
        timers.fire(i64::MAX, frame, &mut output);
    }
    (output, late)
}

pub struct Session {
    pub start: i64,
    pub end: i64,
    pub rows: Vec<Arrived>,
}

/// The sessions of a key as Flink makes them, and the number of late rows.
pub fn sessions(rows: &[Arrived], gap: i64) -> (Vec<Session>, u64) {
    let (mut done, mut open, mut late) = (Vec::new(), Vec::<Session>::new(), 0);
    for row in rows {
        let (over, mut still): (Vec<Session>, Vec<Session>) =
            open.into_iter().partition(|s| s.end - 1 <= row.watermark);
        done.extend(over);
        let mut window = Session { start: row.time, end: row.time + gap, rows: vec![row.clone()] };
        let (start, end) = (window.start, window.end);
        let (meeting, others): (Vec<Session>, Vec<Session>) =
            still.drain(..).partition(|s| s.start <= end && start <= s.end);
        open = others;
        for session in meeting {
            window.start = window.start.min(session.start);
            window.end = window.end.max(session.end);
            window.rows.extend(session.rows);
        }
        if window.end - 1 <= row.watermark {
            assert_eq!(window.rows.len(), 1, "an open session is not late");
            late += 1;
        } else {
            open.push(window);
        }
    }
    done.extend(open);
    (done, late)
}

pub fn by_name(rows: Vec<Arrived>) -> BTreeMap<Option<String>, Vec<Arrived>> {
    let mut keys: BTreeMap<Option<String>, Vec<Arrived>> = BTreeMap::new();
    rows.into_iter().for_each(|row| keys.entry(row.name.clone()).or_default().push(row));
    keys
}

pub fn window_fields() -> [Field; 2] {
    ["window_start", "window_end"].map(|name| Field::new(name, TIME, false))
}

pub fn windowed_operators(aggregate: KeyedKind, of_rows: KeyedKind) -> [KeyedOperator; 2] {
    let mut aggregate_output = name_key();
    aggregate_output.extend(aggregate_fields());
    aggregate_output.extend(window_fields());
    let mut rows_output = source_schema();
    rows_output.fields.extend(window_fields());
    let operator = |kind, output| KeyedOperator {
        partitioned_by: None,
        timeline: Timeline::Own,
        kind,
        inputs: vec![keyed_input(None)],
        keys: name_key(),
        output,
    };
    [operator(aggregate, Schema::new(aggregate_output)), operator(of_rows, rows_output)]
}

/// Sessions of rows that another operator has output: they are not late, and those that touch are one.
pub fn sessions_of_output(rows: Vec<Arrived>, gap_ms: i64) -> Vec<String> {
    let mut expected = Vec::new();
    for (name, mut rows) in by_name(rows) {
        rows.iter_mut().for_each(|r| r.watermark = i64::MIN);
        rows.sort_by_key(|r| r.time);
        let of_session = |s: &Session| format!("{},{},{},{}", text(&name), aggregated(&s.rows), s.start, s.end);
        expected.extend(sessions(&rows, gap_ms).0.iter().map(of_session));
    }
    expected
}

/// Adds sessions to a plan whose last pipeline comes out of an operator: of `columns` of its output, as in the source.
pub fn with_sessions(mut plan: QueryPlan, columns: Vec<Expr>, gap_ms: i64) -> QueryPlan {
    let [sessions, _] = windowed_operators(
        KeyedKind::Sessions(Sessions { gap_ms, aggregates: Some(aggregates()) }),
        KeyedKind::Sessions(Sessions { gap_ms, aggregates: None }),
    );
    let (operator, output) = (plan.operators.len(), sessions.output.clone());
    plan.operators.push(sessions);
    let last = plan.pipelines.last_mut().unwrap();
    last.operators = vec![Operator::Project(columns)];
    last.end = PipelineEnd::Exchange { operator, port: 0 };
    plan.pipelines.push(Pipeline {
        input: PipelineInput::Operator(operator),
        schema: output.clone(),
        operators: vec![],
        end: PipelineEnd::Sink(0),
    });
    plan.sinks = vec![sink_plan(output, None)];
    plan
}
