use super::*;
use crate::adaptive::EventLog;
use crate::buffer::{Buffer, Rows, Stamp};
use crate::config::When;
use crate::pipeline_stages::Staged;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use millstream_abi::{ExecContext, Phys, RuntimeFn, Status};
use millstream_codegen::execute::{Flow, emit};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::lower::{Lowered, OutputSource};
use millstream_codegen::program::{Call, Comparison, Emit, FilterShape, Input, Op, Site, Statement, Terminal, Value};
use millstream_codegen::specialise::Choices;
use millstream_functions::FunctionContext;
use millstream_types::DataType;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const ROWS: usize = 8192;

/// `SELECT number WHERE text LIKE '…' AND number < 0`
fn lowered() -> Lowered {
    let filter = |condition| Statement::Filter { condition, counts_late: false, shape: FilterShape::Auto };
    let body = vec![
        Statement::Let(Value(0), Op::Load(0)),
        Statement::Let(Value(1), Op::Str(0)),
        Statement::Call(Call {
            result: Value(2),
            valid: Value(3),
            function: RuntimeFn::Like,
            arguments: vec![Value(0), Value(1)],
            site: 0,
        }),
        filter(Value(2)),
        Statement::Let(Value(4), Op::Load(1)),
        Statement::Let(Value(5), Op::IsValid(1)),
        Statement::Let(Value(6), Op::Int(0)),
        Statement::Let(Value(7), Op::Compare(Comparison::Lt, Value(4), Value(6))),
        Statement::Let(Value(8), Op::And(Value(5), Value(7))),
        filter(Value(8)),
    ];
    use Phys::{Bool, I64, Str};
    let program = Program {
        name: "pipeline 0".into(),
        inputs: vec![Input::array("text", Str, false), Input::array("number", I64, true)],
        types: vec![Str, Str, Bool, Bool, I64, Bool, I64, Bool, Bool],
        strings: vec![b"%ab%cd%".as_slice().into()],
        sites: vec![Site { what: "text".into(), line: 0, column: 0, length: 0 }],
        body,
        terminal: Terminal::Emit(vec![Emit { name: "number".into(), value: Value(4), valid: None }]),
    };
    let outputs = vec![OutputSource::Emitted(0)];
    Lowered { program, vectors: Vec::new(), outputs, output_types: vec![DataType::BigInt] }
}

struct Run {
    code: PipelineCode,
    unit: AdaptedProgram,
    events: EventLog,
    now: Duration,
}

impl Run {
    fn new() -> Run {
        Run::with(&Adaptivity::default())
    }

    fn with(settings: &Adaptivity) -> Run {
        let code = PipelineCode::interpreted(Arc::new(lowered()));
        let adaptable = Adaptable { code: code.clone(), aggregation: None, hints: Arc::default() };
        let unit = AdaptedProgram::new(&adaptable, settings, &FunctionSettings::default()).expect("it has filters");
        Run { code, unit, events: EventLog::default(), now: Duration::ZERO }
    }

    /// Processes a buffer, and lets the unit look at it; the rows that came out.
    fn buffer(&mut self, number: impl Fn(usize) -> Option<i64>) -> usize {
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|i| format!("ab and cd {i:20}"))));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..ROWS).map(number)));
        let rows = Rows { columns: vec![texts, numbers], rows: ROWS, ..Rows::default() };
        let stamp = Stamp { sequence: 0, watermark: i64::MIN, first_row: 0, generation: Default::default() };
        let buffer = Buffer::new(rows, stamp);
        let staged = Staged::new(&buffer, buffer.whole());
        let mut functions = FunctionContext::new(FunctionSettings::default());
        let emitted = self.code.run(&staged.columns, staged.rows, |kernel| {
            let (lowered, columns) = (&self.code.lowered, &staged.columns);
            emit(lowered, kernel, columns, ROWS, &[i64::MIN], &mut functions, &mut |_| Flow::Stop).unwrap()
        });
        self.now += Duration::from_millis(10);
        let around = Surroundings { now: self.now, nanos_per_row: None, events: &self.events };
        let mut make = |program: &Program, _: Effort| {
            Some(Arc::new(Interpreter::new(Arc::new(program.clone()))) as Arc<dyn Kernel>)
        };
        self.unit.tick(around, None, &mut make);
        emitted.rows
    }

    fn choices(&self) -> Choices {
        self.code.slot.current().choices()
    }
}

#[test]
fn a_cheap_filter_that_drops_all_goes_first_after_a_trial() {
    let mut run = Run::new();
    let adopted = (0..500).any(|_| {
        assert_eq!(run.buffer(|i| Some(i as i64)), 0);
        run.choices().filters.first().is_some_and(|first| first.filter == 1)
    });
    let events = run.events.all();
    assert!(adopted, "{events:#?}");
    assert!(events[0].decided.contains("on trial") && events[0].gain.is_some(), "{events:#?}");
    assert!(events.last().unwrap().decided.contains("from now on"), "{events:#?}");
}

#[test]
fn what_breaks_is_given_up_and_nothing_is_lost() {
    let mut run = Run::new();
    let program = &run.code.lowered.program;
    let choices = Choices { not_null: [1].into(), ..Choices::default() };
    let special = Arc::new(Interpreter::new(Arc::new(specialise(program, &choices))));
    let special = Specialised::new(program, choices, special, run.unit.generic.kernel());
    run.unit.adopt(run.code.slot.special(special));
    // No sample of the first rows shows the NULLs.
    let breaks = |i: usize| (i < 5000 || !i.is_multiple_of(100)).then_some(-1);
    let expected = (0..ROWS).filter(|&i| breaks(i).is_some()).count();
    (0..10).for_each(|_| assert_eq!(run.buffer(breaks), expected));
    assert!(!run.choices().not_null.contains(&1));
    let events = run.events.all();
    assert!(
        events.iter().any(|e| e.observed.contains("values of number") && e.decided.contains("back to")),
        "{events:#?}"
    );
}

/// Nothing is chosen.
fn nothing() -> Adaptivity {
    Adaptivity {
        filter_order: false,
        filter_shape: Some(FilterShape::Auto),
        not_null: When::Never,
        constants: When::Never,
        few_values: When::Never,
        ..Adaptivity::default()
    }
}

/// A kernel that can be made slow.
struct Slow {
    kernel: Arc<dyn Kernel>,
    is_slow: Arc<AtomicBool>,
}

impl Kernel for Slow {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        if self.is_slow.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { self.kernel.run(context, start, end) }
    }

    fn tier(&self) -> Tier {
        self.kernel.tier()
    }
}

#[test]
fn a_variant_that_has_become_dear_is_doubted() {
    let mut run = Run::with(&nothing());
    let (generic, is_slow) = (run.unit.generic.kernel(), Arc::new(AtomicBool::new(false)));
    let choices = Choices { not_null: [1].into(), ..Choices::default() };
    let program = &run.code.lowered.program;
    let kernel = Arc::new(Interpreter::new(Arc::new(specialise(program, &choices))));
    let slow = Arc::new(Slow { kernel, is_slow: Arc::clone(&is_slow) });
    let special = Specialised::new(program, choices, slow, generic);
    run.unit.adopt(run.code.slot.special(special));
    (0..20).for_each(|_| assert_eq!(run.buffer(|i| Some(i as i64)), 0));
    is_slow.store(true, Relaxed);
    let is_left = (0..100).any(|_| {
        run.buffer(|i| Some(i as i64));
        run.choices().is_generic()
    });
    let events = run.events.all();
    assert!(is_left, "{events:#?}");
    assert!(events[0].observed.starts_with("a row costs ") && events[0].gain.is_some(), "{events:#?}");
}

#[test]
fn what_is_forced_is_not_tried() {
    let mut run = Run::with(&Adaptivity { not_null: When::Always, ..nothing() });
    let is_assumed = (0..100).any(|_| {
        run.buffer(|i| Some(i as i64));
        run.choices().not_null.contains(&1)
    });
    let events = run.events.all();
    assert!(is_assumed && events.len() == 1, "{events:#?}");
    assert!(events[0].decided.contains("as it is set: number is not NULL"), "{events:#?}");
}
