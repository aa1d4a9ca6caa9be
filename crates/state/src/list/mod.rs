//! Lists: all values of a group, with or without their places in the input, or all distinct ones.
//!
//! ```text
//! Table    accumulator: number n ──► log  [n, value] [m, value] [n, value] …          one row after the other (`log.rs`)
//! sealed   accumulator: address  ──► run  ┌ length │ value │ value │ …                one for each group
//! merged   accumulator: address  ──► join ┌ length │ address of a run or join │ another one │ length of the first run
//! ```
//!
//! Distinct values go from the log to a table of pairs of group and value (`pairs.rs`), so a run has each once. Joins of them may have
//! a value several times, but not much oftener than that: those that are twice as long as their first run become a run.
//!
//! Runs and joins are never changed, and live in the arenas of those who made them, as long strings do: whoever copies an accumulator
//! keeps the owners alive, and nothing is counted.

mod direct;
mod encoding;
mod log;
mod pairs;
#[cfg(test)]
mod tests;
mod values;

use crate::arena::Arena;
use crate::entry::{self, read, write};
use crate::object::{Ordinal, Values, string};
pub(crate) use encoding::restore;
pub(crate) use log::Logs;
use millstream_abi::{Accumulator, EntryLayout, ObjectKind, Phys, Slot, Str};
use std::collections::HashMap;
pub(crate) use values::List;

/// The address of a run or join; null is none.
pub(crate) type Run = *const u64;

/// What a value of a list is in memory: one word, or two of a decimal or string, and behind them its place in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    phys: Phys,
    /// Whether the place is kept.
    is_placed: bool,
    /// Whether each value is there once.
    pub(crate) is_distinct: bool,
}

/// Values that a join of distinct ones may have more than twice of its first run.
const FEW: usize = 64;

/// Words of a place: an ordinal, and whether the value is NULL.
const PLACE_WORDS: usize = 4;

impl Element {
    /// That of a list.
    pub(crate) fn of(accumulator: Accumulator) -> Option<Element> {
        match accumulator {
            Accumulator::Object(kind, phys) if kind.is_list() => {
                let (is_placed, is_distinct) = (matches!(kind, ObjectKind::List { .. }), kind == ObjectKind::Distinct);
                Some(Element { phys, is_placed, is_distinct })
            }
            _ => None,
        }
    }

    fn value_words(self) -> usize {
        if matches!(self.phys, Phys::I128 | Phys::Str) { 2 } else { 1 }
    }

    /// Bytes of the values of a list.
    ///
    /// # Safety
    /// As for [`len`].
    pub(crate) unsafe fn bytes(self, run: Run) -> usize {
        // SAFETY: promised by the caller.
        unsafe { len(run) * self.words() * size_of::<u64>() }
    }

    fn words(self) -> usize {
        self.value_words() + if self.is_placed { PLACE_WORDS } else { 0 }
    }
}

/// The lists of a layout: offset and element.
pub(crate) fn lists(layout: &EntryLayout) -> impl Iterator<Item = (usize, Element)> + use<'_> {
    layout.accumulators.iter().filter_map(|&(accumulator, offset)| Some((offset, Element::of(accumulator)?)))
}

/// A node as it is in memory.
#[derive(Debug, Clone, Copy)]
enum Node {
    /// Its values from the address on.
    Leaf(Run),
    Join([Run; 2]),
}

/// Its first word: twice the length, and 1 of a join.
unsafe fn node(run: Run) -> (usize, Node) {
    // SAFETY: the callers have runs and joins.
    unsafe {
        let word = run.read();
        let len = (word >> 1) as usize;
        match word & 1 {
            0 => (len, Node::Leaf(run.add(1))),
            _ => (len, Node::Join([run.add(1).cast::<Run>().read(), run.add(2).cast::<Run>().read()])),
        }
    }
}

/// Number of values.
///
/// # Safety
/// It is a run or join that is alive, or null.
pub(crate) unsafe fn len(run: Run) -> usize {
    // SAFETY: promised by the caller.
    if run.is_null() { 0 } else { unsafe { node(run) }.0 }
}

/// A run of words that are elements.
fn leaf(words: &[u64], element: Element, arena: &mut Arena) -> Run {
    let place = arena.words(words.len() + 1);
    // SAFETY: as many words, which are fresh.
    unsafe {
        place.write(((words.len() / element.words()) as u64) << 1);
        place.add(1).copy_from_nonoverlapping(words.as_ptr(), words.len());
    }
    place
}

/// Number of values of the first run.
///
/// # Safety
/// It is a run or join that is alive.
unsafe fn first_len(run: Run) -> usize {
    // SAFETY: promised by the caller.
    unsafe {
        match node(run) {
            (len, Node::Leaf(_)) => len,
            (_, Node::Join(_)) => run.add(3).read() as usize,
        }
    }
}

/// Whether it is a run, and so has each distinct value once.
///
/// # Safety
/// As for [`len`].
pub(crate) unsafe fn is_run(run: Run) -> bool {
    // SAFETY: promised by the caller.
    run.is_null() || matches!(unsafe { node(run) }.1, Node::Leaf(_))
}

/// The values of both.
///
/// # Safety
/// Both are runs or joins that are alive, also as long as the result is, or null.
unsafe fn join(a: Run, b: Run, arena: &mut Arena) -> Run {
    if a.is_null() || b.is_null() {
        return if a.is_null() { b } else { a };
    }
    let place = arena.words(4);
    // SAFETY: promised by the caller; four fresh words.
    unsafe {
        place.add(3).write(first_len(a) as u64);
        place.write(((len(a) + len(b)) as u64) << 1 | 1);
        place.add(1).cast::<Run>().write(a);
        place.add(2).cast::<Run>().write(b);
    }
    place
}

/// Calls with the words of each run, from the first to the last.
///
/// # Safety
/// It is one of such elements that is alive, or null.
unsafe fn leaves(run: Run, element: Element, mut leaf: impl FnMut(&[u64])) {
    let mut open = vec![run];
    while let Some(run) = open.pop().filter(|run| !run.is_null()) {
        // SAFETY: promised by the caller.
        match unsafe { node(run) } {
            // SAFETY: a run has as many elements.
            (len, Node::Leaf(first)) => leaf(unsafe { std::slice::from_raw_parts(first, len * element.words()) }),
            (_, Node::Join([a, b])) => open.extend([b, a]),
        }
    }
}

/// Merges the list at `offset` of entry `from` into that of `into`; a join is put into the arena.
///
/// # Safety
/// Both are entries with a sealed list there that is alive, also as long as `into` is read; `into` is ours to write. It need not be sealed
/// if `from` has no values.
pub(crate) unsafe fn merge((offset, element): (usize, Element), into: *mut u8, from: *const u8, arena: &mut Arena) {
    // SAFETY: promised by the caller.
    unsafe {
        let more: Run = read(from, offset);
        if more.is_null() {
            return;
        }
        let mut both = join(read(into, offset), more, arena);
        if element.is_distinct && !is_run(both) && len(both) > 2 * first_len(both) + FEW {
            both = flat(both, element, arena);
        }
        write(into, offset, both);
    }
}

/// A run of the values of a join, of distinct ones each once. Strings are not copied.
///
/// # Safety
/// As for [`leaves`].
unsafe fn flat(run: Run, element: Element, arena: &mut Arena) -> Run {
    // SAFETY: promised by the caller.
    unsafe {
        let mut words = Vec::with_capacity(len(run) * element.words());
        let is_run = is_run(run);
        leaves(run, element, |of_leaf| words.extend_from_slice(of_leaf));
        if element.is_distinct && !is_run {
            words = distinct(words, element);
        }
        leaf(&words, element, arena)
    }
}

/// Elements without a place, each once.
///
/// # Safety
/// Strings are alive.
unsafe fn distinct(mut words: Vec<u64>, element: Element) -> Vec<u64> {
    if element.words() == 1 {
        words.sort_unstable();
        words.dedup();
        return words;
    }
    let mut pairs: Vec<[u64; 2]> = words.as_chunks().0.to_vec();
    match element.phys {
        Phys::Str => {
            // SAFETY: promised by the caller.
            let order = |a: &[u64; 2], b: &[u64; 2]| unsafe { string_of(*a).as_bytes().cmp(string_of(*b).as_bytes()) };
            pairs.sort_unstable_by(order);
            pairs.dedup_by(|a, b| order(a, b).is_eq());
        }
        _ => {
            pairs.sort_unstable();
            pairs.dedup();
        }
    }
    pairs.into_flattened()
}

/// Copies the lists of an entry into an arena, each as one run.
///
/// # Safety
/// It is an entry of the layout with sealed lists that are alive, and ours to write.
pub(crate) unsafe fn copy(layout: &EntryLayout, entry: *mut u8, arena: &mut Arena) {
    for (offset, element) in lists(layout) {
        // SAFETY: promised by the caller.
        unsafe {
            let run: Run = read(entry, offset);
            if run.is_null() {
                continue;
            }
            let copy = flat(run, element, arena);
            keep_strings(copy.cast_mut(), element, arena);
            write(entry, offset, copy);
        }
    }
}

/// Copies the strings of a run into an arena.
///
/// # Safety
/// It is a run of such elements, ours to write, whose strings are alive.
unsafe fn keep_strings(run: *mut u64, element: Element, arena: &mut Arena) {
    if element.phys != Phys::Str {
        return;
    }
    // SAFETY: promised by the caller.
    unsafe {
        for i in 0..len(run) {
            let place = run.add(1 + i * element.words());
            let kept = arena.keep(string_of([place.read(), place.add(1).read()]).as_bytes()).bits();
            place.write(kept as u64);
            place.add(1).write((kept >> 64) as u64);
        }
    }
}

fn string_of([low, high]: [u64; 2]) -> Str {
    Str::from_bits(u128::from(high) << 64 | u128::from(low))
}

/// Moves lists to another arena, and what they have in common once.
#[derive(Debug, Default)]
pub(crate) struct Mover(HashMap<Run, Run>);

impl Mover {
    /// Moves those of an entry.
    ///
    /// # Safety
    /// As for [`copy`].
    pub(crate) unsafe fn entry(&mut self, layout: &EntryLayout, entry: *mut u8, arena: &mut Arena) {
        for (offset, element) in lists(layout) {
            // SAFETY: promised by the caller.
            unsafe { write(entry, offset, self.list(read(entry, offset), element, arena)) };
        }
    }

    /// # Safety
    /// It is a list of such elements that is alive, or null.
    unsafe fn list(&mut self, root: Run, element: Element, arena: &mut Arena) -> Run {
        let mut open = vec![root];
        while let Some(&run) = open.last() {
            if run.is_null() || self.0.contains_key(&run) {
                open.pop();
                continue;
            }
            // SAFETY: promised by the caller; what is moved is fresh.
            let moved = unsafe {
                match node(run) {
                    (len, Node::Leaf(first)) => {
                        let words = std::slice::from_raw_parts(first, len * element.words());
                        let moved = leaf(words, element, arena);
                        keep_strings(moved.cast_mut(), element, arena);
                        moved
                    }
                    (_, Node::Join(both)) => {
                        let open_before = open.len();
                        open.extend(both.iter().filter(|part| !self.0.contains_key(*part)));
                        if open.len() > open_before {
                            continue;
                        }
                        join(self.0[&both[0]], self.0[&both[1]], arena)
                    }
                }
            };
            self.0.insert(run, moved);
        }
        if root.is_null() { root } else { self.0[&root] }
    }
}

/// Moves the strings at `offsets` of entries to an arena that has no others, in place of theirs; with `lists`, also their lists.
///
/// # Safety
/// As for [`entry::move_strings`]; nothing else holds strings or lists of the arena. Lists are sealed.
pub(crate) unsafe fn compact(
    layout: &EntryLayout,
    entries: &[*mut u8],
    offsets: &[usize],
    lists: bool,
    arena: &mut Arena,
) {
    let mut compact = Arena::default();
    // SAFETY: promised by the caller; the old arena is dropped after the call.
    unsafe { entry::move_strings(entries, offsets, &mut compact) };
    if lists {
        let mut mover = Mover::default();
        // SAFETY: as above.
        entries.iter().for_each(|&entry| unsafe { mover.entry(layout, entry, &mut compact) });
    }
    compact.note_compact();
    *arena = compact;
}

impl Element {
    /// Appends a value to words; `None` is NULL.
    ///
    /// # Safety
    /// The slot has a value of the type, and a string is alive.
    unsafe fn push(self, value: Option<&Slot>, arena: &mut Arena, words: &mut Vec<u64>) {
        match value {
            None => words.resize(words.len() + self.value_words(), 0),
            Some(slot) => match self.phys {
                Phys::Str => {
                    let string = string(slot);
                    // SAFETY: promised by the caller.
                    let kept = arena.keep(unsafe { string.as_bytes() }).bits();
                    words.extend([kept as u64, (kept >> 64) as u64]);
                }
                Phys::I128 => {
                    let wide = u128::from_le_bytes(slot.bytes());
                    words.extend([wide as u64, (wide >> 64) as u64]);
                }
                phys => words.push(crate::object::word(phys, slot) as u64),
            },
        }
    }

    fn push_place(self, ordinal: Ordinal, is_null: bool, words: &mut Vec<u64>) {
        if self.is_placed {
            let numbers = u64::from(ordinal.split) << 32 | u64::from(ordinal.input) << 16 | u64::from(ordinal.pipeline);
            words.extend([ordinal.watermark as u64, ordinal.position, numbers, is_null.into()]);
        }
    }

    /// Appends the elements of a run to a list.
    ///
    /// # Safety
    /// Strings are alive.
    unsafe fn append(self, words: &[u64], list: &mut List) {
        if let (1, Values::Words(values)) = (self.words(), &mut list.values) {
            return values.extend(words.iter().map(|&word| word as i64));
        }
        for element in words.chunks_exact(self.words()) {
            let place = &element[self.value_words()..];
            if let &[watermark, position, numbers, is_null] = place {
                let (split, input, pipeline) = ((numbers >> 32) as u32, (numbers >> 16) as u16, numbers as u16);
                list.ordinals.push(Ordinal { watermark: watermark as i64, input, split, position, pipeline });
                if is_null != 0 {
                    list.nulls.push(list.values.len());
                    list.values.push_nothing();
                    continue;
                }
            }
            match &mut list.values {
                Values::Words(values) => values.push(element[0] as i64),
                Values::Wides(wides) => wides.push((u128::from(element[1]) << 64 | u128::from(element[0])) as i128),
                Values::Strings(bytes, ends) => {
                    let string = string_of([element[0], element[1]]);
                    // SAFETY: promised by the caller.
                    bytes.extend_from_slice(unsafe { string.as_bytes() });
                    ends.push(bytes.len());
                }
            }
        }
    }
}
