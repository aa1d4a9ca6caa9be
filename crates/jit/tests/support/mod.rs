//! Hand-made programs over hand-made columns, run by both back ends.
#![allow(dead_code, reason = "each test file uses a part")]

use arrow_array::ArrayRef;
use millstream_abi::{ErrorKind, Phys};
use millstream_codegen::execute::{self, Emitted, Flow, RowError};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::lower::{Lowered, OutputSource};
use millstream_codegen::program::{Emit, FilterShape, Input, Op, Program, Site, Statement, Terminal, Update, Value};
use millstream_codegen::testing::{MemoryTables, texts};
use millstream_functions::FunctionContext;
use millstream_jit::{CompileOptions, compile};
use millstream_types::DataType;
use std::sync::Arc;

/// A program under construction.
pub struct Sketch {
    pub program: Program,
}

/// What a run has given.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub columns: Vec<Vec<String>>,
    pub selection: Vec<u32>,
    /// (row, message)
    pub errors: Vec<(usize, String)>,
    pub entries: Vec<String>,
    pub late_rows: u64,
}

/// A SQL type that computes as `phys`.
pub fn type_of(phys: Phys) -> DataType {
    match phys {
        Phys::Bool => DataType::Boolean,
        Phys::I8 => DataType::TinyInt,
        Phys::I16 => DataType::SmallInt,
        Phys::I32 => DataType::Int,
        Phys::I64 => DataType::BigInt,
        Phys::I128 => DataType::decimal(38, 0),
        Phys::F32 => DataType::Float,
        Phys::F64 => DataType::Double,
        Phys::Str => DataType::STRING,
    }
}

impl Sketch {
    pub fn new(inputs: &[Phys]) -> Sketch {
        let input = |(i, &phys): (usize, &Phys)| Input::array(format!("c{i}"), phys, true);
        Sketch {
            program: Program {
                name: "sketch".into(),
                inputs: inputs.iter().enumerate().map(input).collect(),
                types: vec![],
                strings: vec![],
                sites: vec![Site { what: "x".into(), line: 1, column: 1, length: 1 }],
                body: vec![],
                terminal: Terminal::Emit(vec![]),
            },
        }
    }

    pub fn value(&mut self, phys: Phys) -> Value {
        self.program.types.push(phys);
        Value(self.program.types.len() as u32 - 1)
    }

    pub fn op(&mut self, phys: Phys, op: Op) -> Value {
        let value = self.value(phys);
        self.push(Statement::Let(value, op));
        value
    }

    pub fn load(&mut self, input: u32) -> Value {
        self.op(self.program.inputs[input as usize].phys, Op::Load(input))
    }

    pub fn string(&mut self, text: &str) -> Value {
        self.program.strings.push(text.as_bytes().into());
        self.op(Phys::Str, Op::Str(self.program.strings.len() as u32 - 1))
    }

    pub fn push(&mut self, statement: Statement) {
        self.program.body.push(statement);
    }

    pub fn filter(&mut self, condition: Value) {
        self.push(Statement::Filter { condition, counts_late: false, shape: FilterShape::Auto });
    }

    pub fn trap(&mut self, condition: Value) {
        self.push(Statement::Trap { condition, kind: ErrorKind::Overflow, site: 0 });
    }

    /// Ends in emitting values that are never NULL.
    pub fn emit(mut self, values: &[Value]) -> Program {
        let emit = |&value: &Value| Emit { name: value.to_string(), value, valid: None };
        self.program.terminal = Terminal::Emit(values.iter().map(emit).collect());
        self.program
    }

    pub fn update(mut self, update: Update) -> Program {
        self.program.terminal = Terminal::Update(update);
        self.program
    }
}

fn lowered(program: &Program) -> Lowered {
    let (outputs, output_types) = match &program.terminal {
        Terminal::Emit(columns) => (
            (0..columns.len()).map(OutputSource::Emitted).collect(),
            columns.iter().map(|c| type_of(program.type_of(c.value))).collect(),
        ),
        Terminal::Update(_) => (vec![], vec![]),
    };
    Lowered { program: program.clone(), vectors: vec![], outputs, output_types }
}

/// Compiles a program and runs it, skipping bad rows; checks that the interpreter gives the same.
pub fn run(program: &Program, columns: &[ArrayRef], watermarks: &[i64]) -> (Outcome, Vec<ArrayRef>) {
    let compiled = compile(program, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{program}"));
    let interpreter = Interpreter::new(Arc::new(program.clone()));
    let (found, arrays) = run_kernel(program, &compiled, columns, watermarks);
    assert_eq!(found, run_kernel(program, &interpreter, columns, watermarks).0, "{program}");
    (found, arrays)
}

fn run_kernel(
    program: &Program,
    kernel: &dyn millstream_codegen::kernel::Kernel,
    columns: &[ArrayRef],
    watermarks: &[i64],
) -> (Outcome, Vec<ArrayRef>) {
    let lowered = lowered(program);
    let rows = columns[0].len();
    let mut functions = FunctionContext::default();
    let mut errors = Vec::new();
    let mut on_error = |error: RowError| {
        errors.push((error.row, error.diagnostic.message));
        Flow::Skip
    };
    let mut outcome = Outcome { columns: vec![], selection: vec![], errors: vec![], entries: vec![], late_rows: 0 };
    let mut arrays = vec![];
    match &program.terminal {
        Terminal::Emit(_) => {
            let Emitted { columns, selection, late_rows, .. } =
                execute::emit(&lowered, kernel, columns, rows, watermarks, &mut functions, &mut on_error)
                    .expect("the columns fit");
            outcome.columns = columns.iter().map(texts).collect();
            (outcome.selection, outcome.late_rows) = (selection.into_vec(), late_rows);
            arrays = columns;
        }
        Terminal::Update(update) => {
            let mut tables = MemoryTables::of(update);
            let hooks = tables.hooks();
            let done = execute::update(
                &lowered,
                kernel,
                (columns, None),
                rows,
                watermarks,
                hooks,
                &mut functions,
                &mut on_error,
            );
            outcome.late_rows = done.expect("the columns fit").late_rows;
            outcome.entries = tables.entries();
        }
    }
    outcome.errors = errors;
    (outcome, arrays)
}
