//! The selection: the rows of a block that the filters so far let through.
//!
//! A stage that only drops rows is two loops. The first computes for each row a byte that says whether it is kept; nothing
//! in it depends on another row, so LLVM makes vectors of it. The second packs the numbers of the kept rows: sixteen at a
//! time where the machine has an instruction for that, elsewhere eight by a table. A stage with effects appends row by row.

use super::Emitter;
use super::ir::{Emitted, Int, Ir, Ptr};
use inkwell::IntPredicate;
use inkwell::types::VectorType;
use inkwell::values::VectorValue;

/// Rows whose numbers are packed at once by an instruction.
const LANES: u32 = 16;
/// Rows whose numbers are packed at once by a table: one bit each in its index.
const TABLE_LANES: u32 = 8;
/// Times eight bytes of 0 or 1, the first in the lowest place: the highest byte has them as its bits, the first in the lowest.
const GATHER_BITS: u64 = 0x0102_0408_1020_4080;

/// Stack slots of the selection.
#[derive(Clone, Copy)]
pub(super) struct Selection<'c> {
    /// Numbers of rows within the block (i32). There is space for a vector behind the last.
    rows: Ptr<'c>,
    /// Variable: how many.
    count: Ptr<'c>,
    /// For each row of the block one byte, 1 when it is kept; zeros up to the end of the last vector.
    kept: Ptr<'c>,
}

impl<'c> Selection<'c> {
    pub(super) fn new(ir: &Ir<'c>, block_rows: u64) -> Emitted<Selection<'c>> {
        let space = block_rows as u32 + LANES;
        Ok(Selection {
            rows: ir.slot(ir.i32.array_type(space), "selection")?,
            count: ir.variable(ir.word(0), "selected")?,
            kept: ir.slot(ir.i8.array_type(space), "kept.bytes")?,
        })
    }

    /// One more of the same block, which no stage fills.
    pub(super) fn another(self, ir: &Ir<'c>, block_rows: u64) -> Emitted<Selection<'c>> {
        let rows = ir.slot(ir.i32.array_type(block_rows as u32 + LANES), "selection.other")?;
        Ok(Selection { rows, count: ir.variable(ir.word(0), "selected.other")?, ..self })
    }

    /// The same with other rows.
    pub(super) fn of(self, rows: Ptr<'c>, count: Ptr<'c>) -> Selection<'c> {
        Selection { rows, count, ..self }
    }

    pub(super) fn rows(self) -> Ptr<'c> {
        self.rows
    }

    /// The variable.
    pub(super) fn count(self) -> Ptr<'c> {
        self.count
    }
}

impl<'c> Emitter<'c, '_> {
    fn selection(&self) -> Selection<'c> {
        self.selection.expect("a program of several stages has a selection")
    }

    /// How many rows are selected.
    pub(super) fn selected(&self) -> Emitted<Int<'c>> {
        self.ir.load_word(self.selection().count, "selected")
    }

    /// Number within the block of a selected row.
    pub(super) fn selected_row(&self, index: Int<'c>) -> Emitted<Int<'c>> {
        let ir = &self.ir;
        let place = ir.element(ir.i32, self.selection().rows, index, "selection.place")?;
        let selected = ir.load(ir.i32, place, "selection.row")?.into_int_value();
        Ok(ir.b.build_int_z_extend(selected, ir.i64, "row.in_block")?)
    }

    /// Empties the selection.
    pub(super) fn select_none(&self) -> Emitted<()> {
        self.ir.store(self.selection().count, self.ir.word(0).into())
    }

    /// Appends the row to the selection when it is kept: stores it always, counts it if so.
    pub(super) fn select_row(&self, kept: Int<'c>) -> Emitted<()> {
        self.select_into(self.selection(), kept)
    }

    /// The same for another selection.
    pub(super) fn select_into(&self, selection: Selection<'c>, kept: Int<'c>) -> Emitted<()> {
        let ir = &self.ir;
        let end = ir.load_word(selection.count, "selected")?;
        let place = ir.element(ir.i32, selection.rows, end, "selection.end")?;
        ir.store(place, ir.b.build_int_truncate(self.row_in_block, ir.i32, "row.short")?.into())?;
        ir.increase(selection.count, ir.b.build_int_z_extend(kept, ir.i64, "kept.count")?)
    }

    /// Selects all rows of a block.
    pub(super) fn select_all(&mut self, length: Int<'c>) -> Emitted<()> {
        let selection = self.selection();
        self.ir.store(selection.count, length.into())?;
        self.each(length, 1, "select.all", &mut |this, index| {
            let ir = &this.ir;
            let row = ir.b.build_int_truncate(index, ir.i32, "row.short")?;
            ir.store(ir.element(ir.i32, selection.rows, index, "selection.place")?, row.into())
        })
    }

    /// A stage over all rows of a block that has no effects but to drop some.
    pub(super) fn selecting_stage(&mut self, number: usize, base: Int<'c>, length: Int<'c>) -> Emitted<()> {
        let bytes = self.selection().kept;
        self.block_start = Some(base);
        let outcome = self.each(length, 1, &format!("stage{}", number + 1), &mut |this, index| {
            this.row_in_block = index;
            this.row = this.ir.b.build_int_add(base, index, "row")?;
            this.values.clear();
            let kept = this.is_kept(number)?;
            let ir = &this.ir;
            let byte = ir.b.build_int_z_extend(kept, ir.i8, "kept.byte")?;
            ir.store(ir.element(ir.i8, bytes, index, "kept.place")?, byte.into())
        });
        self.block_start = None;
        outcome?;
        self.select_none()?;
        let name = format!("stage{}.select", number + 1);
        let ir = &self.ir;
        let behind = ir.element(ir.i8, bytes, length, "kept.end")?;
        let zeros = ir.b.build_store(behind, ir.i8.vec_type(LANES).const_zero())?;
        // Fails only for instructions that access no memory, which this does.
        let _ = zeros.set_alignment(1);
        match ir.can_compress {
            true => self.each(length, LANES as u64, &name, &mut |this, index| this.pack(index)),
            false => self.each(length, TABLE_LANES as u64, &name, &mut |this, index| this.pack_by_table(index)),
        }
    }

    /// Appends those of the rows from `first` on, as many as a vector has, that are kept.
    fn pack(&mut self, first: Int<'c>) -> Emitted<()> {
        let (ir, selection) = (&self.ir, self.selection());
        let (bytes, numbers) = (ir.i8.vec_type(LANES), ir.i32.vec_type(LANES));
        let place = ir.element(ir.i8, selection.kept, first, "kept.place")?;
        let kept = ir.b.build_load(bytes, place, "kept.bytes")?.into_vector_value();
        let kept = ir.b.build_int_compare(IntPredicate::NE, kept, bytes.const_zero(), "kept.mask")?;
        let lanes: Vec<Int<'c>> = (0..LANES).map(|lane| ir.i32.const_int(lane as u64, false)).collect();
        let start = self.splat(first, LANES)?;
        let rows = ir.b.build_int_add(start, VectorType::const_vector(&lanes), "rows")?;
        let packed = ir.intrinsic(
            "llvm.x86.avx512.mask.compress",
            &[numbers.into()],
            &[rows.into(), numbers.const_zero().into(), kept.into()],
            "rows.packed",
        )?;
        let mask = ir.b.build_bit_cast(kept, ir.context.i16_type(), "kept.bits")?.into_int_value();
        self.append(packed.into_vector_value(), mask)
    }

    /// The same by a table that has, for every choice of eight rows, the numbers of the chosen ones before anything else. Its time
    /// does not depend on how many are kept.
    fn pack_by_table(&mut self, first: Int<'c>) -> Emitted<()> {
        let (ir, selection) = (&self.ir, self.selection());
        let (offsets, numbers) = (ir.i8.vec_type(TABLE_LANES), ir.i32.vec_type(TABLE_LANES));
        let place = ir.element(ir.i8, selection.kept, first, "kept.place")?;
        let kept = ir.load_word(place, "kept.bytes")?;
        let bits = ir.b.build_int_mul(kept, ir.word(GATHER_BITS), "kept.gathered")?;
        let mask = ir.b.build_right_shift(bits, ir.word(56), false, "kept.bits")?;
        let chosen = ir.b.build_load(offsets, ir.element(ir.i64, self.choices(), mask, "choice.place")?, "choice")?;
        let chosen = ir.b.build_int_z_extend(chosen.into_vector_value(), numbers, "choice.rows")?;
        let packed = ir.b.build_int_add(chosen, self.splat(first, TABLE_LANES)?, "rows.packed")?;
        self.append(packed, mask)
    }

    /// For each choice of eight rows, as bits, a word whose bytes are the numbers of the chosen ones in order, then zeros.
    fn choices(&self) -> Ptr<'c> {
        let ir = &self.ir;
        ir.constant_in_memory("choices", || {
            let chosen = |bits: u64| (0..TABLE_LANES as u64).filter(move |row| bits >> row & 1 == 1);
            let word = |bits: u64| chosen(bits).zip(0..).fold(0, |word, (row, place)| word | row << (8 * place));
            let words: Vec<Int<'c>> = (0..1 << TABLE_LANES).map(|bits| ir.word(word(bits))).collect();
            ir.i64.const_array(&words)
        })
    }

    /// A number of a row in each element of a vector.
    fn splat(&self, row: Int<'c>, lanes: u32) -> Emitted<VectorValue<'c>> {
        let ir = &self.ir;
        let numbers = ir.i32.vec_type(lanes);
        let row = ir.b.build_int_truncate(row, ir.i32, "first.short")?;
        let start = ir.b.build_insert_element(numbers.const_zero(), row, ir.i32.const_zero(), "first.lane")?;
        let all = ir.i32.vec_type(lanes).const_zero();
        Ok(ir.b.build_shuffle_vector(start, numbers.get_undef(), all, "first.lanes")?)
    }

    /// Stores packed rows behind the selection, and counts those that the bits of `mask` stand for.
    fn append(&self, packed: VectorValue<'c>, mask: Int<'c>) -> Emitted<()> {
        let (ir, selection) = (&self.ir, self.selection());
        let place = ir.element(ir.i32, selection.rows, self.selected()?, "selection.end")?;
        let stored = ir.b.build_store(place, packed)?;
        // As above.
        let _ = stored.set_alignment(4);
        let count = ir.intrinsic("llvm.ctpop", &[mask.get_type().into()], &[mask.into()], "kept.count")?;
        ir.increase(selection.count, ir.b.build_int_z_extend_or_bit_cast(count.into_int_value(), ir.i64, "kept.count")?)
    }

    /// A loop that counts from zero to below `end` in steps. Control comes in at the current block and leaves at it.
    pub(super) fn each(
        &mut self,
        end: Int<'c>,
        step: u64,
        name: &str,
        body: &mut dyn FnMut(&mut Self, Int<'c>) -> Emitted<()>,
    ) -> Emitted<()> {
        let ir = &self.ir;
        let (head, rows, exit) =
            (ir.block(&format!("{name}.more")), ir.block(&format!("{name}.row")), ir.block(&format!("{name}.end")));
        let (counter, index) = ir.begin_loop(head, ir.word(0), &format!("{name}.index"))?;
        let more = ir.compare(IntPredicate::ULT, index, end, &format!("{name}.has_more"))?;
        ir.branch(more, rows, exit)?;
        ir.enter(rows);
        body(self, index)?;
        let ir = &self.ir;
        let next = ir.b.build_int_nuw_add(index, ir.word(step), &format!("{name}.index.next"))?;
        counter.add_incoming(&[(&next, ir.current())]);
        ir.jump_back(head)?;
        ir.enter(exit);
        Ok(())
    }
}
