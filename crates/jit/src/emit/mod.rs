//! Row program to LLVM IR: one function that processes a range of rows.
//!
//! ```text
//! entry    stack slots
//! setup    what is computed once a run: addresses of columns, callbacks, constants of long strings
//! block    for each block of rows (only when there are several stages, or slices)
//!   stage 1   for each row:      statements; append the row to the selection, branch-free
//!   uniform   the lowest and highest time, the slice (only when rows go to slices)
//!   stage n   for each selected: statements; the terminal. Twice: within one slice, and in general
//! finish   write back counters; the status
//! ```
//!
//! A row that fails ends its stage there: the stages after it see only rows before it, and a failure in one of them
//! is of an earlier row, so it replaces the first. After the last stage of the block the run ends with the error. So the
//! rows before the failed one have had their whole effect, the others none.
//!
//! Variables live in stack slots, which LLVM turns into registers. Blocks and values are named after the statement they
//! come from: `v7` in a row program is `%v7` here.

mod calls;
mod columns;
mod components;
mod doubles;
mod find_entry;
mod ir;
mod logs;
mod ops;
mod records;
mod selection;
mod shared;
mod strings;
mod terminal;
mod uniform;
mod update;
mod wide;

use crate::stages::{Action, StagePlan};
use columns::Column;
use inkwell::IntPredicate;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use inkwell::types::BasicType;
use inkwell::values::FloatValue;
pub(crate) use ir::Emitted;
use ir::{Basic, Block, Int, Ir, Ptr};
use millstream_abi::{ExecContext, Status};
use millstream_codegen::program::{FilterShape, Op, Program, Statement, Terminal, Value};
use millstream_codegen::specialise::is_total;
use selection::Selection;
use std::collections::HashMap;
use std::mem::offset_of;
use update::TableState;

/// Symbol of a runtime function in generated code.
pub(crate) fn runtime_symbol(function: millstream_abi::RuntimeFn) -> String {
    format!("fn.{}", function.name())
}

/// Emits the function `run` of a well-formed program into a new module for a machine.
pub(crate) fn emit<'c>(context: &'c Context, program: &Program, machine: &TargetMachine) -> Emitted<Module<'c>> {
    let plan = StagePlan::new(program);
    let outputs = match &program.terminal {
        Terminal::Emit(columns) => 2 * columns.len() + 1,
        Terminal::Update(_) => 0,
    };
    let ir = Ir::new(context, &program.name, outputs, &machine.get_feature_string().to_string_lossy());
    // Before anything is emitted, because loads and stores take the alignments of types from it.
    ir.module.set_triple(&machine.get_triple());
    ir.module.set_data_layout(&machine.get_target_data().get_data_layout());
    ir.attribute(ir.function, "nounwind", 0);
    let emitter = Emitter::new(ir, program, &plan)?;
    emitter.run()
}

/// Where a stage's rows come from.
#[derive(Clone, Copy)]
enum Rows<'c> {
    /// All rows from one to before another.
    Range(Int<'c>, Int<'c>),
    /// The rows of a block, from the first on, this many.
    Block(Int<'c>, Int<'c>),
    /// The selected rows of the block that starts here.
    Selection(Int<'c>),
}

/// A row that a run stops at, in stack slots; there only when a program can fail.
struct Failure<'c> {
    /// `u64::MAX` until a row fails.
    row: Ptr<'c>,
    /// An [`millstream_abi::ErrorKind`].
    kind: Ptr<'c>,
    site: Ptr<'c>,
}

/// State of emission: what lasts for the function, and what changes with the stage.
struct Emitter<'c, 'p> {
    ir: Ir<'c>,
    program: &'p Program,
    plan: &'p StagePlan,
    context: Ptr<'c>,
    /// Operations that define values, to see constants.
    operations: HashMap<Value, &'p Op>,
    /// Hoisted addresses of input columns, by input.
    columns: HashMap<u32, Column<'c>>,
    /// Hoisted constants of long strings, by number.
    long_strings: HashMap<u32, Int<'c>>,
    /// Hoisted addresses of watermarks, and the mask of row numbers.
    watermarks: Option<(Ptr<'c>, Int<'c>)>,
    /// Arrays of spilled values.
    spills: HashMap<Value, Ptr<'c>>,
    /// Argument slots of calls, the result slot.
    call_slots: Option<(Ptr<'c>, Ptr<'c>)>,
    /// Result slot of 128-bit support functions.
    wide_slot: Option<Ptr<'c>>,
    failure: Option<Failure<'c>>,
    out_rows: Option<Ptr<'c>>,
    late_rows: Option<Ptr<'c>>,
    table: Option<TableState<'c>>,
    selection: Option<Selection<'c>>,
    /// Values that are the same for all rows of the block, while its one slice is processed.
    uniform: Option<HashMap<Value, Basic<'c>>>,

    /// Values of the current stage.
    values: HashMap<Value, Basic<'c>>,
    /// Number of the current row.
    row: Int<'c>,
    /// The same, from the start of the block.
    row_in_block: Int<'c>,
    /// The first row of the block, while a loop goes through all of its rows.
    block_start: Option<Int<'c>>,
    /// Where a row that a branching filter drops goes.
    next_row: Block<'c>,
    /// Where control goes after a failed row.
    stage_end: Block<'c>,
}

fn can_fail(statement: &Statement) -> bool {
    statement.all().any(|s| matches!(s, Statement::Call(_) | Statement::Trap { .. }))
}

impl<'c, 'p> Emitter<'c, 'p> {
    fn new(ir: Ir<'c>, program: &'p Program, plan: &'p StagePlan) -> Emitted<Emitter<'c, 'p>> {
        let (context, start, _) = ir.parameters();
        // Rows and blocks are set when the first stage begins; these keep the fields free of options.
        let nowhere = ir.block("finish");
        let counter = |offset: usize, name: &str| {
            let slot = ir.slot(ir.i64, name)?;
            ir.hoist(|ir| ir.store(slot, ir.load_word(ir.at(context, offset, name)?, name)?.into()))?;
            Emitted::Ok(slot)
        };
        let is_late = |s: &Statement| matches!(s, Statement::Filter { counts_late: true, .. });
        let (mut out_rows, mut late_rows, mut failure, mut selection, mut table) = Default::default();
        if matches!(program.terminal, Terminal::Emit(_)) {
            out_rows = Some(counter(offset_of!(ExecContext, out_rows), "out_rows")?);
        }
        if program.body.iter().any(is_late) {
            late_rows = Some(counter(offset_of!(ExecContext, late_rows), "late_rows")?);
        }
        if program.body.iter().any(can_fail) {
            failure = Some(Failure {
                row: ir.variable(ir.word(u64::MAX), "failed.row")?,
                kind: ir.variable(ir.i32.const_zero(), "failed.kind")?,
                site: ir.variable(ir.i32.const_zero(), "failed.site")?,
            });
        }
        let mut spills = HashMap::new();
        if plan.stages.len() > 1 {
            selection = Some(Selection::new(&ir, plan.block_rows)?);
            for &value in &plan.spilled {
                let array = ir.memory_type(program.type_of(value)).array_type(plan.block_rows as u32);
                spills.insert(value, ir.slot(array, &format!("{value}.spilled"))?);
            }
        }
        if let Terminal::Update(update) = &program.terminal {
            table = Some(TableState::new(&ir, context, update)?);
        }
        Ok(Emitter {
            row: start,
            row_in_block: start,
            block_start: None,
            next_row: nowhere,
            stage_end: nowhere,
            ir,
            program,
            plan,
            context,
            operations: program.ops().collect(),
            columns: HashMap::new(),
            long_strings: HashMap::new(),
            watermarks: None,
            spills,
            call_slots: None,
            wide_slot: None,
            failure,
            out_rows,
            late_rows,
            table,
            selection,
            uniform: None,
            values: HashMap::new(),
        })
    }

    /// Emits everything.
    fn run(mut self) -> Emitted<Module<'c>> {
        let (_, start, end) = self.ir.parameters();
        let finish = self.next_row;
        let begin = self.ir.block("begin");
        self.ir.enter(begin);
        if self.plan.has_blocks() {
            self.blocks(start, end, finish)?;
        } else {
            self.stage(0, Rows::Range(start, end))?;
            self.ir.jump(finish)?;
        }
        self.ir.enter(finish);
        // The epilogue stands last, which is where a reader looks for it.
        self.ir.move_to_end(finish);
        self.finish()?;
        self.ir.close_setup(begin)?;
        Ok(self.ir.module)
    }

    /// The loop over blocks of rows.
    fn blocks(&mut self, start: Int<'c>, end: Int<'c>, finish: Block<'c>) -> Emitted<()> {
        let ir = &self.ir;
        let (head, body) = (ir.block("block"), ir.block("block.rows"));
        let (first, base) = ir.begin_loop(head, start, "block.start")?;
        let more = ir.compare(IntPredicate::ULT, base, end, "block.more")?;
        ir.branch(more, body, finish)?;
        ir.enter(body);
        let left = ir.b.build_int_sub(end, base, "block.left")?;
        let full = ir.word(self.plan.block_rows);
        let is_last = ir.compare(IntPredicate::ULT, left, full, "block.is_last")?;
        let length = ir.select(is_last, left.into(), full.into(), "block.length")?.into_int_value();
        let last = self.plan.stages.len() - 1;
        for number in 0..=last {
            let rows = if number == 0 { Rows::Block(base, length) } else { Rows::Selection(base) };
            match (&self.plan.uniform, rows) {
                (Some(uniform), rows) if number == last => self.last_stage(uniform, rows, base, length)?,
                (_, Rows::Block(..)) if number < last && self.plan.only_selects(self.program, number) => {
                    self.selecting_stage(number, base, length)?
                }
                (_, rows) => self.stage(number, rows)?,
            }
        }
        let ir = &self.ir;
        if let Some(failure) = &self.failure {
            let go_on = ir.block("block.next");
            let row = ir.load_word(failure.row, "failed")?;
            let failed = ir.compare(IntPredicate::NE, row, ir.word(u64::MAX), "has_failed")?;
            ir.branch_rarely(failed, finish, go_on)?;
            ir.enter(go_on);
        }
        let next = ir.b.build_int_add(base, length, "block.end")?;
        first.add_incoming(&[(&next, ir.current())]);
        ir.jump(head)
    }

    /// One loop over rows. Control comes in at the current block and leaves at the current block.
    fn stage(&mut self, number: usize, rows: Rows<'c>) -> Emitted<()> {
        let is_last = number + 1 == self.plan.stages.len();
        let name = |what: &str| format!("stage{}.{what}", number + 1);
        let ir = &self.ir;
        let (head, body) = (ir.block(&name("more")), ir.block(&name("row")));
        let (latch, exit) = (ir.block(&name("next")), ir.block(&name("end")));
        let (from, to) = match &rows {
            Rows::Range(from, to) => (*from, *to),
            Rows::Block(_, length) => (ir.word(0), *length),
            Rows::Selection(_) => (ir.word(0), self.selected()?),
        };
        if !is_last {
            self.select_none()?;
        }
        let (counter, index) = ir.begin_loop(head, from, &name("index"))?;
        let more = ir.compare(IntPredicate::ULT, index, to, &name("has_more"))?;
        ir.branch(more, body, exit)?;
        ir.enter(body);
        (self.row, self.row_in_block) = self.current_row(&rows, index)?;
        (self.next_row, self.stage_end) = (latch, exit);
        self.values = self.uniform.clone().unwrap_or_default();
        self.row_body(number, is_last)?;

        let ir = &self.ir;
        ir.jump(latch)?;
        ir.enter(latch);
        let next = ir.b.build_int_nuw_add(index, ir.word(1), &name("index.next"))?;
        counter.add_incoming(&[(&next, latch)]);
        ir.jump_back(head)?;
        // Behind the blocks of the row, in order of execution.
        ir.move_to_end(latch);
        ir.move_to_end(exit);
        ir.enter(exit);
        Ok(())
    }

    /// (row, row in block) of the element at an index of the stage's rows.
    fn current_row(&self, rows: &Rows<'c>, index: Int<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let ir = &self.ir;
        match rows {
            Rows::Range(..) => Ok((index, index)),
            Rows::Selection(base) => {
                let in_block = self.selected_row(index)?;
                Ok((ir.b.build_int_add(*base, in_block, "row")?, in_block))
            }
            Rows::Block(base, _) => Ok((ir.b.build_int_add(*base, index, "row")?, index)),
        }
    }

    /// What a stage does with one row.
    fn row_body(&mut self, number: usize, is_last: bool) -> Emitted<()> {
        if !is_last {
            let kept = self.is_kept(number)?;
            return self.select_row(kept);
        }
        let (program, plan) = (self.program, self.plan);
        let done = match (&self.uniform, &plan.uniform) {
            (Some(_), Some(uniform)) => Some(&uniform.statements),
            _ => None,
        };
        let mut masked = None;
        for (&index, &action) in &plan.stages[number].actions {
            match (&program.body[index], action) {
                _ if done.is_some_and(|done| done.contains(&index)) => {}
                (statement, Action::Reload) => self.reload(statement)?,
                (Statement::Filter { condition, shape: FilterShape::Mask, .. }, _) => {
                    masked = Some(self.masked(masked, *condition)?);
                }
                (Statement::Filter { condition, counts_late: false, .. }, _) => {
                    let condition = self.masked(masked.take(), *condition)?;
                    self.branch_filter(condition, false)?;
                }
                (statement, _) => {
                    if !is_total(statement) {
                        self.apply(&mut masked)?;
                    }
                    self.statement(statement)?;
                }
            }
        }
        self.apply(&mut masked)?;
        match &program.terminal {
            Terminal::Emit(columns) => self.emit_row(columns),
            Terminal::Update(update) => self.update_table(update),
        }
    }

    /// Executes a stage before the last for one row: whether its filters keep it.
    fn is_kept(&mut self, number: usize) -> Emitted<Int<'c>> {
        let (program, plan) = (self.program, self.plan);
        let mut kept = None;
        for (&index, &action) in &plan.stages[number].actions {
            match (&program.body[index], action) {
                (statement, Action::Reload) => self.reload(statement)?,
                (Statement::Filter { condition, shape: FilterShape::Branch, .. }, _) => {
                    let condition = self.masked(kept.take(), *condition)?;
                    self.branch_filter(condition, false)?;
                }
                (Statement::Filter { condition, .. }, _) => kept = Some(self.masked(kept, *condition)?),
                (statement, _) => {
                    self.statement(statement)?;
                    self.spill(statement)?;
                }
            }
        }
        Ok(kept.unwrap_or_else(|| self.ir.i1.const_int(1, false)))
    }

    /// A condition and-ed with those that were not applied yet.
    fn masked(&self, masked: Option<Int<'c>>, condition: Value) -> Emitted<Int<'c>> {
        let condition = self.int(condition);
        Ok(masked.map_or(Ok(condition), |masked| self.ir.b.build_and(masked, condition, "kept"))?)
    }

    /// Applies conditions that were not yet.
    fn apply(&self, masked: &mut Option<Int<'c>>) -> Emitted<()> {
        masked.take().map_or(Ok(()), |condition| self.branch_filter(condition, false))
    }

    /// A filter as a branch.
    fn branch_filter(&self, condition: Int<'c>, counts_late: bool) -> Emitted<()> {
        let ir = &self.ir;
        let passes = ir.block("filter.pass");
        match self.late_rows {
            Some(late_rows) if counts_late => {
                let late = ir.block("filter.late");
                let is_late = ir.b.build_not(condition, "is_late")?;
                ir.branch_rarely(is_late, late, passes)?;
                ir.enter(late);
                ir.increase(late_rows, ir.word(1))?;
                ir.jump(self.next_row)?;
            }
            _ => ir.branch(condition, passes, self.next_row)?,
        }
        ir.enter(passes);
        Ok(())
    }

    fn statement(&mut self, statement: &'p Statement) -> Emitted<()> {
        match statement {
            Statement::Let(value, op) => {
                let result = self.op(*value, op)?;
                self.values.insert(*value, result);
                Ok(())
            }
            Statement::Call(call) => self.call(call),
            Statement::If { condition, then, otherwise, results } => self.if_else(*condition, then, otherwise, results),
            Statement::Trap { condition, kind, site } => {
                self.stop_when(self.int(*condition), *kind as u32, *site, "trap")
            }
            Statement::Filter { condition, counts_late, .. } => self.branch_filter(self.int(*condition), *counts_late),
        }
    }

    fn if_else(
        &mut self,
        condition: Value,
        then: &'p [Statement],
        otherwise: &'p [Statement],
        results: &[(Value, Value, Value)],
    ) -> Emitted<()> {
        let name = |what: &str| format!("if.{condition}.{what}");
        let (yes, no, end) = (self.ir.block(&name("then")), self.ir.block(&name("else")), self.ir.block(&name("end")));
        self.ir.branch(self.int(condition), yes, no)?;
        let mut incoming = Vec::with_capacity(2);
        for (block, statements) in [(yes, then), (no, otherwise)] {
            self.ir.enter(block);
            statements.iter().try_for_each(|s| self.statement(s))?;
            incoming.push(self.ir.current());
            self.ir.jump(end)?;
        }
        self.ir.enter(end);
        for &(result, a, b) in results {
            let merged =
                self.ir.merge(&[(self.value(a), incoming[0]), (self.value(b), incoming[1])], &result.to_string())?;
            self.values.insert(result, merged);
        }
        Ok(())
    }

    /// Ends the run at the row when the condition holds: `kind` is an [`millstream_abi::ErrorKind`].
    fn stop_when(&self, condition: Int<'c>, kind: u32, site: u32, name: &str) -> Emitted<()> {
        let ir = &self.ir;
        let failure = self.failure.as_ref().expect("a program that can stop keeps failures");
        let (failed, go_on) = (ir.block(&format!("{name}.failed")), ir.block(&format!("{name}.passed")));
        ir.branch_rarely(condition, failed, go_on)?;
        ir.enter(failed);
        ir.store(failure.row, self.row.into())?;
        ir.store(failure.kind, ir.constant(ir.i32, kind.into()).into())?;
        ir.store(failure.site, ir.constant(ir.i32, site as i128).into())?;
        ir.jump(self.stage_end)?;
        ir.enter(go_on);
        Ok(())
    }

    /// Stores the results of a statement that a later stage needs.
    fn spill(&self, statement: &Statement) -> Emitted<()> {
        self.each_spilled(statement, |value, place| {
            let stored = self.to_memory(self.value(value), self.program.type_of(value))?;
            self.ir.store(place, stored)
        })
    }

    fn reload(&mut self, statement: &Statement) -> Emitted<()> {
        let mut loaded = Vec::new();
        self.each_spilled(statement, |value, place| {
            let phys = self.program.type_of(value);
            let stored = self.ir.load(self.ir.memory_type(phys), place, &value.to_string())?;
            loaded.push((value, self.to_register(stored, phys)?));
            Ok(())
        })?;
        self.values.extend(loaded);
        Ok(())
    }

    fn each_spilled(&self, statement: &Statement, mut each: impl FnMut(Value, Ptr<'c>) -> Emitted<()>) -> Emitted<()> {
        for value in statement.definitions() {
            if let Some(&array) = self.spills.get(&value) {
                let ty = self.ir.memory_type(self.program.type_of(value));
                each(value, self.ir.element(ty, array, self.row_in_block, &format!("{value}.place"))?)?;
            }
        }
        Ok(())
    }

    /// The epilogue.
    fn finish(&self) -> Emitted<()> {
        let ir = &self.ir;
        if let Some(table) = &self.table {
            table.close(ir)?;
        }
        for (slot, offset) in
            [(self.out_rows, offset_of!(ExecContext, out_rows)), (self.late_rows, offset_of!(ExecContext, late_rows))]
        {
            if let Some(slot) = slot {
                let total = ir.load_word(slot, "total")?;
                ir.store(ir.at(self.context, offset, "total.place")?, total.into())?;
            }
        }
        if let Some(failure) = &self.failure {
            let (failed, done) = (ir.block("finish.failed"), ir.block("finish.done"));
            let row = ir.load_word(failure.row, "failed")?;
            let has_failed = ir.compare(IntPredicate::NE, row, ir.word(u64::MAX), "has_failed")?;
            ir.branch_rarely(has_failed, failed, done)?;
            ir.enter(failed);
            for (slot, offset) in [
                (failure.kind, offset_of!(ExecContext, error_kind)),
                (failure.site, offset_of!(ExecContext, error_site)),
            ] {
                let value = ir.load(ir.i32, slot, "detail")?;
                ir.store(ir.at(self.context, offset, "detail.place")?, value)?;
            }
            let status = ir.b.build_or(row, ir.word(Status::ERROR), "status")?;
            ir.b.build_return(Some(&status))?;
            ir.enter(done);
        }
        ir.b.build_return(Some(&ir.word(Status::DONE.0)))?;
        Ok(())
    }

    /// The value of a variable of the row program.
    fn value(&self, value: Value) -> Basic<'c> {
        *self.values.get(&value).expect("the verifier has seen every value defined before its use")
    }

    fn int(&self, value: Value) -> Int<'c> {
        self.value(value).into_int_value()
    }

    fn float(&self, value: Value) -> FloatValue<'c> {
        self.value(value).into_float_value()
    }
}
