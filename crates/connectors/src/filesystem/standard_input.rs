//! Standard input, which the process has once: who reads it, and what was looked at before.
//!
//! Columns are looked for in its start, which the reader of the rows gets again. Whoever has read from it has taken it: what a second reader
//! would find is the rest, or nothing. A job that is started again goes on with the rest ([`release_standard_input`]); a thread of its
//! earlier run that still waits for bytes leaves them to it.

use crate::option_table::option_fault;
use crate::{infer, locked};
use millstream_types::{Diagnostic, code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IsTerminal, Read};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are looked at, unless a record is longer.
const ENOUGH: usize = 1 << 20;
/// How long more is waited for, once there is a record.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the rest of a record is waited for.
const REST: Duration = Duration::from_secs(2);
const PIECE: usize = 1 << 16;
/// Lines of text that are enough, wherever its quotes are.
const MANY_LINES: usize = 100;

static INPUT: Mutex<Input> = Mutex::new(Input { start: Vec::new(), read: 0, has_ended: false, enough_since: None });
/// Who reads. Readers of other numbers put back what they get.
static READER: AtomicU64 = AtomicU64::new(0);
/// What has taken it.
static TAKEN: Mutex<Option<&'static str>> = Mutex::new(None);

/// What came and was not given to the reader of rows.
struct Input {
    start: Vec<u8>,
    /// How much of it the reader has.
    read: usize,
    /// Whether nothing comes behind it.
    has_ended: bool,
    /// When there was a record in it.
    enough_since: Option<Instant>,
}

/// Says that something else than a table reads standard input, such as the script: tables over it are refused with these words.
pub fn take_standard_input(by: &'static str) {
    *locked(&TAKEN) = Some(by);
}

/// Leaves what has not been read to the next reader: for a job that is started again.
pub fn release_standard_input() {
    *locked(&TAKEN) = None;
}

fn check_free() -> Result<(), Diagnostic> {
    let Some(by) = *locked(&TAKEN) else { return Ok(()) };
    let message = format!("standard input is read once, and {by}");
    let advice = "write it to a file and name that; or ask for everything in one query, with the table named once";
    Err(option_fault(code::INVALID_OPTION, "path", message, advice))
}

/// Whether it has ended and nothing was in it.
pub(super) fn is_empty() -> bool {
    let input = locked(&INPUT);
    input.has_ended && input.start.is_empty()
}

/// The start of standard input, whole lines of text: waits for a record or the end, and takes what comes in the next tenth of a
/// second, up to 1 MB.
///
/// Fails if it has been read already, or if somebody would have to type it.
pub(super) fn sample() -> Result<Vec<u8>, Diagnostic> {
    check_free()?;
    if io::stdin().is_terminal() {
        let advice = "send rows into it: command | millstream run query.sql; or name a file";
        let message = "standard input is the terminal, so no rows come from it";
        return Err(option_fault(code::INVALID_OPTION, "path", message, advice));
    }
    let mut input = locked(&INPUT);
    while !input.has_ended && input.start.len() < ENOUGH {
        if has_record(&input.start) {
            let since = *input.enough_since.get_or_insert_with(Instant::now);
            if !comes_more(PATIENCE.saturating_sub(since.elapsed()))? {
                break;
            }
        }
        input.more()?;
    }
    let is_text = matches!(infer::format_of("", &input.start), None | Some("json"));
    let last_line = if is_text && !input.has_ended { memchr::memrchr(b'\n', &input.start) } else { None };
    Ok(input.start[..last_line.map_or(input.start.len(), |feed| feed + 1)].to_vec())
}

/// Waits for more than [`sample`] has given, which was not enough to understand. `false` if nothing comes.
pub(super) fn grow() -> Result<bool, Diagnostic> {
    let mut input = locked(&INPUT);
    let length = input.start.len();
    if input.has_ended || length >= infer::BYTES || !comes_more(REST)? {
        return Ok(false);
    }
    input.more()?;
    // All of it is looked at again: a long record must not have that done for each piece.
    while !input.has_ended && input.start.len() < 2 * length && comes_more(PATIENCE)? {
        input.more()?;
    }
    input.enough_since = None;
    Ok(true)
}

/// Whether there are bytes of a format that tells its columns first, a line of JSON, or a record behind the header of CSV.
fn has_record(start: &[u8]) -> bool {
    match infer::format_of("", start) {
        Some("json") => memchr::memchr(b'\n', start).is_some(),
        Some(_) => true,
        None => {
            let (mut records, mut lines, mut is_quoted) = (0, 0, false);
            for at in memchr::memchr2_iter(b'\n', b'"', start) {
                is_quoted ^= start[at] == b'"';
                lines += usize::from(start[at] == b'\n');
                records += usize::from(start[at] == b'\n' && !is_quoted);
            }
            records >= 2 || lines >= MANY_LINES
        }
    }
}

fn comes_more(patience: Duration) -> Result<bool, Diagnostic> {
    let input = io::stdin();
    let timeout = Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0 && !patience.is_zero()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(failed(&error.into())),
    }
}

fn failed(error: &io::Error) -> Diagnostic {
    super::read_error(super::discover::STDIN, error)
}

impl Input {
    /// Waits for a piece.
    fn more(&mut self) -> Result<(), Diagnostic> {
        let length = self.start.len();
        self.start.resize(length + PIECE, 0);
        let read = read_some(&mut self.start[length..]);
        self.start.truncate(length + *read.as_ref().unwrap_or(&0));
        self.has_ended = read.map_err(|e| failed(&e))? == 0;
        Ok(())
    }
}

fn read_some(into: &mut [u8]) -> io::Result<usize> {
    loop {
        match io::stdin().read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The reader of all of standard input.
///
/// Fails if it has been read already.
pub(super) fn reader() -> Result<Box<dyn Read + Send>, Diagnostic> {
    check_free()?;
    take_standard_input("another table or statement has read it");
    Ok(Box::new(RowReader(READER.fetch_add(1, Ordering::Relaxed) + 1)))
}

/// Reads for the rows; one that has been replaced takes nothing.
struct RowReader(u64);

impl RowReader {
    fn is_current(&self) -> bool {
        self.0 == READER.load(Ordering::Relaxed)
    }
}

impl Read for RowReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // Who waits for bytes holds it, so that they come in order.
        let mut input = locked(&INPUT);
        if !self.is_current() {
            return Ok(0);
        }
        if input.read == input.start.len() {
            (input.start, input.read) = (Vec::new(), 0);
            if input.has_ended {
                return Ok(0);
            }
            let read = read_some(into)?;
            input.has_ended = read == 0;
            if !self.is_current() {
                input.start.extend_from_slice(&into[..read]);
                return Ok(0);
            }
            return Ok(read);
        }
        let left = &input.start[input.read..];
        let length = left.len().min(into.len());
        into[..length].copy_from_slice(&left[..length]);
        input.read += length;
        Ok(length)
    }
}
