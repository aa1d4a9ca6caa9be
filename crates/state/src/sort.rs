//! Sorting entries in an order that depends on the keys alone.
//!
//! Entries are sorted by their partition first, which is that of their hash, or of their key if that can be in an array.
//! Within a partition those of a layout with a dense key are in the order of the key, others in that of the hash, then of
//! the keys. So what comes out of a dense region or an array is in runs, and merging such entries is merging runs.
//!
//! Hashes are uniform, so unless there are few runs, entries are put into buckets by the highest bits in which their
//! hashes (or keys) differ, until the buckets are small. That takes two passes for ten million entries, and little for
//! a few. That is about linear in their number, where a sort by comparison, with an access to two entries each, would
//! be what takes longest in a merge.

use crate::dense::{dense_key_of_entry, key_of_entry};
use crate::entry::{compare_keys, hash};
use crate::partition::Partitioner;
use crate::work;
use millstream_abi::{EntryLayout, KeySlot};
use std::cmp::Ordering;

/// Most entries that are sorted by comparison of words: so many are sorted by insertion.
const SMALL: usize = 20;
/// About as many entries are meant to be in a bucket.
const BUCKET: usize = 4;
/// Most bits of a pass: more buckets than cache lines and pages that a core has at hand would be slower.
const MOST_BITS: u32 = 10;
/// So few runs are merged: each doubling is a pass, as is each step of buckets.
const FEW_RUNS: usize = 8;
/// Runs of more than this many entries on average are merged, if they are few.
const LONG_RUN: usize = 64;

/// An entry, with the word at hand that it is sorted by within its partition: that of its key, or its hash. Those of equal
/// keys have equal words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sorted {
    pub(crate) word: u64,
    pub(crate) entry: *const u8,
}

/// How entries of a layout are ordered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) layout: &'a EntryLayout,
    partitioner: Partitioner,
    key: Option<KeySlot>,
    /// Whether those with equal words have equal keys.
    pub(crate) is_whole: bool,
}

impl<'a> Order<'a> {
    pub(crate) fn of(layout: &'a EntryLayout) -> Order<'a> {
        let key = layout.dense_key();
        let is_whole = key.is_some_and(|key| !key.nullable);
        Order { layout, partitioner: Partitioner::of(layout), key, is_whole }
    }

    /// What an entry is sorted by within its partition, NULL as zero.
    ///
    /// # Safety
    /// It is an occupied entry of the layout.
    #[inline]
    pub(crate) unsafe fn word(&self, entry: *const u8) -> u64 {
        // SAFETY: promised by the caller.
        unsafe {
            match self.key {
                Some(key) => dense_key_of_entry(self.layout, key, entry).unwrap_or(0) as u64 ^ (1 << 63),
                None => hash(entry),
            }
        }
    }

    /// The partition of an entry with its word.
    ///
    /// # Safety
    /// It is an occupied entry of the layout.
    #[inline]
    pub(crate) unsafe fn partition(&self, e: &Sorted) -> usize {
        match (self.key, self.layout.by_key) {
            (Some(_), true) => self.partitioner.of_key((e.word ^ (1 << 63)) as i64),
            // SAFETY: promised by the caller.
            (Some(_), false) => self.partitioner.of_hash(unsafe { hash(e.entry) }),
            (None, _) => self.partitioner.of_hash(e.word),
        }
    }

    /// Whether words are hashes, whose highest bits are the partition.
    pub(crate) fn is_by_hash(&self) -> bool {
        self.key.is_none()
    }

    pub(crate) fn partition_bits(&self) -> u32 {
        self.partitioner.bits()
    }

    /// Sorts by keys what is sorted by words. Those with equal keys keep their order.
    ///
    /// # Safety
    /// They are occupied entries of the layout whose strings are alive.
    pub(crate) unsafe fn sort_equal(&self, entries: &mut [Sorted]) {
        if self.is_whole {
            return;
        }
        for equal in entries.chunk_by_mut(|a, b| a.word == b.word).filter(|equal| equal.len() > 1) {
            // SAFETY: promised by the caller.
            equal.sort_by(|a, b| unsafe { compare_keys(self.layout, a.entry, b.entry) });
        }
    }
}

/// Sorts entries. Those with equal keys keep their order.
///
/// # Safety
/// All are occupied entries of `layout` whose strings are alive.
pub(crate) unsafe fn sorted(layout: &EntryLayout, entries: impl Iterator<Item = *const u8>) -> Vec<Sorted> {
    // SAFETY: promised by the caller.
    let mut entries: Vec<Sorted> = entries.map(|entry| Sorted { word: unsafe { hash(entry) }, entry }).collect();
    work::SORTED.add(entries.len());
    match layout.dense_key() {
        // SAFETY: promised by the caller.
        Some(_) => unsafe { sort_by_key(layout, &mut entries) },
        // SAFETY: as above.
        None => unsafe { sort_by_word(layout, &mut entries, false) },
    }
    entries
}

/// The same without the words.
///
/// # Safety
/// As for [`sorted`].
pub(crate) unsafe fn sorted_entries(layout: &EntryLayout, entries: impl Iterator<Item = *const u8>) -> Vec<*const u8> {
    // SAFETY: promised by the caller.
    unsafe { sorted(layout, entries) }.into_iter().map(|e| e.entry).collect()
}

/// The order of [`sorted`], in which entries of one key are equal.
///
/// # Safety
/// Both are occupied entries of `layout` whose strings are alive.
pub(crate) unsafe fn compare(layout: &EntryLayout, left: *const u8, right: *const u8) -> Ordering {
    // SAFETY: promised by the caller.
    unsafe { order(layout, left).cmp(&order(layout, right)).then_with(|| compare_keys(layout, left, right)) }
}

/// The partition of an entry, and the word that it is sorted by there.
///
/// # Safety
/// It is an occupied entry of `layout`.
pub(crate) unsafe fn order(layout: &EntryLayout, entry: *const u8) -> (usize, u64) {
    // SAFETY: promised by the caller; an entry whose key is NULL has a zero in its place.
    unsafe {
        let word = match layout.dense_key() {
            Some(_) => (key_of_entry(layout, entry).unwrap_or(0) as u64) ^ (1 << 63),
            None => hash(entry),
        };
        (Partitioner::of(layout).of_entry(layout, entry), word)
    }
}

/// Sorts entries of a layout with a dense key by partition, then key, NULL as the entry's zero and behind that.
///
/// # Safety
/// As for [`sorted`].
unsafe fn sort_by_key(layout: &EntryLayout, entries: &mut [Sorted]) {
    // SAFETY: promised by the caller; an entry whose key is NULL has a zero in its place.
    let key = |e: &Sorted| (unsafe { key_of_entry(layout, e.entry) }.unwrap_or(0) as u64) ^ (1 << 63);
    let (least, most) = entries.iter().fold((u64::MAX, 0), |(least, most), e| (least.min(key(e)), most.max(key(e))));
    let (partitioner, by_key) = (Partitioner::of(layout), layout.by_key);
    // They fit a word with their partition.
    let is_narrow = most.wrapping_sub(least).leading_zeros() >= partitioner.bits();
    let is_whole = matches!(&*layout.keys, [key] if !key.nullable);
    let partition = |e: &Sorted| match by_key {
        true => partitioner.of_key((key(e) ^ (1 << 63)) as i64),
        false => partitioner.of_hash(e.word),
    };
    if is_narrow {
        for e in &mut *entries {
            // A number of that many bits is at the top then.
            e.word = (partition(e) as u64).rotate_right(partitioner.bits()) | (key(e) - least);
        }
        // SAFETY: promised by the caller.
        return unsafe { sort_by_word(layout, entries, is_whole) };
    }
    let starts = part(entries, layout.partitions().len(), partition);
    for range in starts.windows(2) {
        let entries = &mut entries[range[0]..range[1]];
        entries.iter_mut().for_each(|e| e.word = key(e));
        // SAFETY: promised by the caller.
        unsafe { sort_by_word(layout, entries, is_whole) };
    }
}

/// Puts entries in the order of their partitions and keeps it otherwise; where each begins.
fn part(entries: &mut [Sorted], partitions: usize, partition: impl Fn(&Sorted) -> usize) -> Vec<usize> {
    let mut starts = vec![0; partitions + 1];
    for e in &*entries {
        starts[partition(e) + 1] += 1;
    }
    for i in 0..partitions {
        starts[i + 1] += starts[i];
    }
    if starts.windows(2).any(|pair| pair[1] - pair[0] == entries.len()) {
        return starts;
    }
    let (from, mut places) = (entries.to_vec(), starts.clone());
    for e in from {
        let place = &mut places[partition(&e)];
        entries[*place] = e;
        *place += 1;
    }
    starts
}

/// Sorts by the words, then, unless those are the whole keys, by keys.
///
/// # Safety
/// As for [`sorted`].
unsafe fn sort_by_word(layout: &EntryLayout, entries: &mut [Sorted], is_whole: bool) {
    let mut scratch = if entries.len() > SMALL { entries.to_vec() } else { Vec::new() };
    sort_words(entries, &mut scratch);
    if is_whole {
        return;
    }
    for equal in entries.chunk_by_mut(|a, b| a.word == b.word).filter(|equal| equal.len() > 1) {
        // SAFETY: promised by the caller.
        equal.sort_by(|a, b| unsafe { compare_keys(layout, a.entry, b.entry) });
    }
}

/// Stable. `scratch` is as long as the entries if those are not few.
pub(crate) fn sort_words(entries: &mut [Sorted], scratch: &mut [Sorted]) {
    if entries.len() <= SMALL {
        return entries.sort_by_key(|e| e.word);
    }
    let (first, mut last) = (entries[0].word, 0);
    let (differing, descents) = entries.iter().fold((0, 0), |(differing, descents), e| {
        let descends = usize::from(std::mem::replace(&mut last, e.word) > e.word);
        (differing | (e.word ^ first), descents + descends)
    });
    if differing == 0 || descents == 0 {
        return;
    }
    if descents < FEW_RUNS && descents * LONG_RUN < entries.len() {
        // Finds the runs by itself.
        return entries.sort_by_key(|e| e.word);
    }
    let same = differing.leading_zeros();
    let bits = (entries.len() / BUCKET).ilog2().clamp(1, MOST_BITS);
    let bucket = |e: &Sorted| ((e.word << same) >> (u64::BITS - bits)) as usize;
    let mut ends = [0; 1 << MOST_BITS];
    for e in &*entries {
        ends[bucket(e)] += 1;
    }
    let mut start = 0;
    for end in &mut ends[..1 << bits] {
        (*end, start) = (start, start + *end);
    }
    for e in &*entries {
        let place = &mut ends[bucket(e)];
        scratch[*place] = *e;
        *place += 1;
    }
    entries.copy_from_slice(scratch);
    let mut start = 0;
    for &end in &ends[..1 << bits] {
        sort_words(&mut entries[start..end], &mut scratch[start..end]);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{read, write};
    use crate::seal::{Keeping, Moved, move_sorted};
    use millstream_abi::{Accumulator, HASH_SEED, Phys, hash_finish, hash_word};

    /// Sorts entries of a hash and a key, with and without a dense key.
    fn check(entries: impl Iterator<Item = (u64, i64)>) {
        let entries: Vec<(u64, i64)> = entries.collect();
        use Accumulator::{Count, MaxStr};
        for bits in [0, 4, 12] {
            let layout = |phys, accumulator| EntryLayout::new(&[(phys, false)], &[accumulator]).in_partitions(bits);
            let partitioner = Partitioner::of(&layout(Phys::I64, Count));
            check_as(layout(Phys::I64, Count), &entries, |_, key| (partitioner.of_key(key) as u64, key));
            check_as(layout(Phys::I64, MaxStr), &entries, |hash, key| (partitioner.of_hash(hash) as u64, key));
            check_as(layout(Phys::I128, Count), &entries, |hash, key| (hash, key));
            let large = EntryLayout::new(&[(Phys::I64, false)], &[Count; 9]).in_partitions(bits);
            check_as(large, &entries, |_, key| (partitioner.of_key(key) as u64, key));
        }
    }

    fn check_as(layout: EntryLayout, entries: &[(u64, i64)], order: impl Fn(u64, i64) -> (u64, i64)) {
        let mut memory = vec![0u128; (entries.len() * layout.stride).div_ceil(16)];
        let start = memory.as_mut_ptr().cast::<u8>();
        let place = |i: usize| start.wrapping_add(i * layout.stride);
        let number = layout.accumulators[0].1;
        for (i, &(hash, key)) in entries.iter().enumerate() {
            // SAFETY: there is an entry for each.
            unsafe {
                write(place(i), 0, hash);
                write(place(i), number, i as u64);
                match layout.keys[0].phys {
                    Phys::I64 => write(place(i), layout.keys[0].offset, key),
                    _ => write(place(i), layout.keys[0].offset, key as i128),
                }
            }
        }
        // SAFETY: entries of the layout, whose keys are not strings.
        let found = unsafe { sorted(&layout, (0..entries.len()).map(|i| place(i).cast_const())) };
        let mut expected: Vec<usize> = (0..entries.len()).collect();
        expected.sort_by_key(|&i| order(entries[i].0, entries[i].1));
        let found: Vec<_> = found.into_iter().map(|e| e.entry).collect();
        let places: Vec<_> = expected.iter().map(|&i| place(i).cast_const()).collect();
        assert_eq!(found, places);
        // SAFETY: as above; nobody else has the entries.
        unsafe {
            let places = (0..entries.len()).map(|i| place(i).cast_const());
            let Moved { memory: moved, starts, .. } = move_sorted(&layout, (places.clone(), 0), Keeping::default());
            let at = |i: usize| moved.start().add(i * layout.stride).cast_const();
            assert!((0..entries.len()).map(|i| read::<u64>(at(i), number) as usize).eq(expected));
            let order = Order::of(&layout);
            let partition = |i: usize| order.partition(&Sorted { word: order.word(at(i)), entry: at(i) });
            assert!(starts.ranges().all(|(number, mut range)| range.all(|i| partition(i) == number)));
            assert_eq!(starts.len(), entries.len());
            // All places are empty then.
            assert_eq!(move_sorted(&layout, (places, 0), Keeping::default()).starts.len(), 0);
        }
    }

    fn random(n: i64) -> u64 {
        hash_finish(hash_word(HASH_SEED, n as u64))
    }

    #[test]
    fn entries_are_sorted_whatever_their_hashes() {
        let most = if cfg!(miri) { 500 } else { 100_000 };
        for count in [0, 1, 2, SMALL as i64, SMALL as i64 + 1, most] {
            check((0..count).map(|n| (random(n), n)));
            // Those of one partition.
            check((0..count).map(|n| (random(n) >> 4 | 5 << 60, n)));
            // Several entries of a key, in their order, and keys of one hash.
            check((0..count).map(|n| (random(n % 100), n % 300)));
            check((0..count).map(|n| (7, -n)));
            // Runs, and keys that are far from each other.
            check((0..count).map(|n| (random(n % 1000), n % 1000)));
            check((0..count).map(|n| (random(n), n.wrapping_mul(i64::MAX / 3))));
            // Only the lowest and the highest bits differ.
            check((0..count).map(|n| (((n as u64 % 2) << 63) | 2 | (n as u64 % 3), n)));
        }
    }
}
