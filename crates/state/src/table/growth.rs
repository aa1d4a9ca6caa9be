//! Growth of tables: of the hash part, and of the dense region to both sides.

use super::{DenseForm, Table, capacity, occupied};
use crate::array::Region;
use crate::dense;
use crate::directory::Directory;
use crate::entry;
use crate::parts::Parts;
use millstream_abi::{HASH_SEED, KeyRange, hash_finish, hash_word};
use std::sync::Arc;

/// Keys that a directory need not cover, whatever their share.
const FEW_UNCOVERED: usize = 8;

impl Table {
    /// Makes room in the hash part. The region is reconsidered when it is worth a walk over all entries.
    pub(super) fn grow(&mut self) {
        let inside = match self.parts.array() {
            // Half of them may be there.
            Some(array) => array.range().len as usize / 2,
            None => self.len - self.hashed,
        };
        let all = self.hashed + inside;
        if !matches!(self.dense, DenseForm::Never) && all >= dense::MIN_KEYS && self.hashed * dense::OUTSIDE >= all {
            return self.rebuild();
        }
        let entries = occupied(self.parts.hashed()).collect();
        let _old = self.parts.set_places(2 * self.parts.hashed_places());
        self.len -= self.hashed;
        self.hashed = 0;
        // SAFETY: the entries are in the memory that the hash part had, which is alive.
        unsafe { self.take_in(entries) };
        if self.packs {
            self.direct();
        }
    }

    /// Gives it a directory of the keys that there are now, if they lie close together.
    fn direct(&mut self) {
        // SAFETY: occupied entries of the layout, which packs.
        let directory = unsafe { Directory::of(&self.layout, self.occupied()) };
        self.parts.set_directory(directory);
        self.uncovered = 0;
    }

    /// A key was inserted. When too many are not covered by the directory, a new one is made.
    pub(super) fn note_key(&mut self, entry: *const u8) {
        // SAFETY: callers have an occupied entry of the layout, which packs.
        if self.parts.directory().is_there() && !unsafe { self.parts.directory().covers(&self.layout, entry) } {
            self.uncovered += 1;
            if self.uncovered > FEW_UNCOVERED + self.len / dense::OUTSIDE {
                self.direct();
            }
        }
    }

    /// Moves all entries to memory that fits their number and keys, with room for as many more.
    pub(super) fn rebuild(&mut self) {
        let entries: Vec<*const u8> = self.occupied().collect();
        let array = self.parts.take_array();
        // SAFETY: occupied entries of the layout.
        let mut keys: Vec<i64> = entries.iter().filter_map(|&e| unsafe { self.key_of(e) }).collect();
        let nulls = entries.len() - keys.len();
        keys.extend(array.iter().flat_map(Region::keys));
        let all = keys.len() + nulls;
        let stride = if let DenseForm::Array(shape) = &self.dense { shape.array.stride } else { self.layout.stride };
        let region = match self.dense {
            DenseForm::Never => None,
            _ => {
                let reach = dense::reach(keys.len(), stride, self.is_known);
                dense::region_of_most(&mut keys, reach)
            }
        };
        let region = region.filter(|_| keys.len() * dense::OUTSIDE >= all * (dense::OUTSIDE - 1));
        // What there is of an array stays one.
        let region = region.or(array.as_ref().map(Region::range));
        let is_inside = |key: &&i64| region.is_some_and(|region| region.index(**key).is_some());
        let outside = all - keys.iter().filter(is_inside).count();
        let hashed = if region.is_some() { outside.max(all / dense::OUTSIDE / 4) } else { all };
        let entries_of = region.filter(|_| matches!(self.dense, DenseForm::Entries));
        let parts = Parts::new(self.layout.stride, capacity(4 * hashed), entries_of);
        let _old = std::mem::replace(&mut self.parts, parts);
        self.show_logs();
        (self.len, self.hashed) = (0, 0);
        if let (DenseForm::Array(shape), Some(range)) = (&self.dense, region) {
            let shape = Arc::clone(shape);
            let mut fresh = Region::fresh(&shape, range);
            array.iter().for_each(|before| fresh.take_over(before));
            self.parts.set_array(Some(fresh));
            self.leave_array(array.as_ref(), range);
        }
        // SAFETY: the entries are in the memory that the parts had, which is alive.
        unsafe { self.take_in(entries) };
    }

    /// Puts what an array has of keys outside of a range into the hash part, in which there is room.
    fn leave_array(&mut self, array: Option<&Region>, range: KeyRange) {
        for (array, key) in array.iter().flat_map(|array| array.keys().map(move |key| (array, key))) {
            if range.index(key).is_some() {
                continue;
            }
            let hash = hash_finish(hash_word(HASH_SEED, key as u64));
            let place = self.place(hash, Some(key));
            // SAFETY: the key is there, and the place is an empty entry of the layout.
            unsafe { array.shape().write_entry(array.entry(key), key, place) };
        }
    }

    /// Copies entries to their places; there is room for them.
    ///
    /// # Safety
    /// They are entries of the layout that are not in the table's memory.
    unsafe fn take_in(&mut self, entries: Vec<*const u8>) {
        for from in entries {
            // SAFETY: promised by the caller; the place is an empty entry, or an entry of the array, which is ours.
            unsafe {
                let key = self.key_of(from);
                match self.parts.array().zip(key).and_then(|(array, key)| array.entry_of(key).map(|e| (array, e))) {
                    Some((array, entry)) => array.shape().merge_entry(entry, from, |_| 1),
                    None => self.place(entry::hash(from), key).copy_from_nonoverlapping(from, self.layout.stride),
                }
            }
        }
    }
}
