use super::*;
use crate::interpreter::Interpreter;
use crate::kernel::Kernel;
use crate::testing::Case;
use crate::verify::verify;
use std::sync::Arc;

fn interpreter(program: Program) -> Arc<dyn Kernel> {
    Arc::new(Interpreter::new(Arc::new(program)))
}

/// Whatever is chosen, right or wrong: the rows, errors, late rows and entries are those of the generic program.
#[test]
fn specialised_programs_do_the_same() {
    let (mut changed, mut deoptimised) = (0, 0);
    for seed in 0..600 {
        let case = Case::random(seed);
        let program = &case.lowered.program;
        let choices = random_choices(program, seed);
        let special = specialise(program, &choices);
        assert_eq!(verify(&special), Ok(()), "seed {seed}\n{program}\n{special}");
        changed += usize::from(special != *program);
        let kernel = Specialised::new(program, choices, interpreter(special), interpreter(program.clone()));
        let (found, expected) = (case.run(&kernel), case.run(&case.interpreter()));
        assert!(found == expected, "seed {seed}\n{found:#?}\n{expected:#?}\n{program}\n{:#?}", kernel.choices());
        deoptimised += usize::from(kernel.deoptimisations() > 0);
    }
    assert!(changed > 150 && deoptimised > 80, "{changed} changed, {deoptimised} deoptimised");
}

#[test]
fn nothing_chosen_is_nothing_lost() {
    for seed in 0..200 {
        let program = Case::random(seed).lowered.program;
        let same = specialise(&program, &Choices::default());
        assert!(
            same.types.len() <= program.types.len(),
            "seed {seed}: values were numbered already\n{program}\n{same}"
        );
    }
}
