//! How a running job is reached from another process: a Unix socket in its state directory, on which a line is a request. Of a
//! state directory in an object store it is in the local companion ([`StatePlace::local`]), so the process must be on this machine.
//!
//! ```text
//! checkpoint         a checkpoint is begun now
//! savepoint NAME     a checkpoint is taken and kept under this name
//! stop               a checkpoint is taken, and the process ends
//! ```
//!
//! Each is answered with a line, `ok` or what is wrong.

use crate::checkpoints;
use crate::failure::Failure;
use millstream::storage::{DirectoryLock, StatePlace};
use millstream::{Diagnostic, RunMonitor, code};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the socket.
const SOCKET: &str = "control";
/// The answer to a request that was carried out.
const OK: &str = "ok";
/// The answer while there is nothing to ask.
const NOTHING_RUNS: &str = "no query is running";
/// Longest request.
const REQUEST_BYTES: u64 = 128;
/// How long a process is waited for that has been asked to stop, and a checkpoint that is to have a name.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a query that can have checkpoints takes at most to begin one.
const UNTIL_BEGUN: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(50);

/// The queries that run.
type Running = Arc<Mutex<Vec<Arc<RunMonitor>>>>;

/// Listens for requests as long as it lives.
pub(crate) struct Control {
    socket: PathBuf,
    running: Running,
    closed: Arc<AtomicBool>,
}

impl Control {
    /// Listens in the local directory of the state directory that this process has locked. Where that is impossible (a path that is too long for a
    /// socket), only signals reach the process.
    pub(crate) fn listen(place: StatePlace) -> Option<Control> {
        let socket = place.local().join(SOCKET);
        // Left by a process that has crashed: the lock says that there is no other.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).ok()?;
        let running = Running::default();
        let closed = Arc::new(AtomicBool::new(false));
        let (shared, is_closed) = (Arc::clone(&running), Arc::clone(&closed));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_closed.load(Relaxed) {
                    return;
                }
                let (place, running) = (place.clone(), Arc::clone(&shared));
                // A savepoint takes its time, and nobody who wants to stop the process waits for it. Whoever asks and goes away gets no answer.
                std::thread::spawn(move || answer(stream, &place, &running));
            }
        });
        Some(Control { socket, running, closed })
    }

    /// Names the queries that requests are meant for.
    pub(crate) fn watch(&self, monitors: Vec<Arc<RunMonitor>>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = monitors;
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

fn answer(mut stream: UnixStream, place: &StatePlace, running: &Running) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES)).read_line(&mut request)?;
    let monitors = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let answer = match request.trim_end().split_once(' ').unwrap_or((request.trim_end(), "")) {
        _ if monitors.is_empty() => NOTHING_RUNS.to_string(),
        ("checkpoint", "") => {
            monitors.iter().for_each(|monitor| monitor.cancel().checkpoint());
            OK.into()
        }
        ("savepoint", name) => {
            let saved = take_checkpoints(&monitors, running).and_then(|()| checkpoints::save(place, name));
            saved.map_or_else(|what| what, |()| OK.into())
        }
        ("stop", "") => {
            monitors.iter().for_each(|monitor| monitor.cancel().stop());
            OK.into()
        }
        _ => "this request is not known".into(),
    };
    stream.write_all(format!("{}\n", answer.replace('\n', " ")).as_bytes())
}

/// Has queries take a checkpoint each that begins now, and waits until all are complete, or the queries have ended: then their last ones
/// are.
fn take_checkpoints(monitors: &[Arc<RunMonitor>], running: &Running) -> Result<(), String> {
    let counts = |monitor: &RunMonitor| {
        let checkpoints = monitor.stats().map(|stats| stats.snapshot().checkpoints).unwrap_or_default();
        (checkpoints.begun, checkpoints.complete)
    };
    // One that had begun is another one.
    let mut asked: Vec<(&Arc<RunMonitor>, u64)> = monitors.iter().map(|monitor| (monitor, counts(monitor).0)).collect();
    monitors.iter().for_each(|monitor| monitor.cancel().checkpoint());
    let since = Instant::now();
    loop {
        let runs = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        asked.retain(|(monitor, begun)| {
            counts(monitor).1 <= *begun && runs.iter().any(|running| Arc::ptr_eq(running, monitor))
        });
        let has_not_begun = |(monitor, begun): &(&Arc<RunMonitor>, u64)| counts(monitor).0 <= *begun;
        match since.elapsed() {
            _ if asked.is_empty() => return Ok(()),
            elapsed if elapsed > PATIENCE => {
                return Err(format!("a checkpoint is not complete after {} s", PATIENCE.as_secs()));
            }
            elapsed if elapsed > UNTIL_BEGUN && asked.iter().any(has_not_begun) => {
                return Err("no checkpoint has begun: a query with LIMIT or ORDER BY has none while it runs".into());
            }
            _ => std::thread::sleep(MOMENT),
        }
    }
}

/// Sends a request to the process that uses a state directory, which has to carry it out.
pub(crate) fn request(place: &StatePlace, request: &str) -> Result<(), Failure> {
    let failed = |what: String| {
        let message = format!("the job in {place} cannot be reached: {what}");
        let advice = format!(
            "check --state-dir: it is the one that the job runs with, as in millstream run script.sql --state-dir {place}"
        );
        Failure::usage(Diagnostic::new(code::NOT_RUNNING, message).advise(advice))
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
        OK => Ok(()),
        "" => Err(failed("it has ended".into())),
        NOTHING_RUNS => Err(failed(NOTHING_RUNS.into())),
        other => {
            let message = format!("the job in {place} has not done it: {other}");
            Err(Failure::usage(Diagnostic::new(code::CHECKPOINT_FAILED, message)))
        }
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
