//! What all connections share: the threads that read and write, and the numbers of both sides.

use crate::frame::{BODY_LIMIT, HEADER_LIMIT};
use millstream_types::{Diagnostic, code};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Between pings.
pub(super) const PING: Duration = Duration::from_secs(2);
/// How long the answer to a ping may take.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(6);
/// How long the first steps of a connection may take.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long dropping a listener waits for calls in progress.
const SHUTDOWN: Duration = Duration::from_millis(200);
/// What HTTP/2 has on its way for a stream, in bytes: two frames.
pub(super) const STREAM_WINDOW: u32 = 4 << 20;
/// What HTTP/2 writes at once, in bytes: its default of 16 KiB costs a system call for each.
pub(super) const HTTP_FRAME: u32 = 256 << 10;
/// What a message of gRPC may have, in bytes.
pub(super) const GRPC_LIMIT: usize = BODY_LIMIT + HEADER_LIMIT + 4096;

/// The threads that read and write.
pub(super) struct Io(Option<Runtime>);

impl Io {
    pub(super) fn start(threads: usize, calls: usize) -> Result<Io, Diagnostic> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).max_blocking_threads(calls).thread_name("cluster").enable_all();
        let runtime = builder.build();
        let failed = |error| Diagnostic::new(code::LISTEN_FAILED, format!("threads for the network: {error}"));
        Ok(Io(Some(runtime.map_err(failed)?)))
    }

    pub(super) fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        let Some(runtime) = self.0.take() else { return };
        match Handle::try_current() {
            // A thread of a runtime must not wait, least of all for itself.
            Ok(_) => runtime.shutdown_background(),
            // Sockets are closed then. What a call has asked for may take longer.
            Err(_) => runtime.shutdown_timeout(SHUTDOWN),
        }
    }
}
