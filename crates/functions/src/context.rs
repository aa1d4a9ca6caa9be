//! What a function body can use besides its arguments.

use crate::arena::Arena;
use crate::cache::Caches;
use millstream_abi::Str;
use millstream_types::text::zone::Zone;
use millstream_types::{Code, code};

/// Session settings that functions depend on.
#[derive(Debug, Clone, Default)]
pub struct FunctionSettings {
    /// `table.local-time-zone`: the zone of TIMESTAMP_LTZ in text and in date functions.
    pub time_zone: Zone,
    /// Start of the query in milliseconds since the epoch, for functions that are constant within a query.
    pub query_start_ms: i64,
    /// Number of the run, unique in the process; 0 for constants.
    pub run: u64,
}

/// Why a row is bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Code of the diagnostic.
    pub code: Code,
    /// What is wrong.
    pub message: String,
}

impl Failure {
    /// A value that cannot be cast.
    pub fn cast(message: impl Into<String>) -> Failure {
        Failure { code: code::INVALID_CAST, message: message.into() }
    }

    /// An argument that a function rejects.
    pub fn argument(message: impl Into<String>) -> Failure {
        Failure { code: code::FUNCTION_FAILED, message: message.into() }
    }
}

/// Memory, settings and error slot of the functions of one task; used by one worker at a time.
///
/// Strings returned by functions live in its arena until [`FunctionContext::reset`].
#[derive(Debug, Default)]
pub struct FunctionContext {
    settings: FunctionSettings,
    /// The strings.
    pub(crate) arena: Arena,
    failure: Option<Failure>,
    /// Compiled patterns and generators; they survive [`FunctionContext::reset`].
    pub(crate) caches: Caches,
}

impl FunctionContext {
    /// A context without strings.
    pub fn new(settings: FunctionSettings) -> FunctionContext {
        FunctionContext { settings, ..FunctionContext::default() }
    }

    /// The settings.
    pub fn settings(&self) -> &FunctionSettings {
        &self.settings
    }

    /// Copies `bytes` into the arena (short strings stay inline).
    pub fn keep(&mut self, bytes: &[u8]) -> Str {
        self.arena.keep(bytes)
    }

    /// [`Arena::keep_with`].
    pub(crate) fn keep_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Str {
        self.arena.keep_with(length, fill)
    }

    /// [`Arena::keep_written`].
    pub(crate) fn keep_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Str {
        self.arena.keep_written(write)
    }

    /// Bytes of the strings that are kept.
    pub fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Forgets all strings, keeping one chunk of memory.
    pub fn reset(&mut self) {
        self.arena.clear();
    }

    /// Records why the current row is bad.
    pub fn fail(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    /// Takes the recorded failure.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}
