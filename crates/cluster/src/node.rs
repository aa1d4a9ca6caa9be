//! A process that takes part in runs of others: `millstream node`.
//!
//! It keeps nothing: what it has of a run is in the checkpoints of that, and what it does next is what the first node of the next attempt says.

use crate::attempts::{Precedence, precedence, stale};
use crate::flight::{Control, ListenConfig, Listener};
use crate::orders::{Begin, Leave, Pieces, Status, from_json, to_json};
use crate::peers::Membership;
use bytes::Bytes;
use millstream::cluster::{Loader, PartOfRun};
use millstream::{CancelToken, Diagnostic, SessionConfig, code};
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a run that is left has before its code of a program is interrupted.
const PROMPT: Duration = Duration::from_millis(300);
/// From one interruption to the next.
const AGAIN: Duration = Duration::from_millis(20);

/// What a node tells of what it does.
pub type Notices = Arc<dyn Fn(Notice) + Send + Sync>;

/// What happens on a node.
#[derive(Debug, Clone)]
pub enum Notice {
    /// It takes part in a run: job, attempt, its number, and of how many.
    Begun(String, u64, usize, usize),
    /// The run of a job has ended.
    Ended(String, Result<(), Diagnostic>),
}

/// A node that waits for runs.
pub struct Node {
    listener: Arc<Listener>,
    runs: Arc<Runs>,
}

/// The runs that a node takes part in, one at a time.
struct Runs {
    config: SessionConfig,
    loader: Option<Arc<dyn Loader>>,
    notices: Notices,
    pieces: Pieces,
    listener: OnceLock<Weak<Listener>>,
    running: Mutex<Option<Running>>,
}

struct Running {
    job: String,
    attempt: u64,
    me: usize,
    /// In this process.
    number: u64,
    cancel: CancelToken,
    thread: JoinHandle<()>,
}

impl Running {
    fn precedence(&self, job: &str, attempt: u64) -> Precedence {
        precedence((job, attempt), (&self.job, self.attempt))
    }
}

impl Node {
    /// Listens, and takes part in runs from now on, until it is dropped. `loader` makes what is code of a program.
    ///
    /// # Errors
    /// Those of [`Listener::bind`].
    pub fn listen(
        config: ListenConfig,
        session: SessionConfig,
        loader: Option<Arc<dyn Loader>>,
        notices: Notices,
    ) -> Result<Node, Diagnostic> {
        let (listener, running) = (OnceLock::new(), Mutex::default());
        let runs = Arc::new(Runs { config: session, loader, notices, pieces: Pieces::default(), listener, running });
        let control = Some(Arc::clone(&runs) as Arc<dyn Control>);
        let listener = Arc::new(Listener::bind(ListenConfig { control, ..config })?);
        let _ = runs.listener.set(Arc::downgrade(&listener));
        Ok(Node { listener, runs })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.runs.leave(&mut self.runs.running.lock());
    }
}

impl Control for Runs {
    fn handle(&self, action: &str, body: Bytes) -> Result<Bytes, Diagnostic> {
        let Some((action, body)) = self.pieces.question(action, body)? else { return to_json(&()) };
        match action.as_str() {
            "status" => to_json(&self.status()),
            "begin" => self.begin(from_json(&body)?).and_then(|()| to_json(&())),
            "leave" => {
                let Leave { job, attempt } = from_json(&body)?;
                let mut running = self.running.lock();
                if running.as_ref().is_some_and(|running| running.precedence(&job, attempt) == Precedence::Same) {
                    self.leave(&mut running);
                }
                to_json(&())
            }
            _ => Err(Diagnostic::new(code::NODES_DIFFER, format!("a node of this version does not know '{action}'"))),
        }
    }
}

impl Runs {
    fn status(&self) -> Status {
        let running = self.running.lock();
        let running = running.as_ref().filter(|running| !running.thread.is_finished());
        let run = running.map(|running| (running.job.clone(), running.attempt, running.me));
        Status { engine: env!("CARGO_PKG_VERSION").into(), run }
    }

    /// Ends the run, if there is one.
    fn leave(&self, running: &mut Option<Running>) {
        if let Some(Running { number, cancel, thread, .. }) = running.take() {
            cancel.abort();
            if let Some(loader) = &self.loader {
                let began = Instant::now();
                while !thread.is_finished() {
                    std::thread::sleep(AGAIN);
                    if began.elapsed() > PROMPT {
                        loader.interrupt(number);
                    }
                }
                loader.forget(number);
            }
            // That it panicked has been said.
            let _ = thread.join();
        }
    }

    fn begin(&self, begin: Begin) -> Result<(), Diagnostic> {
        let gone = || Diagnostic::new(code::NODE_LOST, "the node is about to end");
        let listener = self.listener.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let own = env!("CARGO_PKG_VERSION");
        if begin.engine != own {
            let message = format!("the run is of Millstream {}, this node of {own}", begin.engine);
            return Err(Diagnostic::new(code::NODES_DIFFER, message).advise("install the same version on all nodes"));
        }
        let mut running = self.running.lock();
        if let Some(other) = running.as_ref().filter(|running| !running.thread.is_finished()) {
            match other.precedence(&begin.job, begin.attempt) {
                Precedence::Newer => {}
                Precedence::Same | Precedence::Older => return Err(stale(begin.attempt, other.attempt)),
                Precedence::OfAnotherJob => {
                    let message = format!("the node takes part in the job {}", other.job);
                    return Err(Diagnostic::new(code::REFUSED, message).advise(
                        "wait for its end, start more nodes, or put the INSERTs of a script into one EXECUTE STATEMENT SET",
                    ));
                }
            }
        }
        self.leave(&mut running);
        let part = PartOfRun::new(&begin.part, (begin.me, begin.attempt), &self.config, self.loader.as_deref())?;
        let (membership, nodes) = Membership::new(begin.me, begin.peers.len());
        let nodes = nodes.behind(begin.part.cuts);
        membership.join(&listener, begin.mesh()?)?;
        let farewell = membership.farewell();
        let (number, cancel, notices) = (part.number(), CancelToken::new(), Arc::clone(&self.notices));
        let Begin { job, attempt, me, peers, .. } = begin;
        notices(Notice::Begun(job.clone(), attempt, me, peers.len()));
        let (of_run, name) = (cancel.clone(), job.clone());
        let body = move || {
            let ended = part.run(nodes, &of_run);
            drop(farewell);
            notices(Notice::Ended(name, ended));
        };
        let thread = std::thread::Builder::new().name("run".into()).spawn(body);
        let failed = |e| Diagnostic::new(code::WORKER_FAILED, format!("a thread cannot be started: {e}"));
        *running = Some(Running { job, attempt, me, number, cancel, thread: thread.map_err(failed)? });
        Ok(())
    }
}
