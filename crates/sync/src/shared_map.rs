//! Insertion into open-addressed arrays by many threads at once, and growth that stops none of them.
//!
//! A map is a chain of *levels*. Each is an array of places that is searched linearly from `hash & (places - 1)`; each place
//! has a word, and whatever belongs to its key, which only the user of this file knows about. Keys are inserted into the
//! newest level and never removed. When that is half full, some thread makes a larger one, which is the newest from then
//! on. Nothing is moved: a thread that has found a key in an older level may keep using it there, and a key that is in
//! an older level may be inserted into the newest again. **A key can be in the map several times**, so whoever reads it
//! in the end has to put together what belongs to equal keys, which sealed tables need anyway.
//!
//! # Protocol
//!
//! | field | written | read |
//! | --- | --- | --- |
//! | word of a place | [`EMPTY`] → [`BUSY`] by compare-and-swap, by the thread that claims the place; `BUSY` → hash (release) by the same thread, when it has written the key and what belongs to it | by searches (acquire): who sees the hash sees the key |
//! | `newest` | old → new by compare-and-swap (release), by a thread that has made a level | at every insertion (acquire): who sees the level sees its empty array |
//! | `older` of a level | before the level is published | by whoever has the map for itself |
//! | `claims` of a level | each thread adds its claims when it has made a batch of them (relaxed) | by the same addition |
//! | `is_growing` of a level | set by the first thread that finds the level half full | by the same exchange |
//! | cursor of a thread | by the thread | by the thread |
//!
//! A search that meets a `BUSY` place cannot know its key. It does not wait but continues, as if it were another key:
//! then two threads that insert one key at the same moment both insert it, which is allowed.
//!
//! **There is always an empty place in a level**, so that every search ends, also one that generated code does without any
//! of this. Of *n* threads each may have made up to *b* claims (a batch) that it has not yet added, and stops claiming when
//! its addition gives `places - n·b` or more. Before the addition that reaches that number fewer than `places - n·b` claims
//! were added, and besides them each thread makes at most *b*: together less than `places`. A thread that has stopped makes
//! the next level itself, whatever `is_growing` says, because the thread that has set it may sleep; if several do, one
//! compare-and-swap succeeds and the others drop what they have made. So no thread ever waits for another.

use crate::primitives::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// Word of a place without key.
pub const EMPTY: u64 = 0;
/// Word of a place whose key is being written. Hashes are greater.
pub const BUSY: u64 = 1;

/// Most claims that a thread makes before it adds them to those of the level.
const LARGEST_BATCH: usize = 64;

/// An array of places. A fresh one is empty.
pub trait Places {
    /// Their number, a power of two.
    fn count(&self) -> usize;
    /// The word of a place below that.
    fn word(&self, place: usize) -> &AtomicU64;
}

/// Where the key of a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// In this place.
    Present(usize),
    /// Nowhere, but this place is the thread's own now: it writes the key and then calls [`publish`].
    Claimed(usize),
}

/// Fewest places of a level for a number of threads.
pub fn fewest_places(threads: usize) -> usize {
    (2 * threads).next_power_of_two().max(4)
}

/// Claims a place that was empty; `false` if another thread has been faster.
pub fn claim(word: &AtomicU64) -> bool {
    word.compare_exchange(EMPTY, BUSY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Lets searches see a claimed place, whose key has been written.
pub fn publish(word: &AtomicU64, hash: u64) {
    debug_assert!(hash > BUSY, "a hash is neither of the reserved words");
    word.store(hash, Ordering::Release);
}

/// One array of the chain.
struct Level<P> {
    places: P,
    /// The level that was the newest before; null for the first.
    older: *mut Level<P>,
    claims: AtomicUsize,
    is_growing: AtomicBool,
}

/// What a thread knows about the map. Alone in its cache lines.
#[repr(align(128))]
struct Cursor<P> {
    state: UnsafeCell<CursorState<P>>,
}

struct CursorState<P> {
    /// The level in which the thread inserts; null before the first.
    level: *const Level<P>,
    /// Claims that the thread has not added yet.
    unreported: usize,
    /// All claims when it did so last.
    reported: usize,
}

/// See the module.
pub struct SharedMap<P> {
    newest: AtomicPtr<Level<P>>,
    cursors: Box<[Cursor<P>]>,
    owns: PhantomData<Level<P>>,
}

// SAFETY: the levels are owned by the map, and a cursor is used by one thread at a time, as `find_or_claim` demands.
unsafe impl<P: Send> Send for SharedMap<P> {}
// SAFETY: as above; what several threads write at once are atomics.
unsafe impl<P: Send + Sync> Sync for SharedMap<P> {}

impl<P: Places> SharedMap<P> {
    /// A map of one level, for threads with numbers below `threads`.
    ///
    /// # Panics
    /// When the level has less than [`fewest_places`].
    pub fn new(first: P, threads: usize) -> SharedMap<P> {
        assert!(first.count() >= fewest_places(threads), "room for the claims that threads have not added");
        let cursor = |_| Cursor { state: UnsafeCell::new(CursorState::at(ptr::null())) };
        SharedMap {
            newest: AtomicPtr::new(SharedMap::level(first, ptr::null_mut())),
            cursors: (0..threads).map(cursor).collect(),
            owns: PhantomData,
        }
    }

    fn level(places: P, older: *mut Level<P>) -> *mut Level<P> {
        assert!(places.count().is_power_of_two(), "places are found by a mask");
        let (claims, is_growing) = (AtomicUsize::new(0), AtomicBool::new(false));
        Box::into_raw(Box::new(Level { places, older, claims, is_growing }))
    }

    fn newest(&self) -> *mut Level<P> {
        self.newest.load(Ordering::Acquire)
    }

    /// Makes the newest level the thread's, and returns it.
    ///
    /// # Safety
    /// No two threads use one number at once.
    pub unsafe fn enter(&self, thread: usize) -> &P {
        let newest = self.newest();
        // SAFETY: the cursor is the thread's own, as the caller promises; levels live as long as the map is shared.
        unsafe {
            self.cursors[thread].with(|cursor| cursor.move_to(newest));
            &(*newest).places
        }
    }

    /// Searches a key in the newest level and claims a place for it if it is not there. `has_key` says whether a place,
    /// whose word is the hash, has the key; `larger` makes an empty array that follows a full one, with room for more.
    ///
    /// # Safety
    /// As for [`SharedMap::enter`].
    pub unsafe fn find_or_claim(
        &self,
        thread: usize,
        hash: u64,
        has_key: impl Fn(&P, usize) -> bool,
        larger: impl Fn(&P) -> P,
    ) -> (&P, Found) {
        debug_assert!(hash > BUSY, "a hash is neither of the reserved words");
        let mut newest = self.newest();
        loop {
            // SAFETY: levels live as long as the map is shared.
            let level = unsafe { &*newest };
            let (half, batch) = (level.places.count() / 2, self.batch(&level.places));
            let limit = level.places.count() - self.cursors.len() * batch;
            // SAFETY: the cursor is the thread's own, as the caller promises.
            let must_grow = unsafe {
                self.cursors[thread].with(|cursor| {
                    cursor.move_to(newest);
                    cursor.reported >= limit
                })
            };
            if must_grow {
                newest = self.grow(newest, &larger);
                continue;
            }
            let found = search(&level.places, hash, &has_key);
            if let Found::Claimed(_) = found {
                // SAFETY: as above.
                let claims = unsafe {
                    self.cursors[thread].with(|cursor: &mut CursorState<P>| cursor.count(batch, &level.claims))
                };
                if claims.is_some_and(|claims| claims >= half) && !level.is_growing.swap(true, Ordering::Relaxed) {
                    self.grow(newest, &larger);
                }
            }
            return (&level.places, found);
        }
    }

    /// How many claims a thread makes before it adds them.
    fn batch(&self, places: &P) -> usize {
        (places.count() / (8 * self.cursors.len())).clamp(1, LARGEST_BATCH)
    }

    /// Puts a larger level before `full` unless there is one, and returns the newest.
    fn grow(&self, full: *mut Level<P>, larger: &impl Fn(&P) -> P) -> *mut Level<P> {
        let newest = self.newest();
        if newest != full {
            return newest;
        }
        // SAFETY: levels live as long as the map is shared.
        let places = larger(unsafe { &(*full).places });
        assert!(places.count() >= fewest_places(self.cursors.len()), "room for the claims that threads have not added");
        let level = SharedMap::level(places, full);
        match self.newest.compare_exchange(full, level, Ordering::Release, Ordering::Acquire) {
            Ok(_) => level,
            Err(newest) => {
                // SAFETY: made above, and not published.
                drop(unsafe { Box::from_raw(level) });
                newest
            }
        }
    }

    /// All levels, the newest first.
    pub fn levels(&self) -> impl Iterator<Item = &P> {
        let mut next = self.newest().cast_const();
        std::iter::from_fn(move || {
            // SAFETY: levels live as long as the map is shared.
            let level = unsafe { next.as_ref()? };
            next = level.older;
            Some(&level.places)
        })
    }

    /// Takes out all levels, the newest first, and begins again with the level that `first` makes of them, which is empty.
    pub fn restart(&mut self, first: impl FnOnce(Vec<P>) -> P) {
        let mut taken = Vec::new();
        let mut next = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: nobody else uses the map, and a level that is taken is in no chain any more.
            let level = *unsafe { Box::from_raw(next) };
            next = level.older;
            taken.push(level.places);
        }
        let first = first(taken);
        assert!(first.count() >= fewest_places(self.cursors.len()), "room for the claims that threads have not added");
        self.newest.store(SharedMap::level(first, ptr::null_mut()), Ordering::Release);
        for cursor in &self.cursors {
            // SAFETY: nobody else uses the map.
            unsafe { cursor.with(|state: &mut CursorState<P>| *state = CursorState::at(ptr::null())) };
        }
    }
}

/// The place that has the key, or one that has been claimed for it.
fn search<P: Places>(places: &P, hash: u64, has_key: &impl Fn(&P, usize) -> bool) -> Found {
    let mask = places.count() - 1;
    let mut place = hash as usize & mask;
    loop {
        let word = places.word(place);
        let mut found = word.load(Ordering::Acquire);
        if found == EMPTY {
            if claim(word) {
                return Found::Claimed(place);
            }
            // Now it is busy, or published already.
            found = word.load(Ordering::Acquire);
        }
        if found == hash && has_key(places, place) {
            return Found::Present(place);
        }
        place = (place + 1) & mask;
    }
}

impl<P> Cursor<P> {
    /// # Safety
    /// No other thread uses the cursor.
    unsafe fn with<R>(&self, change: impl FnOnce(&mut CursorState<P>) -> R) -> R {
        // SAFETY: promised by the caller.
        self.state.with_mut(|state| change(unsafe { &mut *state }))
    }
}

impl<P> CursorState<P> {
    fn at(level: *const Level<P>) -> CursorState<P> {
        CursorState { level, unreported: 0, reported: 0 }
    }

    /// What is known of an older level does not matter any more.
    fn move_to(&mut self, level: *const Level<P>) {
        if !ptr::eq(self.level, level) {
            *self = CursorState::at(level);
        }
    }

    /// Counts a claim; all claims of the level after the last one of a batch.
    fn count(&mut self, batch: usize, claims: &AtomicUsize) -> Option<usize> {
        self.unreported += 1;
        if self.unreported < batch {
            return None;
        }
        self.unreported = 0;
        self.reported = claims.fetch_add(batch, Ordering::Relaxed) + batch;
        Some(self.reported)
    }
}

impl<P> Drop for SharedMap<P> {
    fn drop(&mut self) {
        let mut next = self.newest.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: the map owns its levels, and nobody else uses it any more.
            next = unsafe { Box::from_raw(next) }.older;
        }
    }
}

impl<P> fmt::Debug for SharedMap<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMap({} threads)", self.cursors.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Places with a key and a count.
    struct Counts {
        words: Vec<AtomicU64>,
        /// Written by who has claimed the place, not atomically: loom and miri see it when somebody reads too early.
        keys: Vec<UnsafeCell<u64>>,
        counts: Vec<AtomicU64>,
    }

    // SAFETY: keys are written before their place is published, and only read after that.
    unsafe impl Sync for Counts {}

    impl Counts {
        fn new(places: usize) -> Counts {
            let zeros = || (0..places).map(|_| AtomicU64::new(0)).collect();
            Counts { words: zeros(), keys: (0..places).map(|_| UnsafeCell::new(0)).collect(), counts: zeros() }
        }

        fn key(&self, place: usize) -> u64 {
            // SAFETY: the place is published.
            self.keys[place].with(|key| unsafe { *key })
        }

        fn write(&self, place: usize, key: u64) {
            // SAFETY: the place is claimed and not published.
            self.keys[place].with_mut(|at| unsafe { *at = key });
        }
    }

    impl Places for Counts {
        fn count(&self) -> usize {
            self.words.len()
        }

        fn word(&self, place: usize) -> &AtomicU64 {
            &self.words[place]
        }
    }

    /// Counts a key; several keys have one hash.
    fn count(map: &SharedMap<Counts>, thread: usize, key: u64) {
        let hash = 2 + key / 2;
        // SAFETY: each thread has its own number.
        let (counts, found) = unsafe {
            let has_key = |counts: &Counts, place| counts.key(place) == key;
            map.find_or_claim(thread, hash, has_key, |full| Counts::new(2 * full.count()))
        };
        let place = match found {
            Found::Present(place) => place,
            Found::Claimed(place) => {
                counts.write(place, key);
                publish(counts.word(place), hash);
                place
            }
        };
        counts.counts[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Checks all levels; how often each key below `keys` was counted, and the number of places with keys.
    fn totals(map: &SharedMap<Counts>, keys: u64) -> (Vec<u64>, usize) {
        let (mut totals, mut used) = (vec![0; keys as usize], 0);
        for level in map.levels() {
            let words: Vec<u64> = level.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
            assert!(words.contains(&EMPTY) && !words.contains(&BUSY), "{words:?}");
            for place in (0..words.len()).filter(|&place| words[place] != EMPTY) {
                assert_eq!(words[place], 2 + level.key(place) / 2);
                totals[level.key(place) as usize] += level.counts[place].load(Ordering::Relaxed);
                used += 1;
            }
        }
        (totals, used)
    }

    #[cfg(loom)]
    fn check(threads: usize, keys: &'static [&'static [u64]], expected: &'static [u64]) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let map = Arc::new(SharedMap::new(Counts::new(fewest_places(threads)), threads));
            let others: Vec<_> = (1..threads)
                .map(|thread| {
                    let map = Arc::clone(&map);
                    loom::thread::spawn(move || keys[thread].iter().for_each(|&key| count(&map, thread, key)))
                })
                .collect();
            keys[0].iter().for_each(|&key| count(&map, 0, key));
            others.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(totals(&map, expected.len() as u64).0, expected);
        });
    }

    #[cfg(loom)]
    #[test]
    fn two_threads_insert_the_same_and_other_keys() {
        check(2, &[&[0, 1, 0], &[0, 2]], &[3, 1, 1]);
    }

    #[cfg(loom)]
    #[test]
    fn levels_grow_under_two_threads() {
        check(2, &[&[0, 2, 4, 0], &[6, 2, 8]], &[2, 0, 2, 0, 1, 0, 1, 0, 1]);
    }

    #[cfg(loom)]
    #[test]
    fn three_threads_insert_one_key_and_its_neighbours() {
        check(3, &[&[0], &[0, 1], &[1]], &[2, 2]);
    }

    #[cfg(not(loom))]
    #[test]
    fn many_threads_count_what_one_would() {
        const THREADS: usize = 4;
        const KEYS: u64 = if cfg!(miri) { 40 } else { 5000 };
        let mut map = SharedMap::new(Counts::new(fewest_places(THREADS)), THREADS);
        for _ in 0..2 {
            let shared = Arc::new(map);
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let map = Arc::clone(&shared);
                    std::thread::spawn(move || {
                        for step in 0..2 * KEYS {
                            count(&map, thread, (step * (thread as u64 + 1) + 7) % KEYS);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            map = Arc::into_inner(shared).unwrap();
            let (found, used) = totals(&map, KEYS);
            let mut expected = vec![0; KEYS as usize];
            for step in 0..2 * KEYS {
                (1..=THREADS as u64).for_each(|n| expected[((step * n + 7) % KEYS) as usize] += 1);
            }
            assert_eq!(found, expected);
            assert!(used >= expected.iter().filter(|count| **count > 0).count());
            map.restart(|levels| Counts::new(levels[0].count()));
            assert_eq!(totals(&map, KEYS).1, 0);
        }
    }

    #[cfg(not(loom))]
    #[test]
    fn a_level_is_followed_when_it_is_half_full() {
        let map = SharedMap::new(Counts::new(16), 1);
        (0..8).for_each(|key| count(&map, 0, 2 * key));
        assert_eq!(map.levels().map(Counts::count).collect::<Vec<_>>(), [32, 16]);
        // SAFETY: the only thread.
        assert_eq!(unsafe { map.enter(0) }.count(), 32);
    }
}
