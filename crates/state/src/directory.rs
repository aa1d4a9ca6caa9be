//! Places of entries by packed keys (`millstream_abi::PackedKey`): which keys a directory is for.
//!
//! ```text
//! way 0…3, direction 0…1, segment 0…99    2 + 1 + 7 bits: 1,024 places for 800 groups
//! ```
//!
//! Hashing three columns, and comparing them with those of an entry, takes longer than most updates. Where columns have few
//! values, all that is asked is where the entry of a small number is. Generated code reads and writes the directory; here is
//! decided how keys are packed: when the hash part grows, by the keys that there are.

use crate::entry::{null_mask, read};
use crate::memory::EntryMemory;
use millstream_abi::{EntryLayout, KeySlot, MOST_PACKED, PackedKey, Phys};

/// Places of a directory for each entry, at most: as much memory as a few words of an entry.
const PLACES_OF_ENTRY: usize = 16;
/// A directory that is no larger is worth it in any case.
const SMALL: usize = 1 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Code writes it.
    places: EntryMemory,
    packing: [PackedKey; MOST_PACKED],
}

impl Default for Directory {
    fn default() -> Directory {
        Directory { places: EntryMemory::zeroed(0), packing: [PackedKey::default(); MOST_PACKED] }
    }
}

impl Directory {
    /// One for the keys of entries, which knows none of them yet; none if they are far from each other.
    ///
    /// # Safety
    /// They are occupied entries of a layout that packs.
    pub(crate) unsafe fn of(layout: &EntryLayout, entries: impl Iterator<Item = *const u8>) -> Directory {
        let mut bounds = [(i64::MAX, i64::MIN); MOST_PACKED];
        let mut count = 0;
        for entry in entries {
            count += 1;
            // SAFETY: promised by the caller.
            let nulls = unsafe { null_mask(layout, entry) };
            for (number, (key, (first, last))) in layout.keys.iter().zip(&mut bounds).enumerate() {
                if nulls >> number & 1 == 0 {
                    // SAFETY: as above.
                    let value = unsafe { word(*key, entry) };
                    (*first, *last) = ((*first).min(value), (*last).max(value));
                }
            }
        }
        let mut packing = [PackedKey::default(); MOST_PACKED];
        let mut all = 0;
        for (packed, (first, last)) in packing.iter_mut().zip(bounds).take(layout.keys.len()) {
            // All of them are NULL: then none is covered whose value is another than 0.
            let span = if first > last { 0 } else { last.wrapping_sub(first) as u64 };
            *packed = PackedKey {
                first: if first > last { 0 } else { first },
                bits: u64::from(u64::BITS - span.leading_zeros()),
            };
            all += packed.bits;
        }
        let most = SMALL.max(PLACES_OF_ENTRY * count);
        match all < usize::BITS.into() && 1 << all <= most {
            true => Directory { places: EntryMemory::zeroed(size_of::<u32>() << all), packing },
            false => Directory::default(),
        }
    }

    /// For the header: the places, and how many there are.
    pub(crate) fn places(&self) -> (*mut u32, u64) {
        (self.places.start().cast(), (self.places.bytes() / size_of::<u32>()) as u64)
    }

    pub(crate) fn packing(&self) -> [PackedKey; MOST_PACKED] {
        self.packing
    }

    /// Whether it covers the key of an entry.
    ///
    /// # Safety
    /// It is an occupied entry of the layout that the directory was made for.
    pub(crate) unsafe fn covers(&self, layout: &EntryLayout, entry: *const u8) -> bool {
        let is_covered = |(key, packed): (&KeySlot, &PackedKey)| {
            // SAFETY: promised by the caller.
            (unsafe { word(*key, entry) }.wrapping_sub(packed.first) as u64) >> packed.bits == 0
        };
        // SAFETY: as above.
        let has_nulls = unsafe { null_mask(layout, entry) } != 0;
        self.is_there() && !has_nulls && layout.keys.iter().zip(&self.packing).all(is_covered)
    }

    /// Forgets all places.
    pub(crate) fn forget(&mut self) {
        // SAFETY: the memory is ours, and zeros are places.
        unsafe { self.places.start().write_bytes(0, self.places.bytes()) };
    }

    /// Whether it is for any key.
    pub(crate) fn is_there(&self) -> bool {
        self.places.bytes() > 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.places.bytes()
    }
}

/// A key that is not NULL, as code widens it.
///
/// # Safety
/// It is an occupied entry with the key.
unsafe fn word(key: KeySlot, entry: *const u8) -> i64 {
    // SAFETY: promised by the caller.
    unsafe {
        match key.phys {
            Phys::Bool => read::<u8>(entry, key.offset).into(),
            Phys::I8 => read::<i8>(entry, key.offset).into(),
            Phys::I16 => read::<i16>(entry, key.offset).into(),
            Phys::I32 => read::<i32>(entry, key.offset).into(),
            _ => read(entry, key.offset),
        }
    }
}
