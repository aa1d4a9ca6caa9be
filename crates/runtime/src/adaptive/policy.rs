//! The one form of a choice that is made again while a query runs: who makes it, and what is reported about it.

use crate::config::Adaptivity;
use millstream_codegen::specialise::random::{STEP, scrambled};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Who makes a choice.
#[derive(Debug)]
pub(crate) enum Policy {
    /// Nobody: it never changes.
    Fixed,
    /// A function of `decisions`, by what is seen.
    Chosen,
    /// For tests: chance.
    Random(Dice),
}

impl Policy {
    /// Of a choice that the settings leave open, or not.
    pub(crate) fn new(is_open: bool, settings: &Adaptivity) -> Policy {
        match settings.chaos_seed {
            Some(seed) if is_open => Policy::Random(Dice::new(seed)),
            None if is_open && settings.is_enabled => Policy::Chosen,
            _ => Policy::Fixed,
        }
    }

    /// Whether it depends on what is seen.
    pub(crate) fn is_chosen(&self) -> bool {
        matches!(self, Policy::Chosen)
    }
}

/// Random numbers, for several threads at once.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    /// Whose numbers follow from the seed, and from who throws when.
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(AtomicU64::new(seed))
    }

    /// A number below a bound.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        scrambled(self.0.fetch_add(STEP, Relaxed)) % bound
    }
}

/// A choice that differs from the one before, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What was seen.
    pub(crate) observed: String,
    /// What is done from now on.
    pub(crate) decided: String,
}

impl Decision {
    /// Something is done from now on because of something that was seen.
    pub(crate) fn new(observed: impl Into<String>, decided: impl Into<String>) -> Decision {
        Decision { observed: observed.into(), decided: decided.into() }
    }
}
