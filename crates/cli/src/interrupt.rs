//! Ctrl-C: the first stops the running query in good order, the second at once, the third ends the process.

use crate::EXIT_INTERRUPTED;
use millstream::{CancelState, CancelToken, Diagnostic, code};
use std::sync::{Arc, Mutex, PoisonError};

/// The token of the query that is running, if one is.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<Mutex<Option<CancelToken>>>);

impl Interrupt {
    /// Takes over the signal.
    pub(crate) fn install() -> Result<Interrupt, Diagnostic> {
        let interrupt = Interrupt::default();
        let shared = interrupt.clone();
        ctrlc::set_handler(move || shared.signal())
            .map_err(|e| Diagnostic::new(code::USAGE, format!("the interrupt signal cannot be handled: {e}")))?;
        Ok(interrupt)
    }

    /// Names the query that a signal is meant for.
    pub(crate) fn watch(&self, token: Option<CancelToken>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = token;
    }

    fn signal(&self) {
        let token = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match token.map(|t| (t.state(), t)) {
            Some((CancelState::Running, token)) => token.stop(),
            Some((CancelState::Stop, token)) => token.abort(),
            _ => std::process::exit(EXIT_INTERRUPTED.into()),
        }
    }
}
