//! The memory of blocks: used again when the last column that points into a block is gone.
//!
//! Fresh memory must be cleared by the operating system page by page, which costs about a tenth of reading a file.

use crate::{CHUNK_BYTES, locked};
use arrow_buffer::Buffer;
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// Blocks of one reader that nothing uses now.
#[derive(Debug, Clone, Default)]
pub(super) struct BlockPool(Arc<Mutex<Vec<Vec<u8>>>>);

/// Blocks that are kept; the number of chunks in flight is usually lower.
const KEPT_BLOCKS: usize = 64;
/// A block that a long record has made larger than this is not kept.
const KEPT_BYTES: usize = 2 * CHUNK_BYTES;

impl BlockPool {
    /// An empty block.
    pub(super) fn take(&self) -> Block {
        let memory = locked(&self.0).pop().unwrap_or_default();
        Block { memory, length: 0, pool: self.clone() }
    }

    fn give_back(&self, memory: Vec<u8>) {
        let mut free = locked(&self.0);
        if free.len() < KEPT_BLOCKS && memory.capacity() <= KEPT_BYTES {
            free.push(memory);
        }
    }
}

/// Bytes being read. The memory beyond `length` is initialised, but means nothing.
#[derive(Debug)]
pub(super) struct Block {
    memory: Vec<u8>,
    length: usize,
    pool: BlockPool,
}

impl Block {
    /// The bytes that were read.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[..self.length]
    }

    /// Room for bytes up to a length of `until`, behind those that are there.
    pub(super) fn room(&mut self, until: usize) -> &mut [u8] {
        if self.memory.len() < until {
            self.memory.resize(until, 0);
        }
        &mut self.memory[self.length..until]
    }

    /// Says that `count` bytes of the room were filled.
    pub(super) fn advance(&mut self, count: usize) {
        self.length += count;
        debug_assert!(self.length <= self.memory.len());
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.room(self.length + bytes.len()).copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// Forgets the bytes from `length` on.
    pub(super) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// The bytes as a buffer; the memory returns to the pool with the buffer's last owner.
    pub(super) fn into_buffer(self) -> Buffer {
        Buffer::from(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_returns_with_the_last_owner_and_old_bytes_do_not_show() {
        let pool = BlockPool::default();
        let mut block = pool.take();
        block.extend(b"first block");
        let buffer = block.into_buffer();
        let part = buffer.slice_with_length(6, 5);
        drop(buffer);
        assert!(pool.0.lock().unwrap().is_empty());
        assert_eq!(part.as_slice(), b"block");
        drop(part);
        assert_eq!(pool.0.lock().unwrap().len(), 1);

        let mut again = pool.take();
        again.extend(b"xy");
        again.room(4)[..1].copy_from_slice(b"z");
        again.advance(1);
        assert_eq!(again.bytes(), b"xyz");
        again.truncate(1);
        assert_eq!(again.into_buffer().as_slice(), b"x");
    }

    #[test]
    fn large_blocks_are_not_kept() {
        let pool = BlockPool::default();
        pool.take().room(KEPT_BYTES * 2);
        let mut block = pool.take();
        block.room(KEPT_BYTES * 2);
        drop(block);
        assert!(pool.0.lock().unwrap().iter().all(|m| m.capacity() <= KEPT_BYTES));
    }
}
