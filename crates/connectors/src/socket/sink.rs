//! The `socket` sink: pieces written to one connection.

use super::STALL;
use super::endpoint::{Endpoint, is_wait};
use super::source::no_stream;
use crate::format::{Format, StreamOutput};
use crate::text_chunk::whole;
use crate::{Encoded, Encoder, Sink, SinkRequest};
use millstream_types::{Diagnostic, code};
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens the sink. A client connects now, a server waits for its peer when there is something to write.
pub(super) fn open(request: &SinkRequest) -> Result<Box<dyn Sink>, Diagnostic> {
    let options = &request.options;
    let format = Format::of(options)?;
    let output = (format.stream_output)(request)?.ok_or_else(|| no_stream(format))?;
    let stall = STALL.duration(options)?;
    if stall.is_zero() {
        return Err(options.invalid(STALL.key, "longer than nothing"));
    }
    let endpoint = Endpoint::open(options, 1, Some(Duration::from_secs(60)))?;
    let mut sink = SocketSink { output, endpoint, stall, stream: None };
    if options.get("mode") != Some("server") {
        sink.connected()?;
    }
    Ok(Box::new(sink))
}

struct SocketSink {
    output: StreamOutput,
    endpoint: Endpoint,
    stall: Duration,
    stream: Option<TcpStream>,
}

impl SocketSink {
    /// The connection, once there is one.
    fn connected(&mut self) -> Result<&mut TcpStream, Diagnostic> {
        let since = Instant::now();
        while self.stream.is_none() {
            if let Some(mut stream) = self.endpoint.connection(since)? {
                let set = stream.set_write_timeout(Some(self.stall)).and_then(|()| stream.set_nodelay(true));
                set.and_then(|()| stream.write_all(&self.output.header)).map_err(|e| self.failed(&e))?;
                self.stream = Some(stream);
            }
        }
        Ok(self.stream.as_mut().expect("connected above"))
    }

    fn put(&mut self, data: &[u8]) -> Result<(), Diagnostic> {
        let written = self.connected()?.write_all(data);
        written.map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &io::Error) -> Diagnostic {
        let place = whole(self.endpoint.name());
        if is_wait(error) {
            let message = format!("the peer of '{}' has taken nothing for {:?}", self.endpoint.name(), self.stall);
            return Diagnostic::new(code::WRITE_FAILED, message)
                .at(place)
                .advise("see why it stands still, or raise 'sink.timeout'");
        }
        self.endpoint.lost(error).at(place)
    }
}

impl Sink for SocketSink {
    fn encoder(&self) -> Arc<dyn Encoder> {
        self.output.encoder.clone()
    }

    fn write(&mut self, piece: Encoded) -> Result<(), Diagnostic> {
        self.put(&piece.into_bytes()?)
    }

    fn flush(&mut self) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), Diagnostic> {
        let trailer = self.output.trailer;
        self.put(trailer)?;
        let closed = self.connected()?.shutdown(Shutdown::Write);
        closed.map_err(|e| self.failed(&e))
    }
}
