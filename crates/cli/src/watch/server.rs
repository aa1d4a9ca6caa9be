//! The server behind `--http`.

use super::{Watched, metrics};
use crate::failure::Failure;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, serve};
use millstream::{Diagnostic, code};
use serde_json::json;
use std::net::{SocketAddr, ToSocketAddrs};

/// What is served where.
const PATHS: &str = "/metrics (Prometheus), /health, /ready, /stats (JSON)";

/// A server that ends with the process, or when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    _runtime: tokio::runtime::Runtime,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Listens at `address`: a port, which is one of this machine only, or a host with a port.
    pub(crate) fn start(address: &str, watched: Watched) -> Result<Server, Failure> {
        let wrong = |why: String| {
            let message = format!("--http {address}: {why}");
            if why.contains("in use") {
                let advice = "another program listens there: end it, or give another port, such as --http 9465";
                return Failure::usage(Diagnostic::new(code::USAGE, message).advise(advice));
            }
            Failure::usage(Diagnostic::new(code::USAGE, message).advise(
                "give a port, such as 9464, for this machine alone, or host:port, such as 0.0.0.0:9464, for others as well",
            ))
        };
        let full = match address.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}"),
            Err(_) => address.strip_prefix(':').map_or_else(|| address.to_string(), |port| format!("127.0.0.1:{port}")),
        };
        let resolved = full.to_socket_addrs().map_err(|e| wrong(e.to_string()))?.next();
        let resolved = resolved.ok_or_else(|| wrong("the host has no address".into()))?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().thread_name("http").build();
        let runtime = runtime.map_err(|e| wrong(e.to_string()))?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(resolved)).map_err(|e| wrong(e.to_string()))?;
        let address = listener.local_addr().map_err(|e| wrong(e.to_string()))?;
        let routes = Router::new()
            .route("/metrics", get(page))
            .route("/health", get(health))
            .route("/ready", get(ready))
            .route("/stats", get(stats))
            .fallback(async || (StatusCode::NOT_FOUND, format!("there is {PATHS}\n")))
            .with_state(watched);
        // It serves until the runtime is dropped; an error of a connection is that client's.
        runtime.spawn(async move { serve(listener, routes).await });
        Ok(Server { _runtime: runtime, address })
    }
}

async fn page(State(watched): State<Watched>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, metrics::page(&watched.snapshots())).into_response()
}

/// The process answers: it is for restarting one that hangs.
async fn health() -> &'static str {
    "ok\n"
}

/// Whether all jobs have begun: then rows can be sent.
async fn ready(State(watched): State<Watched>) -> Response {
    let waiting: Vec<String> = watched.snapshots().iter().filter_map(|job| job.waits_for()).collect();
    match waiting.is_empty() {
        true => "ready\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, waiting.join("\n") + "\n").into_response(),
    }
}

/// The statistics of docs/statistics.md, by job.
async fn stats(State(watched): State<Watched>) -> Response {
    let jobs: Vec<_> = watched
        .snapshots()
        .iter()
        .map(|job| json!({"job": job.name, "restarts": job.restarts, "stats": job.stats}))
        .collect();
    ([(header::CONTENT_TYPE, "application/json")], json!(jobs).to_string()).into_response()
}
