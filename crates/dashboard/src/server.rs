//! The server: listens, speaks HTTP/1.1 with or without TLS, and bounds what a client may take.

use crate::history::{Histories, Recorder};
use crate::jobs::Jobs;
use crate::routes;
use crate::served::{Exposure, Peer, Served, Token};
use crate::stalled::Noting;
use crate::tls::{self, Certificate};
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use millstream::{Diagnostic, code};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections at a time, of all clients and of one address; further ones are closed. So one machine does not take the places of others, and
/// its probes.
const MOST_CONNECTIONS: usize = 256;
const MOST_OF_ADDRESS: usize = 64;
/// How long the head of a request, the beginning of TLS, and a client that does not read may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read ahead of a connection: the most that the head of a request has.
const HEAD_BYTES: usize = 32 << 10;
/// The least characters of a token.
const LEAST_TOKEN: usize = 16;

/// Where the server listens, and for whom.
#[derive(Debug, Clone, Default)]
pub struct ServerConfig {
    /// A port, which is one of this machine only, or a host with a port.
    pub address: String,
    /// What those of other machines have to know.
    pub token: Option<String>,
    /// For TLS.
    pub certificate: Option<Certificate>,
    /// By what names it is called, besides those of this machine, when it listens there.
    pub names: Vec<String>,
}

/// A server that ends when it is dropped.
pub struct Server {
    /// `None` once it is being dropped.
    runtime: Option<tokio::runtime::Runtime>,
    _recorder: Recorder,
    /// Where it listens.
    pub address: SocketAddr,
    /// What its address begins with.
    pub scheme: &'static str,
    /// Whether the dashboard is served there, or metrics and probes only.
    pub has_dashboard: bool,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    /// `USAGE` when the address cannot be listened at, when what is needed to be reached from other machines is incomplete, and when scripts
    /// are taken without a token; `INVALID_CONFIG` when the certificate cannot be used.
    pub fn start(config: &ServerConfig, jobs: Arc<dyn Jobs>) -> Result<Server, Diagnostic> {
        let wrong = |why: String| wrong_address(&config.address, &why);
        let resolved = resolve(&config.address).map_err(wrong)?;
        if jobs.scripts().is_some() && config.token.is_none() {
            return Err(unguarded_scripts());
        }
        let exposure = exposure(config, resolved.ip())?;
        let acceptor = config.certificate.as_ref().map(tls::acceptor).transpose()?;
        let listener = TcpListener::bind(resolved).map_err(|e| wrong(e.to_string()))?;
        let address = listener.local_addr().map_err(|e| wrong(e.to_string()))?;
        listener.set_nonblocking(true).map_err(|e| wrong(e.to_string()))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("http").build();
        let runtime = runtime.map_err(|e| wrong(e.to_string()))?;
        let listener = runtime.block_on(async { tokio::net::TcpListener::from_std(listener) });
        let listener = listener.map_err(|e| wrong(e.to_string()))?;
        let (scheme, has_dashboard) =
            (if acceptor.is_some() { "https" } else { "http" }, exposure != Exposure::MetricsOnly);
        let histories = Arc::<Histories>::default();
        let recorder = Recorder::start(Arc::clone(&jobs), Arc::clone(&histories));
        let served = Arc::new(Served { jobs, histories, exposure, names: config.names.clone() });
        runtime.spawn(accept(listener, acceptor, routes::router(&served)));
        Ok(Server { runtime: Some(runtime), _recorder: recorder, address, scheme, has_dashboard })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Requests that wait for a checkpoint are not waited for.
        self.runtime.take().into_iter().for_each(tokio::runtime::Runtime::shutdown_background);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", self.scheme, self.address)
    }
}

/// Where an address is.
fn resolve(address: &str) -> Result<SocketAddr, String> {
    let full = match address.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.strip_prefix(':').map_or_else(|| address.to_string(), |port| format!("127.0.0.1:{port}")),
    };
    let resolved = full.to_socket_addrs().map_err(|e| e.to_string())?.next();
    resolved.ok_or_else(|| "the host has no address".into())
}

fn wrong_address(address: &str, why: &str) -> Diagnostic {
    let error = Diagnostic::new(code::USAGE, format!("--http {address}: {why}"));
    if why.contains("in use") {
        return error.advise("another program listens there: end it, or give another port, such as --http 9465");
    }
    error.advise(
        "give a port, such as 9464, for this machine alone, or host:port, such as 0.0.0.0:9464, for others as well",
    )
}

/// Everybody on this machine could run what they like, with the rights of the process.
fn unguarded_scripts() -> Diagnostic {
    let message = "--allow-submit without a token: everybody who reaches the address could run SQL";
    Diagnostic::new(code::USAGE, message)
        .advise("give --http-token-file as well, on this machine, too; openssl rand -hex 16 makes a token")
}

/// For whom a server at this address is.
fn exposure(config: &ServerConfig, ip: IpAddr) -> Result<Exposure, Diagnostic> {
    let usage = |message: &str, advice: &str| Err(Diagnostic::new(code::USAGE, message).advise(advice));
    match (&config.token, &config.certificate) {
        (None, None) if ip.is_loopback() => Ok(Exposure::ThisMachine),
        (None, None) => Ok(Exposure::MetricsOnly),
        (Some(token), _) if token.len() < LEAST_TOKEN => {
            usage("the token of --http is too short", "make one of 16 characters or more: openssl rand -hex 16")
        }
        (Some(token), Some(_)) => Ok(Exposure::Token(Token(token.clone()))),
        // What nobody else hears needs no TLS.
        (Some(token), None) if ip.is_loopback() => Ok(Exposure::Token(Token(token.clone()))),
        (Some(_), None) => usage(
            "--http-token-file without TLS: whoever reads the network has the token",
            "give --http-certificate and --http-key as well, or listen on this machine behind a proxy that speaks TLS",
        ),
        (None, Some(_)) => usage(
            "--http-certificate without a token: everybody who reaches the address would be let in",
            "give --http-token-file as well; openssl rand -hex 16 makes a token",
        ),
    }
}

async fn accept(listener: tokio::net::TcpListener, acceptor: Option<TlsAcceptor>, router: Router) {
    let (room, places) = (Arc::new(Semaphore::new(MOST_CONNECTIONS)), Places::default());
    loop {
        let Ok((socket, peer)) = listener.accept().await else {
            // Out of file descriptors, which others may give back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let Some(place) = places.take(peer.ip()) else { continue };
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let _places = (permit, place);
            match acceptor {
                None => serve(socket, router, Peer(peer)).await,
                Some(acceptor) => {
                    if let Ok(Ok(socket)) = tokio::time::timeout(PATIENCE, acceptor.accept(socket)).await {
                        serve(socket, router, Peer(peer)).await;
                    }
                }
            }
        });
    }
}

/// Answers the requests of a connection; its errors are that client's.
async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router, peer: Peer) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES);
    let (socket, stalled) = Noting::new(socket);
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        routes.call(request)
    });
    let connection = protocol.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        _ = connection => {}
        () = stalled.wait(PATIENCE) => {}
    }
}

/// How many connections each address has.
#[derive(Clone, Default)]
struct Places(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A place of an address, until it is dropped.
struct PlaceOf(Places, IpAddr);

impl Places {
    fn take(&self, address: IpAddr) -> Option<PlaceOf> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= MOST_OF_ADDRESS {
            return None;
        }
        *count += 1;
        Some(PlaceOf(self.clone(), address))
    }
}

impl Drop for PlaceOf {
    fn drop(&mut self) {
        let mut taken = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
