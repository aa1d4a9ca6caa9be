//! The last stage of a program that updates slices: for each block, whether it lies in one slice
//! ([`crate::uniform`]), and two loops, one of which need not ask that for each row.

use super::ir::{Basic, Emitted, Int, Ptr};
use super::{Emitter, Rows};
use crate::uniform::Uniform;
use inkwell::IntPredicate;
use millstream_abi::{ZONE_ROWS, Zone};
use millstream_codegen::program::{Op, Statement, Terminal, Value};
use std::collections::HashMap;
use std::mem::offset_of;

/// A block takes the general way if less than one row in this many is selected: looking at all its times would cost
/// more than it saves.
const SPARSE: u64 = 8;

impl<'c, 'p> Emitter<'c, 'p> {
    /// The last stage, over rows of the block of `length` rows at `base`.
    pub(super) fn last_stage(
        &mut self,
        uniform: &'p Uniform,
        rows: Rows<'c>,
        base: Int<'c>,
        length: Int<'c>,
    ) -> Emitted<()> {
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
        let (known, is_uniform) = self.evaluate_uniform(uniform, base, length)?;
        self.ir.branch(is_uniform, one_slice, general)?;

        self.ir.enter(one_slice);
        let Terminal::Update(update) = &self.program.terminal else {
            unreachable!("only programs that update tables have uniform slices")
        };
        let slice = update.slice.map(|slice| known[&slice].into_int_value());
        self.begin_slice(slice)?;
        self.uniform = Some(known);
        self.stage(number, rows)?;
        self.uniform = None;
        self.end_slice();
        self.ir.jump(end)?;

        self.ir.enter(general);
        self.stage(number, rows)?;
        self.ir.jump(end)?;
        self.ir.enter(end);
        Ok(())
    }

    /// Executes the uniform statements for the lowest time of a block, and says whether they give the same for all its rows
    /// and drop none.
    fn evaluate_uniform(
        &mut self,
        uniform: &'p Uniform,
        base: Int<'c>,
        length: Int<'c>,
    ) -> Emitted<(HashMap<Value, Basic<'c>>, Int<'c>)> {
        let mut highest = HashMap::new();
        let mut last_watermarks = HashMap::new();
        let mut is_same_watermark = self.ir.i1.const_int(1, false);
        let mut lowest = HashMap::new();
        for (&time, &input) in &uniform.times {
            let (least, most) = self.bounds(input, base, length)?;
            lowest.insert(time, least.into());
            highest.insert(time, most);
        }
        self.values = lowest;
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
                Statement::Let(value, Op::SliceStart { time, size_ms, offset_ms }) => match highest.get(time) {
                    Some(&most) => {
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
