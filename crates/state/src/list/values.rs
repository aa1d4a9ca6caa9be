//! The values of a list, gathered from its runs.

use super::{Element, Run, leaves};
use crate::object::{Ordinal, Values, positive_zero};
use std::cmp::Ordering;

/// The values of one list.
#[derive(Debug)]
pub(crate) struct List {
    pub(super) element: Element,
    /// Those that are [`List::is_null`] mean nothing.
    pub(crate) values: Values,
    /// Of the values; a bag has none.
    pub(super) ordinals: Vec<Ordinal>,
    /// Numbers of the values that stand for NULL, ascending.
    pub(super) nulls: Vec<usize>,
}

impl List {
    /// Without values.
    pub(crate) fn new(element: Element) -> List {
        List { element, values: Values::new(element.phys), ordinals: Vec::new(), nulls: Vec::new() }
    }

    /// Takes the values of a run or join in place of its own.
    ///
    /// # Safety
    /// It is one of such elements that is alive, or null.
    pub(crate) unsafe fn gather(&mut self, run: Run) {
        self.values.clear();
        self.ordinals.clear();
        self.nulls.clear();
        let element = self.element;
        // SAFETY: promised by the caller.
        unsafe { leaves(run, element, |words| element.append(words, self)) };
    }

    /// Forgets NULLs and the places of the others.
    pub(crate) fn keep_values(&mut self) {
        self.ordinals.clear();
        if !self.nulls.is_empty() {
            let mut values = Values::new(self.element.phys);
            (0..self.values.len()).filter(|&i| !self.is_null(i)).for_each(|i| values.push_from(&self.values, i));
            self.values = values;
            self.nulls.clear();
        }
    }

    /// Puts the values in ascending order, without NULLs and places; of distinct ones, each is there once then.
    pub(crate) fn sort(&mut self) {
        self.keep_values();
        let (phys, is_distinct) = (self.element.phys, self.element.is_distinct);
        match &mut self.values {
            Values::Words(words) => {
                words.iter_mut().for_each(|word| *word = positive_zero(phys, *word));
                words.sort_unstable();
                if is_distinct {
                    words.dedup();
                }
            }
            Values::Wides(wides) => {
                wides.sort_unstable();
                if is_distinct {
                    wides.dedup();
                }
            }
            strings => {
                let mut sorted: Vec<&[u8]> = (0..strings.len()).map(|i| strings.string(i)).collect();
                sorted.sort_unstable();
                if is_distinct {
                    sorted.dedup();
                }
                *strings = Values::of_strings(sorted);
            }
        }
    }

    /// Numbers of the values in the order of the input. Values of one row are in their own order.
    ///
    /// # Panics
    /// For bags.
    pub(crate) fn in_order(&self) -> Vec<usize> {
        assert_eq!(self.ordinals.len(), self.values.len(), "a bag has no order");
        let mut places: Vec<usize> = (0..self.values.len()).collect();
        let compare = |&a: &usize, &b: &usize| self.ordinals[a].cmp(&self.ordinals[b]).then_with(|| self.compare(a, b));
        if !places.is_sorted_by(|a, b| compare(a, b) != Ordering::Greater) {
            places.sort_unstable_by(compare);
        }
        places
    }

    /// Whether value `i` is NULL.
    pub(crate) fn is_null(&self, i: usize) -> bool {
        !self.nulls.is_empty() && self.nulls.binary_search(&i).is_ok()
    }

    /// Order of value `i` against value `j`; NULLs come last and are equal.
    pub(crate) fn compare(&self, i: usize, j: usize) -> Ordering {
        match (self.is_null(i), self.is_null(j)) {
            (false, false) => self.values.compare(i, &self.values, j),
            (a, b) => a.cmp(&b),
        }
    }
}
