//! Streams by hand: what is wrong with a frame is found, and told to both ends.

use super::super::dial::{Ask, Client, Failure};
use super::super::framing::flight_data;
use super::super::reasons::diagnostic_of;
use super::*;
use crate::frame::{Cutter, Kind};
use arrow_flight::FlightData;
use futures_util::{StreamExt, stream};

/// A stream that sends frames behind its hello and then nothing more, and stays open. With a hello alone it is closed at once.
struct ByHand(Vec<FlightData>);

impl Ask for ByHand {
    type Answer = Option<Diagnostic>;

    async fn ask(&self, mut client: Client) -> Result<Option<Diagnostic>, Failure> {
        let (frames, is_silent) = (self.0.clone(), self.0.len() == 1);
        let open = stream::pending().take(usize::from(!is_silent));
        let frames = stream::iter(frames).chain(open);
        let mut replies = match client.do_exchange(frames).await {
            Ok(response) => response.into_inner(),
            Err(status) => return Err(Failure::of(&status, 9)),
        };
        loop {
            match if is_silent { Ok(None) } else { replies.message().await } {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(None),
                Err(status) => return Ok(Some(diagnostic_of(&status, 9))),
            }
        }
    }
}

fn hello(config: &MeshConfig, cutter: &mut Cutter) -> FlightData {
    let hello = serde_json::to_vec(&config.hello(0)).unwrap();
    flight_data(cutter.cut(Kind::Hello, hello.into()).next().unwrap())
}

/// Why a node does not take a stream, or what it says to its frames. Without frames the stream is dropped once it has been taken.
pub(super) fn stream_to(listener: &Listener, config: &MeshConfig, frames: Vec<FlightData>) -> Option<Diagnostic> {
    let mut all = vec![hello(config, &mut Cutter::default())];
    all.extend(frames);
    ask(listener, all)
}

fn ask(listener: &Listener, frames: Vec<FlightData>) -> Option<Diagnostic> {
    let (address, stream) = (listener.address().to_string(), ByHand(frames));
    let asked = listener.dial.within(&address, PATIENCE, &stream);
    listener.handle().block_on(asked).unwrap_or_else(Some)
}

/// A node 0 of two, whose node 1 is made by hand.
pub(super) fn node() -> (Vec<Listener>, Vec<Arc<Recorder>>, Mesh, MeshConfig) {
    let (listeners, recorders) = (listeners(2, None), Recorder::several(2));
    let mesh = listeners[0].mesh(config(&listeners, 0), Arc::clone(&recorders[0]) as _).unwrap();
    let config = config(&listeners, 1);
    (listeners, recorders, mesh, config)
}

/// Good frames behind a hello: a message, a mark, a message.
fn good() -> Vec<FlightData> {
    let mut cutter = Cutter::default();
    let _hello = cutter.cut(Kind::Hello, Bytes::new()).count();
    let mut frames = vec![];
    for (kind, text) in [(Kind::Data, "one"), (Kind::Mark, "two"), (Kind::Data, "three")] {
        frames.extend(cutter.cut(kind, Bytes::from_static(text.as_bytes())).map(flight_data));
    }
    frames
}

/// Both ends hear of what is wrong with frames, and what was before it has come.
fn refused(change: impl FnOnce(&mut Vec<FlightData>), before: usize) {
    let (listeners, recorders, _mesh, config) = node();
    let mut frames = good();
    change(&mut frames);
    assert_eq!(stream_to(&listeners[0], &config, frames).unwrap().code, code::DAMAGED_FRAME);
    assert_eq!(recorders[0].wait_lost().code, code::DAMAGED_FRAME);
    assert_eq!(recorders[0].count(1), before);
}

fn flipped(bytes: &Bytes, at: usize) -> Bytes {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 4;
    bytes.into()
}

#[test]
fn damaged_frames_end_the_lane() {
    refused(|frames| frames[1].data_body = flipped(&frames[1].data_body, 1), 1);
    refused(|frames| frames[2].app_metadata = flipped(&frames[2].app_metadata, 9), 2);
    refused(|frames| frames[0].app_metadata.truncate(20), 0);
    refused(|frames| frames[2].data_body.truncate(2), 2);
    refused(|frames| drop(frames.remove(1)), 1);
    refused(|frames| frames.push(FlightData::default()), 3);
    refused(|frames| frames[0] = hello(&config(&[], 1), &mut Cutter::default()), 0);
}

#[test]
fn who_sends_without_credit_is_refused() {
    let (listeners, recorders, _mesh, config) = node();
    recorders[0].hold(true);
    let mut cutter = Cutter::default();
    let mut frames = vec![hello(&config, &mut cutter)];
    for _ in 0..3 {
        frames.extend(cutter.cut(Kind::Data, vec![0; 600_000].into()).map(flight_data));
    }
    let why = ask(&listeners[0], frames).unwrap();
    assert!(why.code == code::DAMAGED_FRAME && why.message.contains("credit"), "{why}");
    assert_eq!(recorders[0].count(1), 1);
}

#[test]
fn damaged_hellos_are_refused() {
    let (listeners, _recorders, _mesh, config) = node();
    let good = hello(&config, &mut Cutter::default());
    let ask = |change: &dyn Fn(&mut FlightData)| {
        let mut hello = good.clone();
        change(&mut hello);
        ask(&listeners[0], vec![hello]).unwrap().code
    };
    for at in 0..good.app_metadata.len() {
        let code = ask(&|hello| hello.app_metadata = flipped(&hello.app_metadata, at));
        assert_eq!(code, if at == 0 { code::NODES_DIFFER } else { code::DAMAGED_FRAME }, "byte {at}");
    }
    assert_eq!(ask(&|hello| hello.data_body = flipped(&hello.data_body, 3)), code::DAMAGED_FRAME);
    assert_eq!(ask(&|hello| *hello = FlightData::default()), code::DAMAGED_FRAME);
    let nonsense = Cutter::default().cut(Kind::Hello, Bytes::from_static(b"{}")).map(flight_data).next().unwrap();
    assert_eq!(ask(&|hello| *hello = nonsense.clone()), code::DAMAGED_FRAME);
    // The number is not taken by any of them.
    assert_eq!(stream_to(&listeners[0], &config, vec![]), None);
}
