//! Sets of distinct values.

use super::values::{Values, positive_zero, string, word};
use millstream_abi::{HASH_SEED, Phys, Slot, hash_bytes, hash_finish, hash_word};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// The hash of entries as a hasher of collections: fast, and not random.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryHasher(u64);

impl Default for EntryHasher {
    fn default() -> EntryHasher {
        EntryHasher(HASH_SEED)
    }
}

impl Hasher for EntryHasher {
    fn finish(&self) -> u64 {
        hash_finish(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash_word(self.0, hash_bytes(bytes));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = hash_word(self.0, word);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

type Set<T> = HashSet<T, BuildHasherDefault<EntryHasher>>;

/// Distinct values of one type; NULL is none.
#[derive(Debug, Clone)]
pub(crate) enum Distinct {
    /// Words as in [`Values::Words`], with -0.0 as 0.0.
    Words(Set<i64>),
    /// I128.
    Wides(Set<i128>),
    /// Strings, and the bytes of all of them.
    Strings(Set<Box<[u8]>>, usize),
}

impl Distinct {
    /// An empty set.
    pub(super) fn new(phys: Phys) -> Distinct {
        match phys {
            Phys::I128 => Distinct::Wides(Set::default()),
            Phys::Str => Distinct::Strings(Set::default(), 0),
            _ => Distinct::Words(Set::default()),
        }
    }

    /// The set of values.
    pub(super) fn of(values: &Values) -> Distinct {
        match values {
            Values::Words(words) => Distinct::Words(words.iter().copied().collect()),
            Values::Wides(wides) => Distinct::Wides(wides.iter().copied().collect()),
            Values::Strings(bytes, ends) => {
                let strings = (0..ends.len()).map(|i| values.string(i).into()).collect();
                Distinct::Strings(strings, bytes.len())
            }
        }
    }

    /// Adds a value.
    ///
    /// # Safety
    /// The slot holds a value of the type of the set, and its string is alive.
    pub(super) unsafe fn insert(&mut self, phys: Phys, value: &Slot) {
        match self {
            Distinct::Words(set) => {
                set.insert(positive_zero(phys, word(phys, value)));
            }
            Distinct::Wides(set) => {
                set.insert(i128::from_le_bytes(value.bytes()));
            }
            Distinct::Strings(set, total) => {
                let string = string(value);
                // SAFETY: promised by the caller.
                insert_string(set, total, unsafe { string.as_bytes() });
            }
        }
    }

    /// Adds all of another set of the same type.
    pub(super) fn union(&mut self, other: &Distinct) {
        match (self, other) {
            (Distinct::Words(set), Distinct::Words(other)) => set.extend(other),
            (Distinct::Wides(set), Distinct::Wides(other)) => set.extend(other),
            (Distinct::Strings(set, total), Distinct::Strings(other, _)) => {
                other.iter().for_each(|string| insert_string(set, total, string));
            }
            _ => unreachable!("the values of a component are of one type"),
        }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        match self {
            Distinct::Words(set) => set.len(),
            Distinct::Wides(set) => set.len(),
            Distinct::Strings(set, _) => set.len(),
        }
    }

    /// The values in ascending order.
    pub(crate) fn ascending(&self) -> Values {
        match self {
            Distinct::Words(set) => Values::Words(sorted(set.iter().copied())),
            Distinct::Wides(set) => Values::Wides(sorted(set.iter().copied())),
            Distinct::Strings(set, _) => Values::of_strings(sorted(set.iter().map(|string| &**string))),
        }
    }

    /// Bytes of memory, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Distinct::Words(set) => set.capacity() * (size_of::<i64>() + 1),
            Distinct::Wides(set) => set.capacity() * (size_of::<i128>() + 1),
            Distinct::Strings(set, total) => set.capacity() * (size_of::<Box<[u8]>>() + 1) + total,
        }
    }
}

fn insert_string(set: &mut Set<Box<[u8]>>, total: &mut usize, string: &[u8]) {
    if !set.contains(string) {
        *total += string.len();
        set.insert(string.into());
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values
}
