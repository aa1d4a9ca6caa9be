//! Sealing: a table becomes a partial, and begins again.
//!
//! A table whose keys are likely to come again may keep them ([`Table::drain_keeping`]): its entries stay where they are,
//! with fresh accumulators, and what is sealed later is what rows have updated since. So a slice that begins, or goes on behind a
//! checkpoint barrier, inserts no key that the one before it had, and its table does not grow. Which entries rows have
//! updated is told by counts ([`Counters`]), as in arrays.

use super::{DenseForm, SPARSE, Table, capacity};
use crate::entry;
use crate::partial::Partial;
use crate::parts::Parts;
use crate::seal::{Keeping, move_sorted};
use millstream_abi::Counters;

/// Rows must have updated this share of the keys for them to be kept.
const UPDATED: (usize, usize) = (3, 4);

impl Table {
    /// The immutable form: the entries in order, without the empty ones.
    pub fn seal(mut self) -> Partial {
        self.drain()
    }

    /// [`Table::seal`], after which the table is empty and has its memory still, for the next slice, unless most of it was
    /// not used. Call it when no one holds a pointer into the table.
    pub fn drain(&mut self) -> Partial {
        self.drain_but(false)
    }

    /// The same, but the table may keep its keys: if entries have neither strings nor objects, counts tell which of them rows
    /// have updated, and these are most. Those that no row has updated since are not in the partial.
    pub fn drain_keeping(&mut self) -> Partial {
        self.drain_but(true)
    }

    fn drain_but(&mut self, keeps: bool) -> Partial {
        self.seal_lists();
        let counts = self.counts();
        // Keys of an array are not among the entries, and so little is left that it need not be kept.
        let may_keep = keeps && counts.is_some() && self.parts.region().is_none() && self.len > 0;
        let least = (self.len * UPDATED.0).div_ceil(UPDATED.1);
        let keeping =
            Keeping { counts: counts.filter(|_| self.has_kept), fresh: may_keep.then_some((&*self.template, least)) };
        let arena = std::mem::take(&mut self.arena);
        let places = (self.places(), self.len);
        // SAFETY: the entries are of the layout, and their strings live in the arena that goes with them. Those that are moved are empty
        // afterwards, or fresh without objects, so the table has no objects any more.
        let (partial, kept) = unsafe {
            let moved = move_sorted(&self.layout, places, keeping);
            let kept = moved.keeps;
            (Partial::of_moved(&self.layout, moved, arena, self.object_bytes), kept)
        };
        debug_assert!(partial.len() == self.len || self.has_kept, "the table counts occupied entries");
        (self.object_bytes, self.has_kept) = (0, kept || self.has_kept);
        let partial = match &mut self.log {
            Some(log) => {
                log.clear(SPARSE);
                self.len = 0;
                partial.repeating()
            }
            None if kept => partial,
            None => {
                let array = self.parts.take_array();
                let is_sparse = self.is_sparse(partial.len());
                (self.len, self.hashed) = (0, 0);
                self.parts.forget_places();
                if is_sparse || self.has_kept {
                    let places = if is_sparse { capacity(partial.len() * 4) } else { self.parts.hashed_places() };
                    self.set_parts(Parts::new(self.layout.stride, places, None));
                    self.has_kept = false;
                }
                partial.with_region(array)
            }
        };
        let partial = partial.with_far(self.far.drain().into_iter().collect());
        self.settle();
        partial.charged(self.charge.as_ref())
    }

    /// Forgets keys that it has kept. No row has updated the table since.
    pub(super) fn forget_kept(&mut self) {
        if self.has_kept {
            (self.len, self.hashed, self.has_kept) = (0, 0, false);
            self.set_parts(Parts::new(self.layout.stride, self.parts.hashed_places(), None));
        }
    }

    /// Where entries have counts that show whether a row has updated them; `None` if there are none, or keys cannot be kept.
    fn counts(&self) -> Option<[usize; 2]> {
        if self.has_objects || self.lists.is_some() || self.log.is_some() || matches!(self.dense, DenseForm::Entries) {
            return None;
        }
        let offset = |number: usize| self.layout.accumulators[number].1;
        let counts = match self.layout.counters {
            Counters::None => return None,
            Counters::One(number) => [offset(number); 2],
            Counters::EachOf(one, other) => [offset(one), offset(other)],
        };
        entry::strings(&self.layout).is_empty().then_some(counts)
    }
}
