//! The memory budget of a query (design section 1, idea 6): who holds how much, and how much may be held.
//!
//! Whoever keeps memory that grows with the input has a [`Charge`] and sets it to what it holds, a few times a task and
//! never for each row. Charges are rounded where measuring would cost more than it is worth, and memory that only lives
//! within a task is not charged: a budget is a bound for what accumulates, not a limit of the allocator.
//!
//! What nobody counts is measured ([`MemoryBudget::measure`]) where the program is (`resident`); beyond an allowance it
//! is a separate class.
//!
//! Some classes are *in flight*: workers and sinks give them back without any further input. The others are *state*,
//! which goes when watermarks advance, so only by reading on. The runtime's `flow` decides by the two who may read.
//!
//! # Protocol
//!
//! Every charge adds its difference to the counter of its class and to the total, with wrapping additions: sums are
//! exact, whatever the order. What is measured is set, not added to: of two threads that measure at a time the second
//! could take off what the first has not added yet. One thread may wait for memory: it calls [`MemoryBudget::watch`], *then* looks at the
//! numbers, and sleeps if they are too high. Who gives memory back subtracts, *then* reads the flag, and calls the waker
//! if it is set. Both pairs are sequentially consistent, so that of two threads at this at once the first sees the
//! other's memory or the second sees the flag. The waker takes the lock under which the waiter looks and sleeps, so
//! that the wake-up cannot fall in between. All else is relaxed: the numbers guide decisions and guard no memory.

use crate::resident::Resident;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryClass {
    /// Chunks that were read, and rows on their way through pipelines.
    Buffers,
    /// Tables of windows that are not complete.
    Tables,
    /// Sealed tables: windows being written, and slices that later windows share.
    Partials,
    /// Rows and state of joins, sessions, count windows, ranks and OVER.
    Operators,
    /// Tables that others look up.
    Lookups,
    /// Encoded output that a sink has not written.
    Sinks,
    /// What the process holds and nobody counts, beyond an allowance.
    Other,
}

impl MemoryClass {
    /// All classes.
    pub const ALL: [MemoryClass; 7] = [
        MemoryClass::Buffers,
        MemoryClass::Tables,
        MemoryClass::Partials,
        MemoryClass::Operators,
        MemoryClass::Lookups,
        MemoryClass::Sinks,
        MemoryClass::Other,
    ];

    /// Its name in statistics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            MemoryClass::Buffers => "buffers",
            MemoryClass::Tables => "tables",
            MemoryClass::Partials => "partials",
            MemoryClass::Operators => "operators",
            MemoryClass::Lookups => "lookups",
            MemoryClass::Sinks => "sinks",
            MemoryClass::Other => "other",
        }
    }

    /// Whether it is given back without further input.
    pub const fn is_in_flight(self) -> bool {
        matches!(self, MemoryClass::Buffers | MemoryClass::Sinks)
    }
}

/// The budget of a query, or of a part of it: what a part holds is counted apart, and all else is that of the query.
pub struct MemoryBudget {
    whole: Arc<Whole>,
    /// Bytes of the charges of this part.
    held: AtomicU64,
}

/// What all parts share.
#[derive(Default)]
struct Whole {
    /// See [`MemoryBudget::set_limit`].
    limit: AtomicU64,
    /// The highest that it has been.
    highest_limit: AtomicU64,
    /// Bytes of all charges.
    charged: AtomicU64,
    peak: AtomicU64,
    classes: [AtomicU64; MemoryClass::ALL.len()],
    /// Bytes by which tables have grown, all in all.
    grown: AtomicU64,
    watched: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
    resident: Resident,
}

/// The budgets of the queries that run in this process: what it holds, it holds for all of them.
static BUDGETS: Mutex<Vec<Weak<Whole>>> = Mutex::new(Vec::new());

/// What the queries that run have counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// How many they are; at least 1.
    pub(crate) budgets: u64,
    /// Bytes in all classes but `Other`.
    pub(crate) bytes: u64,
    /// Bytes that may be held.
    pub(crate) limit: u64,
}

impl Counted {
    fn now() -> Counted {
        let budgets = BUDGETS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counted = Counted { budgets: 0, bytes: 0, limit: 0 };
        for budget in budgets.iter().filter_map(Weak::upgrade) {
            counted.budgets += 1;
            counted.bytes += budget.charged.load(Ordering::Relaxed);
            counted.limit = counted.limit.saturating_add(budget.limit.load(Ordering::Relaxed));
        }
        Counted { budgets: counted.budgets.max(1), ..counted }
    }
}

impl MemoryBudget {
    /// Nothing used of `limit` bytes.
    pub fn new(limit: u64) -> Arc<MemoryBudget> {
        let whole = Arc::new(Whole { limit: limit.into(), highest_limit: limit.into(), ..Whole::default() });
        let mut budgets = BUDGETS.lock().unwrap_or_else(PoisonError::into_inner);
        budgets.retain(|budget| budget.strong_count() > 0);
        budgets.push(Arc::downgrade(&whole));
        Arc::new(MemoryBudget { whole, held: AtomicU64::new(0) })
    }

    /// The same budget, where what a part of the query holds is counted apart.
    #[must_use]
    pub fn part(&self) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { whole: Arc::clone(&self.whole), held: AtomicU64::new(0) })
    }

    /// Bytes that this part holds.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes that may be held.
    pub fn limit(&self) -> u64 {
        self.whole.limit.load(Ordering::Relaxed)
    }

    /// The most bytes that could be held so far: of what was taken within a limit nothing is wrong when that is lowered.
    pub fn highest_limit(&self) -> u64 {
        self.whole.highest_limit.load(Ordering::Relaxed)
    }

    /// Has more or less be held from now on. Who waits for memory is woken by more of it; of less it hears when it looks next, as it
    /// hears of what others charge.
    pub fn set_limit(&self, limit: u64) {
        self.whole.highest_limit.fetch_max(limit, Ordering::Relaxed);
        // Before the flag is read, as in the protocol.
        if self.whole.limit.swap(limit, Ordering::SeqCst) < limit {
            self.wake();
        }
    }

    /// Bytes that are held.
    pub fn used(&self) -> u64 {
        self.whole.charged.load(Ordering::SeqCst) + self.used_by(MemoryClass::Other)
    }

    /// Bytes held by a class.
    pub fn used_by(&self, class: MemoryClass) -> u64 {
        self.whole.classes[class as usize].load(Ordering::SeqCst)
    }

    /// Bytes that are given back without further input.
    pub fn in_flight(&self) -> u64 {
        self.sum(MemoryClass::is_in_flight)
    }

    /// Bytes that are given back when watermarks advance.
    pub fn state(&self) -> u64 {
        self.sum(|class| !class.is_in_flight())
    }

    /// Bytes by which tables have grown so far, whatever was given back.
    pub fn grown(&self) -> u64 {
        self.whole.grown.load(Ordering::Relaxed)
    }

    /// Measures what the process holds, at most once a millisecond, or `at_once`. Asked for after every task. Of what nobody has
    /// counted each budget of the process has an equal part.
    pub fn measure(&self, at_once: bool) {
        if let Some(bytes) = self.whole.resident.beyond(Counted::now, at_once) {
            self.set_other(bytes);
        }
    }

    fn set_other(&self, bytes: u64) {
        let before = self.whole.classes[MemoryClass::Other as usize].swap(bytes, Ordering::SeqCst);
        if bytes > before {
            self.whole.peak.fetch_max(self.used(), Ordering::Relaxed);
        } else if bytes < before {
            self.wake();
        }
    }

    /// Sets what is called when memory is given back while the budget is watched; the first one counts. It runs wherever a
    /// charge is dropped, so it may take no lock under which charges are changed.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        // A second one would be that of another run, of which there is none.
        let _first_counts = self.whole.waker.set(Box::new(waker));
    }

    /// Asks for the waker to be called, or no longer; see the protocol.
    pub fn watch(&self, watched: bool) {
        self.whole.watched.store(watched, Ordering::SeqCst);
    }

    /// The numbers of now. Not a consistent cut: classes may not quite add up to the total.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot {
            limit: self.limit(),
            used: self.used(),
            peak: self.whole.peak.load(Ordering::Relaxed),
            by_class: MemoryClass::ALL.map(|class| (class, self.whole.classes[class as usize].load(Ordering::Relaxed))),
        }
    }

    fn sum(&self, counts: impl Fn(MemoryClass) -> bool) -> u64 {
        MemoryClass::ALL.into_iter().filter(|&c| counts(c)).map(|c| self.used_by(c)).sum()
    }

    fn change(&self, class: MemoryClass, from: u64, to: u64) {
        if from == to {
            return;
        }
        // A subtraction is the addition of the complement: additions wrap.
        let difference = to.wrapping_sub(from);
        self.held.fetch_add(difference, Ordering::Relaxed);
        self.whole.classes[class as usize].fetch_add(difference, Ordering::SeqCst);
        let charged = self.whole.charged.fetch_add(difference, Ordering::SeqCst).wrapping_add(difference);
        if to > from {
            self.whole.peak.fetch_max(charged + self.used_by(MemoryClass::Other), Ordering::Relaxed);
            if class == MemoryClass::Tables {
                self.whole.grown.fetch_add(difference, Ordering::Relaxed);
            }
        } else {
            self.wake();
        }
    }

    /// Calls the waker if memory is waited for.
    fn wake(&self) {
        if self.whole.watched.load(Ordering::SeqCst)
            && let Some(waker) = self.whole.waker.get()
        {
            waker();
        }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

/// Memory that someone holds; given back when it is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    class: MemoryClass,
    bytes: u64,
}

impl Charge {
    /// Of `bytes` bytes, which may change.
    pub fn new(budget: &Arc<MemoryBudget>, class: MemoryClass, bytes: usize) -> Charge {
        budget.change(class, 0, bytes as u64);
        Charge { budget: Arc::clone(budget), class, bytes: bytes as u64 }
    }

    /// What is held from now on.
    pub fn set(&mut self, bytes: usize) {
        self.budget.change(self.class, self.bytes, bytes as u64);
        self.bytes = bytes as u64;
    }

    /// What is held, as it was set last.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// A charge of another class to the same budget.
    pub fn another(&self, class: MemoryClass, bytes: usize) -> Charge {
        Charge::new(&self.budget, class, bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.change(self.class, self.bytes, 0);
    }
}

/// The numbers of a budget at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySnapshot {
    /// What may be held.
    #[serde(rename = "limit_bytes")]
    pub limit: u64,
    /// What is held.
    #[serde(rename = "used_bytes")]
    pub used: u64,
    /// The most that was held.
    #[serde(rename = "peak_bytes")]
    pub peak: u64,
    /// What each class holds.
    #[serde(serialize_with = "by_name", deserialize_with = "from_names")]
    pub by_class: [(MemoryClass, u64); MemoryClass::ALL.len()],
}

fn by_name<S: Serializer>(classes: &[(MemoryClass, u64)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(classes.iter().map(|(class, bytes)| (class.name(), bytes)))
}

/// What is not there is nothing.
fn from_names<'a, D: Deserializer<'a>>(from: D) -> Result<[(MemoryClass, u64); MemoryClass::ALL.len()], D::Error> {
    let classes: BTreeMap<String, u64> = BTreeMap::deserialize(from)?;
    Ok(MemoryClass::ALL.map(|class| (class, classes.get(class.name()).copied().unwrap_or_default())))
}

impl MemorySnapshot {
    /// Bytes of state: what is given back when watermarks advance.
    pub fn state(&self) -> u64 {
        let is_state = |class: MemoryClass| !class.is_in_flight() && class != MemoryClass::Other;
        let state = self.by_class.iter().filter(|(class, _)| is_state(*class));
        state.fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Adds what another node holds. Nodes need not have held most at the same time, so the sum of that is no less than the most.
    pub fn add(&mut self, other: &MemorySnapshot) {
        let sums = [(&mut self.limit, other.limit), (&mut self.used, other.used), (&mut self.peak, other.peak)];
        let classes = self.by_class.iter_mut().zip(&other.by_class).map(|((_, sum), (_, bytes))| (sum, *bytes));
        sums.into_iter().chain(classes).for_each(|(sum, bytes)| *sum = sum.saturating_add(bytes));
    }
}

impl Default for MemorySnapshot {
    fn default() -> MemorySnapshot {
        MemorySnapshot { limit: 0, used: 0, peak: 0, by_class: MemoryClass::ALL.map(|class| (class, 0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn charges_add_up_and_are_given_back() {
        let budget = MemoryBudget::new(1000);
        let mut tables = Charge::new(&budget, MemoryClass::Tables, 300);
        let buffers = Charge::new(&budget, MemoryClass::Buffers, 200);
        tables.set(100);
        assert_eq!((budget.used(), budget.state(), budget.in_flight()), (300, 100, 200));
        tables.set(150);
        assert_eq!(budget.grown(), 350);
        tables.set(100);
        let partials = tables.another(MemoryClass::Partials, 40);
        assert_eq!((budget.used_by(MemoryClass::Tables), budget.used_by(MemoryClass::Partials)), (100, 40));
        drop((buffers, partials));
        drop(tables);
        let snapshot = budget.snapshot();
        assert_eq!((snapshot.limit, snapshot.used, snapshot.peak), (1000, 0, 500));
        assert!(snapshot.by_class.iter().all(|&(_, bytes)| bytes == 0));
    }

    #[test]
    fn parts_are_counted_apart() {
        let budget = MemoryBudget::new(1000);
        let (one, other) = (budget.part(), budget.part());
        let mut held = Charge::new(&one, MemoryClass::Tables, 300);
        let more = held.another(MemoryClass::Partials, 50);
        let _others = Charge::new(&other, MemoryClass::Operators, 7);
        held.set(200);
        assert_eq!((one.held(), other.held(), budget.held(), budget.state()), (250, 7, 0, 257));
        drop((held, more));
        assert_eq!((one.held(), budget.state(), one.limit()), (0, 7, 1000));
    }

    #[test]
    fn threads_that_measure_at_a_time_take_nothing_off_that_is_not_there() {
        let budget = MemoryBudget::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..100_000).for_each(|i| budget.set_other(i % 2 * 100)));
            }
            for _ in 0..100_000 {
                assert!(budget.state() <= 100 && budget.used() <= 100);
            }
        });
        assert_eq!(budget.snapshot().peak, 100);
    }

    #[test]
    fn who_watches_is_woken_by_what_is_given_back() {
        let (budget, woken) = (MemoryBudget::new(10), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&woken);
        budget.set_waker(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut charge = Charge::new(&budget, MemoryClass::Sinks, 5);
        charge.set(4);
        assert_eq!(woken.load(Ordering::Relaxed), 0, "nobody watches");
        budget.watch(true);
        charge.set(8);
        charge.set(8);
        assert_eq!(woken.load(Ordering::Relaxed), 0, "nothing was given back");
        charge.set(7);
        drop(charge);
        assert_eq!(woken.load(Ordering::Relaxed), 2);
        budget.set_limit(20);
        budget.set_limit(5);
        assert_eq!(woken.load(Ordering::Relaxed), 3, "more may be held, and then less");
        assert_eq!((budget.limit(), budget.highest_limit(), budget.snapshot().limit), (5, 20, 5));
    }
}
