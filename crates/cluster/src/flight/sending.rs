//! The sender's side of a lane: one task, from the connection to the end.

use super::dial::{Ask, Client, Dial, Failure};
use super::framing::{flight_data, frame_of};
use super::lanes::{Lane, Shared};
use super::reasons::diagnostic_of;
use crate::frame::{Assembler, Cutter, Kind, damaged};
use crate::transport::lost;
use arrow_flight::FlightData;
use bytes::Bytes;
use futures_util::stream;
use millstream_types::Diagnostic;
use std::sync::Arc;
use std::task::{Poll, ready};
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
    let lane = shared.lane(to);
    let opening = Opening { hello: hello.into(), to, lane };
    let mut opened = dial.within(&config.peers[to], config.connect_timeout, &opening).await?;
    tokio::select! {
        read = read(lane, to, &mut opened.grants) => read,
        () = write(lane, opened.frames, opened.cutter) => Ok(()),
    }
}

struct Opened {
    cutter: Cutter,
    frames: mpsc::Sender<Departure>,
    grants: Streaming<FlightData>,
}

/// A frame between a lane and its connection.
struct Departure {
    data: FlightData,
    /// With it, a message has left.
    ends_message: bool,
}

/// Says hello, and hears whether the node takes the stream.
struct Opening<'a> {
    hello: Bytes,
    to: usize,
    lane: &'a Arc<Lane>,
}

impl Ask for Opening<'_> {
    type Answer = Opened;

    async fn ask(&self, mut client: Client) -> Result<Opened, Failure> {
        let (frames, mut waiting) = mpsc::channel(FRAMES);
        let mut cutter = Cutter::default();
        for frame in cutter.cut(Kind::Hello, self.hello.clone()) {
            // There is room for it, and if there is nobody any more, the answer says why.
            let _ = frames.try_send(Departure { data: flight_data(frame), ends_message: false });
        }
        // The connection keeps this as long as it likes, so it has the lane alone, and not what receives.
        let lane = Arc::clone(self.lane);
        let departing = stream::poll_fn(move |cx| {
            let departure = ready!(waiting.poll_recv(cx));
            if departure.as_ref().is_some_and(|departure| departure.ends_message) {
                lane.left();
            }
            Poll::Ready(departure.map(|departure| departure.data))
        });
        match client.do_exchange(departing).await {
            Ok(response) => Ok(Opened { cutter, frames, grants: response.into_inner() }),
            Err(status) => Err(Failure::of(&status, self.to)),
        }
    }
}

/// Sends what may be sent. Ends never: what the other side says decides.
async fn write(lane: &Lane, frames: mpsc::Sender<Departure>, mut cutter: Cutter) {
    'lane: loop {
        let (kind, message) = lane.next().await;
        for frame in cutter.cut(kind, message) {
            let ends_message = frame.is_last && kind != Kind::End;
            if frames.send(Departure { data: flight_data(frame), ends_message }).await.is_err() {
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
async fn read(lane: &Lane, to: usize, grants: &mut Streaming<FlightData>) -> Result<(), Diagnostic> {
    let mut assembler = Assembler::default();
    loop {
        let data = grants.message().await.map_err(|status| diagnostic_of(&status, to))?;
        let data = data.ok_or_else(|| lost(to, "it has closed the connection"))?;
        let taken = assembler.take(frame_of(data)?)?;
        match taken.message {
            Some((Kind::Grant, bytes)) => {
                let bytes = <[u8; 8]>::try_from(bytes.as_ref()).map_err(|_| damaged("a grant is not a number"))?;
                lane.granted(u64::from_le_bytes(bytes)).map_err(|violation| damaged(violation.0))?;
            }
            Some((Kind::End, _)) => return Ok(()),
            _ => return Err(damaged("a receiver sends grants alone")),
        }
    }
}
