//! The end of a query on several nodes, as the first one decides it: what it waits for before it has the others end.

use std::collections::{BTreeMap, BTreeSet};

/// What the other nodes have said at the end; `T` is what each does.
pub struct Ending<T> {
    others: usize,
    /// Those that have written all rows.
    all_written: BTreeSet<usize>,
    /// They have been told to end.
    is_ending: bool,
    finished: BTreeMap<usize, T>,
}

impl<T> Ending<T> {
    /// So many others have said nothing.
    pub fn of_others(others: usize) -> Ending<T> {
        Ending { others, all_written: BTreeSet::new(), is_ending: false, finished: BTreeMap::new() }
    }

    /// The sinks of another node have all rows; whether it is to be told to end, as the others have been before.
    pub fn has_all_written(&mut self, node: usize) -> bool {
        self.all_written.insert(node);
        self.is_ending
    }

    /// The others are told to end: those that have all rows, and where they are not replaced (`all`) the rest, too.
    pub fn end(&mut self, all: bool) -> impl Iterator<Item = usize> + '_ {
        self.is_ending = true;
        (1..=self.others).filter(move |node| all || self.all_written.contains(node))
    }

    /// Another node is lost, and will be replaced, unless it has ended; whether it will.
    pub fn forget(&mut self, node: usize) -> bool {
        let is_replaced = !self.finished.contains_key(&node);
        if is_replaced {
            self.all_written.remove(&node);
        }
        is_replaced
    }

    /// Another node has ended.
    pub fn has_finished(&mut self, node: usize, said: T) {
        self.finished.insert(node, said);
    }

    /// Whether the sinks of all others have all rows.
    pub fn have_all_written(&self) -> bool {
        self.all_written.len() == self.others
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_replaced_says_again_that_it_has_all_rows() {
        let mut ending = Ending::of_others(2);
        assert!(!ending.has_all_written(1) && !ending.has_all_written(2) && ending.have_all_written());
        assert!(ending.forget(2) && !ending.have_all_written());
        assert_eq!(ending.end(true).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(ending.end(false).collect::<Vec<_>>(), [1]);
        ending.has_finished(1, "one");
        assert!(!ending.forget(1), "it has ended");
        assert!(ending.has_all_written(2), "the others have been told to end");
        ending.has_finished(2, "two");
        assert!(ending.have_finished());
        assert_eq!(ending.take().into_values().collect::<Vec<_>>(), ["one", "two"]);
    }
}
