//! Streams whose records come in blocks that say how many rows they have: record batches of Arrow, blocks of Avro.
//!
//! Their positions are numbers of rows, because a block may be handed out in parts, and what the stream begins with is needed to
//! read it. So a resumed stream is read from its start, and blocks that were read before are passed over undecoded.

use crate::filesystem::input_changed;
use crate::text_chunk::FileInfo;
use crate::{Chunk, Position};
use millstream_types::Diagnostic;
use std::ops::Range;
use std::sync::Arc;

/// A block as it came, of which some rows are wanted.
pub(crate) trait RowBlock: Clone + Send + 'static {
    /// The wanted rows.
    fn rows(&self) -> &Range<usize>;

    /// The same, to be changed.
    fn rows_mut(&mut self) -> &mut Range<usize>;
}

/// Blocks of one stream: the content of a chunk.
pub(crate) struct RowBlocks<B> {
    pub(crate) blocks: Vec<B>,
    pub(crate) file: Arc<FileInfo>,
}

impl<B: RowBlock> RowBlocks<B> {
    /// Cuts about the first `rows` rows off a chunk of such blocks; `None` for other chunks.
    pub(crate) fn split_front(chunk: &mut Chunk, rows: u64) -> Option<Option<(Chunk, u64)>> {
        let whole = chunk.payload.downcast_mut::<RowBlocks<B>>()?;
        let Some(first) = whole.blocks.first_mut() else { return Some(None) };
        let count = first.rows().len().min(usize::try_from(rows).unwrap_or(usize::MAX));
        let middle = first.rows().start + count;
        let mut front = first.clone();
        front.rows_mut().end = middle;
        first.rows_mut().start = middle;
        if first.rows().is_empty() {
            whole.blocks.remove(0);
        }
        let left: usize = whole.blocks.iter().map(|block| block.rows().len()).sum();
        let after = chunk.after.map(|end| Position { at: end.at.saturating_sub(left as u64), line: 0 });
        let bytes = if whole.blocks.is_empty() { std::mem::take(&mut chunk.bytes) } else { 0 };
        let front = RowBlocks { blocks: vec![front], file: whole.file.clone() };
        Some(Some((Chunk { payload: Box::new(front), bytes, after }, count as u64)))
    }
}

/// The rows of a stream so far.
#[derive(Debug, Default)]
pub(crate) struct RowCount {
    rows: u64,
    /// Rows that were read before the stream was resumed.
    skipped: u64,
}

impl RowCount {
    /// Resumes after a position of an earlier run.
    pub(crate) fn resume(&mut self, from: Position) {
        self.skipped = from.at;
    }

    /// Counts the rows of a block; what is left of it behind those that were read before.
    pub(crate) fn unread<B: RowBlock>(&mut self, mut block: B) -> Option<B> {
        let count = block.rows().len() as u64;
        let skipped = self.skipped.saturating_sub(self.rows).min(count);
        self.rows = self.rows.saturating_add(count);
        block.rows_mut().start += skipped as usize;
        (!block.rows().is_empty() || skipped == 0).then_some(block)
    }

    /// A chunk of the next blocks, if there are any.
    pub(crate) fn chunk<B: RowBlock>(&self, blocks: Vec<B>, bytes: usize, file: &Arc<FileInfo>) -> Option<Chunk> {
        if blocks.is_empty() {
            return None;
        }
        let after = Some(Position { at: self.rows, line: 0 });
        Some(Chunk { payload: Box::new(RowBlocks { blocks, file: file.clone() }), bytes: bytes as u64, after })
    }

    /// Fails when the stream has ended before the position that it was resumed from.
    pub(crate) fn end(&self, resource: &str) -> Result<(), Diagnostic> {
        if self.rows >= self.skipped { Ok(()) } else { Err(input_changed(resource, self.rows, self.skipped, "rows")) }
    }
}
