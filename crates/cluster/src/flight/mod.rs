//! Nodes in processes of their own, over Arrow Flight.
//!
//! ```text
//! node a                                        node b
//! mesh ─ lane to b ── DoExchange: hello, data, marks, end ──► listener ─► mesh ─► Inbound
//!                  ◄─ grants, end, or the reason of a refusal ─
//! caller ──────────── DoAction: action, JSON ───────────────► listener ─► Control
//! ```
//!
//! A process has one [`Listener`], bound once. Each attempt of a job has a [`Mesh`] on it, which replaces the one before: streams of older attempts are
//! closed and refused. Each ordered pair of nodes has a connection. What is lost stays lost within an attempt: nothing is sent twice.
//!
//! A frame is a `FlightData`, its header in `app_metadata`, its body in `data_body`.
//!
//! **Security.** Whoever listens on more than the loopback has TLS, or has said `insecure`. TLS is 1.3, with certificates on both sides. Each stream begins with the job's token,
//! each call has that of the listener; they are compared in constant time, and shown nowhere.
//!
//! **Detection.** A closed stream is noticed at once; a machine that is gone, by pings of HTTP/2 every 2 s, after 6 s more.
//!
//! Threads: two for input and output of a listener, of its own runtime, and as many as there are calls in progress.

mod control;
mod dial;
mod handshake;
mod mesh;
mod receiving;
mod sending;
mod service;
#[cfg(test)]
mod tests;
mod tls;
mod token;

pub use control::{CONTROL_LIMIT, Caller, Control};
pub use handshake::MeshConfig;
pub use mesh::Mesh;
pub use tls::TlsPaths;
pub use token::Token;

use crate::transport::Inbound;
use dial::Dial;
use handshake::Serving;
use mesh::Shared;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use service::Service;
use std::fmt;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tls::Tls;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of a listener.
const THREADS: usize = 2;
/// Calls that may be in progress at once.
const CALLS: usize = 32;
/// Between pings.
const PING: Duration = Duration::from_secs(2);
/// How long the answer to a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(6);
/// How long the first steps of a connection may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long dropping a listener waits for calls in progress.
const SHUTDOWN: Duration = Duration::from_millis(200);
/// What HTTP/2 has on its way for a stream, in bytes: two frames.
const STREAM_WINDOW: u32 = 4 << 20;
/// What HTTP/2 writes at once, in bytes: its default of 16 KiB costs a system call for each.
const HTTP_FRAME: u32 = 256 << 10;
/// What a message of gRPC may have, in bytes.
const GRPC_LIMIT: usize = crate::frame::BODY_LIMIT + crate::frame::HEADER_LIMIT + 4096;

/// How to listen.
pub struct ListenConfig {
    /// Host and port; port 0 for any.
    pub address: String,
    /// Certificates; without, only the loopback can be listened on and connected to, unless `insecure`.
    pub tls: Option<TlsPaths>,
    /// Whether other machines are spoken to without encryption: whoever reads the network then has the tokens.
    pub insecure: bool,
    /// What callers must know.
    pub token: Token,
    /// Who answers calls.
    pub control: Option<Arc<dyn Control>>,
}

impl fmt::Debug for ListenConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ListenConfig");
        shown.field("address", &self.address).field("tls", &self.tls).field("insecure", &self.insecure);
        shown.finish_non_exhaustive()
    }
}

/// The threads that read and write.
struct Io(Option<Runtime>);

impl Io {
    fn start(threads: usize, calls: usize) -> Result<Io, Diagnostic> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).max_blocking_threads(calls).thread_name("cluster").enable_all();
        let runtime = builder.build();
        let failed = |error| Diagnostic::new(code::LISTEN_FAILED, format!("threads for the network: {error}"));
        Ok(Io(Some(runtime.map_err(failed)?)))
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let Some(runtime) = self.0.take() else { return };
        match Handle::try_current() {
            // A thread of a runtime must not wait, least of all for itself.
            Ok(_) => runtime.shutdown_background(),
            // Sockets are closed then. What a call has asked for may take longer.
            Err(_) => runtime.shutdown_timeout(SHUTDOWN),
        }
    }
}

/// Where a process can be reached by the other nodes and by the coordinator. When it and all its meshes are dropped, all connections are closed.
pub struct Listener {
    io: Arc<Io>,
    address: SocketAddr,
    dial: Dial,
    serving: Arc<Mutex<Serving>>,
}

impl Listener {
    /// Listens.
    ///
    /// # Errors
    /// `NOT_ENCRYPTED` when other machines could connect without TLS; `LISTEN_FAILED`; `INVALID_CONFIG` for unusable certificates.
    pub fn bind(config: ListenConfig) -> Result<Listener, Diagnostic> {
        let ListenConfig { address, tls, insecure, token, control } = config;
        let tls = tls.as_ref().map(Tls::read).transpose()?;
        let failed = |error: std::io::Error| {
            Diagnostic::new(code::LISTEN_FAILED, format!("'{address}' cannot be listened on: {error}"))
        };
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
        if tls.is_none() && !insecure && !addresses.iter().all(|address| address.ip().is_loopback()) {
            let text = format!("'{address}' can be reached from other machines, and there are no certificates for TLS");
            return Err(Diagnostic::new(code::NOT_ENCRYPTED, text));
        }
        let socket = TcpListener::bind(addresses.as_slice()).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        let io = Io::start(THREADS, CALLS)?;
        let serving = Arc::new(Mutex::new(Serving::default()));
        let service = Service { serving: Arc::clone(&serving), token, control };
        {
            let _context = io.runtime().enter();
            let socket = tokio::net::TcpListener::from_std(socket).map_err(failed)?;
            tokio::spawn(service.serve(socket, tls.clone()));
        }
        Ok(Listener { io: Arc::new(io), address: bound, dial: Dial::new(tls, insecure), serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Begins an attempt of a job: connects to the other nodes and takes their connections. It returns at once; what is sent waits for the connection. A
    /// mesh of an older attempt, or of another job, is replaced: nothing more comes from it, and its peers are told.
    ///
    /// # Errors
    /// `STALE_ATTEMPT` when this attempt, or a later one, has been here before; `BUG` for numbers that do not fit.
    pub fn mesh(&self, config: MeshConfig, inbound: Arc<dyn Inbound>) -> Result<Mesh, Diagnostic> {
        config.check()?;
        let shared = Arc::new(Shared::new(config, &inbound));
        self.serving.lock().replace(&shared)?;
        Ok(Mesh::start(shared, &self.dial, &self.io))
    }

    fn handle(&self) -> &Handle {
        self.io.runtime().handle()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
