//! Sorting entries by hash, then keys: an order that depends on the keys alone.
//!
//! Hashes are uniform, so entries are put into buckets by the highest bits in which their hashes differ, until the buckets
//! are small: two passes for ten million entries, and little for a few. That is about linear in their number, where a sort
//! by comparison, with an access to two entries each, would be what takes longest in a merge.

use crate::entry::{compare_keys, hash};
use millstream_abi::EntryLayout;

/// Most entries that are sorted by comparison of hashes.
const SMALL: usize = 48;
/// About as many entries are meant to be in a bucket.
const BUCKET: usize = 8;
/// Most bits of a pass: more buckets than cache lines and pages that a core has at hand would be slower.
const MOST_BITS: u32 = 10;

/// An entry, with its hash at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed {
    pub(crate) hash: u64,
    pub(crate) entry: *const u8,
}

/// Sorts entries by hash, then keys. Entries with equal keys keep their order.
///
/// # Safety
/// All are occupied entries of `layout` whose strings are alive.
pub(crate) unsafe fn sorted(layout: &EntryLayout, entries: impl Iterator<Item = *const u8>) -> Vec<Hashed> {
    // SAFETY: promised by the caller.
    let mut entries: Vec<Hashed> = entries.map(|entry| Hashed { hash: unsafe { hash(entry) }, entry }).collect();
    let mut scratch = if entries.len() > SMALL { entries.clone() } else { Vec::new() };
    sort_by_hash(&mut entries, &mut scratch);
    for equal in entries.chunk_by_mut(|a, b| a.hash == b.hash).filter(|equal| equal.len() > 1) {
        // SAFETY: promised by the caller.
        equal.sort_by(|a, b| unsafe { compare_keys(layout, a.entry, b.entry) });
    }
    entries
}

/// Stable. `scratch` is as long as the entries if those are not few.
fn sort_by_hash(entries: &mut [Hashed], scratch: &mut [Hashed]) {
    if entries.len() <= SMALL {
        return entries.sort_by_key(|e| e.hash);
    }
    let first = entries[0].hash;
    let differing = entries.iter().fold(0, |bits, e| bits | (e.hash ^ first));
    if differing == 0 {
        return;
    }
    let same = differing.leading_zeros();
    let bits = (entries.len() / BUCKET).ilog2().clamp(1, MOST_BITS);
    let bucket = |e: &Hashed| ((e.hash << same) >> (u64::BITS - bits)) as usize;
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
        sort_by_hash(&mut entries[start..end], &mut scratch[start..end]);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::write;
    use millstream_abi::{Accumulator, HASH_SEED, Phys, hash_finish, hash_word};

    /// Entries of a hash and a key, and how they should be sorted.
    fn check(entries: impl Iterator<Item = (u64, i64)>) {
        let layout = EntryLayout::new(&[(Phys::I64, false)], &[Accumulator::Count]);
        let mut expected: Vec<(u64, i64, usize)> = entries.enumerate().map(|(i, (hash, key))| (hash, key, i)).collect();
        let mut memory = vec![0u64; expected.len() * layout.stride / 8];
        let start = memory.as_mut_ptr().cast::<u8>();
        let place = |i: usize| start.wrapping_add(i * layout.stride);
        for &(hash, key, i) in &expected {
            // SAFETY: there is an entry for each.
            unsafe {
                write(place(i), 0, hash);
                write(place(i), layout.keys[0].offset, key);
            }
        }
        // SAFETY: entries of the layout, whose keys are no strings.
        let found = unsafe { sorted(&layout, (0..expected.len()).map(|i| place(i).cast_const())) };
        expected.sort();
        let found: Vec<_> = found.into_iter().map(|e| (e.hash, e.entry)).collect();
        let expected: Vec<_> = expected.into_iter().map(|(hash, _, i)| (hash, place(i).cast_const())).collect();
        assert_eq!(found, expected);
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
            // Only the lowest and the highest bits differ.
            check((0..count).map(|n| (((n as u64 % 2) << 63) | 2 | (n as u64 % 3), n)));
        }
    }
}
