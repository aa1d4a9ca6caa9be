//! Merge of partials into the rows of a window.

use crate::entry;
use crate::partial::Partial;
use crate::table::Table;
use millstream_abi::EntryLayout;
use std::ops::Range;
use std::sync::Arc;

/// Merged entries of some partitions, one for each key, in an order that depends on the keys alone.
#[derive(Debug)]
pub struct Merged {
    layout: Arc<EntryLayout>,
    /// Entries in `table`, or in `partials[0]` when there was nothing to merge; sorted by hash, then keys.
    rows: Vec<*const u8>,
    /// Owns merged entries; their strings are in the partials.
    _table: Option<Table>,
    /// Own the strings.
    _partials: Vec<Arc<Partial>>,
}

// SAFETY: `rows` point into memory that the value owns or shares immutably and that nobody writes any more.
unsafe impl Send for Merged {}
// SAFETY: as above; all methods only read.
unsafe impl Sync for Merged {}

impl Merged {
    /// No rows.
    pub(crate) fn empty(layout: Arc<EntryLayout>) -> Merged {
        Merged { layout, rows: Vec::new(), _table: None, _partials: Vec::new() }
    }

    /// Rows that others own, in their order.
    ///
    /// # Safety
    /// They are entries of the layout (or of one that begins with it), sorted by hash and keys; neither they nor their
    /// strings are changed or dropped while the value is used.
    pub(crate) unsafe fn of_rows(layout: Arc<EntryLayout>, rows: Vec<*const u8>) -> Merged {
        Merged { layout, rows, _table: None, _partials: Vec::new() }
    }

    /// The entries of a table that others own.
    ///
    /// # Safety
    /// Neither the table nor the owners of its strings are changed or dropped while the value is used.
    pub(crate) unsafe fn borrowing(table: &Table) -> Merged {
        let layout = Arc::clone(table.layout());
        // SAFETY: promised by the caller.
        unsafe {
            let rows = entry::sort(&layout, table.occupied());
            Merged::of_rows(layout, rows)
        }
    }

    /// The entries of a table.
    ///
    /// # Safety
    /// The owners of the table's strings are neither changed nor dropped while the value is used.
    pub(crate) unsafe fn owning(table: Table) -> Merged {
        let layout = Arc::clone(table.layout());
        // SAFETY: promised by the caller.
        let rows = unsafe { entry::sort(&layout, table.occupied()) };
        Merged { layout, rows, _table: Some(table), _partials: Vec::new() }
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn layout(&self) -> &EntryLayout {
        &self.layout
    }

    /// Entries, alive as long as `self`.
    pub(crate) fn rows(&self) -> &[*const u8] {
        &self.rows
    }
}

/// Merges a range of partitions of partials of one layout. Tasks over disjoint ranges can run at once; the rows of
/// adjacent ranges, put one after the other, are those of the whole range.
///
/// Rows come sorted by hash and keys, so that output is the same whichever worker saw which row. O(n log n) of the
/// entries of a partition range.
///
/// # Panics
/// Without partials.
pub fn merge(partials: &[Arc<Partial>], partitions: Range<usize>) -> Merged {
    let layout = Arc::clone(partials.first().expect("at least one partial").layout());
    let sharing: Vec<Arc<Partial>> = partials.iter().filter(|p| p.len_of(&partitions) > 0).cloned().collect();
    let (table, entries): (_, Vec<*const u8>) = match sharing.as_slice() {
        [] => (None, Vec::new()),
        [only] if only.is_distinct() => (None, only.entries_of(&partitions).collect()),
        several => {
            let largest = several.iter().map(|p| p.len_of(&partitions)).max().unwrap_or(0);
            let mut table = Table::with_capacity(Arc::clone(&layout), 2 * largest);
            for partial in several {
                debug_assert_eq!(*partial.layout(), layout, "partials of one aggregation");
                for e in partial.entries_of(&partitions) {
                    // SAFETY: entries of the same layout; their strings live as long as the result's partials.
                    unsafe { table.merge_entry(e) };
                }
            }
            let entries = table.occupied().collect();
            (Some(table), entries)
        }
    };
    // SAFETY: occupied entries of the layout, whose strings live in the partials.
    let rows = unsafe { entry::sort(&layout, entries.into_iter()) };
    Merged { layout, rows, _table: table, _partials: sharing }
}
