//! What a function body can use besides its arguments.

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
    /// Filled chunks and the one being filled, last. Chunks never move or shrink while strings point into them.
    chunks: Vec<Vec<u8>>,
    failure: Option<Failure>,
    /// Text that is being written, before it goes to the arena.
    scratch: Vec<u8>,
    /// Compiled patterns and generators; they survive [`FunctionContext::reset`].
    pub(crate) caches: Caches,
}

/// Bytes of a chunk of the arena; longer strings get a separate chunk.
const CHUNK_BYTES: usize = 64 << 10;

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
        if bytes.len() <= Str::INLINE {
            return Str::new(bytes);
        }
        let chunk = self.chunk(bytes.len());
        let start = chunk.len();
        chunk.extend_from_slice(bytes);
        Str::new(&chunk[start..])
    }

    /// A string of `length` bytes, zeros that `fill` overwrites, without a separate allocation.
    pub(crate) fn keep_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> Str {
        if length <= Str::INLINE {
            let mut bytes = [0; Str::INLINE];
            fill(&mut bytes[..length]);
            return Str::new(&bytes[..length]);
        }
        let chunk = self.chunk(length);
        let start = chunk.len();
        chunk.resize(start + length, 0);
        fill(&mut chunk[start..]);
        Str::new(&chunk[start..])
    }

    /// The bytes that `write` appends to an empty vector, without a separate allocation.
    pub(crate) fn keep_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Str {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch);
        let kept = self.keep(&scratch);
        self.scratch = scratch;
        kept
    }

    /// A chunk with room for `length` more bytes.
    fn chunk(&mut self, length: usize) -> &mut Vec<u8> {
        let fits = self.chunks.last().is_some_and(|c| c.capacity() - c.len() >= length);
        if !fits {
            self.chunks.push(Vec::with_capacity(length.max(CHUNK_BYTES)));
        }
        self.chunks.last_mut().expect("a chunk was just made")
    }

    /// Bytes of the strings that are kept.
    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    /// Forgets all strings, keeping one chunk of memory.
    pub fn reset(&mut self) {
        self.chunks.truncate(1);
        if let Some(chunk) = self.chunks.first_mut() {
            chunk.clear();
        }
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
