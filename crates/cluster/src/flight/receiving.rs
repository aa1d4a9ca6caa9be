//! The receiver's side of a lane: one task, from the handshake to the end.

use super::framing::{flight_data, frame_of};
use super::io::HANDSHAKE_TIMEOUT;
use super::lanes::Shared;
use super::reasons::{diagnostic_of, status_of};
use crate::credit::{Incoming, cost};
use crate::frame::{Assembler, Cutter, Kind, damaged};
use crate::transport::{Credit, Returns, lost};
use arrow_flight::FlightData;
use bytes::Bytes;
use futures_util::{Stream, stream};
use millstream_types::Diagnostic;
use parking_lot::Mutex;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tonic::{Status, Streaming};

/// What goes back to the sender. Few are on their way: grants are of a quarter of the window, or of all that was held.
enum Reply {
    Frame(FlightData),
    End(FlightData),
    Broken(Status),
}

/// The account of a lane, and the way back to its sender.
pub(super) struct Account {
    state: Mutex<(Incoming, Cutter)>,
    replies: UnboundedSender<Reply>,
}

impl Account {
    fn frame(cutter: &mut Cutter, kind: Kind, body: Bytes) -> Option<FlightData> {
        cutter.cut(kind, body).next().map(flight_data)
    }

    /// The sender has brought everything.
    fn end(&self) {
        if let Some(frame) = Account::frame(&mut self.state.lock().1, Kind::End, Bytes::new()) {
            let _ = self.replies.send(Reply::End(frame));
        }
    }

    fn refuse(&self, why: &Diagnostic) {
        let _ = self.replies.send(Reply::Broken(status_of(why)));
    }
}

impl Returns for Account {
    fn returned(&self, cost: u64) {
        let (incoming, cutter) = &mut *self.state.lock();
        // Sent under the lock, as frames are numbered. A sender that is gone needs no credit.
        if let Some(bytes) = incoming.released(cost)
            && let Some(frame) = Account::frame(cutter, Kind::Grant, Bytes::copy_from_slice(&bytes.to_le_bytes()))
        {
            let _ = self.replies.send(Reply::Frame(frame));
        }
    }
}

/// What the sender reads.
pub(super) type Replies = std::pin::Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

fn stream_of(mut replies: UnboundedReceiver<Reply>) -> Replies {
    let mut is_over = false;
    Box::pin(stream::poll_fn(move |cx| {
        if is_over {
            return Poll::Ready(None);
        }
        let reply = std::task::ready!(replies.poll_recv(cx));
        is_over = !matches!(reply, Some(Reply::Frame(_)));
        Poll::Ready(reply.map(|reply| match reply {
            Reply::Frame(frame) | Reply::End(frame) => Ok(frame),
            Reply::Broken(status) => Err(status),
        }))
    }))
}

/// Begins to receive what follows the handshake of a node.
pub(super) fn start(shared: Arc<Shared>, from: usize, frames: Streaming<FlightData>, assembler: Assembler) -> Replies {
    let (replies, waiting) = unbounded_channel();
    let state = Mutex::new((Incoming::new(shared.config().window), Cutter::default()));
    tokio::spawn(run(shared, from, frames, assembler, Arc::new(Account { state, replies })));
    stream_of(waiting)
}

async fn run(
    shared: Arc<Shared>,
    from: usize,
    mut frames: Streaming<FlightData>,
    mut assembler: Assembler,
    account: Arc<Account>,
) {
    let received = tokio::select! {
        why = shared.stopped(from) => return account.refuse(&why),
        received = receive(&shared, from, &mut frames, &mut assembler, &account) => received,
    };
    match received {
        Ok(()) => {
            shared.doorway(from).end();
            account.end();
            // Until the sender has the answer.
            let _ = tokio::time::timeout(HANDSHAKE_TIMEOUT, frames.message()).await;
        }
        Err(why) => {
            account.refuse(&why);
            shared.lose(from, why);
        }
    }
}

/// Hands over what comes, until the sender has ended.
async fn receive(
    shared: &Shared,
    from: usize,
    frames: &mut Streaming<FlightData>,
    assembler: &mut Assembler,
    account: &Arc<Account>,
) -> Result<(), Diagnostic> {
    loop {
        let data = frames.message().await.map_err(|status| diagnostic_of(&status, from))?;
        let data = data.ok_or_else(|| lost(from, "it has closed the connection"))?;
        let taken = assembler.take(frame_of(data)?)?;
        if let Some(bytes) = taken.begun {
            let cost = cost(bytes as usize);
            account.state.lock().0.arrived(cost).map_err(|violation| damaged(violation.0))?;
        }
        match taken.message {
            None => {}
            Some((Kind::Data, message)) => {
                let credit = Credit::new(cost(message.len()), Arc::clone(account) as _);
                shared.doorway(from).receive(message, credit);
            }
            Some((Kind::Mark, message)) => shared.doorway(from).receive(message, Credit::none()),
            Some((Kind::End, _)) => return Ok(()),
            Some((Kind::Hello | Kind::Grant, _)) => return Err(damaged("it has no place here")),
        }
    }
}
