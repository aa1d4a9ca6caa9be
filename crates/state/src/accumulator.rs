//! Merge of accumulators: the counterpart of the updates that row programs do (`millstream_abi::Accumulator`).

use crate::arena::Arena;
use crate::entry::{read, write};
use crate::list::{self, Element};
use crate::object::{self, key_of_number, number_of_key};
use millstream_abi::exact::{self, Fixed};
use millstream_abi::{Accumulator, EntryLayout, Str};
use std::cmp::Ordering;

/// Minimum of doubles where NaN is above all numbers and -0.0 below 0.0.
fn min_f64(a: f64, b: f64) -> f64 {
    number_of_key(key_of_number(a).min(key_of_number(b)))
}

/// Maximum of doubles in the same order.
fn max_f64(a: f64, b: f64) -> f64 {
    number_of_key(key_of_number(a).max(key_of_number(b)))
}

/// Which of two strings of MIN or MAX stays: `b` if it is `wanted` against `a`. `NONE` gives way to any.
///
/// # Safety
/// The bytes of both are alive.
unsafe fn choose(a: Str, b: Str, wanted: Ordering) -> Str {
    if a == Str::NONE {
        return b;
    }
    if b == Str::NONE {
        return a;
    }
    // SAFETY: promised by the caller; neither is NONE.
    let order = unsafe { b.as_bytes().cmp(a.as_bytes()) };
    if order == wanted { b } else { a }
}

/// Entries that follow each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strided {
    /// Bytes from one to the next.
    pub(crate) stride: usize,
    pub(crate) count: usize,
}

/// Changes a field of entries to what it and that of others are together.
///
/// # Safety
/// Both are `count` entries with a `T` at `offset`, and nobody else uses `into`.
#[inline(always)]
pub(crate) unsafe fn combine<T: Copy>(
    offset: usize,
    into: *mut u8,
    from: *const u8,
    Strided { stride, count }: Strided,
    together: impl Fn(T, T) -> T,
) {
    // SAFETY: promised by the caller.
    unsafe {
        let (into, from) = (into.add(offset), from.add(offset));
        if stride == size_of::<T>() {
            // The same with a stride that the compiler knows, and so with vectors.
            let (into, from) = (into.cast::<T>(), from.cast::<T>());
            for i in 0..count {
                into.add(i).write(together(into.add(i).read(), from.add(i).read()));
            }
            return;
        }
        for at in (0..count).map(|i| i * stride) {
            write(into, at, together(read(into, at), read(from, at)));
        }
    }
}

/// Merges the component at `offset` of entries that follow each other with those at the same places from `from` on.
///
/// # Safety
/// All are entries with the component at `offset`, nobody else uses `into`, and strings in both stay alive as long as
/// `into` is read.
#[inline(always)]
pub(crate) unsafe fn merge_entries(
    component: Accumulator,
    offset: usize,
    into: *mut u8,
    from: *const u8,
    entries: Strided,
) {
    macro_rules! combine {
        ($type:ty, $together:expr) => {{
            let together: fn($type, $type) -> $type = $together;
            // SAFETY: promised by the caller; the component's accumulator is of this type.
            unsafe { combine(offset, into, from, entries, together) }
        }};
    }
    match component {
        // Tables with groups are never merged.
        Accumulator::Group => {}
        // But for lists.
        Accumulator::Object(..) => (0..entries.count).for_each(|i| {
            // SAFETY: promised by the caller.
            unsafe { object::merge(offset, into.add(i * entries.stride), from.add(i * entries.stride)) }
        }),
        Accumulator::Count | Accumulator::SumI64 => combine!(i64, i64::wrapping_add),
        Accumulator::SumI128 => combine!(i128, i128::wrapping_add),
        Accumulator::MinI64 => combine!(i64, Ord::min),
        Accumulator::MaxI64 => combine!(i64, Ord::max),
        Accumulator::MinI128 => combine!(i128, Ord::min),
        Accumulator::MaxI128 => combine!(i128, Ord::max),
        Accumulator::MinF64 => combine!(f64, min_f64),
        Accumulator::MaxF64 => combine!(f64, max_f64),
        Accumulator::SumF64 => combine!(Fixed, exact::add),
        // SAFETY: strings are alive, as promised by the caller.
        Accumulator::MinStr => combine!(Str, |a, b| unsafe { choose(a, b, Ordering::Less) }),
        // SAFETY: as above.
        Accumulator::MaxStr => combine!(Str, |a, b| unsafe { choose(a, b, Ordering::Greater) }),
    }
}

/// Merges all components of entry `from` into those of `into`. What lists become is put into the arena.
///
/// # Safety
/// As for [`merge_entries`]; both are entries of `layout`, whose lists are sealed. Those of both, and the arena, stay alive as long as
/// `into` is read.
pub(crate) unsafe fn merge_all(layout: &EntryLayout, into: *mut u8, from: *const u8, arena: &mut Arena) {
    for &(component, offset) in &layout.accumulators {
        // SAFETY: promised by the caller.
        unsafe {
            if let Some(element) = Element::of(component) {
                list::merge((offset, element), into, from, arena);
                continue;
            }
            merge_entries(component, offset, into, from, Strided { stride: 0, count: 1 });
        }
    }
}

/// Undoes the merge of the component at `offset` of entries that follow each other. Accumulators that are not invertible
/// stay unchanged: those of shorter windows (`Partial::masked`), which are fresh in both.
///
/// # Safety
/// As for [`merge_entries`].
#[inline(always)]
pub(crate) unsafe fn subtract_entries(
    component: Accumulator,
    offset: usize,
    into: *mut u8,
    from: *const u8,
    entries: Strided,
) {
    // SAFETY: promised by the caller; the component's accumulator is of the type.
    unsafe {
        match component {
            Accumulator::Count | Accumulator::SumI64 => combine(offset, into, from, entries, i64::wrapping_sub),
            Accumulator::SumI128 => combine(offset, into, from, entries, i128::wrapping_sub),
            Accumulator::SumF64 => {
                combine(offset, into, from, entries, |a: Fixed, b: Fixed| exact::add(a, exact::negated(b)));
            }
            _ => {}
        }
    }
}

/// Undoes the merge of entry `from` into `into`.
///
/// # Safety
/// As for [`merge_all`].
pub(crate) unsafe fn subtract_all(layout: &EntryLayout, into: *mut u8, from: *const u8) {
    for &(component, offset) in &layout.accumulators {
        // SAFETY: promised by the caller.
        unsafe { subtract_entries(component, offset, into, from, Strided { stride: 0, count: 1 }) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_order_nan_above_and_minus_zero_below() {
        assert_eq!(min_f64(f64::NAN, 3.0), 3.0);
        assert_eq!(min_f64(0.0, -0.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(max_f64(-0.0, 0.0).to_bits(), 0.0f64.to_bits());
        assert!(max_f64(f64::INFINITY, f64::NAN).is_nan());
        assert_eq!(max_f64(f64::NEG_INFINITY, -5.0), -5.0);
    }
}
