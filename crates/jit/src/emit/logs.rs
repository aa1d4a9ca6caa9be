//! Values of bags and sets of words, which code appends to the log of the table itself (`millstream_abi::ValueLog`).

use super::Emitter;
use super::ir::{Emitted, Ptr};
use super::update::TableState;
use inkwell::IntPredicate;
use millstream_abi::{Phys, TableHeader, ValueLog};
use millstream_codegen::program::{Component, Value};
use std::mem::offset_of;

impl<'c> Emitter<'c, '_> {
    /// Appends a value of component `number`, the list `list` of the layout, whose accumulator is at `field`: when the guard holds. A group
    /// without a number, and a full part of the log, are for whoever has the table.
    pub(super) fn log_value(
        &self,
        table: &TableState<'c>,
        field: Ptr<'c>,
        (number, list): (usize, usize),
        (argument, phys): (Value, Phys),
        component: &Component,
    ) -> Emitted<()> {
        let ir = &self.ir;
        let block = |what: &str| ir.block(&format!("update.log.{what}"));
        let (look, append, call, end) = (block("look"), block("append"), block("call"), block("end"));
        match component.guard {
            Some(guard) => ir.branch(self.int(guard), look, end)?,
            None => ir.jump(look)?,
        }

        ir.enter(look);
        let group = ir.load_word(field, "group")?;
        let logs = table.header_pointer(ir, offset_of!(TableHeader, logs), "logs")?;
        let log = list * size_of::<ValueLog>();
        let used_at = ir.at(logs, log + offset_of!(ValueLog, used), "log.used")?;
        let used = ir.load_word(used_at, "log.used")?;
        let room = ir.load_word(ir.at(logs, log + offset_of!(ValueLog, room), "log.room")?, "log.room")?;
        let is_full = ir.compare(IntPredicate::EQ, used, room, "log.is_full")?;
        let is_new = ir.compare(IntPredicate::EQ, group, ir.i64.const_zero(), "group.is_new")?;
        ir.branch_rarely(ir.b.build_or(is_full, is_new, "log.is_for_host")?, call, append)?;

        ir.enter(append);
        let numbers = ir.load_field(logs, log + offset_of!(ValueLog, numbers), "log.numbers")?;
        let values = ir.load_field(logs, log + offset_of!(ValueLog, values), "log.values")?;
        let group = ir.b.build_int_truncate(group, ir.i32, "group.number")?;
        ir.store(ir.element(ir.i32, numbers, used, "log.number")?, group.into())?;
        ir.store(ir.element(ir.i64, values, used, "log.value")?, self.value(argument))?;
        ir.store(used_at, ir.b.build_int_add(used, ir.word(1), "log.used_now")?.into())?;
        ir.jump(end)?;

        ir.enter(call);
        let unguarded = Component { guard: None, ..component.clone() };
        self.update_object(table, field, number, (argument, phys), &unguarded)?;
        ir.jump(end)?;
        ir.enter(end);
        Ok(())
    }
}
