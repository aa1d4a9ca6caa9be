//! Updates of accumulators that other tasks update at the same time, by the atomic formulas at
//! `millstream_codegen::program::Component`. Accumulators are aligned to their size, as their entries are.

use super::Emitter;
use super::components::better;
use super::ir::{Basic, Emitted, Int, Ptr};
use inkwell::types::IntType;
use inkwell::{AtomicOrdering, AtomicRMWBinOp, IntPredicate};
use millstream_abi::Accumulator;
use millstream_codegen::program::Component;

/// Accumulators are read when all tasks that update them have ended.
const RELAXED: AtomicOrdering = AtomicOrdering::Monotonic;

/// Whether a word shall be replaced (`None`: always), and by what.
type Replacement<'c> = (Option<Int<'c>>, Int<'c>);

impl<'c> Emitter<'c, '_> {
    /// Updates one accumulator of an entry, when the guard holds.
    pub(super) fn update_shared(
        &self,
        entry: Ptr<'c>,
        accumulator: Accumulator,
        offset: usize,
        component: &Component,
    ) -> Emitted<()> {
        use Accumulator::*;
        let ir = &self.ir;
        let end = ir.block("update.shared.end");
        if let Some(guard) = component.guard {
            let update = ir.block("update.shared");
            ir.branch(self.int(guard), update, end)?;
            ir.enter(update);
        }
        let (place, better) = (ir.at(entry, offset, "accumulator")?, better(accumulator));
        match (accumulator, component.argument) {
            (Count, _) => self.atomic_add(place, ir.word(1)).map(drop)?,
            (SumI64, Some(x)) => self.atomic_add(place, self.int(x)).map(drop)?,
            (SumI128, Some(x)) => self.atomic_add_wide(place, self.int(x))?,
            (MinI64 | MaxI64 | MinI128 | MaxI128, Some(x)) => self.atomic_extreme(place, self.int(x), better)?,
            (MinF64 | MaxF64, Some(x)) => self.atomic_float_extreme(place, self.value(x), better)?,
            (SumF64 | MinStr | MaxStr | Group | Object(..), _) | (_, None) => {
                unreachable!("the verifier has checked that the layout allows sharing")
            }
        }
        ir.jump(end)?;
        ir.enter(end);
        Ok(())
    }

    /// Adds to a word, and gives its old value.
    fn atomic_add(&self, place: Ptr<'c>, x: Int<'c>) -> Emitted<Int<'c>> {
        Ok(self.ir.b.build_atomicrmw(AtomicRMWBinOp::Add, place, x, RELAXED)?)
    }

    fn atomic_add_wide(&self, place: Ptr<'c>, x: Int<'c>) -> Emitted<()> {
        let (low, high) = self.ir.halves(x)?;
        self.atomic_add_words(place, &[low, high])
    }

    /// Adds the low words, then each higher one with the carry of the one before.
    pub(super) fn atomic_add_words(&self, place: Ptr<'c>, words: &[Int<'c>]) -> Emitted<()> {
        let ir = &self.ir;
        let wraps = |sum: Int<'c>, addend: Int<'c>| ir.compare(IntPredicate::ULT, sum, addend, "sum.wraps");
        let mut carry = ir.i64.const_zero();
        for (i, &word) in words.iter().enumerate() {
            let addend = ir.b.build_int_add(word, carry, "addend")?;
            let has_wrapped = wraps(addend, carry)?;
            let old = self.atomic_add(ir.at(place, 8 * i, "accumulator.word")?, addend)?;
            let sum = ir.b.build_int_add(old, addend, "sum")?;
            let carries = ir.b.build_or(has_wrapped, wraps(sum, addend)?, "sum.carries")?;
            carry = ir.b.build_int_z_extend(carries, ir.i64, "sum.carry")?;
        }
        Ok(())
    }

    fn atomic_extreme(&self, place: Ptr<'c>, x: Int<'c>, better: IntPredicate) -> Emitted<()> {
        let is_better = |old| self.ir.compare(better, x, old, "is_better");
        self.exchange(x.get_type(), place, |old| Ok((Some(is_better(old)?), x))).map(drop)
    }

    fn atomic_float_extreme(&self, place: Ptr<'c>, x: Basic<'c>, better: IntPredicate) -> Emitted<()> {
        let ir = &self.ir;
        let bits = ir.b.build_bit_cast(x, ir.i64, "extreme.bits")?.into_int_value();
        let order = self.float_order(bits)?;
        let is_better = |old| ir.compare(better, order, self.float_order(old)?, "is_better");
        self.exchange(ir.i64, place, |old| Ok((Some(is_better(old)?), bits))).map(drop)
    }

    /// Loads a value and replaces it, as `replacement` says of the one that was there, until no other task has been faster
    /// or nothing is to be replaced. Gives the last value before. `replacement` must not begin a block.
    fn exchange(
        &self,
        ty: IntType<'c>,
        place: Ptr<'c>,
        replacement: impl FnOnce(Int<'c>) -> Emitted<Replacement<'c>>,
    ) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let (look, swap, done) = (ir.block("exchange"), ir.block("exchange.swap"), ir.block("exchange.done"));
        let first = ir.load_atomic(ty, place, RELAXED, "exchange.first")?;
        let before = ir.current();
        ir.jump(look)?;

        ir.enter(look);
        let phi = ir.b.build_phi(ty, "exchange.old")?;
        let old = phi.as_basic_value().into_int_value();
        let (is_wanted, new) = replacement(old)?;
        match is_wanted {
            Some(is_wanted) => ir.branch(is_wanted, swap, done)?,
            None => ir.jump(swap)?,
        }

        ir.enter(swap);
        let result = ir.b.build_cmpxchg(place, old, new, RELAXED, RELAXED)?;
        let found = ir.b.build_extract_value(result, 0, "exchange.found")?.into_int_value();
        let has_swapped = ir.b.build_extract_value(result, 1, "exchange.has_swapped")?.into_int_value();
        phi.add_incoming(&[(&first, before), (&found, swap)]);
        ir.branch(has_swapped, done, look)?;
        ir.enter(done);
        Ok(old)
    }
}
