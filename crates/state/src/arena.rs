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
    /// Words are handed out of this one, of which so many are gone.
    words: Option<(EntryMemory, usize)>,
    /// Of these no more words are handed out.
    full: Vec<EntryMemory>,
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
        let bytes = count * size_of::<u64>();
        self.used += bytes;
        if let Some((memory, filled)) = &mut self.words
            && memory.bytes() - *filled * size_of::<u64>() >= bytes
        {
            let place = memory.start().cast::<u64>().wrapping_add(*filled);
            *filled += count;
            return place;
        }
        let is_large = count >= LARGE_WORDS;
        let next = (FIRST_CHUNK << self.full.len().min(16)).min(LARGEST_CHUNK);
        let memory = EntryMemory::unwritten(if is_large { bytes } else { next.max(bytes) });
        self.allocated += memory.bytes();
        let place = memory.start().cast();
        match is_large {
            true => self.full.push(memory),
            false => self.full.extend(self.words.replace((memory, count)).map(|(full, _)| full)),
        }
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
        self.full.append(&mut other.full);
        self.full.extend(other.words.map(|(memory, _)| memory));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_handed_out_once() {
        // Large ones first, between and last, and those of others that are taken over.
        let sizes = [LARGE_WORDS, 3, LARGE_WORDS + 1, 200, 4, 5_000, 5_000, 1, 2 * LARGE_WORDS, 7];
        let (mut arena, mut places) = (Arena::default(), Vec::new());
        for round in 0..3 {
            let mut other = Arena::default();
            for &count in sizes.iter().skip(round) {
                places.push((arena.words(count), count));
                places.push((other.words(count), count));
            }
            arena.absorb(other);
        }
        for (number, &(place, count)) in places.iter().enumerate() {
            // SAFETY: words of the arena, which nobody else has: that is what is tested.
            (0..count).for_each(|i| unsafe { place.add(i).write(number as u64) });
        }
        for (number, &(place, count)) in places.iter().enumerate() {
            // SAFETY: written above.
            assert!((0..count).all(|i| unsafe { place.add(i).read() } == number as u64), "{number}: {count} words");
        }
        assert!(arena.used() <= arena.bytes());
    }
}
