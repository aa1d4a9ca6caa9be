//! How a running job is reached from another process: a Unix socket in its state directory, on which a line is a request. Of a
//! state directory in an object store it is in the local companion ([`StatePlace::local`]), so the process must be on this machine.
//!
//! ```text
//! checkpoint         a checkpoint is begun now
//! savepoint NAME     a checkpoint is taken and kept under this name
//! stop               a checkpoint is taken, and the process ends
//! nodes              where the nodes are that take part, and what each has done: a line for each
//! rescale [N]        a checkpoint is taken, and the job resumes from it on N nodes, or on all that are there
//! ```
//!
//! Each is answered with `ok`, with what is to be told behind it, or a line that says what is wrong.

use crate::checkpoints;
use crate::failure::Failure;
use crate::units::{grouped, timestamp};
use millstream::cluster::Cluster;
use millstream::storage::{DirectoryLock, StatePlace};
use millstream::{Diagnostic, RunMonitor, StatsSnapshot, code, counted};
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroUsize;
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

/// What requests are about.
#[derive(Clone)]
pub(crate) struct Subject {
    place: StatePlace,
    running: Running,
    /// Where other processes take part.
    cluster: Option<Arc<dyn Cluster>>,
    /// Whether what is stopped is to resume.
    resumes: Arc<AtomicBool>,
}

/// Listens for requests as long as it lives.
pub(crate) struct Control {
    socket: PathBuf,
    subject: Subject,
    closed: Arc<AtomicBool>,
}

impl Control {
    /// Listens in the local directory of the state directory that this process has locked. Where that is impossible (a path that is too long for a
    /// socket), only signals reach the process.
    pub(crate) fn listen(place: StatePlace, cluster: Option<Arc<dyn Cluster>>) -> Option<Control> {
        let socket = place.local().join(SOCKET);
        // Left by a process that has crashed: the lock says that there is no other.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).ok()?;
        let subject = Subject { place, running: Running::default(), cluster, resumes: Arc::default() };
        let closed = Arc::new(AtomicBool::new(false));
        let (shared, is_closed) = (subject.clone(), Arc::clone(&closed));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_closed.load(Relaxed) {
                    return;
                }
                let subject = shared.clone();
                // A savepoint takes its time, and nobody who wants to stop the process waits for it. Whoever asks and goes away gets no answer.
                std::thread::spawn(move || answer(stream, &subject));
            }
        });
        Some(Control { socket, subject, closed })
    }

    /// What requests of this process are about.
    pub(crate) fn subject(&self) -> Subject {
        self.subject.clone()
    }

    /// Whether what has been stopped with a checkpoint is to resume; once.
    pub(crate) fn resumes(&self) -> bool {
        self.subject.resumes.swap(false, Relaxed)
    }

    /// Names the queries that requests are meant for.
    pub(crate) fn watch(&self, monitors: Vec<Arc<RunMonitor>>) {
        *self.subject.running.lock().unwrap_or_else(PoisonError::into_inner) = monitors;
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

fn answer(mut stream: UnixStream, subject: &Subject) -> std::io::Result<()> {
    let Subject { place, cluster, resumes, .. } = subject;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut request = String::new();
    BufReader::new((&stream).take(REQUEST_BYTES)).read_line(&mut request)?;
    let monitors = subject.running();
    let answer = match request.trim_end().split_once(' ').unwrap_or((request.trim_end(), "")) {
        _ if monitors.is_empty() => NOTHING_RUNS.to_string(),
        ("checkpoint", "") if monitors.iter().all(|monitor| takes_none(monitor)) => TAKES_NONE.into(),
        ("checkpoint", "") => {
            monitors.iter().for_each(|monitor| monitor.cancel().checkpoint());
            OK.into()
        }
        ("savepoint", name) => {
            let saved = take_checkpoints(&monitors, subject).and_then(|()| checkpoints::save(place, name));
            saved.map_or_else(|what| what, |()| OK.into())
        }
        ("nodes", "") => {
            let members = cluster.as_ref().map(|cluster| cluster.members()).unwrap_or_default();
            let snapshots: Vec<StatsSnapshot> =
                monitors.iter().filter_map(|monitor| monitor.stats()).map(|stats| stats.snapshot()).collect();
            match &members[..] {
                [] => format!("{OK} 1 node: it runs on one process"),
                members => {
                    let nodes = members.iter().enumerate().map(|(node, address)| node_line(node, address, &snapshots));
                    format!("{OK} {}\n{}", counted(members.len(), "node"), nodes.collect::<Vec<_>>().join("\n"))
                }
            }
        }
        ("rescale", nodes) => {
            let nodes = match nodes {
                "" => Ok(None),
                number => number.parse().map(Some).map_err(|_| format!("'{number}' is no number of nodes")),
            };
            nodes.and_then(|nodes| rescale(subject, nodes)).map_or_else(|what| what, |done| format!("{OK} {done}"))
        }
        ("stop", "") => {
            resumes.store(false, Relaxed);
            monitors.iter().for_each(|monitor| monitor.cancel().stop());
            OK.into()
        }
        _ => "this request is not known".into(),
    };
    let answer = if answer.starts_with(OK) { answer } else { answer.replace('\n', " ") };
    stream.write_all(format!("{answer}\n").as_bytes())
}

/// What a node has done.
fn node_line(node: usize, address: &str, runs: &[StatsSnapshot]) -> String {
    let found = runs.iter().flat_map(|run| &run.nodes).find(|found| found.node == node && found.age.is_some());
    let Some(found) = found else { return format!("node {node} at {address}: it has told nothing so far") };
    if let Some(why) = &found.lost {
        return format!("node {node} at {address}: lost ({why})");
    }
    let (rows, rate) = (grouped(found.rows_in), grouped(found.rows_per_second.round() as u64));
    let watermark =
        found.watermark_ms.map_or_else(|| "no watermark".into(), |ms| format!("watermark {}", timestamp(ms)));
    format!("node {node} at {address}: {rows} rows read, {rate} rows/s, {watermark}")
}

impl Subject {
    /// Whether other processes take part.
    #[cfg(feature = "http")]
    pub(crate) fn has_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    fn running(&self) -> Vec<Arc<RunMonitor>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Has the queries stop with a checkpoint and resume on `nodes` nodes, or on all that are there; waits until they have.
pub(crate) fn rescale(subject: &Subject, nodes: Option<NonZeroUsize>) -> Result<String, String> {
    let Some(cluster) = &subject.cluster else {
        return Err("it runs on one process: run it with --cluster".into());
    };
    let (before, since) = (cluster.members().len(), Instant::now());
    cluster.resize(nodes.map(NonZeroUsize::get)).map_err(|what| what.to_string())?;
    let stopped = subject.running();
    subject.resumes.store(true, Relaxed);
    stopped.iter().for_each(|monitor| monitor.cancel().stop());
    let is_stopped = |monitor: &Arc<RunMonitor>| stopped.iter().any(|stopped| Arc::ptr_eq(stopped, monitor));
    while since.elapsed() < PATIENCE {
        let running = subject.running();
        let has_resumed = |monitor: &Arc<RunMonitor>| !is_stopped(monitor) && monitor.stats().is_some();
        if !running.is_empty() && running.iter().all(has_resumed) {
            let nodes = counted(cluster.members().len(), "node");
            return Ok(format!("resumed on {nodes} instead of {before} after {:.1} s", since.elapsed().as_secs_f64()));
        }
        std::thread::sleep(MOMENT);
    }
    Err(format!("it has not resumed after {} s", PATIENCE.as_secs()))
}

/// Why there is no checkpoint.
pub(crate) const TAKES_NONE: &str = "a query with LIMIT or ORDER BY takes no checkpoint while it runs";

/// Whether a run takes no checkpoint before its end.
pub(crate) fn takes_none(monitor: &RunMonitor) -> bool {
    monitor.stats().and_then(|stats| stats.takes_checkpoints()) == Some(false)
}

/// Has queries take a checkpoint each that begins now, and waits until all are complete, or the queries have ended: then their last ones
/// are.
fn take_checkpoints(monitors: &[Arc<RunMonitor>], subject: &Subject) -> Result<(), String> {
    if monitors.iter().any(|monitor| takes_none(monitor)) {
        return Err(TAKES_NONE.into());
    }
    let counts = |monitor: &RunMonitor| {
        let checkpoints = monitor.stats().map(|stats| stats.snapshot().checkpoints).unwrap_or_default();
        (checkpoints.begun, checkpoints.complete)
    };
    // One that had begun is another one.
    let mut asked: Vec<(&Arc<RunMonitor>, u64)> = monitors.iter().map(|monitor| (monitor, counts(monitor).0)).collect();
    monitors.iter().for_each(|monitor| monitor.cancel().checkpoint());
    let since = Instant::now();
    loop {
        let runs = subject.running();
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
                return Err("no checkpoint has begun: one is under way, or lookup tables are still read".into());
            }
            _ => std::thread::sleep(MOMENT),
        }
    }
}

/// Sends a request to the process that uses a state directory, which has to carry it out; what it has to tell.
pub(crate) fn request(place: &StatePlace, request: &str) -> Result<String, Failure> {
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
    stream.read_to_string(&mut answer).map_err(|e| failed(e.to_string()))?;
    match answer.trim_end() {
        done if done == OK || done.starts_with("ok ") => Ok(done[OK.len()..].trim_start().into()),
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
