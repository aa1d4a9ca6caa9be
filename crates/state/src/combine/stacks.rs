//! Two stacks of slices, for accumulators without inverse: merged from their ends, so that no merge is ever undone by
//! computing.
//!
//! ```text
//!  slice   1  2  3  4 │ 5  6  7
//!  front   1…4        │            all together, made from 4 back to 1, each step of which notes what it replaces
//!  back               │ 5…7        all together, to which slices are added
//! ```
//!
//! When slice 1 leaves, the entries that its step has replaced are put back, and the front is 2…4. A window is the front
//! merged with the back. When the front is used up, the slices of the back become the front. So each slice is merged twice
//! and put back once, and the notes are as large as the slices, whatever the number of slices of a window.

use super::together::{Replaced, Together};
use crate::merge::Merged;
use crate::partial::Partial;
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// The stacks. Strings of their entries are those of the slices' partials.
#[derive(Debug)]
pub(super) struct Stacks {
    layout: Arc<EntryLayout>,
    partitions: Range<usize>,
    front: Option<Together>,
    /// What the steps of the front have replaced, the oldest slice's last.
    steps: Vec<Replaced>,
    back: Option<Together>,
}

impl Stacks {
    /// Without slices.
    pub(super) fn new(layout: Arc<EntryLayout>, partitions: Range<usize>) -> Stacks {
        Stacks { layout, partitions, front: None, steps: Vec::new(), back: None }
    }

    fn together(&self) -> Together {
        Together::new(&self.layout, self.partitions.clone())
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let both: usize = self.front.iter().chain(&self.back).map(Together::bytes).sum();
        both + self.steps.iter().map(Replaced::bytes).sum::<usize>()
    }

    /// Number of slices in the front.
    pub(super) fn front(&self) -> usize {
        self.steps.len()
    }

    /// Adds a partial of a slice behind the front.
    pub(super) fn push(&mut self, partial: &Partial) {
        let back = self.back.take();
        let back = self.back.insert(back.unwrap_or_else(|| Together::new(&self.layout, self.partitions.clone())));
        back.cover([partial].into_iter());
        // SAFETY: the strings live as long as the slice is in a stack.
        unsafe { back.merge(partial) };
    }

    /// Takes out the first `count` slices; `remaining` are the partials of those that are left, in order.
    pub(super) fn evict<'a>(
        &mut self,
        count: usize,
        remaining: impl DoubleEndedIterator<Item = &'a [Arc<Partial>]> + Clone,
    ) {
        if count <= self.steps.len() {
            let leaving = self.steps.split_off(self.steps.len() - count);
            if let Some(front) = &mut self.front {
                // SAFETY: slices leave in the order of their starts, and the caller still has those that do.
                leaving.into_iter().rev().for_each(|step| unsafe { front.put_back(step) });
                front.shrink();
            }
            return;
        }
        self.back = None;
        self.steps.clear();
        let mut front = self.together();
        // Nothing moves while there are notes.
        front.cover(remaining.clone().flatten().map(|partial| &**partial));
        for partials in remaining.rev() {
            // SAFETY: partials of the layout; their strings live as long as the slice is in a stack.
            self.steps.push(unsafe { front.merge_noting(partials) });
        }
        self.front = Some(front);
    }

    /// The window of both stacks and some more partials.
    ///
    /// # Safety
    /// While the result is used, the stacks are not changed, and the partials and those of all slices stay alive.
    pub(super) unsafe fn merged(&self, more: &[&Arc<Partial>]) -> Merged {
        let front = self.front.as_ref().filter(|_| !self.steps.is_empty());
        let first = front.or(self.back.as_ref());
        let second = self.back.as_ref().filter(|_| front.is_some());
        match (first, second) {
            // SAFETY: promised by the caller.
            (Some(only), None) if more.is_empty() => unsafe { only.rows() },
            _ => {
                let both = || first.into_iter().chain(second);
                let mut window = self.together();
                window.cover_all(both().filter_map(Together::range), more.iter().map(|partial| &***partial));
                // SAFETY: entries of the layout whose strings stay alive, as promised by the caller.
                unsafe {
                    both().for_each(|other| window.merge_together(other));
                    more.iter().for_each(|partial| window.merge(partial));
                    window.into_rows()
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use millstream_abi::{Accumulator, HASH_SEED, Phys, Slot, hash_finish, hash_word};

    #[test]
    fn the_memory_of_a_long_front_is_that_of_its_slices() {
        let layout = Arc::new(EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::MaxI64]));
        // Each slice has its own key and one that all have.
        let partial = |own: i64| {
            let mut table = Table::new(Arc::clone(&layout));
            for key in [own, -1] {
                let hash = hash_finish(hash_word(HASH_SEED, key as u64));
                // SAFETY: the keys are distinct.
                unsafe { table.insert(hash, 0, &[Slot::of(key.to_le_bytes())]) };
            }
            vec![Arc::new(table.seal())]
        };
        let slices: Vec<Vec<Arc<Partial>>> = (0..1000).map(partial).collect();
        let mut stacks = Stacks::new(Arc::clone(&layout), layout.partitions());
        slices.iter().flatten().for_each(|partial| stacks.push(partial));
        for gone in 1..1000 {
            stacks.evict(1, slices[gone..].iter().map(Vec::as_slice));
            let front = stacks.front.as_ref().map_or(0, Together::len);
            assert_eq!((stacks.steps.len(), front), (1000 - gone, 1000 - gone + 1));
            let slices = 2 * 1000 * layout.stride;
            assert!(stacks.bytes() <= slices + 4096 * layout.stride, "{} bytes", stacks.bytes());
        }
    }
}
