//! What the system is told and asked about threads.

use std::time::{Duration, Instant};

/// Has the calling thread wait for its turn when it is woken, instead of interrupting a worker: it is given work by workers, which
/// would stand still at that moment otherwise. A hint.
#[cfg(target_os = "linux")]
pub(crate) fn never_interrupt() {
    // SAFETY: a structure of numbers, for which zeros are the only values allowed here.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the system reads the parameters, and knows the calling thread as 0.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// There is no such hint.
#[cfg(not(target_os = "linux"))]
pub(crate) fn never_interrupt() {}

/// Has the calling thread wake up at the moments that it waits for, instead of some 50 µs later. A hint.
#[cfg(target_os = "linux")]
pub(crate) fn wake_on_time() {
    // SAFETY: the system takes a number, and it is the calling thread's.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// There is no such hint.
#[cfg(not(target_os = "linux"))]
pub(crate) fn wake_on_time() {}

/// How long something takes, and how long the calling thread has the processor for it: the two differ by what other threads and
/// processes do meanwhile.
pub(crate) struct Watch {
    started: Instant,
    processor: Duration,
}

impl Watch {
    pub(crate) fn start() -> Watch {
        Watch { started: Instant::now(), processor: processor_time() }
    }

    /// All, and with the processor.
    pub(crate) fn elapsed(&self) -> (Duration, Duration) {
        (self.started.elapsed(), processor_time().saturating_sub(self.processor))
    }
}

/// The time that the calling thread has had a processor.
#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes the time there.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed { Duration::ZERO } else { Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u32) }
}

/// Not known.
#[cfg(not(target_os = "linux"))]
fn processor_time() -> Duration {
    Duration::ZERO
}
