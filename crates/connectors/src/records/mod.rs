//! Bytes that come in order, from a file or a socket, cut into chunks of whole records.
//!
//! A [`RecordCutter`] takes bytes as they come and gives chunks that end where a record ends. Where that is, and what a
//! chunk is for the format's decoder, its [`Framer`] says. The cutter never waits: whoever reads decides whether to cut
//! what is there or to read on until the cutter is full.

mod block;
mod row_blocks;
mod text;

pub(crate) use row_blocks::{RowBlock, RowBlocks, RowCount};
pub(crate) use text::{HeaderCheck, TextFramer};

use crate::{CHUNK_BYTES, Chunk, Position};
use arrow_buffer::Buffer;
use block::{Block, BlockPool};
use millstream_types::{Diagnostic, code, memory_text};

/// Longest record that is accepted; positions in a chunk must stay below 4 GiB.
pub(crate) const MAX_RECORD_BYTES: usize = 256 << 20;

/// Chunks are not made smaller than this.
const LEAST_CHUNK_BYTES: usize = 4 << 10;

/// The bytes of a block filled to less than 1/`SPARSE` are copied, and the block is used again: rows that a query keeps
/// must not each hold a block.
const SPARSE: usize = 8;

/// Tells the records of one stream of bytes apart, and makes chunks of them.
pub(crate) trait Framer: Send {
    /// The position behind the last record that ends in `data`. The last call has found no end before `from`; 0 starts
    /// over, at the start of a record.
    fn last_end(&mut self, data: &[u8], from: usize) -> Result<Option<usize>, Diagnostic>;

    /// Makes a chunk of the next whole records; `None` when there is nothing to decode in them.
    fn chunk(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic>;

    /// Makes a chunk of what follows the last record's end when the stream has ended; not called without such bytes. By default they
    /// are a record: that of a text may lack its line feed, one of a length that lacks bytes is for the decoder to refuse.
    fn rest(&mut self, data: Buffer) -> Result<Option<Chunk>, Diagnostic> {
        self.chunk(data)
    }

    /// Resumes after the position of an earlier chunk of the stream; called before anything else. Returns the byte from
    /// which the stream has to be read again.
    fn resume(&mut self, from: Position) -> u64;

    /// Fails when the stream has ended before the position that it was resumed from.
    fn end(&self) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// The error for a record that does not end within [`MAX_RECORD_BYTES`]. Its place is that of one that memory does not suffice
    /// for, too.
    fn endless_record(&self) -> Diagnostic;
}

/// See the module's description.
pub(crate) struct RecordCutter {
    framer: Box<dyn Framer>,
    pool: BlockPool,
    /// What was not handed over yet.
    block: Block,
    /// The bytes of the block in which no record ends.
    scanned: usize,
    /// Bytes that chunks shall have.
    aim: usize,
    /// Bytes at which the block is full.
    target: usize,
    /// Bytes of the longest record.
    most: usize,
    received: u64,
}

impl RecordCutter {
    /// A cutter at the start of a stream.
    pub(crate) fn new(framer: Box<dyn Framer>) -> RecordCutter {
        let pool = BlockPool::default();
        let block = pool.take();
        let (aim, target, most) = (CHUNK_BYTES, CHUNK_BYTES, MAX_RECORD_BYTES);
        RecordCutter { framer, pool, block, scanned: 0, aim, target, most, received: 0 }
    }

    /// Resumes after a position; returns the byte of the stream that comes next.
    pub(crate) fn resume(&mut self, from: Position) -> u64 {
        self.received = self.framer.resume(from);
        self.received
    }

    /// Accepts no longer records.
    pub(crate) fn limit_records(&mut self, bytes: usize) {
        self.most = bytes.clamp(CHUNK_BYTES, MAX_RECORD_BYTES);
    }

    /// Makes chunks of about `bytes` bytes from now on, but not while a long record is being read.
    pub(crate) fn aim(&mut self, bytes: usize) {
        self.aim = bytes.clamp(LEAST_CHUNK_BYTES, CHUNK_BYTES);
        if self.scanned == 0 && self.block.bytes().len() < self.aim {
            self.target = self.aim;
        }
    }

    /// Room for the next bytes of the stream; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.block.room(self.target)
    }

    /// Says that `count` bytes of the room were filled.
    pub(crate) fn advance(&mut self, count: usize) {
        self.block.advance(count);
        self.received += count as u64;
    }

    /// Whether [`RecordCutter::cut`] must be called before more is read.
    pub(crate) fn is_full(&self) -> bool {
        self.block.bytes().len() == self.target
    }

    /// Bytes of the stream so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// A chunk of all whole records that are there, if there are any.
    pub(crate) fn cut(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        let length = self.block.bytes().len();
        if length == 0 {
            return Ok(None);
        }
        if let Some(end) = self.framer.last_end(self.block.bytes(), self.scanned)? {
            let data = self.take(end);
            return self.framer.chunk(data);
        }
        self.scanned = length;
        if length >= self.most {
            return Err(self.too_long());
        }
        if length == self.target {
            self.target = (self.target * 2).min(self.most);
        }
        Ok(None)
    }

    fn too_long(&self) -> Diagnostic {
        let endless = self.framer.endless_record();
        if self.most == MAX_RECORD_BYTES {
            return endless;
        }
        let message =
            format!("a record is longer than {}, a quarter of the memory budget", memory_text(self.most as u64));
        let advice = "raise --memory (SET 'pipeline.memory'), or check that there is one record per line and that quotes are closed";
        Diagnostic { place: endless.place, ..Diagnostic::new(code::OUT_OF_MEMORY, message) }.advise(advice)
    }

    /// A chunk of what is left at the end of the stream.
    pub(crate) fn finish(&mut self) -> Result<Option<Chunk>, Diagnostic> {
        if let Some(chunk) = self.cut()? {
            return Ok(Some(chunk));
        }
        match self.block.bytes().len() {
            0 => self.framer.end().map(|()| None),
            length => {
                let data = self.take(length);
                self.framer.rest(data)
            }
        }
    }

    /// The first `end` bytes; those behind begin the next block.
    fn take(&mut self, end: usize) -> Buffer {
        let mut next = self.pool.take();
        next.extend(&self.block.bytes()[end..]);
        self.scanned = 0;
        self.target = self.aim.max(next.bytes().len() + self.aim / 2);
        let mut full = std::mem::replace(&mut self.block, next);
        full.truncate(end);
        if end < CHUNK_BYTES / SPARSE { Buffer::from(full.bytes()) } else { full.into_buffer() }
    }
}
