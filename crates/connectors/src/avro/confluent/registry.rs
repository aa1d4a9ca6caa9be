//! A Confluent schema registry: schemas by number, over HTTP.

use super::{TOKEN, URL, USER};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use millstream_types::{Diagnostic, Options, Place, code};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a registry that does not answer is asked, a moment longer each time.
const ATTEMPTS: u32 = 4;

/// What is escaped in a part of a path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one registry.
pub(super) struct Registry {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
}

impl Registry {
    /// The registry that the options of a table name. Nothing is sent yet.
    pub(super) fn open(options: &Options) -> Result<Registry, Diagnostic> {
        let url = options.require(URL.key)?.trim_end_matches('/').to_string();
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(options.invalid(URL.key, "an address such as http://localhost:8081"));
        }
        let basic = options.get(USER.key).map(|user| format!("Basic {}", BASE64.encode(user)));
        let authorization = basic.or_else(|| options.get(TOKEN.key).map(|token| format!("Bearer {token}")));
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(RootCerts::PlatformVerifier).build();
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
        Ok(Registry { agent: config.tls_config(tls).build().into(), url, authorization })
    }

    /// The schema of a number; `Ok(Err(…))` if the registry has none.
    pub(super) fn schema(&self, id: u32) -> Result<Result<String, String>, Diagnostic> {
        let not_avro = || format!("schema {id} of the registry is not one of Avro");
        self.find(&format!("/schemas/ids/{id}"), not_avro, || format!("the registry has no schema {id}"))
    }

    /// The newest schema of a subject; `Ok(Err(…))` if the registry has none.
    pub(super) fn latest(&self, subject: &str) -> Result<Result<String, String>, Diagnostic> {
        let path = format!("/subjects/{}/versions/latest", utf8_percent_encode(subject, ESCAPED));
        self.find(&path, || "it is not one of Avro".into(), || "the registry has no such subject".into())
    }

    /// The schema at a path of the registry; `Ok(Err(…))` with one of the two texts if it is of another format, or not there.
    fn find(
        &self,
        path: &str,
        not_avro: impl Fn() -> String,
        missing: impl Fn() -> String,
    ) -> Result<Result<String, String>, Diagnostic> {
        let (status, answer) = self.ask(path, None)?;
        match answer.get("schema").and_then(Value::as_str) {
            Some(_) if answer.get("schemaType").is_some_and(|kind| kind != "AVRO") => Ok(Err(not_avro())),
            Some(schema) => Ok(Ok(schema.to_string())),
            None if status == 404 => Ok(Err(missing())),
            None => Err(self.refused(status, &answer)),
        }
    }

    /// The number of a schema, which is registered for the subject unless it has been before.
    pub(super) fn register(&self, subject: &str, schema: &str) -> Result<u32, Diagnostic> {
        let path = format!("/subjects/{}/versions", utf8_percent_encode(subject, ESCAPED));
        let (status, answer) = self.ask(&path, Some(json!({ "schema": schema })))?;
        let id = answer.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| self.refused(status, &answer))
    }

    /// Status and content of an answer.
    fn ask(&self, path: &str, body: Option<Value>) -> Result<(u16, Value), Diagnostic> {
        let mut attempt = 1;
        loop {
            match self.ask_once(path, body.as_ref()) {
                Ok((status, _)) if status >= 500 && attempt < ATTEMPTS => {}
                Ok(answer) => return Ok(answer),
                Err(_) if attempt < ATTEMPTS => {}
                Err(e) => {
                    let message = format!("the schema registry '{}' does not answer: {e}", self.url);
                    return Err(Diagnostic::new(code::CONNECTION_FAILED, message)
                        .advise(format!("check '{}', and that the registry runs", URL.key)));
                }
            }
            std::thread::sleep(Duration::from_millis(200) * attempt);
            attempt += 1;
        }
    }

    fn ask_once(&self, path: &str, body: Option<&Value>) -> Result<(u16, Value), ureq::Error> {
        const CONTENT: &str = "application/vnd.schemaregistry.v1+json";
        let url = format!("{}{path}", self.url);
        let mut request = ureq::http::Request::builder().uri(url).header("Accept", CONTENT);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = match body {
            None => self.agent.run(request.body(())?)?,
            Some(body) => {
                let request = request.method("POST").header("Content-Type", CONTENT);
                self.agent.run(request.body(body.to_string())?)?
            }
        };
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string()?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    fn refused(&self, status: u16, answer: &Value) -> Diagnostic {
        let reason = answer.get("message").and_then(Value::as_str).map_or_else(|| answer.to_string(), str::to_string);
        let message = format!("the schema registry '{}' answers with status {status}: {reason}", self.url);
        let kind = if status < 500 { code::REFUSED } else { code::CONNECTION_FAILED };
        Diagnostic::new(kind, message).at(Place::Option(URL.key.into())).advise(match status {
            401 | 403 => "give 'avro-confluent.basic-auth.user-info' or 'avro-confluent.bearer-auth.token'",
            409 => "the registry holds the schema incompatible with those of the subject: give another subject, or change its rule",
            _ => "check the address and the registry's log",
        })
    }
}
