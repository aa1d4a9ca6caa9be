//! Ctrl-C: the first stops the running query in good order, the second at once, the third ends the process. SIGTERM and SIGHUP
//! do the same.

use crate::failure::EXIT_INTERRUPTED;
use millstream::{CancelState, CancelToken, Diagnostic, code};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::sync::{Arc, Mutex, PoisonError};

/// What a signal is meant for.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Target>>);

#[derive(Default)]
struct Target {
    /// The tokens of the queries that are running.
    queries: Vec<CancelToken>,
    /// How the terminal was before lines were edited there, which takes its echo and line feeds.
    terminal: Option<Termios>,
}

impl Interrupt {
    /// Takes over the signals.
    pub(crate) fn install() -> Result<Interrupt, Diagnostic> {
        let interrupt = Interrupt::default();
        let shared = interrupt.clone();
        ctrlc::set_handler(move || shared.signal())
            .map_err(|e| Diagnostic::new(code::USAGE, format!("the interrupt signal cannot be handled: {e}")))?;
        Ok(interrupt)
    }

    /// Names the queries that a signal is meant for.
    pub(crate) fn watch(&self, tokens: Vec<CancelToken>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).queries = tokens;
    }

    /// Has a signal that ends the process leave the terminal as it is now.
    pub(crate) fn keep_terminal(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).terminal = tcgetattr(stdin()).ok();
    }

    fn signal(&self) {
        let target = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let are = |state: CancelState| target.queries.iter().any(|token| token.state() == state);
        match () {
            () if are(CancelState::Running) => target.queries.iter().for_each(CancelToken::stop),
            () if are(CancelState::Stop) => target.queries.iter().for_each(CancelToken::abort),
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
