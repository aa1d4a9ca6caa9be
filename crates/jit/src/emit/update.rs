//! Updating tables: the slice, the key, its entry, the accumulators.
//!
//! The current slice and its table's header are kept in variables, reloaded after the callbacks that change them. A
//! table without keys has one entry, so its accumulators are kept in variables too, as long as the slice stays the same:
//! a run over rows of one slice then counts and sums in registers. Only strings and objects, which callbacks change, stay
//! in the entry.

use super::Emitter;
use super::ir::{Basic, Emitted, Int, Ir, Ptr};
use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use millstream_abi::{Accumulator, EntryLayout, ExecContext, TableHeader};
use millstream_codegen::program::{Access, Update};
use std::mem::offset_of;

/// A word of an accumulator that is kept in a variable.
struct Local<'c> {
    slot: Ptr<'c>,
    ty: BasicTypeEnum<'c>,
    /// Place in the entry.
    offset: usize,
}

/// The one entry of a table without keys.
pub(super) struct SingleEntry<'c> {
    /// Variable: its address, null until the slice's first row.
    pub(super) entry: Ptr<'c>,
    locals: Vec<Local<'c>>,
}

/// Variables and hoisted callbacks of a table update.
pub(super) struct TableState<'c> {
    context: Ptr<'c>,
    slice: Ptr<'c>,
    table: Ptr<'c>,
    pub(super) entries: Ptr<'c>,
    pub(super) mask: Ptr<'c>,
    pub(super) dense: Ptr<'c>,
    pub(super) dense_first: Ptr<'c>,
    pub(super) dense_len: Ptr<'c>,
    has_dense_key: bool,
    find_slice: Ptr<'c>,
    pub(super) insert_key: Ptr<'c>,
    pub(super) keep_string: Ptr<'c>,
    /// Slots of the keys of an insertion.
    pub(super) keys: Ptr<'c>,
    /// A string that is being kept, or an argument of an object.
    pub(super) scratch: Ptr<'c>,
    pub(super) update_object: Ptr<'c>,
    /// `ExecContext::groups`
    pub(super) groups: Ptr<'c>,
    pub(super) single: Option<SingleEntry<'c>>,
}

impl<'c> TableState<'c> {
    pub(super) fn new(ir: &Ir<'c>, context: Ptr<'c>, update: &Update) -> Emitted<TableState<'c>> {
        let field = |offset: usize, name: &str| ir.hoist(|ir| ir.load_ptr(ir.at(context, offset as u64, name)?, name));
        let slice_start = ir.hoist(|ir| {
            let place = ir.at(context, offset_of!(ExecContext, slice_start) as u64, "slice_start")?;
            ir.load_word(place, "slice_start")
        })?;
        let slots = ir.i128.array_type(update.keys.len().max(1) as u32);
        Ok(TableState {
            context,
            slice: ir.variable(slice_start, "slice")?,
            table: ir.variable(field(offset_of!(ExecContext, table), "table")?, "table.current")?,
            entries: ir.variable(ir.ptr.const_null(), "entries")?,
            mask: ir.variable(ir.word(0), "mask")?,
            dense: ir.variable(ir.ptr.const_null(), "dense")?,
            dense_first: ir.variable(ir.word(0), "dense.first")?,
            dense_len: ir.variable(ir.word(0), "dense.len")?,
            has_dense_key: update.layout.dense_key().is_some(),
            find_slice: field(offset_of!(ExecContext, find_slice), "find_slice")?,
            insert_key: field(offset_of!(ExecContext, insert_key), "insert_key")?,
            keep_string: field(offset_of!(ExecContext, keep_string), "keep_string")?,
            keys: ir.slot(slots, "insert.keys")?,
            scratch: ir.slot(ir.i128, "callback.slot")?,
            update_object: field(offset_of!(ExecContext, update_object), "update_object")?,
            groups: field(offset_of!(ExecContext, groups), "groups")?,
            single: if update.keys.is_empty() { Some(SingleEntry::new(ir, &update.layout)?) } else { None },
        })
    }

    /// At the start of a run: looks into the table that the context brings, if any.
    pub(super) fn open(&self, ir: &Ir<'c>) -> Emitted<()> {
        let (there, opened) = (ir.block("table.there"), ir.block("table.opened"));
        let table = ir.load_ptr(self.table, "table")?;
        ir.branch(ir.b.build_is_null(table, "table.missing")?, opened, there)?;
        ir.enter(there);
        self.reload_header(ir)?;
        ir.jump(opened)?;
        ir.enter(opened);
        Ok(())
    }

    /// At the end of a run.
    pub(super) fn close(&self, ir: &Ir<'c>) -> Emitted<()> {
        match &self.single {
            Some(single) => single.flush(ir),
            None => Ok(()),
        }
    }

    /// After an insertion: the table may have grown.
    pub(super) fn reload_header(&self, ir: &Ir<'c>) -> Emitted<()> {
        let table = ir.load_ptr(self.table, "table")?;
        let pointer = |variable: Ptr<'c>, offset: usize, name: &str| {
            ir.store(variable, ir.load_ptr(ir.at(table, offset as u64, name)?, name)?.into())
        };
        let word = |variable: Ptr<'c>, offset: usize, name: &str| {
            ir.store(variable, ir.load_word(ir.at(table, offset as u64, name)?, name)?.into())
        };
        pointer(self.entries, offset_of!(TableHeader, entries), "entries.now")?;
        word(self.mask, offset_of!(TableHeader, mask), "mask.now")?;
        if self.has_dense_key {
            pointer(self.dense, offset_of!(TableHeader, dense), "dense.now")?;
            word(self.dense_first, offset_of!(TableHeader, dense_first), "dense.first.now")?;
            word(self.dense_len, offset_of!(TableHeader, dense_len), "dense.len.now")?;
        }
        Ok(())
    }

    /// Makes the table of a slice the current one.
    fn enter_slice(&self, ir: &Ir<'c>, slice: Option<Int<'c>>) -> Emitted<()> {
        let (change, ready) = (ir.block("update.slice"), ir.block("update.slice_ready"));
        let table = ir.load_ptr(self.table, "table")?;
        let mut stale = ir.b.build_is_null(table, "table.missing")?;
        if let Some(slice) = slice {
            let current = ir.load_word(self.slice, "slice.current")?;
            let differs = ir.compare(IntPredicate::NE, slice, current, "slice.differs")?;
            stale = ir.b.build_or(stale, differs, "slice.is_stale")?;
        }
        ir.branch_rarely(stale, change, ready)?;
        ir.enter(change);
        if let Some(single) = &self.single {
            single.flush(ir)?;
            ir.store(single.entry, ir.ptr.const_null().into())?;
        }
        let ty = ir.context.void_type().fn_type(&[ir.ptr.into(), ir.i64.into()], false);
        let start = slice.unwrap_or(ir.word(0));
        ir.b.build_indirect_call(ty, self.find_slice, &[self.context.into(), start.into()], "")?;
        let place = ir.at(self.context, offset_of!(ExecContext, slice_start) as u64, "slice.place")?;
        ir.store(self.slice, ir.load_word(place, "slice.new")?.into())?;
        let place = ir.at(self.context, offset_of!(ExecContext, table) as u64, "table.place")?;
        ir.store(self.table, ir.load_ptr(place, "table.new")?.into())?;
        self.reload_header(ir)?;
        ir.jump(ready)?;
        ir.enter(ready);
        Ok(())
    }
}

impl<'c> SingleEntry<'c> {
    fn new(ir: &Ir<'c>, layout: &EntryLayout) -> Emitted<SingleEntry<'c>> {
        let mut locals = Vec::new();
        for (number, &(accumulator, offset)) in layout.accumulators.iter().enumerate() {
            if matches!(accumulator, Accumulator::MinStr | Accumulator::MaxStr | Accumulator::Object(..)) {
                continue;
            }
            let ty = ir.memory_type(accumulator.output());
            let words = if accumulator == Accumulator::SumF64 { 2 } else { 1 };
            for word in 0..words {
                let initial: Basic = ty.const_zero();
                let slot = ir.variable(initial, &format!("accumulator{number}.{word}"))?;
                locals.push(Local { slot, ty, offset: offset + 8 * word });
            }
        }
        Ok(SingleEntry { entry: ir.variable(ir.ptr.const_null(), "entry")?, locals })
    }

    /// The variable of the accumulator word at an offset of the entry.
    pub(super) fn local(&self, offset: usize) -> Option<Ptr<'c>> {
        self.locals.iter().find(|l| l.offset == offset).map(|l| l.slot)
    }

    /// Writes the variables back to the entry, if there is one.
    fn flush(&self, ir: &Ir<'c>) -> Emitted<()> {
        let (write, written) = (ir.block("entry.write"), ir.block("entry.written"));
        let entry = ir.load_ptr(self.entry, "entry")?;
        ir.branch(ir.b.build_is_null(entry, "entry.missing")?, written, write)?;
        ir.enter(write);
        for local in &self.locals {
            let value = ir.load(local.ty, local.slot, "accumulated")?;
            ir.store(ir.at(entry, local.offset as u64, "accumulator")?, value)?;
        }
        ir.jump(written)?;
        ir.enter(written);
        Ok(())
    }

    /// Takes the accumulators of a freshly found entry into the variables.
    fn take(&self, ir: &Ir<'c>, entry: Ptr<'c>) -> Emitted<()> {
        ir.store(self.entry, entry.into())?;
        for local in &self.locals {
            let value = ir.load(local.ty, ir.at(entry, local.offset as u64, "accumulator")?, "accumulated")?;
            ir.store(local.slot, value)?;
        }
        Ok(())
    }
}

impl<'c> Emitter<'c, '_> {
    fn table(&self) -> &TableState<'c> {
        self.table.as_ref().expect("a program that updates has table state")
    }

    /// `Terminal::Update`
    pub(super) fn update_table(&self, update: &Update) -> Emitted<()> {
        let ir = &self.ir;
        let table = self.table();
        table.enter_slice(ir, update.slice.map(|s| self.int(s)))?;
        let entry = match &table.single {
            None => {
                let key = self.table_key(update)?;
                self.probe(table, update, &key)?
            }
            Some(single) => {
                let (find, found) = (ir.block("update.entry"), ir.block("update.entry_ready"));
                let known = ir.load_ptr(single.entry, "entry")?;
                ir.branch_rarely(ir.b.build_is_null(known, "entry.missing")?, find, found)?;
                ir.enter(find);
                let key = self.table_key(update)?;
                let entry = self.probe(table, update, &key)?;
                single.take(ir, entry)?;
                ir.jump(found)?;
                ir.enter(found);
                ir.load_ptr(single.entry, "entry")?
            }
        };
        let accumulators = update.layout.accumulators.iter().zip(&update.components);
        for (number, (&(accumulator, offset), component)) in accumulators.enumerate() {
            match (accumulator, component.argument) {
                (Accumulator::Object(_, phys), Some(argument)) => {
                    let field = ir.at(entry, offset as u64, "accumulator")?;
                    self.update_object(table, field, number, (argument, phys), component)?;
                }
                _ if update.access == Access::Shared => self.update_shared(entry, accumulator, offset, component)?,
                _ => self.update_component(table, entry, accumulator, offset, component)?,
            }
        }
        Ok(())
    }
}
