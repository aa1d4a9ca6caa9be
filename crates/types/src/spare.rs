//! Memory that a thread keeps for the next buffer: what is made for each of them would be allocated and freed millions of times.

use std::cell::RefCell;

/// Most vectors that are kept.
const KEPT: usize = 16;
/// Most elements that one of them has room for.
const ROOM: usize = 256;

/// Empty vectors of one type, in a thread-local variable.
#[derive(Debug)]
pub struct Spare<T>(RefCell<Vec<Vec<T>>>);

impl<T> Spare<T> {
    /// None yet.
    pub const fn new() -> Spare<T> {
        Spare(RefCell::new(Vec::new()))
    }

    /// An empty vector.
    pub fn take(&self) -> Vec<T> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Keeps the memory of a vector, whose elements are dropped.
    pub fn give(&self, mut vector: Vec<T>) {
        // Before anything is borrowed: dropping elements may come back here.
        vector.clear();
        let mut kept = self.0.borrow_mut();
        if (1..=ROOM).contains(&vector.capacity()) && kept.len() < KEPT {
            kept.push(vector);
        }
    }
}

impl<T> Default for Spare<T> {
    fn default() -> Spare<T> {
        Spare::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let spare = Spare::new();
        let first = vec![1, 2, 3];
        let place = first.as_ptr();
        spare.give(first);
        let mut again = spare.take();
        again.push(4);
        assert_eq!((again.as_ptr(), &*again), (place, &[4][..]));
        spare.give(Vec::with_capacity(10_000));
        assert_eq!(spare.take().capacity(), 0, "too large to keep");
    }
}
