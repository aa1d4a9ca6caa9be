//! Merge of partials into the rows of a window.
//!
//! Rows come sorted, so entries are sorted first; equal keys are neighbours then. A key that has one entry needs no copy of
//! it: the row is the partial's. Arrays are in order, and added up block by block in a [`Grid`]; entries of their keys, which
//! other partials may have, are added to it, and what is left lies about it.

mod blocks;
mod keys;

use crate::array::{Grid, Region, common_range};
use crate::dense::key_of_entry;
use crate::encoding::EntryFields;
use crate::far::FarRows;
use crate::owned::OwnedEntries;
use crate::partial::Partial;
use crate::rows::{Array, Chunk, Rows};
use crate::sort::{Order, Sorted, sorted_entries};
use crate::table::Table;
pub use blocks::{BlockMerge, MergeFault};
pub(crate) use keys::merge_entries;
use keys::{Keys, merge_runs};
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// More partials are sorted: each one more would be another pass over the entries.
const MOST_RUNS: usize = 4;
/// Entries of a partition for which it is looked up in each partial.
const LEAST: usize = 4;

/// What partials hold together in some partitions, one row for each key, in an order that depends on the keys alone.
#[derive(Debug)]
pub struct Merged {
    layout: Arc<EntryLayout>,
    /// In memory that an owner or someone else has; sorted (`sort.rs`).
    rows: Rows,
    far: Option<Box<FarRows>>,
    _owner: Owner,
    /// Own the other entries, and the strings.
    _partials: Vec<Arc<Partial>>,
}

/// Who has the entries that are in no partial.
#[expect(dead_code, reason = "what is owned is not looked at")]
#[derive(Debug)]
enum Owner {
    Nobody,
    /// Their strings are in the partials.
    Copies(OwnedEntries),
    Table(Table),
    Both(Table, Grid),
    /// With copies of entries that are not in it.
    Grid(Grid, OwnedEntries),
}

// SAFETY: `rows` point into memory that the value owns or shares immutably and that nobody writes any more.
unsafe impl Send for Merged {}
// SAFETY: as above; all methods only read.
unsafe impl Sync for Merged {}

impl Merged {
    /// No rows.
    pub(crate) fn empty(layout: Arc<EntryLayout>) -> Merged {
        Merged { layout, rows: Rows::default(), far: None, _owner: Owner::Nobody, _partials: Vec::new() }
    }

    /// Rows that others own, in their order.
    ///
    /// # Safety
    /// They are entries of the layout (or of one that begins with it), sorted (`sort.rs`); neither they nor their
    /// strings are changed or dropped while the value is used.
    pub(crate) unsafe fn of_rows(layout: Arc<EntryLayout>, rows: Vec<*const u8>) -> Merged {
        Merged { layout, rows: rows.into(), far: None, _owner: Owner::Nobody, _partials: Vec::new() }
    }

    /// Entries that others own, and what is there of an array of some partitions, which others own as well.
    ///
    /// # Safety
    /// As for [`Merged::of_rows`]; no entry has a key of the array but NULL.
    pub(crate) unsafe fn of_array(
        layout: Arc<EntryLayout>,
        entries: &[*const u8],
        array: &impl Array,
        partitions: Range<usize>,
    ) -> Merged {
        // SAFETY: promised by the caller.
        let rows = unsafe { Rows::about(entries, array, &partitions) };
        Merged { layout, rows, far: None, _owner: Owner::Nobody, _partials: Vec::new() }
    }

    /// The entries of a table, and what is there of a grid of some partitions.
    ///
    /// # Safety
    /// No entry has a key of the grid. The entries are numbers.
    pub(crate) unsafe fn owning_both(table: Table, grid: Grid, partitions: Range<usize>) -> Merged {
        let layout = Arc::clone(table.layout());
        // SAFETY: promised by the caller; the entries of both stay where they are.
        let rows = unsafe {
            let entries = sorted_entries(&layout, table.occupied());
            Merged::of_array(layout, &entries, &grid, partitions)
        };
        Merged { _owner: Owner::Both(table, grid), ..rows }
    }

    /// The entries of a table that others own.
    ///
    /// # Safety
    /// Neither the table nor the owners of its strings are changed or dropped while the value is used.
    pub(crate) unsafe fn borrowing(table: &Table) -> Merged {
        let layout = Arc::clone(table.layout());
        // SAFETY: promised by the caller.
        unsafe {
            let rows = sorted_entries(&layout, table.occupied());
            Merged::of_rows(layout, rows)
        }
    }

    /// The entries of a table.
    ///
    /// # Safety
    /// The owners of the table's strings are neither changed nor dropped while the value is used.
    pub(crate) unsafe fn owning(table: Table) -> Merged {
        // SAFETY: promised by the caller; the table's entries stay where they are.
        let rows = unsafe { Merged::borrowing(&table) };
        Merged { _owner: Owner::Table(table), ..rows }
    }

    /// The same with what is far of the sums of partials, which are those that the rows are made of.
    pub(crate) fn with_far<'a>(
        self,
        partials: impl Iterator<Item = &'a Arc<Partial>>,
        partitions: &Range<usize>,
    ) -> Merged {
        match self.layout.has_exact_sums() {
            true => Merged { far: FarRows::of(partials, partitions), ..self },
            false => self,
        }
    }

    /// What is far of the rows' sums.
    pub(crate) fn far(&self) -> Option<&FarRows> {
        self.far.as_deref()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first rows of a range whose strings and objects have about `bytes` bytes, one at least: as a range. Where
    /// entries have none, all of it.
    pub fn within(&self, rows: Range<usize>, bytes: usize) -> Range<usize> {
        let fields = EntryFields::new(&self.layout);
        let entries = self.rows.entries().filter(|_| !fields.are_numbers());
        let Some(entries) = entries else { return rows };
        // SAFETY: entries of the layout, alive as long as `self`.
        let count = unsafe { fields.fitting(entries[rows.clone()].iter().copied(), bytes) };
        rows.start..rows.end.min(rows.start + count)
    }

    pub(crate) fn layout(&self) -> &EntryLayout {
        &self.layout
    }

    /// The rows, where all are entries.
    pub(crate) fn entries(&self) -> &[*const u8] {
        self.rows.entries().expect("there are no arrays")
    }

    /// Rows of a range, alive as long as `self`.
    pub(crate) fn chunks(&self, range: Range<usize>) -> Vec<Chunk<'_>> {
        self.rows.chunks(range)
    }
}

/// Merges a range of partitions of partials of one layout. Tasks over disjoint ranges can run at once; the rows of
/// adjacent ranges, put one after the other, are those of the whole range.
///
/// Rows come sorted (by dense key within each partition, else by hash and keys), so that output is the same whichever
/// worker saw which row. About linear in the number of entries of the partition range.
///
/// # Panics
/// Without partials.
pub fn merge(partials: &[Arc<Partial>], partitions: Range<usize>) -> Merged {
    let layout = Arc::clone(partials.first().expect("at least one partial").layout());
    debug_assert!(partials.iter().all(|p| *p.layout() == layout), "partials of one aggregation");
    let sharing: Vec<Arc<Partial>> = partials.iter().filter(|p| p.len_of(&partitions) > 0).cloned().collect();
    let (rows, owner) = match sharing.as_slice() {
        [] => (Rows::default(), Owner::Nobody),
        [only] if only.is_distinct() => {
            let entries: Vec<*const u8> = only.entries_of(&partitions).collect();
            let rows = match only.region() {
                // SAFETY: the entries of a partial, and its array.
                Some(region) => unsafe { Rows::about(&entries, region, &partitions) },
                None => entries.into(),
            };
            (rows, Owner::Nobody)
        }
        several if several.iter().any(|partial| partial.there_of(&partitions) > 0) => {
            merge_arrays(&layout, several, &partitions)
        }
        several => {
            let (rows, copies) = merge_listed(&layout, several, &partitions);
            (rows.into(), Owner::Copies(copies))
        }
    };
    let merged = Merged { layout, rows, far: None, _owner: owner, _partials: Vec::new() };
    let merged = merged.with_far(sharing.iter(), &partitions);
    Merged { _partials: sharing, ..merged }
}

/// What partials have in a range of partitions outside of arrays: sorted entries, one for each key, and copies of those that there are
/// several of. Partials are sorted, so a few are merged from beginning to end.
fn merge_listed(
    layout: &Arc<EntryLayout>,
    partials: &[Arc<Partial>],
    partitions: &Range<usize>,
) -> (Vec<*const u8>, OwnedEntries) {
    let count = partials.iter().map(|partial| partial.listed_of(partitions)).sum();
    if partials.len() > MOST_RUNS || count < LEAST * partitions.len() {
        let entries = partials.iter().flat_map(|partial| partial.entries_of(partitions));
        // SAFETY: occupied entries of the layout, whose strings live in the partials.
        return unsafe { merge_entries(layout, entries) };
    }
    let (order, mut keys) = (Order::of(layout), Keys::new(layout, count));
    let [mut merged, mut run, mut spare] = [const { Vec::new() }; 3];
    for partition in partitions.clone() {
        merged.clear();
        for partial in partials {
            run.clear();
            let entries = partial.entries_of(&(partition..partition + 1));
            // SAFETY: occupied entries of the layout.
            run.extend(entries.map(|entry| Sorted { word: unsafe { order.word(entry) }, entry }));
            if merged.is_empty() {
                std::mem::swap(&mut merged, &mut run);
            } else if !run.is_empty() {
                merge_runs(&merged, &run, &mut spare);
                std::mem::swap(&mut merged, &mut spare);
            }
        }
        // SAFETY: occupied entries of the layout, whose strings live in the partials.
        unsafe {
            order.sort_equal(&mut merged);
            keys.take(&order, &merged);
        }
    }
    (keys.rows, keys.copies)
}

/// Merges partials of which some have arrays.
fn merge_arrays(layout: &Arc<EntryLayout>, partials: &[Arc<Partial>], partitions: &Range<usize>) -> (Rows, Owner) {
    let there = |partial: &&Arc<Partial>| partial.there_of(partitions) > 0;
    let regions: Vec<&Region> = partials.iter().filter(there).filter_map(|partial| partial.region()).collect();
    let ranges: Vec<_> = regions.iter().map(|region| region.range()).collect();
    let range = common_range(&ranges).expect("some partials have arrays");
    let mut grid = Grid::fresh(regions[0].shape(), partitions.clone(), range);
    grid.take_over(regions[0]);
    regions[1..].iter().for_each(|region| grid.merge(region));
    let entries = partials.iter().flat_map(|partial| partial.entries_beside(Some(grid.range()), partitions));
    let outside = entries.filter(|&entry| {
        // SAFETY: entries of the layout.
        let place = unsafe { key_of_entry(layout, entry) }.and_then(|key| grid.entry_of(key));
        if let Some(place) = place {
            // SAFETY: entries of the layout and of an array of it, which is ours.
            unsafe { grid.shape().merge_entry(place, entry, |_| 1) };
        }
        place.is_none()
    });
    // SAFETY: occupied entries of the layout, which are numbers.
    let (entries, copies) = unsafe { merge_entries(layout, outside) };
    // SAFETY: sorted entries, and a grid of which they have no keys.
    let rows = unsafe { Rows::about(&entries, &grid, partitions) };
    (rows, Owner::Grid(grid, copies))
}
