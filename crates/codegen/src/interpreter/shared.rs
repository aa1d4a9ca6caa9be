//! Updates of accumulators that other tasks update at the same time: the atomic form of what is described at
//! `program::Component`.
//!
//! Every ordering is relaxed: accumulators are read when all tasks that update them have ended.

use crate::semantics::float_order;
use millstream_abi::exact::Fixed;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// `a += x`
///
/// # Safety
/// `field` is the address of an `i64`, aligned, that everybody uses atomically.
pub(super) unsafe fn add(field: *mut u8, x: i64) {
    // SAFETY: promised by the caller.
    unsafe { AtomicI64::from_ptr(field.cast()) }.fetch_add(x, Relaxed);
}

/// `a += x` of 128 bits: exact when all additions have ended, whatever their order, because each carry is added once.
///
/// # Safety
/// `field` is the address of an `i128`, aligned to 8, that everybody adds to in this way.
pub(super) unsafe fn add_wide(field: *mut u8, x: i128) {
    // SAFETY: promised by the caller.
    let (low, high) = unsafe { (AtomicU64::from_ptr(field.cast()), AtomicU64::from_ptr(field.add(8).cast())) };
    let (_, carry) = low.fetch_add(x as u64, Relaxed).overflowing_add(x as u64);
    high.fetch_add(((x >> 64) as u64).wrapping_add(carry as u64), Relaxed);
}

/// The same of three words.
///
/// # Safety
/// `field` is the address of a `Fixed`, aligned to 8, that everybody adds to in this way.
pub(super) unsafe fn add_words(field: *mut u8, x: Fixed) {
    let mut carry = 0;
    for (i, word) in x.into_iter().enumerate() {
        // SAFETY: promised by the caller.
        let place = unsafe { AtomicU64::from_ptr(field.add(8 * i).cast()) };
        let (addend, is_zero) = word.overflowing_add(carry);
        let (_, wraps) = place.fetch_add(addend, Relaxed).overflowing_add(addend);
        carry = u64::from(is_zero | wraps);
    }
}

/// `if is_better(x, a) { a = x }`
///
/// # Safety
/// As for [`add`].
pub(super) unsafe fn replace(field: *mut u8, x: i64, is_better: impl Fn(i64, i64) -> bool) {
    // SAFETY: promised by the caller.
    let word = unsafe { AtomicI64::from_ptr(field.cast()) };
    let mut old = word.load(Relaxed);
    while is_better(x, old) {
        match word.compare_exchange_weak(old, x, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(found) => old = found,
        }
    }
}

/// [`replace`] of an `f64`, in the order of MIN and MAX.
///
/// # Safety
/// As for [`add`], of an `f64`.
pub(super) unsafe fn replace_float(field: *mut u8, x: f64, is_better: impl Fn(i64, i64) -> bool) {
    let order = |bits: i64| float_order(f64::from_bits(bits as u64));
    // SAFETY: promised by the caller.
    unsafe { replace(field, x.to_bits() as i64, |x, old| is_better(order(x), order(old))) };
}

/// [`replace`] of an `i128`.
///
/// # Safety
/// As for [`add`], of an `i128` aligned to 16; the machine compares and swaps 16 bytes, as `Accumulator::allows_sharing`
/// has found out.
pub(super) unsafe fn replace_wide(field: *mut u8, x: i128, is_better: impl Fn(i128, i128) -> bool) {
    // SAFETY: promised by the caller. Whatever is there, this changes nothing and tells it.
    let mut old = unsafe { exchange_wide(field, 0, 0) };
    while is_better(x, old) {
        // SAFETY: promised by the caller.
        match unsafe { exchange_wide(field, old, x) } {
            found if found == old => return,
            found => old = found,
        }
    }
}

/// Stores `new` if the value is `old`; gives the value before. (The function of the standard library can only be linked in
/// optimised builds.)
///
/// # Safety
/// As for [`replace_wide`].
#[cfg(target_arch = "x86_64")]
unsafe fn exchange_wide(field: *mut u8, old: i128, new: i128) -> i128 {
    let (mut low, mut high) = (old as u64, (old >> 64) as u64);
    // SAFETY: promised by the caller. LLVM keeps `rbx` for itself, so it is put back.
    unsafe {
        std::arch::asm!(
            "xchg {new_low}, rbx",
            "lock cmpxchg16b [rdi]",
            "mov rbx, {new_low}",
            new_low = inout(reg) new as u64 => _,
            in("rcx") (new >> 64) as u64,
            in("rdi") field,
            inout("rax") low,
            inout("rdx") high,
            options(nostack),
        );
    }
    (high as i128) << 64 | low as i128
}

/// # Safety
/// Never called: layouts with such fields do not allow sharing.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn exchange_wide(_field: *mut u8, _old: i128, _new: i128) -> i128 {
    unreachable!("the verifier has checked that the layout allows sharing")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `update` with every number below 2000, by four threads at once, on a field of 16 bytes.
    fn field_after(initial: u128, update: impl Fn(*mut u8, i64) + Sync) -> u128 {
        struct Field(std::cell::UnsafeCell<u128>);
        // SAFETY: threads use it atomically.
        unsafe impl Sync for Field {}
        let field = Field(initial.into());
        let (field, update) = (&field, &update);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope
                    .spawn(move || (0..2000).filter(|n| n % 4 == thread).for_each(|n| update(field.0.get().cast(), n)));
            }
        });
        // SAFETY: all threads have ended.
        unsafe { *field.0.get() }
    }

    #[test]
    fn no_update_is_lost() {
        // SAFETY: the field is aligned to 16, and all threads update it in one way.
        let added = field_after(0, |field, n| unsafe { add(field, n) });
        assert_eq!(added, 1999 * 1000);
        let wide = |n: i64| (n as i128 - 900) << 60;
        // SAFETY: see above.
        let added = field_after(5, |field, n| unsafe { add_wide(field, wide(n)) });
        assert_eq!(added as i128, 5 + (0..2000).map(wide).sum::<i128>());
        // SAFETY: see above.
        let least = field_after(7, |field, n| unsafe { replace(field, 3 - n, |x, old| x < old) });
        assert_eq!(least as i64, -1996);
        // SAFETY: see above.
        let greatest = field_after(0, |field, n| unsafe { replace_wide(field, wide(n), |x, old| x > old) });
        assert_eq!(greatest as i128, wide(1999));
    }

    #[test]
    fn sums_of_doubles_lose_nothing() {
        use millstream_abi::exact::{fixed, nearest};
        let number = |n: i64| if n % 2 == 0 { 1e16 } else { -1e16 } + n as f64;
        let words: [AtomicU64; 3] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let words = &words;
                scope.spawn(move || {
                    for n in (0..2000).filter(|n| n % 4 == thread) {
                        // SAFETY: three aligned words, which all threads update in one way.
                        unsafe { add_words(words.as_ptr().cast_mut().cast(), fixed(number(n)).unwrap()) };
                    }
                });
            }
        });
        let sum = words.map(AtomicU64::into_inner);
        assert_eq!(nearest(sum), (0..2000).map(|n| number(n) as i128).sum::<i128>() as f64);
    }

    #[test]
    fn not_a_number_is_above_all() {
        let number = |n: i64| if n == 5 { f64::NAN } else { n as f64 };
        let extreme = |initial: f64, is_better: fn(i64, i64) -> bool| {
            let initial = initial.to_bits() as u128;
            // SAFETY: the field is aligned, and all threads update it in one way.
            let bits = field_after(initial, |field, n| unsafe { replace_float(field, number(n), is_better) });
            f64::from_bits(bits as u64)
        };
        assert_eq!(extreme(f64::NAN, |x, old| x < old), 0.0);
        assert!(extreme(f64::NEG_INFINITY, |x, old| x > old).is_nan());
    }
}
