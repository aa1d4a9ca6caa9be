//! Specialising a row program: another program with the same inputs, outputs and sites, for what was seen of the data.
//!
//! The order of filters and their shapes only change what a row costs. The rest are assumptions: columns without NULL or with
//! one value. Whether they hold is looked for in the columns before the program runs, and the generic program continues from the
//! row that breaks one ([`Specialised`]).
//!
//! What is assumed is folded as lowering folds constants, so that a condition that is known, and the columns that only it
//! needs, are gone. Calls of constants are made beforehand; those of a column that mostly has one of a few values are answered
//! by comparing it with these (`calls`).

mod calls;
mod kernel;
mod order;
pub mod random;
mod replay;
#[cfg(test)]
mod tests;

use crate::program::{FilterShape, Layout, Op, Program};
pub use calls::{FewValues, calls_of_one_column};
pub use kernel::Specialised;
use millstream_abi::{Phys, Str};
pub(crate) use order::{Needs, filters};
pub use order::{filter_count, is_total, regions};
pub use random::random_choices;
pub use replay::specialise;
use std::collections::{BTreeMap, BTreeSet};

/// What a program is specialised for. The default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Choices {
    /// Order and shapes of the filters. Those that are not named come behind the others, as they are.
    pub filters: Vec<FilterChoice>,
    /// Inputs assumed to have no NULL.
    pub not_null: BTreeSet<u32>,
    /// Inputs assumed to have one value, where they are not NULL.
    pub constants: BTreeMap<u32, Constant>,
    /// Inputs of strings that mostly have one of a few values. That is not assumed: others are only dearer.
    pub few: BTreeMap<u32, FewValues>,
}

/// A place in the order of filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FilterChoice {
    /// Number of the filter in the generic program, not counting filters of late rows.
    pub filter: usize,
    /// How its rows are dropped.
    pub shape: FilterShape,
}

/// The value of an input.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Constant {
    /// Of a Bool input.
    Bool(bool),
    /// Of an integer input.
    Int(i128),
    /// Of a Str input, at most [`Str::INLINE`] bytes.
    Str(Box<[u8]>),
}

impl Choices {
    /// Whether the program is assumed to have properties that rows can break, rather than only arranged otherwise.
    pub fn assumes(&self) -> bool {
        !self.not_null.is_empty() || !self.constants.is_empty()
    }

    /// Whether there is nothing to specialise for.
    pub fn is_generic(&self) -> bool {
        !self.assumes() && self.filters.is_empty() && self.few.is_empty()
    }
}

/// The program with all filters in one shape.
pub fn shaped(program: &Program, shape: FilterShape) -> Program {
    let filters = (0..filter_count(program)).map(|filter| FilterChoice { filter, shape }).collect();
    specialise(program, &Choices { filters, ..Choices::default() })
}

/// Whether an input can be assumed to have no NULL.
pub fn can_be_null(program: &Program, input: u32) -> bool {
    program.inputs[input as usize].nullable
}

/// Whether an input can be assumed to have this value: its values are there to be compared, since the program loads them.
pub fn can_be_constant(program: &Program, input: u32, constant: &Constant) -> bool {
    let is_loaded = program.ops().any(|(_, op)| matches!(op, Op::Load(i) | Op::LoadView(i) if *i == input));
    let input = &program.inputs[input as usize];
    let fits = match constant {
        Constant::Bool(_) => input.phys == Phys::Bool,
        Constant::Int(_) => input.phys.is_integer(),
        Constant::Str(bytes) => input.phys == Phys::Str && bytes.len() <= Str::INLINE,
    };
    fits && input.layout == Layout::Array && is_loaded
}
