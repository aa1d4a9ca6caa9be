//! Pairs of a group and a value, each once: what `DISTINCT` keeps of a table.

use super::{Element, string_of};
use crate::arena::Arena;
use millstream_abi::{HASH_SEED, Phys, hash_bytes, hash_finish, hash_word};

/// Places of a new table.
const FIRST_PLACES: usize = 128;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) numbers: Vec<u32>,
    /// Of each pair the words of its element.
    pub(super) values: Vec<u64>,
    /// Numbers of pairs from 1 on, where their hashes say or behind that; 0 where there is none. At most half of them are used.
    places: Vec<u32>,
    /// Of strings.
    pub(super) arena: Arena,
}

impl Pairs {
    /// Takes in pairs. Strings that are new are copied.
    ///
    /// # Safety
    /// Strings are alive.
    pub(super) unsafe fn absorb(&mut self, numbers: &[u32], values: &[u64], element: Element) {
        for (&number, value) in numbers.iter().zip(values.chunks_exact(element.words())) {
            if (self.numbers.len() + 1) * 2 > self.places.len() {
                self.grow(element);
            }
            // SAFETY: promised by the caller; strings of pairs are in the arena.
            unsafe {
                let mask = self.places.len() - 1;
                let mut place = hash(number, value, element) as usize & mask;
                let found = loop {
                    let Some(pair) = self.places[place].checked_sub(1) else { break false };
                    if self.is_pair(pair as usize, number, value, element) {
                        break true;
                    }
                    place = (place + 1) & mask;
                };
                if found {
                    continue;
                }
                self.numbers.push(number);
                self.places[place] =
                    u32::try_from(self.numbers.len()).expect("a table has fewer than 2^32 distinct values");
                match (element.phys, value) {
                    (Phys::Str, &[low, high]) => {
                        let kept = self.arena.keep(string_of([low, high]).as_bytes()).bits();
                        self.values.extend([kept as u64, (kept >> 64) as u64]);
                    }
                    _ => self.values.extend_from_slice(value),
                }
            }
        }
    }

    /// # Safety
    /// Strings are alive.
    unsafe fn is_pair(&self, pair: usize, number: u32, value: &[u64], element: Element) -> bool {
        let words = element.words();
        let own = &self.values[pair * words..][..words];
        self.numbers[pair] == number
            && match (element.phys, own, value) {
                // SAFETY: promised by the caller.
                (Phys::Str, &[a, b], &[c, d]) => unsafe {
                    string_of([a, b]).as_bytes() == string_of([c, d]).as_bytes()
                },
                _ => own == value,
            }
    }

    fn grow(&mut self, element: Element) {
        let places = (2 * self.places.len()).max(FIRST_PLACES);
        self.places = vec![0; places];
        for (i, (&number, value)) in self.numbers.iter().zip(self.values.chunks_exact(element.words())).enumerate() {
            // SAFETY: strings of pairs are in the arena.
            let mut place = unsafe { hash(number, value, element) } as usize & (places - 1);
            while self.places[place] != 0 {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = i as u32 + 1;
        }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        (self.numbers.capacity() + self.places.capacity()) * size_of::<u32>()
            + self.values.capacity() * size_of::<u64>()
            + self.arena.bytes()
    }
}

/// # Safety
/// A string is alive.
unsafe fn hash(number: u32, value: &[u64], element: Element) -> u64 {
    let hash = hash_word(HASH_SEED, number.into());
    hash_finish(match (element.phys, value) {
        (Phys::Str, &[low, high]) => {
            let string = string_of([low, high]);
            // SAFETY: promised by the caller.
            hash_word(hash, hash_bytes(unsafe { string.as_bytes() }))
        }
        _ => value.iter().fold(hash, |hash, &word| hash_word(hash, word)),
    })
}
