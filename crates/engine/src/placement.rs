//! Which columns of packed records are read in place, and which are gathered into arrays by the decoder.
//!
//! Generated code reads a field of a record as well as an element of an array, so what only programs compute with stays
//! where it is: gathering it would read every record once more and write the column, for nothing. A column is gathered
//! where a program needs the array itself for all rows: to pass it on to a sink, an operator or a vectorised function,
//! each such program would have to make it row by row. Behind a filter a program makes it only of the rows that are
//! left, which is less than gathering all.
//!
//! A column that [`MANY_READERS`] programs read is gathered, too: each of them goes through the whole records, which do
//! not stay in the first cache from one program to the next, where the column would.

use millstream_codegen::lower::{Lowered, OutputSource};
use millstream_codegen::program::{Op, Statement};
use millstream_codegen::programs::Programs;
use millstream_plan::pipeline::{ColumnOrigin, QueryPlan, SourceColumn};
use millstream_runtime::When;
use millstream_types::RecordLayout;
use std::sync::Arc;

/// Programs from which on a column that all of them read is worth gathering.
const MANY_READERS: usize = 4;

/// Decides for every column of sources with packed records and notes it in the plan. `layouts` has those of the sources
/// that have them; `programs` are those of the plan with every column as an array. Whether anything has changed: then they
/// must be made again.
pub(crate) fn place(
    plan: &mut QueryPlan,
    programs: &Programs<Arc<Lowered>>,
    layouts: &[Option<TableLayout>],
    wanted: When,
) -> bool {
    let mut changed = false;
    for (number, layout) in layouts.iter().enumerate() {
        let Some(layout) = layout.as_ref().filter(|_| wanted != When::Never) else { continue };
        let readers: Vec<&Lowered> = programs.readers(plan, number).map(|lowered| &**lowered).collect();
        let stays = |column: usize| wanted == When::Always || stays_in_place(&readers, column);
        let stays: Vec<bool> = (0..plan.sources[number].columns.len()).map(stays).collect();
        for (column, _) in plan.sources[number].columns.iter_mut().zip(stays).filter(|(_, stays)| *stays) {
            column.in_record = layout.place(column);
            changed |= column.in_record.is_some();
        }
    }
    changed
}

/// Where the columns of a table are in its records.
pub(crate) struct TableLayout {
    /// Of the physical columns.
    pub(crate) layout: RecordLayout,
    /// Positions of the physical columns among all of the table, ascending.
    pub(crate) physical: Vec<usize>,
}

impl TableLayout {
    fn place(&self, column: &SourceColumn) -> Option<millstream_types::RecordPlace> {
        let ColumnOrigin::Path(path) = &column.origin else { return None };
        let field = self.physical.binary_search(path.first()?).ok()?;
        self.layout.place(field)
    }
}

/// The rule above, for a column that `readers` have as an array.
fn stays_in_place(readers: &[&Lowered], column: usize) -> bool {
    let is_passed = |lowered: &Lowered| lowered.outputs.contains(&OutputSource::Input(column));
    let needs_array = |lowered: &&&Lowered| {
        (is_passed(lowered) && !filters(lowered)) || lowered.vectors.iter().any(|v| is_passed(&v.arguments))
    };
    let reads = |lowered: &&&Lowered| is_passed(lowered) || loads(&lowered.program.body, column as u32);
    !readers.iter().any(|r| needs_array(&r)) && readers.iter().filter(reads).count() < MANY_READERS
}

fn filters(lowered: &Lowered) -> bool {
    lowered.program.body.iter().any(|statement| matches!(statement, Statement::Filter { .. }))
}

fn loads(statements: &[Statement], input: u32) -> bool {
    statements.iter().any(|statement| match statement {
        Statement::Let(_, Op::Load(i) | Op::LoadView(i) | Op::LoadBytes(i, _)) => *i == input,
        Statement::If { then, otherwise, .. } => loads(then, input) || loads(otherwise, input),
        _ => false,
    })
}
