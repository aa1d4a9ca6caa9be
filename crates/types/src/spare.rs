//! Memory that a thread keeps for the next buffer: what is made for each of them would be allocated and freed millions of times.

use std::cell::RefCell;
use std::sync::Arc;

/// Most places that are kept.
const KEPT: usize = 16;
/// Most elements that a list has room for which is kept.
const ROOM: usize = 256;

/// Places of one kind, in a thread-local variable: lists, boxes, or what is shared.
#[derive(Debug)]
pub struct Spare<P>(RefCell<Vec<P>>);

impl<P> Spare<P> {
    /// None yet.
    pub const fn new() -> Spare<P> {
        Spare(RefCell::new(Vec::new()))
    }

    fn pop(&self) -> Option<P> {
        self.0.borrow_mut().pop()
    }

    fn push(&self, place: P) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT {
            kept.push(place);
        }
    }
}

impl<P> Default for Spare<P> {
    fn default() -> Spare<P> {
        Spare::new()
    }
}

impl<T> Spare<Vec<T>> {
    /// An empty list.
    pub fn take(&self) -> Vec<T> {
        self.pop().unwrap_or_default()
    }

    /// Keeps the memory of a list, whose elements are dropped.
    pub fn give(&self, mut list: Vec<T>) {
        // Before anything is borrowed: dropping elements may come back here.
        list.clear();
        if (1..=ROOM).contains(&list.capacity()) {
            self.push(list);
        }
    }
}

impl<T> Spare<Box<T>> {
    /// A box with a value.
    pub fn boxed(&self, value: T) -> Box<T> {
        match self.pop() {
            Some(mut place) => {
                *place = value;
                place
            }
            None => Box::new(value),
        }
    }

    /// Keeps a box.
    pub fn give(&self, place: Box<T>) {
        self.push(place);
    }
}

impl<T> Spare<Arc<T>> {
    /// A value to be shared.
    pub fn shared(&self, value: T) -> Arc<T> {
        let Some(mut place) = self.pop() else { return Arc::new(value) };
        match Arc::get_mut(&mut place) {
            Some(content) => {
                *content = value;
                place
            }
            None => Arc::new(value),
        }
    }

    /// Keeps what nobody else has, after `empty` has let go what it holds; otherwise it is dropped.
    pub fn give(&self, mut place: Arc<T>, empty: impl FnOnce(&mut T)) {
        if let Some(content) = Arc::get_mut(&mut place) {
            empty(content);
            self.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let spare: Spare<Vec<i32>> = Spare::new();
        let first = vec![1, 2, 3];
        let place = first.as_ptr();
        spare.give(first);
        let mut again = spare.take();
        again.push(4);
        assert_eq!((again.as_ptr(), &*again), (place, &[4][..]));
        spare.give(Vec::with_capacity(10_000));
        assert_eq!(spare.take().capacity(), 0, "too large to keep");
    }

    #[test]
    fn what_is_shared_is_kept_by_the_last_who_has_it() {
        let spare: Spare<Arc<String>> = Spare::new();
        let first = spare.shared("first".to_string());
        let (place, other) = (Arc::as_ptr(&first), Arc::clone(&first));
        spare.give(first, |_| panic!("somebody has it"));
        spare.give(other, String::clear);
        let again = spare.shared("again".to_string());
        assert_eq!((Arc::as_ptr(&again), &**again), (place, "again"));
    }
}
