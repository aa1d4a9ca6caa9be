//! The last stage of a program that updates slices: for each block, whether it lies in one slice
//! ([`crate::uniform`]), and two loops, one of which need not ask that for each row.
//!
//! Where rows come early or late, most blocks have rows of two or three slices. These are cut into the rows of each slice, for which the
//! first loop is run one after the other: one pass that writes down row numbers costs less than to find the slice of each row.
//! The general loop is left for blocks of more slices, and for those in which lateness is decided. A program that can fail in this stage is
//! not cut up: its rows must fail in their order.

use super::ir::{Basic, Emitted, Int, Ptr};
use super::selection::Selection;
use super::{Emitter, Rows};
use crate::uniform::{Slicing, Uniform};
use inkwell::IntPredicate;
use millstream_abi::{ZONE_ROWS, Zone};
use millstream_codegen::program::{Op, Statement, Terminal, Value};
use std::collections::HashMap;
use std::mem::offset_of;

/// A block takes the general way if less than one row in this many is selected: looking at all its times would cost
/// more than it saves.
const SPARSE: u64 = 8;
/// A block is cut up into the rows of so many slices at most.
const SLICES: u64 = 3;

impl<'c, 'p> Emitter<'c, 'p> {
    /// The last stage, over rows of the block of `length` rows at `base`.
    pub(super) fn last_stage(
        &mut self,
        uniform: &'p Uniform,
        rows: Rows<'c>,
        base: Int<'c>,
        length: Int<'c>,
    ) -> Emitted<()> {
        if let Some(slicing) = uniform.slicing(self.program).filter(|_| self.failure.is_none()) {
            return self.slice_by_slice(uniform, slicing, rows, base, length);
        }
        let number = self.plan.stages.len() - 1;
        let (one_slice, general, end) =
            (self.ir.block("uniform.rows"), self.ir.block("general.rows"), self.ir.block("block.done"));
        if let Rows::Selection(_) = rows {
            let bounds = self.ir.block("uniform.bounds");
            let ir = &self.ir;
            let many = ir.b.build_int_mul(self.selected()?, ir.word(SPARSE), "selected.scaled")?;
            ir.branch(ir.compare(IntPredicate::ULT, many, length, "is_sparse")?, general, bounds)?;
            ir.enter(bounds);
        }
        let mut bounds = HashMap::new();
        for (&time, &input) in &uniform.times {
            bounds.insert(time, self.bounds(input, base, length)?);
        }
        let (known, is_uniform) = self.evaluate_uniform(uniform, &bounds, base, length)?;
        self.ir.branch(is_uniform, one_slice, general)?;

        self.ir.enter(one_slice);
        self.stage_of_slice(known, rows)?;
        self.ir.jump(end)?;

        self.ir.enter(general);
        self.stage(number, rows)?;
        self.ir.jump(end)?;
        self.ir.enter(end);
        Ok(())
    }

    /// The loop over rows of one slice.
    fn stage_of_slice(&mut self, known: HashMap<Value, Basic<'c>>, rows: Rows<'c>) -> Emitted<()> {
        let Terminal::Update(update) = &self.program.terminal else {
            unreachable!("only programs that update tables have uniform slices")
        };
        let slice = update.slice.map(|slice| known[&slice].into_int_value());
        self.begin_slice(slice)?;
        self.uniform = Some(known);
        self.fetch_entries(&rows)?;
        self.stage(self.plan.stages.len() - 1, rows)?;
        self.uniform = None;
        self.end_slice();
        Ok(())
    }

    /// The last stage of a program whose rows may be taken slice by slice.
    fn slice_by_slice(
        &mut self,
        uniform: &'p Uniform,
        slicing: Slicing,
        rows: Rows<'c>,
        base: Int<'c>,
        length: Int<'c>,
    ) -> Emitted<()> {
        let Slicing { time, input, size_ms, offset_ms } = slicing;
        let selection = match self.selection {
            Some(selection) => selection,
            None => Selection::new(&self.ir, self.plan.block_rows)?,
        };
        let before = self.selection.replace(selection);
        let ir = &self.ir;
        let cut_off = selection.another(ir, self.plan.block_rows)?;
        let (next, end_time) = (ir.variable(ir.word(0), "slice.next")?, ir.variable(ir.word(0), "slices.end")?);
        let has_more = ir.variable(ir.i1.const_zero(), "slice.more")?;
        let (part, part_rows) = (ir.variable(ir.ptr.const_null(), "part")?, ir.variable(ir.word(0), "part.rows")?);
        let [head, one_slice, general, done, end] =
            ["slices.next", "slices.one", "slices.general", "slices.done", "block.done"].map(|name| ir.block(name));
        let whole = |this: &Self| {
            this.ir.store(part, selection.rows().into())?;
            this.ir.store(part_rows, this.selected()?.into())
        };
        if let Rows::Selection(_) = rows {
            let bounds = ir.block("uniform.bounds");
            ir.store(has_more, ir.i1.const_zero().into())?;
            whole(self)?;
            let ir = &self.ir;
            let many = ir.b.build_int_mul(self.selected()?, ir.word(SPARSE), "selected.scaled")?;
            ir.branch(ir.compare(IntPredicate::ULT, many, length, "is_sparse")?, general, bounds)?;
            ir.enter(bounds);
        }
        let (least, most) = self.bounds(input, base, length)?;
        if let Rows::Block(..) = rows {
            let all = HashMap::from([(time, (least, most))]);
            let (known, is_uniform) = self.evaluate_uniform(uniform, &all, base, length)?;
            let [as_it_is, several] = ["block.uniform", "block.several"].map(|name| self.ir.block(name));
            self.ir.branch(is_uniform, as_it_is, several)?;
            self.ir.enter(as_it_is);
            self.stage_of_slice(known, Rows::Block(base, length))?;
            self.ir.jump(end)?;
            self.ir.enter(several);
            self.select_all(length)?;
        }
        self.ir.store(next, least.into())?;
        self.ir.store(end_time, most.into())?;
        self.ir.jump(head)?;

        // The rows of the slice of the lowest time, as long as there are few slices.
        self.ir.enter(head);
        let ir = &self.ir;
        let (lowest, most) = (ir.load_word(next, "slice.lowest")?, ir.load_word(end_time, "slices.highest")?);
        let start = self.slice_start(lowest, size_ms, offset_ms, "slice.first")?;
        let behind = ir.word(size_ms.saturating_sub(1) as u64);
        let last = ir.b.build_int_add(start, behind, "slice.last")?;
        let highest = ir.intrinsic("llvm.smin", &[ir.i64.into()], &[last.into(), most.into()], "slice.highest")?;
        let span = ir.b.build_int_sub(most, start, "slices.span")?;
        let few = ir.word((size_ms as u64).saturating_mul(SLICES));
        let are_few = ir.compare(IntPredicate::ULT, span, few, "slices.are_few")?;
        let part_bounds = HashMap::from([(time, (lowest, highest.into_int_value()))]);
        let (known, is_uniform) = self.evaluate_uniform(uniform, &part_bounds, base, length)?;
        let ir = &self.ir;
        let is_one = ir.b.build_and(is_uniform, are_few, "slice.is_one")?;
        let upto = ir.select(is_one, highest, most.into(), "part.highest")?.into_int_value();
        let more = ir.compare(IntPredicate::SLT, upto, most, "slices.has_more")?;
        ir.store(has_more, more.into())?;
        ir.store(next, ir.b.build_int_add(upto, ir.word(1), "slice.behind")?.into())?;
        let [cut, rest, chosen] = ["slices.cut", "slices.rest", "slices.chosen"].map(|name| ir.block(name));
        ir.branch(more, cut, rest)?;

        self.ir.enter(rest);
        whole(self)?;
        self.ir.jump(chosen)?;

        self.ir.enter(cut);
        self.cut_off(cut_off, input, base, upto)?;
        let ir = &self.ir;
        ir.store(part, cut_off.rows().into())?;
        ir.store(part_rows, ir.load_word(cut_off.count(), "cut.rows")?.into())?;
        ir.jump(chosen)?;

        self.ir.enter(chosen);
        self.ir.branch(is_one, one_slice, general)?;
        for (block, known) in [(one_slice, Some(known)), (general, None)] {
            self.ir.enter(block);
            let rows = self.ir.load_ptr(part, "part")?;
            self.selection = Some(selection.of(rows, part_rows));
            match known {
                Some(known) => self.stage_of_slice(known, Rows::Selection(base))?,
                None => self.stage(self.plan.stages.len() - 1, Rows::Selection(base))?,
            }
            self.selection = Some(selection);
            self.ir.jump(done)?;
        }
        self.ir.enter(done);
        let ir = &self.ir;
        let more = ir.load(ir.i1, has_more, "slices.more")?.into_int_value();
        ir.branch(more, head, end)?;
        ir.enter(end);
        self.selection = before;
        Ok(())
    }

    /// Moves the selected rows up to a time to another selection.
    fn cut_off(&mut self, into: Selection<'c>, input: u32, base: Int<'c>, upto: Int<'c>) -> Emitted<()> {
        let all = self.selected()?;
        self.select_none()?;
        self.ir.store(into.count(), self.ir.word(0).into())?;
        self.each(all, 1, "slices.cut", &mut |this, index| {
            this.row_in_block = this.selected_row(index)?;
            this.row = this.ir.b.build_int_add(base, this.row_in_block, "row")?;
            let time = this.load_column(input, "time")?.into_int_value();
            let is_cut = this.ir.compare(IntPredicate::SLE, time, upto, "row.is_cut")?;
            this.select_into(into, is_cut)?;
            // What stays is written no further than it has been read.
            let stays = this.ir.b.build_not(is_cut, "row.stays")?;
            this.select_row(stays)
        })
    }

    /// Executes the uniform statements for the lowest time of some rows of a block, and says whether they give the same for all its rows
    /// and drop none.
    fn evaluate_uniform(
        &mut self,
        uniform: &'p Uniform,
        bounds: &HashMap<Value, (Int<'c>, Int<'c>)>,
        base: Int<'c>,
        length: Int<'c>,
    ) -> Emitted<(HashMap<Value, Basic<'c>>, Int<'c>)> {
        let mut last_watermarks = HashMap::new();
        let mut is_same_watermark = self.ir.i1.const_int(1, false);
        self.values = bounds.iter().map(|(&time, &(least, _))| (time, least.into())).collect();
        let last_row =
            self.ir.b.build_int_sub(self.ir.b.build_int_add(base, length, "end")?, self.ir.word(1), "last")?;
        let mut is_uniform = self.ir.i1.const_int(1, false);
        for &index in &uniform.statements {
            self.row = base;
            let statement = &self.program.body[index];
            let condition = match statement {
                Statement::Filter { condition, .. } => Some(self.int(*condition)),
                _ => {
                    self.statement(statement)?;
                    None
                }
            };
            let same = match statement {
                Statement::Let(value, Op::SliceStart { time, size_ms, offset_ms }) => match bounds.get(time) {
                    Some(&(_, most)) => {
                        let of_highest = self.slice_start(most, *size_ms, *offset_ms, "slice.highest")?;
                        Some(self.ir.compare(IntPredicate::EQ, self.int(*value), of_highest, "slice.is_same")?)
                    }
                    None => None,
                },
                Statement::Let(value, Op::Watermark) => {
                    self.row = last_row;
                    let last = self.watermark("watermark.last")?;
                    let is_same = self.ir.compare(IntPredicate::EQ, self.int(*value), last, "watermark.is_same")?;
                    last_watermarks.insert(*value, Basic::from(last));
                    is_same_watermark = is_same;
                    uniform.fixes_watermark.then_some(is_same)
                }
                Statement::If { condition, .. } if uniform.watermark_branches.contains(&index) => {
                    let is_unused = self.ir.b.build_not(self.int(*condition), "watermark.is_unused")?;
                    Some(self.ir.b.build_or(is_unused, is_same_watermark, "watermark.is_fixed")?)
                }
                Statement::Let(value, op) if uniform.compares_watermark(op) => {
                    let first = self.int(*value);
                    let before = self.values.clone();
                    self.values.extend(&last_watermarks);
                    let last = self.op(*value, op)?.into_int_value();
                    self.values = before;
                    Some(self.ir.compare(IntPredicate::EQ, first, last, "compared.is_same")?)
                }
                _ => None,
            };
            for condition in condition.into_iter().chain(same) {
                is_uniform = self.ir.b.build_and(is_uniform, condition, "is_uniform")?;
            }
        }
        let known = std::mem::take(&mut self.values);
        Ok((known.into_iter().filter(|(value, _)| !uniform.times.contains_key(value)).collect(), is_uniform))
    }

    /// Lowest and highest value of an integer column in the block, from its zones where they are known. The values of NULLs only
    /// widen the range.
    fn bounds(&mut self, input: u32, base: Int<'c>, length: Int<'c>) -> Emitted<(Int<'c>, Int<'c>)> {
        let zones = self.zones(input)?;
        let ir = &self.ir;
        let (least, most) = (ir.slot(ir.i64, "time.least")?, ir.slot(ir.i64, "time.most")?);
        ir.store(least, ir.word(i64::MAX as u64).into())?;
        ir.store(most, ir.word(i64::MIN as u64).into())?;
        let (known, unknown, done) = (ir.block("zones.known"), ir.block("zones.unknown"), ir.block("time.bounds"));
        let zone_rows = ZONE_ROWS as u64;
        let within = ir.b.build_and(base, ir.word(zone_rows - 1), "base.in_zone")?;
        let is_aligned = ir.compare(IntPredicate::EQ, within, ir.word(0), "zone.is_aligned")?;
        let is_known =
            ir.b.build_and(is_aligned, ir.b.build_is_not_null(zones, "zones.are_there")?, "zones.are_known")?;
        ir.branch(is_known, known, unknown)?;

        ir.enter(known);
        let first = ir.b.build_int_unsigned_div(base, ir.word(zone_rows), "zone.first")?;
        let last = ir.b.build_int_add(length, ir.word(zone_rows - 1), "length.rounded")?;
        let count = ir.b.build_int_unsigned_div(last, ir.word(zone_rows), "zones.count")?;
        self.each(count, 1, "uniform.zone", &mut |this, index| {
            let ir = &this.ir;
            let number = ir.b.build_int_add(first, index, "zone")?;
            let offset = ir.b.build_int_mul(number, ir.word(size_of::<Zone>() as u64), "zone.offset")?;
            let zone = ir.element(ir.i8, zones, offset, "zone")?;
            for (slot, offset, choose) in
                [(least, offset_of!(Zone, least), "llvm.smin"), (most, offset_of!(Zone, most), "llvm.smax")]
            {
                let bound = ir.load_input(ir.i64, ir.at(zone, offset, "zone.bound")?, "zone.bound")?;
                this.widen(slot, bound.into_int_value(), choose)?;
            }
            Ok(())
        })?;
        self.ir.jump(done)?;

        self.ir.enter(unknown);
        self.each(length, 1, "uniform.time", &mut |this, index| {
            this.row = this.ir.b.build_int_add(base, index, "row")?;
            let time = this.load_column(input, "time")?.into_int_value();
            this.widen(least, time, "llvm.smin")?;
            this.widen(most, time, "llvm.smax")
        })?;
        self.ir.jump(done)?;
        self.ir.enter(done);
        Ok((self.ir.load_word(least, "time.least")?, self.ir.load_word(most, "time.most")?))
    }

    /// Widens a bound by a value.
    fn widen(&self, slot: Ptr<'c>, value: Int<'c>, choose: &str) -> Emitted<()> {
        let ir = &self.ir;
        let known = ir.load_word(slot, "bound")?;
        let wider = ir.intrinsic(choose, &[ir.i64.into()], &[known.into(), value.into()], "bound.wider")?;
        ir.store(slot, wider)
    }
}
