//! A plain in-memory implementation of the tables that programs update.
//!
//! An entry is in one place only: whoever looks for the array of a slice finds there what the hash table had of its keys,
//! and the other way round. So no merge changes what a sum of floats looks like.

use crate::execute::TableHooks;
use crate::interpreter::update::dense_key;
use crate::interpreter::update::hash_key;
use millstream_abi::{Accumulator, ArrayLayout, EntryLayout, ExecContext, KeyRange, Phys, Slot, Str, TableHeader};
use std::collections::{BTreeMap, BTreeSet};

/// Tables by slice.
#[derive(Debug)]
pub struct MemoryTables {
    layout: EntryLayout,
    tables: BTreeMap<i64, Box<MemoryTable>>,
    arrays: BTreeMap<i64, Box<MemoryArray>>,
}

/// The array table of a slice.
#[derive(Debug)]
struct MemoryArray {
    header: TableHeader,
    range: KeyRange,
    array: ArrayLayout,
    _memory: Vec<u128>,
}

/// One table: entries in words of 16 bytes. When it grows, it gets a dense region around the key that is inserted, if its
/// layout has a key for that.
#[derive(Debug)]
struct MemoryTable {
    header: TableHeader,
    memory: Vec<u128>,
    dense_memory: Vec<u128>,
    /// Occupied entries of the hash part.
    hashed: u64,
    /// All occupied entries.
    len: u64,
    /// Long strings of keys and accumulators.
    strings: Vec<Box<[u8]>>,
    /// The updates of each object, as text. An accumulator holds the number of its object from 1.
    objects: Vec<Vec<String>>,
}

impl MemoryTables {
    /// No tables.
    pub fn new(layout: EntryLayout) -> MemoryTables {
        MemoryTables { layout, tables: BTreeMap::new(), arrays: BTreeMap::new() }
    }

    /// Hooks for programs of the layout; they hold a pointer to `self`, which must stay where it is while they are used.
    pub fn hooks(&mut self) -> TableHooks {
        // SAFETY: the callbacks below expect these tables as host.
        unsafe {
            TableHooks::new(find_slice, insert_key, keep_string, update_object, (&raw mut *self).cast())
                .with_arrays(find_array)
        }
    }

    /// The hash table of a slice.
    fn table(&mut self, slice: i64) -> &mut MemoryTable {
        let layout = &self.layout;
        self.tables.entry(slice).or_insert_with(|| Box::new(MemoryTable::new(layout, 4, 0, 0)))
    }

    /// Moves what the array of a slice has to its hash table.
    fn leave_array(&mut self, slice: i64) {
        let Some(array) = self.arrays.remove(&slice) else { return };
        let (layout, key) = (self.layout.clone(), self.layout.keys[0]);
        for (number, entry) in array.entries() {
            let word = array.range.first.wrapping_add(number as i64);
            let slot = Slot(i128::from(word).to_le_bytes());
            // SAFETY: the slot holds a value of any integer type; the place is an empty entry of the layout.
            unsafe {
                let hash = hash_key(&layout, &[slot], 0);
                let place = self.table(slice).place(&layout, hash, Some(word));
                place.cast::<u64>().write(hash);
                std::ptr::copy_nonoverlapping(slot.0.as_ptr(), place.add(key.offset), key.phys.size());
                copy_accumulators(&layout, entry, place);
            }
        }
    }

    /// The array of a slice, with what the hash table has of its keys.
    fn enter_array(&mut self, slice: i64, range: KeyRange, array: ArrayLayout) -> *mut TableHeader {
        self.leave_array(slice);
        let layout = self.layout.clone();
        let mut made = Box::new(MemoryArray::new(&layout, range, array));
        if let Some(table) = self.tables.remove(&slice) {
            for (hash, entry) in table.occupied(&layout) {
                // SAFETY: an entry of the layout; the places are those of an entry that is not there yet.
                unsafe {
                    let key = key_of(&layout, entry);
                    match key.and_then(|key| range.index(key)) {
                        Some(number) => {
                            let place = made.entry(number);
                            copy_accumulators(&layout, entry, place);
                            place.add(array.mark).cast::<u64>().write(made.mark_of(place));
                        }
                        None => {
                            let place = self.table(slice).place(&layout, hash, key);
                            std::ptr::copy_nonoverlapping(entry, place, layout.stride);
                        }
                    }
                }
            }
        }
        let header = &raw mut made.header;
        self.arrays.insert(slice, made);
        header
    }

    /// Every entry as text, sorted: slice, null mask, keys, accumulators; of an object its updates, each with the row.
    pub fn entries(&mut self) -> Vec<String> {
        self.arrays.keys().copied().collect::<Vec<_>>().into_iter().for_each(|slice| self.leave_array(slice));
        let mut texts = Vec::new();
        for (slice, table) in &self.tables {
            for (_, entry) in table.occupied(&self.layout) {
                // SAFETY: it is occupied.
                texts.push(format!("{slice}: {}", unsafe { self.text(table, entry) }));
            }
        }
        texts.sort();
        texts
    }

    /// The hashes of all keys.
    pub fn hashes(&self) -> BTreeSet<u64> {
        self.tables.values().flat_map(|table| table.occupied(&self.layout)).map(|(hash, _)| hash).collect()
    }

    /// The hash of each group, by group.
    pub fn group_hashes(&self) -> Vec<u64> {
        let group = self.layout.accumulators.iter().find(|a| a.0 == Accumulator::Group);
        let offset = group.map(|a| a.1).expect("the entries have groups");
        let entries = self.tables.values().flat_map(|table| table.occupied(&self.layout));
        // SAFETY: the layout places the group there.
        let numbered = entries.map(|(hash, entry)| (unsafe { entry.add(offset).cast::<u64>().read() }, hash));
        let sorted: BTreeMap<u64, u64> = numbered.collect();
        assert!(sorted.keys().copied().eq(0..sorted.len() as u64), "groups are numbered from 0");
        sorted.into_values().collect()
    }

    /// # Safety
    /// `entry` is an occupied entry of the table.
    unsafe fn text(&self, table: &MemoryTable, entry: *const u8) -> String {
        let mut parts = Vec::new();
        let bits = |offset: usize, size: usize| {
            let mut bytes = [0u8; 16];
            // SAFETY: the layout places a field of this size there.
            unsafe { std::ptr::copy_nonoverlapping(entry.add(offset), bytes.as_mut_ptr(), size) };
            u128::from_le_bytes(bytes)
        };
        let string = |bits: u128| {
            let s = Str::from_bits(bits);
            if s == Str::NONE {
                return "none".into();
            }
            // SAFETY: long strings of entries are owned by the table.
            let bytes = unsafe { s.as_bytes() };
            format!("{:?}", String::from_utf8_lossy(bytes))
        };
        if let Some(offset) = self.layout.null_mask {
            parts.push(format!("nulls {:b}", bits(offset, 8)));
        }
        for key in &self.layout.keys {
            let bits = bits(key.offset, key.phys.size());
            parts.push(if key.phys == Phys::Str { string(bits) } else { format!("{bits:x}") });
        }
        for (accumulator, offset) in &self.layout.accumulators {
            let bits = bits(*offset, accumulator.size());
            let float = |bits: u128| super::float_text(f64::from_bits(bits as u64));
            parts.push(match accumulator {
                Accumulator::MinStr | Accumulator::MaxStr => string(bits),
                Accumulator::MinF64 | Accumulator::MaxF64 => float(bits),
                Accumulator::Object(..) => match bits.checked_sub(1) {
                    Some(number) => format!("[{}]", table.objects[number as usize].join(" ")),
                    None => "no object".into(),
                },
                Accumulator::SumF64 => format!("{} + {}", float(bits), float(bits >> 64)),
                _ => format!("{bits:x}"),
            });
        }
        parts.join(", ")
    }
}

impl MemoryArray {
    fn new(layout: &EntryLayout, range: KeyRange, array: ArrayLayout) -> MemoryArray {
        let mut memory = vec![0u128; array.bytes(range.len as usize).div_ceil(16)];
        let header = TableHeader {
            entries: std::ptr::null_mut(),
            mask: 0,
            dense: memory.as_mut_ptr().cast(),
            dense_first: range.first,
            dense_len: range.len,
        };
        let made = MemoryArray { header, range, array, _memory: memory };
        (0..range.len as usize).for_each(|number| {
            // SAFETY: there is an entry for each key.
            unsafe { write_initial(layout, made.entry(number)) }
        });
        made
    }

    fn entry(&self, number: usize) -> *mut u8 {
        self.header.dense.wrapping_add(number * self.array.stride)
    }

    /// What marks an entry that is there: its count, if that is the mark.
    ///
    /// # Safety
    /// It is an entry of the array.
    unsafe fn mark_of(&self, entry: *const u8) -> u64 {
        // SAFETY: promised by the caller.
        if self.array.sets_mark { 1 } else { unsafe { entry.add(self.array.mark).cast::<u64>().read() } }
    }

    /// Number and address of the entries that are there.
    fn entries(&self) -> Vec<(usize, *mut u8)> {
        let entries = (0..self.range.len as usize).map(|number| (number, self.entry(number)));
        // SAFETY: there is an entry for each key.
        entries.filter(|(_, entry)| unsafe { entry.add(self.array.mark).cast::<u64>().read() } != 0).collect()
    }
}

/// Copies the accumulators of an entry.
///
/// # Safety
/// Both have those of the layout, at the same offsets.
unsafe fn copy_accumulators(layout: &EntryLayout, from: *const u8, to: *mut u8) {
    for &(accumulator, offset) in &layout.accumulators {
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from.add(offset), to.add(offset), accumulator.size()) };
    }
}

/// Gives an entry its first accumulators, but for groups.
///
/// # Safety
/// It has the accumulators of the layout.
unsafe fn write_initial(layout: &EntryLayout, entry: *mut u8) {
    for &(accumulator, offset) in &layout.accumulators {
        let initial = accumulator.initial();
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(initial.as_ptr(), entry.add(offset), accumulator.size()) };
    }
}

impl MemoryTable {
    fn new(layout: &EntryLayout, entries: usize, dense_first: i64, dense_len: u64) -> MemoryTable {
        let memory = |entries: usize| vec![0u128; (entries * layout.stride).div_ceil(16)];
        let (mut memory, mut dense_memory) = (memory(entries), memory(dense_len as usize));
        let header = TableHeader {
            entries: memory.as_mut_ptr().cast(),
            mask: entries as u64 - 1,
            dense: dense_memory.as_mut_ptr().cast(),
            dense_first,
            dense_len,
        };
        MemoryTable { header, memory, dense_memory, hashed: 0, len: 0, strings: Vec::new(), objects: Vec::new() }
    }

    /// Hash and address of every entry that holds a key.
    fn occupied(&self, layout: &EntryLayout) -> Vec<(u64, *mut u8)> {
        let header = &self.header;
        let parts = [(header.entries, header.mask + 1), (header.dense, header.dense_len)];
        let places = parts.into_iter().flat_map(|(first, count)| (0..count).map(move |index| (first, index)));
        // SAFETY: the parts are as large as the header says.
        let entries = places.map(|(first, index)| unsafe { first.add(index as usize * layout.stride) });
        // SAFETY: an entry starts with its hash.
        entries.map(|entry| (unsafe { entry.cast::<u64>().read() }, entry)).filter(|(hash, _)| *hash != 0).collect()
    }

    fn keep(&mut self, string: Str) -> Str {
        if string.is_inline() {
            return string;
        }
        // SAFETY: the caller's string is alive during the callback.
        self.strings.push(unsafe { string.as_bytes() }.into());
        Str::new(self.strings.last().expect("it was just pushed"))
    }

    /// A place for a new entry of a key, after growing the table if the hash part would be more than half full.
    fn place(&mut self, layout: &EntryLayout, hash: u64, key: Option<i64>) -> *mut u8 {
        self.len += 1;
        if let Some(entry) = key.and_then(|key| self.header.dense_entry(key, layout.stride)) {
            return entry;
        }
        if (self.hashed + 1) * 2 > self.header.mask + 1 {
            let entries = (self.header.mask as usize + 1) * 2;
            let (first, len) = key.map_or((0, 0), |key| (key.wrapping_sub(3), entries as u64));
            let mut larger = MemoryTable::new(layout, entries, first, len);
            for (hash, entry) in self.occupied(layout) {
                // SAFETY: both tables have entries of the layout's stride; `place` gives an empty one.
                unsafe {
                    let to = larger.place(layout, hash, key_of(layout, entry));
                    std::ptr::copy_nonoverlapping(entry, to, layout.stride);
                }
            }
            (self.memory, self.dense_memory) = (larger.memory, larger.dense_memory);
            (self.header, self.hashed, self.len) = (larger.header, larger.hashed, larger.len);
            return self.place(layout, hash, key);
        }
        self.hashed += 1;
        let mut index = hash & self.header.mask;
        loop {
            // SAFETY: the index is masked.
            let entry = unsafe { self.header.entries.add(index as usize * layout.stride) };
            // SAFETY: an entry starts with its hash.
            if unsafe { entry.cast::<u64>().read() } == 0 {
                return entry;
            }
            index = (index + 1) & self.header.mask;
        }
    }
}

/// The key of an entry that can be in a dense region.
///
/// # Safety
/// The entry has the null mask and keys of the layout.
unsafe fn key_of(layout: &EntryLayout, entry: *const u8) -> Option<i64> {
    let key = layout.dense_key()?;
    // SAFETY: promised by the caller.
    unsafe {
        let is_null = layout.null_mask.is_some_and(|offset| entry.add(offset).cast::<u64>().read() != 0);
        let field = entry.add(key.offset);
        (!is_null).then(|| match key.phys {
            Phys::I8 => field.cast::<i8>().read() as i64,
            Phys::I16 => field.cast::<i16>().read() as i64,
            Phys::I32 => field.cast::<i32>().read() as i64,
            _ => field.cast::<i64>().read(),
        })
    }
}

/// # Safety
/// The context's host is a [`MemoryTables`].
unsafe extern "C" fn find_slice(context: *mut ExecContext, slice_start: i64) {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    tables.leave_array(slice_start);
    context.slice_start = slice_start;
    context.table = &raw mut tables.table(slice_start).header;
}

/// # Safety
/// The context's host is a [`MemoryTables`], whose layout allows arrays.
unsafe extern "C" fn find_array(context: *mut ExecContext, slice_start: i64, first: i64, len: u64, count: u64) {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    let array = tables.layout.array(usize::try_from(count).ok().filter(|&number| number < usize::MAX));
    let array = array.expect("the layout allows arrays");
    context.slice_start = slice_start;
    context.table = tables.enter_array(slice_start, KeyRange { first, len }, array);
}

/// # Safety
/// As [`find_slice`], and the key fits the layout.
unsafe extern "C" fn insert_key(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    let layout = &tables.layout;
    let table = tables.tables.get_mut(&context.slice_start).expect("the slice was found before");
    let key = layout.dense_key().filter(|_| null_mask == 0).map(|key| {
        // SAFETY: promised by the caller.
        dense_key(key.phys, unsafe { &*keys })
    });
    let entry = table.place(layout, hash, key);
    // SAFETY: the entry has the layout's fields; there is a slot for each key.
    unsafe {
        entry.cast::<u64>().write(hash);
        if let Some(offset) = layout.null_mask {
            entry.add(offset).cast::<u64>().write(null_mask);
        }
        for (i, key) in layout.keys.iter().enumerate() {
            let mut slot = *keys.add(i);
            if key.phys == Phys::Str {
                slot = Slot(table.keep(Str::from_bits(u128::from_le_bytes(slot.0))).bits().to_le_bytes());
            }
            std::ptr::copy_nonoverlapping(slot.0.as_ptr(), entry.add(key.offset), key.phys.size());
        }
        write_initial(layout, entry);
        if let Some((_, offset)) = layout.accumulators.iter().find(|(a, _)| *a == Accumulator::Group) {
            entry.add(*offset).cast::<u64>().write(table.len - 1);
        }
    }
    entry
}

/// # Safety
/// As [`find_slice`]; `string` is alive.
unsafe extern "C" fn keep_string(context: *mut ExecContext, string: *mut Str) {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    let table = tables.tables.get_mut(&context.slice_start).expect("the slice was found before");
    // SAFETY: promised by the caller.
    unsafe { *string = table.keep(*string) };
}

/// Notes the update.
///
/// # Safety
/// As [`find_slice`]; `accumulator` is one of component `component` of the context's table, and a value is alive.
unsafe extern "C" fn update_object(
    context: *mut ExecContext,
    accumulator: *mut u8,
    component: u32,
    value: *const Slot,
    row: u64,
) {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    let Accumulator::Object(_, phys) = tables.layout.accumulators[component as usize].0 else {
        unreachable!("component {component} is not an object")
    };
    let table = tables.tables.get_mut(&context.slice_start).expect("the slice was found before");
    // SAFETY: promised by the caller.
    let text = match unsafe { value.as_ref() } {
        None => "NULL".into(),
        Some(slot) if phys == Phys::Str => {
            let string = Str::from_bits(u128::from_le_bytes(slot.0));
            // SAFETY: promised by the caller.
            format!("{:?}", String::from_utf8_lossy(unsafe { string.as_bytes() }))
        }
        Some(slot) => format!("{:x}", u128::from_le_bytes(slot.0)),
    };
    // SAFETY: the accumulator is eight bytes, aligned to them.
    let number = unsafe { &mut *accumulator.cast::<u64>() };
    if *number == 0 {
        table.objects.push(Vec::new());
        *number = table.objects.len() as u64;
    }
    table.objects[*number as usize - 1].push(format!("{row}:{text}"));
}
