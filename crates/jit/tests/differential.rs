//! Machine code against the interpreter, over random pipelines and random buffers: the same rows, errors, late rows
//! and table entries.

use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::partition::partition;
use millstream_codegen::specialise::{Specialised, random_choices, specialise};
use millstream_codegen::testing::Case;
use millstream_jit::{CompileOptions, Optimization, compile};
use std::sync::Arc;

/// Compares the cases of some seeds, compiled with `optimization`.
fn compare(seeds: std::ops::Range<u64>, optimization: Optimization) {
    let options = CompileOptions { optimization, ..CompileOptions::default() };
    for seed in seeds {
        let case = Case::random(seed);
        let compiled = compile(&case.lowered.program, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{case}"));
        let (found, expected) = (case.run(&compiled), case.run(&case.interpreter()));
        assert!(found == expected, "seed {seed}\n{found:#?}\n{expected:#?}\n{}", case.lowered.program);
    }
}

#[test]
fn optimised_code_agrees_with_the_interpreter() {
    compare(0..300, Optimization::Full);
}

#[test]
fn unoptimised_code_agrees_with_the_interpreter() {
    compare(300..400, Optimization::None);
}

/// Fields of packed records, against arrays of the same values and against the interpreter.
#[test]
fn fields_of_records_are_read_as_by_the_interpreter() {
    let mut cases = 0;
    for seed in 2000..2160 {
        let Some((arrays, records)) = Case::random(seed).in_records(seed) else { continue };
        let optimization = if seed % 4 == 0 { Optimization::None } else { Optimization::Full };
        let options = CompileOptions { optimization, ..CompileOptions::default() };
        let program = &records.lowered.program;
        let compiled = compile(program, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{records}"));
        let expected = arrays.run(&arrays.interpreter());
        for (what, found) in
            [("compiled", records.run(&compiled)), ("interpreted", records.run(&records.interpreter()))]
        {
            assert!(found == expected, "seed {seed}, {what}\n{found:#?}\n{expected:#?}\n{program}");
        }
        cases += 1;
    }
    assert!(cases > 80, "{cases} cases");
}

#[test]
fn rows_are_partitioned_as_by_the_interpreter() {
    let options = CompileOptions::default();
    let mut partitioned = 0;
    for seed in 450..650 {
        let whole = Case::random(seed);
        let Some(halves) = partition(&whole.lowered).unwrap() else { continue };
        let case = Case { lowered: halves.scatter, ..whole };
        let compiled = compile(&case.lowered.program, &options).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{case}"));
        assert_eq!(case.run(&compiled), case.run(&case.interpreter()), "seed {seed}\n{case}");
        partitioned += 1;
    }
    assert!(partitioned > 10, "{partitioned} cases");
}

#[test]
fn lightly_optimised_code_agrees_with_the_interpreter() {
    compare(400..450, Optimization::Less);
}

#[test]
fn shared_updates_agree_with_those_of_own_tables() {
    let mut shared = 0;
    for seed in 1000..2000 {
        let case = Case::random(seed);
        let Some(program) = case.lowered.program.shared() else { continue };
        let compiled = compile(&program, &CompileOptions::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let expected = case.run(&case.interpreter());
        let found = [case.run_shared(&compiled), case.run_shared(&Interpreter::new(Arc::new(program.clone())))];
        assert!(found.iter().all(|found| *found == expected), "seed {seed}\n{found:#?}\n{expected:#?}\n{program}");
        shared += 1;
    }
    assert!(shared >= 40, "{shared} programs can share tables");
}

/// Programs specialised for what holds and for what does not, with machine code for the generic program behind them.
#[test]
fn specialised_code_agrees_with_the_interpreter() {
    let mut deoptimised = 0;
    for seed in 3000..3200 {
        let case = Case::random(seed);
        let program = &case.lowered.program;
        let choices = random_choices(program, seed);
        let special = specialise(program, &choices);
        let code = |program| Arc::new(compile(program, &CompileOptions::default()).unwrap());
        let kernel = Specialised::new(program, choices, code(&special), code(program));
        let (found, expected) = (case.run(&kernel), case.run(&case.interpreter()));
        assert!(found == expected, "seed {seed}\n{found:#?}\n{expected:#?}\n{special}");
        deoptimised += usize::from(kernel.deoptimisations() > 0);
    }
    assert!(deoptimised > 20, "{deoptimised} cases deoptimised");
}
