//! What the process really holds: the memory that the system has given to it alone, and what its allocator keeps of it.
//!
//! Charges count what operators hold. They cannot count what lives within one task, what a library needs, and what the
//! allocator keeps of freed memory or loses to fragmentation. The difference is measured: [`Resident::beyond`] is what the
//! process holds on top of what is counted and of [`ALLOWANCE`]. The budget takes it for state that cannot be spilled.
//!
//! Measuring needs to know the allocator, because most of the difference is what that keeps: a program that embeds the
//! engine has memory of its own, of which a query must not think that it is the query's. So only a program that calls
//! [`set_allocator`] at its start is measured, which the command line does.

use crate::budget::Counted;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Bytes that a query may hold without anybody counting them: code and its compiler, threads and what lives within their
/// tasks, and what the allocator needs to do its work well.
pub const ALLOWANCE: u64 = 12 << 20;
/// How often the process is measured at most: reading the file costs some microseconds.
const INTERVAL_US: u64 = 1_000;
/// How often freed memory is given back at most while there is too much of it.
const RELEASE_US: u64 = 10_000;

/// The allocator of the program.
pub trait Allocator: Sync {
    /// Whether freed memory is kept to be used again, which saves the system the work of clearing it, or is given back soon.
    fn keep_freed(&self, keeps: bool);

    /// Gives freed memory back now.
    fn release(&self);
}

/// Of a program that is measured.
struct Program {
    allocator: &'static dyn Allocator,
    /// `/proc/self/statm`.
    statm: File,
    page_bytes: u64,
    /// What it held at the start.
    base: u64,
}

static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();

/// Has the memory of the process be measured from now on, where the system tells it. Call it at the start of the program.
pub fn set_allocator(allocator: &'static dyn Allocator) {
    PROGRAM.get_or_init(|| {
        let statm = File::open("/proc/self/statm").ok()?;
        let mut program = Program { allocator, statm, page_bytes: rustix::param::page_size() as u64, base: 0 };
        program.base = program.private_bytes()?;
        Some(program)
    });
}

impl Program {
    /// Bytes of memory that is not that of files: `resident` without `shared`, the second and third field, in pages.
    fn private_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.statm.read_at(&mut text, 0).ok()?;
        let mut fields = std::str::from_utf8(&text[..length]).ok()?.split(' ').skip(1);
        let (resident, shared) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
        Some(resident.saturating_sub(shared) * self.page_bytes)
    }
}

/// The process as a budget sees it.
#[derive(Debug)]
pub(crate) struct Resident {
    start: Instant,
    /// Microseconds since the start at which the process may be measured again, and freed memory be given back again.
    next: AtomicU64,
    next_release: AtomicU64,
    keeps: AtomicBool,
}

impl Resident {
    /// Not measured.
    pub(crate) fn new() -> Resident {
        let (next, next_release) = (AtomicU64::new(0), AtomicU64::new(0));
        Resident { start: Instant::now(), next, next_release, keeps: AtomicBool::new(true) }
    }

    /// The part of one budget of what the process holds beyond its allowance and what is counted, if it is time to look. Freed
    /// memory is kept while there is much less than may be held; `at_once` looks whatever the time is.
    pub(crate) fn beyond(&self, counted: impl FnOnce() -> Counted, at_once: bool) -> Option<u64> {
        let program = PROGRAM.get()?.as_ref()?;
        let now = self.start.elapsed().as_micros() as u64;
        if !at_once && !is_due(&self.next, now, INTERVAL_US) {
            return None;
        }
        let Counted { budgets, bytes: counted, limit } = counted();
        let held = program.private_bytes()?.saturating_sub(program.base);
        let uncounted = held.saturating_sub(counted);
        let keeps = held < limit / 2;
        if self.keeps.swap(keeps, Ordering::Relaxed) != keeps {
            program.allocator.keep_freed(keeps);
        }
        let is_much = !keeps && uncounted > ALLOWANCE / 2;
        if !is_much || !(at_once || is_due(&self.next_release, now, RELEASE_US)) {
            return Some(uncounted.saturating_sub(ALLOWANCE) / budgets);
        }
        program.allocator.release();
        let held = program.private_bytes()?.saturating_sub(program.base);
        Some(held.saturating_sub(counted).saturating_sub(ALLOWANCE) / budgets)
    }
}

/// Whether a moment has come; of several threads that ask one is told so.
fn is_due(next: &AtomicU64, now: u64, interval: u64) -> bool {
    let due = next.load(Ordering::Relaxed);
    now >= due && next.compare_exchange(due, now + interval, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_is_told_that_it_is_time() {
        let next = AtomicU64::new(0);
        assert_eq!([0, 5, 10, 11].map(|now| is_due(&next, now, 10)), [true, false, true, false]);
    }

    #[test]
    fn private_memory_grows_with_what_is_written() {
        struct Nothing;
        impl Allocator for Nothing {
            fn keep_freed(&self, _keeps: bool) {}
            fn release(&self) {}
        }
        set_allocator(&Nothing);
        let Some(Some(program)) = PROGRAM.get() else { return };
        let before = program.private_bytes().unwrap();
        let memory = vec![1u8; 64 << 20];
        let after = program.private_bytes().unwrap();
        assert!(after >= before + (48 << 20), "{before} {after} {}", memory[12345]);
    }
}
