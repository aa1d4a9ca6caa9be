//! Emitting rows: values, validity bytes and, where rows are dropped, the row's number, each into its own array.

use super::Emitter;
use super::ir::{Emitted, Ptr};
use inkwell::types::BasicTypeEnum;
use millstream_abi::{ExecContext, OutputColumn};
use millstream_codegen::program::Emit;
use std::mem::offset_of;

impl<'c> Emitter<'c, '_> {
    /// `Terminal::Emit`
    pub(super) fn emit_row(&self, columns: &[Emit]) -> Emitted<()> {
        let ir = &self.ir;
        let out_rows = self.out_rows.expect("a program that emits counts its rows");
        let out = ir.load_word(out_rows, "out")?;
        for (number, column) in columns.iter().enumerate() {
            let phys = self.program.type_of(column.value);
            let values = self.output(number, offset_of!(OutputColumn, values), &format!("{}.out", column.name))?;
            let value = self.to_memory(self.value(column.value), phys)?;
            let place = ir.element(value.get_type(), values, out, "out.place")?;
            ir.store_output(2 * number + 1, place, value)?;
            if let Some(valid) = column.valid {
                let valids = self.output(number, offset_of!(OutputColumn, valid), &format!("{}.valid", column.name))?;
                let byte = ir.b.build_int_z_extend(self.int(valid), ir.i8, "valid.byte")?;
                ir.store_output(2 * number + 2, ir.element(ir.i8, valids, out, "valid.place")?, byte.into())?;
            }
        }
        if self.program.is_total() {
            return ir.increase(out_rows, ir.word(1));
        }
        let offset = offset_of!(ExecContext, out_selection);
        let selection = ir.hoist(|ir| ir.load_field(self.context, offset, "out_selection"))?;
        let row = ir.b.build_int_truncate(self.row, ir.i32, "row.number")?;
        ir.store_output(0, ir.element(BasicTypeEnum::from(ir.i32), selection, out, "selection.out")?, row.into())?;
        ir.increase(out_rows, ir.word(1))
    }

    /// An array of an output column, loaded once a run.
    fn output(&self, number: usize, field: usize, name: &str) -> Emitted<Ptr<'c>> {
        let offset = number * size_of::<OutputColumn>() + field;
        self.ir.hoist(|ir| {
            let outputs = ir.load_field(self.context, offset_of!(ExecContext, outputs), "outputs")?;
            ir.load_field(outputs, offset, name)
        })
    }
}
