//! The values of a table's lists as they come, and the runs that they become.
//!
//! Code appends to the log of a bag or set of words itself (`millstream_abi::ValueLog`); all else comes through `Table::update_object`. When the table
//! is sealed, the values are put in order by the numbers of their groups: they are counted, and each is moved once.

use super::pairs::Pairs;
use super::{Element, lists};
use crate::arena::Arena;
use crate::entry::{canonical_f64, read, write};
use crate::memory::LINE;
use crate::object::{Ordinal, key_of_number};
use millstream_abi::{EntryLayout, Phys, Slot, ValueLog, prefetch};

/// Values that a log begins with room for: thousands of open windows have a table for each worker.
const FIRST_PART: usize = 64;
const LARGEST_PART: usize = 16 << 10;
/// Distinct values that are collected before they are compared with those that there have been: the cache has room for them.
const LARGEST_STAGE: usize = 2 << 10;

/// The logs of a table.
#[derive(Debug)]
pub(crate) struct Logs {
    /// What code sees of them.
    heads: Box<[ValueLog]>,
    logs: Box<[Log]>,
}

// SAFETY: the heads point into the parts of the logs, which are owned.
unsafe impl Send for Logs {}
// SAFETY: shared logs are only read.
unsafe impl Sync for Logs {}

#[derive(Debug)]
struct Log {
    offset: usize,
    element: Element,
    /// Groups that have a number.
    groups: u32,
    /// Those before `current` are full, those behind it empty.
    parts: Vec<LogPart>,
    current: usize,
    /// Groups that have become part of others.
    merged: Vec<(u32, u32)>,
    /// Of strings.
    arena: Arena,
    /// What has been in the log of distinct values, of which there is one part.
    pairs: Pairs,
    /// The words of the value that comes.
    scratch: Vec<u64>,
}

/// Numbers and elements; no more than its capacity is ever in it.
#[derive(Debug)]
struct LogPart {
    numbers: Box<[u32]>,
    values: Box<[u64]>,
    used: usize,
}

impl Logs {
    /// Those of a layout; `None` if it has no lists.
    pub(crate) fn new(layout: &EntryLayout) -> Option<Box<Logs>> {
        let log = |(offset, element): (usize, Element)| Log {
            offset,
            element,
            groups: 0,
            parts: Vec::new(),
            current: 0,
            merged: Vec::new(),
            arena: Arena::default(),
            pairs: Pairs::default(),
            scratch: Vec::new(),
        };
        let logs: Box<[Log]> = lists(layout).map(log).collect();
        let nothing = ValueLog { numbers: std::ptr::null_mut(), values: std::ptr::null_mut(), used: 0, room: 0 };
        (!logs.is_empty()).then(|| Box::new(Logs { heads: vec![nothing; logs.len()].into(), logs }))
    }

    /// For code.
    pub(crate) fn heads(&mut self) -> *mut ValueLog {
        self.heads.as_mut_ptr()
    }

    /// Appends a value of the group of an accumulator, which is given a number if it has none.
    ///
    /// # Safety
    /// The accumulator is that of list `number` in an entry of the table; a value is one of its type, and a string is alive.
    pub(crate) unsafe fn push(&mut self, number: usize, accumulator: *mut u8, value: Option<&Slot>, ordinal: Ordinal) {
        let (head, log) = (&mut self.heads[number], &mut self.logs[number]);
        // SAFETY: promised by the caller.
        let mut group: u64 = unsafe { read(accumulator, 0) };
        if group == 0 {
            log.groups = log.groups.checked_add(1).expect("a table has fewer than 2^32 groups");
            group = u64::from(log.groups);
            // SAFETY: promised by the caller.
            unsafe { write(accumulator, 0, group) };
        }
        if head.used == head.room {
            log.take_head(head);
            log.make_room(head);
        }
        let (element, used) = (log.element, head.used as usize);
        let part = &mut log.parts[log.current];
        part.numbers[used] = group as u32;
        let place = &mut part.values[used * element.words()..][..element.words()];
        match value {
            // As code appends it.
            Some(slot) if element.words() == 1 && element.phys == Phys::F64 => {
                let x = f64::from_le_bytes(slot.bytes());
                place[0] = match element.is_distinct {
                    // As keys are compared.
                    true => canonical_f64(x).to_bits(),
                    false => x.to_bits(),
                };
            }
            _ => {
                let words = &mut log.scratch;
                words.clear();
                // SAFETY: promised by the caller.
                unsafe { element.push(value, &mut log.arena, words) };
                element.push_place(ordinal, value.is_none(), words);
                place.copy_from_slice(words);
            }
        }
        // Pointers that were taken before a part is borrowed are of no use behind that.
        head.numbers = part.numbers.as_mut_ptr();
        head.values = part.values.as_mut_ptr();
        head.used += 1;
    }

    /// The group of one entry has become part of that of another, whose accumulators go on.
    ///
    /// # Safety
    /// Both are entries of the table, and ours to write.
    pub(crate) unsafe fn merge(&mut self, into: *mut u8, from: *mut u8) {
        for log in &mut self.logs {
            // SAFETY: promised by the caller.
            unsafe {
                match (read::<u64>(into, log.offset), read::<u64>(from, log.offset)) {
                    (_, 0) => {}
                    (0, number) => write(into, log.offset, number),
                    (into, from) => log.merged.push((from as u32, into as u32)),
                }
                write(from, log.offset, 0u64);
            }
        }
    }

    /// Gives merged groups their common numbers.
    pub(crate) fn settle(&mut self) {
        for (log, head) in self.logs.iter_mut().zip(&mut self.heads) {
            log.take_head(head);
            if log.merged.is_empty() {
                continue;
            }
            let mut now: Vec<u32> = (0..=log.groups).collect();
            log.merged.drain(..).for_each(|(from, into)| now[from as usize] = into);
            let renumber = |numbers: &mut [u32]| numbers.iter_mut().for_each(|number| *number = now[*number as usize]);
            log.parts.iter_mut().for_each(|part| renumber(&mut part.numbers[..part.used]));
            if log.element.is_distinct {
                let mut before = std::mem::take(&mut log.pairs);
                renumber(&mut before.numbers);
                // SAFETY: strings are in the arena of the pairs.
                unsafe { log.pairs.absorb(&before.numbers, &before.values, log.element) };
            }
        }
    }

    /// Puts the values into runs of an arena, and gives entries the addresses of these. The logs are empty then.
    ///
    /// # Safety
    /// They are all entries of the table, and ours to write.
    pub(crate) unsafe fn seal(&mut self, entries: &[*mut u8], arena: &mut Arena) {
        self.settle();
        for (log, head) in self.logs.iter_mut().zip(&mut self.heads) {
            if log.groups > 0 {
                let runs = log.runs(arena);
                for &entry in entries {
                    // SAFETY: promised by the caller; a number is one that was given out.
                    unsafe {
                        let number: u64 = read(entry, log.offset);
                        write(entry, log.offset, runs[number as usize]);
                    }
                }
                arena.absorb(std::mem::take(&mut log.arena));
                arena.absorb(std::mem::take(&mut log.pairs.arena));
            }
            log.clear();
            *head = log.parts.first_mut().map_or(ValueLog { used: 0, room: 0, ..*head }, LogPart::head);
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let of_part = |part: &LogPart| part.numbers.len() * size_of::<u32>() + part.values.len() * size_of::<u64>();
        let of_log = |log: &Log| log.parts.iter().map(of_part).sum::<usize>() + log.arena.bytes() + log.pairs.bytes();
        self.logs.iter().map(of_log).sum()
    }
}

impl Log {
    /// Notes how far code has filled the part.
    fn take_head(&mut self, head: &ValueLog) {
        if let Some(part) = self.parts.get_mut(self.current) {
            part.used = head.used as usize;
        }
    }

    /// Goes on to the next part.
    fn make_room(&mut self, head: &mut ValueLog) {
        if self.element.is_distinct && !self.parts.is_empty() {
            self.pair();
            if self.parts[0].numbers.len() < LARGEST_STAGE {
                self.parts = vec![LogPart::new(2 * self.parts[0].numbers.len(), self.element)];
            }
            *head = self.parts[0].head();
            return;
        }
        if !self.parts.is_empty() {
            self.current += 1;
        }
        if self.current == self.parts.len() {
            let room = (FIRST_PART << self.parts.len().min(16)).min(LARGEST_PART);
            self.parts.push(LogPart::new(room, self.element));
        }
        *head = self.parts[self.current].head();
    }

    /// Takes distinct values out of the log, to those that there have been.
    fn pair(&mut self) {
        for part in &mut self.parts {
            // SAFETY: strings are in the arena.
            unsafe { self.pairs.absorb(&part.numbers[..part.used], &part.values, self.element) };
            part.used = 0;
        }
        self.arena = Arena::default();
    }

    /// Numbers and elements of all that is there.
    fn all(&self) -> impl Iterator<Item = (&[u32], &[u64])> + Clone {
        let parts = self.parts.iter().map(|part| (&part.numbers[..part.used], &*part.values));
        parts.chain([(&*self.pairs.numbers, &*self.pairs.values)])
    }

    /// A run for each number; null for 0, and for numbers that have become others.
    fn runs(&mut self, arena: &mut Arena) -> Vec<*const u64> {
        if self.element.is_distinct {
            self.pair();
        }
        let words = self.element.words();
        let mut lens = vec![0_usize; self.groups as usize + 1];
        for (numbers, _) in self.all() {
            numbers.iter().for_each(|&number| lens[number as usize] += 1);
        }
        let all: usize = lens.iter().sum();
        let groups = lens.iter().filter(|&&len| len > 0).count();
        let mut next = arena.words(groups + all * words);
        let mut runs = vec![std::ptr::null::<u64>(); lens.len()];
        let mut places = vec![next; lens.len()];
        for (number, &len) in lens.iter().enumerate().filter(|&(_, &len)| len > 0) {
            runs[number] = next;
            // SAFETY: the memory has a word for each group, and those of all values.
            unsafe {
                next.write((len as u64) << 1);
                places[number] = next.add(1);
                next = next.add(1 + len * words);
            }
        }
        for (numbers, values) in self.all() {
            for (&number, element) in numbers.iter().zip(values.chunks_exact(words)) {
                let place = &mut places[number as usize];
                // Hundreds of groups are written in turn, and the line behind this one is not in the cache yet.
                if place.addr().is_multiple_of(LINE) {
                    prefetch(place.wrapping_byte_add(LINE).cast_const().cast(), 1);
                }
                // SAFETY: there is a place for each value of the group.
                unsafe {
                    match (self.element.phys, element) {
                        (Phys::F64, &[bits]) => place.write(key_of_number(f64::from_bits(bits)) as u64),
                        (_, &[word]) => place.write(word),
                        _ => place.copy_from_nonoverlapping(element.as_ptr(), words),
                    }
                    *place = place.add(words);
                }
            }
        }
        runs
    }

    /// Empties it. Memory that was used remains, for the next slice.
    fn clear(&mut self) {
        self.parts.truncate(self.current + 1);
        self.parts.iter_mut().for_each(|part| part.used = 0);
        (self.groups, self.current) = (0, 0);
        self.pairs.clear();
    }
}

impl LogPart {
    fn new(room: usize, element: Element) -> LogPart {
        LogPart { numbers: vec![0; room].into(), values: vec![0; room * element.words()].into(), used: 0 }
    }

    /// For code, when it is empty.
    fn head(&mut self) -> ValueLog {
        let room = self.numbers.len() as u64;
        ValueLog { numbers: self.numbers.as_mut_ptr(), values: self.values.as_mut_ptr(), used: 0, room }
    }
}
