//! What is switched at random, for tests: whatever is chosen, and whenever, the rows are the same.

use super::adapted_program::{Effort, MakeKernel};
use super::policy::Dice;
use millstream_abi::{ExecContext, Status, StatusKind};
use millstream_codegen::interpreter::Interpreter;
use millstream_codegen::kernel::{Kernel, Tier};
use millstream_codegen::program::Program;
use millstream_codegen::specialise::{Specialised, random_choices, specialise};
use std::sync::Arc;

/// Specialised variants of a program.
const VARIANTS: u64 = 3;
/// Most pieces of a buffer that different variants process.
const PIECES: u64 = 4;

/// A kernel that runs each buffer in pieces of random length, each by a random variant: the generic program interpreted and
/// compiled, and specialised ones that assume things at random, most of which do not hold.
pub(crate) struct Chaos {
    variants: Vec<Arc<dyn Kernel>>,
    dice: Dice,
}

impl Chaos {
    /// For a program. `make` makes kernels as the run does.
    pub(crate) fn new(program: &Program, seed: u64, make: &mut MakeKernel<'_>) -> Chaos {
        let interpreter = |program: &Program| Arc::new(Interpreter::new(Arc::new(program.clone()))) as Arc<dyn Kernel>;
        let generic = make(program, Effort::Any).unwrap_or_else(|| interpreter(program));
        let mut variants = vec![interpreter(program), Arc::clone(&generic)];
        for number in 0..VARIANTS {
            let choices = random_choices(program, seed.wrapping_mul(VARIANTS).wrapping_add(number));
            let special = specialise(program, &choices);
            let kernel = make(&special, Effort::Any).unwrap_or_else(|| interpreter(&special));
            variants.push(Arc::new(Specialised::new(program, choices, kernel, Arc::clone(&generic))));
        }
        Chaos { variants, dice: Dice::new(seed) }
    }
}

impl Kernel for Chaos {
    unsafe fn run(&self, context: &mut ExecContext, mut start: u64, end: u64) -> Status {
        for left in (0..PIECES).rev() {
            let variant = &self.variants[self.dice.below(self.variants.len() as u64) as usize];
            let to = if left == 0 { end } else { start + self.dice.below(end.saturating_sub(start) + 1) };
            // SAFETY: the caller keeps the contract of `Kernel::run`, for fewer rows as well as for all.
            let status = unsafe { variant.run(context, start, to) };
            match status.kind() {
                StatusKind::Done => start = to,
                StatusKind::Error { .. } => return status,
            }
        }
        Status::DONE
    }

    fn tier(&self) -> Tier {
        self.variants[1].tier()
    }
}
