//! The threads of a process that compile in the background. No query waits for them: whoever wants code may leave at any moment,
//! and LLVM, which cannot be interrupted, finishes without it. What it has made is kept, so the next run finds it.
//!
//! Compiling takes the cores that the workers need, so a quarter of them may compile at once, and one at least.

use millstream_runtime::Compiled;
use millstream_types::{Diagnostic, code};
use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Makes code.
pub(super) type Compile = Box<dyn FnOnce() -> Made + Send>;
type Made = Result<Compiled, Diagnostic>;

/// What waits to be compiled, and how much is under way.
pub(super) struct Background {
    state: Mutex<State>,
    /// Something has been made, or somebody no longer waits.
    changed: Condvar,
    most_at_once: usize,
    /// Whose threads compile: a forked process has none of them.
    process: u32,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    running: usize,
    /// The process ends: nothing new is begun.
    is_closed: bool,
}

struct Request {
    compile: Compile,
    /// Who asked has left.
    ended: Arc<AtomicBool>,
    made: Arc<Mutex<Option<Made>>>,
}

impl Background {
    pub(super) fn of_process() -> &'static Background {
        static SHARED: OnceLock<Background> = OnceLock::new();
        SHARED.get_or_init(|| {
            // LLVM has static objects, which must not be destroyed under a thread that uses them.
            millstream_jit::at_exit(end_with_process);
            let cores = thread::available_parallelism().map_or(1, NonZero::get);
            Background::new((cores / 4).max(1))
        })
    }

    fn new(most_at_once: usize) -> Background {
        Background { state: Mutex::default(), changed: Condvar::new(), most_at_once, process: process::id() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `compile` makes on another thread; `None` as soon as whoever asks has ended. What is being compiled then is finished
    /// and kept; what waits is not compiled.
    pub(super) fn run(&'static self, ended: &Arc<AtomicBool>, compile: Compile) -> Option<Made> {
        let made = Arc::new(Mutex::new(None));
        let mut state = self.lock();
        if state.is_closed || ended.load(Relaxed) {
            return None;
        }
        state.waiting.push_back(Request { compile, ended: Arc::clone(ended), made: Arc::clone(&made) });
        if state.running < self.most_at_once {
            let spawned = thread::Builder::new().name("compiler".into()).spawn(|| self.work());
            if let Err(error) = spawned {
                state.waiting.pop_back();
                return Some(Err(Diagnostic::new(
                    code::COMPILE_FAILED,
                    format!("a thread cannot be started: {error}"),
                )));
            }
            state.running += 1;
        }
        let take = || made.lock().unwrap_or_else(PoisonError::into_inner).take();
        loop {
            if let Some(made) = take() {
                return Some(made);
            }
            if ended.load(Relaxed) || state.is_closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Compiles what waits, and what comes meanwhile.
    fn work(&self) {
        let mut state = self.lock();
        while let Some(Request { compile, ended, made }) = state.waiting.pop_front() {
            if ended.load(Relaxed) {
                continue;
            }
            drop(state);
            let result = catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| {
                Err(Diagnostic::new(code::COMPILE_FAILED, "the compiler panicked; the program is interpreted"))
            });
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            // The lock orders this after the look of whoever waits.
            state = self.lock();
            self.changed.notify_all();
        }
        state.running -= 1;
        self.changed.notify_all();
    }

    /// Lets those who have ended leave, and forgets what they wait for.
    pub(super) fn forget(&self, ended: &Arc<AtomicBool>) {
        self.lock().waiting.retain(|request| !Arc::ptr_eq(&request.ended, ended));
        self.changed.notify_all();
    }

    /// Begins nothing more, and waits for what is under way.
    fn close(&self) {
        if process::id() != self.process {
            return;
        }
        let mut state = self.lock();
        state.is_closed = true;
        state.waiting.clear();
        self.changed.notify_all();
        let busy = |state: &mut State| state.running > 0;
        drop(self.changed.wait_while(state, busy).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Waits until nothing is compiled in the background any more, and has nothing be begun. Call it when a process is about to end:
/// LLVM must not be at work while what it needs is destroyed.
pub fn end_compiling() {
    Background::of_process().close();
}

extern "C" fn end_with_process() {
    Background::of_process().close();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    fn background(most_at_once: usize) -> &'static Background {
        Box::leak(Box::new(Background::new(most_at_once)))
    }

    fn nothing() -> Made {
        Err(Diagnostic::new(code::COMPILE_FAILED, "nothing"))
    }

    #[test]
    fn no_more_run_at_once_than_may() {
        let (background, running) = (background(2), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let running = Arc::clone(&running);
                        let compile = move || {
                            assert!(running.fetch_add(1, Relaxed) < 2);
                            thread::yield_now();
                            running.fetch_sub(1, Relaxed);
                            nothing()
                        };
                        let made = background.run(&Arc::default(), Box::new(compile)).unwrap();
                        assert_eq!(made.err().unwrap().message, "nothing");
                    }
                });
            }
        });
        background.close();
        assert!(background.run(&Arc::default(), Box::new(nothing)).is_none(), "the process ends");
    }

    #[test]
    fn who_has_ended_waits_no_longer_and_what_is_begun_is_finished() {
        let (background, ended) = (background(1), Arc::new(AtomicBool::new(false)));
        let (begun, is_begun) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let (finished, is_finished) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                let compile = move || {
                    begun.send(()).unwrap();
                    go_on.recv().unwrap();
                    finished.send(()).unwrap();
                    nothing()
                };
                background.run(&ended, Box::new(compile)).is_none()
            });
            is_begun.recv().unwrap();
            let patient = scope.spawn(|| background.run(&Arc::default(), Box::new(nothing)).is_some());
            ended.store(true, Relaxed);
            background.forget(&ended);
            assert!(first.join().unwrap(), "LLVM is still at work");
            goes_on.send(()).unwrap();
            is_finished.recv().unwrap();
            assert!(patient.join().unwrap());
        });
    }

    #[test]
    fn a_panic_is_an_error() {
        let made = background(1).run(&Arc::default(), Box::new(|| panic!("LLVM")));
        assert_eq!(made.unwrap().err().unwrap().code, code::COMPILE_FAILED);
    }
}
