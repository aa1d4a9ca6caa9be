//! Nodes in processes of their own, over Arrow Flight.
//!
//! ```text
//! node a                                        node b
//! mesh ─ lane to b ── DoExchange: hello, data, marks, end ──► listener ─► mesh ─► Inbound
//!                  ◄─ grants, end, or the reason of a refusal ─
//! caller ──────────── DoAction: action, JSON ───────────────► listener ─► Control
//! ```
//!
//! A process has one [`Listener`], bound once. Each attempt of a job has a [`Mesh`] on it, which replaces the one before: streams of older attempts are
//! closed and refused. Where nodes send each other nothing the first one has a mesh with each of the others, and each of these can be replaced by itself. Each ordered pair of nodes has a connection. What is lost stays lost within an attempt: nothing is sent twice.
//!
//! A frame is a `FlightData`, its header in `app_metadata`, its body in `data_body`.
//!
//! **Security.** Whoever listens on more than the loopback has TLS, or has said `insecure`. TLS is 1.3, with certificates on both sides. Each stream begins with the job's token,
//! each call has that of the listener; they are compared in constant time, and shown nowhere.
//!
//! **Detection.** A closed stream is noticed at once; a machine that is gone, by pings of HTTP/2 every 2 s, after 6 s more.
//!
//! **Memory.** What is held for a message is dropped when HTTP/2 takes its last frame. From then on HTTP/2 has at most its window for a lane; of a lane that is
//! lost it also has up to two frames, until its connection is closed.
//!
//! Threads: two for input and output of a listener, of its own runtime, and as many as there are calls in progress.

mod attempt;
mod control;
mod dial;
mod framing;
mod handshake;
mod io;
mod lanes;
mod listener;
mod mesh;
mod reasons;
mod receiving;
mod sending;
mod service;
#[cfg(test)]
mod tests;
mod tls;
mod token;

pub use attempt::MeshConfig;
pub use control::{CONTROL_LIMIT, Caller, Control};
pub use listener::{ListenConfig, Listener};
pub use mesh::Mesh;
pub use tls::TlsPaths;
pub use token::Token;
