//! Connecting to a node: again and again, until it answers or is known never to.

use super::io::{GRPC_LIMIT, HANDSHAKE_TIMEOUT, HTTP_FRAME, PING, PING_TIMEOUT, STREAM_WINDOW};
use super::reasons;
use super::tls::{Connection, Tls, Trouble};
use arrow_flight::flight_service_client::FlightServiceClient;
use hyper_util::rt::TokioIo;
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;
use tonic::codegen::http::Uri;
use tonic::codegen::{Pin, Service};
use tonic::transport::{Channel, Endpoint};

pub(super) type Client = FlightServiceClient<Channel>;

/// How a process connects to others.
#[derive(Clone)]
pub(super) struct Dial {
    tls: Option<Tls>,
    insecure: bool,
}

/// Why there is no connection.
pub(super) enum Failure {
    /// It may go better later.
    Later(String),
    /// It broke while something was asked, which must not be asked twice.
    Broken(Diagnostic),
    /// It will not go better.
    Final(Diagnostic),
}

impl Failure {
    /// Why a node has not taken a stream.
    pub(super) fn of(status: &Status, node: usize) -> Failure {
        if reasons::is_not_yet(status) {
            return Failure::Later(format!("node {node} has not begun this attempt"));
        }
        match reasons::decode(status.details()) {
            Some(why) => Failure::Final(why),
            None => Failure::Later(reasons::text_of(status)),
        }
    }
}

/// What is done first with a connection.
pub(super) trait Ask: Sync {
    type Answer;

    fn ask(&self, client: Client) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;
}

impl Dial {
    pub(super) fn new(tls: Option<Tls>, insecure: bool) -> Dial {
        Dial { tls, insecure }
    }

    /// One attempt to connect, and to do what `ask` does first.
    async fn attempt<A: Ask>(&self, address: &str, ask: &A) -> Result<A::Answer, Failure> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"));
        let endpoint = endpoint.ok().filter(|endpoint| endpoint.uri().port_u16().is_some()).ok_or_else(|| {
            let text = format!("'{address}' is not an address of the form host:port");
            Failure::Final(Diagnostic::new(code::INVALID_CONFIG, text))
        })?;
        let endpoint = endpoint
            .connect_timeout(HANDSHAKE_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW)
            .max_frame_size(HTTP_FRAME);
        let connector = Connector { dial: self.clone(), trouble: Trouble::default(), refusal: Arc::default() };
        let asked = match endpoint.connect_with_connector(connector.clone()).await {
            Ok(channel) => {
                let client = FlightServiceClient::new(channel).max_decoding_message_size(GRPC_LIMIT);
                ask.ask(client.max_encoding_message_size(GRPC_LIMIT)).await
            }
            Err(error) => Err(Failure::Later(reasons::innermost(&error))),
        };
        asked.map_err(|failure| match (failure, connector.refusal.lock().take(), connector.trouble.text()) {
            (Failure::Final(why), ..) => Failure::Final(why),
            (_, Some(refusal), _) => Failure::Final(refusal),
            (_, None, Some(text)) => {
                let text = format!("no secure connection to '{address}': {text}");
                Failure::Final(Diagnostic::new(code::CERTIFICATE_REJECTED, text))
            }
            (failure, ..) => failure,
        })
    }

    /// Connects within a time, and does what `ask` does first.
    ///
    /// # Errors
    /// `NODE_UNREACHABLE` when it takes longer; what `ask` gives finally.
    pub(super) async fn within<A: Ask>(&self, address: &str, time: Duration, ask: &A) -> Result<A::Answer, Diagnostic> {
        let end = Instant::now() + time;
        let mut pause = Duration::from_millis(20);
        let mut last = "it does not answer".to_string();
        loop {
            match timeout_at(end, self.attempt(address, ask)).await {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(Failure::Final(why) | Failure::Broken(why))) => return Err(why),
                Ok(Err(Failure::Later(why))) => last = why,
                Err(_) => {}
            }
            if Instant::now() + pause >= end {
                let text = format!("no connection to '{address}' within {} s: {last}", time.as_secs_f32());
                return Err(Diagnostic::new(code::NODE_UNREACHABLE, text));
            }
            sleep_until(Instant::now() + pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }
}

/// Makes the connections of an endpoint.
#[derive(Clone)]
struct Connector {
    dial: Dial,
    trouble: Trouble,
    /// Why it must not be connected to.
    refusal: Arc<Mutex<Option<Diagnostic>>>,
}

impl Connector {
    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Connection>> {
        let (host, port) = (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or_default());
        let plain_host = host.trim_start_matches('[').trim_end_matches(']');
        let addresses: Vec<SocketAddr> = lookup_host((plain_host, port)).await?.collect();
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        if self.dial.tls.is_none() && !self.dial.insecure && !is_local {
            let text = format!("'{host}:{port}' is another machine, and there are no certificates for TLS");
            *self.refusal.lock() = Some(Diagnostic::new(code::NOT_ENCRYPTED, text));
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let socket = TcpStream::connect(addresses.as_slice()).await?;
        socket.set_nodelay(true)?;
        Ok(TokioIo::new(match &self.dial.tls {
            None => Connection::plain(socket),
            Some(tls) => tls.connect(socket, host, self.trouble.clone()).await?,
        }))
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Connection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Connection>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
