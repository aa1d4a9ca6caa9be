//! TLS 1.3 with certificates on both sides, and the connections of either kind.
//!
//! rustls is used directly: tonic would also take TLS 1.2, and does not say why a certificate was not accepted.

use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, Error, RootCertStore, ServerConfig, crypto, version};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use tonic::transport::server::Connected;

/// Where the certificates are, as PEM.
#[derive(Debug, Clone)]
pub struct TlsPaths {
    /// Of the authorities that have signed the certificates of all nodes.
    pub ca: PathBuf,
    /// Of this node, for both directions.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The name in the certificates of the others, where it is not their host.
    pub server_name: Option<String>,
}

/// How to speak TLS.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    server_name: Option<ServerName<'static>>,
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(code::INVALID_CONFIG, format!("'{}' cannot be used for TLS: {why}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Diagnostic> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unusable(path, error))?;
    if all.is_empty() {
        return Err(unusable(path, "it has no certificate"));
    }
    Ok(all)
}

pub(super) fn authorities(path: &Path) -> Result<Arc<RootCertStore>, Diagnostic> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(Arc::new(roots))
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// `INVALID_CONFIG` when one cannot be read or used.
    pub(super) fn read(paths: &TlsPaths) -> Result<Tls, Diagnostic> {
        let roots = authorities(&paths.ca)?;
        let own = certificates(&paths.certificate)?;
        // The error of a key shows nothing of it.
        let key = PrivateKeyDer::from_pem_file(&paths.key)
            .map_err(|_| unusable(&paths.key, "it has no private key in PEM that can be read"))?;
        let provider = Arc::new(crypto::ring::default_provider());
        let misfit = |error: Error| unusable(&paths.certificate, error);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider)).build();
        let verifier = verifier.map_err(|error| unusable(&paths.ca, error))?;
        let versions = [&version::TLS13];
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(&versions);
        let mut server = server
            .map_err(misfit)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own.clone(), key.clone_key())
            .map_err(misfit)?;
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions).map_err(misfit)?;
        let mut client = client.with_root_certificates(roots).with_client_auth_cert(own, key).map_err(misfit)?;
        server.alpn_protocols.push(b"h2".to_vec());
        client.alpn_protocols.push(b"h2".to_vec());
        let server_name = paths.server_name.clone().map(|name| {
            let shown = format!("'{name}' is no name of a host");
            ServerName::try_from(name).map_err(|_| Diagnostic::new(code::INVALID_CONFIG, shown))
        });
        Ok(Tls { client: Arc::new(client), server: Arc::new(server), server_name: server_name.transpose()? })
    }

    /// Takes a connection.
    ///
    /// # Errors
    /// When the other side is not accepted; it is told why.
    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<Connection> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.server));
        match acceptor.accept(socket).into_fallible().await {
            Ok(stream) => Ok(Connection { stream: Stream::Tls(Box::new(stream.into())), trouble: Trouble::default() }),
            Err((error, mut socket)) => {
                // What is closed with unread bytes is reset, and the reason would be lost with that.
                let _ = socket.shutdown().await;
                let mut rest = [0; 1024];
                let drain = async { while matches!(socket.read(&mut rest).await, Ok(1..)) {} };
                let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
                Err(error)
            }
        }
    }

    /// Speaks TLS on a connection that was made to a host.
    pub(super) async fn connect(&self, socket: TcpStream, host: &str, trouble: Trouble) -> io::Result<Connection> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
                ServerName::try_from(host).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?
            }
        };
        let stream = TlsConnector::from(Arc::clone(&self.client)).connect(name, socket).await;
        let stream = stream.inspect_err(|error| trouble.note(error))?;
        Ok(Connection { stream: Stream::Tls(Box::new(stream.into())), trouble })
    }
}

/// Why certificates were not accepted. With TLS 1.3 a client hears of that when it first reads, deep below HTTP/2, so it is noted here.
#[derive(Clone, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    fn note(&self, error: &io::Error) {
        let text = match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
            Some(Error::AlertReceived(alert)) => format!("it does not accept the certificate of this node: {alert:?}"),
            Some(error @ (Error::InvalidCertificate(_) | Error::NoCertificatesPresented)) => error.to_string(),
            _ => return,
        };
        self.0.lock().get_or_insert(text);
    }

    /// What was noted.
    pub(super) fn text(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// A connection.
pub(super) struct Connection {
    stream: Stream,
    trouble: Trouble,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection {
    /// Without TLS.
    pub(super) fn plain(socket: TcpStream) -> Connection {
        Connection { stream: Stream::Plain(socket), trouble: Trouble::default() }
    }
}

macro_rules! on_stream {
    ($connection:expr, $stream:ident => $result:expr) => {
        match &mut $connection.get_mut().stream {
            Stream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $result
            }
            Stream::Tls(stream) => {
                let $stream = Pin::new(&mut **stream);
                $result
            }
        }
    };
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let trouble = self.trouble.clone();
        let read = on_stream!(self, stream => stream.poll_read(cx, buf));
        if let Poll::Ready(Err(error)) = &read {
            trouble.note(error);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => stream.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
