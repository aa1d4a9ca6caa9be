//! Which integer keys a table keeps in a dense region: an array indexed by key, which needs neither hash nor comparison.
//!
//! Keys that lie close together, as numbers of campaigns or of recent auctions do, fit an array that is not much larger
//! than the hash part would be. A few outliers may stay outside: the region is around the median.

use millstream_abi::{EntryLayout, KeyRange, KeySlot, Phys, Slot};

/// Fewest keys of a table that are worth a region.
pub(crate) const MIN_KEYS: usize = 8;
/// A region is worth it when at most one key in this many stays outside, and is reconsidered when more do.
pub(crate) const OUTSIDE: usize = 8;
/// A region reaches this many times the number of keys to both sides of the median: then an entry in eight is used at
/// least.
pub(crate) const REACH: usize = 4;
/// The same while nothing is known of what keys there will be: few of them may have come.
const REACH_AT_FIRST: usize = 32;
/// Fewest keys that say anything of those to come.
const TELLING: usize = 512;
/// Most bytes of a region that reaches so far.
const FIRST_BYTES: usize = 4 << 20;

/// How far a region of `keys` keys may reach whose entries have `stride` bytes; `is_known`: whether an earlier table has
/// shown what keys there are.
pub(crate) fn reach(keys: usize, stride: usize, is_known: bool) -> usize {
    match is_known || keys < TELLING {
        true => REACH,
        false => (FIRST_BYTES / (2 * keys * stride)).clamp(REACH, REACH_AT_FIRST),
    }
}

/// A region for most of the keys of a table, if they lie close together, with some room around them, mostly above
/// because many keys ascend. Reorders the keys; linear in their number.
pub(crate) fn region_of_most(keys: &mut [i64], reach: usize) -> Option<KeyRange> {
    if keys.len() < MIN_KEYS {
        return None;
    }
    let reach = (keys.len() * reach) as i64;
    let (_, &mut median, _) = keys.select_nth_unstable(keys.len() / 2);
    let near = median.saturating_sub(reach)..=median.saturating_add(reach);
    let (mut first, mut last, mut inside) = (median, median, 0);
    for key in keys.iter().filter(|key| near.contains(key)) {
        (first, last) = (first.min(*key), last.max(*key));
        inside += 1;
    }
    if (keys.len() - inside) * OUTSIDE > keys.len() {
        return None;
    }
    Some(with_room(KeyRange::between(first, last)))
}

/// A range with room around it, mostly above because many keys ascend.
pub(crate) fn with_room(range: KeyRange) -> KeyRange {
    let rounded = range.len.next_power_of_two().max(8) as i64;
    KeyRange::between(range.first & !(rounded / 8 - 1), range.last() | (rounded / 2 - 1))
}

/// A key that is not NULL, sign-extended.
pub(crate) fn key_of_slot(key: KeySlot, slot: &Slot) -> i64 {
    match key.phys {
        Phys::I8 => i8::from_le_bytes(slot.bytes()) as i64,
        Phys::I16 => i16::from_le_bytes(slot.bytes()) as i64,
        Phys::I32 => i32::from_le_bytes(slot.bytes()) as i64,
        _ => i64::from_le_bytes(slot.bytes()),
    }
}

/// The key of an entry by which a region would have it: none when it is NULL, or the layout has no such key.
///
/// # Safety
/// `entry` is an occupied entry of the layout.
pub(crate) unsafe fn key_of_entry(layout: &EntryLayout, entry: *const u8) -> Option<i64> {
    // SAFETY: promised by the caller.
    layout.dense_key().and_then(|key| unsafe { dense_key_of_entry(layout, key, entry) })
}

/// [`key_of_entry`] by the layout's dense key.
///
/// # Safety
/// As for that.
#[inline]
pub(crate) unsafe fn dense_key_of_entry(layout: &EntryLayout, key: KeySlot, entry: *const u8) -> Option<i64> {
    use crate::entry::{null_mask, read};
    // SAFETY: the entry has the key, of this type.
    unsafe {
        (null_mask(layout, entry) == 0).then(|| match key.phys {
            Phys::I8 => read::<i8>(entry, key.offset) as i64,
            Phys::I16 => read::<i16>(entry, key.offset) as i64,
            Phys::I32 => read::<i32>(entry, key.offset) as i64,
            _ => read::<i64>(entry, key.offset),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last key.
    fn region(keys: impl IntoIterator<Item = i64>) -> Option<(i64, i64)> {
        let KeyRange { first, len } = region_of_most(&mut keys.into_iter().collect::<Vec<_>>(), REACH)?;
        Some((first, first.wrapping_add(len as i64 - 1)))
    }

    #[test]
    fn keys_close_together_get_a_region_with_room_above() {
        assert_eq!(region(0..8), Some((0, 7)));
        assert_eq!(region(0..64), Some((0, 63)));
        assert_eq!(region(0..65), Some((0, 127)));
        assert_eq!(region(1000..1100), Some((992, 1151)));
        assert_eq!(region((-40..60).rev()), Some((-48, 63)));
        assert_eq!(region((0..100).map(|k| k * 7)), Some((0, 1023)));
    }

    #[test]
    fn few_or_scattered_keys_get_none() {
        assert_eq!(region(0..MIN_KEYS as i64 - 1), None);
        assert_eq!(region((0..1000).map(|k| k * 12)), None);
        assert_eq!(region((0..1000).map(|k| k * k * k)), None);
    }

    #[test]
    fn what_is_not_known_may_be_wide_at_first() {
        assert_eq!((reach(100, 8, false), reach(1000, 8, true), reach(1000, 8, false)), (REACH, REACH, REACH_AT_FIRST));
        assert_eq!(reach(1 << 20, 8, false), REACH, "not with so much memory");
    }

    #[test]
    fn outliers_stay_outside() {
        let outliers = [i64::MIN, i64::MAX, 1 << 40, -(1 << 50)];
        assert_eq!(region((0..200).chain(outliers)), Some((0, 255)));
    }

    #[test]
    fn regions_reach_the_ends_of_the_integers_and_not_beyond() {
        let top = region(i64::MAX - 99..=i64::MAX).expect("close together");
        assert_eq!(top, (i64::MAX - 111, i64::MAX));
        let bottom = region(i64::MIN..i64::MIN + 100).expect("close together");
        assert_eq!(bottom, (i64::MIN, i64::MIN + 127));
    }
}
