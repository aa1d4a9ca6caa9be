//! Merge of partials that are not in memory: block by block, each of which is a partial of some entries that follow each
//! other. What memory it takes is that of two blocks of each partial, and of all entries of one key: what is more than it may be is
//! an error before it is loaded.

use super::{Merged, Owner, merge_entries};
use crate::entry::compare_keys;
use crate::partial::Partial;
use crate::sort::{compare, order};
use millstream_abi::EntryLayout;
use millstream_storage::Damaged;
use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;

/// Why blocks cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeFault {
    /// They are not what was written.
    Damaged(Damaged),
    /// The entries of one key have more bytes than there may be in memory: at least this many.
    TooLarge(usize),
}

impl From<Damaged> for MergeFault {
    fn from(what: Damaged) -> MergeFault {
        MergeFault::Damaged(what)
    }
}

/// Merges partials of one layout, each of which comes as blocks in their order ([`Partial::blocks`], [`Partial::restore`]), to
/// pieces of rows that are about as large as a block of each. Put one after the other, they are the rows of
/// [`merge`](super::merge) of the whole partials in the same order. Errors are those of the sources, and when blocks do
/// not follow each other.
///
/// A piece ends with the lowest of the last entries that are loaded: up to there, there is all of each source in memory. With
/// hundreds of sources few have entries in a piece, and those are found by two heaps, so that an entry costs the
/// logarithm of the number of sources.
pub struct BlockMerge<I> {
    layout: Arc<EntryLayout>,
    sources: Vec<Source<I>>,
    held: Held,
    /// Of each source with loaded entries the next one, but for those in `taken`.
    heads: BinaryHeap<Reverse<Place>>,
    /// Of each source with loaded entries the last one, but for those in `spent`.
    ends: BinaryHeap<Reverse<Place>>,
    /// Sources with entries in the last piece; at the beginning, all.
    taken: Vec<usize>,
    /// Those of them of which no entry is loaded any more, or others than before.
    spent: Vec<usize>,
}

/// Bytes of blocks that are loaded, and what they may be.
#[derive(Debug, Clone, Copy)]
struct Held {
    bytes: usize,
    most: usize,
}

/// An entry of a source, by which the source is ordered. It is in a loaded block: entries leave the heaps before their
/// blocks are given up.
struct Place {
    source: usize,
    order: (usize, u64),
    entry: *const u8,
    layout: Arc<EntryLayout>,
}

// SAFETY: the entry belongs to a block of the merge that has the place, which goes to another thread as a whole.
unsafe impl Send for Place {}

impl Place {
    fn new(layout: &Arc<EntryLayout>, source: usize, entry: *const u8) -> Place {
        // SAFETY: an entry of a loaded block.
        Place { source, order: unsafe { order(layout, entry) }, entry, layout: Arc::clone(layout) }
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        // SAFETY: entries of loaded blocks.
        let by_keys = || unsafe { compare_keys(&self.layout, self.entry, other.entry) };
        self.order.cmp(&other.order).then_with(by_keys)
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Place) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Place {}

/// Takes the sources out whose entry is at most that of a place.
fn pop_until(heap: &mut BinaryHeap<Reverse<Place>>, end: &Place, sources: &mut Vec<usize>) {
    while let Some(top) = heap.peek_mut().filter(|top| top.0 <= *end) {
        sources.push(PeekMut::pop(top).0.source);
    }
}

impl<I> fmt::Debug for BlockMerge<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockMerge({} sources)", self.sources.len())
    }
}

impl<E: From<MergeFault>, I: Iterator<Item = Result<Partial, E>>> BlockMerge<I> {
    /// Of such sources, with at most about `most_bytes` bytes of blocks in memory, which has to be several times what
    /// one block of each source has. Nothing is read yet.
    pub fn new(layout: &Arc<EntryLayout>, most_bytes: usize, sources: impl IntoIterator<Item = I>) -> BlockMerge<I> {
        let sources: Vec<_> = sources.into_iter().map(|blocks| Source::new(Arc::clone(layout), blocks)).collect();
        let all: Vec<usize> = (0..sources.len()).collect();
        BlockMerge {
            layout: Arc::clone(layout),
            sources,
            held: Held { bytes: 0, most: most_bytes },
            heads: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            taken: all.clone(),
            spent: all,
        }
    }

    fn piece(&mut self) -> Result<Option<Merged>, E> {
        let (layout, sources, held) = (&self.layout, &mut self.sources, &mut self.held);
        for source in self.spent.drain(..) {
            if !sources[source].is_empty() || sources[source].load(held)? {
                self.ends.push(Reverse(Place::new(layout, source, sources[source].last())));
            }
        }
        for source in self.taken.drain(..).filter(|&source| !sources[source].is_empty()) {
            self.heads.push(Reverse(Place::new(layout, source, sources[source].first())));
        }
        let Some(Reverse(end)) = self.ends.pop() else { return Ok(None) };
        self.spent.push(end.source);
        pop_until(&mut self.ends, &end, &mut self.spent);
        pop_until(&mut self.heads, &end, &mut self.taken);
        // Entries of one key are merged in the order of their sources.
        self.taken.sort_unstable();
        for &source in &self.spent {
            sources[source].load_beyond(end.entry, held)?;
        }
        let (mut entries, mut partials) = (Vec::new(), Vec::new());
        for &source in &self.taken {
            sources[source].take_until(end.entry, &mut entries, &mut partials, held);
        }
        // SAFETY: occupied entries of the layout, whose strings live in the partials.
        let (rows, copies) = unsafe { merge_entries(layout, entries.into_iter()) };
        let (layout, partitions, _owner) = (Arc::clone(layout), layout.partitions(), Owner::Copies(copies));
        let merged = Merged { layout, rows: rows.into(), far: None, _owner, _partials: Vec::new() };
        let merged = merged.with_far(partials.iter(), &partitions);
        Ok(Some(Merged { _partials: partials, ..merged }))
    }
}

impl<E: From<MergeFault>, I: Iterator<Item = Result<Partial, E>>> Iterator for BlockMerge<I> {
    type Item = Result<Merged, E>;

    fn next(&mut self) -> Option<Result<Merged, E>> {
        self.piece().transpose()
    }
}

/// A partial whose blocks are loaded one after the other.
struct Source<I> {
    layout: Arc<EntryLayout>,
    blocks: I,
    /// Those of which entries are to come; or one that was the last, of which all are taken.
    loaded: VecDeque<Arc<Partial>>,
    /// The next entry of the first one.
    next: usize,
}

impl<E: From<MergeFault>, I: Iterator<Item = Result<Partial, E>>> Source<I> {
    fn new(layout: Arc<EntryLayout>, blocks: I) -> Source<I> {
        Source { layout, blocks, loaded: VecDeque::new(), next: 0 }
    }

    /// Whether no entry is loaded that has not been taken.
    fn is_empty(&self) -> bool {
        self.loaded.front().is_none_or(|first| first.len() == self.next)
    }

    /// The next entry of those that are loaded.
    fn first(&self) -> *const u8 {
        self.loaded.front().expect("only a source with entries is asked for the next one").entry(self.next)
    }

    /// The last entry that is loaded.
    fn last(&self) -> *const u8 {
        let block = self.loaded.back().expect("only a source with entries is asked for the last one");
        block.entry(block.len() - 1)
    }

    /// Loads another block, if there is one.
    fn load(&mut self, held: &mut Held) -> Result<bool, E> {
        let Some(block) = self.blocks.find(|block| block.as_ref().map_or(true, |block| !block.is_empty())) else {
            return Ok(false);
        };
        let block = Arc::new(block?.without_array());
        if let Some(before) = self.loaded.back() {
            // SAFETY: entries of loaded blocks.
            let order = unsafe { compare(&self.layout, self.last(), block.entry(0)) };
            if order == Ordering::Greater || (order == Ordering::Equal && before.is_distinct()) {
                return Err(
                    MergeFault::from(Damaged("a block of a partial does not follow the one before".into())).into()
                );
            }
        }
        while self.loaded.front().is_some_and(|first| first.len() == self.next) {
            self.forget_first(held);
        }
        held.bytes += block.bytes();
        self.loaded.push_back(block);
        match held.bytes > held.most {
            true => Err(MergeFault::TooLarge(held.bytes).into()),
            false => Ok(true),
        }
    }

    /// Gives the first block up.
    fn forget_first(&mut self, held: &mut Held) {
        held.bytes -= self.loaded.pop_front().map_or(0, |block| block.bytes());
        self.next = 0;
    }

    /// Loads all entries that have the key of `end`: those of one key may be in several blocks.
    fn load_beyond(&mut self, end: *const u8, held: &mut Held) -> Result<(), E> {
        // SAFETY: `end` is an entry of a loaded block.
        let repeats = |s: &Self| !s.is_empty() && unsafe { compare(&s.layout, s.last(), end) }.is_eq();
        while self.loaded.back().is_some_and(|block| !block.is_distinct()) && repeats(self) && self.load(held)? {}
        Ok(())
    }

    /// Takes the entries up to the key of `end`.
    fn take_until(
        &mut self,
        end: *const u8,
        entries: &mut Vec<*const u8>,
        partials: &mut Vec<Arc<Partial>>,
        held: &mut Held,
    ) {
        while let Some(block) = self.loaded.front() {
            let first = self.next;
            self.next = self.first_beyond(end, block);
            if self.next > first {
                entries.extend((first..self.next).map(|i| block.entry(i)));
                partials.push(Arc::clone(block));
            }
            if self.next < block.len() || self.loaded.len() == 1 {
                return;
            }
            self.forget_first(held);
        }
    }

    /// The number of the first entry to come of the first block whose key is beyond that of `end`.
    fn first_beyond(&self, end: *const u8, block: &Partial) -> usize {
        let (mut low, mut high) = (self.next, block.len());
        while low < high {
            let middle = low.midpoint(high);
            // SAFETY: entries of loaded blocks.
            match unsafe { compare(&self.layout, block.entry(middle), end) } {
                Ordering::Greater => high = middle,
                Ordering::Less | Ordering::Equal => low = middle + 1,
            }
        }
        low
    }
}
