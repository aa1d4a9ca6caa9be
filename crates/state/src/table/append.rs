//! Tables that append: every row has its own entry, in a log, and no key is searched for (`runtime::window::strategy`
//! says when that pays).

use super::{Claimed, FIRST_CAPACITY, Table};
use crate::accumulator;
use crate::entry;
use crate::memory::EntryMemory;
use crate::object;
use crate::parts::Parts;

/// Entries of the first chunk.
const FIRST_CHUNK: usize = FIRST_CAPACITY;
/// Most bytes of a chunk, if an entry is not larger: beyond it, chunks of one size keep what is not used small.
const LARGEST_CHUNK_BYTES: usize = 1 << 20;

/// Chunks of entries, each as large as all before it up to a bound, so that entries never move.
#[derive(Debug)]
pub(super) struct EntryLog {
    stride: usize,
    /// Those before `filling` are full, those after it empty.
    chunks: Vec<EntryMemory>,
    filling: usize,
    /// Bytes of that chunk which entries occupy.
    used: usize,
    bytes: usize,
}

impl EntryLog {
    /// For entries of `stride` bytes; without entries and memory.
    pub(super) fn new(stride: usize) -> EntryLog {
        EntryLog { stride, chunks: Vec::new(), filling: 0, used: 0, bytes: 0 }
    }

    /// A place for one more entry, which counts as written from now on.
    pub(super) fn push(&mut self) -> *mut u8 {
        if self.chunks.get(self.filling).is_some_and(|chunk| self.used == chunk.bytes()) {
            (self.filling, self.used) = (self.filling + 1, 0);
        }
        if self.filling == self.chunks.len() {
            let most = (LARGEST_CHUNK_BYTES / self.stride).max(FIRST_CHUNK) * self.stride;
            let chunk = EntryMemory::zeroed(self.bytes.clamp(FIRST_CHUNK * self.stride, most));
            self.bytes += chunk.bytes();
            self.chunks.push(chunk);
        }
        let place = self.chunks[self.filling].start().wrapping_add(self.used);
        self.used += self.stride;
        place
    }

    /// The entries, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = *const u8> + use<'_> {
        let used = self.chunks.iter().take(self.filling + 1).enumerate().map(|(number, chunk)| {
            let bytes = if number == self.filling { self.used } else { chunk.bytes() };
            (chunk.start(), bytes)
        });
        used.flat_map(|(start, bytes)| {
            (0..bytes).step_by(self.stride).map(move |at| start.wrapping_add(at).cast_const())
        })
    }

    /// Forgets the entries. Their memory remains, unless fewer than one in `sparse` of the places were used.
    pub(super) fn clear(&mut self, sparse: usize) {
        let used = self.chunks.iter().take(self.filling).map(EntryMemory::bytes).sum::<usize>() + self.used;
        (self.filling, self.used) = (0, 0);
        if self.bytes > FIRST_CHUNK * self.stride && used * sparse < self.bytes {
            self.chunks.truncate(1);
            self.bytes = self.chunks.iter().map(EntryMemory::bytes).sum();
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Table {
    /// Whether every insertion makes an entry, also of a key that is there.
    pub fn is_appending(&self) -> bool {
        self.log.is_some()
    }

    /// Changes between aggregating and appending. A table that is no longer to append merges what it has; one that is to
    /// append must be empty but for keys that it has kept. Call it when no one holds a pointer into the table, and not between a search for a key and its
    /// insertion.
    ///
    /// # Panics
    /// When a table that has entries is to append.
    pub fn set_appending(&mut self, appends: bool) {
        if appends == self.is_appending() {
            return;
        }
        match self.log.take() {
            None => {
                self.forget_kept();
                assert!(self.is_empty(), "entries are found where they are searched");
                self.set_parts(Parts::new(self.layout.stride, 1, None));
                self.log = Some(Box::new(EntryLog::new(self.layout.stride)));
            }
            Some(log) => {
                self.set_parts(Parts::new(self.layout.stride, FIRST_CAPACITY, None));
                self.len = 0;
                // SAFETY: the entries are this table's, so their strings are in its arena, and nobody else uses them.
                log.entries().for_each(|entry| unsafe { self.merge_own(entry.cast_mut()) });
                self.lists.iter_mut().for_each(|lists| lists.settle());
                self.compact_strings();
            }
        }
        self.settle();
    }

    /// Takes in an entry of the log that the table had: what it owns is the table's already.
    ///
    /// # Safety
    /// It is an entry of the layout, whose strings live in the arena; nobody uses it any more.
    unsafe fn merge_own(&mut self, entry: *mut u8) {
        // SAFETY: promised by the caller; a fresh entry takes over the objects.
        unsafe {
            let key = self.key_of(entry);
            if let Some(place) = self.in_array(key) {
                return self.merge_in_array(place, entry);
            }
            match self.find(entry) {
                Some(found) => {
                    self.lists.iter_mut().for_each(|lists| lists.merge(found, entry));
                    accumulator::merge_all(&self.layout, found, entry, &mut self.arena);
                    object::release(&self.layout, entry);
                }
                None => match self.claim(entry::hash(entry), key) {
                    Claimed::Entry(place) => place.copy_from_nonoverlapping(entry, self.layout.stride),
                    Claimed::InArray(place) => self.merge_in_array(place, entry),
                },
            }
        }
    }

    /// Merges an entry into one of the array.
    ///
    /// # Safety
    /// Both are entries, of the layout and of the array.
    unsafe fn merge_in_array(&self, place: *mut u8, entry: *const u8) {
        if let Some(array) = self.parts.array() {
            // SAFETY: promised by the caller; the array is ours.
            unsafe { array.shape().merge_entry(place, entry, |_| 1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_memory_follows_their_number() {
        let mut log = EntryLog::new(24);
        assert_eq!((log.entries().count(), log.bytes()), (0, 0));
        let many = if cfg!(miri) { 3_000 } else { 300_000 };
        let places: Vec<*const u8> = (0..many).map(|_| log.push().cast_const()).collect();
        assert!(log.entries().eq(places.iter().copied()));
        let (used, bytes) = (many * 24, log.bytes());
        assert!(bytes < 2 * used + 24 * FIRST_CHUNK && bytes < used + 2 * LARGEST_CHUNK_BYTES, "{bytes} for {used}");
        log.clear(16);
        assert_eq!((log.entries().count(), log.bytes()), (0, bytes));
        assert_eq!(log.push().cast_const(), places[0], "the memory is used again");
        log.clear(16);
        assert_eq!(log.bytes(), 24 * FIRST_CHUNK, "what one entry needs");
    }

    #[test]
    fn an_entry_may_be_larger_than_a_chunk() {
        let stride = LARGEST_CHUNK_BYTES / 8;
        let mut log = EntryLog::new(stride);
        (0..FIRST_CHUNK + 1).for_each(|_| assert!(!log.push().is_null()));
        assert_eq!((log.entries().count(), log.bytes()), (FIRST_CHUNK + 1, 2 * FIRST_CHUNK * stride));
    }
}
