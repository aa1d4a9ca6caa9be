//! The sender's side of a lane: one task, from the connection to the end.

use super::dial::{Ask, Client, Dial, Failure};
use super::mesh::{Item, Shared};
use super::service::{diagnostic_of, failure_of};
use crate::frame::{Assembler, Cutter, Frame, Kind, damaged};
use crate::transport::{Sent, lost};
use arrow_flight::FlightData;
use bytes::Bytes;
use futures_util::stream;
use millstream_types::Diagnostic;
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::Streaming;

/// Frames between the queue of a lane and HTTP/2.
const FRAMES: usize = 2;

/// Sends what is put into the lane to a node until it is over.
pub(super) async fn run(shared: Arc<Shared>, to: usize, dial: Dial) {
    let spoken = tokio::select! {
        _ = shared.stopped(to) => return,
        spoken = speak(&shared, to, &dial) => spoken,
    };
    match spoken {
        Ok(()) => shared.finish(to),
        Err(why) => shared.lose(to, why),
    }
}

async fn speak(shared: &Shared, to: usize, dial: &Dial) -> Result<(), Diagnostic> {
    let config = shared.config();
    let hello = serde_json::to_vec(&config.hello(to)).map_err(|error| Diagnostic::bug(error.to_string()))?;
    let opening = Opening { hello: hello.into(), to };
    let mut opened = dial.within(&config.peers[to], config.connect_timeout, &opening).await?;
    tokio::select! {
        read = read(shared, to, &mut opened.grants) => read,
        () = write(shared, to, opened.frames, opened.cutter) => Ok(()),
    }
}

struct Opened {
    cutter: Cutter,
    frames: mpsc::Sender<FlightData>,
    grants: Streaming<FlightData>,
}

/// A frame for gRPC.
pub(super) fn flight_data(frame: Frame) -> FlightData {
    let header = Bytes::copy_from_slice(&frame.header());
    FlightData { app_metadata: header, data_body: frame.body, ..FlightData::default() }
}

/// Says hello, and hears whether the node takes the stream.
struct Opening {
    hello: Bytes,
    to: usize,
}

impl Ask for Opening {
    type Answer = Opened;

    async fn ask(&self, mut client: Client) -> Result<Opened, Failure> {
        let (frames, mut waiting) = mpsc::channel(FRAMES);
        let mut cutter = Cutter::default();
        for frame in cutter.cut(Kind::Hello, self.hello.clone()) {
            // There is room for it, and if there is nobody any more, the answer says why.
            let _ = frames.try_send(flight_data(frame));
        }
        match client.do_exchange(stream::poll_fn(move |cx| waiting.poll_recv(cx))).await {
            Ok(response) => Ok(Opened { cutter, frames, grants: response.into_inner() }),
            Err(status) => Err(failure_of(&status, self.to)),
        }
    }
}

/// Sends what may be sent. Ends never: what the other side says decides.
async fn write(shared: &Shared, to: usize, frames: mpsc::Sender<FlightData>, mut cutter: Cutter) {
    'lane: loop {
        let (kind, message) = match shared.next(to).await {
            Item::Message(message, Sent::Data) => (Kind::Data, message),
            Item::Message(message, Sent::Mark) => (Kind::Mark, message),
            Item::End => (Kind::End, Bytes::new()),
        };
        for frame in cutter.cut(kind, message) {
            if frames.send(flight_data(frame)).await.is_err() {
                break 'lane;
            }
        }
        if kind == Kind::End {
            break;
        }
    }
    // The stream stays open for the answer.
    std::future::pending().await
}

/// Takes credit back until the other side says that it has everything.
async fn read(shared: &Shared, to: usize, grants: &mut Streaming<FlightData>) -> Result<(), Diagnostic> {
    let mut assembler = Assembler::default();
    loop {
        let data = grants.message().await.map_err(|status| diagnostic_of(&status, to))?;
        let data = data.ok_or_else(|| lost(to, "it has closed the connection"))?;
        let taken = assembler.take(Frame::read(&data.app_metadata, data.data_body)?)?;
        match taken.message {
            Some((Kind::Grant, bytes)) => {
                let bytes = <[u8; 8]>::try_from(bytes.as_ref()).map_err(|_| damaged("a grant is not a number"))?;
                shared.granted(to, u64::from_le_bytes(bytes)).map_err(|violation| damaged(violation.0))?;
            }
            Some((Kind::End, _)) => return Ok(()),
            _ => return Err(damaged("a receiver sends grants alone")),
        }
    }
}
