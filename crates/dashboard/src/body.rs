//! The bodies of requests: how large they may be, and how long they may take.

use crate::rejection::Rejection;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::StatusCode;
use futures_util::StreamExt;
use std::time::Duration;

/// How long the body of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read of a body beyond its most, and left out: a client that is closed on while it sends sees a broken connection, not the
/// answer.
const LEFT_OUT: usize = 8 << 20;

/// The body of a request, which has `most` bytes at most.
pub(crate) async fn body(request: Request, most: usize) -> Result<Vec<u8>, Rejection> {
    let too_large =
        || Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body is larger than {} KiB", most >> 10));
    let body = request.into_body();
    if body.size_hint().lower() > (most + LEFT_OUT) as u64 {
        return Err(too_large());
    }
    let (mut pieces, mut bytes, mut length) = (body.into_data_stream(), Vec::new(), 0);
    let all = async {
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            length += piece.len();
            if length <= most {
                bytes.extend_from_slice(&piece);
            } else if length > most + LEFT_OUT {
                break;
            }
        }
        Ok::<(), axum::Error>(())
    };
    match tokio::time::timeout(PATIENCE, all).await {
        _ if length > most => Err(too_large()),
        Ok(Ok(())) => Ok(bytes),
        Ok(Err(_)) => Err(Rejection::new(StatusCode::BAD_REQUEST, "the body has ended too early")),
        Err(_) => Err(Rejection::new(StatusCode::REQUEST_TIMEOUT, "the body has not come")),
    }
}
