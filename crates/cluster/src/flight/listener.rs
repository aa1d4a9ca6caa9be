//! Where a process listens: bound once, with the meshes of one job at a time.

use super::attempt::MeshConfig;
use super::control::{self, Control};
use super::dial::Dial;
use super::handshake::Serving;
use super::io::Io;
use super::lanes::Shared;
use super::mesh::Mesh;
use super::service::Service;
use super::tls::{Tls, TlsPaths};
use super::token::Token;
use crate::transport::Inbound;
use bytes::Bytes;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::fmt;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Threads of a listener.
const THREADS: usize = 2;
/// Calls that may be in progress at once.
const CALLS: usize = 32;

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

/// Where a process can be reached by the other nodes and by the coordinator. When it and all its meshes are dropped, all connections are closed.
pub struct Listener {
    io: Arc<Io>,
    address: SocketAddr,
    pub(super) dial: Dial,
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

    /// As [`Caller::call`](super::Caller::call), with the certificates of the listener.
    ///
    /// # Errors
    /// As there.
    pub fn call(
        &self,
        token: &Token,
        address: &str,
        action: &str,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, Diagnostic> {
        control::call(self.handle(), &self.dial, token, address, action, body, within)
    }

    pub(super) fn handle(&self) -> &Handle {
        self.io.runtime().handle()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}
