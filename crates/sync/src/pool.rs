//! A pool of things that are made once and used again, such as the memory of tables.
//!
//! # Protocol
//!
//! An array of pointers, each null or the only pointer to a boxed value. [`Pool::put`] changes a null one to its value by
//! compare-and-swap (release); [`Pool::take`] swaps one for null (acquire) and owns what it has got. So a value has one
//! owner at any time, and whoever takes it sees all that was done to it before. Neither waits: with all places taken
//! `put` gives the value back, to be dropped.

use crate::primitives::{AtomicPtr, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// See the module.
pub struct Pool<T> {
    places: Box<[AtomicPtr<T>]>,
    owns: PhantomData<Box<T>>,
}

impl<T> Pool<T> {
    /// For at most `places` values.
    pub fn new(places: usize) -> Pool<T> {
        Pool { places: (0..places).map(|_| AtomicPtr::new(ptr::null_mut())).collect(), owns: PhantomData }
    }

    /// Keeps a value; gives it back when there is no room.
    pub fn put(&self, value: Box<T>) -> Result<(), Box<T>> {
        let value = Box::into_raw(value);
        let free = |place: &&AtomicPtr<T>| {
            place.load(Ordering::Relaxed).is_null()
                && place.compare_exchange(ptr::null_mut(), value, Ordering::Release, Ordering::Relaxed).is_ok()
        };
        match self.places.iter().find(free) {
            Some(_) => Ok(()),
            // SAFETY: from `into_raw` above, and not published.
            None => Err(unsafe { Box::from_raw(value) }),
        }
    }

    /// A value, if there is one.
    pub fn take(&self) -> Option<Box<T>> {
        self.places.iter().find_map(|place| {
            if place.load(Ordering::Relaxed).is_null() {
                return None;
            }
            let value = place.swap(ptr::null_mut(), Ordering::Acquire);
            // SAFETY: a pointer that is not null came from a box in `put`, and the swap has made us its only owner.
            (!value.is_null()).then(|| unsafe { Box::from_raw(value) })
        })
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        while self.take().is_some() {}
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pool({} places)", self.places.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_while_there_is_room() {
        let pool = Pool::new(2);
        assert!(pool.take().is_none());
        assert!(pool.put(Box::new(1)).is_ok());
        assert!(pool.put(Box::new(2)).is_ok());
        assert_eq!(pool.put(Box::new(3)), Err(Box::new(3)));
        let mut taken = [*pool.take().unwrap(), *pool.take().unwrap()];
        taken.sort_unstable();
        assert_eq!(taken, [1, 2]);
        assert!(pool.put(Box::new(4)).is_ok(), "dropped with the pool");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    #[test]
    fn a_value_has_one_owner_and_none_is_lost() {
        loom::model(|| {
            let pool = Arc::new(Pool::new(1));
            assert!(pool.put(Box::new(1)).is_ok());
            let threads = [2, 3].map(|value| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || {
                    let taken = pool.take().map_or(0, |v| *v);
                    let back = pool.put(Box::new(value)).err().map_or(0, |v| *v);
                    taken + back
                })
            });
            let outside: i32 = threads.map(|t| t.join().unwrap()).iter().sum();
            let inside = pool.take().map_or(0, |v| *v);
            assert_eq!(outside + inside, 1 + 2 + 3);
        });
    }
}
