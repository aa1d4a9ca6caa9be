//! TLS of the server: a certificate and its key, from files in PEM.

use millstream::{Diagnostic, code};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, Error, crypto};

/// Where certificate and key are.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate, and those that it was signed with.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Reads the files.
///
/// # Errors
/// `INVALID_CONFIG` when one cannot be read or used.
pub(crate) fn acceptor(files: &Certificate) -> Result<TlsAcceptor, Diagnostic> {
    let chain = CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unusable(&files.certificate, error))?;
    if chain.is_empty() {
        return Err(unusable(&files.certificate, "it has no certificate"));
    }
    // The error of a key shows nothing of it.
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|_| unusable(&files.key, "it has no private key in PEM that can be read"))?;
    let misfit = |error: Error| unusable(&files.certificate, error);
    let provider = Arc::new(crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.map_err(misfit)?.with_no_client_auth().with_single_cert(chain, key).map_err(misfit)?;
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(code::INVALID_CONFIG, format!("'{}' cannot be used for TLS: {why}", path.display()))
}
