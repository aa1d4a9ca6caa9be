//! TLS: who has a certificate of the authority, and who has not.

use super::super::tls::authorities;
use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::{ClientConfig, crypto, version};

/// An authority and what it has signed.
struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { directory, issuer }
    }

    /// A certificate for a name, and the authority that others are checked by.
    fn paths(&self, name: &str, trusts: &Authority) -> TlsPaths {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        let signed = params.signed_by(&key, &self.issuer).unwrap();
        let path = |extension: &str| self.directory.path().join(format!("{name}.{extension}"));
        std::fs::write(path("pem"), signed.pem()).unwrap();
        std::fs::write(path("key"), key.serialize_pem()).unwrap();
        let ca = trusts.directory.path().join("ca.pem");
        TlsPaths { ca, certificate: path("pem"), key: path("key"), server_name: None }
    }
}

#[test]
fn nodes_with_certificates_exchange_messages_and_calls() {
    let authority = Authority::new();
    let paths = authority.paths("127.0.0.1", &authority);
    let (listeners, recorders) = (listeners(3, Some(&paths)), Recorder::several(3));
    let meshes = meshes(&listeners, &recorders, |_, _| {});
    exchange_random_messages(&meshes, &recorders, 4, 1 << 20);
    let caller = Caller::new(token(), Some(&paths), false).unwrap();
    let called = caller.call(&listeners[0].address().to_string(), "anything", Bytes::new(), PATIENCE);
    assert_eq!(called.unwrap_err().code, code::REFUSED);
}

#[test]
fn names_may_be_others_than_hosts() {
    let authority = Authority::new();
    let named = |name: Option<&str>| {
        let paths = TlsPaths { server_name: name.map(Into::into), ..authority.paths("nodes.test", &authority) };
        let listener = listeners(1, Some(&paths));
        let caller = Caller::new(token(), Some(&paths), false).unwrap();
        caller.call(&listener[0].address().to_string(), "anything", Bytes::new(), PATIENCE).unwrap_err().code
    };
    assert_eq!(named(Some("nodes.test")), code::REFUSED);
    assert_eq!(named(Some("another.test")), code::CERTIFICATE_REJECTED);
    assert_eq!(named(None), code::CERTIFICATE_REJECTED);
}

/// What a caller hears that has these certificates.
fn called(listener: &Listener, paths: &TlsPaths) -> Diagnostic {
    let caller = Caller::new(token(), Some(paths), false).unwrap();
    caller.call(&listener.address().to_string(), "anything", Bytes::new(), PATIENCE).unwrap_err()
}

#[test]
fn another_authority_is_rejected() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let listener = &listeners(1, Some(&ours.paths("127.0.0.1", &ours)))[0];
    // The caller does not know who has signed the certificate of the listener.
    assert_eq!(called(listener, &theirs.paths("127.0.0.1", &theirs)).code, code::CERTIFICATE_REJECTED);
    // The listener does not know who has signed that of the caller.
    let why = called(listener, &theirs.paths("127.0.0.1", &ours));
    assert!(why.code == code::CERTIFICATE_REJECTED && why.message.contains("does not accept"), "{why}");
}

#[test]
fn lanes_say_what_certificates_are_rejected() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let [good, bad] = [&ours, &theirs].map(|authority| authority.paths("127.0.0.1", authority));
    let listeners = [good, bad].map(|paths| Listener::bind(listen_config(Some(paths))).unwrap());
    let recorders = Recorder::several(2);
    let _meshes = meshes(&listeners, &recorders, |_, _| {});
    assert_eq!(recorders[0].wait_lost().code, code::CERTIFICATE_REJECTED);
    assert_eq!(recorders[1].wait_lost().code, code::CERTIFICATE_REJECTED);
}

#[test]
fn a_client_without_a_certificate_is_rejected() {
    let authority = Authority::new();
    let paths = authority.paths("127.0.0.1", &authority);
    let listener = &listeners(1, Some(&paths))[0];
    let mut tls = Tls::read(&paths).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]).unwrap();
    let mut client = client.with_root_certificates(authorities(&paths.ca).unwrap()).with_no_client_auth();
    client.alpn_protocols.push(b"h2".to_vec());
    tls.client = Arc::new(client);
    let dial = Dial::new(Some(tls), false);
    let address = listener.address().to_string();
    let why = control::call(listener.handle(), &dial, &token(), &address, "anything", Bytes::new(), PATIENCE);
    assert_eq!(why.unwrap_err().code, code::CERTIFICATE_REJECTED);
}

#[test]
fn without_tls_nobody_is_let_in() {
    let authority = Authority::new();
    let listener = &listeners(1, Some(&authority.paths("127.0.0.1", &authority)))[0];
    let plain = Caller::new(token(), None, false).unwrap();
    let address = listener.address().to_string();
    let why = plain.call(&address, "anything", Bytes::new(), Duration::from_millis(500)).unwrap_err();
    assert!([code::NODE_UNREACHABLE, code::NODE_LOST].contains(&why.code), "{why}");
}

#[test]
fn unusable_files_are_named() {
    let authority = Authority::new();
    let paths = authority.paths("127.0.0.1", &authority);
    let missing = TlsPaths { ca: "/nowhere/ca.pem".into(), ..paths.clone() };
    let swapped = TlsPaths { key: paths.certificate.clone(), ..paths.clone() };
    let foreign = TlsPaths { key: authority.paths("other", &authority).key, ..paths };
    for paths in [missing, swapped, foreign] {
        let why = Listener::bind(listen_config(Some(paths))).unwrap_err();
        assert_eq!(why.code, code::INVALID_CONFIG);
        assert!(why.message.contains(".pem"), "{why}");
    }
}
