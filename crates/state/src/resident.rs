//! What the process really holds: the memory that the system has given to it alone, and what its allocator keeps of it.
//!
//! Charges count what operators hold. They cannot count what lives within one task, what a library needs, and what the
//! allocator keeps of freed memory or loses to fragmentation. The difference is measured: [`Resident::beyond`] is what the
//! process holds on top of what is counted and of [`ALLOWANCE`]. The budget takes it for state that cannot be spilled.
//!
//! Measuring needs to know the allocator, because most of the difference is what that keeps: a program that embeds the
//! engine has its own memory, which must not be taken for the query's. So only a program that calls
//! [`set_allocator`] at its start is measured, which the command line does.
//!
//! An allocator keeps free pages for each thread, and what other threads have freed of a thread's pages is free when that thread
//! looks. So whoever finds too much asks all threads of the query to give back what is theirs ([`release_if_asked`]), which they
//! do after their next task; one that has nothing to do does so before it sleeps ([`release_before_sleep`]).

use crate::budget::Counted;
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Bytes that a query may hold without anybody counting them: code and its compiler, threads and what lives within their
/// tasks, and what the allocator needs to do its work well.
pub const ALLOWANCE: u64 = 12 << 20;
/// Huge pages are for those who hold less than 1/`HUGE_SHARE` of what may be held: what they waste is a part of that.
const HUGE_SHARE: u64 = 4;
/// How often the process is measured at most: reading the file costs some microseconds.
const INTERVAL_US: u64 = 1_000;
/// How often freed memory is given back at most while there is too much of it.
const RELEASE_US: u64 = 10_000;

/// The allocator of the program.
pub trait Allocator: Sync {
    /// Whether freed memory is kept to be used again, which saves the system the work of clearing it, or is given back soon.
    fn keep_freed(&self, keeps: bool);

    /// Whether the system may give the process huge pages, which are faster than many small ones, and of which a byte takes
    /// all.
    fn use_huge_pages(&self, uses: bool);

    /// Gives back now what is free of the calling thread's memory, and of nobody's.
    fn release(&self);

    /// Gives back now what is free of the memory of libraries that have another allocator, whatever thread has it.
    fn release_of_libraries(&self);
}

/// Of a program that is measured.
struct Program {
    allocator: &'static dyn Allocator,
    /// `/proc/self/statm`.
    statm: File,
    page_bytes: u64,
    /// What it held at the start.
    base: u64,
    /// What its allocator was told last.
    keeps_freed: AtomicBool,
    uses_huge: AtomicBool,
    /// How often threads have been asked to give back what is free.
    asked: AtomicU64,
    /// Whether too much was free when the process was measured last.
    is_short: AtomicBool,
}

thread_local! {
    /// `Program::asked` when this thread gave back what was free.
    static RELEASED: Cell<u64> = const { Cell::new(0) };
}

static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();

/// Has the memory of the process be measured from now on, where the system tells it. Call it at the start of the program.
pub fn set_allocator(allocator: &'static dyn Allocator) {
    PROGRAM.get_or_init(|| {
        let statm = File::open("/proc/self/statm").ok()?;
        let mut program = Program {
            allocator,
            statm,
            page_bytes: rustix::param::page_size() as u64,
            base: 0,
            keeps_freed: AtomicBool::new(true),
            uses_huge: AtomicBool::new(true),
            asked: AtomicU64::new(0),
            is_short: AtomicBool::new(false),
        };
        program.base = program.private_bytes()?;
        Some(program)
    });
}

/// Gives back what is free of the calling thread's memory, if somebody has asked for that since it did so last. To be called
/// where a thread has freed what it worked with: otherwise it costs two loads.
pub fn release_if_asked() {
    if let Some(Some(program)) = PROGRAM.get() {
        let asked = program.asked.load(Ordering::Relaxed);
        if RELEASED.replace(asked) != asked {
            program.allocator.release();
        }
    }
}

/// The same for a thread that is going to sleep, and would not hear of being asked: whenever too much is free.
pub fn release_before_sleep() {
    if let Some(Some(program)) = PROGRAM.get()
        && program.is_short.load(Ordering::Relaxed)
    {
        program.allocator.release();
    }
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
}

impl Default for Resident {
    /// Not measured.
    fn default() -> Resident {
        Resident { start: Instant::now(), next: AtomicU64::new(0), next_release: AtomicU64::new(0) }
    }
}

impl Resident {
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
        if program.keeps_freed.swap(keeps, Ordering::Relaxed) != keeps {
            program.allocator.keep_freed(keeps);
        }
        let uses_huge = held < limit / HUGE_SHARE;
        if program.uses_huge.swap(uses_huge, Ordering::Relaxed) != uses_huge {
            program.allocator.use_huge_pages(uses_huge);
        }
        let is_much = !keeps && uncounted > ALLOWANCE / 2;
        program.is_short.store(is_much, Ordering::Relaxed);
        if !is_much || !(at_once || is_due(&self.next_release, now, RELEASE_US)) {
            return Some(uncounted.saturating_sub(ALLOWANCE) / budgets);
        }
        RELEASED.set(program.asked.fetch_add(1, Ordering::Relaxed) + 1);
        program.allocator.release();
        program.allocator.release_of_libraries();
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

    /// Counts what it is asked for.
    struct Asked(AtomicU64);

    impl Allocator for Asked {
        fn keep_freed(&self, _keeps: bool) {}
        fn use_huge_pages(&self, _uses: bool) {}
        fn release(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn release_of_libraries(&self) {}
    }

    static ASKED: Asked = Asked(AtomicU64::new(0));

    #[test]
    fn each_thread_gives_back_once_for_each_time_that_it_is_asked() {
        set_allocator(&ASKED);
        let Some(Some(program)) = PROGRAM.get() else { return };
        let released = || {
            let before = ASKED.0.load(Ordering::Relaxed);
            release_if_asked();
            ASKED.0.load(Ordering::Relaxed) - before
        };
        program.asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!([released(), released()], [1, 0]);
        let other = std::thread::spawn(move || [released(), released()]);
        assert_eq!(other.join().unwrap(), [1, 0], "for each thread");
        release_before_sleep();
        assert_eq!(ASKED.0.load(Ordering::Relaxed), 2, "there is not too much");
    }

    #[test]
    fn private_memory_grows_with_what_is_written() {
        set_allocator(&ASKED);
        let Some(Some(program)) = PROGRAM.get() else { return };
        let before = program.private_bytes().unwrap();
        let memory = vec![1u8; 64 << 20];
        let after = program.private_bytes().unwrap();
        assert!(after >= before + (48 << 20), "{before} {after} {}", memory[12345]);
    }
}
