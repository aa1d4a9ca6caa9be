//! A plain in-memory implementation of the tables that programs update.

use crate::execute::TableHooks;
use crate::interpreter::update::dense_key;
use crate::interpreter::update::hash_key;
use crate::program::Update;
use millstream_abi::exact::{Fixed, nearest};
use millstream_abi::{
    Accumulator, ArrayLayout, EntryLayout, ExecContext, MOST_PACKED, PackedKey, Phys, Slot, Str, TableHeader, ValueLog,
};
use std::collections::{BTreeMap, BTreeSet};

/// Values that a log has room for.
const LOG_ROOM: usize = 3;

/// Tables by slice.
#[derive(Debug)]
pub struct MemoryTables {
    form: Form,
    tables: BTreeMap<i64, Box<MemoryTable>>,
}

/// What entries are like.
#[derive(Debug, Clone)]
struct Form {
    layout: EntryLayout,
    /// Those of dense regions, if they are arrays.
    array: Option<ArrayLayout>,
}

/// One table: entries in words of 16 bytes. When it grows, it gets a dense region around the key that is inserted, if its
/// layout has a key for that.
#[derive(Debug)]
struct MemoryTable {
    header: TableHeader,
    memory: Vec<u128>,
    dense_memory: Vec<u128>,
    _directory: Vec<u32>,
    /// Occupied entries of the hash part.
    hashed: u64,
    /// All entries that were inserted.
    len: u64,
    /// Long strings of keys and accumulators.
    strings: Vec<Box<[u8]>>,
    /// The updates of each object, as text. An accumulator holds the number of its object from 1.
    objects: Vec<Vec<String>>,
    /// For the lists of the layout, with room for a few values, and what is in them.
    logs: Vec<ValueLog>,
    logged: Vec<([u32; LOG_ROOM], [u64; LOG_ROOM])>,
    /// Updates of sums of doubles by numbers that are far.
    far: Vec<String>,
}

/// A copy of an entry.
struct Copied {
    hash: u64,
    words: Vec<u128>,
}

impl Copied {
    /// # Safety
    /// It is an entry of the layout.
    unsafe fn of(layout: &EntryLayout, entry: *const u8) -> Copied {
        let mut words = vec![0u128; layout.stride.div_ceil(16)];
        // SAFETY: promised by the caller; an entry starts with its hash.
        unsafe {
            std::ptr::copy_nonoverlapping(entry, words.as_mut_ptr().cast(), layout.stride);
            Copied { hash: entry.cast::<u64>().read(), words }
        }
    }

    /// The entry of a key that is in an array.
    ///
    /// # Safety
    /// It is one of an array of the layout.
    unsafe fn of_array(layout: &EntryLayout, entry: *const u8, key: i64) -> Copied {
        let mut words = vec![0u128; layout.stride.div_ceil(16)];
        let slot = Slot(i128::from(key).to_le_bytes());
        let (place, column) = (words.as_mut_ptr().cast::<u8>(), layout.keys[0]);
        // SAFETY: promised by the caller; the slot holds a value of any integer type.
        unsafe {
            let hash = hash_key(layout, &[slot], 0);
            place.cast::<u64>().write(hash);
            std::ptr::copy_nonoverlapping(slot.0.as_ptr(), place.add(column.offset), column.phys.size());
            copy_accumulators(layout, entry, place);
            Copied { hash, words }
        }
    }

    fn entry(&self) -> *const u8 {
        self.words.as_ptr().cast()
    }
}

impl MemoryTables {
    /// No tables, for programs that are the only ones to update them.
    pub fn new(layout: EntryLayout) -> MemoryTables {
        let form = Form { array: layout.array(), layout };
        MemoryTables { form, tables: BTreeMap::new() }
    }

    /// The same for the programs of an update.
    pub fn of(update: &Update) -> MemoryTables {
        let form = Form { array: update.array(), layout: update.layout.clone() };
        MemoryTables { form, tables: BTreeMap::new() }
    }

    /// Hooks for programs of the layout; they hold a pointer to `self`, which must stay where it is while they are used.
    pub fn hooks(&mut self) -> TableHooks {
        // SAFETY: the callbacks below expect these tables as host.
        unsafe { TableHooks::new(find_slice, insert_key, keep_string, update_object, (&raw mut *self).cast()) }
    }

    /// The table of a slice.
    fn table(&mut self, slice: i64) -> &mut MemoryTable {
        let form = &self.form;
        self.tables.entry(slice).or_insert_with(|| Box::new(MemoryTable::new(form, 4, 0, 0)))
    }

    /// Every entry as text, sorted: slice, null mask, keys, accumulators; of an object its updates, each with the row. With the
    /// updates of sums by numbers that are far.
    pub fn entries(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for (slice, table) in &self.tables {
            for copy in table.occupied(&self.form) {
                // SAFETY: it is occupied.
                texts.push(format!("{slice}: {}", unsafe { self.text(table, copy.entry()) }));
            }
            texts.extend(table.far.iter().map(|far| format!("{slice}: far {far}")));
        }
        texts.sort();
        texts
    }

    /// The hashes of all keys.
    pub fn hashes(&self) -> BTreeSet<u64> {
        self.tables.values().flat_map(|table| table.occupied(&self.form)).map(|copy| copy.hash).collect()
    }

    /// The hash of each group, by group.
    pub fn group_hashes(&self) -> Vec<u64> {
        let group = self.form.layout.accumulators.iter().find(|a| a.0 == Accumulator::Group);
        let offset = group.map(|a| a.1).expect("the entries have groups");
        let entries = self.tables.values().flat_map(|table| table.occupied(&self.form));
        // SAFETY: the layout places the group there.
        let numbered = entries.map(|copy| (unsafe { copy.entry().add(offset).cast::<u64>().read() }, copy.hash));
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
            let size = size.min(16);
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
        if let Some(offset) = self.form.layout.null_mask {
            parts.push(format!("nulls {:b}", bits(offset, 8)));
        }
        for key in &self.form.layout.keys {
            let bits = bits(key.offset, key.phys.size());
            parts.push(if key.phys == Phys::Str { string(bits) } else { format!("{bits:x}") });
        }
        for (accumulator, offset) in &self.form.layout.accumulators {
            let bits = bits(*offset, accumulator.size());
            let float = |bits: u128| super::float_text(f64::from_bits(bits as u64));
            parts.push(match accumulator {
                Accumulator::MinStr | Accumulator::MaxStr => string(bits),
                Accumulator::MinF64 | Accumulator::MaxF64 => float(bits),
                Accumulator::Object(..) => match bits.checked_sub(1) {
                    Some(number) => {
                        let logged = table.logged().filter(|(of, _)| u128::from(*of) == bits).map(|(_, text)| text);
                        let all: Vec<String> = table.objects[number as usize].iter().cloned().chain(logged).collect();
                        format!("[{}]", all.join(" "))
                    }
                    None => "no object".into(),
                },
                Accumulator::SumF64 => {
                    // SAFETY: the layout places the sum there.
                    let sum = unsafe { entry.add(*offset).cast::<Fixed>().read_unaligned() };
                    format!("{} of {sum:x?}", super::float_text(nearest(sum)))
                }
                _ => format!("{bits:x}"),
            });
        }
        parts.join(", ")
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
    fn new(form: &Form, entries: usize, dense_first: i64, dense_len: u64) -> MemoryTable {
        let words = |bytes: usize| vec![0u128; bytes.div_ceil(16)];
        let mut memory = words(entries * form.layout.stride);
        let dense_bytes = |array: ArrayLayout| array.bytes(dense_len as usize);
        let mut dense_memory = words(form.array.map_or(dense_len as usize * form.layout.stride, dense_bytes));
        let lists = form.layout.accumulators.iter().filter(|(accumulator, _)| accumulator.is_list()).count();
        let mut logged = vec![([0; LOG_ROOM], [0; LOG_ROOM]); lists];
        let log = |(numbers, values): &mut ([u32; LOG_ROOM], [u64; LOG_ROOM])| ValueLog {
            numbers: numbers.as_mut_ptr(),
            values: values.as_mut_ptr(),
            used: 0,
            room: LOG_ROOM as u64,
        };
        let mut logs: Vec<ValueLog> = logged.iter_mut().map(log).collect();
        // Of small keys, and as if it had been made for fewer of them.
        let (mut packing, mut directory) = ([PackedKey::default(); MOST_PACKED], Vec::new());
        if form.layout.packs() {
            let keys = form.layout.keys.len();
            let bits = (12 / keys).min(3);
            packing[..keys].fill(PackedKey { first: -1, bits: bits as u64 });
            directory = vec![0u32; 1 << (bits * keys)];
        }
        let header = TableHeader {
            directory: directory.as_mut_ptr(),
            directory_len: directory.len() as u64,
            packing,
            logs: logs.as_mut_ptr(),
            entries: memory.as_mut_ptr().cast(),
            mask: entries as u64 - 1,
            dense: dense_memory.as_mut_ptr().cast(),
            dense_first,
            dense_len,
        };
        for index in (0..dense_len as usize).filter(|_| form.array.is_some()) {
            // SAFETY: there is an entry for each key.
            unsafe { write_initial(&form.layout, header.dense.add(index * form.array.map_or(0, |a| a.stride))) };
        }
        MemoryTable {
            header,
            memory,
            dense_memory,
            hashed: 0,
            len: 0,
            strings: Vec::new(),
            objects: Vec::new(),
            logs,
            logged,
            _directory: directory,
            far: Vec::new(),
        }
    }

    /// What is in the logs: number of the object, and the update as text.
    fn logged(&self) -> impl Iterator<Item = (u32, String)> + use<'_> {
        self.logs.iter().zip(&self.logged).flat_map(|(log, (numbers, values))| {
            let pairs = numbers.iter().zip(values).take(log.used as usize);
            pairs.map(|(&number, value)| (number, format!(":{value:x}")))
        })
    }

    /// Moves what is in the logs to the objects.
    fn flush(&mut self) {
        for (number, text) in self.logged().collect::<Vec<_>>() {
            self.objects[number as usize - 1].push(text);
        }
        self.logs.iter_mut().for_each(|log| log.used = 0);
    }

    /// Copies of every entry that holds a key.
    fn occupied(&self, form: &Form) -> Vec<Copied> {
        let (header, layout) = (&self.header, &form.layout);
        let dense = if form.array.is_some() { 0 } else { header.dense_len };
        let parts = [(header.entries, header.mask + 1), (header.dense, dense)];
        let places = parts.into_iter().flat_map(|(first, count)| (0..count).map(move |index| (first, index)));
        // SAFETY: the parts are as large as the header says.
        let entries = places.map(|(first, index)| unsafe { first.add(index as usize * layout.stride) });
        // SAFETY: an entry starts with its hash.
        let entries = entries.filter(|entry| unsafe { entry.cast::<u64>().read() } != 0);
        // SAFETY: entries of the layout.
        let mut copies: Vec<Copied> = entries.map(|entry| unsafe { Copied::of(layout, entry) }).collect();
        for (array, index) in form.array.iter().flat_map(|array| (0..header.dense_len).map(move |i| (array, i))) {
            // SAFETY: there is an entry for each key.
            unsafe {
                let entry = header.dense.add(index as usize * array.stride);
                if [array.mark, array.other_mark].iter().any(|&mark| entry.add(mark).cast::<u64>().read() != 0) {
                    let key = header.dense_first.wrapping_add(index as i64);
                    copies.push(Copied::of_array(layout, entry, key));
                }
            }
        }
        copies
    }

    fn keep(&mut self, string: Str) -> Str {
        if string.is_inline() {
            return string;
        }
        // SAFETY: the caller's string is alive during the callback.
        self.strings.push(unsafe { string.as_bytes() }.into());
        Str::new(self.strings.last().expect("it was just pushed"))
    }

    /// A place for a new entry of a key, after growing the table if the hash part would be more than half full; and whether it
    /// is one of an array, which is fresh.
    fn place(&mut self, form: &Form, hash: u64, key: Option<i64>) -> (*mut u8, bool) {
        let layout = &form.layout;
        self.len += 1;
        if let (Some(array), Some(key)) = (form.array, key)
            && let Some(entry) = self.header.dense_entry(key, array.stride)
        {
            if array.sets_mark {
                // SAFETY: an entry of the array.
                unsafe { entry.add(array.mark).cast::<u64>().write(1) };
            }
            return (entry, true);
        }
        let of_entries = key.filter(|_| form.array.is_none());
        if let Some(entry) = of_entries.and_then(|key| self.header.dense_entry(key, layout.stride)) {
            return (entry, false);
        }
        if (self.hashed + 1) * 2 > self.header.mask + 1 {
            let entries = (self.header.mask as usize + 1) * 2;
            let (first, len) = key.map_or((0, 0), |key| (key.wrapping_sub(3), entries as u64));
            let mut larger = MemoryTable::new(form, entries, first, len);
            for copy in self.occupied(form) {
                // SAFETY: entries of the layout; `place` gives an empty one, or a fresh one of an array.
                unsafe {
                    let (to, is_of_array) = larger.place(form, copy.hash, key_of(layout, copy.entry()));
                    match is_of_array {
                        true => copy_accumulators(layout, copy.entry(), to),
                        false => std::ptr::copy_nonoverlapping(copy.entry(), to, layout.stride),
                    }
                }
            }
            (self.memory, self.dense_memory) = (larger.memory, larger.dense_memory);
            self._directory = larger._directory;
            let logs = self.header.logs;
            (self.header, self.hashed, self.len) = (larger.header, larger.hashed, larger.len);
            self.header.logs = logs;
            return self.place(form, hash, key);
        }
        self.hashed += 1;
        let mut index = hash & self.header.mask;
        loop {
            // SAFETY: the index is masked.
            let entry = unsafe { self.header.entries.add(index as usize * layout.stride) };
            // SAFETY: an entry starts with its hash.
            if unsafe { entry.cast::<u64>().read() } == 0 {
                return (entry, false);
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
    context.slice_start = slice_start;
    context.table = &raw mut tables.table(slice_start).header;
}

/// # Safety
/// As [`find_slice`], and the key fits the layout.
unsafe extern "C" fn insert_key(context: *mut ExecContext, hash: u64, null_mask: u64, keys: *const Slot) -> *mut u8 {
    // SAFETY: promised by the caller.
    let (context, tables) = unsafe { (&mut *context, &mut *(*context).host.cast::<MemoryTables>()) };
    let (form, layout) = (&tables.form, &tables.form.layout);
    let table = tables.tables.get_mut(&context.slice_start).expect("the slice was found before");
    let key = layout.dense_key().filter(|_| null_mask == 0).map(|key| {
        // SAFETY: promised by the caller.
        dense_key(key.phys, unsafe { &*keys })
    });
    let (entry, is_of_array) = table.place(form, hash, key);
    if is_of_array {
        return entry;
    }
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
    let table = tables.tables.get_mut(&context.slice_start).expect("the slice was found before");
    let layout = &tables.form.layout;
    let accumulator_kind = layout.accumulators[component as usize].0;
    let phys = match accumulator_kind {
        Accumulator::Object(_, phys) => phys,
        Accumulator::SumF64 => {
            // SAFETY: promised by the caller.
            let value = unsafe { value.as_ref() }.map(|slot| f64::from_le_bytes(slot.bytes()));
            let value = value.map_or("NULL".into(), super::float_text);
            return table.far.push(format!("{component} {row}:{value}"));
        }
        other => unreachable!("component {component} is {other:?}"),
    };
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
    if !accumulator_kind.is_logged_inline() {
        return table.objects[*number as usize - 1].push(format!("{row}:{text}"));
    }
    let list = layout.list_number(component as usize);
    if table.logs[list].used == LOG_ROOM as u64 {
        table.flush();
    }
    let log = &mut table.logs[list];
    // SAFETY: there is room; bags have no NULL.
    unsafe {
        log.numbers.add(log.used as usize).write(*number as u32);
        log.values.add(log.used as usize).write(u64::from_le_bytes((*value).bytes()));
    }
    log.used += 1;
}
