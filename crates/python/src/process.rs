//! Which process this is, and what runs in it. A child that was forked has none of the threads of the engine.

use crate::calls;
use millstream::{Diagnostic, Job, JobHandle, code};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The process that has made a session, 0 if none has.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Says that this process has a session now.
///
/// Fails in a child of one that had.
pub(crate) fn enter() -> Result<(), Diagnostic> {
    let _ = OWNER.compare_exchange(0, std::process::id(), Ordering::Relaxed, Ordering::Relaxed);
    check()
}

/// Fails in a child of the process that has made sessions: what it was given of them cannot work.
pub(crate) fn check() -> Result<(), Diagnostic> {
    if is_child() {
        let message = "the process was forked from one that used Millstream, whose threads it does not have";
        return Err(Diagnostic::new(code::FORKED, message)
            .advise("start processes with the method \"spawn\" or \"forkserver\" of multiprocessing"));
    }
    Ok(())
}

fn is_child() -> bool {
    ![0, std::process::id()].contains(&OWNER.load(Ordering::Relaxed))
}

/// Drops something that waits for threads of the engine, but in a child, where they would be waited for until the end of time.
pub(crate) fn release(drop: impl FnOnce()) {
    if is_child() {
        // What it holds goes with the process.
        std::mem::forget(drop);
    } else {
        drop();
    }
}

/// What runs, and some that has ended.
static RUNNING: Mutex<Vec<JobHandle>> = Mutex::new(Vec::new());

/// Notes that a job runs, to be ended before the process does.
pub(crate) fn note(job: &Job) {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.retain(|job| !job.has_ended());
    running.push(job.handle());
}

/// Cancels all that runs, and waits for its end, for `patience` at most.
pub(crate) fn end_all(patience: Duration) {
    if is_child() {
        return;
    }
    let running = std::mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    let began = Instant::now();
    running.iter().for_each(JobHandle::cancel);
    for job in running.iter().filter(|job| !job.has_ended()) {
        if began.elapsed() < patience {
            calls::end(job);
        }
    }
    millstream::end_compiling();
}
