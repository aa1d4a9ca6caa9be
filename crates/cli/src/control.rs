//! How a running job is reached from another process: a Unix socket in its state directory, on which a line is a request. Of a
//! state directory in an object store it is in the local companion ([`StatePlace::local`]), so the process must be on this machine.
//!
//! ```text
//! checkpoint     a checkpoint is begun now
//! stop           a checkpoint is taken, and the process ends
//! ```
//!
//! Each is answered with a line, `ok` or what is wrong.

use crate::failure::Failure;
use millstream::storage::{DirectoryLock, StatePlace};
use millstream::{CancelToken, Diagnostic, code};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the socket.
const SOCKET: &str = "control";
/// Longest request.
const REQUEST_BYTES: u64 = 64;
/// How long a process is waited for that has been asked to stop.
const PATIENCE: Duration = Duration::from_secs(600);
const MOMENT: Duration = Duration::from_millis(50);

/// Listens for requests as long as it lives.
pub(crate) struct Control {
    socket: PathBuf,
    tokens: Arc<Mutex<Vec<CancelToken>>>,
    closed: Arc<AtomicBool>,
}

impl Control {
    /// Listens in the local directory of a state directory that this process has locked. Where that is impossible (a path that is too long for a
    /// socket), only signals reach the process.
    pub(crate) fn listen(directory: &Path) -> Option<Control> {
        let socket = directory.join(SOCKET);
        // Left by a process that has crashed: the lock says that there is no other.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).ok()?;
        let tokens: Arc<Mutex<Vec<CancelToken>>> = Arc::default();
        let closed = Arc::new(AtomicBool::new(false));
        let (shared, is_closed) = (Arc::clone(&tokens), Arc::clone(&closed));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_closed.load(Relaxed) {
                    return;
                }
                let tokens = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Whoever asks and goes away gets no answer.
                let _ = answer(stream, &tokens);
            }
        });
        Some(Control { socket, tokens, closed })
    }

    /// Names the queries that requests are meant for.
    pub(crate) fn watch(&self, tokens: Vec<CancelToken>) {
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.closed.store(true, Relaxed);
        // Wakes the listener.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn answer(mut stream: UnixStream, tokens: &[CancelToken]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES)).read_line(&mut request)?;
    let answer = match request.trim_end() {
        _ if tokens.is_empty() => "no query is running",
        "checkpoint" => {
            tokens.iter().for_each(CancelToken::checkpoint);
            "ok"
        }
        "stop" => {
            tokens.iter().for_each(CancelToken::stop);
            "ok"
        }
        _ => "this request is not known",
    };
    stream.write_all(format!("{answer}\n").as_bytes())
}

/// Sends a request to the process that uses a state directory.
pub(crate) fn request(place: &StatePlace, request: &str) -> Result<(), Failure> {
    let failed = |what: String| {
        let message = format!("the job in {place} cannot be reached: {what}");
        Failure::usage(Diagnostic::new(code::NOT_RUNNING, message))
    };
    if !DirectoryLock::is_held(place.local()) {
        let here = if place.is_remote() { " on this machine" } else { "" };
        return Err(failed(format!("no process uses this state directory{here}")));
    }
    let mut stream = UnixStream::connect(place.local().join(SOCKET)).map_err(|e| failed(e.to_string()))?;
    let mut answer = String::new();
    stream.write_all(format!("{request}\n").as_bytes()).map_err(|e| failed(e.to_string()))?;
    BufReader::new(stream).read_line(&mut answer).map_err(|e| failed(e.to_string()))?;
    match answer.trim_end() {
        "ok" => Ok(()),
        other => Err(failed(other.into())),
    }
}

/// Waits until no process uses a state directory.
pub(crate) fn wait_for_end(place: &StatePlace) -> Result<(), Failure> {
    let since = Instant::now();
    while DirectoryLock::is_held(place.local()) {
        if since.elapsed() > PATIENCE {
            let message = format!("the process that uses {place} has not ended");
            let advice = "see whether a sink stands still; a second signal ends the process without a checkpoint";
            return Err(Failure::usage(Diagnostic::new(code::NOT_RUNNING, message).advise(advice)));
        }
        std::thread::sleep(MOMENT);
    }
    Ok(())
}
