//! Messages on standard error: for people, as lines of a log, or as JSON.

use crate::arguments::LogArgument;
use millstream::{DataType, Diagnostic, text};
use serde_json::json;
use std::cell::RefCell;
use std::io::{Write, stderr};
use std::sync::{Arc, OnceLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    /// What a user may not have meant, or will miss in the result.
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "INFO",
            Level::Warn => "WARN",
            Level::Error => "ERROR",
        }
    }
}

/// As the configuration says, once that is known.
static FORM: OnceLock<LogArgument> = OnceLock::new();

thread_local! {
    /// The job that messages of this thread are about, where a process has several.
    static JOB: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Has all messages of this thread, and of those that it spawns with [`spawn`], name a job.
pub(crate) fn of_job(job: &Arc<str>) {
    JOB.set(Some(Arc::clone(job)));
}

/// Spawns a thread whose messages are about the job of this one.
pub(crate) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let job = JOB.with_borrow(Clone::clone);
    scope.spawn(move || {
        JOB.set(job);
        work()
    })
}

/// Chooses the form of all messages to come.
pub(crate) fn set_form(form: LogArgument) {
    // The first one of a process holds.
    let _ = FORM.set(form);
}

/// Whether messages are for people: then they look as they do on a terminal.
pub(crate) fn is_text() -> bool {
    FORM.get().is_none_or(|form| *form == LogArgument::Text)
}

/// Something worth telling.
pub(crate) fn info(message: &str) {
    write(Level::Info, message, None, message);
}

/// The same, of what a user may not have meant: people see `note: …`.
pub(crate) fn note(message: &str) {
    write(Level::Warn, message, None, &format!("note: {message}"));
}

/// An error; `rendered` is how people see it.
pub(crate) fn error(diagnostic: &Diagnostic, rendered: &str) {
    write(Level::Error, &diagnostic.to_string(), Some(&diagnostic.code.to_string()), rendered);
}

fn write(level: Level, message: &str, code: Option<&str>, rendered: &str) {
    let form = FORM.get().copied().unwrap_or(LogArgument::Text);
    let job = JOB.with_borrow(Clone::clone);
    let about = job.as_ref().map_or_else(String::new, |job| format!("{job}: "));
    let line = match form {
        LogArgument::Text => format!("{about}{}", rendered.trim_end()),
        LogArgument::Lines => {
            format!("{} {:5} {about}{}", now(), level.name(), message.trim_end().replace('\n', "; "))
        }
        LogArgument::Json => {
            let mut object = json!({"time": now(), "level": level.name(), "message": message.trim_end()});
            if let Some(code) = code {
                object["code"] = code.into();
            }
            if let Some(job) = &job {
                object["job"] = (**job).into();
            }
            object.to_string()
        }
    };
    // Nothing is left to do if standard error is closed.
    let _ = writeln!(stderr(), "{line}");
}

/// `2026-01-01T12:00:00.078Z`
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let mut out = Vec::new();
    text::write_timestamp(&mut out, millis, DataType::Timestamp(3).time_unit(), 3);
    String::from_utf8_lossy(&out).replace(' ', "T") + "Z"
}
