//! States that are written and read in the middle of their rows, of every kind of operator: what they output is the same.
//! What was not written so gives an error, or a state that works.

use super::batch::Batch;
use super::operators::{Shares, state_of};
use super::state::{State, Work};
use super::*;
use crate::ErrorPolicy;
use crate::adaptive::Dice;
use crate::columns::Parts;
use crate::executable_plan::PipelineCode;
use crate::row_errors::RowErrors;
use crate::stats::QueryStats;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, Int8Array, Int64Array, StringViewArray, TimestampMillisecondArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use millstream_abi::{Accumulator, Finish, ObjectKind, Phys};
use millstream_codegen::lower::{Lowered, lower_keys, lower_slots};
use millstream_functions::{FunctionContext, FunctionSettings};
use millstream_plan::expr::Expr;
use millstream_plan::logical::{Frame, JoinKind, RankFunction};
use millstream_plan::pipeline::{
    ChangingJoin, ComponentOutput, ComponentUpdate, CountWindows, Group, GroupChanges, IntervalJoin, KeyedInput,
    KeyedKind, Over, QueryPlan, Rank, RegularJoin, Sessions, SlotAggregates, SortColumn, Ties, Top, VersionedJoin,
    WindowJoin,
};
use millstream_plan::window::Timeline;
use millstream_state::Ordinal;
use millstream_storage::{ByteReader, ByteWriter};
use millstream_types::{DataType, Field, Schema, code};
use std::sync::Arc;

mod repartitioned;

/// A row of an input: time, number, name, weight.
type Row = (Ordinal, i64, i64, Option<String>, i8);
type Rows = Vec<Row>;

/// What a job gets.
struct Step {
    inputs: Vec<Rows>,
    watermark: i64,
}

/// Windows with their rows, and the watermarks that these come behind.
type Output = Vec<(i64, Vec<ArrayRef>, Option<Vec<i64>>)>;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("time", DataType::Timestamp(3), false),
        Field::new("number", DataType::BigInt, false),
        Field::new("name", DataType::STRING, true),
        Field::new("weight", DataType::TinyInt, false),
    ])
}

/// Position of the weight.
const WEIGHT: usize = 3;

/// Aggregates of rows that may be taken back.
fn changing_aggregates() -> SlotAggregates {
    let update = |argument| ComponentUpdate { argument: Some(argument), guard: None };
    let output = |finish| ComponentOutput { component: 0, finish, data_type: DataType::BigInt, nullable: true };
    SlotAggregates {
        components: vec![Accumulator::Object(ObjectKind::Weights, Phys::I64), Accumulator::SumI64],
        updates: vec![
            update(Expr::column(1, DataType::BigInt, false)),
            update(Expr::column(WEIGHT, DataType::TinyInt, false)),
        ],
        calls: vec![],
        outputs: vec![output(Finish::Count), output(Finish::Least)],
    }
}

fn aggregates() -> SlotAggregates {
    let (number, name) = (Expr::column(1, DataType::BigInt, false), Expr::column(2, DataType::STRING, true));
    let object = |kind, phys| Accumulator::Object(kind, phys);
    let update = |argument| ComponentUpdate { argument, guard: None };
    let output = |component, finish, data_type| ComponentOutput { component, finish, data_type, nullable: true };
    SlotAggregates {
        components: vec![
            Accumulator::Count,
            Accumulator::SumI64,
            Accumulator::MaxStr,
            object(ObjectKind::List { keeps_nulls: true }, Phys::Str),
            object(ObjectKind::Distinct, Phys::I64),
            object(ObjectKind::Last, Phys::Str),
        ],
        updates: vec![
            update(None),
            update(Some(number.clone())),
            update(Some(name.clone())),
            update(Some(name.clone())),
            update(Some(number)),
            update(Some(name)),
        ],
        calls: vec![],
        outputs: vec![
            output(0, Finish::Value, DataType::BigInt),
            output(1, Finish::Value, DataType::BigInt),
            output(2, Finish::Value, DataType::STRING),
            output(3, Finish::Array, DataType::Array(Arc::new(DataType::STRING))),
            output(4, Finish::Count, DataType::BigInt),
            output(5, Finish::Value, DataType::STRING),
        ],
    }
}

/// Every kind of operator, with and without what changes its state.
fn kinds() -> Vec<KeyedKind> {
    let mut kinds = Vec::new();
    for kind in [JoinKind::Inner, JoinKind::Full, JoinKind::Anti] {
        kinds.push(KeyedKind::WindowJoin(WindowJoin { kind, residual: None }));
    }
    for kind in [JoinKind::Inner, JoinKind::Left, JoinKind::Full] {
        kinds.push(KeyedKind::IntervalJoin(IntervalJoin { kind, lower_ms: -20, upper_ms: 35, residual: None }));
    }
    for ttl_ms in [[None, None], [Some(25), Some(25)]] {
        kinds.push(KeyedKind::RegularJoin(RegularJoin { ttl_ms, residual: None }));
    }
    for kind in [JoinKind::Inner, JoinKind::Left] {
        kinds.push(KeyedKind::VersionedJoin(VersionedJoin { kind, residual: None }));
    }
    let order = vec![SortColumn { column: 1, descending: true, nulls_first: true }];
    let rank = Rank { order: order.clone(), function: RankFunction::Rank, range: (1, 3), ties: Ties::First };
    kinds.push(KeyedKind::Rank(rank));
    for ttl_ms in [None, Some(24), Some(90)] {
        kinds.push(KeyedKind::Group(Group { aggregates: aggregates(), changes: None, ttl_ms }));
    }
    for (function, to, ties) in [
        (RankFunction::RowNumber, 3, Ties::First),
        (RankFunction::RowNumber, 1, Ties::Last),
        (RankFunction::Rank, 2, Ties::Values),
        (RankFunction::DenseRank, 2, Ties::First),
        (RankFunction::RowNumber, u64::MAX, Ties::Values),
    ] {
        let (order, shows_rank) = (order.clone(), to != 1);
        for ttl_ms in [None, Some(24)] {
            let order = order.clone();
            kinds.push(KeyedKind::Top(Top {
                order,
                function,
                range: (1, to),
                ties,
                shows_rank,
                weight: None,
                ttl_ms,
                is_alone: false,
            }));
        }
    }
    for kind in [JoinKind::Left, JoinKind::Full, JoinKind::Semi, JoinKind::Anti] {
        for ttl_ms in [[None, None], [Some(24), Some(60)], [None, Some(24)]] {
            let weights = [None, None];
            kinds.push(KeyedKind::ChangingJoin(ChangingJoin { kind, residual: None, weights, ttl_ms }));
        }
    }
    for ttl_ms in [None, Some(24)] {
        let changes = Some(GroupChanges { weight: WEIGHT, rows: 1 });
        kinds.push(KeyedKind::Group(Group { aggregates: changing_aggregates(), changes, ttl_ms }));
        for to in [2, u64::MAX] {
            kinds.push(KeyedKind::Top(Top {
                order: order.clone(),
                function: RankFunction::RowNumber,
                range: (1, to),
                ties: Ties::Values,
                shows_rank: false,
                weight: Some(WEIGHT),
                ttl_ms,
                is_alone: false,
            }));
        }
        for (kind, weights) in [
            (JoinKind::Inner, [Some(WEIGHT), Some(WEIGHT)]),
            (JoinKind::Full, [Some(WEIGHT), Some(WEIGHT)]),
            (JoinKind::Anti, [None, Some(WEIGHT)]),
        ] {
            let ttl_ms = [ttl_ms, None];
            kinds.push(KeyedKind::ChangingJoin(ChangingJoin { kind, residual: None, weights, ttl_ms }));
        }
    }
    for frame in [Frame::Rows(None), Frame::Rows(Some(3)), Frame::Range(None), Frame::Range(Some(40))] {
        kinds.push(KeyedKind::Over(Over { frame, aggregates: aggregates() }));
    }
    for gap_ms in [3, 30] {
        kinds.push(KeyedKind::Sessions(Sessions { gap_ms, aggregates: Some(aggregates()) }));
        kinds.push(KeyedKind::Sessions(Sessions { gap_ms, aggregates: None }));
    }
    for (size, slide) in [(4, 4), (6, 4), (2, 5), (1, 3)] {
        kinds.push(KeyedKind::CountWindows(CountWindows { size, slide, aggregates: Some(aggregates()) }));
        kinds.push(KeyedKind::CountWindows(CountWindows { size, slide, aggregates: None }));
    }
    kinds
}

/// An operator of a kind, and its programs.
fn operator(kind: KeyedKind) -> (KeyedOperator, OperatorCode) {
    let inputs = if kind.keyed().pairs().is_some() { 2 } else { 1 };
    let input = KeyedInput { schema: schema(), keys: vec![2], time: Some(0), reach_ms: None, leading: None };
    let keys = vec![Field::new("name", DataType::STRING, true)];
    let code = |lowered: Lowered| PipelineCode::interpreted(Arc::new(lowered));
    let slots = kind.keyed().aggregates();
    let programs = OperatorCode {
        keys: (0..inputs).map(|_| code(lower_keys("keys", &schema(), &[2], &keys).unwrap())).collect(),
        residual: None,
        slots: slots.map(|slots| code(lower_slots("slots", &schema(), slots).unwrap())),
    };
    // Nobody asks what is output.
    (
        KeyedOperator {
            partitioned_by: None,
            timeline: Timeline::Own,
            kind,
            inputs: vec![input; inputs],
            keys,
            output: Schema::new(vec![]),
        },
        programs,
    )
}

/// Whether an operator gets late rows, too, and decides about them itself.
fn takes_late_rows(kind: &KeyedKind) -> bool {
    match kind {
        KeyedKind::Over(over) => matches!(over.frame, Frame::Rows(Some(_)) | Frame::Range(Some(_))),
        KeyedKind::Sessions(_) => true,
        KeyedKind::IntervalJoin { .. } | KeyedKind::VersionedJoin { .. } => true,
        _ => false,
    }
}

/// Whether rows of an operator may be taken back.
fn takes_back(kind: &KeyedKind) -> bool {
    match kind {
        KeyedKind::Group(group) => group.changes.is_some(),
        KeyedKind::Top(top) => top.weight.is_some(),
        KeyedKind::ChangingJoin(join) => join.weights != [None, None],
        _ => false,
    }
}

/// Random rows for an operator: some steps have none.
fn steps(random: &Dice, plan: &KeyedOperator, count: usize) -> Vec<Step> {
    let (inputs, has_late, takes_back) = (plan.inputs.len(), takes_late_rows(&plan.kind), takes_back(&plan.kind));
    let mut all: Vec<Rows> = vec![Vec::new(); inputs];
    let (mut before, mut position) = (0, 0);
    let mut step = |i: usize| {
        let watermark = before + 1 + random.below(30) as i64;
        let mut rows = |port: usize| -> Rows {
            let count = if random.below(5) == 0 { 0 } else { random.below(60) };
            let row = |_| {
                position += 1;
                let ordinal =
                    Ordinal { watermark: before, input: port as u16, split: 0, position, pipeline: port as u16 };
                let behind = if has_late && random.below(4) == 0 { random.below(150) as i64 } else { 0 };
                let time = before + 1 + random.below(12) as i64 * 10 - behind;
                let name = match random.below(9) {
                    0 => None,
                    1 => Some("n".to_string()),
                    n => Some(format!("the long name of number {n}, {}", i / 20)),
                };
                let earlier = &all[port];
                if takes_back && !earlier.is_empty() && random.below(3) == 0 {
                    let (_, time, number, name, _) = earlier[random.below(earlier.len() as u64) as usize].clone();
                    return (ordinal, time, number, name, -1);
                }
                (ordinal, time, random.below(20) as i64, name, 1)
            };
            let rows: Rows = (0..count).map(row).collect();
            all[port].extend(rows.iter().filter(|row| row.4 > 0).cloned());
            rows
        };
        let inputs = (0..inputs).map(&mut rows).collect();
        before = watermark;
        Step { inputs, watermark }
    };
    let mut steps: Vec<Step> = (0..count).map(&mut step).collect();
    if let Some(last) = steps.last_mut() {
        last.watermark = i64::MAX;
    }
    steps
}

fn batch(rows: &Rows) -> Batch {
    if rows.is_empty() {
        return Batch::default();
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row.3.as_deref()))),
        Arc::new(Int8Array::from_iter_values(rows.iter().map(|row| row.4))),
    ];
    Batch::new(columns, rows.iter().map(|row| row.0).collect())
}

/// The same, as rows of one or two buffers, of which every other row is another partition's.
fn shared(rows: &Rows, random: &Dice) -> Batch {
    let middle = random.below(rows.len() as u64 + 1) as usize;
    let (before, after) = rows.split_at(middle);
    let of_buffer = |rows: &[Row]| {
        let twice: Rows = rows.iter().flat_map(|row| [row.clone(), row.clone()]).collect();
        let hashes: Vec<i64> = (0..twice.len() as i64).map(|i| i % 2 * i64::MIN).collect();
        let mut parts = batch(&twice).share(&Parts::new(&hashes, 1), random.below(2) == 0);
        if parts.is_empty() { Batch::default() } else { parts.swap_remove(0).1 }
    };
    Batch::merge(vec![of_buffer(before), of_buffer(after)]).unwrap()
}

/// Does the job of a step and adds to the output.
fn advance(
    state: &mut dyn State,
    code: &OperatorCode,
    step: &Step,
    now_ms: i64,
    found: &mut Output,
) -> Result<(), Diagnostic> {
    advance_with(state, code, (step.inputs.iter().map(batch).collect(), step.watermark), (now_ms, true), found)
}

/// The same with inputs, and the moment and whether memory is plenty.
fn advance_with(
    state: &mut dyn State,
    code: &OperatorCode,
    (inputs, watermark): (Vec<Batch>, i64),
    (now_ms, is_plenty): (i64, bool),
    found: &mut Output,
) -> Result<(), Diagnostic> {
    let stats = QueryStats::new(&QueryPlan::default());
    let mut functions = FunctionContext::new(FunctionSettings::default());
    let mut work = Work {
        is_home: true,
        code,
        functions: &mut functions,
        errors: RowErrors::new(ErrorPolicy::Fail, &stats),
        stats: &stats,
        most_rows: 50,
        are_of_table: false,
        is_tight: true,
        now_ms,
        held_back_ms: 0,
        timeline: Timeline::Own,
        window: watermark,
        output: output::Output::default(),
    };
    state.settle(is_plenty)?;
    state.advance(inputs, watermark, &mut work)?;
    if watermark % 2 == 1 {
        state.end_beat(&mut work)?;
    }
    let finished = work.output.finish()?.items.into_iter();
    found.extend(finished.map(|(window, item)| match item {
        output::Item::Rows(rows) => (window, rows.columns, rows.watermarks),
        output::Item::Spooled(..) => unreachable!("all of it is in memory"),
    }));
    Ok(())
}

fn saved(state: &dyn State) -> Vec<u8> {
    let mut out = ByteWriter::new();
    state.save(&mut out).unwrap();
    out.into_bytes()
}

fn restored(plan: &KeyedOperator, code: &OperatorCode, bytes: &[u8]) -> Result<Box<dyn State>, Diagnostic> {
    let mut state = state_of(plan, code)?;
    let mut reader = ByteReader::new(bytes);
    state.restore(&mut reader, 0)?;
    reader.end()?;
    Ok(state)
}

/// Whether a state says how often its rows are there.
fn has_counts(kind: &KeyedKind) -> bool {
    matches!(kind, KeyedKind::ChangingJoin(_)) && takes_back(kind)
}

/// Checks that an operator has put out what it should. Where rows go and come back, those of a beat are in no order: when one that is gone
/// is forgotten is up to the state.
fn assert_same(kind: &KeyedKind, found: &Output, expected: &Output) {
    if !has_counts(kind) {
        return assert_eq!(found, expected, "{kind:?}");
    }
    assert!(in_order(found) == in_order(expected), "{kind:?}");
}

/// The rows of an output in an order of their own, each with its window and watermark.
fn in_order(output: &Output) -> Vec<(i64, Option<i64>, String)> {
    let mut rows = Vec::new();
    for (window, columns, watermarks) in output {
        let options = FormatOptions::default().with_null("NULL");
        let shown: Vec<_> = columns.iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        let row = |row: usize| shown.iter().map(|column| format!("{} ", column.value(row))).collect::<String>();
        let watermark = |row: usize| watermarks.as_ref().map(|watermarks| watermarks[row]);
        rows.extend((0..columns[0].len()).map(|number| (*window, watermark(number), row(number))));
    }
    rows.sort();
    rows
}

/// Milliseconds from one step to the next.
const STEP_MS: i64 = 10;

#[test]
fn states_go_on_where_they_were_written() {
    let random = Dice::new(7);
    for round in 0..4 {
        for kind in kinds() {
            let what = format!("{kind:?}");
            let (plan, code) = operator(kind);
            check(&plan, &code).unwrap();
            let steps = steps(&random, &plan, 50);
            let mut undisturbed = state_of(&plan, &code).unwrap();
            let mut expected = Output::new();
            for (i, step) in steps.iter().enumerate() {
                advance(&mut *undisturbed, &code, step, i as i64 * STEP_MS, &mut expected).unwrap();
            }
            assert!(!expected.is_empty(), "{what}");
            let mut state = state_of(&plan, &code).unwrap();
            let (mut found, mut started) = (Output::new(), 0);
            for (i, step) in steps.iter().enumerate() {
                let now = i as i64 * STEP_MS;
                advance(&mut *state, &code, step, now - started, &mut found).unwrap();
                if round == 0 || random.below(8) == 0 {
                    state = restored(&plan, &code, &saved(&*state)).unwrap();
                    started = now;
                }
            }
            assert_same(&plan.kind, &found, &expected);
            let empty = state_of(&plan, &code).unwrap();
            restored(&plan, &code, &saved(&*empty)).unwrap();
        }
    }
}

/// What checkpoints have of a state: its base and the runs behind it, each with its moment.
#[derive(Default)]
struct InPieces {
    pieces: Vec<(Vec<u8>, i64)>,
    /// The version that each ended.
    versions: Vec<u32>,
}

impl InPieces {
    /// A checkpoint: a run in place of some of the last ones, or now and then all.
    fn save(&mut self, state: &mut dyn State, random: &Dice, now_ms: i64) {
        if let Some(versioned) = state.versioned()
            && versioned.is_noting()
        {
            assert!(versioned.is_between_beats());
            let ended = self.versions.last().copied().unwrap_or(0) + 1;
            if !self.pieces.is_empty() && random.below(12) != 0 {
                let kept = self.pieces.len() - random.below(self.pieces.len() as u64) as usize;
                let mut out = ByteWriter::new();
                versioned.save_since(self.versions[kept - 1], &mut out).unwrap();
                versioned.end_version();
                self.pieces.truncate(kept);
                self.versions.truncate(kept);
                self.pieces.push((out.into_bytes(), now_ms));
                return self.versions.push(ended);
            }
        }
        (self.pieces, self.versions) = (vec![(saved(state), now_ms)], vec![0]);
        state.versioned().into_iter().for_each(|versioned| versioned.begin());
    }

    /// What they say, in a process in which the last of them is of moment 0.
    fn restored(&mut self, plan: &KeyedOperator, code: &OperatorCode) -> Result<Box<dyn State>, Diagnostic> {
        let last = self.pieces.last().map_or(0, |(_, moment)| *moment);
        self.pieces.iter_mut().for_each(|(_, moment)| *moment -= last);
        self.versions = (0..self.pieces.len() as u32).collect();
        let pieces = self.pieces.iter().map(|(bytes, moment)| Ok((bytes.clone(), *moment)));
        kept::in_pieces(pieces, state_of(plan, code)?)
    }
}

#[test]
fn states_are_what_their_base_and_runs_say() {
    let random = Dice::new(17);
    let mut runs = 0;
    for round in 0..3 {
        for kind in kinds() {
            let (plan, code) = operator(kind);
            let mut state = state_of(&plan, &code).unwrap();
            if state.versioned().is_none() {
                continue;
            }
            let steps = steps(&random, &plan, 60);
            let mut undisturbed = state_of(&plan, &code).unwrap();
            let (mut expected, mut found, mut started) = (Output::new(), Output::new(), 0);
            let mut stored = InPieces::default();
            for (i, step) in steps.iter().enumerate() {
                let now = i as i64 * STEP_MS;
                advance(&mut *undisturbed, &code, step, now, &mut expected).unwrap();
                advance(&mut *state, &code, step, now - started, &mut found).unwrap();
                let is_between_beats = step.watermark % 2 == 1 || !Behaviour::of(&plan.kind).ends_beats;
                if is_between_beats && random.below(if round == 0 { 1 } else { 3 }) == 0 {
                    stored.save(&mut *state, &random, now - started);
                    runs += usize::from(stored.pieces.len() > 1);
                    if random.below(4) == 0 {
                        state = stored.restored(&plan, &code).unwrap();
                        started = now;
                    }
                }
                if random.below(3) == 0 {
                    // It is in a file of the run for a while.
                    let mut notes = ByteWriter::new();
                    state.versioned().unwrap().save_notes(&mut notes);
                    let mut read = state_of(&plan, &code).unwrap();
                    read.restore(&mut ByteReader::new(&saved(&*state)), now - started).unwrap();
                    let notes = notes.into_bytes();
                    read.versioned().unwrap().restore_notes(&mut ByteReader::new(&notes)).unwrap();
                    state = read;
                }
            }
            assert_same(&plan.kind, &found, &expected);
        }
    }
    assert!(runs > 1000, "{runs}");
}

#[test]
fn damaged_runs_give_errors_or_work() {
    let random = Dice::new(13);
    for kind in kinds() {
        let has_counts = has_counts(&kind);
        let what = format!("{kind:?}");
        let (plan, code) = operator(kind);
        let mut state = state_of(&plan, &code).unwrap();
        let mut steps = steps(&random, &plan, 12);
        steps.iter_mut().for_each(|step| step.watermark |= 1);
        let (before, after) = steps.split_at(6);
        let mut pieces = Vec::new();
        for step in before {
            advance(&mut *state, &code, step, 0, &mut Output::new()).unwrap();
            let is_first = pieces.is_empty();
            let base = if is_first { saved(&*state) } else { Vec::new() };
            let Some(versioned) = state.versioned() else { break };
            if is_first {
                versioned.begin();
                pieces.push(base);
            } else if versioned.is_noting() {
                let mut out = ByteWriter::new();
                versioned.save_since(pieces.len() as u32 - 1, &mut out).unwrap();
                versioned.end_version();
                pieces.push(out.into_bytes());
            }
        }
        let of = |pieces: &[Vec<u8>]| {
            kept::in_pieces(pieces.iter().map(|piece| Ok((piece.clone(), 0))), state_of(&plan, &code)?)
        };
        let Some(run) = (1..pieces.len()).last() else { continue };
        of(&pieces).unwrap();
        for length in (0..pieces[run].len()).step_by(pieces[run].len() / 60 + 1) {
            let mut pieces = pieces.clone();
            pieces[run].truncate(length);
            let Err(error) = of(&pieces) else { panic!("{what}: {length} bytes are enough") };
            assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{what}: {error:?}");
        }
        for _ in 0..300 {
            let mut pieces = pieces.clone();
            let at = random.below(pieces[run].len() as u64) as usize;
            pieces[run][at] ^= 1 << random.below(8);
            match of(&pieces) {
                Err(error) => assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{what}: {error:?}"),
                // A row that it says is there a thousand billion times would be put out as often.
                Ok(_) if has_counts => {}
                Ok(mut state) => after.iter().for_each(|step| {
                    // Which rows it has is not known.
                    let _ = advance(&mut *state, &code, step, 0, &mut Output::new());
                }),
            }
        }
    }
}

/// A row with this number and name, as a step in an odd watermark, at which beats end.
fn beat_of(rows: &[(i64, &str)], inputs: usize) -> Step {
    let ordinal = Ordinal { watermark: 0, input: 0, split: 0, position: 0, pipeline: 0 };
    let row = |&(number, name): &(i64, &str)| (ordinal, 0, number, Some(name.to_string()), 1);
    let mut all: Vec<Rows> = vec![Vec::new(); inputs];
    all[0] = rows.iter().map(row).collect();
    Step { inputs: all, watermark: 1 }
}

/// How many rows a step puts out, as they are added and taken back.
fn changes_of(state: &mut dyn State, code: &OperatorCode, step: &Step, now_ms: i64) -> (usize, usize) {
    let mut found = Output::new();
    advance(state, code, step, now_ms, &mut found).unwrap();
    let (mut added, mut taken) = (0, 0);
    for (_, columns, _) in found {
        let weights = columns.last().unwrap().as_primitive::<Int8Type>().values().to_vec();
        added += weights.iter().filter(|weight| **weight > 0).count();
        taken += weights.iter().filter(|weight| **weight < 0).count();
    }
    (added, taken)
}

#[test]
fn what_is_not_written_for_its_time_to_live_begins_again() {
    let ttl_ms = Some(160);
    let order = vec![SortColumn { column: 1, descending: true, nulls_first: true }];
    let group = KeyedKind::Group(Group { aggregates: aggregates(), changes: None, ttl_ms });
    let last = |ties| Top {
        order: order.clone(),
        function: RankFunction::RowNumber,
        range: (1, 1),
        ties,
        shows_rank: false,
        weight: None,
        ttl_ms,
        is_alone: false,
    };
    for kind in [group, KeyedKind::Top(last(Ties::Last)), KeyedKind::Top(last(Ties::Values))] {
        let what = format!("{kind:?}");
        let (plan, code) = operator(kind);
        let mut state = state_of(&plan, &code).unwrap();
        let mut at = |rows: &[(i64, &str)], now| changes_of(&mut *state, &code, &beat_of(rows, 1), now);
        assert_eq!(at(&[(1, "a"), (1, "b")], 0), (2, 0), "{what}");
        assert_eq!(at(&[(2, "a")], 100), (1, 1), "{what}");
        // Nobody is told that a group is forgotten; the other one has been written since.
        assert_eq!(at(&[], 200), (0, 0), "{what}");
        assert_eq!(at(&[(3, "b")], 210), (1, 0), "{what}");
        assert_eq!(at(&[(4, "a")], 220), (1, 1), "{what}");
        assert_eq!(state.due(), 270, "{what}: when it was written last but one");
    }
    // A row of the left finds no partner that has been forgotten, and one of the other side does not find it.
    let sides = [Some(160), None];
    let join = ChangingJoin { kind: JoinKind::Left, residual: None, weights: [None, None], ttl_ms: sides };
    let (plan, code) = operator(KeyedKind::ChangingJoin(join));
    let mut state = state_of(&plan, &code).unwrap();
    let turned = |rows: &[(i64, &str)]| {
        let Step { mut inputs, watermark } = beat_of(rows, 2);
        inputs.swap(0, 1);
        Step { inputs, watermark }
    };
    assert_eq!(changes_of(&mut *state, &code, &beat_of(&[(1, "a"), (1, "b")], 2), 0), (2, 0), "without partners");
    assert_eq!(changes_of(&mut *state, &code, &turned(&[(1, "a")]), 100), (1, 1), "one has come");
    assert_eq!(changes_of(&mut *state, &code, &turned(&[(1, "a"), (1, "b")]), 300), (0, 0), "the left is forgotten");
    assert_eq!(changes_of(&mut *state, &code, &beat_of(&[(1, "a")], 2), 1000), (2, 0), "the right is kept");
}

#[test]
fn rows_of_shared_buffers_are_as_good_as_own_ones() {
    let random = Dice::new(5);
    for _ in 0..3 {
        for kind in kinds().into_iter().filter(|kind| Behaviour::of(kind).shares != Shares::Nothing) {
            let what = format!("{kind:?}");
            let (plan, code) = operator(kind);
            let steps = steps(&random, &plan, 40);
            let (mut own, mut other) = (state_of(&plan, &code).unwrap(), state_of(&plan, &code).unwrap());
            let (mut expected, mut found) = (Output::new(), Output::new());
            for (i, step) in steps.iter().enumerate() {
                let now = i as i64 * STEP_MS;
                advance(&mut *own, &code, step, now, &mut expected).unwrap();
                let inputs = step.inputs.iter();
                let inputs = inputs.map(|rows| if random.below(3) == 0 { batch(rows) } else { shared(rows, &random) });
                let inputs = (inputs.collect(), step.watermark);
                let is_plenty = random.below(4) != 0;
                advance_with(&mut *other, &code, inputs, (now, is_plenty), &mut found).unwrap();
                if random.below(6) == 0 {
                    other = restored(&plan, &code, &saved(&*other)).unwrap();
                    own = restored(&plan, &code, &saved(&*own)).unwrap();
                }
            }
            assert_eq!(found, expected, "{what}");
        }
    }
}

#[test]
fn damaged_states_give_errors_or_work() {
    let random = Dice::new(11);
    for kind in kinds() {
        let has_counts = has_counts(&kind);
        let what = format!("{kind:?}");
        let (plan, code) = operator(kind);
        let steps = steps(&random, &plan, 12);
        let (before, after) = steps.split_at(6);
        let mut state = state_of(&plan, &code).unwrap();
        for step in before {
            advance(&mut *state, &code, step, 0, &mut Output::new()).unwrap();
        }
        let bytes = saved(&*state);
        for length in (0..bytes.len()).step_by(bytes.len() / 60 + 1) {
            match restored(&plan, &code, &bytes[..length]) {
                Ok(_) => panic!("{what}: {length} of {} bytes are enough", bytes.len()),
                Err(error) => assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{what}: {error:?}"),
            }
        }
        for _ in 0..300 {
            let mut bytes = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
            match restored(&plan, &code, &bytes) {
                Err(error) => assert_eq!(error.code, code::CHECKPOINT_DAMAGED, "{what}: {error:?}"),
                // A row that it says is there a thousand billion times would be put out as often.
                Ok(_) if has_counts => {}
                Ok(mut state) => after.iter().for_each(|step| {
                    // Which rows it has is not known.
                    let _ = advance(&mut *state, &code, step, 0, &mut Output::new());
                }),
            }
        }
    }
}

#[test]
fn batches_are_read_as_they_were() {
    let random = Dice::new(3);
    let join = WindowJoin { kind: JoinKind::Inner, residual: None };
    let step = &steps(&random, &operator(KeyedKind::WindowJoin(join)).0, 1)[0];
    for batch in step.inputs.iter().map(batch).chain([Batch::default()]) {
        // What others have of the same buffers is not written.
        let part = match batch.rows() {
            0 => batch.clone(),
            rows => batch.pick((0..rows as u32 / 2).collect()).unwrap(),
        };
        for batch in [batch, part] {
            let mut out = ByteWriter::new();
            batch.save(&mut out).unwrap();
            let bytes = out.into_bytes();
            let mut reader = ByteReader::new(&bytes);
            let restored = Batch::restore(&schema(), &mut reader).unwrap();
            reader.end().unwrap();
            assert_eq!((&restored.columns, &restored.ordinals), (&batch.columns, &batch.ordinals));
            assert!((0..bytes.len()).all(|n| Batch::restore(&schema(), &mut ByteReader::new(&bytes[..n])).is_err()));
            if batch.rows() > 0 {
                let other = Schema::new(schema().fields[1..].to_vec());
                assert!(Batch::restore(&other, &mut ByteReader::new(&bytes)).is_err());
            }
        }
    }
}

#[test]
fn rows_of_all_types_are_read_as_they_were() {
    let of = |t: DataType| Arc::new(t);
    let row = DataType::Row(Arc::new([Field::new("a", DataType::Int, false), Field::new("b", DataType::STRING, true)]));
    let types = [
        DataType::Null,
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::decimal(20, 3),
        DataType::Char(3),
        DataType::BYTES,
        DataType::Date,
        DataType::Time(3),
        DataType::Timestamp(3),
        DataType::Timestamp(6),
        DataType::TimestampLtz(9),
        DataType::IntervalMonth,
        DataType::IntervalMilli,
        DataType::Array(of(DataType::STRING)),
        DataType::Map(of(DataType::STRING), of(DataType::Array(of(DataType::decimal(5, 1))))),
        row,
    ];
    let schema = Schema::new(types.into_iter().map(|t| Field::new("column", t, true)).collect());
    let column = |field: &Field| arrow_array::new_null_array(&field.data_type.to_arrow(), 3);
    let columns: Vec<ArrayRef> = schema.fields.iter().map(column).collect();
    let mut store = store::RowStore::new(&schema);
    store.push(columns, 3).unwrap();
    let mut out = ByteWriter::new();
    store.save(&mut out).unwrap();
    let bytes = out.into_bytes();
    let mut restored = store::RowStore::new(&schema);
    restored.restore(&mut ByteReader::new(&bytes)).unwrap();
    let rows = [2, store::NO_ROW, 0];
    assert_eq!(restored.gather(&rows).unwrap(), store.gather(&rows).unwrap());
}
