//! TLS, as the parameters of the URL ask for it: `sslmode` with the meaning that it has for psql.
//!
//! | mode | encrypted | the server is known by |
//! | --- | --- | --- |
//! | `disable` | no | |
//! | `prefer` (default) | if the server can | nothing |
//! | `require` | yes | nothing; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | yes | a certificate of an authority |
//! | `verify-full` | yes | that, with the name of the host |

use crate::option_table::option_fault;
use millstream_types::{Diagnostic, Place, code};
use native_tls::{Certificate, Identity, TlsConnector};
use percent_encoding::percent_decode_str;
use postgres::config::SslMode;
use postgres::{Client, Config, NoTls};
use postgres_native_tls::MakeTlsConnector;
use std::collections::BTreeMap;
use std::fs;

/// See the module.
pub(super) struct Encryption {
    mode: Mode,
    connector: MakeTlsConnector,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The parameters of the URL that are about encryption, by name.
#[derive(Default)]
struct Parameters(BTreeMap<&'static str, String>);

impl Encryption {
    /// What a URL asks for, and the URL without it.
    pub(super) fn of_url(url: &str) -> Result<(String, Encryption), Diagnostic> {
        let Some((address, query)) = url.split_once('?') else {
            return Ok((url.to_string(), Parameters::default().encryption()?));
        };
        let (mut parameters, mut others) = (Parameters::default(), Vec::new());
        for parameter in query.split('&') {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
            match ["sslmode", "sslrootcert", "sslcert", "sslkey"].into_iter().find(|known| *known == name) {
                Some(known) => drop(parameters.0.insert(known, value)),
                // As drivers for Java have it.
                None if (name, &value[..]) == ("ssl", "true") => {
                    parameters.0.entry("sslmode").or_insert("verify-full".into());
                }
                None => others.push(parameter),
            }
        }
        let separator = if others.is_empty() { "" } else { "?" };
        Ok((format!("{address}{separator}{}", others.join("&")), parameters.encryption()?))
    }

    /// Connects. What is only preferred is done without if it cannot be had.
    pub(super) fn connect(&self, config: &Config) -> Result<Client, postgres::Error> {
        let mut config = config.clone();
        let encrypted = match self.mode {
            Mode::Disable => return config.ssl_mode(SslMode::Disable).connect(NoTls),
            Mode::Prefer => config.ssl_mode(SslMode::Prefer).connect(self.connector.clone()),
            _ => return config.ssl_mode(SslMode::Require).connect(self.connector.clone()),
        };
        encrypted.or_else(|error| match is_of_tls(&error) {
            true => config.ssl_mode(SslMode::Disable).connect(NoTls).map_err(|_| error),
            false => Err(error),
        })
    }
}

/// Whether client and server could not agree on encryption.
pub(super) fn is_of_tls(error: &postgres::Error) -> bool {
    error.code().is_none() && error.to_string().starts_with("error performing TLS handshake")
}

/// The error for a server with which there is no agreement on encryption.
pub(super) fn refused(server: &str, reason: &str) -> Diagnostic {
    let message = format!("no encrypted connection to PostgreSQL at '{server}': {reason}");
    let advice = "check 'sslmode' in the URL; 'sslrootcert' names a PEM file with the authority of the server's certificate, and \
        'verify-full' wants the name of the host in that";
    option_fault(code::REFUSED, "url", message, advice)
}

impl Parameters {
    fn encryption(self) -> Result<Encryption, Diagnostic> {
        let value = |name| self.0.get(name).map(String::as_str);
        let authorities = value("sslrootcert");
        let mode = match value("sslmode") {
            None | Some("prefer") => Mode::Prefer,
            Some("disable") => Mode::Disable,
            Some("require") if authorities.is_some() => Mode::VerifyCa,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(other) => {
                return Err(invalid(format!("the 'url' says sslmode={other}"))
                    .advise("give 'disable', 'prefer', 'require', 'verify-ca' or 'verify-full'"));
            }
        };
        let mut builder = TlsConnector::builder();
        builder.danger_accept_invalid_certs(!matches!(mode, Mode::VerifyCa | Mode::VerifyFull));
        builder.danger_accept_invalid_hostnames(mode != Mode::VerifyFull);
        if let Some(file) = authorities {
            builder.disable_built_in_roots(true);
            for authority in Certificate::stack_from_pem(&read("sslrootcert", file)?)
                .map_err(|e| unusable("sslrootcert", file, &e.to_string()))?
            {
                builder.add_root_certificate(authority);
            }
        }
        match (value("sslcert"), value("sslkey")) {
            (Some(certificate), Some(key)) => {
                let (chain, secret) = (read("sslcert", certificate)?, read("sslkey", key)?);
                let identity = Identity::from_pkcs8(&chain, &secret);
                builder.identity(identity.map_err(|e| unusable("sslkey", key, &e.to_string()))?);
            }
            (None, None) => {}
            _ => return Err(invalid("the 'url' has only one of 'sslcert' and 'sslkey'".into())),
        }
        let connector = builder.build().map_err(|e| invalid(format!("TLS cannot be set up: {e}")))?;
        Ok(Encryption { mode, connector: MakeTlsConnector::new(connector) })
    }
}

fn read(parameter: &str, file: &str) -> Result<Vec<u8>, Diagnostic> {
    fs::read(file).map_err(|e| unusable(parameter, file, &e.to_string()))
}

fn unusable(parameter: &str, file: &str, reason: &str) -> Diagnostic {
    invalid(format!("the file '{file}' that '{parameter}' names cannot be used: {reason}"))
        .advise("give a PEM file; keys are in PKCS8 (`openssl pkcs8 -topk8 -nocrypt` makes that of others)")
}

/// The error for an address that cannot be used; it is not shown, since it may have a password in it.
pub(super) fn invalid(message: String) -> Diagnostic {
    Diagnostic::new(code::INVALID_OPTION, message).at(Place::Option("url".into()))
}
