//! A ring of the slices that are open: found by their number without a lock, and used again without allocation.
//!
//! # Protocol
//!
//! Each slot has a key, the number of its slice, and a value that is made once and used for one slice after the other. A
//! number may be in any of the `WAYS` slots from its home on.
//!
//! - `SliceSlot::key`: `FREE`, or a number. Any thread may change it from `FREE` to its number by compare-and-swap (acquire, so
//!   that it sees the value as the last user has left it). Only the *drainer*, one thread at a time, changes it back
//!   (release), after it has emptied the value.
//! - `SliceSlot::value`: shared; what threads do with it is its own protocol. Between a claim and the drain only those use it who
//!   have got it by [`SliceRing::claim`].
//!
//! Two threads that claim a number at the same time, while slots before it become free, may get two slots for it. Whoever
//! drains a number finds both: values of one number are parts of one slice.
//!
//! Contract, which the runtime proves at its `tables`: nobody claims a number any more, nor uses a value claimed under it,
//! when it is drained. So a claim never meets a drain of the same number.
//!
//! There are as many slots as there are: a claim that finds none fails, and its caller keeps the slice elsewhere.

use crate::primitives::{AtomicI64, Ordering};

/// Slots that a number can be in.
const WAYS: usize = 8;
/// Key of a slot without slice; slices of that number are never in the ring.
const FREE: i64 = i64::MIN;

#[derive(Debug)]
struct SliceSlot<T> {
    key: AtomicI64,
    value: T,
}

/// See the module.
#[derive(Debug)]
pub struct SliceRing<T> {
    slots: Box<[SliceSlot<T>]>,
}

impl<T> SliceRing<T> {
    /// Of `slots` slots, a power of two; `value` makes the empty value of one.
    pub fn new(slots: usize, value: impl Fn() -> T) -> SliceRing<T> {
        assert!(slots.is_power_of_two(), "slots are found by masking");
        SliceRing { slots: (0..slots).map(|_| SliceSlot { key: AtomicI64::new(FREE), value: value() }).collect() }
    }

    fn ways(&self, number: i64) -> impl Iterator<Item = &SliceSlot<T>> {
        // Numbers are multiples of the length of slices: the high bits of the product differ for neighbours.
        let home = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(20) as usize;
        let mask = self.slots.len() - 1;
        (0..WAYS.min(self.slots.len())).map(move |way| &self.slots[(home + way) & mask])
    }

    /// The value of a slice, which is entered if it is not there; `None` when there is no slot for it.
    pub fn claim(&self, number: i64) -> Option<&T> {
        if number == FREE {
            return None;
        }
        if let Some(slot) = self.ways(number).find(|slot| slot.key.load(Ordering::Acquire) == number) {
            return Some(&slot.value);
        }
        self.ways(number)
            .find(|slot| match slot.key.compare_exchange(FREE, number, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => true,
                Err(found) => found == number,
            })
            .map(|slot| &slot.value)
    }

    /// Empties the slices that `is_due`: `take` gets each number and value, and leaves the value empty. One thread at a time.
    pub fn drain(&self, mut is_due: impl FnMut(i64) -> bool, mut take: impl FnMut(i64, &T)) {
        for slot in &self.slots {
            let key = slot.key.load(Ordering::Acquire);
            if key != FREE && is_due(key) {
                take(key, &slot.value);
                slot.key.store(FREE, Ordering::Release);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn slices_are_found_again_until_they_are_drained() {
        let ring = SliceRing::new(64, || AtomicUsize::new(0));
        for number in [-20_000, 0, 10_000, 20_000] {
            ring.claim(number).unwrap().store(7, Ordering::Relaxed);
        }
        assert_eq!(ring.claim(10_000).unwrap().load(Ordering::Relaxed), 7);
        let mut drained = Vec::new();
        ring.drain(|n| n < 10_000, |n, value| drained.push((n, value.swap(0, Ordering::Relaxed))));
        drained.sort_unstable();
        assert_eq!(drained, [(-20_000, 7), (0, 7)]);
        assert_eq!(ring.claim(0).unwrap().load(Ordering::Relaxed), 0, "a fresh value");
        assert_eq!(ring.claim(20_000).unwrap().load(Ordering::Relaxed), 7);
    }

    #[test]
    fn a_ring_that_is_full_says_so() {
        let ring = SliceRing::new(4, || ());
        let claimed = (0..100).filter(|&n| ring.claim(n).is_some()).count();
        assert_eq!(claimed, 4);
        assert!(ring.claim(FREE).is_none());
    }

    #[test]
    fn neighbours_spread() {
        let ring = SliceRing::new(1024, || ());
        let claimed = (0..512).filter(|n| ring.claim(n * 10_000).is_some()).count();
        assert!(claimed > 500, "{claimed}");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::primitives::AtomicU64;
    use loom::thread;
    use std::sync::Arc;

    /// Two workers add to two slices each, while an older slice is drained: nothing is lost.
    #[test]
    fn what_is_added_is_drained_once() {
        loom::model(|| {
            let ring = Arc::new(SliceRing::new(2, || AtomicU64::new(0)));
            ring.claim(1).unwrap().store(100, Ordering::Relaxed);
            let add = |number: i64| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || match ring.claim(number) {
                    Some(value) => value.fetch_add(1, Ordering::Relaxed) < 100,
                    None => false,
                })
            };
            let workers = [add(2), add(2)];
            let mut old = 0;
            ring.drain(|n| n == 1, |_, value| old += value.swap(0, Ordering::Relaxed));
            assert_eq!(old, 100);
            let added = workers.map(|w| w.join().unwrap()).iter().filter(|a| **a).count() as u64;
            let mut new = 0;
            ring.drain(|n| n == 2, |_, value| new += value.swap(0, Ordering::Relaxed));
            assert_eq!(new, added);
        });
    }
}
