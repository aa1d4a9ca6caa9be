//! Standard input, whose start may be looked at before it is read.

use crate::{infer, locked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Cursor, IsTerminal, Read};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes that are looked at.
const BYTES: usize = 1 << 20;
/// How long more is waited for, once there is enough.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was looked at and not yet read. The process has one standard input, and so it has one of these.
static START: Mutex<Start> = Mutex::new(Start { bytes: Vec::new(), has_ended: false });

/// The first bytes of standard input.
struct Start {
    bytes: Vec<u8>,
    /// Whether nothing comes behind them.
    has_ended: bool,
}

/// Whether somebody would have to type it.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// The start of standard input, whole lines of text: waits for a record or the end, and takes what comes in the next tenth of a
/// second, up to 1 MB. A reader gets all of it again.
pub(super) fn sample() -> io::Result<Vec<u8>> {
    let mut start = locked(&START);
    let mut input = io::stdin();
    let mut piece = vec![0; 1 << 16];
    let mut enough_since = None;
    while !start.has_ended && start.bytes.len() < BYTES {
        if has_record(&start.bytes) {
            let since: &Instant = enough_since.get_or_insert_with(Instant::now);
            if !comes_more(PATIENCE.saturating_sub(since.elapsed()))? {
                break;
            }
        }
        match input.read(&mut piece) {
            Ok(0) => start.has_ended = true,
            Ok(read) => start.bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let is_text = matches!(infer::format_of("", &start.bytes), None | Some("json"));
    let last_line = if is_text && !start.has_ended { memchr::memrchr(b'\n', &start.bytes) } else { None };
    Ok(start.bytes[..last_line.map_or(start.bytes.len(), |feed| feed + 1)].to_vec())
}

/// Whether there are bytes of a format that tells its columns first, a line of JSON, or a line behind the header of CSV.
fn has_record(start: &[u8]) -> bool {
    let mut lines = memchr::memchr_iter(b'\n', start);
    match infer::format_of("", start) {
        Some("json") => lines.next().is_some(),
        Some(_) => true,
        None => lines.nth(1).is_some(),
    }
}

fn comes_more(patience: Duration) -> io::Result<bool> {
    let input = io::stdin();
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0 && !patience.is_zero()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// All of standard input.
pub(super) fn reader() -> Box<dyn Read + Send> {
    let looked_at = std::mem::take(&mut locked(&START).bytes);
    if looked_at.is_empty() { Box::new(io::stdin()) } else { Box::new(Cursor::new(looked_at).chain(io::stdin())) }
}
