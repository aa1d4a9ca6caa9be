//! Connections whose clients do not read: they end, so that no client keeps a place for good.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Since when a connection cannot be written to; `None` while it can.
#[derive(Clone, Default)]
pub(crate) struct Stalled(Arc<Mutex<Option<Instant>>>);

impl Stalled {
    /// Until it could not be written to for so long.
    pub(crate) async fn wait(&self, most: Duration) {
        loop {
            let since = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let left = since.map_or(most, |since| most.saturating_sub(since.elapsed()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    fn note<T>(&self, poll: &Poll<T>) {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match poll {
            Poll::Pending => *since = since.or_else(|| Some(Instant::now())),
            Poll::Ready(_) => *since = None,
        }
    }
}

/// A connection that notes when it cannot be written to.
pub(crate) struct Noting<S> {
    stream: S,
    stalled: Stalled,
}

impl<S> Noting<S> {
    pub(crate) fn new(stream: S) -> (Noting<S>, Stalled) {
        let stalled = Stalled::default();
        (Noting { stream, stalled: stalled.clone() }, stalled)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noting<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noting<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.stalled.note(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.stalled.note(&flushed);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
