//! Keys as dense numbers: what keyed operators and lookup tables find rows by.

use crate::arena::Arena;
use crate::columns::key_columns;
use crate::encoding::EntryFields;
use crate::entry;
use crate::memory::EntryMemory;
use crate::table::{Table, TableHint};
use arrow_array::ArrayRef;
use millstream_abi::{Accumulator, EntryLayout, Slot, TableHeader};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::DataType;
use std::marker::PhantomData;
use std::sync::Arc;

/// Number of the group of a key that a [`GroupLookup`] has not found.
pub(crate) const NO_GROUP: u64 = u64::MAX;

/// A table that numbers its keys: 0, 1, 2, … in the order of insertion. One thread at a time changes it; when it is
/// complete, any number may look keys up ([`GroupTable::lookup`]).
///
/// Keys are never removed. Who has forgotten most groups makes a new table of those that are left.
#[derive(Debug)]
pub struct GroupTable {
    table: Table,
    /// The entry of each group.
    entries: Vec<*const u8>,
    /// Where the entries of `table` were when `entries` was made.
    memory: *mut u8,
    /// Offset of the number in entries.
    number: usize,
}

// SAFETY: the pointers are into the table, which is `Send`.
unsafe impl Send for GroupTable {}
// SAFETY: methods on shared values only read.
unsafe impl Sync for GroupTable {}

impl GroupTable {
    /// An empty table for keys of the layout.
    ///
    /// # Panics
    /// When the layout has other accumulators than one [`Accumulator::Group`].
    pub fn new(layout: Arc<EntryLayout>) -> GroupTable {
        GroupTable::with_room(layout, 0)
    }

    /// The same, with room for about as many keys, so that the table need not grow and move its entries.
    ///
    /// # Panics
    /// As for [`GroupTable::new`].
    pub fn with_room(layout: Arc<EntryLayout>, keys: usize) -> GroupTable {
        let [(Accumulator::Group, number)] = layout.accumulators[..] else {
            unreachable!("the entries of groups have a number and nothing else")
        };
        let mut table = Table::with_hint(layout, false, TableHint { keys, ..TableHint::default() });
        // SAFETY: a table of our own.
        let memory = unsafe { (*Table::header_of(&raw mut table)).entries };
        GroupTable { table, entries: Vec::new(), memory, number }
    }

    /// What generated code gets, for `ExecContext::table`: stays at its address as long as the table does.
    ///
    /// # Safety
    /// `groups` points to a group table.
    pub unsafe fn header_of(groups: *mut GroupTable) -> *mut TableHeader {
        // SAFETY: places within the value; nothing is read.
        unsafe { Table::header_of(&raw mut (*groups).table) }
    }

    /// Inserts a key that the table does not have, gives it the next number and returns its entry: for
    /// `ExecContext::insert_key`.
    ///
    /// # Safety
    /// As for [`Table::insert`].
    pub unsafe fn insert(&mut self, hash: u64, null_mask: u64, keys: &[Slot]) -> *mut u8 {
        // SAFETY: forwarded; the entry has the number at its offset.
        let inserted = unsafe {
            let inserted = self.table.insert(hash, null_mask, keys);
            entry::write(inserted, self.number, self.entries.len() as u64);
            inserted
        };
        self.entries.push(inserted);
        self.follow_entries();
        inserted
    }

    /// Finds all entries where they are if the table has grown since, and they have moved.
    fn follow_entries(&mut self) {
        // SAFETY: a table of our own.
        let memory = unsafe { (*Table::header_of(&raw mut self.table)).entries };
        if memory != self.memory {
            self.find_entries();
        }
    }

    /// The layout of entries.
    pub fn layout(&self) -> &Arc<EntryLayout> {
        self.table.layout()
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no group.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory that it owns.
    pub fn bytes(&self) -> usize {
        self.table.bytes() + self.entries.capacity() * size_of::<*const u8>()
    }

    /// Whether a column of the group's key is NULL: then it equals no other key in a join.
    pub fn is_null(&self, group: u64) -> bool {
        // SAFETY: an entry of the table.
        unsafe { entry::null_mask(self.table.layout(), self.entries[group as usize]) != 0 }
    }

    /// The keys of groups as columns of the types of the key columns.
    pub fn columns(&self, groups: &[u64], types: &[DataType]) -> Vec<ArrayRef> {
        let rows: Vec<*const u8> = groups.iter().map(|&group| self.entries[group as usize]).collect();
        // SAFETY: entries of the table, which is borrowed.
        unsafe { key_columns(self.table.layout(), &rows, types) }
    }

    /// Writes the groups from number `first` on.
    pub fn save_from(&self, first: usize, out: &mut ByteWriter) {
        // SAFETY: entries of the table, which is borrowed.
        unsafe { EntryFields::new(self.table.layout()).write_all(&self.entries[first..], out) };
    }

    /// Adds the groups that [`GroupTable::save_from`] has written, which have the numbers that they had: `first` is how many there are
    /// here. `types` are those of the key columns. After an error the table is not to be used.
    ///
    /// # Errors
    /// When the bytes are not what has been written.
    pub fn restore(&mut self, types: &[DataType], from: &mut ByteReader<'_>) -> Result<(), Damaged> {
        let layout = Arc::clone(self.table.layout());
        let fields = EntryFields::typed(&layout, types, &[]);
        let (first, count) = (self.entries.len(), fields.count(from)?);
        let (memory, mut arena) = (EntryMemory::zeroed(count * layout.stride), Arena::default());
        // SAFETY: there is room for `count` entries.
        unsafe { fields.read(memory.start(), count, from, &mut arena)? };
        if first == 0 {
            let hint = TableHint { keys: count, ..TableHint::default() };
            self.table = Table::with_hint(Arc::clone(&layout), false, hint);
        }
        for i in 0..count {
            // SAFETY: one of the entries.
            let read = unsafe { memory.start().add(i * layout.stride) };
            // SAFETY: the entry is of the layout, and its strings are in the arena.
            let is_next = unsafe {
                entry::read::<u64>(read, self.number) == (first + i) as u64 && self.table.find(read).is_none()
            };
            Damaged::unless(is_next, format_args!("group {} has another number, or the key of another", first + i))?;
            // SAFETY: as above; the key is not there yet.
            unsafe { self.add(read) };
        }
        Ok(())
    }

    /// Adds some groups of a table of the same keys: in this order they get the next numbers.
    ///
    /// # Errors
    /// When the key of one is here already. Those before it have been added.
    pub fn adopt(&mut self, other: &GroupTable, groups: &[u64]) -> Result<(), Damaged> {
        for &group in groups {
            let from = other.entries[group as usize];
            // SAFETY: an entry of a table with the same layout, which is borrowed.
            let is_new = unsafe { self.table.find(from).is_none() };
            Damaged::unless(is_new, format_args!("two partitions have the key of group {group}"))?;
            // SAFETY: as above.
            unsafe { self.add(from) };
        }
        Ok(())
    }

    /// Adds a group with the key of an entry and the next number.
    ///
    /// # Safety
    /// It is an entry of the layout whose strings are alive, and its key is not there yet.
    unsafe fn add(&mut self, from: *const u8) {
        // SAFETY: promised by the caller; the fresh place is ours to write.
        unsafe {
            let fresh = self.table.claim_for(from);
            fresh.copy_from_nonoverlapping(from, self.table.layout().stride);
            entry::write(fresh, self.number, self.entries.len() as u64);
            self.table.keep_keys(fresh);
            self.entries.push(fresh);
        }
        self.follow_entries();
    }

    /// The hash of some of the columns of a group's key, by their places in it: the same as that of a row with these values, so what chooses
    /// the partition of such a row.
    pub fn hash_of(&self, group: u64, columns: &[usize]) -> u64 {
        // SAFETY: an entry of the table.
        unsafe { entry::hash_of_keys(self.table.layout(), self.entries[group as usize], columns) }
    }

    /// Notes where the entries of the table are.
    fn find_entries(&mut self) {
        // SAFETY: a table of our own.
        self.memory = unsafe { (*Table::header_of(&raw mut self.table)).entries };
        for occupied in self.table.occupied() {
            // SAFETY: every entry has a number below the length.
            let number = unsafe { entry::read::<u64>(occupied, self.number) };
            self.entries[number as usize] = occupied;
        }
    }

    /// A view for looking keys up: one for each thread that does.
    pub fn lookup(&self) -> GroupLookup<'_> {
        let words = self.table.layout().stride.div_ceil(size_of::<u128>());
        let mut missing = vec![0u128; words].into_boxed_slice();
        // SAFETY: the memory is as long and as aligned as an entry.
        unsafe { entry::write(missing.as_mut_ptr().cast(), self.number, NO_GROUP) };
        GroupLookup { header: self.table.header_for_reading(), missing, table: PhantomData }
    }
}

/// A read-only view of a [`GroupTable`]. Its header is for `ExecContext::table`; a key that is not there gets the group
/// `u64::MAX`, and nothing is inserted.
#[derive(Debug)]
pub struct GroupLookup<'a> {
    header: TableHeader,
    /// The entry of all keys that are not there; of 16-byte words for their alignment.
    missing: Box<[u128]>,
    table: PhantomData<&'a GroupTable>,
}

// SAFETY: the header points into a table that is borrowed and only read; the rest is owned.
unsafe impl Send for GroupLookup<'_> {}

impl GroupLookup<'_> {
    /// What generated code gets: stays at its address as long as the view does. Programs that assign groups only read
    /// what it points to.
    ///
    /// # Safety
    /// `lookup` points to a view.
    pub unsafe fn header_of(lookup: *mut GroupLookup<'_>) -> *mut TableHeader {
        // SAFETY: a place within the value; nothing is read.
        unsafe { &raw mut (*lookup).header }
    }

    /// The entry of a key that is not there: what `ExecContext::insert_key` returns.
    pub fn missing(&mut self) -> *mut u8 {
        self.missing.as_mut_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use millstream_abi::{HASH_SEED, Phys, hash_finish, hash_word};

    #[test]
    fn groups_are_numbered_in_order_and_keep_their_keys_when_the_table_grows() {
        let layout = Arc::new(EntryLayout::new(&[(Phys::I64, true)], &[Accumulator::Group]));
        let mut groups = GroupTable::new(layout);
        let hash_of = |key: i64| {
            let word = if key == 7 { HASH_SEED } else { key as u64 };
            hash_finish(hash_word(HASH_SEED, word))
        };
        for key in 0..500i64 {
            // SAFETY: the keys are distinct.
            unsafe { groups.insert(hash_of(key), u64::from(key == 7), &[Slot::of(key.to_le_bytes())]) };
        }
        assert_eq!(groups.len(), 500);
        assert!(groups.is_null(7) && !groups.is_null(8));
        let columns = groups.columns(&[499, 0, 7, 123, 0], &[DataType::BigInt]);
        let keys: Vec<Option<i64>> = columns[0].as_primitive::<Int64Type>().iter().collect();
        assert_eq!(keys, [Some(499), Some(0), None, Some(123), Some(0)]);
        // The first, and those that have come since.
        let saved = |first: usize| {
            let mut saved = ByteWriter::new();
            groups.save_from(first, &mut saved);
            saved.into_bytes()
        };
        let restored = |mut restored: GroupTable, bytes: &[u8]| {
            let mut reader = ByteReader::new(bytes);
            restored.restore(&[DataType::BigInt], &mut reader)?;
            reader.end().map(|()| restored)
        };
        let restore = |bytes: &[u8]| restored(GroupTable::new(Arc::clone(groups.layout())), bytes);
        let (later, saved) = (saved(480), saved(0));
        let mut parts = GroupTable::new(Arc::clone(groups.layout()));
        for key in 0..480i64 {
            // SAFETY: the keys are distinct.
            unsafe { parts.insert(hash_of(key), u64::from(key == 7), &[Slot::of(key.to_le_bytes())]) };
        }
        let parts = restored(parts, &later).unwrap();
        assert_eq!(parts.columns(&[499, 0, 7, 123, 0], &[DataType::BigInt]), columns);
        assert!(restored(parts, &later).is_err(), "they are there");
        assert!(restore(&later).is_err(), "others are missing before them");
        let mut restored = restore(&saved).unwrap();
        assert_eq!(restored.columns(&[499, 0, 7, 123, 0], &[DataType::BigInt]), columns);
        // SAFETY: the key is new.
        unsafe { restored.insert(77, 0, &[Slot::of(1000i64.to_le_bytes())]) };
        assert_eq!((restored.len(), restored.is_null(7), restored.is_null(500)), (501, true, false));
        assert!((0..saved.len()).all(|length| restore(&saved[..length]).is_err()));
        let mut some = GroupTable::new(Arc::clone(groups.layout()));
        some.adopt(&groups, &[499, 7]).unwrap();
        some.adopt(&groups, &[0]).unwrap();
        assert_eq!(some.columns(&[0, 1, 2], &[DataType::BigInt]), groups.columns(&[499, 7, 0], &[DataType::BigInt]));
        assert_eq!([0, 1, 2].map(|group| some.hash_of(group, &[0])), [hash_of(499), hash_of(7), hash_of(0)]);
        assert!(some.adopt(&groups, &[5, 7]).is_err(), "it has that key");
        let mut lookup = groups.lookup();
        // SAFETY: the dummy entry has its number at the offset of all.
        assert_eq!(unsafe { entry::read::<u64>(lookup.missing(), groups.number) }, NO_GROUP);
    }
}
