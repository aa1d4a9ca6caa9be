//! Ctrl-C: the first stops the running query in good order, the second at once, the third ends the process. SIGTERM and SIGHUP
//! do the same. While nothing runs yet, because a server or standard input is waited for, the first ends the process, but for that of
//! the shell.

use crate::failure::EXIT_INTERRUPTED;
use crate::inserts::Overseer;
use millstream::{CancelState, Diagnostic, RunMonitor, code};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What a signal is meant for.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Target>>);

#[derive(Default)]
struct Target {
    /// The statements that are being executed.
    queries: Vec<Arc<RunMonitor>>,
    /// Whether they wait to be started again, and hear when they need not.
    are_paused: bool,
    /// How the terminal was before lines were edited there, which takes its echo and line feeds.
    terminal: Option<Termios>,
}

impl Overseer for Interrupt {
    fn watch(&self, monitors: &[Arc<RunMonitor>], waits: bool) {
        let mut target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (target.queries, target.are_paused) = (monitors.to_vec(), waits);
    }
}

/// Calls `first` at the first signal; the second ends the process.
pub(crate) fn at_signal(first: impl Fn() + Send + 'static) -> Result<(), Diagnostic> {
    let count = AtomicUsize::new(0);
    take_over(move || match count.fetch_add(1, Relaxed) {
        0 => first(),
        _ => std::process::exit(EXIT_INTERRUPTED.into()),
    })
}

fn take_over(signal: impl Fn() + Send + 'static) -> Result<(), Diagnostic> {
    ctrlc::set_handler(signal)
        .map_err(|e| Diagnostic::new(code::USAGE, format!("the interrupt signal cannot be handled: {e}")))
}

impl Interrupt {
    /// Takes over the signals.
    pub(crate) fn install() -> Result<Interrupt, Diagnostic> {
        let interrupt = Interrupt::default();
        let shared = interrupt.clone();
        take_over(move || shared.signal())?;
        Ok(interrupt)
    }

    /// Has a signal that ends the process leave the terminal as it is now.
    pub(crate) fn keep_terminal(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).terminal = tcgetattr(stdin()).ok();
    }

    fn signal(&self) {
        let target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_shell = target.terminal.is_some();
        let has_begun = is_shell || target.are_paused || target.queries.iter().any(|query| query.stats().is_some());
        let are = |state| has_begun && target.queries.iter().any(|query| query.cancel().state() == state);
        match () {
            () if are(CancelState::Running) => target.queries.iter().for_each(|query| query.cancel().stop()),
            () if are(CancelState::Stop) => target.queries.iter().for_each(|query| query.cancel().abort()),
            () => {
                if let Some(terminal) = &target.terminal {
                    // A terminal that has gone needs nothing.
                    let _ = tcsetattr(stdin(), OptionalActions::Now, terminal);
                }
                std::process::exit(EXIT_INTERRUPTED.into())
            }
        }
    }
}
