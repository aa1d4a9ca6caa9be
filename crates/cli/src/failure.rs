//! Why a command ends with another exit code than 0, and which.

use crate::log;
use millstream::{Code, Diagnostic, Place, code, sql};
use std::fmt::{self, Display};

/// A statement failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line or the configuration is unusable.
pub(crate) const EXIT_USAGE: u8 = 2;
/// Ctrl-C.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// SQL with its name for messages, variables substituted.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) sql: String,
    pub(crate) origin: String,
}

/// Why the process ends with another exit code than 0, or a job of a service.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    diagnostic: Diagnostic,
    /// The text that the place refers to, and what to call it.
    source: Option<(String, String)>,
    pub(crate) exit_code: u8,
}

impl Failure {
    /// The command line or the configuration is unusable.
    pub(crate) fn usage(diagnostic: Diagnostic) -> Failure {
        Failure { diagnostic, source: None, exit_code: EXIT_USAGE }
    }

    /// A command that is not a statement has failed.
    pub(crate) fn failed(diagnostic: Diagnostic) -> Failure {
        Failure { diagnostic, source: None, exit_code: EXIT_FAILED }
    }

    /// What is wrong.
    pub(crate) fn code(&self) -> Code {
        self.diagnostic.code
    }

    /// What is wrong, with the name of the text that it is about.
    #[cfg(feature = "http")]
    pub(crate) fn into_diagnostic(self) -> Diagnostic {
        let Failure { mut diagnostic, source, .. } = self;
        if let (Some((_, origin)), Some(Place::Sql { .. })) = (source, &diagnostic.place) {
            diagnostic.message = format!("{origin}: {}", diagnostic.message);
        }
        diagnostic
    }

    /// A statement of `text` has failed, or was ended.
    pub(crate) fn statement(diagnostic: Diagnostic, text: &Text) -> Failure {
        let exit_code = match diagnostic.code {
            code::CANCELLED => EXIT_INTERRUPTED,
            // `millstream … | head` has done what was asked for, and so has a query that was stopped with a checkpoint.
            code::OUTPUT_CLOSED | code::SUSPENDED => 0,
            _ => EXIT_FAILED,
        };
        Failure { diagnostic, source: Some((text.sql.clone(), text.origin.clone())), exit_code }
    }

    /// Prints the diagnostic to standard error, with the line it is about.
    pub(crate) fn report(&self) {
        match self.diagnostic.code {
            code::OUTPUT_CLOSED => return,
            // Not an error.
            code::SUSPENDED => {
                log::info(&self.diagnostic.message);
                return;
            }
            _ => {}
        }
        let (text, origin) = match &self.source {
            Some((text, origin)) => (Some(text.as_str()), origin.as_str()),
            None => (None, "millstream"),
        };
        log::error(&self.diagnostic, &sql::render(&self.diagnostic, text, origin));
    }
}

/// In one line, with the name of the text that it is about.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((_, origin)) if matches!(self.diagnostic.place, Some(Place::Sql { .. })) => {
                write!(f, "{origin}: {}", self.diagnostic)
            }
            _ => write!(f, "{}", self.diagnostic),
        }
    }
}
