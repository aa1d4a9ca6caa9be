//! Access to the fields of an entry, by its layout.
//!
//! Every function takes a pointer to an occupied entry of the layout it is given; that is what their safety contracts
//! mean by *entry*.

use crate::arena::Arena;
use millstream_abi::{
    Accumulator, EntryLayout, HASH_SEED, KeySlot, Phys, Slot, Str, hash_finish, hash_str, hash_wide, hash_word,
};
use std::cmp::Ordering;

/// Reads a field.
///
/// # Safety
/// `entry` is an entry with a `T` at `offset`.
#[inline]
pub(crate) unsafe fn read<T: Copy>(entry: *const u8, offset: usize) -> T {
    // SAFETY: promised by the caller; the layout aligns every field to its size, and entries to 16 where needed.
    unsafe { entry.add(offset).cast::<T>().read() }
}

/// Writes a field.
///
/// # Safety
/// As for [`read`], and nobody else uses the entry.
#[inline]
pub(crate) unsafe fn write<T>(entry: *mut u8, offset: usize, value: T) {
    // SAFETY: as in `read`.
    unsafe { entry.add(offset).cast::<T>().write(value) }
}

/// A fresh entry: zero hash and keys, initial accumulators.
pub(crate) fn template(layout: &EntryLayout) -> Box<[u8]> {
    let mut template = vec![0; layout.stride].into_boxed_slice();
    for &(component, offset) in &layout.accumulators {
        template[offset..offset + component.size()].copy_from_slice(&component.initial()[..component.size()]);
    }
    template
}

/// Offsets of the keys that are strings.
pub(crate) fn string_keys(layout: &EntryLayout) -> Vec<usize> {
    layout.keys.iter().filter(|k| k.phys == Phys::Str).map(|k| k.offset).collect()
}

/// Offsets of MIN and MAX of strings.
pub(crate) fn string_extremes(layout: &EntryLayout) -> impl Iterator<Item = usize> + use<'_> {
    let is_string = |a: Accumulator| matches!(a, Accumulator::MinStr | Accumulator::MaxStr);
    layout.accumulators.iter().filter(move |(a, _)| is_string(*a)).map(|&(_, offset)| offset)
}

/// Offsets of all strings.
pub(crate) fn strings(layout: &EntryLayout) -> Vec<usize> {
    string_keys(layout).into_iter().chain(string_extremes(layout)).collect()
}

/// Copies the strings at `offsets` of entries into an arena.
///
/// # Safety
/// The entries have strings there, `NONE` or alive, and are ours to write.
pub(crate) unsafe fn move_strings(entries: &[*mut u8], offsets: &[usize], arena: &mut Arena) {
    for &occupied in entries {
        for &offset in offsets {
            // SAFETY: promised by the caller.
            unsafe {
                let string: Str = read(occupied, offset);
                if string != Str::NONE {
                    write(occupied, offset, arena.keep(string.as_bytes()));
                }
            }
        }
    }
}

/// Copies an entry of `stride` bytes. The common sizes are known to the compiler: a call for each entry takes longer
/// than the copy.
///
/// # Safety
/// Both are memory of `stride` bytes, and not the same; `to` is ours to write.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, stride: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        match stride {
            16 => to.copy_from_nonoverlapping(from, 16),
            24 => to.copy_from_nonoverlapping(from, 24),
            32 => to.copy_from_nonoverlapping(from, 32),
            40 => to.copy_from_nonoverlapping(from, 40),
            48 => to.copy_from_nonoverlapping(from, 48),
            _ => to.copy_from_nonoverlapping(from, stride),
        }
    }
}

/// The entry's hash; 0 when it is empty.
///
/// # Safety
/// `entry` is an entry, or an empty one.
#[inline]
pub(crate) unsafe fn hash(entry: *const u8) -> u64 {
    // SAFETY: the hash is at offset 0 of every entry.
    unsafe { read(entry, 0) }
}

/// The entry's null mask; 0 when no key is nullable.
///
/// # Safety
/// `entry` is an entry of `layout`.
#[inline]
pub(crate) unsafe fn null_mask(layout: &EntryLayout, entry: *const u8) -> u64 {
    match layout.null_mask {
        // SAFETY: the layout places the mask there.
        Some(offset) => unsafe { read(entry, offset) },
        None => 0,
    }
}

/// The hash of some of the keys of an entry: that of rows with these values, as generated code computes it.
///
/// # Safety
/// `entry` is an entry of `layout` whose strings are alive.
pub(crate) unsafe fn hash_of_keys(layout: &EntryLayout, entry: *const u8, keys: &[usize]) -> u64 {
    // SAFETY: promised by the caller.
    let mask = unsafe { null_mask(layout, entry) };
    let fold = |hash: u64, &number: &usize| {
        let (at, phys) = (layout.keys[number].offset, layout.keys[number].phys);
        if mask >> number & 1 == 1 {
            return hash_word(hash, HASH_SEED);
        }
        // SAFETY: the field has the size of the physical type; floats in it are canonical.
        unsafe {
            match phys {
                Phys::Bool | Phys::I8 => hash_word(hash, i64::from(read::<i8>(entry, at)) as u64),
                Phys::I16 => hash_word(hash, i64::from(read::<i16>(entry, at)) as u64),
                Phys::I32 => hash_word(hash, i64::from(read::<i32>(entry, at)) as u64),
                Phys::I64 => hash_word(hash, read(entry, at)),
                Phys::F32 => hash_word(hash, f64::from(read::<f32>(entry, at)).to_bits()),
                Phys::F64 => hash_word(hash, read(entry, at)),
                Phys::I128 => hash_wide(hash, read(entry, at)),
                Phys::Str => hash_str(hash, read(entry, at)),
            }
        }
    };
    hash_finish(keys.iter().fold(HASH_SEED, fold))
}

/// Writes the null mask and the keys of a fresh entry; long strings are copied into the arena.
///
/// # Safety
/// `entry` is an entry of `layout` whose keys are zero; nobody else uses it. Slots hold values of the keys' types whose
/// strings are alive.
pub(crate) unsafe fn write_keys(
    layout: &EntryLayout,
    entry: *mut u8,
    null_mask: u64,
    keys: &[Slot],
    arena: &mut Arena,
) {
    if let Some(offset) = layout.null_mask {
        // SAFETY: the layout places the mask there.
        unsafe { write(entry, offset, null_mask) };
    }
    for (i, (key, slot)) in layout.keys.iter().zip(keys).enumerate() {
        if null_mask >> i & 1 == 1 {
            continue;
        }
        let mut value = *slot;
        if key.phys == Phys::Str {
            let string = Str::from_bits(u128::from_le_bytes(slot.bytes()));
            // SAFETY: the caller promises that the string is alive.
            value = Slot::of(arena.keep(unsafe { string.as_bytes() }).bits().to_le_bytes());
        }
        // SAFETY: the entry has the key, and its string is in the arena now.
        unsafe { write_key(entry, key, &value) };
    }
}

/// Writes a key that is not NULL in its canonical form: -0.0 as 0.0 and one NaN, because those are one group and its
/// value must not depend on which row came first.
///
/// # Safety
/// `entry` is an entry with `key`; nobody else uses it; a string in `value` has been kept by the entry's owner.
unsafe fn write_key(entry: *mut u8, key: &KeySlot, value: &Slot) {
    // SAFETY: the field has the size of the physical type.
    unsafe {
        match key.phys {
            Phys::Bool | Phys::I8 => write(entry, key.offset, value.bytes::<1>()),
            Phys::I16 => write(entry, key.offset, value.bytes::<2>()),
            Phys::I32 => write(entry, key.offset, value.bytes::<4>()),
            Phys::I64 => write(entry, key.offset, value.bytes::<8>()),
            Phys::I128 | Phys::Str => write(entry, key.offset, value.bytes::<16>()),
            Phys::F32 => write(entry, key.offset, canonical_f32(f32::from_le_bytes(value.bytes()))),
            Phys::F64 => write(entry, key.offset, canonical_f64(f64::from_le_bytes(value.bytes()))),
        }
    }
}

fn canonical_f32(x: f32) -> f32 {
    if x.is_nan() { f32::NAN } else { x + 0.0 }
}

/// One NaN, and -0.0 as 0.0: what is equal has the same bits.
pub(crate) fn canonical_f64(x: f64) -> f64 {
    if x.is_nan() { f64::NAN } else { x + 0.0 }
}

/// Whether an entry has keys, given as for [`write_keys`].
///
/// # Safety
/// `entry` is an entry of `layout` whose strings are alive, and so are those of the slots, which hold values of the keys'
/// types.
pub(crate) unsafe fn has_keys(layout: &EntryLayout, entry: *const u8, mask: u64, keys: &[Slot]) -> bool {
    // SAFETY: promised by the caller.
    if unsafe { null_mask(layout, entry) } != mask {
        return false;
    }
    layout.keys.iter().zip(keys).enumerate().all(|(i, (key, slot))| {
        let at = key.offset;
        // SAFETY: the field has the size of the physical type; strings are alive.
        mask >> i & 1 == 1
            || unsafe {
                match key.phys {
                    Phys::Bool | Phys::I8 => read::<[u8; 1]>(entry, at) == slot.bytes(),
                    Phys::I16 => read::<[u8; 2]>(entry, at) == slot.bytes(),
                    Phys::I32 => read::<[u8; 4]>(entry, at) == slot.bytes(),
                    Phys::I64 => read::<[u8; 8]>(entry, at) == slot.bytes(),
                    Phys::I128 => read::<[u8; 16]>(entry, at) == slot.bytes(),
                    Phys::F32 => read::<u32>(entry, at) == canonical_f32(f32::from_le_bytes(slot.bytes())).to_bits(),
                    Phys::F64 => read::<u64>(entry, at) == canonical_f64(f64::from_le_bytes(slot.bytes())).to_bits(),
                    Phys::Str => {
                        let (l, r): (Str, Str) = (read(entry, at), Str::from_bits(u128::from_le_bytes(slot.bytes())));
                        l == r || l.as_bytes() == r.as_bytes()
                    }
                }
            }
    })
}

/// Total order of the keys of two entries: equal iff they are one group. The order itself only has to be the same
/// everywhere.
///
/// # Safety
/// Both are entries of `layout` whose strings are alive.
pub(crate) unsafe fn compare_keys(layout: &EntryLayout, left: *const u8, right: *const u8) -> Ordering {
    // SAFETY: forwarded.
    let masks = unsafe { null_mask(layout, left).cmp(&null_mask(layout, right)) };
    masks.then_with(|| {
        let fields = layout.keys.iter().map(|key| {
            // SAFETY: both entries have the key; NULL keys are zero bytes, an empty string among them.
            unsafe { compare_key(key, left, right) }
        });
        fields.fold(Ordering::Equal, Ordering::then)
    })
}

/// # Safety
/// As for [`compare_keys`].
unsafe fn compare_key(key: &KeySlot, left: *const u8, right: *const u8) -> Ordering {
    let at = key.offset;
    // SAFETY: the field has the size of the physical type.
    unsafe {
        match key.phys {
            Phys::Bool | Phys::I8 => read::<i8>(left, at).cmp(&read(right, at)),
            Phys::I16 => read::<i16>(left, at).cmp(&read(right, at)),
            Phys::I32 => read::<i32>(left, at).cmp(&read(right, at)),
            Phys::I64 => read::<i64>(left, at).cmp(&read(right, at)),
            Phys::I128 => read::<i128>(left, at).cmp(&read(right, at)),
            // Canonical floats are equal iff their bits are.
            Phys::F32 => read::<u32>(left, at).cmp(&read(right, at)),
            Phys::F64 => read::<u64>(left, at).cmp(&read(right, at)),
            Phys::Str => {
                let (l, r): (Str, Str) = (read(left, at), read(right, at));
                if l == r { Ordering::Equal } else { l.as_bytes().cmp(r.as_bytes()) }
            }
        }
    }
}
