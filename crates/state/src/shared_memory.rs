//! One amount of memory for several jobs: each has an equal share of it, which changes while they run, as others come and go.
//!
//! A job that cannot have [`LEAST_SHARE`] has to wait until another one ends. The runs of a job divide its share.
//!
//! Locks are taken in this order: that of the memory, that of a share. A budget whose limit rises calls its waker under both, which takes
//! neither.

use crate::budget::MemoryBudget;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What a job needs at least: below this even a small state is spilled all the time.
pub const LEAST_SHARE: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub struct SharedMemory {
    bytes: u64,
    shares: Mutex<Vec<Weak<MemoryShare>>>,
}

/// The share of one job, until it is dropped.
#[derive(Debug)]
pub struct MemoryShare {
    memory: Arc<SharedMemory>,
    held: Mutex<HeldShare>,
}

#[derive(Debug)]
struct HeldShare {
    bytes: u64,
    /// Those of the runs of the job.
    budgets: Vec<Weak<MemoryBudget>>,
}

impl SharedMemory {
    /// Of `bytes` bytes, and nobody's yet.
    pub fn new(bytes: u64) -> Arc<SharedMemory> {
        Arc::new(SharedMemory { bytes, shares: Mutex::default() })
    }

    /// Bytes of all shares together.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many jobs can have a share at a time.
    pub fn most_shares(&self) -> u64 {
        (self.bytes / LEAST_SHARE).max(1)
    }

    /// A share of one more job, so that those of the others become smaller; `None` if they would become too small.
    pub fn join(self: &Arc<Self>) -> Option<Arc<MemoryShare>> {
        let mut shares = self.lock();
        shares.retain(|share| share.strong_count() > 0);
        if shares.len() as u64 >= self.most_shares() {
            return None;
        }
        let share = Arc::new(MemoryShare {
            memory: Arc::clone(self),
            held: Mutex::new(HeldShare { bytes: self.bytes, budgets: Vec::new() }),
        });
        shares.push(Arc::downgrade(&share));
        self.divide(shares);
        Some(share)
    }

    /// Gives what jobs and runs have left behind to those that are there.
    fn divide(&self, shares: MutexGuard<'_, Vec<Weak<MemoryShare>>>) {
        // What is upgraded is dropped behind the lock: it could be the last of its kind, which takes the lock to say so.
        let present: Vec<Arc<MemoryShare>> = shares.iter().filter_map(Weak::upgrade).collect();
        let bytes = self.bytes / (present.len() as u64).max(1);
        present.iter().for_each(|share| share.set(bytes));
        drop(shares);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<MemoryShare>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryShare {
    /// Bytes that the job has now.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// The budget of one more run of the job: its part of the share, as long as it and others run.
    pub fn budget(&self) -> Arc<MemoryBudget> {
        let mut held = self.lock();
        let budget = MemoryBudget::new(held.bytes);
        held.budgets.push(Arc::downgrade(&budget));
        held.divide();
        budget
    }

    fn set(&self, bytes: u64) {
        let mut held = self.lock();
        held.bytes = bytes;
        held.divide();
    }

    fn lock(&self) -> MutexGuard<'_, HeldShare> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldShare {
    fn divide(&mut self) {
        self.budgets.retain(|budget| budget.strong_count() > 0);
        let part = self.bytes / (self.budgets.len() as u64).max(1);
        self.budgets.iter().filter_map(Weak::upgrade).for_each(|budget| budget.set_limit(part));
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        // It is no longer among those that are there.
        self.memory.divide(self.memory.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;

    const MIB: u64 = 1 << 20;

    #[test]
    fn shares_change_as_jobs_come_and_go() {
        let memory = SharedMemory::new(256 * MIB);
        let first = memory.join().unwrap();
        let budget = first.budget();
        assert_eq!((first.bytes(), budget.limit()), (256 * MIB, 256 * MIB));
        let second = memory.join().unwrap();
        assert_eq!((first.bytes(), second.bytes(), budget.limit()), (128 * MIB, 128 * MIB, 128 * MIB));
        let other_run = first.budget();
        assert_eq!((budget.limit(), other_run.limit()), (64 * MIB, 64 * MIB));
        drop(second);
        assert_eq!((budget.limit(), other_run.limit(), budget.highest_limit()), (128 * MIB, 128 * MIB, 256 * MIB));
        drop(other_run);
        let _second = memory.join().unwrap();
        assert_eq!(budget.limit(), 128 * MIB, "the only run of its job");
    }

    #[test]
    fn who_would_have_too_little_waits() {
        let memory = SharedMemory::new(130 * MIB);
        let shares = [memory.join().unwrap(), memory.join().unwrap()];
        assert!(memory.join().is_none());
        assert_eq!(shares[0].bytes(), 65 * MIB, "nobody has less for it");
        drop(shares);
        assert!(memory.join().is_some());
        let little = SharedMemory::new(MIB);
        let _one = little.join().unwrap();
        assert!(little.join().is_none(), "one can always run");
    }

    #[test]
    fn threads_that_come_and_go_leave_nothing() {
        let memory = SharedMemory::new(1024 * MIB);
        let stays = memory.join().unwrap();
        let budget = stays.budget();
        scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        let share = memory.join().unwrap();
                        let runs = share.budget();
                        assert!(runs.limit() >= 1024 * MIB / 5);
                    }
                });
            }
        });
        assert_eq!(budget.limit(), 1024 * MIB);
        assert_eq!(memory.lock().iter().filter(|share| share.strong_count() > 0).count(), 1);
    }
}
