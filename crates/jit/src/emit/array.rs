//! Updating arrays of a range of keys: the entry is where the key says, and other keys end the run.

use super::ir::{Emitted, Int, Ir, Ptr};
use super::update::TableState;
use super::{DEOPTIMISED, Emitter};
use inkwell::IntPredicate;
use millstream_abi::{ArrayLayout, TableHeader};
use millstream_codegen::program::{KeyRange, Update};
use std::mem::offset_of;

/// What is constant about the arrays of a program.
#[derive(Clone, Copy)]
pub(super) struct Arrays {
    range: KeyRange,
    pub(super) layout: ArrayLayout,
    count: u64,
}

impl Arrays {
    /// Those of an update, if it has a range.
    pub(super) fn of(update: &Update) -> Option<Arrays> {
        let (range, layout) = (update.range?, update.array()?);
        Some(Arrays { range, layout, count: update.count().map_or(u64::MAX, |number| number as u64) })
    }

    /// Calls `ExecContext::find_array` for a slice.
    pub(super) fn find<'c>(&self, ir: &Ir<'c>, callback: Ptr<'c>, context: Ptr<'c>, slice: Int<'c>) -> Emitted<()> {
        let KeyRange { first, len } = self.range;
        let [first, len, count] = [first as u64, len, self.count].map(|word| ir.word(word).into());
        ir.call_back(callback, &[context.into(), slice.into(), first, len, count])
    }
}

impl<'c> Emitter<'c, '_> {
    /// Ends the run at a row whose key is not in the range that the program assumes; else the number of the key.
    pub(super) fn key_number(&self, update: &Update, arrays: Arrays) -> Emitted<Int<'c>> {
        let (ir, range) = (&self.ir, arrays.range);
        let (key, valid) = update.keys[0];
        let key = ir.b.build_int_s_extend_or_bit_cast(self.int(key), ir.i64, "key.word")?;
        let number = ir.b.build_int_sub(key, ir.word(range.first as u64), "key.number")?;
        let mut is_outside = ir.compare(IntPredicate::UGE, number, ir.word(range.len), "is_outside")?;
        if let Some(valid) = valid {
            let is_null = ir.b.build_not(self.int(valid), "key.is_null")?;
            is_outside = ir.b.build_or(is_outside, is_null, "is_outside.or_null")?;
        }
        self.stop_when(is_outside, DEOPTIMISED, 0, "range")?;
        Ok(number)
    }

    /// The entry of a key by its number, marked unless a count does that.
    pub(super) fn array_entry(&self, table: &TableState<'c>, arrays: Arrays, number: Int<'c>) -> Emitted<Ptr<'c>> {
        let ir = &self.ir;
        let first = table.header_pointer(ir, offset_of!(TableHeader, dense), "array")?;
        let offset = ir.b.build_int_mul(number, ir.word(arrays.layout.stride as u64), "entry.offset")?;
        let entry = ir.element(ir.i8, first, offset, "entry")?;
        if arrays.layout.sets_mark {
            ir.store(ir.at(entry, arrays.layout.mark, "entry.mark")?, ir.word(1).into())?;
        }
        Ok(entry)
    }
}
