//! What the first node asks of the others, as JSON.

use crate::coordinator::WINDOW;
use crate::flight::{CONTROL_LIMIT, Listener, MeshConfig, Token};
use bytes::Bytes;
use millstream::cluster::RunPart;
use millstream::{Diagnostic, code};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Begins an attempt: the node leaves what it does, and plans the run before it answers. It has secrets, and so no Debug.
#[derive(Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) job: String,
    pub(crate) attempt: u64,
    /// The number of the node.
    pub(crate) me: usize,
    /// Host and port of each node.
    pub(crate) peers: Vec<String>,
    pub(crate) window: u64,
    pub(crate) engine: String,
    /// What the nodes of the attempt know.
    pub(crate) token: String,
    pub(crate) part: RunPart,
}

/// Ends an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Leave {
    pub(crate) job: String,
    pub(crate) attempt: u64,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its version of the engine.
    pub engine: String,
    /// The run that it takes part in: job, attempt and its number there.
    pub run: Option<(String, u64, usize)>,
}

impl Begin {
    /// Of an attempt (job and number), for the node `me` of `peers`.
    pub(crate) fn new(
        (job, attempt): (&str, u64),
        me: usize,
        peers: Vec<String>,
        token: &Token,
        part: RunPart,
    ) -> Begin {
        let (job, engine, token) = (job.into(), env!("CARGO_PKG_VERSION").into(), token.reveal().into());
        Begin { job, attempt, me, peers, window: WINDOW, engine, token, part }
    }

    /// The mesh of the attempt, on the node that it is for.
    pub(crate) fn mesh(&self) -> Result<MeshConfig, Diagnostic> {
        self.lanes(self.me, self.part.is_independent.then_some(0))
    }

    /// The mesh of the attempt, on the first node: with one of the others alone.
    pub(crate) fn mesh_with(&self, node: usize) -> Result<MeshConfig, Diagnostic> {
        self.lanes(0, Some(node))
    }

    fn lanes(&self, me: usize, only: Option<usize>) -> Result<MeshConfig, Diagnostic> {
        Ok(MeshConfig {
            only,
            job: self.job.clone(),
            attempt: self.attempt,
            me,
            peers: self.peers.clone(),
            plan: self.part.plan,
            engine: self.engine.clone(),
            token: Token::new(&self.token)?,
            window: self.window,
            connect_timeout: MeshConfig::CONNECT_TIMEOUT,
        })
    }
}

/// The most that an order may have, in bytes: with the code and data of a program that are in it.
const ORDER_LIMIT: usize = 256 << 20;
/// What a longer question is cut into.
const PIECE: usize = 2 << 20;
/// Bytes of what tells a question that comes in pieces from others.
const ID: usize = 16;

/// Asks a node for something.
///
/// # Errors
/// Its own, those of the connection, and `UNSUPPORTED` for a question that is too long.
pub(crate) fn call<T: for<'a> Deserialize<'a>>(
    listener: &Listener,
    token: &Token,
    node: &str,
    action: &str,
    question: &impl Serialize,
    within: Duration,
) -> Result<T, Diagnostic> {
    let body = to_json(question)?;
    let ask = |action: &str, body: Bytes| listener.call(token, node, action, body, within);
    if body.len() <= CONTROL_LIMIT {
        return from_json(&ask(action, body)?);
    }
    if body.len() > ORDER_LIMIT {
        let (has, most) = (body.len() >> 20, ORDER_LIMIT >> 20);
        let message = format!("code and data of the program have {has} MiB, and nodes are sent at most {most} MiB");
        return Err(Diagnostic::new(code::UNSUPPORTED, message)
            .advise("write large tables to files that all nodes see, such as Parquet, and read them from there"));
    }
    let id = Token::random()?.reveal().as_bytes()[..ID].to_vec();
    let with_id = |bytes: &[u8]| Bytes::from([id.as_slice(), bytes].concat());
    for piece in body.chunks(PIECE) {
        ask(PIECE_OF, with_id(piece))?;
    }
    from_json(&ask(ALL_OF, with_id(action.as_bytes()))?)
}

/// The action that has the next piece of a long question.
const PIECE_OF: &str = "piece";
/// The action that has the name of one whose question has come in pieces.
const ALL_OF: &str = "all";

/// A long question, as far as it has come: one at a time, so that what nobody finishes is not kept.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<(Vec<u8>, Vec<u8>)>);

impl Pieces {
    /// The action and its question: what has come is one, or the last part of one. `None`: it is a part, and not the last.
    ///
    /// # Errors
    /// `REFUSED` when another one has come in between.
    pub(crate) fn question(&self, action: &str, body: Bytes) -> Result<Option<(String, Bytes)>, Diagnostic> {
        if action != PIECE_OF && action != ALL_OF {
            return Ok(Some((action.into(), body)));
        }
        let (id, rest) = body.split_at_checked(ID).ok_or_else(|| refused("a piece of a question has no number"))?;
        let mut pieces = self.0.lock();
        let (of, bytes) = &mut *pieces;
        if action == ALL_OF {
            let whole = std::mem::take(bytes);
            if std::mem::take(of) != id {
                return Err(refused("another question has come before this one was complete"));
            }
            let action = String::from_utf8(rest.to_vec()).map_err(|_| refused("an action is no text"))?;
            return Ok(Some((action, whole.into())));
        }
        if of != id {
            (*of, *bytes) = (id.to_vec(), Vec::new());
        }
        if bytes.len() + rest.len() > ORDER_LIMIT {
            (*of, *bytes) = (Vec::new(), Vec::new());
            return Err(refused("a question is too long"));
        }
        bytes.extend_from_slice(rest);
        Ok(None)
    }
}

fn refused(what: &str) -> Diagnostic {
    Diagnostic::new(code::REFUSED, what)
}

/// A value as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<Bytes, Diagnostic> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Diagnostic::bug(format!("an order to a node: {e}")))
}

/// What JSON says.
pub(crate) fn from_json<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Diagnostic> {
    let other = |e| Diagnostic::new(code::NODES_DIFFER, format!("another version of Millstream is spoken: {e}"));
    serde_json::from_slice(bytes).map_err(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &[u8], rest: &[u8]) -> Bytes {
        [id, rest].concat().into()
    }

    #[test]
    fn a_long_question_comes_in_pieces() {
        let (pieces, id, other) = (Pieces::default(), [1; ID], [2; ID]);
        let short = Bytes::from_static(b"{}");
        assert_eq!(pieces.question("status", short.clone()).unwrap(), Some(("status".into(), short.clone())));
        assert_eq!(pieces.question(PIECE_OF, piece(&id, b"ab")).unwrap(), None);
        // A short one in between changes nothing.
        assert!(pieces.question("status", short).unwrap().is_some());
        assert_eq!(pieces.question(PIECE_OF, piece(&id, b"c")).unwrap(), None);
        let whole = pieces.question(ALL_OF, piece(&id, b"begin")).unwrap();
        assert_eq!(whole, Some(("begin".into(), Bytes::from_static(b"abc"))));
        assert_eq!(pieces.question(ALL_OF, piece(&id, b"begin")).unwrap_err().code, code::REFUSED);
        // One that is not finished makes room for the next.
        assert_eq!(pieces.question(PIECE_OF, piece(&id, b"ab")).unwrap(), None);
        assert_eq!(pieces.question(PIECE_OF, piece(&other, b"x")).unwrap(), None);
        assert_eq!(pieces.question(ALL_OF, piece(&id, b"begin")).unwrap_err().code, code::REFUSED);
        for damaged in [piece(&id[1..], b""), piece(&other, &[0xff])] {
            assert_eq!(pieces.question(ALL_OF, damaged).unwrap_err().code, code::REFUSED);
        }
    }
}
