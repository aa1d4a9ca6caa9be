//! Pairs of a group and a value, each once: what `DISTINCT` keeps of a table.
//!
//! Pairs of a value that is a word are found by the value, where values lie close together ([`Direct`]); all others by a hash.

use super::direct::{Columns, Direct, SPARSE};
use super::{Element, string_of};
use crate::arena::Arena;
use millstream_abi::{HASH_SEED, Phys, hash_bytes, hash_finish, hash_word, prefetch};

/// Places of a new table.
const FIRST_PLACES: usize = 128;
/// Pairs whose places are looked at together, so that the memory is waited for once.
const TOGETHER: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) numbers: Vec<u32>,
    /// Of each pair the words of its element.
    pub(super) values: Vec<u64>,
    /// Where its hash says or behind that: the upper half of the hash of a pair, and in the lower half its number from 1 on; 0 where there is
    /// none. At most half of them are used.
    places: Vec<u64>,
    /// Pairs that have a place.
    hashed: usize,
    /// The others.
    direct: Direct,
    /// Pairs on their way from there to the places. Empty but for its memory.
    beside: Columns,
    /// Of strings.
    pub(super) arena: Arena,
}

/// The half of a word that is not the number of a pair.
const TAG: u64 = !0 << 32;

impl Pairs {
    /// Takes in pairs. Strings that are new are copied.
    ///
    /// # Safety
    /// Strings are alive.
    pub(super) unsafe fn absorb(&mut self, numbers: &[u32], values: &[u64], element: Element) {
        let words = element.words();
        if words == 1 {
            return self.absorb_words(numbers, values, element);
        }
        let is_same = |own: &[u64], pair: usize, value: &[u64]| {
            let own = &own[pair * words..][..words];
            match (element.phys, own, value) {
                // SAFETY: promised by the caller; strings of pairs are in the arena.
                (Phys::Str, &[a, b], &[c, d]) => unsafe {
                    string_of([a, b]).as_bytes() == string_of([c, d]).as_bytes()
                },
                _ => own == value,
            }
        };
        // SAFETY: promised by the caller.
        unsafe { self.absorb_as(numbers, values, (element, words), is_same) }
    }

    /// [`Pairs::absorb`] of words.
    fn absorb_words(&mut self, numbers: &[u32], values: &[u64], element: Element) {
        let is_same = |own: &[u64], pair: usize, value: &[u64]| own[pair] == value[0];
        let mut left = (numbers, &values[..numbers.len()]);
        while !left.0.is_empty() {
            if self.direct.is_empty() {
                let places = self.places.len();
                // SAFETY: words are no strings.
                unsafe { self.absorb_as(left.0, left.1, (element, 1), is_same) };
                if self.places.len() != places {
                    self.direct.begin(&self.numbers, &self.values);
                }
                return;
            }
            let mut beside = std::mem::take(&mut self.beside);
            let done = self.direct.absorb(left.0, left.1, (&mut self.numbers, &mut self.values), &mut beside);
            // SAFETY: as above.
            unsafe { self.absorb_as(&beside.0, &beside.1, (element, 1), is_same) };
            beside.0.clear();
            beside.1.clear();
            self.beside = beside;
            left = (&left.0[done..], &left.1[done..]);
            if let Some(&outside) = left.1.first() {
                self.direct.grow_to(outside, &self.numbers, &self.values);
            }
        }
    }

    /// [`Pairs::absorb`] of elements of some words, by their hashes.
    ///
    /// # Safety
    /// As for that.
    #[inline(always)]
    unsafe fn absorb_as(
        &mut self,
        numbers: &[u32],
        values: &[u64],
        (element, words): (Element, usize),
        is_same: impl Fn(&[u64], usize, &[u64]) -> bool,
    ) {
        let mut batches = numbers.chunks(TOGETHER).zip(values.chunks(TOGETHER * words));
        let mut batch = batches.next();
        // SAFETY: promised by the caller.
        let mut hashes = batch.map_or([0; TOGETHER], |batch| unsafe { self.hashes(batch, element, words) });
        while let Some((numbers, values)) = batch {
            if (self.hashed + TOGETHER) * 2 > self.places.len() {
                self.grow();
            }
            // The memory of the next pairs comes while these are looked at.
            batch = batches.next();
            // SAFETY: promised by the caller.
            let next = batch.map_or([0; TOGETHER], |batch| unsafe { self.hashes(batch, element, words) });
            let hashes = std::mem::replace(&mut hashes, next);
            let mask = self.places.len() - 1;
            let first = hashes.map(|hash| self.places[hash as usize >> 32 & mask]);
            for (hash, there) in hashes.iter().zip(first).filter(|&(_, there)| there != 0) {
                if there & TAG == hash & TAG {
                    let pair = (there & !TAG) as usize - 1;
                    prefetch(self.numbers.as_ptr().wrapping_add(pair).cast(), 1);
                    prefetch(self.values.as_ptr().wrapping_add(pair * words).cast(), 1);
                }
            }
            for (i, (&number, value)) in numbers.iter().zip(values.chunks_exact(words)).enumerate() {
                let tag = hashes[i] & TAG;
                let mut place = hashes[i] as usize >> 32 & mask;
                // One before may have taken the place.
                let mut there = if first[i] == 0 { self.places[place] } else { first[i] };
                let is_new = loop {
                    if there == 0 {
                        break true;
                    }
                    let pair = (there & !TAG) as usize - 1;
                    if there & TAG == tag && self.numbers[pair] == number && is_same(&self.values, pair, value) {
                        break false;
                    }
                    place = (place + 1) & mask;
                    there = self.places[place];
                };
                if is_new {
                    self.numbers.push(number);
                    self.hashed += 1;
                    let pair = u32::try_from(self.numbers.len()).expect("a table has fewer than 2^32 distinct values");
                    self.places[place] = tag | u64::from(pair);
                    // SAFETY: promised by the caller.
                    unsafe { self.push_value(value, element) };
                }
            }
        }
    }

    /// The hashes of pairs, whose places are fetched. Before there are places that is any address, which does no harm.
    ///
    /// # Safety
    /// Strings are alive.
    #[inline(always)]
    unsafe fn hashes(&self, (numbers, values): (&[u32], &[u64]), element: Element, words: usize) -> [u64; TOGETHER] {
        let mut hashes = [0; TOGETHER];
        let mask = self.places.len().wrapping_sub(1);
        for (place, (&number, value)) in hashes.iter_mut().zip(numbers.iter().zip(values.chunks_exact(words))) {
            // SAFETY: promised by the caller.
            *place = unsafe { hash(number, value, element) };
            prefetch(self.places.as_ptr().wrapping_add(*place as usize >> 32 & mask).cast(), 1);
        }
        hashes
    }

    /// # Safety
    /// A string is alive.
    unsafe fn push_value(&mut self, value: &[u64], element: Element) {
        match (element.phys, value) {
            (_, &[word]) => self.values.push(word),
            (Phys::Str, &[low, high]) => {
                let string = string_of([low, high]);
                // SAFETY: promised by the caller.
                let kept = self.arena.keep(unsafe { string.as_bytes() }).bits();
                self.values.extend([kept as u64, (kept >> 64) as u64]);
            }
            _ => self.values.extend_from_slice(value),
        }
    }

    fn grow(&mut self) {
        let places = (2 * self.places.len()).max(FIRST_PLACES);
        let mask = places - 1;
        for word in std::mem::replace(&mut self.places, vec![0; places]).into_iter().filter(|&word| word != 0) {
            let mut place = (word >> 32) as usize & mask;
            while self.places[place] != 0 {
                place = (place + 1) & mask;
            }
            self.places[place] = word;
        }
    }

    /// Empties it. Memory remains, unless less than a part of it was used.
    pub(super) fn clear(&mut self) {
        if self.hashed * SPARSE < self.places.len() {
            self.places = Vec::new();
        }
        self.direct.clear(self.numbers.len() - self.hashed);
        if self.numbers.len() * SPARSE < self.numbers.capacity() {
            (self.numbers, self.values) = (Vec::new(), Vec::new());
        }
        self.numbers.clear();
        self.values.clear();
        self.places.fill(0);
        self.hashed = 0;
        self.arena = Arena::default();
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.capacity() * size_of::<u32>()
            + (self.places.capacity() + self.values.capacity()) * size_of::<u64>()
            + self.direct.bytes()
            + self.beside.0.capacity() * size_of::<u32>()
            + self.beside.1.capacity() * size_of::<u64>()
            + self.arena.bytes()
    }
}

/// The upper half says where a pair is.
///
/// # Safety
/// A string is alive.
#[inline(always)]
unsafe fn hash(number: u32, value: &[u64], element: Element) -> u64 {
    let hash = hash_word(HASH_SEED, number.into());
    hash_finish(match (element.phys, value) {
        (_, &[word]) => hash_word(hash, word),
        (Phys::Str, &[low, high]) => {
            let string = string_of([low, high]);
            // SAFETY: promised by the caller.
            hash_word(hash, hash_bytes(unsafe { string.as_bytes() }))
        }
        _ => value.iter().fold(hash, |hash, &word| hash_word(hash, word)),
    })
}
