//! The first node of a run, and the list of the others: who is there, and what they are told.
//!
//! Every start of a run is an *attempt* with a higher number than those before ([`attempts`]), and of two processes that run one job only the newer one can complete a checkpoint (`storage::run`). So whatever was
//! paused, cut off or forgotten does no harm when it comes back.

use crate::attempts;
use crate::flight::{ListenConfig, Listener, TlsPaths, Token};
use crate::orders::{Begin, Leave, Status, call};
use crate::peers::Membership;
use crate::replacement::Substitutes;
use millstream::cluster::{Cluster, FirstNode, RunPart};
use millstream::{Awaited, CancelState, Diagnostic, RunMonitor, code};
use parking_lot::Mutex;
use std::fmt;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a lane may have unfinished at its receiver, in bytes.
pub const WINDOW: u64 = 16 << 20;
/// How long one node may take to answer that it is there.
const GREETING: Duration = Duration::from_secs(2);
/// How long one may take to leave what it does and to plan a run.
const BEGINNING: Duration = Duration::from_secs(120);
/// Attempts of this process so far. A job may be run by one coordinator after the other.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
/// Between two looks for nodes that are not there.
pub(crate) const LOOK: Duration = Duration::from_millis(250);

/// How the nodes of a cluster are found and spoken to.
#[derive(Clone)]
pub struct StaticNodes {
    /// Host and port of each other node, or a DNS name or a file for all of them ([`Addresses::parse`]).
    pub nodes: Addresses,
    /// Where this process listens for them: host and port, which they must be able to reach; port 0 for any.
    pub listen: String,
    /// Certificates; without, only nodes on this machine are spoken to, unless `insecure`.
    pub tls: Option<TlsPaths>,
    /// Whether other machines are spoken to without encryption.
    pub insecure: bool,
    /// What all nodes of the cluster know.
    pub token: Token,
    /// How long is waited for nodes that are not there, before a run begins without them, and for a process in the place of one that is lost.
    pub replacement_timeout: Duration,
    /// How many nodes take part at most, this process included; `None`: all.
    pub most: Option<usize>,
}

/// The nodes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addresses {
    /// Host and port of each.
    List(Vec<String>),
    /// Host and port: every address of the host is a node.
    Name(String),
    /// A file with one host and port a line. It is read each time nodes are looked for, so the list may change while a job runs.
    File(PathBuf),
}

impl Addresses {
    /// From `static://host:port,host:port`, `static+dns://name:port` or `static+file:///path`.
    ///
    /// # Errors
    /// When the text is none of them, or what the file has now is no list of nodes.
    pub fn parse(text: &str) -> Result<Addresses, Diagnostic> {
        let refused = |what: &str| {
            Diagnostic::new(code::USAGE, format!("the cluster '{text}' {what}"))
                .advise("write static://host:port,host:port, static+dns://name:port or static+file:///path")
        };
        match text.split_once("://") {
            Some(("static", list)) => {
                let nodes: Vec<String> = list.split(',').map(|node| node.trim().to_string()).collect();
                wrong_among(&nodes).map_or(Ok(Addresses::List(nodes)), |what| Err(refused(&what)))
            }
            Some(("static+dns", name)) if is_address(name) => Ok(Addresses::Name(name.to_string())),
            Some(("static+dns", _)) => Err(refused("has no name and port")),
            Some(("static+file", path)) if path.starts_with('/') => {
                listed(Path::new(path))?;
                Ok(Addresses::File(path.into()))
            }
            Some(("static+file", _)) => Err(refused("has no path that begins with /")),
            _ => Err(refused("is of no known kind")),
        }
    }

    /// Host and port of each node that can be found now.
    ///
    /// # Errors
    /// When the file cannot be read, or is no list of nodes.
    pub(crate) fn resolve(&self) -> Result<Vec<String>, Diagnostic> {
        match self {
            Addresses::List(nodes) => Ok(nodes.clone()),
            Addresses::Name(name) => {
                let found = name.to_socket_addrs().map(|found| found.map(|address| address.to_string()).collect());
                let mut found: Vec<String> = found.unwrap_or_default();
                found.sort();
                found.dedup();
                Ok(found)
            }
            Addresses::File(path) => listed(path),
        }
    }
}

fn is_address(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

/// What is wrong with a list of nodes.
fn wrong_among(nodes: &[String]) -> Option<String> {
    let wrong =
        nodes.iter().find(|node| !is_address(node)).map(|node| format!("has a node '{node}' without host or port"));
    let twice = || nodes.iter().enumerate().find(|(at, node)| nodes[..*at].contains(node));
    wrong.or_else(|| twice().map(|(_, node)| format!("has the node '{node}' twice")))
}

/// The nodes that a file lists: one a line, besides blank lines and comments.
fn listed(path: &Path) -> Result<Vec<String>, Diagnostic> {
    let refused = |what: String| {
        Diagnostic::new(code::INVALID_CONFIG, format!("the list of nodes {} {what}", path.display()))
            .advise("write one HOST:PORT a line; lines that begin with # are comments")
    };
    let text = std::fs::read_to_string(path).map_err(|e| refused(format!("cannot be read: {e}")))?;
    let is_node = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let nodes: Vec<String> = text.lines().map(str::trim).filter(is_node).map(str::to_string).collect();
    wrong_among(&nodes).map_or(Ok(nodes), |what| Err(refused(what)))
}

/// A cluster of which this process is the first node of every run.
pub struct Coordinator {
    config: StaticNodes,
    /// Of jobs without checkpoints: tells them from those of other processes.
    unnamed: String,
    state: Arc<Mutex<State>>,
}

/// What is known of the nodes.
#[derive(Default)]
pub(crate) struct State {
    listener: Option<Arc<Listener>>,
    /// How many nodes take part at most, if that is not what the configuration says.
    most: Option<Option<usize>>,
    /// Where those of the last run are.
    pub(crate) members: Vec<String>,
    /// Those that have been waited for while the run went on: the next one begins without them.
    pub(crate) given_up: Vec<String>,
}

/// What each of some nodes says. Each is asked by itself: those that are gone must not take the time of the others.
pub(crate) fn ask(listener: &Listener, token: &Token, nodes: Vec<String>) -> Vec<(String, Result<Status, Diagnostic>)> {
    std::thread::scope(|scope| {
        let ask = |node: String| {
            scope.spawn(move || {
                let status = call(listener, token, &node, "status", &(), GREETING);
                (node, status)
            })
        };
        let asking: Vec<_> = nodes.into_iter().map(ask).collect();
        asking.into_iter().filter_map(|asking| asking.join().ok()).collect()
    })
}

/// The number of the next attempt of a run: the process that holds the state directory has a higher one than those before it.
pub(crate) fn next_attempt(part: &RunPart) -> u64 {
    let count = ATTEMPTS.fetch_add(1, Ordering::Relaxed) + 1;
    attempts::number(part.state.as_ref().map(|state| state.run), count)
}

/// Has a node begin an attempt.
pub(crate) fn tell(listener: &Listener, token: &Token, node: &str, begin: &Begin) -> Result<(), Diagnostic> {
    call(listener, token, node, "begin", begin, BEGINNING)
}

/// Whether a node has not answered because it is not there.
pub(crate) fn is_absent(error: &Diagnostic) -> bool {
    [code::NODE_UNREACHABLE, code::NODE_LOST].contains(&error.code)
}

/// The job that a node takes part in, if it is another one.
pub(crate) fn busy_with<'a>(status: &'a Status, job: &str) -> Option<&'a str> {
    status.run.as_ref().map(|(job, ..)| job.as_str()).filter(|other| *other != job)
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator").field("nodes", &self.config.nodes).finish_non_exhaustive()
    }
}

impl Coordinator {
    /// Of these nodes. Nobody is spoken to yet.
    pub fn new(config: StaticNodes) -> Coordinator {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unnamed = format!("{:x}-{:x}", since_epoch.as_nanos(), std::process::id());
        Coordinator { config, unnamed, state: Arc::default() }
    }

    fn listener(&self) -> Result<Arc<Listener>, Diagnostic> {
        let mut state = self.state.lock();
        if let Some(listener) = &state.listener {
            return Ok(Arc::clone(listener));
        }
        let StaticNodes { listen, tls, insecure, token, .. } = self.config.clone();
        let listener = Listener::bind(ListenConfig { address: listen, tls, insecure, token, control: None })?;
        Ok(Arc::clone(state.listener.insert(Arc::new(listener))))
    }

    /// Where the other nodes reach this one: the host as it was given, and the port that it got.
    fn own_address(&self, listener: &Listener) -> String {
        let host = self.config.listen.rsplit_once(':').map_or("127.0.0.1", |(host, _)| host);
        format!("{host}:{}", listener.address().port())
    }

    /// How many other nodes take part at most.
    fn most(&self) -> Option<usize> {
        self.state.lock().most.unwrap_or(self.config.most).map(|most| most.saturating_sub(1))
    }

    /// The nodes that are there, as many as take part in a job; waits a while for those that are not, and for those that another job has
    /// not left yet.
    fn present(&self, listener: &Listener, job: &str, monitor: &RunMonitor) -> Result<Vec<String>, Diagnostic> {
        let (until, most) = (Instant::now() + self.config.replacement_timeout, self.most().unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut has_said = false;
        loop {
            // A file that cannot be read now may be about to be written: that is waited for as well.
            let (nodes, unread) =
                self.config.nodes.resolve().map_or_else(|why| (Vec::new(), Some(why)), |nodes| (nodes, None));
            let asked = ask(listener, &self.config.token, nodes);
            if let Some(refusal) = asked.iter().filter_map(|(_, status)| status.as_ref().err()).find(|e| !is_absent(e))
            {
                return Err(refusal.clone());
            }
            let (mut there, gone): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(_, status)| status.is_ok());
            let awaits_none = {
                let given_up = &self.state.lock().given_up;
                gone.iter().all(|(node, _)| given_up.contains(node))
            };
            let is_late = Instant::now() >= until;
            let of_others = |(node, status): &(String, Result<Status, Diagnostic>)| {
                let other = busy_with(status.as_ref().ok()?, job)?;
                Some(format!("{node}, which takes part in the job {other}"))
            };
            there.sort_by_key(|node| of_others(node).is_some());
            let busy: Vec<String> = there.iter().take(most).filter_map(of_others).collect();
            let is_complete = busy.is_empty() && (awaits_none || there.len() >= most);
            if !there.is_empty() && (is_complete || is_late) {
                if let Some((node, _)) = gone.first().filter(|_| there.len() < most) {
                    let more = if gone.len() > 1 { format!(" and {} more", gone.len() - 1) } else { String::new() };
                    monitor.notice(format!(
                        "{node}{more} cannot be reached: the run begins with {} nodes",
                        there.len() + 1
                    ));
                }
                monitor.awaits(None);
                self.state.lock().given_up.clear();
                return Ok(there.into_iter().map(|(node, _)| node).take(most).collect());
            }
            if is_late {
                if let Some(why) = unread {
                    return Err(why);
                }
                let unknown = || Diagnostic::new(code::NODE_UNREACHABLE, "the cluster has no nodes".to_string());
                let why = gone.into_iter().find_map(|(_, status)| status.err()).unwrap_or_else(unknown);
                return Err(match why.code {
                    code::NODE_LOST => why.advise(
                        "look whether it is `millstream node`, and has certificates like this process, or none like it",
                    ),
                    _ => why.advise("start them with `millstream node --listen HOST:PORT`"),
                });
            }
            if monitor.cancel().state() != CancelState::Running {
                return Err(Diagnostic::new(code::CANCELLED, "the query was stopped while its nodes were waited for"));
            }
            let names: Vec<String> = gone.into_iter().map(|(node, _)| node).chain(busy).collect();
            monitor.awaits(Some(Awaited::Nodes(names.clone())));
            if !std::mem::replace(&mut has_said, true) {
                let what = if names.is_empty() { "nodes".into() } else { names.join(", ") };
                let why = unread.map(|why| format!(": {}", why.message)).unwrap_or_default();
                monitor.notice(format!("waiting for {what}{why}"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Cluster for Coordinator {
    fn begin(&self, part: &RunPart, monitor: &RunMonitor) -> Result<FirstNode, Diagnostic> {
        let listener = self.listener()?;
        let job = part.state.as_ref().map_or_else(|| self.unnamed.clone(), |state| state.job.clone());
        let others = self.present(&listener, &job, monitor)?;
        let (attempt, token) = (next_attempt(part), Token::random()?);
        let mut peers = vec![self.own_address(&listener)];
        peers.extend(others.iter().cloned());
        self.state.lock().members.clone_from(&peers);
        let begin = |me: usize| Begin::new((&job, attempt), me, peers.clone(), &token, part.clone());
        let told: Vec<Result<(), Diagnostic>> = std::thread::scope(|scope| {
            let tell = |(me, node): (usize, &String)| {
                let (begin, node, listener) = (begin(me), node.clone(), &listener);
                scope.spawn(move || tell(listener, &self.config.token, &node, &begin))
            };
            let telling: Vec<_> = (1..).zip(&others).map(tell).collect();
            let ended = |told: std::thread::ScopedJoinHandle<'_, _>| told.join();
            telling
                .into_iter()
                .map(ended)
                .map(|told| told.unwrap_or_else(|_| Err(Diagnostic::bug("a call panicked"))))
                .collect()
        });
        if let Err(why) = told.into_iter().collect::<Result<(), Diagnostic>>() {
            // Those that have begun must not wait for the others.
            let leave = Leave { job: job.clone(), attempt };
            for node in &others {
                let _: Result<(), _> = call(&listener, &self.config.token, node, "leave", &leave, GREETING);
            }
            return Err(why);
        }
        let (membership, nodes) = Membership::new(0, peers.len());
        let farewell = Box::new(membership.farewell());
        if !part.is_independent {
            membership.join(&listener, begin(0).mesh()?)?;
            return Ok(FirstNode { nodes, held: farewell });
        }
        (1..peers.len()).try_for_each(|node| membership.join(&listener, begin(0).mesh_with(node)?))?;
        let nodes = nodes.replaced_by(Arc::new(Substitutes {
            config: self.config.clone(),
            listener,
            state: Arc::clone(&self.state),
            peers: Mutex::new(peers.clone()),
            job: job.clone(),
            part: part.clone(),
            membership,
            notices: monitor.notices(),
        }));
        Ok(FirstNode { nodes, held: farewell })
    }

    fn resize(&self, nodes: Option<usize>) -> Result<(), Diagnostic> {
        let asked = ask(&*self.listener()?, &self.config.token, self.config.nodes.resolve()?);
        let there = asked.iter().filter(|(_, status)| status.is_ok()).count() + 1;
        if let Some(wanted) = nodes.filter(|&wanted| wanted > there) {
            let message = format!("{wanted} nodes are asked for, and with this process there are {there}");
            return Err(Diagnostic::new(code::NODE_UNREACHABLE, message).advise(
                "start more of them with `millstream node --listen HOST:PORT`, and add them to the list of nodes",
            ));
        }
        self.state.lock().most = Some(nodes);
        Ok(())
    }

    fn members(&self) -> Vec<String> {
        self.state.lock().members.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_lists_names_or_files() {
        let list = |nodes: &[&str]| Addresses::List(nodes.iter().map(|node| node.to_string()).collect());
        assert_eq!(Addresses::parse("static://a:1").unwrap(), list(&["a:1"]));
        assert_eq!(Addresses::parse("static://a:1, b:7420").unwrap(), list(&["a:1", "b:7420"]));
        assert_eq!(Addresses::parse("static+dns://n.svc:7420").unwrap(), Addresses::Name("n.svc:7420".into()));
        for text in [
            "a:1",
            "static://",
            "static://a",
            "static://a:x",
            "static://a:1,a:1",
            "static+dns://a",
            "ray://a:1",
            "static+file://nodes",
        ] {
            assert_eq!(Addresses::parse(text).unwrap_err().code, code::USAGE, "{text}");
        }
    }

    #[test]
    fn a_file_of_nodes_is_read_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nodes");
        let text = format!("static+file://{}", path.display());
        let absent = Addresses::parse(&text).unwrap_err();
        assert!(absent.code == code::INVALID_CONFIG && absent.message.contains("cannot be read"), "{absent}");
        std::fs::write(&path, "# nobody yet\n").unwrap();
        let nodes = Addresses::parse(&text).unwrap();
        assert_eq!(nodes, Addresses::File(path.clone()));
        assert_eq!(nodes.resolve().unwrap(), Vec::<String>::new());
        std::fs::write(&path, "a:1\r\n\n  # more\n [::1]:7420 ").unwrap();
        assert_eq!(nodes.resolve().unwrap(), ["a:1", "[::1]:7420"]);
        for (wrong, what) in
            [("a:1\nb\n", "'b' without"), ("a:1\nb:1 # b\n", "'b:1 # b' without"), ("a:1\na:1\n", "twice")]
        {
            std::fs::write(&path, wrong).unwrap();
            let refusal = nodes.resolve().unwrap_err();
            assert!(refusal.code == code::INVALID_CONFIG && refusal.message.contains(what), "{refusal}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(nodes.resolve().unwrap_err().code, code::INVALID_CONFIG);
    }
}
