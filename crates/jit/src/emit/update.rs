//! Updating tables: the slice, the key, its entry, the accumulators.
//!
//! The last two slices and their tables are kept in variables, and which of them a row belongs to is selected without a
//! branch: rows that come out of order go back and forth between two slices, and a processor cannot guess which is next.
//! What a table's header says is loaded for each row, since it is a cache line that is there anyway. Callbacks know one
//! table at a time; before one is called, it is made that of the row.
//!
//! A table without keys has one entry, so its accumulators are kept in variables, too, as long as the slice stays the same:
//! a run over rows of one slice then counts and sums in registers. Only strings and objects, which callbacks change, stay
//! in the entry. There the last slice is all that is kept.

use super::Emitter;
use super::find_entry::packing_of;
use super::ir::{Basic, Emitted, Int, Ir, Ptr};
use inkwell::IntPredicate;
use inkwell::types::BasicTypeEnum;
use millstream_abi::{Accumulator, EntryLayout, ExecContext, TableHeader};
use millstream_codegen::program::{Access, Update};
use std::cell::Cell;
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
    /// The last slices and their tables, the newest first.
    recent: [Recent<'c>; 2],
    /// The table of the row.
    table: Ptr<'c>,
    /// The slice of the row.
    slice: Ptr<'c>,
    has_slices: bool,
    find_slice: Ptr<'c>,
    pub(super) insert_key: Ptr<'c>,
    pub(super) keep_string: Ptr<'c>,
    /// Slots of the keys of an insertion.
    pub(super) keys: Ptr<'c>,
    /// Where places go that no directory is told.
    pub(super) untold: Ptr<'c>,
    /// A string that is being kept, or an argument of an object.
    pub(super) scratch: Ptr<'c>,
    pub(super) update_object: Ptr<'c>,
    /// `ExecContext::groups`
    pub(super) groups: Ptr<'c>,
    pub(super) single: Option<SingleEntry<'c>>,
    /// Where the entries are of the one table that a block's rows go to.
    header: Option<HeaderCopy<'c>>,
}

/// Variables with words of a table's header: while a block within one slice updates a table that nobody else does, only
/// insertions change it.
struct HeaderCopy<'c> {
    /// Variables for the words and addresses at offsets of the header.
    words: Vec<(usize, Ptr<'c>, BasicTypeEnum<'c>)>,
    /// Whether they stand for the header now.
    is_used: Cell<bool>,
}

/// Variables of a slice.
struct Recent<'c> {
    slice: Ptr<'c>,
    /// Null before the first.
    table: Ptr<'c>,
}

impl<'c> TableState<'c> {
    pub(super) fn new(ir: &Ir<'c>, context: Ptr<'c>, update: &Update) -> Emitted<TableState<'c>> {
        let field = |offset: usize, name: &str| ir.hoist(|ir| ir.load_field(context, offset, name));
        let slice_start = ir.hoist(|ir| {
            let place = ir.at(context, offset_of!(ExecContext, slice_start), "slice_start")?;
            ir.load_word(place, "slice_start")
        })?;
        let first = field(offset_of!(ExecContext, table), "table")?;
        let recent = |name: &str| -> Emitted<Recent<'c>> {
            let slice = ir.variable(slice_start, &format!("slice.{name}"))?;
            Ok(Recent { slice, table: ir.variable(first, &format!("table.{name}"))? })
        };
        let slots = ir.i128.array_type(update.keys.len().max(1) as u32);
        Ok(TableState {
            context,
            recent: [recent("last")?, recent("before")?],
            table: ir.variable(first, "table.current")?,
            slice: ir.variable(slice_start, "slice.current")?,
            has_slices: update.slice.is_some(),
            find_slice: field(offset_of!(ExecContext, find_slice), "find_slice")?,
            insert_key: field(offset_of!(ExecContext, insert_key), "insert_key")?,
            keep_string: field(offset_of!(ExecContext, keep_string), "keep_string")?,
            keys: ir.slot(slots, "insert.keys")?,
            untold: ir.slot(ir.i32, "place.untold")?,
            scratch: ir.slot(ir.i128, "callback.slot")?,
            update_object: field(offset_of!(ExecContext, update_object), "update_object")?,
            groups: field(offset_of!(ExecContext, groups), "groups")?,
            single: if update.keys.is_empty() { Some(SingleEntry::new(ir, &update.layout)?) } else { None },
            header: HeaderCopy::new(ir, update)?,
        })
    }

    /// Takes what the header of the row's table says now.
    pub(super) fn copy_header(&self, ir: &Ir<'c>) -> Emitted<()> {
        let Some(header) = self.header.as_ref().filter(|h| h.is_used.get()) else { return Ok(()) };
        let table = ir.load_ptr(self.table, "table")?;
        for &(offset, slot, ty) in &header.words {
            ir.store(slot, ir.load(ty, ir.at(table, offset, "header.word")?, "header.word")?)?;
        }
        Ok(())
    }

    /// At the end of a run.
    pub(super) fn close(&self, ir: &Ir<'c>) -> Emitted<()> {
        match &self.single {
            Some(single) => single.flush(ir),
            None => Ok(()),
        }
    }

    /// A word of the header of the row's table.
    pub(super) fn header_word(&self, ir: &Ir<'c>, offset: usize, name: &str) -> Emitted<Int<'c>> {
        ir.load_word(self.header_place(ir, offset, name)?, name)
    }

    /// A pointer of the header of the row's table.
    pub(super) fn header_pointer(&self, ir: &Ir<'c>, offset: usize, name: &str) -> Emitted<Ptr<'c>> {
        ir.load_ptr(self.header_place(ir, offset, name)?, name)
    }

    /// Where a word of the header of the row's table is, or its copy.
    fn header_place(&self, ir: &Ir<'c>, offset: usize, name: &str) -> Emitted<Ptr<'c>> {
        let copied = self.header.as_ref().filter(|h| h.is_used.get());
        match copied.and_then(|h| h.words.iter().find(|word| word.0 == offset)) {
            Some(&(_, slot, _)) => Ok(slot),
            None => ir.at(ir.load_ptr(self.table, "table")?, offset, name),
        }
    }

    /// Makes the table of a slice that of the row.
    fn enter_slice(&self, ir: &Ir<'c>, slice: Option<Int<'c>>) -> Emitted<()> {
        let (change, ready) = (ir.block("update.slice"), ir.block("update.slice_ready"));
        let [last, before] = &self.recent;
        let mut table = ir.load_ptr(last.table, "table.last")?;
        let mut is_unknown = ir.i1.const_zero();
        if let Some(slice) = slice {
            let is_last = ir.compare(IntPredicate::EQ, slice, ir.load_word(last.slice, "slice.last")?, "is_last")?;
            let mut is_known = is_last;
            if self.single.is_none() {
                let other = ir.load_word(before.slice, "slice.before")?;
                let is_before = ir.compare(IntPredicate::EQ, slice, other, "is_before")?;
                let other = ir.load_ptr(before.table, "table.before")?;
                table = ir.select_blindly(is_last, table, other, "table.selected")?;
                is_known = ir.b.build_or(is_last, is_before, "is_known")?;
            }
            is_unknown = ir.b.build_not(is_known, "is_unknown")?;
            ir.store(self.slice, slice.into())?;
        }
        ir.store(self.table, table.into())?;
        // A slice from before the first row may have the number of the row's, but it has no table.
        let is_missing = ir.b.build_is_null(table, "table.missing")?;
        let is_stale = ir.b.build_or(is_missing, is_unknown, "slice.is_stale")?;
        ir.branch_rarely(is_stale, change, ready)?;
        ir.enter(change);
        if let Some(single) = &self.single {
            single.flush(ir)?;
            ir.store(single.entry, ir.ptr.const_null().into())?;
        }
        ir.store(before.slice, ir.load_word(last.slice, "slice.last")?.into())?;
        ir.store(before.table, ir.load_ptr(last.table, "table.last")?.into())?;
        self.call_find_slice(ir)?;
        let place = ir.at(self.context, offset_of!(ExecContext, slice_start), "slice.place")?;
        ir.store(last.slice, ir.load_word(place, "slice.new")?.into())?;
        let place = ir.at(self.context, offset_of!(ExecContext, table), "table.place")?;
        let table = ir.load_ptr(place, "table.new")?;
        ir.store(last.table, table.into())?;
        ir.store(self.table, table.into())?;
        ir.jump(ready)?;
        ir.enter(ready);
        Ok(())
    }

    fn call_find_slice(&self, ir: &Ir<'c>) -> Emitted<()> {
        let start = if self.has_slices { ir.load_word(self.slice, "slice.wanted")? } else { ir.word(0) };
        ir.call_back(self.find_slice, &[self.context.into(), start.into()])
    }

    /// Before a callback that works on a table: makes that of the row the context's.
    pub(super) fn tell_host(&self, ir: &Ir<'c>) -> Emitted<()> {
        if !self.has_slices || self.single.is_some() {
            return Ok(());
        }
        let (tell, told) = (ir.block("host.tell"), ir.block("host.told"));
        let place = ir.at(self.context, offset_of!(ExecContext, slice_start), "slice.place")?;
        let known = ir.load_word(place, "slice.host")?;
        let slice = ir.load_word(self.slice, "slice.current")?;
        ir.branch_rarely(ir.compare(IntPredicate::NE, known, slice, "host.is_elsewhere")?, tell, told)?;
        ir.enter(tell);
        self.call_find_slice(ir)?;
        ir.jump(told)?;
        ir.enter(told);
        Ok(())
    }
}

impl<'c> HeaderCopy<'c> {
    /// The words that finding a key needs for nearly every row: those of the dense region, or else of the directory and the
    /// hash part.
    fn new(ir: &Ir<'c>, update: &Update) -> Emitted<Option<HeaderCopy<'c>>> {
        if update.access == Access::Shared || update.slice.is_none() || update.keys.is_empty() {
            return Ok(None);
        }
        let (word, address): (BasicTypeEnum<'c>, BasicTypeEnum<'c>) = (ir.i64.into(), ir.ptr.into());
        let fields = match update.layout.dense_key() {
            Some(_) => vec![
                (offset_of!(TableHeader, dense), address),
                (offset_of!(TableHeader, dense_first), word),
                (offset_of!(TableHeader, dense_len), word),
            ],
            None => {
                let mut fields =
                    vec![(offset_of!(TableHeader, entries), address), (offset_of!(TableHeader, mask), word)];
                if update.layout.packs() {
                    fields.push((offset_of!(TableHeader, directory), address));
                    fields.push((offset_of!(TableHeader, directory_len), word));
                    let packing = (0..update.keys.len()).flat_map(packing_of);
                    fields.extend(packing.map(|offset| (offset, word)));
                }
                fields
            }
        };
        let variable =
            |(offset, ty): (usize, BasicTypeEnum<'c>)| Ok((offset, ir.variable(ty.const_zero(), "header")?, ty));
        let words = fields.into_iter().map(variable).collect::<Emitted<_>>()?;
        Ok(Some(HeaderCopy { words, is_used: Cell::new(false) }))
    }
}

impl<'c> SingleEntry<'c> {
    fn new(ir: &Ir<'c>, layout: &EntryLayout) -> Emitted<SingleEntry<'c>> {
        let mut locals = Vec::new();
        for (number, &(accumulator, offset)) in layout.accumulators.iter().enumerate() {
            if matches!(accumulator, Accumulator::MinStr | Accumulator::MaxStr | Accumulator::Object(..)) {
                continue;
            }
            let (ty, words): (BasicTypeEnum<'c>, usize) = match accumulator {
                Accumulator::SumF64 => (ir.i64.into(), 3),
                other => (ir.memory_type(other.output()), 1),
            };
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
            ir.store(ir.at(entry, local.offset, "accumulator")?, value)?;
        }
        ir.jump(written)?;
        ir.enter(written);
        Ok(())
    }

    /// Takes the accumulators of a freshly found entry into the variables.
    fn take(&self, ir: &Ir<'c>, entry: Ptr<'c>) -> Emitted<()> {
        ir.store(self.entry, entry.into())?;
        for local in &self.locals {
            let value = ir.load(local.ty, ir.at(entry, local.offset, "accumulator")?, "accumulated")?;
            ir.store(local.slot, value)?;
        }
        Ok(())
    }
}

impl<'c> Emitter<'c, '_> {
    fn table(&self) -> &TableState<'c> {
        self.table.as_ref().expect("a program that updates has table state")
    }

    /// Makes the table of a slice that of all rows of a block, until [`Emitter::end_slice`].
    pub(super) fn begin_slice(&self, slice: Option<Int<'c>>) -> Emitted<()> {
        let table = self.table();
        table.enter_slice(&self.ir, slice)?;
        if let Some(header) = &table.header {
            header.is_used.set(true);
        }
        table.copy_header(&self.ir)
    }

    /// After the loop over the rows of a block within one slice.
    pub(super) fn end_slice(&self) {
        if let Some(header) = &self.table().header {
            header.is_used.set(false);
        }
    }

    /// `Terminal::Update`
    pub(super) fn update_table(&self, update: &Update) -> Emitted<()> {
        let ir = &self.ir;
        let table = self.table();
        if self.uniform.is_none() {
            table.enter_slice(ir, update.slice.map(|s| self.int(s)))?;
        }
        let entry = match &table.single {
            None => self.probe(table, update)?,
            Some(single) => {
                let (find, found) = (ir.block("update.entry"), ir.block("update.entry_ready"));
                let known = ir.load_ptr(single.entry, "entry")?;
                ir.branch_rarely(ir.b.build_is_null(known, "entry.missing")?, find, found)?;
                ir.enter(find);
                let entry = self.probe(table, update)?;
                single.take(ir, entry)?;
                ir.jump(found)?;
                ir.enter(found);
                ir.load_ptr(single.entry, "entry")?
            }
        };
        let accumulators = update.layout.accumulators.iter().zip(&update.components);
        for (number, (&(accumulator, offset), component)) in accumulators.enumerate() {
            match (accumulator, component.argument) {
                (Accumulator::Object(_, phys), Some(argument)) if accumulator.is_logged_inline() => {
                    let (field, list) = (ir.at(entry, offset, "accumulator")?, update.layout.list_number(number));
                    self.log_value(table, field, (number, list), (argument, phys), component)?;
                }
                (Accumulator::Object(_, phys), Some(argument)) => {
                    let field = ir.at(entry, offset, "accumulator")?;
                    self.update_object(table, field, number, (argument, phys), component)?;
                }
                (Accumulator::SumF64, Some(argument)) => {
                    let (place, of) = ((entry, offset), (number, argument));
                    self.add_double(table, place, of, component, update.access)?;
                }
                _ if update.access == Access::Shared => self.update_shared(entry, accumulator, offset, component)?,
                _ => self.update_component(table, entry, accumulator, offset, component)?,
            }
        }
        Ok(())
    }
}
