//! Merge of partials into the rows of a window.
//!
//! Rows come sorted, so entries are sorted first; equal keys are neighbours then. A key that has one entry needs no copy of
//! it: the row is the partial's. Arrays of one shape are in order, so that they are merged without that (`array/merge.rs`).

mod blocks;

use crate::accumulator;
use crate::array::{ArrayRun, merge_arrays};
use crate::encoding::EntryFields;
use crate::entry;
use crate::memory::{EntryMemory, OwnedEntries};
use crate::partial::Partial;
use crate::sort::{sorted, sorted_entries};
use crate::table::Table;
pub use blocks::{BlockMerge, MergeFault};
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// Merged entries of some partitions, one for each key, in an order that depends on the keys alone.
#[derive(Debug)]
pub struct Merged {
    layout: Arc<EntryLayout>,
    /// Entries that an owner or someone else has; sorted (`sort.rs`).
    rows: Rows,
    _owner: Owner,
    /// Own the other entries, and the strings.
    _partials: Vec<Arc<Partial>>,
}

/// Addresses of entries.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) entries: Vec<*const u8>,
    /// The key of each, when the entries are those of arrays, which have none.
    pub(crate) keys: Option<Vec<i64>>,
}

impl From<Vec<*const u8>> for Rows {
    fn from(entries: Vec<*const u8>) -> Rows {
        Rows { entries, keys: None }
    }
}

/// Who has the entries that are in no partial.
#[expect(dead_code, reason = "what is owned is not looked at")]
#[derive(Debug)]
enum Owner {
    Nobody,
    /// Their strings are in the partials.
    Copies(OwnedEntries),
    Table(Table),
    Array(EntryMemory),
}

// SAFETY: `rows` point into memory that the value owns or shares immutably and that nobody writes any more.
unsafe impl Send for Merged {}
// SAFETY: as above; all methods only read.
unsafe impl Sync for Merged {}

impl Merged {
    /// No rows.
    pub(crate) fn empty(layout: Arc<EntryLayout>) -> Merged {
        Merged { layout, rows: Rows::default(), _owner: Owner::Nobody, _partials: Vec::new() }
    }

    /// Rows that others own, in their order.
    ///
    /// # Safety
    /// They are entries of the layout (or of one that begins with it), sorted (`sort.rs`); neither they nor their
    /// strings are changed or dropped while the value is used.
    pub(crate) unsafe fn of_rows(layout: Arc<EntryLayout>, rows: Vec<*const u8>) -> Merged {
        Merged { layout, rows: rows.into(), _owner: Owner::Nobody, _partials: Vec::new() }
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

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.rows.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.rows.entries.is_empty()
    }

    /// The first rows of a range whose strings and objects have about `bytes` bytes, one at least: as a range. Where
    /// entries have none, all of it.
    pub fn within(&self, rows: Range<usize>, bytes: usize) -> Range<usize> {
        let fields = EntryFields::new(&self.layout);
        if fields.are_numbers() {
            return rows;
        }
        // SAFETY: entries of the layout, alive as long as `self`.
        let count = unsafe { fields.fitting(self.rows.entries[rows.clone()].iter().copied(), bytes) };
        rows.start..rows.end.min(rows.start + count)
    }

    pub(crate) fn layout(&self) -> &EntryLayout {
        &self.layout
    }

    /// Entries, alive as long as `self`.
    pub(crate) fn rows(&self) -> &[*const u8] {
        &self.rows.entries
    }

    /// The key of each row, if its entry does not have it.
    pub(crate) fn keys(&self) -> Option<&[i64]> {
        self.rows.keys.as_deref()
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
    let (rows, owner) = match (arrays_of_one_shape(&sharing), sharing.as_slice()) {
        (_, []) => (Rows::default(), Owner::Nobody),
        (Some(arrays), _) => {
            let there = sharing.iter().map(|partial| partial.len_of(&partitions)).sum();
            let (rows, memory) = merge_arrays(&arrays, &partitions, there);
            (rows, memory.map_or(Owner::Nobody, Owner::Array))
        }
        (None, [only]) if only.is_distinct() => {
            (only.entries_of(&partitions).collect::<Vec<_>>().into(), Owner::Nobody)
        }
        (None, several) => {
            let entries = several.iter().flat_map(|partial| partial.entries_of(&partitions));
            // SAFETY: occupied entries of the layout, whose strings live in the partials.
            let (rows, copies) = unsafe { merge_entries(&layout, entries) };
            (rows.into(), Owner::Copies(copies))
        }
    };
    Merged { layout, rows, _owner: owner, _partials: sharing }
}

/// The arrays, if all partials are such, of one shape.
pub(crate) fn arrays_of_one_shape(partials: &[Arc<Partial>]) -> Option<Vec<&ArrayRun>> {
    let arrays: Vec<&ArrayRun> = partials.iter().map(|partial| partial.array()).collect::<Option<_>>()?;
    arrays.windows(2).all(|pair| pair[0].has_shape_of(pair[1])).then_some(arrays)
}

/// Sorted entries, one for each key; copies of those that there are several of.
///
/// # Safety
/// They are occupied entries of the layout whose strings are alive, also as long as the result is used.
pub(crate) unsafe fn merge_entries(
    layout: &Arc<EntryLayout>,
    entries: impl Iterator<Item = *const u8>,
) -> (Vec<*const u8>, OwnedEntries) {
    // SAFETY: promised by the caller.
    let entries = unsafe { sorted(layout, entries) };
    // Each copy takes the place of two entries at least.
    let memory = EntryMemory::unwritten(entries.len() / 2 * layout.stride);
    // SAFETY: there are none yet.
    let mut copies = unsafe { OwnedEntries::new(layout, memory, 0) };
    let rows = entries.chunk_by(|a, b| {
        // SAFETY: entries of the layout; their strings are alive.
        a.word == b.word && unsafe { entry::compare_keys(layout, a.entry, b.entry) }.is_eq()
    });
    let rows = rows.map(|equal| match equal {
        [only] => only.entry,
        // SAFETY: as above; a copy is ours to write.
        [first, others @ ..] => unsafe {
            let merged = copies.push(first.entry);
            others.iter().for_each(|other| accumulator::merge_all(layout, merged, other.entry));
            merged.cast_const()
        },
        [] => unreachable!("chunks are not empty"),
    });
    (rows.collect(), copies)
}
