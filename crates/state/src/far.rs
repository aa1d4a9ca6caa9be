//! What is far of the sums of doubles (`millstream_abi::exact`): kept beside a table by the same keys, in a table of its own whose
//! entries have an object for each sum. Few jobs have any of it, so it may take longer, but neither the table nor what it
//! becomes needs to know how large a sum can be.
//!
//! ```text
//! Table   keys → near sums   + Far   keys → long sums      update
//! Partial entries, array     + Partials of the same keys   seal, merge, blocks: by the same order
//! Merged  rows               + FarRows, found by key       column = nearest double of both together
//! ```

use crate::entry::{self, compare_keys};
use crate::merge::{Merged, merge};
use crate::object::{Change, Exact, Object, object_at};
use crate::partial::Partial;
use crate::sort::order;
use crate::table::Table;
use millstream_abi::exact::{Fixed, nearest};
use millstream_abi::{EntryLayout, Slot};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// That of a table.
#[derive(Debug, Default)]
pub(crate) struct Far(Option<Box<Table>>);

impl Far {
    /// Adds a value to a sum, component `component` of an entry of the layout, or takes back the one whose negative it is.
    ///
    /// # Safety
    /// `of` has hash and keys of an entry of the layout, whose strings are alive; the slot holds a double.
    pub(crate) unsafe fn add(
        &mut self,
        layout: &EntryLayout,
        of: *const u8,
        component: usize,
        value: Slot,
        change: Change,
    ) {
        let table = self.0.get_or_insert_with(|| Box::new(Table::new(Arc::new(layout.far()))));
        let number = layout.far_number(component);
        let offset = table.layout().accumulators[number].1;
        // SAFETY: entries of both layouts begin with the same keys.
        unsafe {
            let found = table.find(of);
            let entry = found.unwrap_or_else(|| table.insert_keys_of(of));
            table.update_object(entry.add(offset), number, Some(value), change);
        }
    }

    /// Takes it out as a partial, if there is any.
    pub(crate) fn drain(&mut self) -> Option<Arc<Partial>> {
        self.0.take().map(|table| Arc::new(table.seal()))
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |table| table.bytes())
    }

    /// Sums with their keys' entries.
    pub(crate) fn sums(&self) -> impl Iterator<Item = (*const u8, usize, &Exact)> {
        self.0.iter().flat_map(|table| sums_of(table.layout(), table.occupied()))
    }
}

/// Sums of entries of a far layout, each with its entry and number.
fn sums_of<'a>(
    layout: &'a EntryLayout,
    entries: impl Iterator<Item = *const u8> + 'a,
) -> impl Iterator<Item = (*const u8, usize, &'a Exact)> {
    entries.flat_map(move |entry| {
        let objects = layout.accumulators.iter().enumerate();
        objects.filter_map(move |(number, &(_, offset))| {
            // SAFETY: an entry of the layout, which has an object there.
            match unsafe { object_at(entry, offset) } {
                Some(Object::Exact(sum)) => Some((entry, number, &**sum)),
                _ => None,
            }
        })
    })
}

/// What belongs to the rows of a merge.
#[derive(Debug)]
pub(crate) struct FarRows {
    merged: Merged,
    /// Entries by the word that they are sorted by.
    by_word: HashMap<u64, Vec<*const u8>>,
}

/// A row whose sum is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row {
    Entry(*const u8),
    /// Of an array.
    Key(i64),
}

impl FarRows {
    /// What is far of partials, in some partitions; `None` when nothing is.
    pub(crate) fn of<'a>(
        partials: impl Iterator<Item = &'a Arc<Partial>>,
        partitions: &Range<usize>,
    ) -> Option<Box<FarRows>> {
        let far = partials.flat_map(|partial| partial.far()).filter(|far| far.len_of(partitions) > 0);
        let far: Vec<Arc<Partial>> = far.cloned().collect();
        if far.is_empty() {
            return None;
        }
        let merged = merge(&far, partitions.clone());
        let mut by_word = HashMap::<u64, Vec<*const u8>>::new();
        for &entry in merged.entries() {
            // SAFETY: an entry of the layout.
            by_word.entry(unsafe { order(merged.layout(), entry) }.1).or_default().push(entry);
        }
        Some(Box::new(FarRows { merged, by_word }))
    }

    /// The far part of sum `number` of a row.
    ///
    /// # Safety
    /// An entry is one of a layout whose far layout this has the rows of, and its strings are alive.
    pub(crate) unsafe fn find(&self, row: Row, number: usize) -> Option<&Exact> {
        let layout = self.merged.layout();
        let word = match row {
            // SAFETY: entries of both layouts begin with the same keys.
            Row::Entry(entry) => unsafe { order(layout, entry) }.1,
            Row::Key(key) => key as u64 ^ 1 << 63,
        };
        let is_of = |&&found: &&*const u8| match row {
            // SAFETY: as above.
            Row::Entry(entry) => unsafe { compare_keys(layout, found, entry) }.is_eq(),
            // SAFETY: as above. NULL is no key of an array.
            Row::Key(_) => unsafe { entry::null_mask(layout, found) == 0 },
        };
        let entry = *self.by_word.get(&word)?.iter().find(is_of)?;
        // SAFETY: an entry of the layout, which lives as long as the merge.
        match unsafe { object_at(entry, layout.accumulators[number].1) } {
            Some(Object::Exact(sum)) => Some(sum),
            _ => None,
        }
    }
}

// SAFETY: entries are those of the merge, which is sent and shared as a whole.
unsafe impl Send for FarRows {}
// SAFETY: as above; all methods only read.
unsafe impl Sync for FarRows {}

/// The double nearest to a sum, of which some may be far.
pub(crate) fn nearest_of_both(near: Fixed, far: Option<&Exact>) -> f64 {
    match far {
        None => nearest(near),
        Some(far) => {
            let mut sum = far.clone();
            sum.push_fixed(near);
            sum.nearest()
        }
    }
}
