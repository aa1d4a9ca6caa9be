//! How requests to object stores are sent and signed: by the HTTP client and the TLS library (OpenSSL) that the program has in
//! any case, instead of the ones that `object_store` would bring.

use async_trait::async_trait;
use hmac::{Hmac, Mac};
use http_body_util::BodyExt;
use object_store::client::{
    CryptoProvider, DigestAlgorithm, DigestContext, HmacContext, HttpClient, HttpConnector, HttpError, HttpErrorKind,
    HttpRequest, HttpResponse, HttpService, Signer, SigningAlgorithm,
};
use object_store::{ClientOptions, Error};
use sha2::digest::{FixedOutput, Update};
use sha2::{Digest, Sha256};
use std::io;
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Timeout, http};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a request may take, from the beginning to the last byte of its answer.
const REQUEST: Duration = Duration::from_secs(60);

/// Makes clients.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(RootCerts::PlatformVerifier).build();
        let config =
            Agent::config_builder().http_status_as_error(false).max_redirects(0).max_redirects_will_error(false);
        let config = config.timeout_connect(Some(CONNECT)).timeout_per_call(Some(REQUEST)).tls_config(tls);
        Ok(HttpClient::new(Client { agent: config.build().into() }))
    }
}

#[derive(Debug)]
struct Client {
    agent: Agent,
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let agent = self.agent.clone();
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let request = http::Request::from_parts(parts, body);
        let answer = tokio::task::spawn_blocking(move || send(&agent, request)).await;
        answer.map_err(|e| HttpError::new(HttpErrorKind::Unknown, e))?
    }
}

fn send(agent: &Agent, request: http::Request<impl AsRef<[u8]>>) -> Result<HttpResponse, HttpError> {
    let (parts, body) = request.into_parts();
    let (method, removes) = (parts.method.clone(), parts.method == http::Method::DELETE);
    let failed = |e| failed(e, removes);
    let answer = match method == http::Method::PUT || method == http::Method::POST {
        true => agent.run(http::Request::from_parts(parts, body.as_ref())),
        false => agent.run(http::Request::from_parts(parts, ())),
    };
    let (parts, mut body) = answer.map_err(failed)?.into_parts();
    let bytes = body.with_config().limit(u64::MAX).read_to_vec().map_err(failed)?;
    Ok(HttpResponse::from_parts(parts, bytes.into()))
}

/// Says of an error whether the request may be sent again. One that removes an object may be, although `object_store` thinks that
/// it may not.
fn failed(error: ureq::Error, removes: bool) -> HttpError {
    let kind = match &error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => HttpErrorKind::Connect,
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::Io(e) => match e.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => HttpErrorKind::Timeout,
            io::ErrorKind::ConnectionRefused | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                HttpErrorKind::Connect
            }
            // The other side, or somebody on the way, has hung up.
            _ => HttpErrorKind::Interrupted,
        },
        // An answer that was cut off.
        ureq::Error::Protocol(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    let kind = match kind {
        HttpErrorKind::Interrupted | HttpErrorKind::Timeout if removes => HttpErrorKind::Request,
        kind => kind,
    };
    HttpError::new(kind, error)
}

/// Signs requests.
#[derive(Debug)]
pub(super) struct Sha256Signatures;

impl CryptoProvider for Sha256Signatures {
    fn digest(&self, _: DigestAlgorithm) -> object_store::Result<Box<dyn DigestContext>> {
        Ok(Box::new(Hashing { state: Some(Sha256::new()), result: Vec::new() }))
    }

    fn hmac(&self, _: DigestAlgorithm, secret: &[u8]) -> object_store::Result<Box<dyn HmacContext>> {
        let state = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
        Ok(Box::new(Hashing { state: Some(state), result: Vec::new() }))
    }

    /// Accounts of Google need it, S3 does not.
    fn sign(&self, _: SigningAlgorithm, _pem: &[u8]) -> object_store::Result<Box<dyn Signer>> {
        Err(Error::NotSupported { source: "signatures by RSA keys".into() })
    }
}

/// A hash of what comes piece by piece.
struct Hashing<T> {
    state: Option<T>,
    result: Vec<u8>,
}

impl<T: Update + FixedOutput + Send> DigestContext for Hashing<T> {
    fn update(&mut self, data: &[u8]) {
        if let Some(state) = &mut self.state {
            state.update(data);
        }
    }

    fn finish(&mut self) -> object_store::Result<&[u8]> {
        if let Some(state) = self.state.take() {
            self.result = state.finalize_fixed().to_vec();
        }
        Ok(&self.result)
    }
}

impl<T: Update + FixedOutput + Send> HmacContext for Hashing<T> {
    fn update(&mut self, data: &[u8]) {
        DigestContext::update(self, data);
    }

    fn finish(&mut self) -> object_store::Result<&[u8]> {
        DigestContext::finish(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test case 2 of RFC 4231, and the example of FIPS 180-2, in two pieces each.
    #[test]
    fn signatures_are_those_of_the_standards() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut mac = Sha256Signatures.hmac(DigestAlgorithm::Sha256, b"Jefe").unwrap();
        mac.update(b"what do ya want ");
        mac.update(b"for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(mac.finish().unwrap()), expected);
        let mut digest = Sha256Signatures.digest(DigestAlgorithm::Sha256).unwrap();
        digest.update(b"a");
        digest.update(b"bc");
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(digest.finish().unwrap()), expected);
    }
}
