//! Entries as bytes, and bytes as entries.
//!
//! ```text
//! ┌───────────┬──────────────────────────┬─────────────────────────┬────────────────────────────┐
//! │ how many  │ entries, stride by stride│ bytes of long strings   │ objects and lists          │
//! └───────────┴──────────────────────────┴─────────────────────────┴────────────────────────────┘
//! ```
//!
//! Entries are as in memory, so that numbers are copied at once, but for what are addresses there: a long string has the
//! offset of its bytes, an object or list is 1 where there is one. Strings and objects are in the order of their entries and fields.
//!
//! Invariant: what is read is safe to use, whatever the bytes are: strings are where they say and text is UTF-8, objects
//! are whole. That they are the right ones is for checksums to say.

use crate::arena::Arena;
use crate::entry::{self, read, write};
use crate::list::{self, Element, List};
use crate::memory::EntryMemory;
use crate::object::{Object, object_at};
use crate::output::Output;
use arrow_schema::DataType as Arrow;
use millstream_abi::{Accumulator, EntryLayout, HASH_BUSY, ObjectKind, Phys, Str};
use millstream_storage::{ByteReader, ByteWriter, Damaged};
use millstream_types::DataType;
use std::sync::Arc;

/// What is not only a number in entries of a layout.
#[derive(Debug)]
pub(crate) struct EntryFields<'a> {
    layout: &'a EntryLayout,
    strings: Vec<StringField>,
    objects: Vec<ObjectField>,
    /// Bits of the null mask that can be set.
    nullable: u64,
}

#[derive(Debug)]
struct StringField {
    offset: usize,
    /// Whether [`Str::NONE`] is a value.
    may_be_none: bool,
    is_text: bool,
}

#[derive(Debug)]
struct ObjectField {
    offset: usize,
    kind: ObjectKind,
    phys: Phys,
    /// Of a list.
    element: Option<Element>,
    is_text: bool,
}

impl<'a> EntryFields<'a> {
    /// Those of a layout, for writing.
    pub(crate) fn new(layout: &'a EntryLayout) -> EntryFields<'a> {
        EntryFields::typed(layout, &[], &[])
    }

    /// Those of a layout, for reading. Strings that a column of text shows, of a key or an output, have to be text.
    pub(crate) fn typed(layout: &'a EntryLayout, keys: &[DataType], outputs: &[Output]) -> EntryFields<'a> {
        let shown_as_text = |i: usize| outputs.iter().any(|o| o.component == i && shows_text(&o.data_type));
        let mut fields = EntryFields { layout, strings: vec![], objects: vec![], nullable: 0 };
        for (i, key) in layout.keys.iter().enumerate() {
            fields.nullable |= u64::from(key.nullable) << i;
            if key.phys == Phys::Str {
                let is_text = keys.get(i).is_some_and(shows_text);
                fields.strings.push(StringField { offset: key.offset, may_be_none: false, is_text });
            }
        }
        for (i, &(accumulator, offset)) in layout.accumulators.iter().enumerate() {
            let is_text = shown_as_text(i);
            match accumulator {
                Accumulator::MinStr | Accumulator::MaxStr => {
                    fields.strings.push(StringField { offset, may_be_none: true, is_text });
                }
                Accumulator::Object(kind, phys) => {
                    let element = Element::of(accumulator);
                    fields.objects.push(ObjectField { offset, kind, phys, element, is_text });
                }
                _ => {}
            }
        }
        fields
    }

    /// Whether entries have neither strings nor objects, so that each is written as as many bytes.
    pub(crate) fn are_numbers(&self) -> bool {
        self.strings.is_empty() && self.objects.is_empty()
    }

    /// About as many bytes as it takes to write an entry.
    ///
    /// # Safety
    /// It is one of the layout whose strings are alive.
    #[inline]
    unsafe fn bytes_of(&self, entry: *const u8) -> usize {
        // SAFETY: promised by the caller.
        unsafe {
            let strings = self.strings.iter().filter_map(|field| field.long(entry)).map(Str::len);
            let objects = self.objects.iter().map(|field| match field.element {
                Some(element) => element.bytes(read(entry, field.offset)),
                None => object_at(entry, field.offset).map_or(0, Object::bytes),
            });
            self.layout.stride + strings.sum::<usize>() + objects.sum::<usize>()
        }
    }

    /// How many of the first entries take about `bytes` bytes together; one at least.
    ///
    /// # Safety
    /// As for [`EntryFields::bytes_of`].
    pub(crate) unsafe fn fitting(&self, entries: impl Iterator<Item = *const u8>, bytes: usize) -> usize {
        let mut sum = 0;
        let fits = |&entry: &*const u8| {
            // SAFETY: promised by the caller.
            sum += unsafe { self.bytes_of(entry) };
            sum <= bytes
        };
        entries.take_while(fits).count().max(1)
    }

    /// Writes entries.
    ///
    /// # Safety
    /// From `first` on are `count` entries of the layout, whose strings are alive and which nobody changes meanwhile.
    pub(crate) unsafe fn write(&self, first: *const u8, count: usize, out: &mut ByteWriter) {
        let stride = self.layout.stride;
        out.length(count);
        let start = out.len();
        // SAFETY: promised by the caller; entries are made of zeroed memory, so that all bytes have values.
        out.raw(unsafe { std::slice::from_raw_parts(first, count * stride) });
        let mut strings = Vec::new();
        // SAFETY: within the entries.
        let entries = (0..count).map(|i| (start + i * stride, unsafe { first.add(i * stride) }));
        for (at, entry) in entries.clone().take_while(|_| !self.strings.is_empty()) {
            for field in &self.strings {
                // SAFETY: promised by the caller.
                if let Some(long) = unsafe { field.long(entry) } {
                    out.replace(at + field.offset + 8, &(strings.len() as u64).to_le_bytes());
                    // SAFETY: as above.
                    strings.extend_from_slice(unsafe { long.as_bytes() });
                }
            }
        }
        out.bytes(&strings);
        for (at, entry) in entries.take_while(|_| !self.objects.is_empty()) {
            for field in &self.objects {
                // SAFETY: promised by the caller.
                if unsafe { read::<u64>(entry, field.offset) } == 0 {
                    continue;
                }
                out.replace(at + field.offset, &1u64.to_le_bytes());
                match field.element {
                    Some(element) => {
                        let mut list = List::new(element);
                        // SAFETY: as above; lists are sealed.
                        unsafe { list.gather(read(entry, field.offset)) };
                        list.save(out);
                    }
                    // SAFETY: as above.
                    None => unsafe { object_at(entry, field.offset) }.into_iter().for_each(|object| object.save(out)),
                }
            }
        }
    }

    /// [`EntryFields::write`] of entries that are anywhere.
    ///
    /// # Safety
    /// As for that.
    pub(crate) unsafe fn write_all(&self, entries: &[*const u8], out: &mut ByteWriter) {
        let stride = self.layout.stride;
        let memory = EntryMemory::zeroed(entries.len() * stride);
        for (i, &entry) in entries.iter().enumerate() {
            // SAFETY: there is a place for each. The copies are gone before the entries, so they count no objects.
            unsafe { memory.start().add(i * stride).copy_from_nonoverlapping(entry, stride) };
        }
        // SAFETY: promised by the caller.
        unsafe { self.write(memory.start(), entries.len(), out) };
    }

    /// How many entries follow, which is no more than there are bytes for.
    pub(crate) fn count(&self, from: &mut ByteReader<'_>) -> Result<usize, Damaged> {
        from.count(self.layout.stride)
    }

    /// Reads entries whose number has been read before; returns the bytes of their objects. After an error the entries
    /// can be released, and nothing else.
    ///
    /// # Safety
    /// There is zeroed memory for `count` entries of the layout from `first` on, which is ours to write. The arena is
    /// kept as long as the entries are used.
    pub(crate) unsafe fn read(
        &self,
        first: *mut u8,
        count: usize,
        from: &mut ByteReader<'_>,
        arena: &mut Arena,
    ) -> Result<usize, Damaged> {
        let stride = self.layout.stride;
        let saved = from.raw(count * stride)?;
        // SAFETY: promised by the caller; there are as many bytes. What would be pointers to objects is made null before
        // anything else happens.
        unsafe {
            first.copy_from_nonoverlapping(saved.as_ptr(), saved.len());
            for field in &self.objects {
                (0..count).for_each(|i| write(first.add(i * stride), field.offset, std::ptr::null::<Object>()));
            }
        }
        // SAFETY: within the entries.
        let entry = |i: usize| unsafe { first.add(i * stride) };
        // SAFETY: entries of the layout, as far as they are numbers.
        unsafe {
            (0..count).try_for_each(|i| self.check(entry(i)))?;
            self.read_strings((0..count).map(entry), from.bytes()?, arena)?;
        }
        let mut bytes = 0;
        for i in (0..count).take_while(|_| !self.objects.is_empty()) {
            for field in &self.objects {
                match saved[i * stride + field.offset..][..8] {
                    [0, 0, 0, 0, 0, 0, 0, 0] => {}
                    [1, 0, 0, 0, 0, 0, 0, 0] => {
                        if let Some(element) = field.element {
                            let run = list::restore(element, field.is_text, from, arena)?;
                            // SAFETY: the place of a list that is not there yet.
                            unsafe { write(entry(i), field.offset, run) };
                            continue;
                        }
                        let object = Object::restore(field.kind, field.phys, field.is_text, from)?;
                        bytes += object.bytes();
                        // SAFETY: the place of an object that is not there yet.
                        unsafe { write(entry(i), field.offset, Arc::into_raw(Arc::new(object))) };
                    }
                    _ => return Err(Damaged("an object neither is there nor is not".into())),
                }
            }
        }
        Ok(bytes)
    }

    /// Checks hash and NULLs.
    ///
    /// # Safety
    /// It is an entry of the layout, as far as it consists of numbers.
    #[inline]
    unsafe fn check(&self, entry: *const u8) -> Result<(), Damaged> {
        // SAFETY: promised by the caller.
        let (hash, nulls) = unsafe { (entry::hash(entry), entry::null_mask(self.layout, entry)) };
        Damaged::unless(hash > HASH_BUSY, "an entry is empty")?;
        Damaged::unless(nulls & !self.nullable == 0, "a key is NULL that cannot be")
    }

    /// Gives entries their strings.
    ///
    /// # Safety
    /// As for [`EntryFields::read`].
    unsafe fn read_strings(
        &self,
        entries: impl Iterator<Item = *mut u8>,
        bytes: &[u8],
        arena: &mut Arena,
    ) -> Result<(), Damaged> {
        let bytes = if bytes.is_empty() { bytes } else { arena.keep_all(bytes.to_vec()) };
        let mut rest = bytes;
        for entry in entries.take_while(|_| !self.strings.is_empty()) {
            for field in &self.strings {
                // SAFETY: promised by the caller; what is read is not trusted.
                let saved: Str = unsafe { read(entry, field.offset) };
                let offset = bytes.len() - rest.len();
                // SAFETY: as above; the bytes are in the arena.
                unsafe { write(entry, field.offset, field.restored(saved, offset, &mut rest)?) };
            }
        }
        Damaged::unless(rest.is_empty(), format_args!("{} bytes are in no string", rest.len()))
    }
}

impl StringField {
    /// The string of an entry if its bytes are elsewhere.
    ///
    /// # Safety
    /// The entry has the field.
    unsafe fn long(&self, entry: *const u8) -> Option<Str> {
        // SAFETY: promised by the caller.
        let string: Str = unsafe { read(entry, self.offset) };
        (string != Str::NONE && !string.is_inline()).then_some(string)
    }

    /// The string that `saved` stands for, whose bytes are at the start of the rest if it is long.
    fn restored(&self, saved: Str, offset: usize, rest: &mut &[u8]) -> Result<Str, Damaged> {
        if saved == Str::NONE && self.may_be_none {
            return Ok(saved);
        }
        if saved.is_inline() {
            // SAFETY: the bytes of an inline string are in itself.
            let bytes = unsafe { saved.as_bytes() };
            self.check_text(bytes)?;
            Damaged::unless(Str::new(bytes) == saved, "there is something behind a short string")?;
            return Ok(saved);
        }
        let Some((bytes, others)) = rest.split_at_checked(saved.len()).filter(|_| saved.high == offset as u64) else {
            return Err(Damaged("a string is not where it should be".into()));
        };
        *rest = others;
        self.check_text(bytes)?;
        let string = Str::new(bytes);
        Damaged::unless(string.low == saved.low, "a string begins otherwise than it should")?;
        Ok(string)
    }

    fn check_text(&self, bytes: &[u8]) -> Result<(), Damaged> {
        Damaged::unless(!self.is_text || std::str::from_utf8(bytes).is_ok(), "text is not UTF-8")
    }
}

/// Whether the strings in a column of the type are text.
fn shows_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(element) => shows_text(element),
        DataType::Map(key, _) => shows_text(key),
        other => other.to_arrow() == Arrow::Utf8View,
    }
}
