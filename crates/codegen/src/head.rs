//! The filters that come first in a program, for whoever wants to know what it drops before the other columns are there.
//!
//! They are a separate program, over the columns that they look at, that emits nothing but the numbers of the rows that
//! pass. It is made of the statements before the first that can fail or has an effect, and of these only of what filters need:
//! so a row that does not pass is one that the program drops without having noticed anything about it.

use crate::lower::{Lowered, OutputSource};
use crate::program::{Op, Program, Statement, Terminal};
use crate::rewrite;
use crate::specialise::is_total;
use std::collections::BTreeSet;

/// The filters at the head of a program.
#[derive(Debug, Clone)]
pub struct Head {
    /// Selects the rows that pass them all: no columns are emitted, only their numbers. Its inputs are `columns`.
    pub condition: Lowered,
    /// Columns of the program's buffers that they look at, ascending.
    pub columns: Vec<usize>,
}

/// The filters at the head of a program, when of its columns only the first `available` are there yet; `None` if there are
/// none.
pub fn head(lowered: &Lowered, available: usize) -> Option<Head> {
    let program = &lowered.program;
    let belongs = |statement: &&Statement| is_head(statement, available);
    let length = program.body.iter().take_while(belongs).count();
    let last = program.body[..length].iter().rposition(|s| matches!(s, Statement::Filter { .. }))?;
    let mut condition = Program {
        name: format!("head of {}", program.name),
        body: program.body[..=last].to_vec(),
        terminal: Terminal::Emit(Vec::new()),
        ..program.clone()
    };
    rewrite::finish(&mut condition);
    let columns = rewrite::keep_used_inputs(&mut condition);
    Some(Head { condition: Lowered::plain(condition, Vec::new()), columns })
}

fn is_head(statement: &Statement, available: usize) -> bool {
    let is_known = |op: &Op| *op != Op::Watermark && op.input().is_none_or(|input| (input as usize) < available);
    statement.all().filter_map(Statement::op).all(|(_, op)| is_known(op))
        && (is_total(statement) || matches!(statement, Statement::Filter { counts_late: false, .. }))
}

/// The columns of a program's buffers that are looked at of every row, whatever the program drops: the arguments of vectorised
/// functions.
pub fn columns_of_vectors(lowered: &Lowered) -> BTreeSet<usize> {
    lowered.vectors.iter().flat_map(|vector| columns(&vector.arguments)).collect()
}

/// All columns of its buffers that a program looks at or passes on.
pub fn columns(lowered: &Lowered) -> BTreeSet<usize> {
    let mut all = columns_of_vectors(lowered);
    let own = lowered.program.inputs.len() - 2 * lowered.vectors.len();
    let read = lowered.program.ops().filter_map(|(_, op)| op.input());
    all.extend(read.map(|input| input as usize).filter(|&input| input < own));
    all.extend(lowered.outputs.iter().filter_map(|output| match output {
        OutputSource::Input(input) if *input < own => Some(*input),
        OutputSource::Input(_) | OutputSource::Emitted(_) => None,
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::Interpreter;
    use crate::specialise::filter_count;
    use crate::testing::Case;
    use crate::verify::verify;
    use arrow_array::UInt32Array;
    use std::sync::Arc;

    /// Rows that the head drops leave no trace: not even their values in the other columns matter.
    #[test]
    fn what_the_head_drops_the_program_drops() {
        let (mut heads, mut dropped, mut replaced) = (0, 0, 0);
        for seed in 0..600 {
            let case = Case::random(seed);
            let available = case.lowered.program.inputs.len() - 2 * case.lowered.vectors.len();
            let Some(head) = head(&case.lowered, available) else { continue };
            assert!(filter_count(&case.lowered.program) > 0 && head.columns.iter().all(|c| *c < available));
            assert_eq!(verify(&head.condition.program), Ok(()), "seed {seed}\n{}", head.condition.program);
            heads += 1;
            let kernel = Interpreter::new(Arc::new(head.condition.program.clone()));
            let columns = head.columns.iter().map(|&column| case.columns[column].clone()).collect();
            let passed = Case { lowered: head.condition, columns, ..Case::random(seed) }.run(&kernel);
            assert!(passed.errors.is_empty() && passed.late_rows == 0, "seed {seed}");
            dropped += case.rows - passed.selection.len();
            let mut survives = vec![false; case.rows];
            passed.selection.iter().for_each(|&row| survives[row as usize] = true);
            let value_of = |row: usize| if survives[row] { row } else { row * 7 % case.rows } as u32;
            let places = UInt32Array::from_iter_values((0..case.rows).map(value_of));
            let mut other = Case::random(seed);
            let needed =
                |column: &usize| head.columns.contains(column) || columns_of_vectors(&case.lowered).contains(column);
            for column in (0..other.columns.len()).filter(|column| !needed(column)) {
                other.columns[column] = arrow_select::take::take(&other.columns[column], &places, None).unwrap();
                replaced += 1;
            }
            let kernel = Interpreter::new(Arc::new(case.lowered.program.clone()));
            assert_eq!(other.run(&kernel), case.run(&kernel), "seed {seed}\n{}", case.lowered.program);
        }
        let enough = heads > 50 && dropped > 1000 && replaced > 50;
        assert!(enough, "{heads} heads, {dropped} rows, {replaced} columns");
    }

    #[test]
    fn columns_are_those_that_are_read_or_passed_on() {
        for seed in 0..200 {
            let case = Case::random(seed);
            let all = columns(&case.lowered);
            assert!(all.iter().all(|column| *column < case.columns.len()), "seed {seed}");
            assert!(columns_of_vectors(&case.lowered).is_subset(&all), "seed {seed}");
        }
    }
}
