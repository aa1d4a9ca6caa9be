//! The vectorised interpreter: executes a program a block of rows at a time, each operation over all rows of the block
//! that need it. First tier of every query, and the oracle that machine code is tested against.
//!
//! A block's live rows are a *selection* of lanes. A filter shrinks it, an `if` splits it for its branches. When a row
//! fails, the lanes from it on are cut off: the operations that remain are executed for the rows before it only, so
//! that exactly these have their effect. Effects (emitted rows, table updates, late rows) happen after the
//! block's operations, in order of rows.

mod call;
mod emit;
mod lanes;
mod load;
mod ops;
mod shared;
pub mod update;

use crate::kernel::{Kernel, Tier};
use crate::program::{Op, Program, Statement, Terminal, Value};
use crate::verify::verify;
use lanes::{Lanes, Selection};
use millstream_abi::{ErrorKind, ExecContext, Status};
use std::sync::Arc;

/// Rows of a block: registers of a few dozen values stay within the second-level cache.
const BLOCK_ROWS: usize = 1024;

/// A row program executed by interpretation.
#[derive(Debug, Clone)]
pub struct Interpreter {
    program: Arc<Program>,
}

impl Interpreter {
    /// Makes a verified program executable.
    pub fn new(program: Arc<Program>) -> Interpreter {
        debug_assert_eq!(verify(&program), Ok(()), "{program}");
        Interpreter { program }
    }
}

impl Kernel for Interpreter {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        let rows = BLOCK_ROWS.min(end.saturating_sub(start) as usize);
        let registers = self.program.types.iter().map(|&phys| Lanes::new(phys, rows)).collect();
        let mut machine = Machine {
            program: &self.program,
            context,
            registers,
            first_row: start,
            limit: 0,
            stop: None,
            late: Vec::new(),
        };
        // Constants hold for every block.
        for (value, op) in self.program.ops().filter(|(_, op)| op.is_constant()) {
            machine.op(value, op, &Selection::All(rows));
        }
        // SAFETY: promised by the caller.
        unsafe { machine.blocks(end) }
    }

    fn tier(&self) -> Tier {
        Tier::Interpreted
    }
}

/// Why a run ends before its last row: the row is bad.
#[derive(Debug, Clone, Copy)]
struct Stop {
    kind: ErrorKind,
    site: u32,
}

/// One run in progress.
struct Machine<'a> {
    program: &'a Program,
    context: &'a mut ExecContext,
    /// The values of the current block, by value number.
    registers: Vec<Lanes>,
    /// Row of lane 0.
    first_row: u64,
    /// Lanes from here on are cut off: the block's length, or the row that the run stops at.
    limit: usize,
    /// Why it stops there.
    stop: Option<Stop>,
    /// Lanes that were dropped because they are late.
    late: Vec<u32>,
}

impl Machine<'_> {
    /// Executes the rows before `end`.
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn blocks(&mut self, end: u64) -> Status {
        while self.first_row < end {
            let rows = BLOCK_ROWS.min((end - self.first_row) as usize);
            // SAFETY: the caller's promise about the context holds for these rows.
            if let Some(Stop { kind, site }) = unsafe { self.block(rows) } {
                let row = self.first_row + self.limit as u64;
                (self.context.error_kind, self.context.error_site) = (kind as u32, site);
                return Status(Status::ERROR | row);
            }
            self.first_row += rows as u64;
        }
        Status::DONE
    }

    /// Executes the next `rows` rows; the result says why the run stops at the row at `limit`.
    ///
    /// # Safety
    /// As [`Kernel::run`] for these rows.
    unsafe fn block(&mut self, rows: usize) -> Option<Stop> {
        self.limit = rows;
        self.stop = None;
        self.late.clear();
        let mut selection = Selection::All(rows);
        let program = self.program;
        // SAFETY: promised by the caller.
        unsafe { self.statements(&program.body, &mut selection) };
        selection.truncate(self.limit);
        let limit = self.limit;
        self.context.late_rows += self.late.iter().filter(|&&lane| (lane as usize) < limit).count() as u64;
        if !selection.is_empty() {
            match &program.terminal {
                // SAFETY: promised by the caller.
                Terminal::Emit(columns) => unsafe { self.emit(columns, &selection) },
                // SAFETY: promised by the caller.
                Terminal::Update(update) => unsafe { self.update(update, &selection) },
            }
        }
        self.stop
    }

    /// Executes statements for the lanes of `selection`, which filters shrink.
    ///
    /// # Safety
    /// As [`Kernel::run`] for the rows of the block.
    unsafe fn statements(&mut self, statements: &[Statement], selection: &mut Selection) {
        for statement in statements {
            selection.truncate(self.limit);
            if selection.is_empty() {
                return;
            }
            match statement {
                Statement::Let(_, op) if op.is_constant() => {}
                // SAFETY: promised by the caller.
                Statement::Let(value, op @ (Op::Load(i) | Op::IsValid(i) | Op::LoadView(i) | Op::LoadBytes(i, _))) => unsafe {
                    self.load(*value, op, *i, selection);
                },
                // SAFETY: promised by the caller.
                Statement::Let(value, Op::Watermark) => unsafe { self.watermark(*value, selection) },
                Statement::Let(value, op) => self.op(*value, op, selection),
                Statement::Call(call) => {
                    // SAFETY: promised by the caller; the verifier has checked the call.
                    unsafe { self.call(call, selection) };
                }
                Statement::If { condition, then, otherwise, results } => {
                    let (mut yes, mut no) = selection.split(self.lanes::<bool>(*condition));
                    // SAFETY: promised by the caller.
                    unsafe { self.statements(then, &mut yes) };
                    // SAFETY: promised by the caller.
                    unsafe { self.statements(otherwise, &mut no) };
                    for (result, a, b) in results {
                        self.copy(*result, *a, &yes);
                        self.copy(*result, *b, &no);
                    }
                }
                Statement::Trap { condition, kind, site } => {
                    if let Some(lane) = selection.first(self.lanes::<bool>(*condition)) {
                        self.fail(lane, *kind, *site);
                    }
                }
                Statement::Filter { condition, counts_late, .. } => {
                    let (yes, no) = selection.split(self.lanes::<bool>(*condition));
                    if *counts_late {
                        no.each(|lane| self.late.push(lane as u32));
                    }
                    *selection = yes;
                }
            }
        }
    }

    /// Makes the row of `lane`, which is live, the first bad row of the block.
    fn fail(&mut self, lane: usize, kind: ErrorKind, site: u32) {
        debug_assert!(lane < self.limit, "lanes behind a bad row are cut off");
        self.limit = lane;
        self.stop = Some(Stop { kind, site });
    }

    fn lanes<T: lanes::Lane>(&self, value: Value) -> &[T] {
        T::slice(&self.registers[value.0 as usize])
    }
}
