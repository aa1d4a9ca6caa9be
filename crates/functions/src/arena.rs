//! Memory of the strings that functions return.

use crate::text::value_of;
use millstream_abi::Str;

/// Bytes of a chunk; longer strings get a separate chunk.
const CHUNK_BYTES: usize = 64 << 10;
/// Most bytes that stay reserved for text that is being written.
const SCRATCH_BYTES: usize = 1 << 20;

/// Strings, until it is cleared.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    /// Filled chunks and the one being filled, last. Chunks never move or shrink while strings point into them.
    chunks: Vec<Vec<u8>>,
    /// Text that is being written, before it goes to a chunk.
    scratch: Vec<u8>,
}

impl Arena {
    /// A copy of `bytes` (short strings stay inline).
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Str {
        if bytes.len() <= Str::INLINE {
            return value_of(bytes);
        }
        let chunk = self.chunk(bytes.len());
        let start = chunk.len();
        chunk.extend_from_slice(bytes);
        Str::new(&chunk[start..])
    }

    /// A string of `length` bytes, zeros that `fill` overwrites, without a separate allocation.
    pub(crate) fn keep_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Str {
        if length <= Str::INLINE {
            let mut bytes = [0; Str::INLINE];
            fill(&mut bytes[..length]);
            return Str::new(&bytes[..length]);
        }
        self.keep_some(length, |out| {
            fill(out);
            length
        })
    }

    /// The first of `most` bytes, zeros that `fill` overwrites; it says how many they are.
    #[inline]
    pub(crate) fn keep_some(&mut self, most: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> Str {
        let chunk = self.chunk(most);
        let start = chunk.len();
        chunk.resize(start + most, 0);
        let length = fill(&mut chunk[start..]);
        let kept = value_of(&chunk[start..start + length]);
        chunk.truncate(if kept.is_inline() { start } else { start + length });
        kept
    }

    /// The bytes that `write` appends to an empty vector, without a separate allocation.
    pub(crate) fn keep_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Str {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch);
        let kept = self.keep(&scratch);
        if scratch.capacity() <= SCRATCH_BYTES {
            self.scratch = scratch;
        }
        kept
    }

    /// A chunk with room for `length` more bytes.
    #[inline]
    fn chunk(&mut self, length: usize) -> &mut Vec<u8> {
        let fits = self.chunks.last().is_some_and(|c| c.capacity() - c.len() >= length);
        if !fits {
            self.add_chunk(length);
        }
        self.chunks.last_mut().expect("a chunk was just made")
    }

    #[cold]
    fn add_chunk(&mut self, length: usize) {
        self.chunks.push(Vec::with_capacity(length.max(CHUNK_BYTES)));
    }

    /// Bytes of the strings.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Forgets all strings, keeping one chunk of memory.
    pub(crate) fn clear(&mut self) {
        self.chunks.truncate(1);
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_what_they_were() {
        let mut arena = Arena::default();
        let mut kept = Vec::new();
        for n in 0..3_000_usize {
            let text = format!("{n}{}", "x".repeat(n % 97));
            let string = match n % 4 {
                0 => arena.keep(text.as_bytes()),
                1 => arena.keep_with(text.len(), |out| out.copy_from_slice(text.as_bytes())),
                2 => arena.keep_written(|out| out.extend_from_slice(text.as_bytes())),
                _ => arena.keep_some(text.len() + n % 50, |out| {
                    out[..text.len()].copy_from_slice(text.as_bytes());
                    text.len()
                }),
            };
            kept.push((text, string));
        }
        for (text, string) in &kept {
            // SAFETY: the arena is alive and was not cleared.
            assert_eq!(unsafe { string.as_bytes() }, text.as_bytes());
        }
        let long: usize = kept.iter().filter(|(_, string)| !string.is_inline()).map(|(text, _)| text.len()).sum();
        assert_eq!(arena.bytes(), long);
        arena.clear();
        assert_eq!(arena.bytes(), 0);
    }
}
