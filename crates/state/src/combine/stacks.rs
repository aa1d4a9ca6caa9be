//! Two stacks of slices, for accumulators without inverse: merged from their ends, so that no merge is ever undone by
//! computing.
//!
//! ```text
//!  slice   1  2  3  4 │ 5  6  7
//!  front   1…4        │            one table of all, made from 4 back to 1, each step of which notes what it replaces
//!  back               │ 5…7        one table, to which slices are added
//! ```
//!
//! When slice 1 leaves, the entries that its step has replaced are put back, and the front is 2…4. A window is the front
//! merged with the back. When the front is used up, the slices of the back become the front. So each slice is merged twice
//! and put back once, and the notes are as large as the slices, whatever the number of slices of a window.

use crate::memory::EntryMemory;
use crate::merge::Merged;
use crate::object;
use crate::partial::Partial;
use crate::table::{Table, TableHint};
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// The stacks. Strings of their entries are those of the slices' partials.
#[derive(Debug)]
pub(super) struct Stacks {
    layout: Arc<EntryLayout>,
    front: Option<Table>,
    /// What the steps of the front have replaced, the oldest slice's last.
    steps: Vec<Replaced>,
    back: Option<Table>,
}

/// What one slice has replaced in the front.
#[derive(Debug)]
struct Replaced {
    layout: Arc<EntryLayout>,
    /// For each entry of the slice, in order, the entry of its key before it, which owns its objects; where there was none
    /// the slice's own, whose objects are the slice's.
    entries: EntryMemory,
    /// Whether there was one before.
    existed: Vec<bool>,
}

impl Replaced {
    /// Merges a slice into the front.
    ///
    /// # Safety
    /// Partials of the layout, whose strings live as long as the slice is in a stack.
    unsafe fn merge(front: &mut Table, partials: &[Arc<Partial>], partitions: &Range<usize>) -> Replaced {
        let layout = Arc::clone(front.layout());
        let count = partials.iter().map(|p| p.len_of(partitions)).sum::<usize>();
        let mut replaced = Replaced {
            entries: EntryMemory::zeroed(count * layout.stride),
            existed: Vec::with_capacity(count),
            layout: Arc::clone(&layout),
        };
        for from in partials.iter().flat_map(|partial| partial.entries_of(partitions)) {
            let place = replaced.place(replaced.existed.len());
            // SAFETY: entries of the layout; there is a place for each. The copy of an entry counts its objects.
            unsafe {
                let before = front.find(from);
                place.copy_from_nonoverlapping(before.map_or(from, |b| b.cast_const()), layout.stride);
                if before.is_some() {
                    object::retain(&layout, place);
                }
                replaced.existed.push(before.is_some());
                front.merge_entry(from);
            }
        }
        replaced
    }

    /// Takes the slice out of the front, of which it is the oldest.
    ///
    /// # Safety
    /// The front is as the merge has left it, but for older slices that have been put back; the strings of the slices
    /// that are left, and of this one, are alive.
    unsafe fn put_back(mut self, front: &mut Table) {
        while let Some(existed) = self.existed.pop() {
            let place = self.place(self.existed.len());
            // SAFETY: the key is in the front since the merge; what is put back brings its objects along.
            unsafe {
                let Some(found) = front.find(place) else { unreachable!("what has been merged is there") };
                object::release(&self.layout, found);
                match existed {
                    true => found.copy_from_nonoverlapping(place, self.layout.stride),
                    false => front.remove(found),
                }
            }
        }
    }

    fn place(&self, index: usize) -> *mut u8 {
        // SAFETY: the memory has a place for every entry of the slice.
        unsafe { self.entries.start().add(index * self.layout.stride) }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let copies = (0..self.existed.len()).filter(|&i| self.existed[i]).map(|i| self.place(i));
        // SAFETY: copies that own their objects.
        unsafe { object::release_all(&self.layout, copies) };
    }
}

impl Stacks {
    /// Without slices.
    pub(super) fn new(layout: Arc<EntryLayout>) -> Stacks {
        Stacks { layout, front: None, steps: Vec::new(), back: None }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let tables: usize = self.front.iter().chain(&self.back).map(Table::bytes).sum();
        tables + self.steps.iter().map(|step| step.entries.bytes()).sum::<usize>()
    }

    /// Number of slices in the front.
    pub(super) fn front(&self) -> usize {
        self.steps.len()
    }

    /// Adds a partial of a slice behind the front.
    pub(super) fn push(&mut self, partial: &Partial, partitions: &Range<usize>) {
        let back = self.back.get_or_insert_with(|| table(&self.layout, TableHint::default()));
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
        if count <= self.steps.len() {
            let leaving = self.steps.split_off(self.steps.len() - count);
            if let Some(front) = &mut self.front {
                // SAFETY: slices leave in the order of their starts, and the caller still has those that do.
                leaving.into_iter().rev().for_each(|step| unsafe { step.put_back(front) });
                front.shrink();
            }
            return;
        }
        let hint = self.back.take().map_or_else(TableHint::default, |back| back.hint());
        self.steps.clear();
        let mut front = table(&self.layout, hint);
        for partials in remaining.rev() {
            // SAFETY: partials of the layout; their strings live as long as the slice is in a stack.
            self.steps.push(unsafe { Replaced::merge(&mut front, partials, partitions) });
        }
        self.front = Some(front);
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
        let front = self.front.as_ref().filter(|_| !self.steps.is_empty());
        let first = front.or(self.back.as_ref());
        let second = self.back.as_ref().filter(|_| front.is_some());
        match (first, second) {
            (Some(only), None) if more.peek().is_none() => {
                // SAFETY: promised by the caller.
                unsafe { Merged::borrowing(only) }
            }
            _ => {
                let tables = || first.into_iter().chain(second);
                let largest = tables().max_by_key(|table| table.len());
                let mut table = table(&self.layout, largest.map_or_else(TableHint::default, Table::hint));
                let partials = more.flat_map(|partial| partial.entries_of(partitions));
                // SAFETY: entries of the layout whose strings stay alive, as promised by the caller.
                tables().flat_map(Table::occupied).chain(partials).for_each(|from| unsafe { table.merge_entry(from) });
                // SAFETY: promised by the caller.
                unsafe { Merged::owning(table) }
            }
        }
    }
}

/// An empty table for keys as in `hint`.
fn table(layout: &Arc<EntryLayout>, hint: TableHint) -> Table {
    Table::with_hint(Arc::clone(layout), true, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let all = 0..crate::PARTITIONS;
        let slices: Vec<Vec<Arc<Partial>>> = (0..1000).map(partial).collect();
        let mut stacks = Stacks::new(Arc::clone(&layout));
        slices.iter().flatten().for_each(|partial| stacks.push(partial, &all));
        for gone in 1..1000 {
            stacks.evict(1, slices[gone..].iter().map(Vec::as_slice), &all);
            let front = stacks.front.as_ref().map_or(0, Table::len);
            assert_eq!((stacks.steps.len(), front), (1000 - gone, 1000 - gone + 1));
            let slices = 2 * 1000 * layout.stride;
            assert!(stacks.bytes() <= slices + 4096 * layout.stride, "{} bytes", stacks.bytes());
        }
    }
}
