//! How much CPU time compilation takes, and what comes out: `cargo run --example compile_time -p millstream-jit [-- ir|asm]`.
//!
//! Compiles programs like those of the Yahoo! Streaming Benchmark (filter, tumbling count per key) and others at every
//! optimisation, then runs them over a million rows in memory.

use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringViewArray};
use millstream_abi::{Accumulator, EntryLayout, Phys, Str};
use millstream_codegen::execute;
use millstream_codegen::lower::Lowered;
use millstream_codegen::program::{
    Access, Comparison, Component, Emit, FilterShape, Input, Op, Program, Statement, Terminal, Update, Value,
};
use millstream_codegen::testing::MemoryTables;
use millstream_functions::FunctionContext;
use millstream_jit::{CompileOptions, Optimization, assembly, compile, generate, llvm_ir, load};
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// CPU time of this thread: other work on the machine does not count.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

const ROWS: usize = 1 << 20;
const REPEATS: u32 = 20;

/// A program under construction.
struct Sketch {
    program: Program,
}

impl Sketch {
    fn new(name: &str, inputs: &[(&str, Phys)]) -> Sketch {
        let inputs = inputs.iter().map(|&(name, phys)| Input::array(name, phys, false)).collect();
        Sketch {
            program: Program {
                name: name.into(),
                inputs,
                types: vec![],
                strings: vec![],
                sites: vec![],
                body: vec![],
                terminal: Terminal::Emit(vec![]),
            },
        }
    }

    fn op(&mut self, phys: Phys, op: Op) -> Value {
        let value = Value(self.program.types.len() as u32);
        self.program.types.push(phys);
        self.program.body.push(Statement::Let(value, op));
        value
    }

    fn filter(&mut self, condition: Value, counts_late: bool) {
        self.program.body.push(Statement::Filter { condition, counts_late, shape: FilterShape::Auto });
    }

    /// The rows whose event type is 'view'.
    fn views_only(&mut self) {
        let view = self.op(Phys::I128, Op::LoadView(0));
        let constant = self.op(Phys::I128, Op::Int(Str::new(b"view").bits() as i128));
        let is_view = self.op(Phys::Bool, Op::Compare(Comparison::Eq, view, constant));
        self.filter(is_view, false);
    }

    /// The slice of the time in input 2, after dropping late rows.
    fn slice(&mut self) -> Value {
        let time = self.op(Phys::I64, Op::Load(2));
        let slice = self.op(Phys::I64, Op::SliceStart { time, size_ms: 10_000, offset_ms: 0 });
        let size = self.op(Phys::I64, Op::Int(10_000));
        let end = self.op(Phys::I64, Op::Add(slice, size));
        let watermark = self.op(Phys::I64, Op::Watermark);
        let on_time = self.op(Phys::Bool, Op::Compare(Comparison::Gt, end, watermark));
        self.filter(on_time, true);
        slice
    }

    fn update(
        mut self,
        slice: Option<Value>,
        keys: &[Value],
        accumulators: &[(Accumulator, Option<Value>)],
    ) -> Program {
        let types: Vec<(Phys, bool)> = keys.iter().map(|&k| (self.program.type_of(k), false)).collect();
        let kinds: Vec<Accumulator> = accumulators.iter().map(|a| a.0).collect();
        self.program.terminal = Terminal::Update(Update {
            access: Access::Own,
            layout: EntryLayout::new(&types, &kinds),
            slice,
            keys: keys.iter().map(|&k| (k, None)).collect(),
            components: accumulators.iter().map(|a| Component { argument: a.1, valid: None, guard: None }).collect(),
        });
        self.program
    }
}

const INPUTS: [(&str, Phys); 5] =
    [("type", Phys::Str), ("key", Phys::I64), ("time", Phys::I64), ("price", Phys::I128), ("weight", Phys::F64)];

fn ysb() -> Program {
    let mut sketch = Sketch::new("filter, count by key and 10 s", &INPUTS);
    sketch.views_only();
    let slice = sketch.slice();
    let key = sketch.op(Phys::I64, Op::Load(1));
    sketch.update(Some(slice), &[key], &[(Accumulator::Count, None)])
}

fn keyless() -> Program {
    let mut sketch = Sketch::new("count and sum by 10 s", &INPUTS);
    let slice = sketch.slice();
    let key = sketch.op(Phys::I64, Op::Load(1));
    sketch.update(Some(slice), &[], &[(Accumulator::Count, None), (Accumulator::SumI64, Some(key))])
}

fn many_aggregates() -> Program {
    let mut sketch = Sketch::new("eight aggregates by two keys", &INPUTS);
    sketch.views_only();
    let slice = sketch.slice();
    let (key, name) = (sketch.op(Phys::I64, Op::Load(1)), sketch.op(Phys::Str, Op::Load(0)));
    let (price, weight) = (sketch.op(Phys::I128, Op::Load(3)), sketch.op(Phys::F64, Op::Load(4)));
    let accumulators = [
        (Accumulator::Count, None),
        (Accumulator::SumI128, Some(price)),
        (Accumulator::MinI128, Some(price)),
        (Accumulator::MaxI128, Some(price)),
        (Accumulator::SumF64, Some(weight)),
        (Accumulator::MinF64, Some(weight)),
        (Accumulator::MaxF64, Some(weight)),
        (Accumulator::MaxStr, Some(name)),
    ];
    sketch.update(Some(slice), &[key, name], &accumulators)
}

fn projection() -> Program {
    let mut sketch = Sketch::new("projection", &INPUTS);
    let (price, key) = (sketch.op(Phys::I128, Op::Load(3)), sketch.op(Phys::I64, Op::Load(1)));
    let factor = sketch.op(Phys::I128, Op::Int(908));
    let euros = sketch.op(Phys::I128, Op::Mul(price, factor));
    let next = sketch.op(Phys::I64, Op::Add(key, key));
    let emit = |name: &str, value| Emit { name: name.into(), value, valid: None };
    sketch.program.terminal = Terminal::Emit(vec![emit("euros", euros), emit("next", next)]);
    sketch.program
}

fn columns() -> Vec<ArrayRef> {
    let types = ["view", "click", "purchase"];
    let time = |row: usize| row as i64 / 20;
    vec![
        Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|r| types[((r * 7919) >> 3) % 3]))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(|r| (r * 7919 % 100) as i64))),
        Arc::new(Int64Array::from_iter_values((0..ROWS).map(time))),
        Arc::new(Decimal128Array::from_iter_values((0..ROWS).map(|r| r as i128 * 17))),
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|r| r as f64 / 3.0))),
    ]
}

/// Rows per second of a program over the columns.
fn speed(program: &Program, options: &CompileOptions, columns: &[ArrayRef]) -> Result<f64, Box<dyn Error>> {
    let kernel = compile(program, options)?;
    let (outputs, output_types) = (vec![], vec![]);
    let lowered = Lowered { program: program.clone(), vectors: vec![], outputs, output_types };
    let mut functions = FunctionContext::default();
    let mut fail = |_: execute::RowError| execute::Flow::Stop;
    let started = cpu_time();
    for _ in 0..REPEATS {
        match &program.terminal {
            Terminal::Emit(_) => {
                execute::emit(&lowered, &kernel, columns, ROWS, &[i64::MIN], &mut functions, &mut fail)?;
            }
            Terminal::Update(update) => {
                let mut tables = MemoryTables::of(update);
                let hooks = tables.hooks();
                execute::update(
                    &lowered,
                    &kernel,
                    (columns, None),
                    ROWS,
                    &[i64::MIN],
                    hooks,
                    &mut functions,
                    &mut fail,
                )?;
            }
        }
    }
    Ok(ROWS as f64 * REPEATS as f64 / (cpu_time() - started).as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    match std::env::args().nth(1).as_deref() {
        Some("ir") => return Ok(out.write_all(llvm_ir(&ysb(), &CompileOptions::default())?.as_bytes())?),
        Some("asm") => return Ok(out.write_all(assembly(&ysb(), &CompileOptions::default())?.as_bytes())?),
        _ => {}
    }
    let columns = columns();
    for program in [ysb(), keyless(), many_aggregates(), projection()] {
        writeln!(out, "{}", program.name)?;
        for optimization in [Optimization::None, Optimization::Less, Optimization::Full] {
            let options = CompileOptions { optimization, ..CompileOptions::default() };
            let (mut making, mut loading) = (Vec::new(), Vec::new());
            for _ in 0..9 {
                let started = cpu_time();
                let object = generate(&program, &options)?;
                making.push(cpu_time() - started);
                let started = cpu_time();
                load(&program.name, &object)?;
                loading.push(cpu_time() - started);
            }
            making.sort();
            loading.sort();
            let bytes = compile(&program, &options)?.code_bytes();
            let speed = speed(&program, &options, &columns)? / 1e6;
            let (making, loading) = (making[4], loading[4]);
            writeln!(
                out,
                "  {optimization:?}: compiled in {making:.1?}, loaded in {loading:.1?}, {bytes} bytes, {speed:.0} M rows/s"
            )?;
        }
    }
    Ok(())
}
