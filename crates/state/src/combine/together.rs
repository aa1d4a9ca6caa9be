//! What partials of one layout hold together in some partitions, to which others can be added: a grid for the keys of arrays, and a
//! table for all others. What an addition replaces can be noted and put back.

use crate::array::{Grid, common_range, is_worth};
use crate::dense::key_of_entry;
use crate::entry::{read, write};
use crate::memory::EntryMemory;
use crate::merge::Merged;
use crate::object;
use crate::partial::Partial;
use crate::sort::sorted_entries;
use crate::table::Table;
use millstream_abi::{EntryLayout, KeyRange};
use std::ops::Range;
use std::sync::Arc;

/// See the module. Strings are those of the partials.
#[derive(Debug)]
pub(super) struct Together {
    layout: Arc<EntryLayout>,
    partitions: Range<usize>,
    grid: Option<Grid>,
    /// Of keys that the grid is not for.
    table: Table,
}

/// What one slice has replaced.
#[derive(Debug)]
pub(super) struct Replaced {
    layout: Arc<EntryLayout>,
    /// Of each partial of the slice, in order, the entries of the grid that its array was added to.
    arrays: Vec<(Arc<Partial>, EntryMemory)>,
    /// For each entry of the slice, in order, the entry of its key before it, which owns its objects; where there was none
    /// the slice's own, whose objects are the slice's.
    entries: EntryMemory,
    notes: Vec<Note>,
}

/// Where the entry of a key was.
#[derive(Debug, Clone, Copy)]
enum Note {
    /// It was not.
    Nowhere,
    Table,
    /// In the grid, with this mark.
    Grid(u64),
}

impl Together {
    /// Of no partials.
    pub(super) fn new(layout: &Arc<EntryLayout>, partitions: Range<usize>) -> Together {
        Together { layout: Arc::clone(layout), partitions, grid: None, table: Table::new(Arc::clone(layout)) }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.grid.as_ref().map_or(0, Grid::bytes)
    }

    /// The keys of the grid.
    pub(super) fn range(&self) -> Option<KeyRange> {
        self.grid.as_ref().map(Grid::range)
    }

    /// Makes the grid one for the arrays of partials that are to be added, unless they are far from the others.
    pub(super) fn cover<'a>(&mut self, partials: impl Iterator<Item = &'a Partial>) {
        self.cover_all(std::iter::empty(), partials);
    }

    /// The same for some ranges, too.
    pub(super) fn cover_all<'a>(
        &mut self,
        ranges: impl Iterator<Item = KeyRange>,
        partials: impl Iterator<Item = &'a Partial>,
    ) {
        let regions: Vec<_> =
            partials.filter(|p| p.there_of(&self.partitions) > 0).filter_map(Partial::region).collect();
        let ranges: Vec<KeyRange> = ranges.chain(regions.iter().map(|region| region.range())).collect();
        let before = self.range();
        match &mut self.grid {
            None => {
                let (Some(range), Some(shape)) = (common_range(&ranges), crate::array::ArrayShape::of(&self.layout))
                else {
                    return;
                };
                self.grid = Some(Grid::fresh(&shape, self.partitions.clone(), range));
            }
            Some(grid) => {
                for range in ranges {
                    let own = grid.range();
                    if is_worth(own.union(range), own.len.saturating_add(range.len)) {
                        grid.cover(range);
                    }
                }
            }
        }
        if before != self.range() && !self.table.is_empty() {
            self.settle();
        }
    }

    /// Moves keys of the table that the grid is for.
    fn settle(&mut self) {
        let before = std::mem::replace(&mut self.table, Table::new(Arc::clone(&self.layout)));
        // SAFETY: entries of the layout; there are arrays, so they are numbers.
        before.occupied().for_each(|from| unsafe { self.merge_entry(from) });
    }

    /// The entry of a key in the grid, if that is for it.
    fn in_grid(&self, entry: *const u8) -> Option<(&Grid, *mut u8)> {
        let grid = self.grid.as_ref()?;
        // SAFETY: the callers have entries of the layout.
        let key = unsafe { key_of_entry(&self.layout, entry) }?;
        grid.entry_of(key).map(|place| (grid, place))
    }

    /// Adds an entry.
    ///
    /// # Safety
    /// It is one of the layout, whose strings live as long as they are read.
    unsafe fn merge_entry(&mut self, from: *const u8) {
        // SAFETY: promised by the caller; the grid is ours.
        unsafe {
            match self.in_grid(from) {
                Some((grid, place)) => grid.shape().merge_entry(place, from, |_| 1),
                None => self.table.merge_entry(from),
            }
        }
    }

    /// Adds a partial.
    ///
    /// # Safety
    /// It is one of the layout, whose strings live as long as they are read.
    pub(super) unsafe fn merge(&mut self, partial: &Partial) {
        if let Some((grid, region)) = self.grid.as_mut().zip(partial.region()) {
            grid.merge(region);
        }
        for from in partial.entries_beside(self.range(), &self.partitions.clone()) {
            // SAFETY: promised by the caller.
            unsafe { self.merge_entry(from) };
        }
    }

    /// Adds what others come to, whose grid this one has all keys of, or none.
    ///
    /// # Safety
    /// As for [`Together::merge`].
    pub(super) unsafe fn merge_together(&mut self, other: &Together) {
        // SAFETY: promised by the caller.
        unsafe { self.merge_parts(other.grid.as_ref(), &other.table) };
    }

    /// The same of a grid and the entries of a table, which begin with those of the layout.
    ///
    /// # Safety
    /// As for [`Together::merge`].
    pub(super) unsafe fn merge_parts(&mut self, grid: Option<&Grid>, table: &Table) {
        if let Some(of_other) = grid {
            let shape = of_other.shape();
            match &mut self.grid {
                Some(grid) if grid.range().contains(of_other.range()) => grid.merge_grid(of_other),
                _ => {
                    // Far from the others.
                    for (entry, key) in of_other.there() {
                        let mut with_key = vec![0u128; self.layout.stride.div_ceil(16)];
                        let place = with_key.as_mut_ptr().cast::<u8>();
                        // SAFETY: an entry of the grid, and a place of zeros for one of the layout, which are numbers.
                        unsafe {
                            shape.write_entry(entry, key, place);
                            self.merge_entry(place);
                        }
                    }
                }
            }
        }
        // SAFETY: promised by the caller.
        table.occupied().for_each(|from| unsafe { self.merge_entry(from) });
    }

    /// Adds the partials of a slice, and notes what that replaces.
    ///
    /// # Safety
    /// As for [`Together::merge`].
    pub(super) unsafe fn merge_noting(&mut self, partials: &[Arc<Partial>]) -> Replaced {
        let layout = Arc::clone(&self.layout);
        let mut arrays = Vec::new();
        for partial in partials {
            let Some((grid, region)) = self.grid.as_mut().zip(partial.region()) else { continue };
            let (shape, mut count) = (Arc::clone(grid.shape()), 0);
            grid.with_common(region, |_, _, entries| count += entries);
            let (saved, mut done) = (EntryMemory::unwritten(shape.array.bytes(count)), 0);
            grid.with_common(region, |of_grid, _, entries| {
                // SAFETY: the memory has room for all that they have in common.
                unsafe { shape.copy(saved.start().add(done * shape.array.stride), of_grid, entries) };
                done += entries;
            });
            grid.merge(region);
            arrays.push((Arc::clone(partial), saved));
        }
        let partitions = self.partitions.clone();
        let from: Vec<*const u8> =
            partials.iter().flat_map(|partial| partial.entries_beside(self.range(), &partitions)).collect();
        let count = from.len();
        let mut replaced = Replaced {
            arrays,
            entries: EntryMemory::zeroed(count * layout.stride),
            notes: Vec::with_capacity(count),
            layout: Arc::clone(&layout),
        };
        for from in from {
            let place = replaced.place(replaced.notes.len());
            // SAFETY: entries of the layout; there is a place for each. The copy of an entry counts its objects.
            unsafe {
                if let Some((grid, of_grid)) = self.in_grid(from) {
                    let shape = grid.shape();
                    place.copy_from_nonoverlapping(from, layout.stride);
                    shape.copy_fields(place, of_grid);
                    replaced.notes.push(Note::Grid(read(of_grid, shape.array.mark)));
                    shape.merge_entry(of_grid, from, |_| 1);
                    continue;
                }
                let before = self.table.find(from);
                place.copy_from_nonoverlapping(before.map_or(from, |b| b.cast_const()), layout.stride);
                if before.is_some() {
                    object::retain(&layout, place);
                }
                replaced.notes.push(if before.is_some() { Note::Table } else { Note::Nowhere });
                self.table.merge_entry(from);
            }
        }
        replaced
    }

    /// Takes a slice out, of those that are left the last that was added.
    ///
    /// # Safety
    /// All is as the addition has left it, but for later slices that have been put back; the strings of the slices that are left,
    /// and of this one, are alive.
    pub(super) unsafe fn put_back(&mut self, mut replaced: Replaced) {
        let layout = Arc::clone(&self.layout);
        while let Some(note) = replaced.notes.pop() {
            let place = replaced.place(replaced.notes.len());
            // SAFETY: the key is there since the addition; what is put back brings its objects along.
            unsafe {
                if let Note::Grid(mark) = note {
                    let Some((grid, of_grid)) = self.in_grid(place) else {
                        unreachable!("what has been merged is there")
                    };
                    grid.shape().copy_fields(of_grid, place);
                    write(of_grid, grid.shape().array.mark, mark);
                    continue;
                }
                let Some(found) = self.table.find(place) else { unreachable!("what has been merged is there") };
                object::release(&layout, found);
                match note {
                    Note::Nowhere => self.table.remove(found),
                    _ => found.copy_from_nonoverlapping(place, layout.stride),
                }
            }
        }
        for (partial, saved) in std::mem::take(&mut replaced.arrays).into_iter().rev() {
            let Some((grid, region)) = self.grid.as_ref().zip(partial.region()) else { continue };
            let (shape, mut done) = (grid.shape(), 0);
            grid.with_common(region, |of_grid, _, entries| {
                // SAFETY: as many entries as were saved, in the same order.
                unsafe { shape.copy(of_grid, saved.start().add(done * shape.array.stride), entries) };
                done += entries;
            });
        }
    }

    /// Gives back memory of keys that have gone. The grid stays as it is, because notes are about its blocks.
    pub(super) fn shrink(&mut self) {
        self.table.shrink();
    }

    /// Number of keys.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len() + self.grid.as_ref().map_or(0, |grid| grid.there().count())
    }

    /// The rows.
    ///
    /// # Safety
    /// While the result is used, this is not changed, and the strings stay alive.
    pub(super) unsafe fn rows(&self) -> Merged {
        // SAFETY: promised by the caller.
        unsafe {
            match &self.grid {
                Some(grid) => {
                    let entries = sorted_entries(&self.layout, self.table.occupied());
                    Merged::of_array(Arc::clone(&self.layout), &entries, grid, self.partitions.clone())
                }
                None => Merged::borrowing(&self.table),
            }
        }
    }

    /// The same, owned by the rows but for the strings.
    ///
    /// # Safety
    /// As for [`Together::rows`].
    pub(super) unsafe fn into_rows(self) -> Merged {
        // SAFETY: promised by the caller.
        unsafe {
            match self.grid {
                Some(grid) => Merged::owning_both(self.table, grid, self.partitions),
                None => Merged::owning(self.table),
            }
        }
    }
}

impl Replaced {
    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.entries.bytes() + self.arrays.iter().map(|(_, saved)| saved.bytes()).sum::<usize>()
    }

    fn place(&self, index: usize) -> *mut u8 {
        // SAFETY: the memory has a place for every entry of the slice.
        unsafe { self.entries.start().add(index * self.layout.stride) }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        let copies = (0..self.notes.len()).filter(|&i| matches!(self.notes[i], Note::Table)).map(|i| self.place(i));
        // SAFETY: copies that own their objects.
        unsafe { object::release_all(&self.layout, copies) };
    }
}
