//! How connections come about: by connecting, again and again for a while, or by listening.

use super::MODE;
use crate::locked;
use crate::text_chunk::whole;
use millstream_types::{Diagnostic, Options, Place, code};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long one look for a connection may take.
const MOMENT: Duration = Duration::from_millis(100);
/// How often a listener is asked whether someone has come.
const GLANCE: Duration = Duration::from_millis(5);
/// How long one attempt to connect may take: a host that does not answer is asked again.
const ATTEMPT: Duration = Duration::from_secs(1);

/// One side of a connection, as the options of a table name it.
#[derive(Debug)]
pub(super) struct Endpoint {
    host: String,
    port: u16,
    /// `None` waits forever.
    timeout: Option<Duration>,
    /// Of a server.
    door: Option<Mutex<Door>>,
}

/// What a server listens with; closed when everyone has come, so that nobody waits in vain.
#[derive(Debug)]
struct Door {
    listener: Option<TcpListener>,
    /// Connections that are still wanted.
    wanted: usize,
}

impl Endpoint {
    /// The endpoint of `connections` connections. A server listens from now on. `patience` is the default of a server's
    /// timeout.
    pub(super) fn open(
        options: &Options,
        connections: usize,
        patience: Option<Duration>,
    ) -> Result<Endpoint, Diagnostic> {
        let is_server = MODE.choice(options, &[("client", false), ("server", true)])?;
        options.require("port")?;
        let port = options.parse("port", 0u16).ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| options.invalid("port", "a number from 1 to 65535"))?;
        // A name may have several addresses, of which a server would listen on one only.
        let local = if is_server { "127.0.0.1" } else { "localhost" };
        let host = options.get("hostname").unwrap_or(local).to_string();
        let default = if is_server { patience } else { Some(Duration::from_secs(5)) };
        let timeout = match options.get("connect.timeout") {
            Some(_) => Some(options.duration("connect.timeout", Duration::ZERO)?),
            None => default,
        };
        let mut endpoint = Endpoint { host, port, timeout, door: None };
        if is_server {
            let listener = endpoint.listen()?;
            endpoint.door = Some(Mutex::new(Door { listener: Some(listener), wanted: connections }));
        }
        Ok(endpoint)
    }

    /// `host:port`, for messages.
    pub(super) fn name(&self) -> String {
        let host = &self.host;
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    fn listen(&self) -> Result<TcpListener, Diagnostic> {
        let listener = TcpListener::bind((self.host.as_str(), self.port)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map_err(|e| {
            Diagnostic::new(code::LISTEN_FAILED, format!("cannot listen on '{}': {e}", self.name()))
                .at(whole(self.name()))
        })
    }

    /// Looks a moment for a connection; `None` if there is none yet. `since` is when the wait has begun.
    pub(super) fn connection(&self, since: Instant) -> Result<Option<TcpStream>, Diagnostic> {
        let left = self.timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        match &self.door {
            None => self.connect(left.unwrap_or(Duration::MAX)),
            Some(door) => self.accept(door, left),
        }
    }

    fn connect(&self, left: Duration) -> Result<Option<TcpStream>, Diagnostic> {
        let addresses: Vec<SocketAddr> = match (self.host.as_str(), self.port).to_socket_addrs() {
            Ok(addresses) => addresses.collect(),
            Err(e) => {
                let message = format!("the host '{}' is not known: {e}", self.host);
                return Err(Diagnostic::new(code::CONNECTION_FAILED, message).at(Place::Option("hostname".into())));
            }
        };
        let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in &addresses {
            // Zero would be refused; a last attempt is made even when the time is over.
            match TcpStream::connect_timeout(address, left.clamp(MOMENT, ATTEMPT)) {
                Ok(stream) => return Ok(Some(stream)),
                Err(e) => failure = e,
            }
        }
        if left.is_zero() {
            let message = format!("no connection to '{}': {failure}", self.name());
            return Err(Diagnostic::new(code::CONNECTION_FAILED, message).at(whole(self.name())));
        }
        std::thread::sleep(MOMENT.min(left));
        Ok(None)
    }

    fn accept(&self, door: &Mutex<Door>, left: Option<Duration>) -> Result<Option<TcpStream>, Diagnostic> {
        let until = Instant::now() + MOMENT;
        loop {
            let mut door = locked(door);
            let Some(listener) = &door.listener else {
                return Err(Diagnostic::bug("more connections are waited for than are wanted"));
            };
            match listener.accept() {
                Ok((stream, _)) => {
                    door.wanted = door.wanted.saturating_sub(1);
                    if door.wanted == 0 {
                        door.listener = None;
                    }
                    // Some systems hand the listener's mode on.
                    stream.set_nonblocking(false).map_err(|e| self.lost(&e))?;
                    return Ok(Some(stream));
                }
                Err(e) if is_wait(&e) || e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => {
                    let message = format!("no connection can be taken on '{}': {e}", self.name());
                    return Err(Diagnostic::new(code::CONNECTION_FAILED, message).at(whole(self.name())));
                }
            }
            drop(door);
            if left.is_some_and(|left| left.is_zero()) {
                let message = format!("nobody has connected to '{}' in time", self.name());
                return Err(Diagnostic::new(code::CONNECTION_FAILED, message)
                    .at(whole(self.name()))
                    .advise("start the other side, or raise 'connect.timeout'"));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// The error for a connection that broke.
    pub(super) fn lost(&self, error: &io::Error) -> Diagnostic {
        Diagnostic::new(code::CONNECTION_LOST, format!("the connection to '{}' broke: {error}", self.name()))
    }
}

/// Whether an error only says that nothing is there yet.
pub(super) fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// How long a reader waits for bytes before it looks whether it is still wanted.
pub(super) const READ_MOMENT: Duration = MOMENT;
