//! Accumulators by number: sessions, slices of count windows, rows of OVER.

use crate::accumulator;
use crate::arena::Arena;
use crate::columns::output_columns;
use crate::encoding::EntryFields;
use crate::entry;
use crate::far::{Far, Row};
use crate::format_8;
use crate::list;
use crate::memory::EntryMemory;
use crate::object::{self, Exact};
use crate::output::OutputTypes;
use crate::table::{HASH_OF_NOTHING, Table};
use arrow_array::ArrayRef;
use millstream_abi::{EntryLayout, Phys, Str};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of new memory.
const FIRST_CAPACITY: usize = 16;

/// Stands before slots with exact sums, where others have the number of those that are free.
const EXACT: u64 = u64::MAX;

/// Entries by slot number. Numbers are dense: those of removed slots are given out again, so that memory is that of the
/// most slots that there were at once.
///
/// Slots are updated through a table of the same layout, whose only key is the number: a program updates a fresh
/// [`Table`], and [`Slots::absorb`] merges it in.
#[derive(Debug)]
pub struct Slots {
    layout: Arc<EntryLayout>,
    /// Entry *i* is that of slot *i*; its hash is 0 when the slot is free.
    memory: EntryMemory,
    capacity: usize,
    /// Numbers below this have been given out.
    used: usize,
    free: Vec<i64>,
    template: Box<[u8]>,
    /// Offsets of MIN and MAX of strings.
    strings: Vec<usize>,
    arena: Arena,
    /// What is far of sums of doubles: by slot and the number of the sum among those. Few slots have any.
    far: BTreeMap<(i64, usize), Exact>,
}

// SAFETY: entries own what they point to, together with the arena; objects are counted by atomic numbers.
unsafe impl Send for Slots {}
// SAFETY: methods on shared slots only read.
unsafe impl Sync for Slots {}

impl Slots {
    /// No slots, for entries of the layout of the program that updates them.
    ///
    /// # Panics
    /// When the layout has other keys than one of [`Phys::I64`].
    pub fn new(layout: Arc<EntryLayout>) -> Slots {
        assert!(layout.keys.len() == 1 && layout.keys[0].phys == Phys::I64, "the key of a slot is its number");
        Slots {
            memory: EntryMemory::zeroed(FIRST_CAPACITY * layout.stride),
            capacity: FIRST_CAPACITY,
            used: 0,
            free: Vec::new(),
            template: entry::template(&layout),
            strings: entry::string_extremes(&layout).collect(),
            arena: Arena::default(),
            far: BTreeMap::new(),
            layout,
        }
    }

    /// A slot with fresh accumulators.
    pub fn allocate(&mut self) -> i64 {
        let slot = self.free.pop().unwrap_or_else(|| {
            if self.used == self.capacity {
                self.grow();
            }
            self.used += 1;
            self.used as i64 - 1
        });
        let (fresh, key) = (self.place(slot), self.layout.keys[0].offset);
        // SAFETY: a free entry of the layout.
        unsafe {
            fresh.copy_from_nonoverlapping(self.template.as_ptr(), self.layout.stride);
            entry::write(fresh, 0, HASH_OF_NOTHING);
            entry::write(fresh, key, slot);
        }
        slot
    }

    /// Whether there is a slot of this number, which is not free.
    pub fn is_allocated(&self, slot: i64) -> bool {
        // SAFETY: every entry, also an empty one, starts with its hash.
        (0..self.used as i64).contains(&slot) && unsafe { entry::hash(self.place(slot)) } != 0
    }

    /// Number of slots that are not free.
    pub fn len(&self) -> usize {
        self.used - self.free.len()
    }

    /// Whether all slots are free.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Merges what a program has put into `table` into the slots that are its keys.
    ///
    /// # Panics
    /// When a key is not an allocated slot.
    pub fn absorb(&mut self, mut table: Table) {
        table.seal_lists();
        debug_assert_eq!(*table.layout(), self.layout, "the table is that of the slots' program");
        let key = self.layout.keys[0].offset;
        for from in table.occupied() {
            // SAFETY: an entry of the same layout.
            let into = self.entry(unsafe { entry::read(from, key) });
            // SAFETY: two entries of the layout; strings of `table` that the slot takes over are copied before it goes.
            unsafe { self.merge_foreign(into, from.cast_mut()) };
        }
        for (from, number, sum) in table.far_sums() {
            // SAFETY: an entry with the same key.
            let slot: i64 = unsafe { entry::read(from, key) };
            self.add_far((slot, number), sum);
        }
        self.compact();
    }

    /// Merges the accumulators of slot `from`, which stays unchanged, into those of `into`.
    pub fn merge_into(&mut self, into: i64, from: i64) {
        let slots = (into, from);
        let (into, from) = (self.entry(into), self.entry(from));
        assert!(into != from, "a slot is not merged with itself");
        // SAFETY: two entries of the layout; the strings of both are in the arena.
        unsafe { accumulator::merge_all(&self.layout, into, from, &mut self.arena) };
        for (number, sum) in self.far_of(slots.1) {
            self.add_far((slots.0, number), &sum);
        }
    }

    /// Adds to what is far of a sum.
    fn add_far(&mut self, place: (i64, usize), sum: &Exact) {
        let far = self.far.entry(place).or_insert_with(Exact::new);
        far.merge(sum);
        if far.is_nothing() {
            self.far.remove(&place);
        }
    }

    /// What is far of the sums of a slot.
    fn far_of(&self, slot: i64) -> Vec<(usize, Exact)> {
        if self.far.is_empty() {
            return Vec::new();
        }
        self.far.range((slot, 0)..=(slot, usize::MAX)).map(|(&(_, number), sum)| (number, sum.clone())).collect()
    }

    /// Undoes a merge of slot `from` into `into`; for accumulators that are all invertible.
    pub fn subtract(&mut self, into: i64, from: i64) {
        let slots = (into, from);
        let (into, from) = (self.entry(into), self.entry(from));
        assert!(into != from, "a slot is not taken from itself");
        // SAFETY: two entries of the layout.
        unsafe { accumulator::subtract_all(&self.layout, into, from) };
        for (number, sum) in self.far_of(slots.1) {
            let mut negated = Exact::new();
            negated.subtract(&sum);
            self.add_far((slots.0, number), &negated);
        }
    }

    /// Gives slot `into` the accumulators of `from`, in place of its own.
    pub fn copy(&mut self, into: i64, from: i64) {
        let (target, source) = (self.entry(into), self.entry(from));
        if target == source {
            return;
        }
        // SAFETY: two entries of the layout; the copy counts its objects, and gets its own key back.
        unsafe {
            object::release(&self.layout, target);
            target.copy_from_nonoverlapping(source, self.layout.stride);
            object::retain(&self.layout, target);
            entry::write(target, self.layout.keys[0].offset, into);
        }
        self.forget_far(into);
        let copied = self.far_of(from);
        self.far.extend(copied.into_iter().map(|(number, sum)| ((into, number), sum)));
    }

    fn forget_far(&mut self, slot: i64) {
        for (number, _) in self.far_of(slot) {
            self.far.remove(&(slot, number));
        }
    }

    /// Frees a slot and what it holds.
    pub fn remove(&mut self, slot: i64) {
        let removed = self.entry(slot);
        // SAFETY: an entry of the layout, which nobody uses any more.
        unsafe {
            object::release(&self.layout, removed);
            entry::write(removed, 0, 0u64);
        }
        self.forget_far(slot);
        self.free.push(slot);
    }

    /// What the outputs of `types` show of slots, in the order of `slots`; its keys are left out.
    pub fn columns(&self, slots: &[i64], types: &OutputTypes) -> Vec<ArrayRef> {
        let rows: Vec<*const u8> = slots.iter().map(|&slot| self.entry(slot).cast_const()).collect();
        let find = |row: Row, number: usize| match row {
            // SAFETY: an entry of the layout, whose key is its slot.
            Row::Entry(entry) => self.far.get(&(unsafe { entry::read(entry, self.layout.keys[0].offset) }, number)),
            Row::Key(slot) => self.far.get(&(slot, number)),
        };
        // SAFETY: entries of the layout that are not changed while `self` is borrowed.
        unsafe { output_columns(&self.layout, &rows, &types.outputs, (!self.far.is_empty()).then_some(&find)) }
    }

    /// Writes all slots.
    pub fn save(&self, out: &mut ByteWriter) {
        self.save_far(self.far.iter(), out);
        out.i64s(&self.free);
        let occupied: Vec<*const u8> = self.occupied().map(<*mut u8>::cast_const).collect();
        // SAFETY: entries of the layout, whose strings are in the arena.
        unsafe { EntryFields::new(&self.layout).write_all(&occupied, out) };
    }

    /// Writes some slots, which are not free, for [`Slots::put`].
    pub fn save_some(&self, slots: &[i64], out: &mut ByteWriter) {
        let far = slots.iter().filter(|_| !self.far.is_empty());
        let far: Vec<_> = far.flat_map(|&slot| self.far.range((slot, 0)..=(slot, usize::MAX))).collect();
        self.save_far(far.into_iter(), out);
        let entries: Vec<*const u8> = slots.iter().map(|&slot| self.entry(slot).cast_const()).collect();
        // SAFETY: entries of the layout, whose strings are in the arena.
        unsafe { EntryFields::new(&self.layout).write_all(&entries, out) };
    }

    fn save_far<'a>(&self, far: impl ExactSizeIterator<Item = (&'a (i64, usize), &'a Exact)>, out: &mut ByteWriter) {
        if self.layout.has_exact_sums() {
            out.u64(EXACT);
            out.length(far.len());
            for (&(slot, number), sum) in far {
                out.i64(slot);
                out.u32(number as u32);
                sum.save(out);
            }
        }
    }

    /// What is far of sums of a layout that has exact ones.
    fn restore_far(from: &mut ByteReader<'_>) -> Result<BTreeMap<(i64, usize), Exact>, Damaged> {
        Damaged::unless(from.u64()? == EXACT, "there are no exact sums")?;
        let (count, mut far) = (from.count(size_of::<Exact>())?, BTreeMap::new());
        for _ in 0..count {
            let place = (from.i64()?, from.u32()? as usize);
            far.insert(place, Exact::restore(from)?);
        }
        Ok(far)
    }

    /// The slots that [`Slots::save`] has written, by their numbers; `types` are those that they are shown as.
    ///
    /// # Errors
    /// When the bytes are not what has been written.
    ///
    /// # Panics
    /// As for [`Slots::new`].
    pub fn restore(layout: Arc<EntryLayout>, types: &OutputTypes, from: &mut ByteReader<'_>) -> Result<Slots, Damaged> {
        if !layout.has_exact_sums() {
            return Slots::restore_entries(layout, types, from);
        }
        if from.clone().u64()? != EXACT {
            let of_pairs = Arc::new(format_8::layout_of(&layout));
            return Ok(Slots::restore_entries(of_pairs, types, from)?.without_pairs(layout));
        }
        let far = Slots::restore_far(from)?;
        let mut slots = Slots::restore_entries(layout, types, from)?;
        slots.far = far;
        let are_right = slots.far.keys().all(|&(slot, _)| slots.is_allocated(slot));
        Damaged::unless(are_right, "a sum is of a slot that is free")?;
        Ok(slots)
    }

    /// Allocates the slots that [`Slots::save_some`] has written; their numbers, in the order in which they were written. After an error
    /// the slots are not to be used.
    ///
    /// # Errors
    /// When the bytes are not what has been written.
    pub fn put(&mut self, types: &OutputTypes, from: &mut ByteReader<'_>) -> Result<Vec<i64>, Damaged> {
        let layout = Arc::clone(&self.layout);
        let far = if layout.has_exact_sums() { Slots::restore_far(from)? } else { BTreeMap::new() };
        let fields = EntryFields::typed(&layout, &types.keys, &types.outputs);
        let count = fields.count(from)?;
        // They own what they hold until each is in its place.
        let mut read = Slots::new(Arc::clone(&layout));
        read.capacity = count.max(FIRST_CAPACITY);
        read.memory = EntryMemory::zeroed(read.capacity * layout.stride);
        read.used = count;
        // SAFETY: there is room for all of them.
        unsafe { fields.read(read.memory.start(), count, from, &mut self.arena)? };
        let (key, mut numbers, mut put) = (layout.keys[0].offset, BTreeMap::new(), Vec::with_capacity(count));
        for place in 0..count as i64 {
            let (slot, from) = (self.allocate(), read.place(place));
            let into = self.place(slot);
            // SAFETY: two entries of the layout; the second moves with all that it owns, and the first has nothing to release.
            unsafe {
                Damaged::unless(entry::hash(from) == HASH_OF_NOTHING, "a slot has a hash")?;
                numbers.insert(entry::read::<i64>(from, key), slot);
                into.copy_from_nonoverlapping(from, layout.stride);
                entry::write(into, key, slot);
                entry::write(from, 0, 0u64);
            }
            put.push(slot);
        }
        Damaged::unless(numbers.len() == count, "a slot is there twice")?;
        for ((slot, number), sum) in far {
            let slot = numbers.get(&slot).ok_or_else(|| Damaged("a sum is of a slot that is not there".into()))?;
            self.far.insert((*slot, number), sum);
        }
        Ok(put)
    }

    /// The same slots of a layout with exact sums in the places of pairs.
    fn without_pairs(mut self, layout: Arc<EntryLayout>) -> Slots {
        let mut slots = Slots::new(Arc::clone(&layout));
        slots.memory = EntryMemory::zeroed(self.capacity * layout.stride);
        (slots.capacity, slots.used) = (self.capacity, self.used);
        slots.free = std::mem::take(&mut self.free);
        slots.arena = std::mem::take(&mut self.arena);
        let mut far = Far::default();
        for slot in (0..self.used as i64).filter(|&slot| self.is_allocated(slot)) {
            // SAFETY: an entry of each layout; that of ours is still zero. Strings are in the arena.
            unsafe { format_8::convert((&layout, &self.layout), self.place(slot), slots.place(slot), &mut far) };
        }
        for (entry, number, sum) in far.sums() {
            // SAFETY: an entry with the key of the slots.
            slots.add_far((unsafe { entry::read(entry, layout.keys[0].offset) }, number), sum);
        }
        slots
    }

    /// Entries and which slots are free.
    fn restore_entries(
        layout: Arc<EntryLayout>,
        types: &OutputTypes,
        from: &mut ByteReader<'_>,
    ) -> Result<Slots, Damaged> {
        let mut slots = Slots::new(Arc::clone(&layout));
        slots.free = from.i64s()?;
        let fields = EntryFields::typed(&layout, &types.keys, &types.outputs);
        let count = fields.count(from)?;
        slots.capacity = (count + slots.free.len()).next_power_of_two().max(FIRST_CAPACITY);
        slots.memory = EntryMemory::zeroed(slots.capacity * layout.stride);
        slots.used = count;
        // SAFETY: there is room for all slots, those that are free among them.
        unsafe { fields.read(slots.memory.start(), count, from, &mut slots.arena)? };
        slots.arena.note_compact();
        slots.spread()?;
        Ok(slots)
    }

    /// Brings entries, which follow each other so far, to the places of their slots.
    fn spread(&mut self) -> Result<(), Damaged> {
        let (count, all) = (self.used, self.used + self.free.len());
        let mut is_free = vec![false; all];
        for &slot in &self.free {
            match usize::try_from(slot).ok().and_then(|slot| is_free.get_mut(slot)) {
                Some(free) if !*free => *free = true,
                _ => return Err(Damaged(format!("slot {slot} is free twice, or is none"))),
            }
        }
        let key = self.layout.keys[0].offset;
        let numbers: Vec<usize> = (0..all).filter(|&slot| !is_free[slot]).collect();
        let is_right = |(place, &slot): (usize, &usize)| {
            let entry = self.place(place as i64);
            // SAFETY: an entry of the layout.
            unsafe { entry::hash(entry) == HASH_OF_NOTHING && entry::read::<i64>(entry, key) == slot as i64 }
        };
        Damaged::unless(numbers.iter().enumerate().all(is_right), "a slot has another number than it should")?;
        // From behind: no slot is at a lower place than its entry has so far.
        for (place, &slot) in numbers.iter().enumerate().rev().filter(|&(place, &slot)| place != slot) {
            let (from, into) = (self.place(place as i64), self.place(slot as i64));
            // SAFETY: two places, of which the second is free; an entry moves with all that it owns.
            unsafe {
                into.copy_from_nonoverlapping(from, self.layout.stride);
                entry::write(from, 0, 0u64);
            }
        }
        debug_assert_eq!(numbers.len(), count, "slots are free or not");
        self.used = all;
        Ok(())
    }

    /// Bytes of memory, without those of objects.
    pub fn bytes(&self) -> usize {
        let far = self.far.len() * size_of::<((i64, usize), Exact)>();
        self.memory.bytes() + self.free.capacity() * size_of::<i64>() + self.arena.bytes() + far
    }

    /// Bytes of the objects; linear in the number of slots, if they have any.
    pub fn object_bytes(&self) -> usize {
        if !object::has_objects(&self.layout) {
            return 0;
        }
        // SAFETY: entries of the layout.
        self.occupied().map(|e| unsafe { object::bytes(&self.layout, e) }).sum()
    }

    /// The entry of a slot that is not free.
    fn entry(&self, slot: i64) -> *mut u8 {
        assert!((0..self.used as i64).contains(&slot), "{slot} is a slot");
        let place = self.place(slot);
        // SAFETY: every entry, also an empty one, starts with its hash.
        assert!(unsafe { entry::hash(place) } != 0, "slot {slot} is not free");
        place
    }

    /// The place of a slot below the capacity.
    fn place(&self, slot: i64) -> *mut u8 {
        debug_assert!((0..self.capacity as i64).contains(&slot));
        // SAFETY: the memory holds `capacity` entries.
        unsafe { self.memory.start().add(slot as usize * self.layout.stride) }
    }

    fn occupied(&self) -> impl Iterator<Item = *mut u8> + use<'_> {
        let places = (0..self.used as i64).map(|slot| self.place(slot));
        // SAFETY: every entry, also an empty one, starts with its hash.
        places.filter(|&e| unsafe { entry::hash(e) } != 0)
    }

    fn grow(&mut self) {
        let larger = EntryMemory::zeroed(2 * self.capacity * self.layout.stride);
        // SAFETY: two blocks; entries move with all that they own.
        unsafe { larger.start().copy_from_nonoverlapping(self.memory.start(), self.used * self.layout.stride) };
        self.memory = larger;
        self.capacity *= 2;
    }

    /// Merges an entry whose strings and lists live elsewhere: of lists it gets copies.
    ///
    /// # Safety
    /// Both are entries of the layout, ours to write; `into` is one of the slots; the strings and lists of `from` are alive.
    unsafe fn merge_foreign(&mut self, into: *mut u8, from: *mut u8) {
        // SAFETY: promised by the caller.
        unsafe {
            list::copy(&self.layout, from, &mut self.arena);
            accumulator::merge_all(&self.layout, into, from, &mut self.arena);
        }
        for &offset in &self.strings {
            // SAFETY: the entry has a string there: one of the arena, `NONE`, or now the one of `from`.
            unsafe {
                let string: Str = entry::read(into, offset);
                if string != Str::NONE && string == entry::read(from, offset) {
                    let kept = self.arena.keep(string.as_bytes());
                    entry::write(into, offset, kept);
                }
            }
        }
    }

    /// Frees strings and lists that nothing holds any more when they are more than half of the arena: linear in the slots, so
    /// amortised by the bytes kept since.
    fn compact(&mut self) {
        if self.arena.has_garbage() {
            let entries: Vec<*mut u8> = self.occupied().collect();
            // SAFETY: all occupied entries of the layout, whose strings live in the arena.
            unsafe { list::compact(&self.layout, &entries, &self.strings, true, &mut self.arena) };
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: entries of the layout, which are not used any more.
        unsafe { object::release_all(&self.layout, self.occupied()) };
    }
}
