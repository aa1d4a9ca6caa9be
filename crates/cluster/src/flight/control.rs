//! Calls between a coordinator and nodes: an action and small JSON there, JSON or a [`Diagnostic`] back.

use super::dial::{Ask, Client, Dial, Failure};
use super::io::Io;
use super::reasons::{decode, encode, text_of};
use super::tls::{Tls, TlsPaths};
use super::token::Token;
use crate::frame::BODY_LIMIT;
use arrow_flight::Action;
use bytes::Bytes;
use millstream_types::{Diagnostic, code};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// The most that a question or an answer may have, in bytes.
pub const CONTROL_LIMIT: usize = BODY_LIMIT - 1;
/// Where the token of a call stands.
const TOKEN: &str = "x-millstream-token";

/// Who answers calls. It may take its time: up to 32 calls of a listener are answered at once, each by a thread of its own.
pub trait Control: Send + Sync {
    /// Does what is asked.
    ///
    /// # Errors
    /// The diagnostic comes to the caller as it is.
    fn handle(&self, action: &str, body: Bytes) -> Result<Bytes, Diagnostic>;
}

pub(super) fn check_token(token: &Token, metadata: &MetadataMap) -> Result<(), Diagnostic> {
    let given = metadata.get(TOKEN).map_or(&b""[..], MetadataValue::as_bytes);
    match token.is(given) {
        true => Ok(()),
        false => Err(Diagnostic::new(code::WRONG_TOKEN, "a call does not have the token of this node")),
    }
}

/// The answer to a call: 0 and what it is, or 1 and a diagnostic.
pub(super) async fn answer(control: Option<Arc<dyn Control>>, action: String, body: Bytes) -> Bytes {
    let handled = match control {
        None => Err(Diagnostic::new(code::REFUSED, "this node takes no calls")),
        Some(control) => tokio::task::spawn_blocking(move || control.handle(&action, body))
            .await
            .unwrap_or_else(|_| Err(Diagnostic::bug("what a call asked for has failed"))),
    };
    let handled = handled.and_then(|answer| match answer.len() <= CONTROL_LIMIT {
        true => Ok(answer),
        false => Err(Diagnostic::bug(format!("an answer of {} bytes is too long", answer.len()))),
    });
    match handled {
        Ok(answer) => [&[0], answer.as_ref()].concat().into(),
        Err(why) => [&[1], encode(&why).as_slice()].concat().into(),
    }
}

/// Calls nodes, without listening itself.
pub struct Caller {
    io: Io,
    dial: Dial,
    token: Token,
}

impl Caller {
    /// With the token of those that are called. Without certificates, and unless `insecure`, only the loopback is called.
    ///
    /// # Errors
    /// `INVALID_CONFIG` for unusable certificates.
    pub fn new(token: Token, tls: Option<&TlsPaths>, insecure: bool) -> Result<Caller, Diagnostic> {
        let tls = tls.map(Tls::read).transpose()?;
        Ok(Caller { io: Io::start(1, 1)?, dial: Dial::new(tls, insecure), token })
    }

    /// Asks a node (host and port) for something, and waits for the answer, up to `within`. While there is no connection it tries again; what has been
    /// asked is not asked again. Must not be called by a thread of an asynchronous runtime.
    ///
    /// # Errors
    /// The diagnostic of the other side; `NODE_UNREACHABLE`, `NODE_LOST`, `WRONG_TOKEN`, `CERTIFICATE_REJECTED`, `NOT_ENCRYPTED`.
    pub fn call(&self, address: &str, action: &str, body: Bytes, within: Duration) -> Result<Bytes, Diagnostic> {
        call(self.io.runtime().handle(), &self.dial, &self.token, address, action, body, within)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("token", &self.token).finish_non_exhaustive()
    }
}

pub(super) fn call(
    handle: &Handle,
    dial: &Dial,
    token: &Token,
    address: &str,
    action: &str,
    body: Bytes,
    within: Duration,
) -> Result<Bytes, Diagnostic> {
    if body.len() > CONTROL_LIMIT {
        return Err(Diagnostic::bug(format!("a question of {} bytes is too long", body.len())));
    }
    let mut value: MetadataValue<Ascii> =
        token.reveal().parse().map_err(|_| Diagnostic::bug("a token is visible ASCII"))?;
    value.set_sensitive(true);
    let question = Question { address, action, body, token: value, is_asked: AtomicBool::new(false) };
    handle.block_on(dial.within(address, within, &question)).map_err(|why| match question.is_asked.load(Relaxed) {
        true if why.code == code::NODE_UNREACHABLE => lost_call(address, "it does not answer in time"),
        _ => why,
    })
}

fn lost_call(address: &str, how: impl fmt::Display) -> Diagnostic {
    Diagnostic::new(code::NODE_LOST, format!("the call to '{address}' broke: {how}"))
}

struct Question<'a> {
    address: &'a str,
    action: &'a str,
    body: Bytes,
    token: MetadataValue<Ascii>,
    is_asked: AtomicBool,
}

impl Ask for Question<'_> {
    type Answer = Bytes;

    async fn ask(&self, mut client: Client) -> Result<Bytes, Failure> {
        let mut request = Request::new(Action { r#type: self.action.to_string(), body: self.body.clone() });
        request.metadata_mut().insert(TOKEN, self.token.clone());
        self.is_asked.store(true, Relaxed);
        let broken = |status: tonic::Status| match decode(status.details()) {
            Some(why) => Failure::Final(why),
            None => Failure::Broken(lost_call(self.address, text_of(&status))),
        };
        let mut answers = client.do_action(request).await.map_err(broken)?.into_inner();
        let answer = answers.message().await.map_err(broken)?;
        let body = answer.map(|answer| answer.body).unwrap_or_default();
        let why = match body.first() {
            Some(0) => return Ok(body.slice(1..)),
            Some(1) => decode(&body[1..]),
            _ => None,
        };
        Err(Failure::Final(why.unwrap_or_else(|| lost_call(self.address, "its answer cannot be read"))))
    }
}
