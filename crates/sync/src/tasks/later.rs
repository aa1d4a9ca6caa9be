//! Tasks that wait for a moment.

use super::lock;
use crate::primitives::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use std::time::{Duration, Instant};

/// No moment.
const NEVER: u64 = u64::MAX;

/// See the module. Few at a time: sources with a pace have one for each split.
pub(super) struct Later<T> {
    since: Instant,
    /// The earliest of the moments, in nanoseconds.
    next: AtomicU64,
    tasks: Mutex<Vec<(Instant, T)>>,
}

impl<T> Default for Later<T> {
    fn default() -> Later<T> {
        Later { since: Instant::now(), next: AtomicU64::new(NEVER), tasks: Mutex::new(Vec::new()) }
    }
}

impl<T> Later<T> {
    /// Adds a task; whether it is the first that is due.
    pub(super) fn add(&self, at: Instant, task: T) -> bool {
        let mut tasks = lock(&self.tasks);
        let is_first = tasks.iter().all(|(other, _)| *other > at);
        tasks.push((at, task));
        self.show(&tasks);
        is_first
    }

    /// When the first is due.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.next.load(Ordering::Relaxed) {
            NEVER => None,
            nanos => Some(self.since + Duration::from_nanos(nanos)),
        }
    }

    /// Whether one is due.
    pub(super) fn is_due(&self) -> bool {
        self.next().is_some_and(|next| next <= Instant::now())
    }

    /// Those that are due.
    pub(super) fn due(&self) -> Vec<T> {
        if !self.is_due() {
            return Vec::new();
        }
        let (now, mut tasks) = (Instant::now(), lock(&self.tasks));
        let due = tasks.extract_if(.., |(at, _)| *at <= now).map(|(_, task)| task).collect();
        self.show(&tasks);
        due
    }

    pub(super) fn take_all(&self) -> Vec<(Instant, T)> {
        let mut tasks = lock(&self.tasks);
        self.next.store(NEVER, Ordering::Relaxed);
        std::mem::take(&mut *tasks)
    }

    fn show(&self, tasks: &[(Instant, T)]) {
        let nanos =
            |at: &Instant| u64::try_from(at.saturating_duration_since(self.since).as_nanos()).unwrap_or(NEVER - 1);
        let next = tasks.iter().map(|(at, _)| nanos(at)).min().unwrap_or(NEVER);
        self.next.store(next, Ordering::Relaxed);
    }
}

/// Waits to be woken, or until a moment.
#[cfg(not(loom))]
pub(super) fn wait_until<'a>(wake: &Condvar, guard: MutexGuard<'a, ()>, until: Instant) -> MutexGuard<'a, ()> {
    let left = until.saturating_duration_since(Instant::now());
    wake.wait_timeout(guard, left).unwrap_or_else(std::sync::PoisonError::into_inner).0
}

/// Clocks are no part of the models.
#[cfg(loom)]
pub(super) fn wait_until<'a>(wake: &Condvar, guard: MutexGuard<'a, ()>, _: Instant) -> MutexGuard<'a, ()> {
    wake.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_when_they_are_due() {
        let (later, now) = (Later::default(), Instant::now());
        assert_eq!((later.next(), later.is_due()), (None, false));
        let far = now + Duration::from_secs(3600);
        assert!(later.add(far, 1));
        assert!(later.add(now, 2), "earlier");
        assert!(!later.add(now + Duration::from_secs(7200), 3));
        assert_eq!(later.due(), [2]);
        assert_eq!((later.due(), later.is_due()), (vec![], false));
        assert!(later.next().is_some_and(|next| next.max(far) - next.min(far) < Duration::from_micros(1)));
        assert_eq!(later.take_all().len(), 2);
        assert_eq!(later.next(), None);
    }
}
