//! Memory of the long strings and lists of a table or partial.

use crate::memory::EntryMemory;
use millstream_abi::Str;

/// Bytes of the first chunk; each further one is twice as large up to [`LARGEST_CHUNK`], because thousands of open
/// windows have a table each and most keep few strings.
const FIRST_CHUNK: usize = 1 << 10;
const LARGEST_CHUNK: usize = 256 << 10;

/// Words of a list that has a chunk of its own.
const LARGE_WORDS: usize = LARGEST_CHUNK / size_of::<u64>() / 4;

/// Append-only memory for bytes and words. Chunks never move or shrink, so a [`Str`] or list in it stays valid as long as it lives.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    chunks: Vec<Vec<u8>>,
    words: Vec<EntryMemory>,
    /// Words handed out of the last of them.
    filled: usize,
    /// Bytes handed out.
    used: usize,
    /// Capacity of all chunks.
    allocated: usize,
    /// Bytes handed out when it held no garbage.
    compacted: usize,
}

/// Garbage that is worth a compaction.
const MIN_GARBAGE_BYTES: usize = 64 << 10;

impl Arena {
    /// Copies `bytes`; short strings stay inline and take no memory here.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Str {
        if bytes.len() <= Str::INLINE {
            return Str::new(bytes);
        }
        let fits = self.chunks.last().is_some_and(|c| c.capacity() - c.len() >= bytes.len());
        if !fits {
            let next = (FIRST_CHUNK << self.chunks.len().min(16)).min(LARGEST_CHUNK);
            let chunk = Vec::with_capacity(bytes.len().max(next));
            self.allocated += chunk.capacity();
            self.chunks.push(chunk);
        }
        let chunk = self.chunks.last_mut().expect("a chunk with room was just made");
        let start = chunk.len();
        chunk.extend_from_slice(bytes);
        self.used += bytes.len();
        Str::new(&chunk[start..])
    }

    /// Memory for some words, which are to be written before they are read.
    pub(crate) fn words(&mut self, count: usize) -> *mut u64 {
        let (bytes, start) = (count * size_of::<u64>(), self.filled);
        self.used += bytes;
        if count >= LARGE_WORDS {
            let memory = EntryMemory::unwritten(bytes);
            self.allocated += bytes;
            let place = memory.start().cast();
            // In front, because the last one is that with room.
            self.words.insert(0, memory);
            return place;
        }
        let chunk = match self.words.last() {
            Some(last) if last.bytes() - start * size_of::<u64>() >= bytes => last,
            _ => {
                let next = (FIRST_CHUNK << self.words.len().min(16)).min(LARGEST_CHUNK);
                let memory = EntryMemory::unwritten(next.max(bytes));
                self.allocated += memory.bytes();
                self.words.push(memory);
                self.filled = 0;
                self.words.last().expect("it was just pushed")
            }
        };
        let place = chunk.start().cast::<u64>().wrapping_add(self.filled);
        self.filled += count;
        place
    }

    /// Takes over bytes, which stay where they are.
    pub(crate) fn keep_all(&mut self, bytes: Vec<u8>) -> &[u8] {
        self.used += bytes.len();
        self.allocated += bytes.capacity();
        // In front, because the last one is that with room.
        self.chunks.insert(0, bytes);
        &self.chunks[0]
    }

    /// Takes over the memory of another.
    pub(crate) fn absorb(&mut self, mut other: Arena) {
        self.chunks.append(&mut other.chunks);
        // In front, because the last one is that with room.
        other.words.append(&mut self.words);
        self.words = other.words;
        self.used += other.used;
        self.allocated += other.allocated;
    }

    /// Notes that all strings and lists in it are held.
    pub(crate) fn note_compact(&mut self) {
        self.compacted = self.used;
    }

    /// Whether more than half of it may be strings and lists that nothing holds any more: then a compaction is amortised by the bytes kept since
    /// the last one.
    pub(crate) fn has_garbage(&self) -> bool {
        self.used >= 2 * self.compacted + MIN_GARBAGE_BYTES
    }

    /// Bytes handed out so far.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.allocated
    }
}
