//! What a listener answers: streams of nodes and calls, and nothing else of Flight.

use super::attempt::Hello;
use super::control::{self, Control};
use super::framing::frame_of;
use super::handshake::{Serving, Verdict};
use super::io::{GRPC_LIMIT, HANDSHAKE_TIMEOUT, HTTP_FRAME, PING, PING_TIMEOUT, STREAM_WINDOW};
use super::reasons::{not_yet, status_of};
use super::receiving::{self, Replies};
use super::tls::{Connection, Tls};
use super::token::Token;
use crate::frame::{Assembler, Kind, VERSION, damaged};
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use millstream_types::{Diagnostic, code};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

/// Connections whose TLS is being set up.
const HANDSHAKES: usize = 64;

pub(super) struct Service {
    pub(super) serving: Arc<Mutex<Serving>>,
    pub(super) token: Token,
    pub(super) control: Option<Arc<dyn Control>>,
}

impl Service {
    /// Serves what connects.
    pub(super) async fn serve(self, socket: TcpListener, tls: Option<Tls>) {
        let (ready, mut connections) = mpsc::channel(HANDSHAKES);
        tokio::spawn(accept(socket, tls, ready));
        let service =
            FlightServiceServer::new(self).max_decoding_message_size(GRPC_LIMIT).max_encoding_message_size(GRPC_LIMIT);
        let server = Server::builder()
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(STREAM_WINDOW)
            .max_frame_size(HTTP_FRAME)
            .add_service(service);
        // It ends with the runtime; errors of single connections end those.
        let _ = server.serve_with_incoming(stream::poll_fn(move |cx| connections.poll_recv(cx))).await;
    }

    async fn exchange(&self, mut frames: Streaming<FlightData>) -> Result<Replies, Status> {
        let first = timeout(HANDSHAKE_TIMEOUT, frames.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello"))??;
        let mut assembler = Assembler::default();
        let hello = first.ok_or_else(|| damaged("there is none")).and_then(|data| {
            let taken = assembler.take(frame_of(data)?)?;
            let Some((Kind::Hello, hello)) = taken.message else { return Err(damaged("it is no hello")) };
            // Its error would quote what may be the token.
            serde_json::from_slice::<Hello>(&hello).map_err(|_| damaged("its hello cannot be read"))
        });
        let hello = hello.map_err(|why| status_of(&why))?;
        if hello.protocol != VERSION {
            let text = format!("a node speaks version {} of the protocol, this one {VERSION}", hello.protocol);
            return Err(status_of(&Diagnostic::new(code::NODES_DIFFER, text)));
        }
        let verdict = self.serving.lock().judge(&hello);
        match verdict {
            Verdict::Welcome(shared) => Ok(receiving::start(shared, hello.from, frames, assembler)),
            Verdict::NotYet => Err(not_yet()),
            Verdict::Refused(why) => Err(status_of(&why)),
        }
    }
}

/// Takes connections, and sets TLS up.
async fn accept(socket: TcpListener, tls: Option<Tls>, ready: mpsc::Sender<io::Result<Connection>>) {
    let handshakes = Arc::new(tokio::sync::Semaphore::new(HANDSHAKES));
    loop {
        let Ok(handshake) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let Ok((socket, _)) = socket.accept().await else {
            // Out of file descriptors, for example: there may be some later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        let (tls, ready) = (tls.clone(), ready.clone());
        tokio::spawn(async move {
            let connection = match &tls {
                None => Ok(Ok(Connection::plain(socket))),
                Some(tls) => timeout(HANDSHAKE_TIMEOUT, tls.accept(socket)).await,
            };
            drop(handshake);
            // Who is not accepted has been told by TLS.
            if let Ok(Ok(connection)) = connection {
                let _ = ready.send(Ok(connection)).await;
            }
        });
    }
}

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("a node of Millstream has streams of nodes and calls alone"))
}

type Answers<T> = BoxStream<'static, Result<T, Status>>;

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoExchangeStream = Replies;
    type DoActionStream = Answers<arrow_flight::Result>;
    type ListActionsStream = Answers<ActionType>;

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Replies>, Status> {
        self.exchange(request.into_inner()).await.map(Response::new)
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        control::check_token(&self.token, request.metadata()).map_err(|why| status_of(&why))?;
        let Action { r#type, body } = request.into_inner();
        let answer: Bytes = control::answer(self.control.clone(), r#type, body).await;
        Ok(Response::new(Box::pin(stream::iter([Ok(arrow_flight::Result { body: answer })]))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        absent()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        absent()
    }

    async fn get_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        absent()
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        absent()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        absent()
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        absent()
    }

    async fn do_put(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        absent()
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        absent()
    }
}
