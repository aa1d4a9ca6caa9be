//! Partials: the sealed, immutable form of tables (design section 1, idea 1).

use crate::arena::Arena;
use crate::budget::Charge;
use crate::entry;
use crate::memory::EntryMemory;
use crate::object;
use crate::sort::sorted;
use millstream_abi::{EntryLayout, HASH_EMPTY};
use std::ops::Range;
use std::sync::Arc;

/// Bits of a hash that choose the partition.
pub const PARTITION_BITS: u32 = 4;
/// Number of partitions: how many workers a merge can occupy, few enough that partials of a handful of keys stay cheap.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;

/// The partition of a hash: its top bits (tables use the low bits, so both spread well).
#[inline]
pub fn partition_of(hash: u64) -> usize {
    (hash >> (u64::BITS - PARTITION_BITS)) as usize
}

/// Immutable entries of one window slice, sorted by partition, hash or dense key (`sort.rs`), so that partitions follow each other and merging goes
/// through several partials from beginning to end; with the strings they point to.
#[derive(Debug)]
pub struct Partial {
    layout: Arc<EntryLayout>,
    entries: EntryMemory,
    /// Partition *p* holds entries `starts[p]..starts[p + 1]`.
    starts: [usize; PARTITIONS + 1],
    /// Owns the long strings; never read through this field.
    arena: Arena,
    /// Bytes of the objects.
    object_bytes: usize,
    is_distinct: bool,
    /// Held as long as the partial is.
    _charge: Option<Charge>,
}

// SAFETY: entries own what they point to; all methods only read, and objects are never changed while a partial has them.
unsafe impl Send for Partial {}
// SAFETY: as above.
unsafe impl Sync for Partial {}

impl Partial {
    /// Moves entries out of a table: their old places are empty then.
    ///
    /// # Safety
    /// All are occupied entries of `layout` that nobody else uses, whose long strings live in `arena`. Their objects belong
    /// to the partial from now on.
    pub(crate) unsafe fn of_moved(
        layout: Arc<EntryLayout>,
        from: impl Iterator<Item = *const u8>,
        arena: Arena,
        object_bytes: usize,
    ) -> Partial {
        // SAFETY: promised by the caller.
        let from = unsafe { sorted(&layout, from) };
        let start = |partition| from.partition_point(|e| partition_of(e.hash) < partition);
        let mut starts = [0; PARTITIONS + 1];
        starts.iter_mut().enumerate().for_each(|(partition, at)| *at = start(partition));
        let entries = EntryMemory::zeroed(from.len() * layout.stride);
        for (i, e) in from.iter().enumerate() {
            // SAFETY: there are as many places as entries; the old place is ours to write.
            unsafe {
                entries.start().add(i * layout.stride).copy_from_nonoverlapping(e.entry, layout.stride);
                entry::write(e.entry.cast_mut(), 0, HASH_EMPTY);
            }
        }
        Partial { layout, entries, starts, arena, object_bytes, is_distinct: true, _charge: None }
    }

    /// The same, of which it is not known that each key has one entry.
    pub(crate) fn repeating(mut self) -> Partial {
        self.is_distinct = false;
        self
    }

    /// Whether each key has one entry, as in the partials of tables of one worker.
    pub fn is_distinct(&self) -> bool {
        self.is_distinct
    }

    /// The same, which holds a charge.
    pub(crate) fn charged(mut self, charge: Option<Charge>) -> Partial {
        self._charge = charge;
        self
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        &self.layout
    }

    /// Number of entries: at least that of the keys.
    pub fn len(&self) -> usize {
        self.starts[PARTITIONS]
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        self.entries.bytes() + self.arena.bytes() + self.object_bytes
    }

    /// Number of entries in a range of partitions.
    pub fn len_of(&self, partitions: &Range<usize>) -> usize {
        self.starts[partitions.end] - self.starts[partitions.start]
    }

    /// Entries of a range of partitions, alive as long as the partial.
    pub(crate) fn entries_of(&self, partitions: &Range<usize>) -> impl Iterator<Item = *const u8> + use<'_> {
        (self.starts[partitions.start]..self.starts[partitions.end])
            // SAFETY: entries below `len` are within the memory.
            .map(|i| unsafe { self.entries.start().add(i * self.layout.stride) }.cast_const())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if object::has_objects(&self.layout) {
            for i in 0..self.len() {
                // SAFETY: entries below `len` are within the memory and of the layout, and nobody reads them any more.
                unsafe { object::release(&self.layout, self.entries.start().add(i * self.layout.stride)) };
            }
        }
    }
}
