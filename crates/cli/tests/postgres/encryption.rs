//! TLS, with every `sslmode`, against a server that has a certificate for 127.0.0.1, and one that has none.

use crate::server::{Database, Server};
use millstream::{Diagnostic, Place, Session, SessionConfig, code};

/// A table that notes for each row whether it has come encrypted.
const TABLE: &str = "
CREATE FUNCTION is_encrypted() RETURNS boolean LANGUAGE sql AS 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()';
CREATE TABLE t (n bigint, encrypted boolean DEFAULT is_encrypted())";

/// Writes a row exactly once by a URL with another host and further parameters.
fn write(database: &Database, host: &str, parameters: &str) -> Result<(), Diagnostic> {
    let state = tempfile::tempdir().unwrap();
    let url = database.url().replace("127.0.0.1", host);
    let with = database.with("t").replace(&database.url(), &format!("{url}?{parameters}"));
    Session::new(SessionConfig::default()).run(&format!(
        "SET 'execution.checkpointing.dir' = '{}'; CREATE TABLE o (n BIGINT) {with}; INSERT INTO o VALUES (1);",
        state.path().display()
    ))
}

/// Whether what was written was encrypted.
fn written(database: &mut Database, host: &str, parameters: &str) -> bool {
    database.execute("TRUNCATE t");
    write(database, host, parameters).unwrap();
    let rows = database.rows("n, encrypted", "FROM t");
    assert!(rows == ["1|t"] || rows == ["1|f"], "{rows:?}");
    rows == ["1|t"]
}

#[test]
fn every_mode_does_what_it_says() {
    let server = Server::with_tls();
    let mut database = server.database("modes");
    database.execute(TABLE);
    let [ca, other] = ["ca.pem", "other-ca.pem"].map(|name| format!("sslrootcert={}", server.file(name).display()));
    for (host, parameters, is_encrypted) in [
        ("127.0.0.1", "application_name=it", true),
        ("127.0.0.1", "sslmode=prefer", true),
        ("127.0.0.1", "sslmode=disable", false),
        ("localhost", "sslmode=require", true),
        ("localhost", &format!("sslmode=require&{ca}"), true),
        ("localhost", &format!("sslmode=verify-ca&{ca}&application_name=it"), true),
        ("127.0.0.1", &format!("{ca}&sslmode=verify-full"), true),
        ("127.0.0.1", &format!("ssl=true&{ca}"), true),
    ] {
        assert_eq!(written(&mut database, host, parameters), is_encrypted, "{parameters}");
    }
    for (host, parameters, reason) in [
        // The certificate has no names.
        ("localhost", format!("sslmode=verify-full&{ca}"), "ostname mismatch"),
        ("127.0.0.1", format!("sslmode=verify-ca&{other}"), "certificate verify failed"),
        ("127.0.0.1", format!("sslmode=require&{other}"), "certificate verify failed"),
        // No authority that everybody knows has signed it.
        ("127.0.0.1", "sslmode=verify-full".into(), "certificate verify failed"),
        ("127.0.0.1", "ssl=true".into(), "certificate verify failed"),
    ] {
        let error = write(&database, host, &parameters).unwrap_err();
        assert_eq!(error.code, code::REFUSED, "{error}");
        assert!(error.message.contains(reason), "{parameters}: {error}");
        assert_eq!(error.place, Some(Place::Option("url".into())), "{error}");
        assert!(error.advice.unwrap().contains("sslrootcert"));
    }
}

#[test]
fn a_server_may_want_to_see_a_certificate() {
    let server = Server::with_tls();
    let mut database = server.database("secured");
    database.execute(TABLE);
    let files = ["ca.pem", "client.pem", "client.key"].map(|name| server.file(name).display().to_string());
    let [ca, certificate, key] = &files;
    let own = format!("sslmode=verify-full&sslrootcert={ca}&sslcert={certificate}&sslkey={key}");
    assert!(written(&mut database, "127.0.0.1", &own));
    let error = write(&database, "127.0.0.1", "sslmode=require").unwrap_err();
    assert_eq!(error.code, code::REFUSED, "{error}");
    assert!(error.message.contains("certificate"), "{error}");
    let error = write(&database, "127.0.0.1", &format!("sslcert={certificate}&sslkey={ca}")).unwrap_err();
    assert_eq!(error.code, code::INVALID_OPTION, "{error}");
}

#[test]
fn a_server_without_tls_is_used_only_if_that_is_allowed() {
    let mut database = Database::new("no_tls");
    database.execute(TABLE);
    assert!(!written(&mut database, "127.0.0.1", "sslmode=prefer"));
    for parameters in ["sslmode=require", "sslmode=verify-full"] {
        let error = write(&database, "127.0.0.1", parameters).unwrap_err();
        assert_eq!(error.code, code::REFUSED, "{error}");
        assert!(error.message.contains("does not support TLS"), "{error}");
    }
}
