//! Updates of accumulators, by the formulas at `millstream_codegen::program::Component`. A guard chooses between the old and
//! the new value, without a branch, but for strings and objects.

use super::Emitter;
use super::ir::{Basic, Emitted, Int, Ptr};
use super::update::TableState;
use crate::runtime;
use inkwell::IntPredicate;
use millstream_abi::{Accumulator, Phys, Str};
use millstream_codegen::program::{Component, Value};

/// How a value compares with the minimum or maximum that it takes the place of.
pub(super) fn better(accumulator: Accumulator) -> IntPredicate {
    match accumulator {
        Accumulator::MinI64 | Accumulator::MinI128 | Accumulator::MinF64 | Accumulator::MinStr => IntPredicate::SLT,
        _ => IntPredicate::SGT,
    }
}

impl<'c> Emitter<'c, '_> {
    /// Updates one accumulator of an entry.
    pub(super) fn update_component(
        &self,
        table: &TableState<'c>,
        entry: Ptr<'c>,
        accumulator: Accumulator,
        offset: usize,
        component: &Component,
    ) -> Emitted<()> {
        use Accumulator::*;
        let (guard, better) = (component.guard.map(|g| self.int(g)), better(accumulator));
        let place = |offset: usize| match table.single.as_ref().and_then(|s| s.local(offset)) {
            Some(local) => Ok(local),
            None => self.ir.at(entry, offset, "accumulator"),
        };
        match (accumulator, component.argument) {
            (Count, _) => self.count(place(offset)?, guard),
            (SumI64 | SumI128, Some(x)) => self.sum(place(offset)?, self.int(x), guard),
            (SumF64, Some(_)) => unreachable!("sums of doubles are updated with the number of their component"),
            (MinI64 | MaxI64 | MinI128 | MaxI128, Some(x)) => self.extreme(place(offset)?, self.int(x), guard, better),
            (MinF64 | MaxF64, Some(x)) => self.float_extreme(place(offset)?, x, guard, better),
            (MinStr | MaxStr, Some(x)) => self.string_extreme(table, place(offset)?, self.int(x), guard, better),
            (Group, _) => self.report_group(table, place(offset)?),
            (Object(..), _) | (_, None) => {
                unreachable!("the verifier has checked the arguments of accumulators")
            }
        }
    }

    /// Stores the number of the entry as the group of the row.
    fn report_group(&self, table: &TableState<'c>, place: Ptr<'c>) -> Emitted<()> {
        let ir = &self.ir;
        let group = ir.load_word(place, "group")?;
        ir.store(ir.element(ir.i64, table.groups, self.row, "group.place")?, group.into())
    }

    /// Has the object of component `number`, whose accumulator is at `field`, updated with an argument, or with NULL.
    pub(super) fn update_object(
        &self,
        table: &TableState<'c>,
        field: Ptr<'c>,
        number: usize,
        (argument, phys): (Value, Phys),
        component: &Component,
    ) -> Emitted<()> {
        let ir = &self.ir;
        let (update, end) = (ir.block("update.object"), ir.block("update.object.end"));
        match component.guard {
            Some(guard) => ir.branch(self.int(guard), update, end)?,
            None => ir.jump(update)?,
        }
        ir.enter(update);
        table.tell_host(ir)?;
        // The whole slot is defined, whatever the size of the argument.
        ir.store(table.scratch, ir.i128.const_zero().into())?;
        ir.store(table.scratch, self.to_memory(self.value(argument), phys)?)?;
        let mut slot = table.scratch;
        if let Some(valid) = component.valid {
            let null = ir.ptr.const_null();
            slot = ir.select(self.int(valid), slot.into(), null.into(), "argument.or_null")?.into_pointer_value();
        }
        let number = ir.constant(ir.i32, number as i128);
        let arguments = [self.context.into(), field.into(), number.into(), slot.into(), self.row.into()];
        ir.call_back(table.update_object, &arguments)?;
        ir.jump(end)?;
        ir.enter(end);
        Ok(())
    }

    /// Stores the new value, or the old one when the guard does not hold.
    fn replace(&self, place: Ptr<'c>, old: Basic<'c>, new: Basic<'c>, guard: Option<Int<'c>>) -> Emitted<()> {
        let value = match guard {
            Some(guard) => self.ir.select(guard, new, old, "accumulated")?,
            None => new,
        };
        self.ir.store(place, value)
    }

    fn count(&self, place: Ptr<'c>, guard: Option<Int<'c>>) -> Emitted<()> {
        let ir = &self.ir;
        let by = match guard {
            Some(guard) => ir.b.build_int_z_extend(guard, ir.i64, "counted")?,
            None => ir.word(1),
        };
        ir.increase(place, by)
    }

    fn sum(&self, place: Ptr<'c>, x: Int<'c>, guard: Option<Int<'c>>) -> Emitted<()> {
        let ir = &self.ir;
        let old = ir.load(x.get_type(), place, "sum.old")?;
        let x = match guard {
            Some(guard) => ir.select(guard, x.into(), x.get_type().const_zero().into(), "addend")?.into_int_value(),
            None => x,
        };
        ir.store(place, ir.b.build_int_add(old.into_int_value(), x, "sum.new")?.into())
    }

    fn extreme(&self, place: Ptr<'c>, x: Int<'c>, guard: Option<Int<'c>>, better: IntPredicate) -> Emitted<()> {
        let ir = &self.ir;
        let old = ir.load(x.get_type(), place, "extreme.old")?;
        let is_better = ir.compare(better, x, old.into_int_value(), "is_better")?;
        let new = ir.select(is_better, x.into(), old, "extreme.new")?;
        self.replace(place, old, new, guard)
    }

    /// `semantics::float_order`
    pub(super) fn float_order(&self, bits: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let sign = ir.b.build_right_shift(bits, ir.word(63), true, "sign")?;
        let flip = ir.b.build_right_shift(sign, ir.word(1), false, "flip")?;
        Ok(ir.b.build_xor(bits, flip, "order")?)
    }

    fn float_extreme(&self, place: Ptr<'c>, x: Value, guard: Option<Int<'c>>, better: IntPredicate) -> Emitted<()> {
        let ir = &self.ir;
        let x = self.value(x);
        let old = ir.load(ir.f64, place, "extreme.old")?;
        let order = |value: Basic<'c>| self.float_order(ir.b.build_bit_cast(value, ir.i64, "bits")?.into_int_value());
        let is_better = ir.compare(better, order(x)?, order(old)?, "is_better")?;
        let new = ir.select(is_better, x, old, "extreme.new")?;
        self.replace(place, old, new, guard)
    }

    fn string_extreme(
        &self,
        table: &TableState<'c>,
        place: Ptr<'c>,
        x: Int<'c>,
        guard: Option<Int<'c>>,
        better: IntPredicate,
    ) -> Emitted<()> {
        let ir = &self.ir;
        let block = |what: &str| ir.block(&format!("update.string.{what}"));
        let (look, compare, take) = (block("look"), block("compare"), block("take"));
        let (keep, store, end) = (block("keep"), block("store"), block("end"));
        match guard {
            Some(guard) => ir.branch(guard, look, end)?,
            None => ir.jump(look)?,
        }
        ir.enter(look);
        let old = ir.load(ir.i128, place, "extreme.old")?.into_int_value();
        let none = ir.constant(ir.i128, Str::NONE.bits() as i128);
        ir.branch(ir.compare(IntPredicate::EQ, old, none, "is_none")?, take, compare)?;

        ir.enter(compare);
        let ((x_low, x_high), (old_low, old_high)) = (ir.halves(x)?, ir.halves(old)?);
        let arguments = [x_low.into(), x_high.into(), old_low.into(), old_high.into()];
        let order = ir.result(self.support(runtime::COMPARE_STRINGS), &arguments, "order")?.into_int_value();
        let is_better = ir.compare(better, order, ir.i32.const_zero(), "is_better")?;
        ir.branch(is_better, take, end)?;

        ir.enter(take);
        let (low, _) = ir.halves(x)?;
        ir.branch(self.is_long(low)?, keep, store)?;
        ir.enter(keep);
        ir.store(table.scratch, x.into())?;
        table.tell_host(ir)?;
        ir.call_back(table.keep_string, &[self.context.into(), table.scratch.into()])?;
        let kept = (ir.load(ir.i128, table.scratch, "kept")?, ir.current());
        ir.jump(store)?;
        ir.enter(store);
        let new = ir.merge(&[(x.into(), take), kept], "extreme.new")?;
        ir.store(place, new)?;
        ir.jump(end)?;
        ir.enter(end);
        Ok(())
    }
}
