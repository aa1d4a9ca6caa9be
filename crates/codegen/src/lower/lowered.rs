//! The result of lowering: a row program and what surrounds it.

use crate::program::{Op, Program, Statement, Terminal};
use millstream_abi::{EntryLayout, ErrorKind};
use millstream_plan::expr::VectorFunction;
use millstream_types::DataType;
use std::sync::Arc;

/// A row program with the columns that are evaluated before it and the columns that bypass it.
#[derive(Debug, Clone)]
pub struct Lowered {
    /// The program. Its inputs are all columns of the pipeline's buffers in order, then two for each vector column.
    pub program: Program,
    /// Columns evaluated a buffer at a time before the program runs.
    pub vectors: Vec<VectorColumn>,
    /// Where each output column comes from; empty when the program updates a table.
    pub outputs: Vec<OutputSource>,
    /// Types of the output columns.
    pub output_types: Vec<DataType>,
}

impl Lowered {
    /// A program without vector columns that emits columns of these types.
    pub(crate) fn plain(program: Program, output_types: Vec<DataType>) -> Lowered {
        let outputs = (0..output_types.len()).map(OutputSource::Emitted).collect();
        Lowered { program, vectors: Vec::new(), outputs, output_types }
    }

    /// Whether the program drops no row, and fails only in those in which the call of a vector column has: where none has, it need not run
    /// if it emits nothing.
    pub(crate) fn only_checks_vectors(&self) -> bool {
        self.program.body.iter().all(|statement| match statement {
            Statement::Let(_, op) => matches!(op, Op::Load(_) | Op::IsValid(_)),
            Statement::Trap { kind, .. } => *kind == ErrorKind::FallbackFailed,
            Statement::Call(_) | Statement::If { .. } | Statement::Filter { .. } => false,
        })
    }

    /// Layout of the entries that the program updates; `None` when it emits rows.
    pub fn layout(&self) -> Option<&EntryLayout> {
        match &self.program.terminal {
            Terminal::Update(update) => Some(&update.layout),
            Terminal::Emit(_) => None,
        }
    }

    /// Whether results depend on the watermark before each row: late rows, `CURRENT_WATERMARK`.
    pub fn reads_watermark(&self) -> bool {
        self.program.ops().any(|(_, op)| *op == Op::Watermark)
            || self.vectors.iter().any(|v| v.arguments.reads_watermark())
    }
}

/// Where an output column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputSource {
    /// An input column of the program, passed through: taken by the rows that were emitted, not computed.
    Input(usize),
    /// A column that the program emits.
    Emitted(usize),
}

/// A call of a vectorised function. It appends two inputs to the program: the value, and a Bool column without NULL
/// that is TRUE where the call failed. The program traps on the latter (`ErrorKind::FallbackFailed`) in rows that
/// use the value.
#[derive(Debug, Clone)]
pub struct VectorColumn {
    /// The function.
    pub function: Arc<dyn VectorFunction>,
    /// Emits its arguments, over the columns of the pipeline's buffers (not the vector columns of the program).
    pub arguments: Box<Lowered>,
    /// Type of the result.
    pub data_type: DataType,
    /// The program's site of the call.
    pub site: u32,
}
