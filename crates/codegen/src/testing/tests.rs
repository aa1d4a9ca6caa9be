//! The interpreter against plain Rust.

use super::reference::{column_value, evaluate, same};
use super::{Case, Expressions, Random, random_column, random_schema};
use crate::execute::{Flow, emit};
use crate::interpreter::Interpreter;
use crate::lower::lower_expressions;
use arrow_array::ArrayRef;
use millstream_functions::FunctionContext;
use millstream_plan::expr::Expr;
use millstream_types::code;
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
        let mut errors = Vec::new();
        let emitted = emit(&lowered, &kernel, &columns, rows, &mut FunctionContext::default(), &mut |error| {
            assert_eq!(error.diagnostic.code, code::DIVISION_BY_ZERO);
            errors.push(error.row);
            Flow::Skip
        })
        .unwrap();
        let mut position = 0;
        for row in 0..rows {
            let expected: Result<Vec<_>, _> = exprs.iter().map(|e| evaluate(e, &columns, row)).collect();
            let Ok(expected) = expected else {
                assert!(errors.contains(&row), "seed {seed} row {row} should fail\n{}\n{exprs:#?}", lowered.program);
                continue;
            };
            assert!(!errors.contains(&row), "seed {seed} row {row} should not fail\n{}\n{exprs:#?}", lowered.program);
            assert_eq!(emitted.selection[position] as usize, row);
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

/// The same case gives the same rows whatever the sizes of the runs that it is cut into.
#[test]
fn random_cases_run() {
    let mut updates = 0;
    for seed in 0..400 {
        let case = Case::random(seed);
        let outcome = case.run(&case.interpreter());
        assert_eq!(outcome, case.run(&case.interpreter()));
        updates += usize::from(!outcome.entries.is_empty());
    }
    assert!(updates > 50, "{updates} cases updated a table");
}
