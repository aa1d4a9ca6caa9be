//! The interpreter against plain Rust.

use super::reference::{BadRow, column_value, evaluate, same};
use super::{Case, Expressions, Random, random_column, random_schema, random_watermarks};
use crate::execute::{Flow, emit};
use crate::interpreter::Interpreter;
use crate::kernel::{Kernel, Tier};
use crate::lower::lower_expressions;
use arrow_array::ArrayRef;
use millstream_abi::{ExecContext, Status};
use millstream_functions::FunctionContext;
use millstream_plan::expr::Expr;
use millstream_types::code;
use std::collections::HashMap;
use std::sync::Arc;

/// Random expressions over random columns: values, NULLs and bad rows are those of the row-by-row evaluation.
#[test]
fn interpreter_agrees_with_plain_evaluation() {
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let schema = random_schema(&mut random);
        let rows = *random.pick(&[1, 3, 40, 1030]);
        let columns: Vec<ArrayRef> = schema.fields.iter().map(|f| random_column(&mut random, f, rows)).collect();
        let mut made = Expressions::new(&mut random, &schema);
        let exprs: Vec<Expr> = (0..3).map(|_| made.any(4)).collect();
        let lowered = lower_expressions("test", &schema, &exprs).unwrap();
        let kernel = Interpreter::new(Arc::new(lowered.program.clone()));
        let mut errors = HashMap::new();
        let watermarks = random_watermarks(&mut random, rows);
        let emitted =
            emit(&lowered, &kernel, &columns, rows, &watermarks, &mut FunctionContext::default(), &mut |error| {
                let why = match error.diagnostic.code {
                    code::DIVISION_BY_ZERO => BadRow::DivisionByZero,
                    code::INVALID_CAST => BadRow::InvalidCast,
                    _ => panic!("seed {seed}: {}", error.diagnostic),
                };
                errors.insert(error.row, why);
                Flow::Skip
            })
            .unwrap();
        let mut position = 0;
        for (row, &watermark) in watermarks.iter().enumerate() {
            let expected: Result<Vec<_>, _> = exprs.iter().map(|e| evaluate(e, &columns, row, watermark)).collect();
            let expected = match expected {
                Ok(expected) => expected,
                Err(why) => {
                    let found = errors.get(&row);
                    assert_eq!(found, Some(&why), "seed {seed} row {row}\n{}\n{exprs:#?}", lowered.program);
                    continue;
                }
            };
            assert_eq!(errors.get(&row), None, "seed {seed} row {row}\n{}\n{exprs:#?}", lowered.program);
            assert_eq!(emitted.selection.iter().nth(position).unwrap() as usize, row);
            for ((column, expr), value) in emitted.columns.iter().zip(&exprs).zip(&expected) {
                let found = column_value(column, position, &expr.data_type);
                let program = &lowered.program;
                assert!(same(&found, value), "seed {seed} row {row}: {found:?}, not {value:?}\n{expr:#?}\n{program}");
            }
            position += 1;
        }
        assert_eq!(position, emitted.rows);
    }
}

/// A kernel that runs another for a few rows at a time.
struct Pieces<'a>(&'a dyn Kernel, u64);

impl Kernel for Pieces<'_> {
    unsafe fn run(&self, context: &mut ExecContext, start: u64, end: u64) -> Status {
        let mut from = start;
        while from < end {
            let to = end.min(from + self.1);
            // SAFETY: promised by the caller for all rows.
            let status = unsafe { self.0.run(context, from, to) };
            if status != Status::DONE {
                return status;
            }
            from = to;
        }
        Status::DONE
    }

    fn tier(&self) -> Tier {
        self.0.tier()
    }
}

/// The same case gives the same rows whatever the sizes of the runs that it is cut into.
#[test]
fn random_cases_do_not_depend_on_blocks() {
    let (mut updates, mut errors, mut late, mut numbered, mut objects, mut routed) = (0, 0, 0, 0, 0, 0);
    for seed in 0..400 {
        let case = Case::random(seed);
        let kernel = case.interpreter();
        let outcome = case.run(&kernel);
        assert_eq!(outcome, case.run(&Pieces(&kernel, 1)), "seed {seed}\n{case}");
        assert_eq!(outcome, case.run(&Pieces(&kernel, 100)), "seed {seed}\n{case}");
        updates += usize::from(!outcome.entries.is_empty());
        errors += outcome.errors.len();
        late += outcome.late_rows;
        numbered += usize::from(outcome.groups.iter().any(|&group| group > 0));
        objects += usize::from(outcome.entries.iter().any(|entry| entry.contains(":NULL")));
        routed += usize::from(!case.plan.operators.is_empty() && outcome.late_rows > 0);
    }
    assert!(updates > 50 && errors > 1000 && late > 100, "{updates} updates, {errors} errors, {late} late rows");
    assert!(numbered > 10 && objects > 2 && routed > 5, "{numbered} numbered, {objects} objects, {routed} routed");
}

/// Columns in packed records give what arrays give.
#[test]
fn fields_of_records_are_read_as_columns_are() {
    let (mut cases, mut fields) = (0, 0);
    for seed in 0..600 {
        let Some((arrays, records)) = Case::random(seed).in_records(seed) else { continue };
        let (found, expected) = (records.run(&records.interpreter()), arrays.run(&arrays.interpreter()));
        assert!(found == expected, "seed {seed}\n{found:#?}\n{expected:#?}\n{records}\n{arrays}");
        cases += 1;
        fields += records.plan.sources[0].columns.iter().filter(|c| c.in_record.is_some()).count();
    }
    assert!(cases > 300 && fields > 1000, "{cases} cases, {fields} fields");
}
