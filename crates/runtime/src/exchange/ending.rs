//! The end of a query on several nodes, as the first one decides it: what it waits for before it has the others end.

use std::collections::BTreeMap;

/// What the other nodes have said at the end; `T` is what each does.
pub struct Ending<T> {
    others: usize,
    /// How many have written all rows.
    all_written: usize,
    finished: BTreeMap<usize, T>,
}

impl<T> Ending<T> {
    /// So many others have said nothing.
    pub fn of_others(others: usize) -> Ending<T> {
        Ending { others, all_written: 0, finished: BTreeMap::new() }
    }

    /// The sinks of another node have all rows.
    pub fn has_all_written(&mut self) {
        self.all_written += 1;
    }

    /// Another node has ended.
    pub fn has_finished(&mut self, node: usize, said: T) {
        self.finished.insert(node, said);
    }

    /// Whether the sinks of all others have all rows.
    pub fn have_all_written(&self) -> bool {
        self.all_written == self.others
    }

    /// Whether all others have ended.
    pub fn have_finished(&self) -> bool {
        self.finished.len() == self.others
    }

    /// What they have said.
    pub fn take(&mut self) -> BTreeMap<usize, T> {
        std::mem::take(&mut self.finished)
    }
}
