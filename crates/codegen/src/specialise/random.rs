//! Choices drawn at random, for tests and for runs that switch variants at random: some hold, most do not, and none changes
//! what the program does.

use super::{Choices, Constant, FilterChoice, calls_of_one_column, can_be_constant, can_be_null, filter_count};
use crate::program::{FilterShape, Program};
use millstream_abi::Phys;

/// What the states of a sequence are apart, and the number of a state (splitmix64).
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// See [`STEP`].
pub fn scrambled(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A sequence of random numbers.
struct Draws(u64);

impl Draws {
    /// From 0 to below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0) % bound
    }
}

/// Choices for a program that depend on nothing but the program's form and the seed.
pub fn random_choices(program: &Program, seed: u64) -> Choices {
    let mut draws = Draws(seed);
    let mut choices = Choices::default();
    let shapes = [FilterShape::Auto, FilterShape::Branch, FilterShape::Mask, FilterShape::Selection];
    let mut filters: Vec<usize> = (0..filter_count(program)).collect();
    while !filters.is_empty() {
        let filter = filters.swap_remove(draws.below(filters.len() as u64) as usize);
        choices.filters.push(FilterChoice { filter, shape: shapes[draws.below(4) as usize] });
    }
    for (number, input) in (0u32..).zip(&program.inputs) {
        if can_be_null(program, number) && draws.below(2) == 0 {
            choices.not_null.insert(number);
        }
        let constant = match input.phys {
            Phys::Bool => Constant::Bool(draws.below(2) == 0),
            Phys::Str => Constant::Str(["", "a", "view"][draws.below(3) as usize].as_bytes().into()),
            _ => Constant::Int(draws.below(3).into()),
        };
        if can_be_constant(program, number, &constant) && draws.below(4) == 0 {
            choices.constants.insert(number, constant);
        }
    }
    for &input in calls_of_one_column(program).keys() {
        let texts = ["", "a", "view", "b", "ab"];
        let count = draws.below(4) as usize;
        let values = (0..count).map(|_| texts[draws.below(texts.len() as u64) as usize].as_bytes().into());
        choices.few.insert(input, values.collect());
    }
    choices
}
