//! Two stacks of slices, for accumulators without inverse: merged from their ends, so that no merge is ever undone.
//!
//! ```text
//!  slice  1   2   3   4 │ 5   6   7
//!  front  1…4 2…4 3…4 4 │            one table for each suffix: when slice 1 leaves, the next suffix is there
//!  back                 │ 5…7        one table, to which slices are added
//! ```
//!
//! A window is the longest suffix merged with the back. When the front is used up, the slices of the back become the
//! front. So each slice is merged three times, whatever the number of slices of a window.

use crate::merge::Merged;
use crate::partial::Partial;
use crate::table::Table;
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// The stacks. Strings of their entries are those of the slices' partials.
#[derive(Debug)]
pub(super) struct Stacks {
    layout: Arc<EntryLayout>,
    /// Suffixes of the front, the longest one last.
    front: Vec<Table>,
    back: Option<Table>,
}

impl Stacks {
    /// Without slices.
    pub(super) fn new(layout: Arc<EntryLayout>) -> Stacks {
        Stacks { layout, front: Vec::new(), back: None }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.front.iter().chain(&self.back).map(Table::bytes).sum()
    }

    /// Adds a partial of the last slice.
    pub(super) fn push(&mut self, partial: &Partial, partitions: &Range<usize>) {
        let back = self.back.get_or_insert_with(|| Table::new(Arc::clone(&self.layout)));
        // SAFETY: entries of the layout; their strings live as long as the slice is in a stack.
        partial.entries_of(partitions).for_each(|from| unsafe { back.merge_entry(from) });
    }

    /// Takes out the first `count` slices; `remaining` are the partials of those that are left, in order.
    pub(super) fn evict<'a>(
        &mut self,
        count: usize,
        remaining: impl DoubleEndedIterator<Item = &'a [Arc<Partial>]>,
        partitions: &Range<usize>,
    ) {
        if count <= self.front.len() {
            self.front.truncate(self.front.len() - count);
            return;
        }
        self.back = None;
        self.front.clear();
        for partials in remaining.rev() {
            let mut suffix = match self.front.last() {
                // SAFETY: a table of the layout; its strings are those of slices that leave after this one.
                Some(shorter) => unsafe { shorter.copied() },
                None => Table::new(Arc::clone(&self.layout)),
            };
            for from in partials.iter().flat_map(|partial| partial.entries_of(partitions)) {
                // SAFETY: as in `push`.
                unsafe { suffix.merge_entry(from) };
            }
            self.front.push(suffix);
        }
    }

    /// The window of both stacks and some more partials.
    ///
    /// # Safety
    /// While the result is used, the stacks are not changed, and the partials and those of all slices stay alive.
    pub(super) unsafe fn merged<'a>(
        &self,
        more: impl Iterator<Item = &'a Arc<Partial>>,
        partitions: &Range<usize>,
    ) -> Merged {
        let mut more = more.peekable();
        let first = self.front.last().or(self.back.as_ref());
        let second = self.back.as_ref().filter(|_| !self.front.is_empty());
        match (first, second) {
            (Some(only), None) if more.peek().is_none() => {
                // SAFETY: promised by the caller.
                unsafe { Merged::borrowing(Arc::clone(&self.layout), only) }
            }
            _ => {
                let tables = || first.into_iter().chain(second);
                let largest = tables().map(Table::len).max().unwrap_or(0);
                let mut table = Table::with_capacity(Arc::clone(&self.layout), 2 * largest);
                let partials = more.flat_map(|partial| partial.entries_of(partitions));
                // SAFETY: entries of the layout whose strings stay alive, as promised by the caller.
                tables().flat_map(Table::occupied).chain(partials).for_each(|from| unsafe { table.merge_entry(from) });
                // SAFETY: promised by the caller.
                unsafe { Merged::owning(table) }
            }
        }
    }
}
