//! When all that a checkpoint consists of is there, and what waits for the first node to complete it: no thread, no clock, no file.

use std::collections::BTreeMap;

/// A checkpoint whose parts are coming. `R` is what another node says that it has stored.
pub struct Collecting<R> {
    number: u64,
    /// Stations of this node whose parts are still to come, as far as is known.
    missing: Option<usize>,
    /// Those whose parts have come.
    arrived: usize,
    /// How many other nodes say what they have stored: on the first of several nodes.
    of_others: usize,
    others: BTreeMap<usize, R>,
}

impl<R> Collecting<R> {
    /// The checkpoint of a number, to which so many other nodes contribute.
    pub fn new(number: u64, of_others: usize) -> Collecting<R> {
        Collecting { number, missing: None, arrived: 0, of_others, others: BTreeMap::new() }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The cut has been made, and so many stations of this node hand over what they have.
    pub fn begun(&mut self, stations: usize) {
        self.missing = Some(stations - self.arrived);
    }

    /// A station has handed over all that it has.
    pub fn station(&mut self) {
        self.arrived += 1;
        self.missing = self.missing.map(|missing| missing - 1);
    }

    /// Another node has stored its part.
    pub fn of_node(&mut self, node: usize, stored: R) {
        self.others.insert(node, stored);
    }

    /// Whether all parts are there.
    pub fn is_complete(&self) -> bool {
        self.missing == Some(0) && self.others.len() == self.of_others
    }

    /// What other nodes have stored, by their numbers.
    pub fn into_others(self) -> BTreeMap<usize, R> {
        self.others
    }
}

/// What a node has stored, to be made visible when the first node has completed the checkpoint.
pub struct Uncommitted<T>(Option<(u64, T)>);

impl<T> Default for Uncommitted<T> {
    fn default() -> Uncommitted<T> {
        Uncommitted(None)
    }
}

impl<T> Uncommitted<T> {
    /// All that belongs to a checkpoint is stored.
    pub fn store(&mut self, checkpoint: u64, stored: T) {
        self.0 = Some((checkpoint, stored));
    }

    /// The first node has completed a checkpoint: what belongs to it, once.
    pub fn completed(&mut self, checkpoint: u64) -> Option<T> {
        self.0.take_if(|(number, _)| *number == checkpoint).map(|(_, stored)| stored)
    }
}
